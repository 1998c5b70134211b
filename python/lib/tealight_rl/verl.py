"""verl's custom reward function: `custom_reward_function.path=$(python -c "import tealight_rl.verl as v; print(v.__file__)")`.

`custom_reward_function.name` is `compute_score`, which verl takes unless told otherwise, or `compute_score_strict`, which
looks for answers in boxes and after "the answer is" alone; `compute_scores` is for the batch reward manager.
"""

# verl loads this file by its path, outside the package.
from tealight_rl.rewards import math, math_strict

compute_score = math.compute_score
compute_scores = math.compute_scores
compute_score_strict = math_strict.compute_score
