"""Verdicts: right, total, in parallel, across processes."""

import doctest
import importlib
import math
import multiprocessing
import pickle
import random
import sys
import threading
import time

import pytest
import tealight_rl


def test_every_judged_pair_of_the_repository(cases):
    verdicts = tealight_rl.verify_batch([case["gold"] for case in cases], [case["answer"] for case in cases])
    wrong = [case for case, verdict in zip(cases, verdicts) if verdict.correct != case["correct"]]
    assert len(cases) > 700 and not wrong


def test_one_and_many_agree(cases):
    batch = tealight_rl.verify_batch([case["gold"] for case in cases], [case["answer"] for case in cases])
    assert batch == [tealight_rl.verify(case["gold"], case["answer"]) for case in cases]


def test_fields():
    right = tealight_rl.verify(r"\frac{1}{2}", r"1/4+1/4 = 0.5, so \boxed{0.5}")
    assert (right.kind, right.correct, right.unjudged, right.answer, right.rule) == ("correct", True, False, "0.5", "box")
    assert right.solution == "0.5" and right.reward == 1.0 and bool(right)
    wrong = tealight_rl.verify("2", r"\boxed{3}")
    assert (wrong.kind, wrong.answer, wrong.reason, wrong.reward) == ("wrong", "3", "found `3`", 0.0) and not wrong
    assert tealight_rl.verify("2", "").kind == "no_answer"
    assert tealight_rl.verify("2", r"\boxed{2 + }").kind == "unparsable"
    unjudged = tealight_rl.verify("3 + +", r"\boxed{3}")
    assert unjudged.unjudged and unjudged.reward is None and not unjudged and "cannot be read" in unjudged.reason
    assert tealight_rl.verify(None, "3").unjudged
    costly = tealight_rl.verify("(a+b+c+d+e+f)^{60}", r"\boxed{(a+b+c+d+e+f)^{60}+1}")
    assert not costly.correct
    with pytest.raises(AttributeError):
        right.kind = "wrong"


def test_golds_may_be_numbers():
    numpy = pytest.importorskip("numpy")
    assert tealight_rl.verify(72, "72") and tealight_rl.verify(0.5, "1/2")
    assert tealight_rl.verify(numpy.int64(72), "72") and tealight_rl.verify(numpy.float64(0.5), "1/2")
    for bad in (True, ["3"], {"a": 1}, b"3"):
        with pytest.raises(TypeError, match="gold answer"):
            tealight_rl.verify(bad, "3")
    with pytest.raises(TypeError, match="an answer"):
        tealight_rl.verify("3", None)


@pytest.mark.parametrize(
    "verifier, gold, right, wrong",
    [
        ("math:strict", "3", r"\boxed{3}", "it is 3"),
        ("exact", "a b", " a b ", "A b"),
        ("exact:ignore-case", "a b", "A B", "ab"),
        (r"regex:ANSWER (\w+)", "x", "ANSWER x", "ANSWER y"),
        ("numeric:rel=0.01", "3.14159", "about 3.14", "3"),
        ("countdown", "3,3,8,8=24", "8/(3-8/3)", "8*3"),
        ("colouring", "c3|ab,bc", "121", "112"),
    ],
)
def test_other_verifiers(verifier, gold, right, wrong):
    assert tealight_rl.verify(gold, right, verifier).correct
    assert tealight_rl.verify(gold, wrong, verifier).reward == 0.0


def test_programs_judge_and_fail_openly():
    grader = 'while read -r line; do n=${line#*\\"request\\":}; n=${n%%,*}; case "$line" in *hang*) sleep 9 ;; esac; ' \
        'echo "{\\"request\\":$n,\\"verdict\\":\\"correct\\"}"; done'
    if sys.platform == "win32":
        pytest.skip("a shell of Unix")
    verifier = tealight_rl.Verifier(f"program:timeout=0.5:{grader}")
    verdicts = tealight_rl.verify_batch(["1"] * 3, ["a", "hang", "b"], verifier)
    assert [verdict.kind for verdict in verdicts] == ["correct", "unjudged", "correct"]
    assert "longer than 0.5 s" in verdicts[1].reason


def test_bad_settings_are_refused():
    for spec, why in [("nonsense", "not known; choose math"), ("regex:(", "regex"), ("numeric:x=1", "rel, abs")]:
        with pytest.raises(ValueError, match=why):
            tealight_rl.verify("1", "1", spec)
    with pytest.raises(ValueError, match="2 gold answers for 1 completions"):
        tealight_rl.verify_batch(["1", "2"], ["1"])
    with pytest.raises(TypeError, match="a list of texts"):
        tealight_rl.verify_batch("12", "12")
    for seconds in (-1, math.nan, math.inf):
        with pytest.raises(ValueError, match="max_seconds"):
            tealight_rl.verify_batch(["1"], ["1"], max_seconds=seconds)


