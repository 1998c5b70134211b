//! `tealight eval` and `tealight grade`.

use anyhow::{Context, Result};
use clap::{ArgMatches, Args, FromArgMatches};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::directory::Existing;
use crate::app::evaluate::{self, EvalOptions, Judged};
use crate::app::grade::{self, GradeOptions};
use crate::cli::{config_merge, table};
use tealight_system::process::Process;
use tealight_system::stop::Interrupted;
use tealight_system::telemetry::print;

/// The settings of `grade`, and the file that a settings file may name too.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct GradeSettings {
    /// Completions of another program: lines of {"id", "completion", "gold"}, or a file of a harness, server or trainer
    /// that docs/how-to/grade.md lists, or a directory that eval wrote; - for standard input.
    #[arg(value_name = "FILE")]
    file: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    grade: GradeOptions,
}

/// The flags of `eval` and `grade`.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Flags {
    /// Replace an earlier result in --output: only files that Tealight wrote are removed.
    #[arg(long)]
    overwrite: bool,
}

impl Flags {
    fn existing(matches: &ArgMatches) -> Result<Existing> {
        Ok(match Flags::from_arg_matches(matches)?.overwrite {
            true => Existing::Replace,
            false => Existing::Keep,
        })
    }
}

/// The options of `eval`.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<EvalOptions> {
    // A file may be a pipe, which can be read once.
    let files = config_merge::files(matches)?;
    let mut options: EvalOptions = config_merge::resolve_with(matches, None, &files)?;
    let given = config_merge::given::<EvalOptions>(matches, &files)?;
    options.is_default_dataset = given.contains("model") && !given.contains("dataset");
    Ok(options)
}

pub(in crate::cli) fn run(
    options: &EvalOptions,
    matches: &ArgMatches,
    process: &Process,
) -> Result<()> {
    let existing = Flags::existing(matches)?;
    let judged = evaluate::run(options, existing, process).inspect_err(|error| {
        if let (true, Some(output)) = (error.is::<Interrupted>(), &options.output) {
            let output = output.display();
            tracing::info!("saved the samples in {output}; continue with the same command");
        }
    });
    show(judged?, options.json)
}

pub(in crate::cli) fn grade(
    GradeSettings { file, grade: options }: GradeSettings,
    matches: &ArgMatches,
    process: &Process,
) -> Result<()> {
    let file = file.context("name the FILE of completions, or -")?;
    show(grade::run(&options, &file, Flags::existing(matches)?, &process.stop)?, options.json)
}

/// Prints results, and fails where they are doubtful.
fn show(Judged { results, doubt }: Judged, as_json: bool) -> Result<()> {
    let text = if as_json {
        let sets: Vec<_> = results
            .sets
            .iter()
            .map(|set| json!({"name": set.name, "summary": set.summary}))
            .collect();
        serde_json::to_string_pretty(&json!({"model": results.model, "sets": sets}))?
    } else {
        results.sets.iter().map(table::set).collect::<Vec<_>>().join("\n\n")
    };
    print(text)?;
    doubt.map_or(Ok(()), |doubt| Err(doubt.into()))
}
