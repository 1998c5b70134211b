"""Pass@k, distinct correct answers, intervals and comparisons, on lists, numpy arrays and DataFrames."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

from . import _tealight
from ._tealight import Effect, Estimate, Verdict


def _list(values: Any) -> list:
    """A list of whatever an array, a Series or an iterable holds."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _is_correct(sample: Any) -> Optional[bool]:
    """Whether a sample is correct; None where that is not known."""
    if isinstance(sample, Verdict):
        return None if sample.unjudged else sample.correct
    if sample is None or (isinstance(sample, float) and math.isnan(sample)) or type(sample).__name__ == "NAType":
        return None
    if isinstance(sample, (bool, int, float)) and sample in (0, 1):
        return bool(sample)
    if hasattr(sample, "item"):
        return _is_correct(sample.item())
    raise ValueError(f"{sample!r:.80} does not say whether a sample is correct: give True, False, 1, 0, None or a Verdict")


def _tally(row: Any) -> tuple[int, int]:
    judged = [is_correct for is_correct in map(_is_correct, _list(row)) if is_correct is not None]
    return len(judged), sum(judged)


def _integer(value: Any, what: str) -> int:
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number != number or number % 1 or number < 0:
        raise ValueError(f"{what} must be a whole number of 0 or more, not {value!r:.80}")
    return int(number)


def _rows(correct: Any) -> list:
    rows = _list(correct)
    if rows and not hasattr(rows[0], "__iter__"):
        raise ValueError(
            "correct must have a row for each problem (a matrix of samples); with counts of correct samples give n= too"
        )
    return rows


def _counts(correct: Any, n: Any) -> list[tuple[int, int]]:
    """The numbers of judged and of correct samples of each problem."""
    if n is None:
        counts = [_tally(row) for row in _rows(correct)]
    else:
        cs = [_integer(c, "a count of correct samples") for c in _list(correct)]
        ns = [_integer(one, "n") for one in _list(n)] if hasattr(n, "__iter__") else [_integer(n, "n")] * len(cs)
        if len(ns) != len(cs):
            raise ValueError(f"{len(ns)} values of n for {len(cs)} counts: give one for each, or one for all")
        counts = list(zip(ns, cs))
    # A problem without a judged sample says nothing.
    return [(n, c) for n, c in counts if n > 0]


def pass_at_k(correct: Any, k: int, *, n: Any = None) -> Union[float, Estimate]:
    """Estimate Pass@k without bias (Chen et al., 2021), as the mean over problems with a 95 % interval.

    Args:
        correct: A row of samples for each problem (booleans, 0 and 1, or verdicts; None, NaN and unjudged verdicts
            are left out). With `n`, the number of correct samples of each problem instead, or of one problem.
        k: How many samples.
        n: The number of samples of each problem, or one number for all.

    Returns:
        An `Estimate`; a plain number for the count of one problem.

    Example:
        >>> round(pass_at_k(3, 4, n=16), 4)
        0.6071
        >>> round(pass_at_k([[1, 0, 0, 0], [1, 1, 1, 1]], 1).value, 3)
        0.625
    """
    k = _integer(k, "k")
    if n is not None and not hasattr(correct, "__iter__"):
        pair = (_integer(n, "n"), _integer(correct, "a count of correct samples"))
        return _tealight.pass_at_k([pair], k)[0]
    return _tealight.mean_pass_at_k(_counts(correct, n), k)


def distinct_correct(solutions: Any, k: int) -> Estimate:
    """Estimate how many distinct correct solutions k samples of a problem hold, as the mean over problems.

    Rarefaction without bias: the mean over all subsets of k samples. With k = 1 this is Pass@1.

    Args:
        solutions: A row for each problem: the solution of each correct sample as a text, None for a sample that is
            not correct; or verdicts, whose solution class counts and whose unjudged ones are left out.
        k: How many samples.

    Example:
        >>> distinct_correct([["a", "a", "b", None]], 4).value
        2.0
    """
    problems = []
    for row in _rows(solutions):
        judged = [one for one in _list(row) if not (isinstance(one, Verdict) and one.unjudged)]
        found = [one.solution if isinstance(one, Verdict) else one for one in judged]
        found = [None if isinstance(one, float) and math.isnan(one) else one for one in found]
        if judged:
            problems.append((len(judged), [str(one) for one in found if one is not None]))
    return _tealight.mean_distinct(problems, _integer(k, "k"))


