//! Two or more files of completions to one page: `grade` and `compare` in one stroke, and what only texts can say.

mod judged_files;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_core::names;
use tealight_datasets::{Dataset, Verifier, verify};
use tealight_eval::audit::{self, Audit, AuditInput, SecondJudge, Way};
use tealight_eval::report::audit_page::{self, AuditPage};
use tealight_eval::report::recipes;
use tealight_eval::results::Results;
use tealight_eval::store::Index;

use crate::app::directory::{self, Destination, Existing, as_argument};
use crate::app::evaluate::Doubtful;
use crate::app::grading::{self, FileToGrade, GradingOptions, Input};
use judged_files::{JudgedFile, aligned, pair};
use tealight_system::files::{readable_folder, write_atomic};
use tealight_system::process::Process;

/// Options of `tealight audit`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct AuditOptions {
    /// Files of completions, the base's first: every file that `tealight grade` reads, also of different harnesses, and
    /// directories that `tealight eval` wrote.
    #[arg(value_name = "FILE")]
    pub files: Vec<String>,
    /// Names of the models, in the order of the files. Default: the files' names.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub names: Vec<String>,
    /// Completions of the base with another seed, to measure resampling noise. Default: the base's own samples are
    /// split.
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_draw: Option<String>,
    /// Audit only the problems that all files have; without --intersect, files on different problems are refused.
    #[arg(long, help_heading = "Data")]
    pub intersect: bool,
    /// How completions are judged.
    #[command(flatten)]
    #[serde(flatten)]
    pub grading: GradingOptions,
    /// Second verifier that judges the same completions: where the two disagree, and whether a conclusion changes.
    /// Default: math:strict where the verifier is math, else none.
    #[arg(long, value_name = "VERIFIER", help_heading = "Data")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Key of another judge's verdict in the records (exact_match, score, Math-Verify's output), as the second
    /// verdict in place of --against. A number of .5 or more counts as correct.
    #[arg(long, value_name = "KEY", help_heading = "Data")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict_key: Option<String>,
    /// Directory for report.html, audit.json and the judged samples. Without --output the answers are printed and
    /// nothing is saved.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Replace an earlier result in --output: only files that Tealight wrote are removed.
    #[arg(long)]
    pub overwrite: bool,
    /// Print audit.json instead of sentences.
    #[arg(long)]
    pub json: bool,
}

/// The name of --second-draw among the models.
const SECOND_DRAW: &str = "second draw";

/// An audit, and why it is not to be relied on, where that is so.
pub struct Audited {
    /// The audit.
    pub audit: Audit,
    /// Too much could not be judged.
    pub doubt: Option<Doubtful>,
}

