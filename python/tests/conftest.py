"""What the tests share: the repository's judged pairs, and the binary that came with the wheel."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def cases():
    """The judged pairs that the Rust tests are held to."""
    with open(ROOT / "datasets/tests/math.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def binary():
    """The binary `tealight` of this environment, or $TEALIGHT."""
    beside = Path(sys.executable).parent / "tealight"
    found = os.environ.get("TEALIGHT") or (str(beside) if beside.exists() else shutil.which("tealight"))
    if not found:
        pytest.skip("no binary `tealight`")
    return found