def test_thoughts_are_no_answers():
    assert not tealight_rl.verify("2", r"<think>\boxed{2}</think> It is 3")
    assert tealight_rl.verify("2", r"hm, \boxed{3}</think> It is 2")
    assert tealight_rl.verify("2", r"\boxed{2}", starts_inside=True).kind == "no_answer"


def test_hostile_text_is_judged_in_time():
    texts = [
        "\\boxed{" * 100_000, "9" * 1_000_000, "{" * 1_000_000, "(" * 4000, "\\frac{" * 600, "2^" * 2000,
        "\\boxed{9^{9^{9^{9}}}}", "\\boxed{100000!}", "\\boxed{10^{10^{12}}}", "\x00\u202e\\boxed{7}", "\ud800 3", "é3½",
    ]
    golds = ["1", "x^2", "9^{9^{9^{9}}}+1", "\ud800", "\\{1,2\\}"]
    pairs = [(gold, text) for gold in golds for text in texts]
    started = time.perf_counter()
    verdicts = tealight_rl.verify_batch([gold for gold, _ in pairs], [text for _, text in pairs])
    assert len(verdicts) == len(pairs) and time.perf_counter() - started < 30
    assert not any(verdict.correct for verdict in verdicts)


def test_random_unicode_never_raises():
    rng = random.Random(7)
    alphabet = [chr(rng.randrange(0x11_0000)) for _ in range(500)] + list("0123456789+-*/^_{}()\\boxed frac=,.$")
    texts = ["".join(rng.choices(alphabet, k=rng.randrange(60))) for _ in range(5000)]
    assert len(tealight_rl.verify_batch(texts, reversed(texts))) == 5000


def test_a_batch_keeps_to_its_time():
    started = time.perf_counter()
    verdicts = tealight_rl.verify_batch(["x"] * 40, ["y"] * 40, "program:timeout=0.2:cat > /dev/null", threads=2, max_seconds=0.5)
    assert time.perf_counter() - started < 5
    assert all(verdict.unjudged for verdict in verdicts) and "max_seconds" in verdicts[-1].reason


def test_the_interpreter_is_not_locked():
    """Another thread goes on while a batch waits for a program."""
    ticks, done = [], threading.Event()

    def tick():
        while not done.wait(0.01):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    tealight_rl.verify_batch(["x"] * 2, ["y"] * 2, "program:timeout=0.3:cat > /dev/null")
    done.set()
    thread.join()
    assert len(ticks) > 10


def test_many_threads_call_at_once(cases):
    golds, answers = [case["gold"] for case in cases], [case["answer"] for case in cases]
    expected, found = tealight_rl.verify_batch(golds, answers), []
    threads = [threading.Thread(target=lambda: found.append(tealight_rl.verify_batch(golds, answers))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def _in_a_child(queue, verifier):
    queue.put([bool(one) for one in tealight_rl.verify_batch(["1/2"] * 100, ["0.5"] * 100, verifier)])


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("spec", ["math", "program"])
def test_forked_processes_judge_too(spec):
    grader = 'while read -r line; do n=${line#*\\"request\\":}; n=${n%%,*}; echo "{\\"request\\":$n,\\"verdict\\":\\"correct\\"}"; done'
    verifier = tealight_rl.Verifier("math" if spec == "math" else f"program:{grader}")
    assert all(tealight_rl.verify_batch(["1/2"] * 100, ["0.5"] * 100, verifier))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_in_a_child, args=(queue, verifier)) for _ in range(3)]
    for child in children:
        child.start()
    assert [queue.get(timeout=30) for _ in children] == [[True] * 100] * 3
    for child in children:
        child.join(10)
    # The parent's programs are still its own.
    assert all(tealight_rl.verify_batch(["1/2"] * 100, ["0.5"] * 100, verifier))


def test_verdicts_travel_between_processes():
    for verdict in (tealight_rl.verify("2", r"\boxed{3}"), tealight_rl.verify("3,3,8,8=24", "8/(3-8/3)", "countdown")):
        again = pickle.loads(pickle.dumps(verdict))
        assert again == verdict and hash(again) == hash(verdict) and "Verdict(" in repr(verdict)
    assert pickle.loads(pickle.dumps(tealight_rl.Verifier("numeric:rel=0.5"))).spec == "numeric:rel=0.5"
    assert pickle.loads(pickle.dumps(tealight_rl.Estimate(1, 2, 3))) == tealight_rl.Estimate(1, 2, 3)


@pytest.mark.parametrize("name", ["tealight_rl", "tealight_rl.verdicts", "tealight_rl.measures", "tealight_rl.rewards"])
def test_examples_of_docstrings(name):
    module = importlib.import_module(name)
    done = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert done.failed == 0 and done.attempted > 0
