//! Options and settings that have another name in TRL and other tools, and what to give in place of them.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use super::commands;

/// Other tools' names, without their dashes, and what to use here.
const HINTS: &[(&str, &str)] = &[
    ("lr", "use --learning-rate"),
    ("run-name", "a run is named by its directory, --output"),
    ("model-id model-name pretrained", "use --model"),
    ("dataset-config dataset-split dataset-train-split", "use --dataset OWNER/NAME/CONFIG:SPLIT"),
    (
        "reward-funcs reward-model-name-or-path",
        "use --verifier, repeated for several verifiers; a function of your own is --verifier \
         python:FILE.py:FUNCTION",
    ),
    (
        "per-device-train-batch-size generation-batch-size",
        "--prompts-per-step counts prompts, each with --num-generations completions",
    ),
    ("per-device-eval-batch-size", "--max-num-seqs limits the sequences of a decoding batch"),
    (
        "gradient-accumulation-steps",
        "a step is --prompts-per-step prompts; --micro-batch-tokens splits the step without effect on the result",
    ),
    (
        "num-train-epochs epochs total-epochs",
        "use --max-steps; an epoch is the number of problems divided by --prompts-per-step",
    ),
    ("warmup-ratio lr-warmup-steps-ratio", "use --warmup-steps"),
    (
        "lora-dropout",
        "adapters are trained without dropout, so that the trained policy is the one that sampled",
    ),
    (
        "max-prompt-length",
        "prompts are never cut; --filter-overlong-prompts leaves out those that do not fit the context",
    ),
    ("max-new-tokens max-gen-toks max-length max-response-length", "use --max-completion-length"),
    (
        "logging-steps logging-strategy logging-dir",
        "every step is logged, to metrics.jsonl in --output and to --report-to",
    ),
    ("save-strategy", "use --save-steps N; 0 writes a checkpoint only when interrupted"),
    ("eval-strategy do-eval", "use --eval-steps N with --eval-dataset; 0 disables evaluations"),
    ("kl-coef kl-loss-coef init-kl-coef", "use --beta, the coefficient of the divergence"),
    (
        "algorithm adv-estimator",
        "use --objective, such as grpo, rloo or dr-grpo (tealight objectives)",
    ),
    ("group-size rollout-n rollout.n n-samples-per-prompt", "use --num-generations"),
    (
        "batch-size train-batch-size",
        "use --prompts-per-step, each with --num-generations completions",
    ),
    (
        "use-bias-correction-kl",
        "--objective kl-k3 is TRL's KL without this correction; kl-k2 has the gradient of reverse KL",
    ),
    ("scale-rewards baseline", "use --objective NAME:baseline=group-std, batch-std or group-mean"),
    (
        "use-vllm vllm-mode vllm-server-base-url vllm-server-host vllm-server-port",
        "name the servers that sample with --engine URL (docs/how-to/vllm.md)",
    ),
    (
        "vllm-server-timeout",
        "use --engine-kwargs KEY=VALUE, such as timeout=60, retries=2 or folder=DIR (docs/how-to/vllm.md)",
    ),
    (
        "vllm-importance-sampling-correction vllm-importance-sampling-mode",
        "use --importance-correction",
    ),
    ("bf16", "true is --dtype bfloat16; leave it out for false"),
    ("chat-template-kwargs", "use --template-kwargs"),
    ("importance-sampling-level", "use --objective gspo for sequences, grpo for tokens"),
    ("data-seed", "--seed orders the prompts too"),
    ("lora-task-type", "every model is a causal language model: leave it out"),
    ("overwrite-output-dir", "use --overwrite"),
    ("top-p top-k min-p", "training samples from the whole distribution: leave it out"),
    ("fp16", "float16 is not supported; use --dtype bfloat16 or float32"),
    ("load-in-8bit load-in-4bit", "use --base-dtype int8, on a CPU"),
    ("optim", "AdamW is the only optimizer"),
    ("sync-ref-model ref-model-sync-steps", "the base stays the reference for the whole run"),
    ("push-to-hub hub-model-id", "use hf upload OWNER/NAME RUN/final after training"),
    (
        "deepspeed fsdp zero-stage",
        "start several processes with mpirun -np N; each holds the whole model and optimizer",
    ),
    ("limit max-train-samples", "use --max-samples"),
    ("json", "every step's metrics are in metrics.jsonl of --output"),
    (
        "max-tokens",
        "use --max-completion-length for the length of a completion, --max-steps for that of a run",
    ),
    ("num-fewshot", "use --few-shot"),
    ("tasks", "use --dataset for a file, a generated task or a dataset of the Hub"),
    ("model-args", "use --model, and --dtype for the type of the weights"),
    ("gen-kwargs", "use --temperature and --max-completion-length"),
    ("log-samples", "all samples are in --output"),
    ("epsilon clip-ratio clip-ratio-low", "use --objective NAME:epsilon=0.2"),
    ("epsilon-high clip-ratio-high", "use --objective NAME:epsilon-high=0.28"),
    (
        "loss-type loss-agg-mode",
        "use --objective NAME:loss-type=dapo; tealight objectives dapo lists all",
    ),
    ("clip-ratio-c", "use --objective NAME:dual-clip=3"),
    ("load-best-model-at-end", "the best model by --metric-for-best-model is in best of --output"),
    ("num-iterations ppo-epochs", "use --objective NAME:num-iterations=N"),
    ("steps-per-generation", "use --objective NAME:steps-per-generation=N"),
    (
        "ppo-mini-batch-size",
        "a batch of --prompts-per-step prompts is N mini-batches with --objective NAME:steps-per-generation=N",
    ),
    (
        "ppo-micro-batch-size ppo-micro-batch-size-per-gpu",
        "--micro-batch-tokens splits the step without effect on the result",
    ),
    ("use-kl-loss", "use --objective kl-k3 --beta 0.04; its KL term is verl's low_var_kl"),
    ("entropy-coeff", "use --objective NAME:entropy=0.01"),
    ("train-files", "use --dataset"),
    ("val-files", "use --eval-dataset"),
    ("model.path", "use --model"),
    ("total-training-steps", "use --max-steps"),
    ("save-freq", "use --save-steps"),
    ("test-freq", "use --eval-steps"),
    ("packing", "sequences are packed and never padded: leave it out"),
    ("mask-truncated-completions", "use --objective NAME:mask-truncated=true"),
    ("use-rslora", "--lora-alpha A*sqrt(R) has the scale of rsLoRA at alpha A and rank R"),
];

