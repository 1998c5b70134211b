"""For tasks of lm-evaluation-harness: `process_results: !function utils.process_results`, with a `utils.py` beside the
task that says `from tealight_rl.lm_eval import process_results`. The task lists the metrics `acc` and `unjudged`."""

from tealight_rl.rewards import math

process_results = math.process_results
