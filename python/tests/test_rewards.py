"""Rewards in the form that each trainer calls."""

import importlib.util
import logging
import math
import subprocess
import sys

import pytest
import tealight_rl
from tealight_rl import rewards

GOLDS = ["1/2", "3", "4", None]
TEXTS = [r"so \boxed{0.5}", "it is 4", "", "5"]


def test_trl_plain_and_conversational():
    conversational = [[{"role": "assistant", "content": text}] for text in TEXTS]
    for completions in (TEXTS, conversational):
        for column in rewards.GOLD_COLUMNS:
            found = rewards.math(prompts=["?"] * 4, completions=completions, **{column: GOLDS, "other": [0] * 4})
            assert found == [1.0, 0.0, 0.0, None]


def test_trl_positional_and_unknown_columns():
    assert rewards.math(["?"], ["2"], answer=["2"], completion_ids=[[1]], trainer_state=object()) == [1.0]
    # `answer` is the gold where a dataset has worked solutions too.
    assert rewards.math(completions=["2"], answer=["2"], solution=["1 + 1 is \\boxed{3}"]) == [1.0]
    assert rewards.Reward(gold_column="solution")(completions=["2"], answer=["2"], solution=["1 + 1 is \\boxed{3}"]) == [0.0]


def test_a_fresh_process_has_the_rewards_after_one_import():
    """As TRL's users write it, without an import of the submodule."""
    code = "import tealight_rl; print(tealight_rl.rewards.math(completions=['2'], answer=['2']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[1.0]\n", 0), done.stderr


def test_messages_of_several_kinds():
    parts = [{"role": "assistant", "content": [{"type": "text", "text": "it is "}, {"type": "text", "text": "2"}]}]
    tools = [{"role": "assistant", "content": None}, {"role": "tool", "content": "2"}, {"role": "assistant", "content": "3"}]
    assert rewards.math(completions=[parts, tools, [], [{"role": "assistant", "content": None}]], answer=["2"] * 4) == \
        [1.0, 0.0, 0.0, 0.0]
    with pytest.raises(TypeError, match="a completion"):
        rewards.math(completions=[7], answer=["2"])


def test_a_missing_gold_column_is_an_error_not_a_zero():
    with pytest.raises(ValueError, match="gold_column"):
        rewards.math(completions=["2"], label=["2"])
    with pytest.raises(ValueError, match="1 gold answers for 2 completions"):
        rewards.math(completions=["2", "3"], answer=["2"])


def test_prompts_that_open_a_thought():
    for opening, closing in [("<think>", "</think>"), ("<reasoning>", "</reasoning>"), ("[THINK]", "[/THINK]")]:
        completions = [r"\boxed{2}", rf"\boxed{{3}} no{closing} 2"]
        prompts = [f"?{opening}\n"] * 2
        assert rewards.math(prompts=prompts, completions=completions, answer=["2"] * 2) == [0.0, 1.0]


def test_what_is_unjudged_is_logged(caplog):
    logged = {}
    with caplog.at_level(logging.WARNING, logger="tealight_rl"):
        found = rewards.math(completions=["2", "2"], answer=["2", "+ +"], log_metric=logged.__setitem__)
    assert found == [1.0, None] and logged == {"tealight_math/unjudged": 0.5} and "1 of 2" in caplog.text
    assert rewards.math.__name__ == "tealight_math" and rewards.math_strict.__name__ == "tealight_math_strict"


