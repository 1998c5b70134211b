"""Judging completions against gold answers, one or many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from numbers import Number
from typing import Any, Optional, Union

from ._tealight import Verdict, Verifier

#: A verifier, or the name that `tealight --verifier` takes.
Spec = Union[str, Verifier]


@lru_cache(maxsize=64)
def _opened(spec: str) -> Verifier:
    return Verifier(spec)


def opened(verifier: Spec) -> Verifier:
    """The verifier of a name; the last 64 names keep theirs, so that programs are not started for every call."""
    return verifier if isinstance(verifier, Verifier) else _opened(verifier)


def as_text(value: Any, what: str) -> str:
    """A text or a number as text. Datasets often hold gold answers as numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, Number) and not isinstance(value, bool):
        # numpy 2 writes np.int64(3) where it shows a number, and 3 where it prints one.
        return str(value)
    raise TypeError(f"{what} must be a text or a number, not {type(value).__name__}: {value!r:.80}")


def _gold(value: Any) -> Optional[str]:
    return None if value is None else as_text(value, "a gold answer")


def verify(
    gold: Union[str, float, None],
    answer: str,
    verifier: Spec = "math",
    *,
    prompt: Optional[str] = None,
    context: Optional[str] = None,
    starts_inside: bool = False,
) -> Verdict:
    """Judge one answer, or the completion that holds it, against a gold answer.

    Never raises because of what the texts hold, and never hangs: mathematics has a budget of work, programs have a
    timeout. What cannot be judged is `unjudged`, which is not the same as wrong.

    Args:
        gold: The gold answer, bare or in a worked solution. None gives an unjudged verdict.
        answer: The answer, bare or in a completion. Only the text after the last `</think>` counts.
        verifier: "math", "math:strict", "numeric:rel=1e-4", "exact", "regex:PATTERN", "countdown", "sql:FOLDER",
            "program:COMMAND" and the others of `tealight --verifier`, or a `Verifier`.
        prompt: The prompt, for verifiers that are programs.
        context: The name of the database, for SQL.
        starts_inside: Whether the prompt ended with `<think>`.

    Example:
        >>> verdict = verify("72", "Altogether 48+24 = 72.")
        >>> verdict.correct, verdict.answer, verdict.solution
        (True, '72', '72')
    """
    text = as_text(answer, "an answer")
    return opened(verifier).verify(_gold(gold), text, prompt=prompt, context=context, starts_inside=starts_inside)


def verify_batch(
    golds: Iterable[Union[str, float, None]],
    answers: Iterable[str],
    verifier: Spec = "math",
    *,
    prompts: Optional[Sequence[str]] = None,
    contexts: Optional[Sequence[Optional[str]]] = None,
    starts_inside: bool = False,
    threads: Optional[int] = None,
    max_seconds: Optional[float] = None,
) -> list[Verdict]:
    """Judge many pairs in parallel, without the interpreter's lock; verdicts come in the order of the pairs.

    Args:
        golds: A gold answer a pair.
        answers: An answer, or a completion, a pair.
        verifier: As in `verify`.
        prompts: A prompt a pair, for verifiers that are programs.
        contexts: The name of a database a pair, for SQL.
        starts_inside: Whether prompts ended with `<think>`.
        threads: Threads; as many as there are processors unless given. They end with the call, so that forked
            processes may call too.
        max_seconds: Time of the whole batch; what has not begun by then is unjudged.

    Example:
        >>> [verdict.correct for verdict in verify_batch(["1/2", "3"], ["0.5", "4"])]
        [True, False]
    """
    for name, many in (("golds", golds), ("answers", answers)):
        if isinstance(many, (str, bytes)):
            raise TypeError(f"{name} must be a list of texts, not one text; tealight_rl.verify judges one pair")
    golds, answers = [_gold(gold) for gold in golds], [as_text(answer, "an answer") for answer in answers]
    return opened(verifier).verify_batch(
        golds, answers, prompts=prompts, contexts=contexts, starts_inside=starts_inside, threads=threads,
        max_seconds=max_seconds,
    )
