//! Completions produced elsewhere get the same numbers and the same report.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_core::names;

use crate::app::directory::{self, Destination, Existing};
use crate::app::evaluate::outcome::{self, Judged};
use crate::app::grading::{self, DRAFT, FileToGrade, GradingOptions};
use tealight_system::files::{readable_folder, writable_subfolder};
use tealight_system::range::COUNT;
use tealight_system::stop::Stop;

/// Options of `tealight grade`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct GradeOptions {
    /// How completions are judged.
    #[command(flatten)]
    #[serde(flatten)]
    pub grading: GradingOptions,
    /// Report Pass@k and distinct correct answers at these k. Default: powers of two up to the fewest samples that a
    /// problem has.
    #[arg(short, value_delimiter = ',', add = COUNT)]
    pub k: Vec<usize>,
    /// Name of the set in the results. `compare` matches sets by their names. Default: the file's name.
    #[arg(long, value_name = "SET")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the model in the results.
    #[arg(long, default_value = "graded")]
    pub model: String,
    /// Directory for the results, the report and the judged samples. Without --output the table is printed and nothing
    /// is saved.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Do not write the judged samples: the report then has no list of problems, and the command needs little memory
    /// and disk.
    #[arg(long)]
    pub no_samples: bool,
    /// Print the results as JSON instead of as a table.
    #[arg(long)]
    pub json: bool,
}

/// Judges the completions in `file` (the samples of an evaluation where that is its folder, standard input where it is
/// `-`), and writes results, report and judged samples.
/// docs/how-to/grade.md lists the formats.
pub fn run(options: &GradeOptions, file: &str, existing: Existing, stop: &Stop) -> Result<Judged> {
    Destination::check(options.output.as_deref(), existing)?;
    if options.name.as_ref().is_some_and(|name| name.trim().is_empty()) {
        bail!("--name is empty: give the set a name, or leave --name out");
    }
    let (input, dataset) = (options.grading.input(file)?, options.grading.dataset()?);
    let dataset = dataset.as_ref().or(input.dataset());
    let verifier = options.grading.verifier(dataset)?;
    let source = input.source()?;
    let destination = Destination::resolve(options.output.as_deref(), stop)?;
    let output = destination.path();
    directory::refuse_run(output, existing)?;
    let claim = directory::fresh(output, existing)?;
    // Judged samples go to a folder of their own until all of the file has been accepted: a mistake in its last line
    // costs no earlier results.
    let judging = readable_folder().tempdir_in(output);
    let judging = judging.with_context(|| format!("{}: cannot be written", output.display()))?;
    let set = options.name.clone().unwrap_or_else(|| grading::set_name(&input.file));
    let has_samples = destination.is_saved() && !options.no_samples;
    let samples = has_samples.then(|| format!("samples/{}.jsonl", names::file_name(&set)));
    let path = samples.as_ref().map(|samples| output.join(samples));
    let to_grade = FileToGrade {
        input: &input,
        set,
        model: &options.model,
        dataset,
        verifier: &*verifier,
        samples,
        verdict_key: None,
        ks: &options.k,
        config: serde_json::to_value(options)?,
    };
    let graded = options.grading.grade(source, to_grade, judging.path(), stop)?;
    let (results, unjudged) = (graded.results, graded.unjudged);
    tracing::info!("intervals: 95 %, over problems");
    directory::begin(Some(&claim), output, existing)?;
    let write = || {
        if let Some(path) = &path {
            writable_subfolder(&output.join("samples"))?;
            std::fs::rename(judging.path().join(DRAFT), path)
                .with_context(|| path.display().to_string())?;
        }
        outcome::write(&results, Some(vec![graded.index]), &destination)
    };
    if let Err(error) = write() {
        // Half of the results, as on a full disk, would only stand in the way of the same command.
        _ = directory::begin(None, output, Existing::Replace);
        return Err(error);
    }
    if !has_samples {
        unjudged.iter().for_each(|reason| tracing::info!("  {reason}"));
    }
    let verifiers = std::iter::once(&*verifier);
    let doubt = outcome::doubt(&results, verifiers, &unjudged, options.grading.max_unjudged);
    Ok(Judged { results, doubt })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_eval::report::recipes::GRADING;

    #[test]
    fn a_report_repeats_every_option_that_its_numbers_depend_on() {
        let command = GradeOptions::augment_args(clap::Command::new("grade"));
        let of_output = ["output", "no_samples", "json"];
        for option in command.get_arguments().map(|option| option.get_id().as_str()) {
            let is_known = GRADING.iter().any(|(known, _)| *known == option);
            assert!(is_known || of_output.contains(&option), "{option}");
        }
    }
}
