//! The command line: parse, resolve, run. One file per command.

mod batch;
mod bench;
mod beta;
mod compare;
mod eval;
mod eval_request;
mod export;
mod fine_tune;
mod grade;
mod lab;
mod lab_figures;
mod lab_tables;
mod layers;
mod options;
mod outcome;
mod presample;
mod probes;
mod reject;
mod report;
mod session;
mod sft;
mod study;
mod table;
mod train;
mod verify;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Args, Command};

use crate::train::{Interrupted, Stop};

/// Stack of the thread that trains: autograd recurses over the graph.
const STACK_BYTES: usize = 256 << 20;

/// Runs the command line and maps the result to an exit code: 0 ok, 1 error, 2 usage, 130 and 143
/// interrupted.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().map(layers::kebab_case).collect();
    let matches = command().get_matches_from(arguments);
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || run(&matches));
    let result = match worker {
        Ok(worker) => match worker.join() {
            Ok(result) => result,
            // The panic has been printed already.
            Err(_) => return ExitCode::from(101),
        },
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<Interrupted>() {
            Some(Interrupted(code)) => ExitCode::from(*code as u8),
            None => {
                // Whoever read our output has seen enough, as `head` does.
                let is_unread = error.chain().any(|cause| {
                    let cause = cause.downcast_ref::<std::io::Error>();
                    cause.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
                });
                if is_unread {
                    return ExitCode::SUCCESS;
                }
                eprintln!("error: {}", chain(&error));
                ExitCode::FAILURE
            }
        },
    }
}

/// The error and its causes on one line, without repeating what a cause says already.
fn chain(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        // Candle appends a backtrace where RUST_BACKTRACE is set.
        let text = cause.to_string();
        let text = text.lines().next().unwrap_or_default().to_owned();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
    }
    parts.join(": ")
}

fn command() -> Command {
    let config =
        Arg::new("config").long("config").value_name("FILE.toml").action(ArgAction::Append).help(
            "Read options from a TOML file; keys are the flags' names, flags win, later files win",
        );
    let sub = |name: &'static str,
               options: fn(Command) -> Command,
               about: &'static str,
               more: &'static str| {
        // The derived options would put their own doc comment in place of the description.
        options(Command::new(name))
            .about(about)
            .long_about(about)
            .arg(config.clone())
            .after_help(more)
    };
    Command::new("tealight")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help("Begin with `tealight study`: it needs no model, no data and no network.")
        .subcommand(sub(
            "study",
            study::StudyOptions::augment_args,
            "Evaluate a base model, fine-tune it under each objective, evaluate the results, report",
            STUDY_HELP,
        ))
        .subcommand(sub(
            "train",
            train::TrainOptions::augment_args,
            "Fine-tune a model by verifiable rewards under one objective",
            TRAIN_HELP,
        ))
        .subcommand(sub(
            "eval",
            eval::EvalOptions::augment_args,
            "Sample n completions a problem and report Pass@k and distinct right answers",
            EVAL_HELP,
        ))
        .subcommand(sub(
            "grade",
            grade::GradeOptions::augment_args,
            "Judge completions produced elsewhere: the same numbers, the same report",
            GRADE_HELP,
        ))
        .subcommand(sub(
            "compare",
            compare::CompareOptions::augment_args,
            "Evaluations side by side: differences, what was lost and gained",
            COMPARE_HELP,
        ))
        .subcommand(sub(
            "report",
            report::ReportOptions::augment_args,
            "Write an evaluation's report again, or show a run in a browser while it goes",
            REPORT_HELP,
        ))
        .subcommand(sub(
            "batch",
            batch::BatchOptions::augment_args,
            "Answer a file of requests in OpenAI's batch format on a local model",
            BATCH_HELP,
        ))
        .subcommand(sub(
            "bench",
            bench::BenchOptions::augment_args,
            "Measure sampling and a training step, and how far they are from the machine's limits",
            BENCH_HELP,
        ))
        .subcommand(sub(
            "presample",
            presample::PresampleOptions::augment_args,
            "Sample the base once: validity of every prompt, rehearsal and RFT sets, Pass@k",
            PRESAMPLE_HELP,
        ))
        .subcommand(sub(
            "lab",
            lab::LabOptions::augment_args,
            "Optima of small worlds, exactly, and the estimators of real runs beside them",
            LAB_HELP,
        ))
        .subcommand(sub(
            "verify",
            verify::VerifyOptions::augment_args,
            "Check mathematical answers against gold ones",
            VERIFY_HELP,
        ))
        .subcommand(sub(
            "beta",
            beta::BetaOptions::augment_args,
            "Convert between a KL coefficient and the validity it leads to",
            BETA_HELP,
        ))
        .subcommand(sub(
            "sft",
            sft::SftOptions::augment_args,
            "Fine-tune a model on worked solutions, or train one from scratch",
            SFT_HELP,
        ))
        .subcommand(sub(
            "export",
            export::ExportOptions::augment_args,
            "Write a model as others want it: its adapter merged, its weights in another type",
            EXPORT_HELP,
        ))
}

const STUDY_HELP: &str = "\
With the embedded model, defaults not shown here are those of recipes/countdown-study.toml
(learning rate 3e-4, 120 steps of 12 prompts x 16 completions); flags and --config files win.

