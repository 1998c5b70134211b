"""What the task beside this file calls. lm-evaluation-harness imports it from the task's folder."""

from tealight_rl.lm_eval import process_results

__all__ = ["process_results"]
