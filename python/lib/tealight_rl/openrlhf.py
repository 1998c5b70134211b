"""OpenRLHF's reward function: `--remote_rm_url $(python -c "import tealight_rl.openrlhf as o; print(o.__file__)")`."""

# OpenRLHF loads this file by its path, outside the package.
from tealight_rl.rewards import math

reward_func = math.reward_func
