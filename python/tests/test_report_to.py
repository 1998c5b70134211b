"""to_wandb.py and --report-to against the real packages, without a network: what was reported is read back."""

import json
import os
import sqlite3
import struct
import subprocess
import sys

import pytest
from conftest import ROOT

SCRIPT = ROOT / "system/src/telemetry/to_wandb.py"


@pytest.fixture
def run(tmp_path):
    """A run's folder, as `train` leaves it."""
    folder = tmp_path / "my run"
    folder.mkdir()
    rows = [
        {"step": step, "reward": step / 10, "kl": None, "rewards/math/mean": 0.5, "note": "text", "flag": True}
        for step in range(1, 4)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    evals = [{"step": 0, "pass_at_k": {"1": 0.25}}, {"step": 3, "pass_at_k": {"1": 0.5}}]
    (folder / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in evals))
    (folder / "config.toml").write_text('model = "countdown"\nlearning_rate = 1e-4\nverifier = "program:x --key sk-1"\n')
    return folder


def environment(tmp_path, **more):
    return {
        **os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "HF_HUB_OFFLINE": "1",
        "TRACKIO_DIR": str(tmp_path / "trackio"), "WANDB_CACHE_DIR": str(tmp_path / "cache"), **more,
    }


def report(run, tmp_path, *options, **more):
    command = [sys.executable, str(SCRIPT), str(run), *options]
    return subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, timeout=600, **more)


def wandb_records(run):
    """The records of an offline run, as `wandb sync` reads them: LevelDB's log of protocol buffers."""
    from wandb.proto import wandb_internal_pb2

    (path,) = (run / "wandb").glob("offline-run-*/run-*.wandb")
    data, at, whole = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at:at + 7])
        whole += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


def wandb_history(run):
    history, config = [], {}
    for record in wandb_records(run):
        if record.HasField("history"):
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            history.append({key: value for key, value in items.items() if not key.startswith("_")})
        if record.HasField("run"):
            config.update({item.key: item.value_json for item in record.run.config.update})
    return history, config


def test_an_offline_run_of_wandb_is_read_back(run, tmp_path):
    pytest.importorskip("wandb")
    done = report(run, tmp_path)
    assert done.returncode == 0 and "5 rows" in done.stdout, done.stderr
    history, config = wandb_history(run)
    train = [row for row in history if "train/reward" in row]
    assert train == [{"step": step, "train/reward": step / 10, "train/rewards/math/mean": 0.5} for step in (1, 2, 3)]
    assert {"step": 3, "eval/pass_at_k/1": 0.5} in history
    assert json.loads(config["model"]) == "countdown" and "verifier" not in config
    assert b"sk-1" not in b"".join(path.read_bytes() for path in run.glob("wandb/**/*") if path.is_file())


def test_trackio_holds_the_same_numbers(run, tmp_path):
    pytest.importorskip("trackio")
    done = report(run, tmp_path, "--to", "trackio")
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "trackio").glob("*.db")
    rows = [(step, json.loads(text)) for step, text in sqlite3.connect(path).execute("select step, metrics from metrics")]
    assert (2, {"train/reward": 0.2, "train/rewards/math/mean": 0.5}) in rows and len(rows) == 5


def test_a_run_that_is_followed_ends_with_its_standard_input(run, tmp_path):
    pytest.importorskip("wandb")
    command = [sys.executable, str(SCRIPT), str(run), "--follow"]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with subprocess.Popen(command, env=environment(tmp_path), **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        with open(run / "metrics.jsonl", "a") as file:
            # Half a line is left for later.
            file.write('{"step": 4, "reward"')
            file.flush()
            file.write(': 0.9}\n')
        process.stdin.close()
        assert process.wait(120) == 0
    assert {"step": 4, "train/reward": 0.9} in wandb_history(run)[0]


def test_training_reports_to_wandb_while_it_goes(binary, tmp_path):
    pytest.importorskip("wandb")
    run = tmp_path / "run"
    command = [
        binary, "train", "--max-steps", "2", "--prompts-per-step", "2", "--num-generations", "4", "--max-samples", "8",
        "--max-completion-length", "16", "--device", "cpu", "--report-to", "tensorboard,wandb", "--output", str(run), "--quiet",
    ]
    done = subprocess.run(
        command, env=environment(tmp_path, TEALIGHT_PYTHON=sys.executable), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    history, config = wandb_history(run)
    assert [row["train/reward"] for row in history] == [row["reward"] for row in rows] and len(rows) == 2
    assert json.loads(config["max_steps"]) == 2 and list((run / "tensorboard").iterdir())


def test_what_is_no_run_is_refused_in_one_line(run, tmp_path):
    assert "no such folder" in report(tmp_path / "none", tmp_path).stderr
    assert "metrics.jsonl: no such file" in report(tmp_path, tmp_path).stderr
    pytest.importorskip("wandb")
    (run / "config.toml").unlink()
    (run / "config.toml").symlink_to("/etc/hostname")
    assert "or is a link" in report(run, tmp_path).stderr
    (run / "config.toml").unlink()
    (run / "wandb").symlink_to(tmp_path)
    assert "a link, through which nothing is written" in report(run, tmp_path).stderr
    (run / "wandb").unlink()
    for line in ["{", '"x"', "[1]", '{"reward": 1}', '{"step": "1"}', '{"step": NaN}', '{"step": -1}', '{"step": 1e999}',
                 '{"step": 2, "x": 1%s}' % ("0" * 4000), '{"x":' * 900 + "1" + "}" * 900, "[" * 100_000, "x" * (1 << 20)]:
        (run / "metrics.jsonl").write_text('{"step": 1, "reward": 1}\n' + line + "\n")
        done = report(run, tmp_path)
        assert done.returncode == 1 and "metrics.jsonl:2: " in done.stderr.splitlines()[-1][:400], (line[:40], done.stderr)
