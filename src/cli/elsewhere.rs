//! Options and settings that have another name here than in other tools, and what to give in place of them.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options of TRL's and others' that are called or done otherwise here.
const ELSEWHERE: [(&str, &str); 9] = [
    ("--lr", "it is --learning-rate"),
    (
        "--reward-funcs",
        "what rewards is --verifier, given several times for several; a function of your own is --verifier \
         python:FILE.py:FUNCTION",
    ),
    (
        "--per-device-train-batch-size",
        "--prompts-per-step counts prompts, each with --num-generations completions",
    ),
    (
        "--gradient-accumulation-steps",
        "a step is --prompts-per-step prompts; --micro-batch-tokens splits it, without effect on the result",
    ),
    ("--num-train-epochs", "the length of a run is --max-steps"),
    ("--scale-rewards", "it is --baseline group-std, batch-std or group-mean"),
    ("--use-vllm", "servers that sample are named with --engine URL (docs/how-to/vllm.md)"),
    ("--bf16", "it is --dtype bfloat16"),
    (
        "--deepspeed",
        "several processes are started with tealight launch -n N, and --zero-stage 1 shards the optimizer's state over \
         them",
    ),
];

/// The option to use in place of another tool's.
pub(super) fn hint(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let ContextValue::String(given) = error.get(ContextKind::InvalidArg)? else { return None };
    let name = given.split('=').next().unwrap_or(given);
    let fix = fix(name.strip_prefix("--")?)?;
    Some(format!("there is no {name} here: {fix} (docs/how-to/trl.md)"))
}

/// The option to give in place of another tool's, which is named without its dashes.
pub(super) fn fix(name: &str) -> Option<&'static str> {
    let is_it = |(option, _): &&(&str, &str)| option.strip_prefix("--") == Some(name);
    ELSEWHERE.iter().find(is_it).map(|(_, fix)| *fix)
}

/// Short names that other tools have, and ours for the same.
const SHORT: [(&str, &str); 3] =
    [("lr", "learning_rate"), ("bs", "prompts_per_step"), ("epochs", "max_steps")];

/// Our name, in settings files, for a short one of other tools.
pub(super) fn short(name: &str) -> Option<&'static str> {
    SHORT.iter().find(|(known, _)| *known == name).map(|(_, ours)| *ours)
}
