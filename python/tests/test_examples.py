"""The notebook, cell by cell, and the Python of the book."""

import json
import os
import re
from pathlib import Path

import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "python/examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook(path, binary, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.setenv("PATH", f"{Path(binary).parent}{os.pathsep}{os.environ['PATH']}")
    names = {"__name__": "__main__"}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 5
    for number, source in enumerate(code):
        exec(compile(source, f"{path.name}, cell {number}", "exec"), names)


def test_a_python_verifier_in_the_binary(binary, tmp_path):
    """From Rust to Python: `--verifier python:FILE:FUNCTION` with our own module."""
    import subprocess
    import sys

    (tmp_path / "judge.py").write_text(
        "import tealight_rl\n\ndef judge(gold, completion):\n    verdict = tealight_rl.verify(gold, completion)\n"
        "    return {'verdict': 'correct' if verdict else 'wrong', 'class': verdict.solution}\n"
    )
    command = [binary, "verify", "--gold", "1/2", "--answer", "1/4+1/4 = 0.5", "--verifier", f"python:{tmp_path / 'judge.py'}:judge"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TEALIGHT_PYTHON": sys.executable})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["verdict"], found["class"]) == ("correct", "0.5")
