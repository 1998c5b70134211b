"""What the task beside this file calls. lm-evaluation-harness imports it from the task's folder."""

from tealight.lm_eval import process_results

__all__ = ["process_results"]
