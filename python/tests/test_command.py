"""`python -m tealight_rl` and `tealight-rl` start the binary that is installed beside them."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest


@pytest.mark.parametrize("command", [[sys.executable, "-m", "tealight_rl"], ["tealight-rl"]])
def test_the_wheel_audits_two_files(binary, tmp_path, command):
    script = Path(sysconfig.get_path("scripts")) / "tealight-rl"
    if not script.exists():
        pytest.skip("the module is not installed")
    for name, classes in [("base", "abab"), ("tuned", "aaaa")]:
        lines = [{"id": i, "gold": "2", "completions": ["2"] * 4, "class": list(classes)} for i in range(8)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = [str(script) if word == "tealight-rl" else word for word in command]
    done = subprocess.run(
        [*words, "audit", "base.jsonl", "tuned.jsonl", "--json", "--quiet"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    ways = json.loads(done.stdout)["tuned"][0]["strategies"]["ways"]
    assert ways[0]["by"] == "class of the file" and ways[0]["change"]["high"] < 0
    # It ends as the binary ends.
    assert subprocess.run([*words, "audit", "base.jsonl"], cwd=tmp_path, capture_output=True).returncode == 1
