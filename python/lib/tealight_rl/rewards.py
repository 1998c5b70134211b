"""Tealight's verifiers as reward functions, in the form that each trainer calls.

    from trl import GRPOTrainer
    import tealight_rl
    trainer = GRPOTrainer(model=..., reward_funcs=tealight_rl.rewards.math, train_dataset=...)

A completion that cannot be judged (a gold answer that nobody can read, a program that failed) is None for TRL, which
leaves the function out of that sample's reward. verl and OpenRLHF know no missing reward: there it earns
`unjudged_reward`, and is counted under `unjudged`, so that it is never a silent 0.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ._tealight import Verdict, opening
from .verdicts import Spec, as_text, opened

log = logging.getLogger(__package__)

#: Columns that hold gold answers, the first that a dataset has is taken.
GOLD_COLUMNS = ("answer", "solution", "ground_truth", "gold", "target", "final_answer")


def completion_text(completion: Any) -> str:
    """The text of a completion: a text, or the last message of the assistant where it is a list of messages."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Mapping):
        completion = [completion]
    if isinstance(completion, Sequence) and all(isinstance(message, Mapping) for message in completion):
        said = [message for message in completion if message.get("role", "assistant") == "assistant"]
        content = said[-1].get("content") if said else None
        if isinstance(content, (list, tuple)):
            # Messages of several parts: pictures have no text.
            content = "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))
        return content or ""
    raise TypeError(f"a completion must be a text or a list of messages, not {type(completion).__name__}")


def _gold(value: Any) -> Optional[str]:
    """A gold answer as text; verl stores it as an array of one."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    while isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    return None if value is None else as_text(value, "a gold answer")


class Reward:
    """A verifier as a reward function: 1.0 for a correct completion, 0.0 for another, None where unjudged. Verifiers that
    grade (`program:`, `python:`) give their reward between 0 and 1.

    Args:
        verifier: A name that `tealight --verifier` takes, or a `tealight_rl.Verifier`.
        gold_column: The column of the dataset that holds gold answers; the first of `GOLD_COLUMNS` that the dataset
            has unless given.
        unjudged_reward: What an unjudged completion earns where a trainer knows no missing reward (verl, OpenRLHF).
        name: The name in logs.

    Example:
        >>> Reward("numeric:rel=0.01")(completions=["It is 3.14"], answer=["3.1416"])
        [1.0]
    """

    def __init__(
        self,
        verifier: Spec = "math",
        *,
        gold_column: Optional[str] = None,
        unjudged_reward: float = 0.0,
        name: Optional[str] = None,
    ) -> None:
        self.verifier = opened(verifier)
        self.gold_column = gold_column
        self.unjudged_reward = float(unjudged_reward)
        # Trainers name their metrics by it.
        self.__name__ = name or "tealight_" + self.verifier.spec.split(":")[0].replace("-", "_")

    def __repr__(self) -> str:
        return f"Reward({self.verifier.spec!r})"

    def verdicts(self, golds: Sequence[Any], completions: Sequence[Any], prompts: Any = None) -> list[Verdict]:
        """The verdicts on completions, which are texts or lists of messages."""
        if isinstance(golds, str) or isinstance(completions, str):
            raise TypeError("gold answers and completions must be lists, not one text")
        golds, texts = [_gold(gold) for gold in golds], [completion_text(one) for one in completions]
        if prompts is not None:
            # The thought that the prompt began goes on in the completion.
            tags = [opening(prompt) if isinstance(prompt, str) else None for prompt in prompts]
            texts = [(tag or "") + text for tag, text in zip(tags, texts)]
        verdicts = self.verifier.verify_batch(golds, texts)
        unjudged = [verdict for verdict in verdicts if verdict.unjudged]
        if unjudged:
            log.warning("%d of %d completions could not be judged: %s", len(unjudged), len(verdicts), unjudged[0].reason)
        return verdicts

    def __call__(self, prompts: Any = None, completions: Any = None, **columns: Any) -> list[Optional[float]]:
        """A reward function of TRL's GRPOTrainer and RLOOTrainer."""
        if completions is None:
            raise TypeError("completions= is missing: a reward function is called with prompts, completions and columns")
        names = (self.gold_column,) if self.gold_column else GOLD_COLUMNS
        golds = next((columns[name] for name in names if columns.get(name) is not None), None)
        if golds is None:
            raise ValueError(
                f"no gold answers: the dataset has none of the columns {', '.join(names)}, but {', '.join(columns) or 'none'}; "
                "name its own, as in tealight_rl.rewards.Reward('math', gold_column='final')"
            )
        verdicts = self.verdicts(golds, completions, prompts)
        if callable(columns.get("log_metric")):
            unjudged = sum(verdict.unjudged for verdict in verdicts)
            columns["log_metric"](f"{self.__name__}/unjudged", unjudged / max(len(verdicts), 1))
        return [verdict.reward for verdict in verdicts]

    def compute_score(
        self, data_source: Any = None, solution_str: str = "", ground_truth: Any = None, extra_info: Any = None, **_: Any
    ) -> dict[str, float]:
        """A custom reward function of verl: the score, and what verl logs beside it."""
        return self._score(self.verdicts([ground_truth], [solution_str])[0])

    def compute_scores(
        self, data_sources: Any = None, solution_strs: Any = (), ground_truths: Any = (), extra_infos: Any = None, **_: Any
    ) -> list[dict[str, float]]:
        """The same for verl's batch reward manager (`reward_model.reward_manager=batch`)."""
        return [self._score(verdict) for verdict in self.verdicts(list(ground_truths), list(solution_strs))]

    def _score(self, verdict: Verdict) -> dict[str, float]:
        reward = self.unjudged_reward if verdict.reward is None else verdict.reward
        return {"score": reward, "acc": float(verdict.correct), "unjudged": float(verdict.unjudged)}

    def reward_func(self, queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **_: Any) -> dict[str, Any]:
        """A reward function of OpenRLHF (`--remote_rm_url FILE`): queries are prompts with their completions."""
        import torch

        completions = []
        for query, prompt in zip(queries, prompts):
            at = query.find(prompt)
            if at < 0:
                raise ValueError(f"a query does not hold its prompt: {query[:80]!r} without {prompt[:80]!r}")
            completions.append(query[at + len(prompt):])
        verdicts = self.verdicts(labels, completions, prompts)
        scores = torch.tensor([self._score(verdict)["score"] for verdict in verdicts], dtype=torch.float32)
        correct = torch.tensor([float(verdict.correct) for verdict in verdicts])
        unjudged = torch.tensor([float(verdict.unjudged) for verdict in verdicts])
        return {"rewards": scores, "scores": correct, "extra_logs": {"acc": correct, "unjudged": unjudged}}

    def process_results(self, doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, float]:
        """`process_results` of a task of lm-evaluation-harness: the document, and what the model said."""
        name = self.gold_column or next((name for name in GOLD_COLUMNS if name in doc), None)
        if name is None:
            raise ValueError(f"no gold answer: the document has none of {', '.join(GOLD_COLUMNS)}, but {', '.join(doc)}")
        first = results[0][0] if isinstance(results[0], (list, tuple)) else results[0]
        verdict = self.verdicts([doc[name]], [first])[0]
        return {"acc": float(verdict.correct), "unjudged": float(verdict.unjudged)}


#: Mathematics, wherever the answer stands in the completion.
math = Reward("math")
#: Mathematics, only in a box, a tag, after "the answer is" or ####.
math_strict = Reward("math:strict", name="tealight_math_strict")
