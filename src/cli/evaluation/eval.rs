//! `tealight eval` and `tealight grade`.

use anyhow::{Result, bail};
use clap::ArgMatches;
use serde_json::json;

use crate::app::evaluate::reject::Rejection;
use crate::app::evaluate::{self, EvalOptions, Judged};
use crate::app::grade::{self, GradeOptions};
use crate::cli::{config_merge, table};
use crate::process::Process;
use crate::telemetry::print;
use crate::train::Interrupted;

/// The options of `eval`; `--overwrite` is for the command line alone.
pub(in crate::cli) fn resolve(matches: &ArgMatches) -> Result<EvalOptions> {
    let mut options: EvalOptions = config_merge::resolve_plain(matches)?;
    options.overwrite = matches.get_flag("overwrite");
    Ok(options)
}

/// The options of `grade`; `--overwrite` is for the command line alone.
pub(in crate::cli) fn resolve_grade(matches: &ArgMatches) -> Result<GradeOptions> {
    let mut options: GradeOptions = config_merge::resolve_plain(matches)?;
    options.overwrite = matches.get_flag("overwrite");
    Ok(options)
}

pub(in crate::cli) fn run(options: &EvalOptions, process: &Process) -> Result<()> {
    if !options.reject {
        let found = evaluate::run(options, process).inspect_err(|error| {
            if let (true, Some(output)) = (error.is::<Interrupted>(), &options.output) {
                let output = output.display();
                tracing::info!("saved the samples in {output}; continue with the same command");
            }
        });
        return show(found?, options.json);
    }
    if process.ranks.size() > 1 {
        bail!("--reject runs in one process: start it without mpirun");
    }
    let found = evaluate::rejecting(options, &process.stop)?;
    print(match options.json {
        true => serde_json::to_string_pretty(&found)?,
        false => rejection(&found),
    })?;
    Ok(())
}

pub(in crate::cli) fn grade(options: &GradeOptions, process: &Process) -> Result<()> {
    show(grade::run(options, process)?, options.json)
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

fn rejection(found: &Rejection) -> String {
    let mut rows = vec![vec!["rejection".to_owned(), "value".to_owned()]];
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    row("acceptance rate", format!("{:.4}", found.acceptance_rate));
    row("right answers kept", found.accepted.to_string());
    row("answers drawn", found.drawn.to_string());
    row("distinct right answers a problem", format!("{:.2}", found.distinct));
    row("problems never right", found.never_right.to_string());
    match found.kl_pstar_guard {
        Some(kl) => row(
            &format!("KL(p* || g') on {} problems, nats", found.kl_problems),
            format!("{:.4} ({:.4} to {:.4})", kl.value, kl.low, kl.high),
        ),
        None => row("KL(p* || g')", "needs --presamples of the base".into()),
    }
    table::plain(&rows)
}
