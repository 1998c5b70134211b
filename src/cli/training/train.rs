//! `tealight train`: which folder a run is in, what is printed, `--dry-run`.

use std::io::Write;

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::resume::{self, RunFlags, RunSettings};
use crate::app::data_file;
use crate::app::directory::RunDirectory;
use crate::app::training::held_out::HeldOutOptions;
use crate::app::training::{self, DryRun, TrainOptions};
use tealight_eval::number::counted;
use tealight_system::process::Process;
use tealight_system::telemetry::out;

/// The settings of this command.
pub(in crate::cli) type Settings = RunSettings<TrainOptions>;

/// The flags of this command.
pub(in crate::cli) type Flags = RunFlags;

pub(in crate::cli) fn run(
    (options, directory): (TrainOptions, Option<RunDirectory>),
    matches: &ArgMatches,
    process: &Process,
) -> Result<()> {
    idle(&options, matches)?.iter().for_each(|warning| tracing::warn!("{warning}"));
    if Flags::from_arg_matches(matches)?.dry_run {
        return show(&training::dry_run(&options, &process.ranks)?);
    }
    let directory = resume::directory(matches, directory)?;
    training::run(&options, &directory, process, None).map(drop)
}

/// What is to be said of options on the command line that this run does not read. Settings files may hold them for
/// other runs.
fn idle(options: &TrainOptions, matches: &ArgMatches) -> Result<Vec<String>> {
    let plan = options.rlvr.plan()?;
    let evaluates = options.held_out.eval_steps > 0;
    let has_columns = !data_file::is_source(&options.data.dataset);
    let of_base = "an objective that trains on samples of the base";
    // --eval-dataset without --eval-steps is refused.
    let held_out = HeldOutOptions::augment_args(Command::default());
    let held_out = held_out.get_arguments().map(|argument| argument.get_id().as_str());
    let held_out: Vec<&str> =
        held_out.filter(|id| !["eval_steps", "eval_dataset"].contains(id)).collect();
    let of_policy = "an objective that samples the policy";
    let rows: [(bool, &str, &[&str]); 5] = [
        (plan.needs_presamples(), of_base, &["num_presamples"]),
        (plan.trains_on_stored(), of_base, &["rehearsal_batch_size"]),
        (
            plan.is_on_policy(),
            of_policy,
            &["num_generations", "prompts_per_step", "log_completions"],
        ),
        (evaluates, "--eval-steps", &held_out),
        (has_columns, "a dataset with columns", &["prompt_column", "answer_column"]),
    ];
    let is_typed = |id: &&&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let unread = rows.iter().filter(|(is_read, ..)| !is_read);
    let sentences = unread.flat_map(|(_, needed, ids)| {
        let typed = ids.iter().filter(is_typed);
        typed.map(move |id| format!("--{} has no effect without {needed}", id.replace('_', "-")))
    });
    Ok(sentences.collect())
}

fn show(run: &DryRun) -> Result<()> {
    let mut out = out();
    writeln!(out, "{}", run.settings)?;
    for (tokens, text, answer) in &run.prompts {
        writeln!(out, "prompt ({tokens} tokens), answer `{answer}`:\n{text}\n")?;
    }
    writeln!(out, "a completion ends at: {}", run.stops.join(", "))?;
    writeln!(
        out,
        "a step: {} of up to {}, prompts of up to {}",
        counted(run.completions, "completion"),
        counted(run.completion_length, "token"),
        run.prompt_length
    )?;
    if run.is_trust_region_inactive {
        writeln!(
            out,
            "one optimizer step a batch: the importance ratio is 1, so clipping has no effect (raise \
             steps-per-generation or num-iterations, keys of --objective)"
        )?;
    }
    let plan = &run.memory;
    writeln!(out, "memory, planned for the longest sequences:")?;
    plan.lines().iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    if let Some(free) = run.free_memory.filter(|free| *free < plan.peak()) {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        writeln!(
            out,
            "it does not fit: {:.1} GB are planned, and {:.1} GB are free; smaller micro-batches are chosen where they \
             help, else add --gradient-checkpointing or --use-peft, or lower --max-completion-length, \
             --micro-batch-tokens or --max-num-seqs",
            gigabytes(plan.peak()),
            gigabytes(free)
        )?;
    }
    if run.is_base_for_log {
        let megabytes = plan.base as f64 / 1e6;
        writeln!(out, "only --log-kl needs the base: off saves {megabytes:.1} MB")?;
    } else if plan.base == 0 {
        writeln!(out, "training does not use the base: only one copy of the weights is in memory")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands;

    #[test]
    fn typed_options_that_a_run_does_not_read_are_named() {
        let idle_of = |line: &str| {
            let words = format!("tealight train --output run {line}");
            let matches = commands::command().get_matches_from(words.split_whitespace());
            let (_, matches) = matches.subcommand().expect("a command");
            let (options, _) = resume::resolve::<TrainOptions>(matches).expect("options");
            idle(&options, matches).expect("a plan").join("; ")
        };
        assert_eq!(idle_of("--num-generations 4"), "");
        assert_eq!(idle_of("--objective rft --num-presamples 4"), "");
        assert_eq!(
            idle_of("--num-presamples 4 --rehearsal-batch-size 2"),
            "--num-presamples has no effect without an objective that trains on samples of the base; \
             --rehearsal-batch-size has no effect without an objective that trains on samples of the base"
        );
        assert!(idle_of("--metric-for-best-model distinct").ends_with("without --eval-steps"));
        assert!(idle_of("--prompt-column q").ends_with("without a dataset with columns"));
        assert_eq!(idle_of("--dataset x.jsonl --prompt-column q"), "");
    }
}