Example:
  tealight study --objectives grpo,kl-full,dph-f,dph-js,alpha-dpg:0.5 --seeds 0,1,2 --output study";

const TRAIN_HELP: &str = "\
Example:
  tealight train --model Qwen/Qwen2.5-0.5B-Instruct --dataset gsm8k/train.jsonl \\
      --objective dph-js --output runs/js";

const EVAL_HELP: &str = "\
Example:
  tealight eval --model runs/js/final --dataset gsm8k/test.jsonl -n 64 -k 1,4,16,64 \\
      --output runs/js/test";

const BENCH_HELP: &str = "\
Examples:
  tealight bench --model Qwen/Qwen2.5-0.5B --prompts 2 --group 8 --prompt-len 64 --new-tokens 32
  tealight bench --model config.json --dtype bfloat16 --json   # random weights";

const GRADE_HELP: &str = "\
Examples:
  tealight grade completions.jsonl --output graded
  tealight grade batch-output.jsonl --dataset gsm8k/test.jsonl --output graded";

const COMPARE_HELP: &str = "\
Example:
  tealight compare runs/base/test runs/js/test --output runs/comparison";

const REPORT_HELP: &str = "\
Example:
  tealight report runs/js --serve";

const BATCH_HELP: &str = "\
Example:
  tealight batch --model Qwen/Qwen2.5-0.5B-Instruct -i requests.jsonl -o responses.jsonl";

const PRESAMPLE_HELP: &str = "\
The samples serve every objective that needs the base: pass --presamples DIR to train.

Example:
  tealight presample --model Qwen/Qwen2.5-0.5B-Instruct --dataset gsm8k/train.jsonl -n 8 \\
      --output runs/presamples";

const LAB_HELP: &str = "\
Worlds: ends (a bigram collapses gradually), dyck (it jumps), strategies (Pass@k curves cross).

Examples:
  tealight lab ends --beta 0.5,0.25,0.1,0.04 --alpha 0,0.5,0.9
  tealight lab ends --class bigram --beta 0.1 --json
  tealight lab dyck --beta 0.1 --start collapsed
  tealight lab ends --sampled
  tealight lab ends --table online-z
  tealight lab ends --output lab";

const VERIFY_HELP: &str = "\
Examples:
  tealight verify --gold '\\frac{1}{2}' --answer 'The answer is \\boxed{0.5}' --explain
  tealight verify --jsonl answers.jsonl > verdicts.jsonl";

const BETA_HELP: &str = "\
Example:
  tealight beta --validity 0.1 --target 0.5,0.9,0.99 --beta 0.1";

const SFT_HELP: &str = "\
Example:
  tealight sft --model Qwen/Qwen2.5-0.5B --dataset gsm8k/train.jsonl --learning-rate 1e-5 \\
      --output runs/sft";

const EXPORT_HELP: &str = "\
Example:
  tealight export --model runs/lora/final --merge --save-dtype bfloat16 --output merged";

fn run(matches: &ArgMatches) -> Result<()> {
    let stop = handle_signals()?;
    match matches.subcommand() {
        Some(("study", matches)) => study::run(&study::resolve(matches)?, &stop),
        Some(("train", matches)) => {
            let mut options: train::TrainOptions = layers::resolve(matches, None)?;
            options.resume = matches.get_one("resume").cloned();
            options.dry_run = matches.get_flag("dry_run");
            train::run(&options, &stop)
        }
        Some(("eval", matches)) => eval::run(&layers::resolve(matches, None)?, &stop),
        Some(("grade", matches)) => grade::run(&layers::resolve(matches, None)?),
        Some(("compare", matches)) => compare::run(&layers::resolve(matches, None)?),
        Some(("report", matches)) => report::run(&layers::resolve(matches, None)?, &stop),
        Some(("batch", matches)) => batch::run(&layers::resolve(matches, None)?, &stop),
        Some(("bench", matches)) => bench::run(&layers::resolve(matches, None)?),
        Some(("presample", matches)) => presample::run(&layers::resolve(matches, None)?, &stop),
        Some(("lab", matches)) => lab::run(&layers::resolve(matches, None)?),
        Some(("verify", matches)) => verify::run(&layers::resolve(matches, None)?),
        Some(("beta", matches)) => beta::run(&layers::resolve(matches, None)?),
        Some(("export", matches)) => export::run(&layers::resolve(matches, None)?),
        Some(("sft", matches)) => sft::run(&layers::resolve(matches, None)?, &stop),
        _ => unreachable!("clap asks for a subcommand"),
    }
}

/// The first SIGINT or SIGTERM asks for a stop after the step; the second ends the process at once.
fn handle_signals() -> Result<Stop> {
    let stop = Stop::default();
    let seen = Arc::new(AtomicBool::new(false));
    for (signal, code) in [(signal_hook::consts::SIGINT, 130), (signal_hook::consts::SIGTERM, 143)]
    {
        let fail = "the signal handler cannot be set up";
        signal_hook::flag::register_conditional_shutdown(signal, code, seen.clone())
            .context(fail)?;
        signal_hook::flag::register(signal, seen.clone()).context(fail)?;
        signal_hook::flag::register_usize(signal, stop.cell(), code as usize).context(fail)?;
    }
    Ok(stop)
}