def interval(values: Iterable[float], kind: str = "share") -> Estimate:
    """Give the mean of values, one a problem, with a 95 % interval for the mean over all problems of the kind.

    Args:
        values: The values, such as each problem's Pass@k.
        kind: "share" for values between 0 and 1 (an interval that stays inside and never shrinks to a point),
            "amount" for values that cannot be negative, "mean" for any.

    Example:
        >>> interval([0.0] * 48)
        Estimate(0.0000, low=0.0000, high=0.0740)
    """
    return _tealight.interval([float(value) for value in _list(values)], kind)


def compare(first: Any, second: Any = None, k: int = 1, *, n: Any = None, models: Optional[Sequence[str]] = None) -> Effect:
    """Compare Pass@k of two models on the same problems: the mean difference, its interval and p-value.

    Problems are what varies: the samples of a problem are no independent evidence. Training seeds are not included;
    `tealight study` and `tealight compare` do that.

    Args:
        first, second: For each model a matrix as for `pass_at_k`, rows in the same order of problems; or one value a
            problem. Or `first` alone: a DataFrame with the columns `problem`, `model` and `correct`, a row a sample.
        k: How many samples.
        n: The number of samples a problem, where counts are given.
        models: The two models of a DataFrame, in the order of the difference; needed where it has more than two.

    Example:
        >>> compare([[1, 1], [1, 0], [1, 1]], [[0, 1], [0, 0], [1, 0]]).value
        0.5
    """
    if second is None:
        return _compare_frame(first, _integer(k, "k"), models)
    values = [_problem_values(one, _integer(k, "k"), n) for one in (first, second)]
    if len(values[0]) != len(values[1]):
        raise ValueError(f"{len(values[0])} problems against {len(values[1])}: both models need the same ones")
    known = [(a, b) for a, b in zip(*values) if a is not None and b is not None]
    return _tealight.compare([a for a, _ in known], [b for _, b in known])


def _problem_values(correct: Any, k: int, n: Any) -> list[Optional[float]]:
    """A value for each problem; None where no sample was judged."""
    rows = _list(correct)
    if n is None and rows and not hasattr(rows[0], "__iter__"):
        return [None if value is None or value != value else float(value) for value in rows]
    if n is None:
        counts = [_tally(row) for row in rows]
    else:
        ns = _list(n) if hasattr(n, "__iter__") else [n] * len(rows)
        if len(ns) != len(rows):
            raise ValueError(f"{len(ns)} values of n for {len(rows)} counts: give one for each, or one for all")
        counts = [(_integer(n, "n"), _integer(c, "a count of correct samples")) for n, c in zip(ns, rows)]
    judged = [count for count in counts if count[0] > 0]
    values = iter(_tealight.pass_at_k(judged, k))
    return [next(values) if count[0] > 0 else None for count in counts]


def _compare_frame(frame: Any, k: int, models: Optional[Sequence[str]]) -> Effect:
    missing = [name for name in ("problem", "model", "correct") if name not in getattr(frame, "columns", [])]
    if missing:
        raise ValueError(f"no column {', '.join(missing)}: give two matrices, or a DataFrame with problem, model and correct")
    known = list(dict.fromkeys(frame["model"].tolist()))
    models = list(known if models is None else models)
    if len(models) != 2 or any(model not in known for model in models):
        raise ValueError(f"models={models!r:.200}: choose two of {known!r:.200}")
    rows: dict[Any, tuple[list, list]] = {}
    for problem, model, correct in zip(frame["problem"].tolist(), frame["model"].tolist(), frame["correct"].tolist()):
        if model in models:
            rows.setdefault(problem, ([], []))[models.index(model)].append(correct)
    pairs = [both for both in rows.values() if both[0] and both[1]]
    if not pairs:
        raise ValueError(f"{models[0]} and {models[1]} have no problem in common")
    return compare([a for a, _ in pairs], [b for _, b in pairs], k)
