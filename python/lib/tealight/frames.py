"""What `tealight eval` and `tealight grade` wrote, as pandas DataFrames."""

from __future__ import annotations

import io
import json
import os
import warnings
from typing import Any, Union

from . import _tealight


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("DataFrames need pandas: pip install 'tealight[frames]'") from error
    return pandas


class Results:
    """An evaluation: `raw` is `results.json`, and `estimates`, `problems` and `samples` are DataFrames."""

    def __init__(self, directory: Union[str, "os.PathLike[str]"]) -> None:
        self.directory = os.fspath(directory)
        csv, text, self._files = _tealight.load(self.directory)
        self._csv = csv
        #: `results.json`, with what docs/results.md says of each key.
        self.raw: dict[str, Any] = json.loads(text)

    def __repr__(self) -> str:
        sets = ", ".join(one["name"] for one in self.raw["sets"])
        return f"Results({self.directory!r}: {self.raw['model']} on {sets})"

    @property
    def estimates(self) -> Any:
        """A row an estimate: model, set, domain, temperature, measure, k, value, low, high."""
        return _pandas().read_csv(io.StringIO(self._csv), dtype={"k": "str", "domain": "str"})

    @property
    def problems(self) -> Any:
        """A row a problem: set, problem, prompt, answer, samples, correct, pass@1, distinct (solutions), unjudged."""
        rows = []
        for one in self.raw["sets"]:
            questions = one["questions"] or [{"prompt": None, "answer": None}] * len(one["problems"])
            for question, tally in zip(questions, one["problems"]):
                samples = tally["samples"]
                rows.append({
                    "model": self.raw["model"], "set": one["name"], "temperature": one["temperature"],
                    "problem": tally["problem"], "prompt": question["prompt"], "answer": question["answer"],
                    "samples": samples, "correct": tally["correct"],
                    "pass@1": tally["correct"] / samples if samples else float("nan"),
                    "distinct": len(tally["classes"]["solution"]), "truncated": tally["truncated"],
                    "no_answer": tally["no_answer"], "unjudged": tally["unjudged"],
                })
        return _pandas().DataFrame(rows)

    @property
    def samples(self) -> Any:
        """A row a sample: model, set, problem, sample, completion, verdict, correct (missing where unjudged), ...

        The columns `problem`, `model` and `correct` are those that `tealight.compare` reads.
        """
        rows = []
        for name, paths in self._files:
            for path in paths:
                greedy = os.fspath(path).endswith(".greedy.jsonl")
                for line in _lines(os.fspath(path)):
                    verdict = line.get("verdict")
                    correct = None if verdict == "unjudged" else verdict == "correct" and line.get("is_finished", True)
                    rows.append({"model": self.raw["model"], "set": name, "greedy": greedy, **line, "correct": correct})
        frame = _pandas().DataFrame(rows)
        # Unjudged samples are missing, and no mean counts them.
        return frame.astype({"correct": "boolean"}) if rows else frame


def _lines(path: str) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; a last line that a crash cut off is left out, with a warning."""
    rows = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                if not line.endswith(b"\n"):
                    warnings.warn(f"{path}:{number}: the last line was cut off by a crash and is left out", stacklevel=3)
                    break
                raise ValueError(f"{path}:{number}: not a sample: {error}") from error
            if not isinstance(row, dict):
                raise ValueError(f"{path}:{number}: not a sample: not a JSON object")
            rows.append(row)
    return rows


def load(directory: Union[str, "os.PathLike[str]"]) -> Results:
    """Read the directory that `tealight eval --output` or `tealight grade --output` wrote.

    Example:
        results = tealight.load("runs/base")
        results.estimates.query("measure == 'pass@k'")
        results.samples.groupby("problem").correct.mean()
    """
    return Results(directory)
