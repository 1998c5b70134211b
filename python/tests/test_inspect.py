"""`--log-format inspect` as Inspect itself reads it."""

import json
import subprocess

import pytest

LINES = [
    {"id": "a", "completion": "it is \\boxed{2}", "gold": "2"},
    {"id": "a", "completion": "it is \\boxed{3}", "gold": "2"},
    {"id": "b", "completion": "attachment://0 </script>\u0000\u001b[31m \U0001f600", "gold": "4"},
    {"id": "b", "completion": "", "gold": "4"},
    {"id": "c", "completion": "\\boxed{1}", "gold": "\\frac{{{"},
]


def graded(binary, tmp_path, *options):
    file = tmp_path / "completions of mine.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    command = [binary, "grade", str(file), "--max-unjudged", "1", "--log-format", "inspect", *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_inspect_reads_our_samples(binary, tmp_path):
    log = pytest.importorskip("inspect_ai.log")
    output = tmp_path / "graded"
    for options in [[], ["--overwrite"]]:
        done = graded(binary, tmp_path, "--output", str(output), *options)
        assert done.returncode == 0, done.stderr
    # What `inspect view` lists: one log, in the place of that of the earlier call.
    (info,) = log.list_eval_logs(str(output / "inspect"))
    read = log.read_eval_log(info, resolve_attachments=True)
    assert read.status == "success" and read.eval.model == "graded" and read.eval.task == "completions of mine"
    (score,) = read.results.scores
    assert (score.scored_samples, score.unscored_samples) == (4, 1)
    assert score.metrics["pass@1"].value == 0.25
    found = {(sample.id, sample.epoch): sample for sample in read.samples}
    assert len(found) == 5
    values = {key: sample.scores["tealight"].value for key, sample in found.items() if sample.scores}
    assert values == {("a", 1): "C", ("a", 2): "I", ("b", 1): "N", ("b", 2): "N"} or values[("b", 1)] == "I"
    assert found["a", 1].output.completion == "it is \\boxed{2}" and found["a", 1].target == "2"
    assert found["b", 1].output.completion == LINES[2]["completion"]
    assert not found["c", 1].scores and found["c", 1].metadata["verdict"]["verdict"] == "unjudged"
    header = log.read_eval_log(info, header_only=True)
    assert header.eval.dataset.samples == 3 and header.samples is None


def test_the_samples_must_be_kept(binary, tmp_path):
    done = graded(binary, tmp_path)
    assert done.returncode == 1 and "--output DIR" in done.stderr
    done = graded(binary, tmp_path, "--output", str(tmp_path / "x"), "--no-samples")
    assert done.returncode == 1 and "--no-samples" in done.stderr
