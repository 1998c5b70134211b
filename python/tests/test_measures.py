"""Estimates: unbiased by enumeration, intervals and comparisons as in Rust, on lists, arrays and DataFrames."""

import itertools
import math

import pytest
import tealight_rl

numpy = pytest.importorskip("numpy")


def test_pass_at_k_is_the_mean_over_subsets():
    for n in range(1, 9):
        for c in range(n + 1):
            for k in range(1, n + 1):
                subsets = list(itertools.combinations([1] * c + [0] * (n - c), k))
                exact = sum(any(one) for one in subsets) / len(subsets)
                assert math.isclose(tealight_rl.pass_at_k(c, k, n=n), exact, abs_tol=1e-12)


def test_pass_at_k_of_matrices():
    rows = [[1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    for correct in (rows, numpy.array(rows), numpy.array(rows, dtype=bool), [numpy.array(row) for row in rows]):
        estimate = tealight_rl.pass_at_k(correct, 2)
        assert math.isclose(estimate.value, (0.5 + 1 + 0) / 3) and estimate.low < estimate.value < estimate.high
    assert tealight_rl.pass_at_k([1, 4, 0], 2, n=4) == tealight_rl.pass_at_k(rows, 2)
    assert tealight_rl.pass_at_k(numpy.array([1, 4, 0]), 2, n=numpy.array([4, 4, 4])) == tealight_rl.pass_at_k(rows, 2)
    value, low, high = tealight_rl.pass_at_k(rows, 1)
    assert (value, low, high) == (float(tealight_rl.pass_at_k(rows, 1)), low, high)


def test_unjudged_samples_are_left_out():
    exact = tealight_rl.pass_at_k([[1, 0, 0], [1, 1, 1]], 1)
    assert tealight_rl.pass_at_k([[1, 0, 0, None], [1, 1, 1, math.nan]], 1) == exact
    assert tealight_rl.pass_at_k(numpy.array([[1, 0, 0, math.nan], [1, 1, 1, math.nan]]), 1) == exact
    verdicts = tealight_rl.verify_batch(["2", "2", "2", "+ +"], ["2", "3", "", "2"])
    assert tealight_rl.pass_at_k([verdicts], 1).value == pytest.approx(1 / 3)
    assert tealight_rl.pass_at_k([[None, None], [1, 0]], 1).value == 0.5


def test_distinct_correct_is_the_mean_over_subsets():
    answers = ["a", "a", "b", None, None]
    for k in range(1, 6):
        subsets = list(itertools.combinations(answers, k))
        exact = sum(len(set(one) - {None}) for one in subsets) / len(subsets)
        assert math.isclose(tealight_rl.distinct_correct([answers], k).value, exact)
    verdicts = tealight_rl.verify_batch(["24"] * 3, ["48/2 = 24", "12*2 = 24", "So 6*3 = 18 and 18+6 = 24."])
    assert tealight_rl.distinct_correct([verdicts], 3).value == 2.0


def test_intervals_are_those_of_the_reports():
    none = tealight_rl.interval([0.0] * 48)
    assert none.low == 0 and abs(none.high - 0.075) < 0.01
    half = tealight_rl.interval([float(i % 4 == 0) for i in range(400)], "mean")
    assert abs(half.low - (0.25 - 1.96 * (0.25 * 0.75 / 400) ** 0.5)) < 0.005
    # Amounts are bounded: by 0, and by what the largest of them is.
    amount = tealight_rl.interval([0.1, 5.0], "amount")
    assert (amount.low, amount.high) == pytest.approx((0.0686, 4.9425), abs=1e-4)


def test_interval_covers_by_simulation():
    rng = numpy.random.default_rng(0)
    held = 0
    for _ in range(400):
        p = rng.beta(0.6, 1.7, size=60)
        estimate = tealight_rl.pass_at_k(rng.binomial(16, p), 4, n=16)
        truth = 1 - math.exp(math.lgamma(5.7) - math.lgamma(1.7) + math.lgamma(2.3) - math.lgamma(6.3))
        held += estimate.low <= truth <= estimate.high
    assert held / 400 > 0.93


def test_compare_is_paired():
    rng = numpy.random.default_rng(1)
    p = rng.beta(1, 1, size=200)
    base, tuned = rng.binomial(8, p), rng.binomial(8, numpy.clip(p + 0.1, 0, 1))
    effect = tealight_rl.compare(tuned, base, n=8)
    assert effect.problems == 200 and effect.low < effect.value < effect.high and effect.p_value < 0.01
    assert 0.05 < effect.value < 0.15
    flipped = tealight_rl.compare(base, tuned, n=8)
    assert math.isclose(flipped.value, -effect.value) and math.isclose(flipped.p_value, effect.p_value)
    assert tealight_rl.compare([0.5, 0.7], [0.5, 0.7]).value == 0
    values = [tealight_rl.pass_at_k(int(c), 1, n=8) for c in tuned], [tealight_rl.pass_at_k(int(c), 1, n=8) for c in base]
    assert math.isclose(tealight_rl.compare(*values).value, effect.value)


def test_compare_of_a_frame():
    pandas = pytest.importorskip("pandas")
    rows = [
        {"problem": problem, "model": model, "correct": correct}
        for problem, (a, b) in enumerate([([1, 1], [0, 1]), ([1, 0], [0, 0]), ([1, 1], [1, None])])
        for model, samples in (("tuned", a), ("base", b))
        for correct in samples
    ]
    frame = pandas.DataFrame(rows)
    assert tealight_rl.compare(frame).value == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert tealight_rl.compare(frame, models=["base", "tuned"]).value == pytest.approx(-(0.5 + 0.5 + 0) / 3)
    with pytest.raises(ValueError, match="choose two of"):
        tealight_rl.compare(frame, models=["base", "other"])
    with pytest.raises(ValueError, match="no column model"):
        tealight_rl.compare(frame.drop(columns="model"))


@pytest.mark.parametrize(
    "call, why",
    [
        (lambda: tealight_rl.pass_at_k([[1, 0]], 3), "choose k from 1 to 2"),
        (lambda: tealight_rl.pass_at_k([[1, 0]], 0), "pass@0"),
        (lambda: tealight_rl.pass_at_k([[1, 0]], -1), "whole number"),
        (lambda: tealight_rl.pass_at_k([[1, 0]], 1.5), "whole number"),
        (lambda: tealight_rl.pass_at_k([1, 0], 1), "give n="),
        (lambda: tealight_rl.pass_at_k(numpy.array(1), 1), "is one number"),
        (lambda: tealight_rl.pass_at_k([5], 1, n=4), "5 correct of 4"),
        (lambda: tealight_rl.pass_at_k([1, 2], 1, n=[4]), "1 values of n for 2"),
        (lambda: tealight_rl.pass_at_k([[0.5]], 1), "does not say"),
        (lambda: tealight_rl.pass_at_k([["yes"]], 1), "does not say"),
        (lambda: tealight_rl.pass_at_k(1, 1, n=10**15), "at most"),
        (lambda: tealight_rl.pass_at_k([math.nan], 1, n=4), "whole number"),
        (lambda: tealight_rl.pass_at_k([math.inf], 1, n=4), "whole number"),
        (lambda: tealight_rl.interval([math.nan]), "NaN"),
        (lambda: tealight_rl.interval([1.5]), "no share"),
        (lambda: tealight_rl.interval([1.0], "median"), "not one of"),
        (lambda: tealight_rl.compare([[1]], [[1], [0]]), "the same ones"),
        (lambda: tealight_rl.compare([math.inf], [0.0]), "not finite"),
    ],
)
def test_bad_input_is_refused_with_the_fix(call, why):
    with pytest.raises(ValueError, match=why):
        call()


def test_large_arrays():
    correct = numpy.random.default_rng(2).random((2000, 500)) < 0.3
    assert abs(tealight_rl.pass_at_k(correct, 1).value - 0.3) < 0.01
    assert math.isnan(tealight_rl.pass_at_k([], 1).value)