def _by_path(path, name):
    """As verl and OpenRLHF load a file of the user's."""
    spec = importlib.util.spec_from_file_location("custom_module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def test_verl():
    import tealight_rl.verl

    score = _by_path(tealight_rl.verl.__file__, "compute_score")
    call = dict(data_source="openai/gsm8k", extra_info={"index": 0})
    assert score(solution_str="#### 72", ground_truth="72", **call) == {"score": 1.0, "acc": 1.0, "unjudged": 0.0}
    assert score("openai/gsm8k", "#### 71", "72") == {"score": 0.0, "acc": 0.0, "unjudged": 0.0}
    assert score(solution_str="2", ground_truth="+ +", **call) == {"score": 0.0, "acc": 0.0, "unjudged": 1.0}
    numpy = pytest.importorskip("numpy")
    # Parquet's lists come back as arrays.
    assert score(solution_str="2", ground_truth=numpy.array(["2"], dtype=object), **call)["score"] == 1.0
    many = _by_path(tealight_rl.verl.__file__, "compute_scores")
    found = many(data_sources=["a"] * 2, solution_strs=["2", "3"], ground_truths=["2", "2"], extra_infos=[None] * 2)
    assert [one["score"] for one in found] == [1.0, 0.0]
    strict = _by_path(tealight_rl.verl.__file__, "compute_score_strict")
    assert strict("a", "it is 2", "2")["score"] == 0.0


def test_openrlhf():
    torch = pytest.importorskip("torch")
    import tealight_rl.openrlhf

    reward = _by_path(tealight_rl.openrlhf.__file__, "reward_func")
    prompts = [r"<s>1+1? \boxed{3} is wrong. ", "2+2? ", "? "]
    found = reward(queries=[prompt + text for prompt, text in zip(prompts, ["2", "5", "1"])], prompts=prompts, labels=["2", "4", "+ +"])
    assert torch.equal(found["rewards"], torch.tensor([1.0, 0.0, 0.0]))
    assert found["extra_logs"]["unjudged"].tolist() == [0, 0, 1] and found["scores"].dtype == torch.float32
    # What the prompt says is nobody's answer.
    assert reward([prompts[0]], [prompts[0]], ["3"])["rewards"].tolist() == [0.0]
    with pytest.raises(ValueError, match="does not hold its prompt"):
        reward(["a"], ["b"], ["c"])


def test_lm_evaluation_harness():
    from tealight_rl.lm_eval import process_results

    doc = {"question": "1+1?", "answer": "work\n#### 2"}
    assert process_results(doc, ["The answer is 2."]) == {"acc": 1.0, "unjudged": 0.0}
    assert process_results(doc, [["The answer is 3.", "2"]]) == {"acc": 0.0, "unjudged": 0.0}
    with pytest.raises(ValueError, match="no gold answer"):
        process_results({"question": "?"}, ["2"])


def test_rewards_travel_to_workers():
    import pickle

    again = pickle.loads(pickle.dumps(rewards.Reward("numeric:rel=0.1", unjudged_reward=-1.0)))
    assert again(completions=["1.05"], answer=[1]) == [1.0]
    assert again.compute_score("", "1", "x")["score"] == -1.0 and not math.isnan(again.unjudged_reward)


JUDGE = """
def judge(gold, completion):
    return 0.75 if gold in completion else {"reward": 0.25, "verdict": "correct"} if "near" in completion else 0.0
"""


def test_graded_rewards(tmp_path, monkeypatch):
    """A verifier that grades: the reward is its own, and `correct` is its verdict, or a reward of 1."""
    import pickle
    import sys

    monkeypatch.setenv("TEALIGHT_PYTHON", sys.executable)
    (tmp_path / "judge.py").write_text(JUDGE)
    graded = rewards.Reward(f"python:{tmp_path / 'judge.py'}:judge")
    verdicts = graded.verdicts(["7"] * 3, ["it is 7", "near", "no"])
    assert [(one.reward, one.correct) for one in verdicts] == [(0.75, False), (0.25, True), (0.0, False)]
    assert graded(completions=["it is 7", "near"], answer=["7", "7"]) == [0.75, 0.25]
    assert graded.compute_score("", "it is 7", "7") == {"score": 0.75, "acc": 0.0, "unjudged": 0.0}
    assert [pickle.loads(pickle.dumps(one)) for one in verdicts] == verdicts
    assert "reward=0.75" in repr(verdicts[0]) and "reward" not in repr(verdicts[2])
    assert hash(verdicts[0]) == hash(pickle.loads(pickle.dumps(verdicts[0]))) and verdicts[0] != verdicts[2]
    assert tealight_rl.verify("7", "7").reward == 1.0 and tealight_rl.verify(None, "7").reward is None
    # Verdicts that were pickled before there were rewards.
    assert tealight_rl.Verdict("correct").reward == 1.0 and tealight_rl.Verdict("unjudged").reward is None