/// Audits files of completions, the first as the base.
pub fn run(options: &AuditOptions, process: &Process) -> Result<Audited> {
    let existing = Existing::from_flag(options.overwrite);
    Destination::check(options.output.as_deref(), existing)?;
    if options.files.len() < 2 {
        bail!(
            "name at least two files of completions, the base's first: tealight audit BASE TUNED"
        );
    }
    let names = options.names()?;
    let dataset = options.grading.dataset()?;
    let files: Vec<&String> = options.files.iter().chain(&options.second_draw).collect();
    let inputs: Vec<Input> =
        files.iter().map(|file| options.grading.input(file)).collect::<Result<_>>()?;
    let verifier = options.verifier(dataset.as_ref(), &inputs)?;
    let second = options.second_verifier(&*verifier)?;
    let sources: Vec<_> = inputs.iter().map(Input::source).collect::<Result<_>>()?;
    let destination = Destination::resolve(options.output.as_deref(), &process.stop)?;
    let output = destination.path();
    directory::refuse_run(output, existing)?;
    directory::refuse_inside(output, existing, files.iter().map(|file| Path::new(file.as_str())))?;
    let claim = directory::fresh(output, existing)?;
    let (mut notes, mut judged) = (Vec::new(), Vec::new());
    let set = grading::set_name(&options.files[0]);
    let all_names = names.iter().map(String::as_str).chain([SECOND_DRAW]);
    for ((input, source), name) in inputs.iter().zip(sources).zip(all_names) {
        let folder = readable_folder().tempdir_in(output);
        let folder = folder.with_context(|| format!("{}: cannot be written", output.display()))?;
        let to_grade = FileToGrade {
            input,
            set: set.clone(),
            model: name,
            dataset: dataset.as_ref().or(input.dataset()),
            verifier: &*verifier,
            samples: Some(format!("samples/{}.jsonl", names::file_name(name))),
            verdict_key: options.verdict_key.as_deref(),
            ks: &[],
            config: serde_json::to_value(options)?,
        };
        let graded = options.grading.grade(source, to_grade, folder.path(), &process.stop)?;
        notes.extend(graded.notes.iter().map(|note| format!("{name}: {note}")));
        judged.push(JudgedFile::new(name, graded, folder)?);
    }
    pair(&mut judged, &*verifier, &mut notes)?;
    let (models, second_draw) = judged.split_at(options.files.len());
    let (set, more, warnings) = aligned(models, second_draw.first(), options.intersect)?;
    // The notes of grading were said with their files.
    more.iter().chain(&warnings).for_each(|note| tracing::warn!("{note}"));
    notes.extend(more);
    let results: Vec<&Results> = models.iter().map(|file| &file.results).collect();
    let samples: Vec<Arc<Index>> = models.iter().map(|file| file.index.clone()).collect();
    let input = AuditInput {
        names: &names,
        set: &set,
        samples: &samples,
        golds: &audit::golds(&results),
        ways: &options.ways(&*verifier, &results),
        second: options.second_judge(second.as_deref()).map(|judge| (verifier.name(), judge)),
    };
    let audit = said(audit::audit(&input)?, warnings, notes);
    let most = options.grading.max_unjudged;
    let doubt = judged.iter().find_map(|file| file.doubt(&*verifier, most));
    if destination.is_saved() {
        directory::begin(Some(&claim), output, existing)?;
        judged.iter().try_for_each(|file| file.save(output))?;
        let (audit, set, results) = (&audit, &set, results.as_slice());
        let (samples, command) = (&samples, options.command()?);
        let page = AuditPage { audit, set, results, samples, command };
        write(&page, output)?;
    } else {
        tracing::info!("nothing was saved; --output DIR saves a page with all numbers and texts");
    }
    Ok(Audited { audit, doubt })
}

/// An audit with the warnings and notes of its files; its own warnings are said now.
fn said(audit: Audit, mut warnings: Vec<String>, notes: Vec<String>) -> Audit {
    audit.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    warnings.extend(audit.warnings);
    Audit { warnings, notes, ..audit }
}

fn write(page: &AuditPage<'_>, output: &Path) -> Result<()> {
    audit_page::write(page, output).context("the report cannot be written")?;
    let json = serde_json::to_string_pretty(page.audit)?;
    write_atomic(&output.join("audit.json"), json.as_bytes())?;
    tracing::info!("report.html, audit.json and samples in {}", output.display());
    Ok(())
}

