"""`tealight_rl.load`: what the binary writes, as DataFrames."""

import json
import subprocess

import pytest
import tealight_rl

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def run(binary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    with open(folder / "lines.jsonl", "w", encoding="utf-8") as out:
        for line in range(40):
            completion = f"so 1+{line % 3} = {1 + line % 3}, \\boxed{{{1 + line % 3}}}"
            out.write(json.dumps({"id": f"p{line // 8}", "gold": "2", "completion": completion, "prompt": "1 + 1?"}) + "\n")
    command = [binary, "grade", str(folder / "lines.jsonl"), "-k", "1,4", "--output", str(folder / "out"), "--quiet"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "out"


def test_results_and_samples(run):
    results = tealight_rl.load(run)
    assert results.raw["schema_version"] == 1 and "Results(" in repr(results)
    estimates = results.estimates.query("measure == 'pass@k' and k == '4'")
    problems, samples = results.problems, results.samples
    assert len(problems) == 5 and len(samples) == 40 and problems.correct.sum() == samples.correct.sum()
    # Ours again, from the samples.
    matrix = [group.correct.tolist() for _, group in samples.groupby("problem")]
    again = tealight_rl.pass_at_k(matrix, 4)
    row = estimates.iloc[0]
    assert (row.value, row.low, row.high) == pytest.approx((again.value, again.low, again.high), abs=1e-9)
    distinct = tealight_rl.distinct_correct(
        [[c if ok else None for c, ok in zip(g["class"], g.correct)] for _, g in samples.groupby("problem")], 4
    )
    found = results.estimates.query("measure == 'unique_correct@k' and k == '4'").iloc[0]
    assert found.value == pytest.approx(distinct.value, abs=1e-9)


def test_two_runs_are_compared(run):
    first, second = tealight_rl.load(run).samples, tealight_rl.load(run).samples
    second["model"], second["correct"] = "worse", False
    effect = tealight_rl.compare(pandas.concat([first, second]))
    assert effect.value == pytest.approx(first.groupby("problem").correct.mean().mean()) and effect.problems == 5


def test_samples_are_those_of_one_set_and_no_greedy_ones(run, tmp_path):
    results = json.loads((run / "results.json").read_text())
    name = results["sets"][0]["samples"]
    results["sets"].append({**results["sets"][0], "name": "other", "samples": "samples/other.jsonl"})
    # A tally that has a greedy sample is what says that there is a file of them.
    results["sets"][0]["problems"] = [{**one, "greedy": True} for one in results["sets"][0]["problems"]]
    (tmp_path / "samples").mkdir()
    (tmp_path / "results.json").write_text(json.dumps(results))
    lines = (run / name).read_bytes().splitlines(keepends=True)
    (tmp_path / name).write_bytes(b"".join(lines))
    (tmp_path / name.replace(".jsonl", ".greedy.jsonl")).write_bytes(b"".join(lines[:5]))
    (tmp_path / "samples" / "other.jsonl").write_bytes(b"".join(lines[:8]))
    loaded = tealight_rl.load(tmp_path)
    assert loaded.sets == ["lines", "other"]
    with pytest.warns(UserWarning, match="these are the samples of 'lines'"):
        samples = loaded.samples
    assert len(samples) == 40 and not samples.greedy.any()
    assert len(loaded.samples_of("lines", greedy=True)) == 5 and len(loaded.samples_of("other")) == 8
    with pytest.raises(ValueError, match="none of the sets 'lines', 'other'"):
        loaded.samples_of("lime")
    mixed = pandas.concat([samples, loaded.samples_of("lines", greedy=True), samples.assign(model="b")])
    with pytest.raises(ValueError, match="several values of `greedy`"):
        tealight_rl.compare(mixed)


def test_broken_directories_are_refused(run, tmp_path):
    with pytest.raises(ValueError, match="results.json"):
        tealight_rl.load(tmp_path)
    for text, why in [("{", "not JSON"), ("{}", "schema_version"), ('{"schema_version": 99}', "version 99")]:
        (tmp_path / "results.json").write_text(text)
        with pytest.raises(ValueError, match=why):
            tealight_rl.load(tmp_path)
    outside = json.loads((run / "results.json").read_text())
    outside["sets"][0]["samples"] = "../../../../etc/passwd"
    (tmp_path / "results.json").write_text(json.dumps(outside))
    with pytest.raises(ValueError, match="leaves its folder"):
        tealight_rl.load(tmp_path)


def test_a_line_that_a_crash_cut_off_is_left_out(run, tmp_path):
    (tmp_path / "results.json").write_bytes((run / "results.json").read_bytes())
    name = json.loads((run / "results.json").read_text())["sets"][0]["samples"]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    whole = (run / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:-20])
    with pytest.warns(UserWarning, match="cut off by a crash"):
        assert len(tealight_rl.load(tmp_path).samples) == 39
    (tmp_path / name).write_bytes(b"{oops}\n" + whole)
    with pytest.raises(ValueError, match=":1: not a sample"):
        tealight_rl.load(tmp_path).samples
