from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any, Literal, Optional, Union, final

Kind = Literal["correct", "wrong", "no_answer", "unparsable", "unjudged"]

@final
class Verdict:
    """A verifier's judgement of one completion. A verdict is true where the completion is correct."""

    def __init__(
        self,
        kind: Kind,
        answer: Optional[str] = None,
        rule: Optional[str] = None,
        solution: Optional[str] = None,
        value: Optional[str] = None,
        reason: Optional[str] = None,
        too_costly: bool = False,
        reward: Optional[float] = None,
    ) -> None: ...
    @property
    def kind(self) -> Kind:
        """"correct", "wrong", "no_answer", "unparsable" or "unjudged"."""
    @property
    def correct(self) -> bool:
        """Whether the answer is right."""
    @property
    def unjudged(self) -> bool:
        """Whether nothing can be said: never the same as wrong."""
    @property
    def reward(self) -> Optional[float]:
        """The reward that the verifier granted, between 0 and 1; of a verifier that does not grade 1.0 for a correct
        completion, else 0.0. None where unjudged."""
    @property
    def answer(self) -> Optional[str]:
        """The answer that was found in the completion."""
    @property
    def rule(self) -> Optional[str]:
        """The rule that found the answer ("box", "phrase", "number"); mathematics alone says so."""
    @property
    def solution(self) -> Optional[str]:
        """The class of a correct solution: two with the same one count once for diversity."""
    @property
    def value(self) -> Optional[str]:
        """Canonical form of a correct final answer."""
    @property
    def reason(self) -> Optional[str]:
        """Why the completion is wrong, unparsable or unjudged, where the verifier says so."""
    @property
    def too_costly(self) -> bool:
        """Whether the verdict is missing because comparing would exceed the budget of work."""
    def __bool__(self) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Verifier:
    """One of Tealight's verifiers, by the name that `tealight --verifier` takes."""

    def __init__(self, spec: str) -> None: ...
    @property
    def spec(self) -> str: ...
    def verify(
        self,
        gold: Optional[str],
        completion: str,
        *,
        prompt: Optional[str] = None,
        context: Optional[str] = None,
        starts_inside: bool = False,
    ) -> Verdict: ...
    def verify_batch(
        self,
        golds: Sequence[Optional[str]],
        completions: Sequence[str],
        *,
        prompts: Optional[Sequence[str]] = None,
        contexts: Optional[Sequence[Optional[str]]] = None,
        starts_inside: bool = False,
        threads: Optional[int] = None,
        max_seconds: Optional[float] = None,
    ) -> list[Verdict]: ...

@final
class Estimate:
    """A mean over problems with its 95 % interval; unpacks as value, low, high."""

    def __init__(self, value: float, low: float, high: float) -> None: ...
    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    def __float__(self) -> float: ...
    def __iter__(self) -> Iterator[float]: ...

@final
class Effect:
    """A mean difference over problems, with its 95 % interval and two-sided p-value."""

    def __init__(self, value: float, low: float, high: float, p_value: float, problems: int) -> None: ...
    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def p_value(self) -> float: ...
    @property
    def problems(self) -> int: ...
    def __float__(self) -> float: ...

def pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> list[float]: ...
def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> Estimate: ...
def mean_distinct(problems: Sequence[tuple[int, Sequence[str]]], k: int) -> Estimate: ...
def interval(values: Sequence[float], kind: str) -> Estimate: ...
def compare(first: Sequence[float], second: Sequence[float]) -> Effect: ...
def load(directory: Union[str, PathLike[str]]) -> tuple[str, str, list[tuple[str, list[Any]]]]: ...

def opening(prompt: str) -> Optional[str]:
    """The tag that opens a thought at the end of a prompt."""
