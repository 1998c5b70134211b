"""The example task, by lm-evaluation-harness itself."""

import os

import pytest
from conftest import ROOT

ANSWERS = {
    "half": "It is \\boxed{0.5}.",
    "Solve": "So $x = 3$ or $x = -3$: \\boxed{3, -3}",
    "times": "\\boxed{41}",
    "base 2": "The answer is $0.11_{2}$.",
}


def test_the_example_task_is_scored_by_our_verifier(monkeypatch):
    lm_eval = pytest.importorskip("lm_eval")
    pytest.importorskip("datasets")
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    class Canned(LM):
        """Says what stands above."""

        def generate_until(self, requests, **_):
            said = lambda text: next(answer for words, answer in ANSWERS.items() if words in text)
            return [said(request.args[0]) for request in requests]

        def loglikelihood(self, requests, **_):
            raise NotImplementedError

        def loglikelihood_rolling(self, requests, **_):
            raise NotImplementedError

    monkeypatch.chdir(ROOT)
    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    manager = TaskManager(include_path=str(ROOT / "python/examples/lm_eval"), include_defaults=False)
    found = lm_eval.simple_evaluate(model=Canned(), tasks=["tealight_math"], task_manager=manager, bootstrap_iters=0)
    results = found["results"]["tealight_math"]
    assert results["acc,none"] == 0.75 and results["unjudged,none"] == 0.0
    judged = {sample["doc"]["answer"]: sample["acc"] for sample in found["samples"]["tealight_math"]}
    assert judged["42"] == 0.0 and judged["0.11_2"] == 1.0