/// The same where supervised fine-tuning has other options.
const OF_SFT: &[(&str, &str)] = &[
    (
        "per-device-train-batch-size gradient-accumulation-steps train-batch-size",
        "use --batch-size, the rows of a step; --micro-batch-tokens splits the step without effect on the result",
    ),
    (
        "num-train-epochs epochs",
        "use --max-steps; an epoch is the number of rows divided by --batch-size",
    ),
    (
        "max-prompt-length max-length max-seq-length",
        "--filter-overlong-prompts leaves out rows that do not fit the context",
    ),
    (
        "assistant-only-loss",
        "the last turn of the assistant is trained, or all turns that are marked with \"train\": true",
    ),
];

/// The same of evaluations.
const OF_EVAL: &[(&str, &str)] = &[
    ("batch-size", "--max-num-seqs limits the sequences of a decoding batch"),
    (
        "num-generations num-samples",
        "use -n for the samples of a problem, --max-samples for the number of problems",
    ),
];

/// Commands of other tools, and what to use here.
const COMMANDS: &[(&str, &str)] = &[
    (
        "launch",
        "start the ranks with mpirun -np N tealight train, from a build with --features mpi",
    ),
    ("batch", "vllm run-batch answers files of requests; tealight grade reads their completions"),
    ("serve", "vLLM or SGLang serve a model; a command samples from a server with --engine URL"),
    ("grpo rloo dpo", "use tealight train --objective NAME (tealight objectives)"),
];

