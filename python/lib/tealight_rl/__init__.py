"""Tealight for Python: an exact verifier, Pass@k without bias, intervals, and results as DataFrames.

    >>> import tealight_rl
    >>> tealight_rl.verify(r"\\frac{1}{2}", "So the answer is 0.5.").correct
    True

`tealight_rl.rewards` has the same verifier as a reward function of TRL, verl and OpenRLHF. The binary `tealight`, which
trains and evaluates, comes with the same wheel.
"""

from ._tealight import Effect, Estimate, Verdict, Verifier
from . import rewards
from .frames import Results, load
from .measures import compare, distinct_correct, interval, pass_at_k
from .verdicts import verify, verify_batch

__all__ = [
    "Effect",
    "Estimate",
    "Results",
    "Verdict",
    "Verifier",
    "compare",
    "distinct_correct",
    "interval",
    "load",
    "pass_at_k",
    "rewards",
    "verify",
    "verify_batch",
]