impl AuditOptions {
    /// The names of the models.
    fn names(&self) -> Result<Vec<String>> {
        // The samples of each are a file by its name.
        let is_unique = |names: &[String]| {
            let draw = self.second_draw.as_ref().map(|_| SECOND_DRAW);
            let all = names.iter().map(String::as_str).chain(draw);
            let files: HashSet<String> = all.clone().map(names::file_name).collect();
            files.len() == all.count()
        };
        if !self.names.is_empty() {
            let names: Vec<String> = self.names.iter().map(|name| name.trim().to_owned()).collect();
            let has_empty = names.iter().any(String::is_empty);
            if names.len() != self.files.len() || has_empty || !is_unique(&names) {
                bail!(
                    "--names: one name for each of the {} files, none empty, all different, also as names of files",
                    self.files.len()
                );
            }
            return Ok(names);
        }
        let names: Vec<String> = self.files.iter().map(|file| grading::set_name(file)).collect();
        if is_unique(&names) {
            return Ok(names);
        }
        // A harness gives the files of all models one name, in folders of the models.
        let folder = |depth: usize, file: &String| {
            let folder = Path::new(file).ancestors().nth(depth)?.file_name()?.to_string_lossy();
            Some(folder.into_owned())
        };
        let folders = |depth| self.files.iter().map(|file| folder(depth, file)).collect();
        let names = (1..8)
            .map_while(folders)
            .find(|names: &Vec<String>| is_unique(names) && !grading::is_time(&names[0]));
        names.context(
            "the same file occurs twice, or two files have one name: an audit compares the completions of different \
             models, which --names tells apart",
        )
    }

    /// The judge of all files: that of --verifier or --dataset, else that of the evaluations whose folders are named.
    fn verifier(&self, dataset: Option<&Dataset>, inputs: &[Input]) -> Result<Arc<dyn Verifier>> {
        let stored: Vec<&Dataset> = inputs.iter().filter_map(Input::dataset).collect();
        let verifier = self.grading.verifier(dataset.or(stored.first().copied()))?;
        let is_other = |one: &&&Dataset| one.verifier.name() != verifier.name();
        if let Some(other) = stored.iter().find(is_other)
            && self.grading.rewards.verifier.is_empty()
        {
            bail!(
                "one evaluation was judged by {}, another by {}: name the verifier of all with --verifier",
                verifier.name(),
                other.verifier.name()
            );
        }
        Ok(verifier)
    }

    fn second_verifier(&self, first: &dyn Verifier) -> Result<Option<Arc<dyn Verifier>>> {
        if self.verdict_key.is_some() && self.against.is_some() {
            bail!("--against and --verdict-key each name the second judge: leave one of them out");
        }
        match &self.against {
            _ if self.verdict_key.is_some() => Ok(None),
            Some(spec) => Ok(Some(verify::open(spec)?)),
            None if first.name() == "math" => Ok(Some(verify::open("math:strict")?)),
            None => Ok(None),
        }
    }

    /// The second judge, where there is one.
    fn second_judge<'a>(&'a self, verifier: Option<&'a dyn Verifier>) -> Option<SecondJudge<'a>> {
        let column = self.verdict_key.as_deref().map(SecondJudge::Column);
        column.or(verifier.map(SecondJudge::Verifier))
    }

    /// How correct answers are told apart, the way that strategies are counted by first.
    fn ways(&self, verifier: &dyn Verifier, results: &[&Results]) -> Vec<Way> {
        let has_classes = |results: &&Results| results.config.get("file_classes").is_some();
        let mut ways = Vec::new();
        if results.iter().all(has_classes) {
            ways.push(Way::Class("class of the file".into()));
        } else if let Some(function) = &self.grading.rewards.classes {
            ways.push(Way::Class(format!("class by {function}")));
        } else if !verifier.name().starts_with("math") {
            ways.push(Way::Class(format!("solution, by the verifier {}", verifier.name())));
        }
        if verifier.name().starts_with("math") {
            ways.push(Way::Equations);
        }
        ways.extend([Way::Value, Way::Text]);
        ways
    }

    /// The command line that makes the same audit.
    fn command(&self) -> Result<String> {
        let files = self.files.iter().map(|file| as_argument(Path::new(file)));
        let own = ["names", "second_draw", "intersect", "against", "verdict_key"];
        let options = recipes::options(&serde_json::to_value(self)?, &own);
        Ok(format!(
            "tealight audit {}{options} --output again",
            files.collect::<Vec<_>>().join(" ")
        ))
    }
}