/// The hint for an option or a command of another tool, or for a short option of the command in `words` with a dash too
/// many.
pub(super) fn hint(error: &clap::Error, words: &[OsString]) -> Option<String> {
    if error.kind() == ErrorKind::InvalidSubcommand {
        let ContextValue::String(name) = error.get(ContextKind::InvalidSubcommand)? else {
            return None;
        };
        let fix = named(COMMANDS, name)?;
        return Some(format!("there is no command `{name}`: {fix}"));
    }
    let ContextValue::String(given) = error.get(ContextKind::InvalidArg)? else { return None };
    if error.kind() == ErrorKind::TooManyValues {
        // As `--use-peft=true`.
        let ContextValue::String(value) = error.get(ContextKind::InvalidValue)? else {
            return None;
        };
        return Some(format!("{given} takes no value, and not `{value}`: leave it out for false"));
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    if !given.starts_with('-') {
        return of_verl(given, words).or_else(|| of_value(given, words));
    }
    let given = given.split('=').next().unwrap_or(given);
    let name = given.strip_prefix("--")?;
    if has_short(words, name) {
        return Some(format!("there is no {given}: the option has one dash, -{name}"));
    }
    let command = command_of(words)?;
    let fix = fix(name, |option| has_long(&command, option))?;
    let page = if fix.contains("docs/") { "" } else { " (docs/how-to/trl.md)" };
    Some(format!("there is no {given} here: {fix}{page}"))
}

/// The hint for a setting of verl without dashes: `actor_rollout_ref.rollout.n=8`.
fn of_verl(given: &str, words: &[OsString]) -> Option<String> {
    let (name, _) = given.split_once('=').filter(|(name, _)| name.contains('.'))?;
    let command = command_of(words)?;
    let fix = fix(&name.replace('_', "-"), |option| has_long(&command, option))?;
    Some(format!("there is no {name} here: {fix} (docs/how-to/trl.md)"))
}

/// The hint for a word that belongs to no option: TRL gives switches a value, and lists without commas.
fn of_value(given: &str, words: &[OsString]) -> Option<String> {
    let place = words.iter().position(|word| word == given)?;
    let options = words[..place].iter().filter_map(|word| word.to_str());
    let option = options.rev().find(|word| word.starts_with("--"))?;
    let command = command_of(words)?;
    let arguments = command.get_arguments();
    let known = arguments.into_iter().find(|one| one.get_long() == option.strip_prefix("--"))?;
    if !known.get_action().takes_values() {
        return Some(format!("{option} takes no value, and not `{given}`: leave it out for false"));
    }
    let is_list = known.get_value_delimiter().is_some();
    is_list.then(|| format!("{option}: separate the values by commas, without blanks: `{given}`"))
}

/// The command of a command line.
fn command_of(words: &[OsString]) -> Option<Command> {
    let all = commands::command();
    words.iter().skip(1).find_map(|word| all.find_subcommand(word)).cloned()
}

/// Whether `name` is a letter and the command of a command line has the short option.
fn has_short(words: &[OsString], name: &str) -> bool {
    let command = command_of(words);
    let shorts = command.iter().flat_map(Command::get_arguments).filter_map(Arg::get_short);
    shorts.into_iter().any(|short| name == short.to_string())
}

/// Whether a command has the option, by any of its names.
fn has_long(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|option| {
        let aliases = option.get_all_aliases().unwrap_or_default();
        let is_short = option.get_short().is_some_and(|short| name == short.to_string());
        is_short || option.get_long().into_iter().chain(aliases).any(|long| long == name)
    })
}

/// The options that a hint names, without their dashes.
fn options_in(fix: &'static str) -> impl Iterator<Item = &'static str> {
    let named = |word: &'static str| {
        let short = word.strip_prefix('-').filter(|letter| letter.len() == 1);
        word.strip_prefix("--").or(short)
    };
    fix.split([' ', ';', ',']).filter_map(named)
}

/// What to give in place of another tool's option, which is named without its dashes; nothing where that names an
/// option which the command lacks. verl's names have the parts before them, each with a dot.
pub(super) fn fix(name: &str, has: impl Fn(&str) -> bool) -> Option<&'static str> {
    // verl's settings of other models than the policy have no counterpart.
    if ["critic.", "reward-model.", "reward."].iter().any(|model| name.starts_with(model)) {
        return None;
    }
    let ends = std::iter::successors(Some(name), |name| Some(name.split_once('.')?.1));
    let all = [OF_SFT, HINTS, OF_EVAL];
    let of_name = |name| all.into_iter().filter_map(move |hints| named(hints, name));
    ends.flat_map(of_name).find(|fix| options_in(fix).all(&has))
}

/// The row of a table of hints that has this name.
fn named(hints: &'static [(&str, &str)], name: &str) -> Option<&'static str> {
    let has_name = |(names, _): &&(&str, &str)| names.split(' ').any(|known| known == name);
    hints.iter().find(has_name).map(|(_, fix)| *fix)
}

/// Short names that other tools have, and ours for the same.
const SHORT: [(&str, &str); 3] =
    [("lr", "learning_rate"), ("bs", "prompts_per_step"), ("epochs", "max_steps")];

/// Our name, in settings files, for a short one of other tools.
pub(super) fn short(name: &str) -> Option<&'static str> {
    SHORT.iter().find(|(known, _)| *known == name).map(|(_, ours)| *ours)
}

/// Long flags with `_` for `-`, as TRL users type them; a value that begins with `--` stays as it is.
pub(super) fn kebab_case(program: &Command, mut arguments: Vec<OsString>) -> Vec<OsString> {
    let command = arguments.get(1).and_then(|name| program.find_subcommand(name));
    let takes_any = |word: &str| {
        let Some(name) = word.strip_prefix("--") else { return false };
        let mut options = command.into_iter().flat_map(Command::get_arguments);
        options.any(|it| it.get_long() == Some(name) && it.is_allow_hyphen_values_set())
    };
    let mut is_value = false;
    for argument in arguments.iter_mut().take_while(|argument| *argument != "--") {
        let Some(text) = argument.to_str() else { continue };
        if let (false, Some(text)) = (is_value, text.strip_prefix("--")) {
            let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
            *argument = format!("--{}{value}", name.replace('_', "-")).into();
        }
        is_value = !is_value && argument.to_str().is_some_and(takes_any);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hints_name_existing_options_and_no_own_name() {
        let all = commands::command();
        let tables = [("train", HINTS), ("sft", OF_SFT), ("eval", OF_EVAL)];
        for (name, hints) in tables {
            let command = all.find_subcommand(name).expect("a command");
            let mut seen = HashSet::new();
            for (names, fix) in hints {
                for other in names.split(' ') {
                    assert!(seen.insert(other), "{other} has two hints");
                    assert!(!has_long(command, other), "--{other} is an option of {name}");
                }
                for option in options_in(fix) {
                    assert!(has_long(command, option), "{names}: {name} has no --{option}");
                }
            }
        }
    }

    #[test]
    fn snake_case_flags_are_accepted() {
        let program = commands::command();
        let kebab_case = |line: &str| {
            let given = kebab_case(&program, line.split(' ').map(Into::into).collect());
            given.join(" ".as_ref()).into_string().unwrap()
        };
        let train = "tealight train --max-steps=a_b --max-steps a_b --of-trl 1 -- --a_b";
        assert_eq!(
            kebab_case("tealight train --max_steps=a_b --max_steps a_b --of_trl 1 -- --a_b"),
            train
        );
        let verify = "tealight verify --gold --x_1 --answer=--x_1";
        assert_eq!(kebab_case(verify), verify);
    }
}
