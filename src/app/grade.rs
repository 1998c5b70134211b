//! Completions produced elsewhere get the same numbers and the same report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::{Dataset, Rewards, Verifier, names, verify};
use tealight_eval::grade::{GradeJob, Graded, JudgedChunk, Source};
use tealight_eval::results::{Question, Results, SetResult, VERSION};
use tealight_eval::rules::{Failed, Missing, Rules};
use tealight_eval::store::{Index, SamplesWriter};
use tealight_eval::{Tally, Truncated};

use crate::app::directory::{self, Destination, Existing};
use crate::app::evaluate::outcome::{self, Extras, Judged, LogFormat};
use crate::app::prompts::PromptOptions;
use crate::app::rewards::RewardOptions;
use crate::app::settings::DataOptions;
use crate::system::choices::choice;
use crate::system::files::{readable_folder, writable_subfolder};
use crate::system::process::Process;
use crate::system::range::{COUNT, at_least};

/// How often the progress of grading is logged.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Options of `tealight grade`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct GradeOptions {
    /// Dataset with the gold answers, matched by problem id or by prompt. Its answers replace those in the records.
    #[arg(long, help_heading = "Data")]
    pub dataset: Option<String>,
    /// Name of the set in the results. `compare` matches sets by their names. Default: the file's name.
    #[arg(long, value_name = "SET")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Filter of lm-evaluation-harness to read, which writes every sample once for each filter. Default: the first
    /// filter in the file.
    #[arg(long, value_name = "NAME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Rule for completions that were truncated at the length limit: wrong (incorrect whatever the text says), or
    /// judged (the verifier decides, as in lm-evaluation-harness).
    #[arg(long, value_name = "RULE", default_value = "wrong", value_parser = choice::<Truncated>())]
    #[serde(default)]
    pub truncated: Truncated,
    /// Rule for completions without an answer (a failed request, a refusal, a content filter, a tool call, no text):
    /// wrong (incorrect), or unjudged (left out of every estimate).
    #[arg(long, value_name = "RULE", default_value = "wrong", value_parser = choice::<Failed>())]
    #[serde(default)]
    pub failed: Failed,
    /// Rule for problems of --dataset without a completion in the file: left-out (with a note), or wrong (no correct
    /// completion).
    #[arg(long, value_name = "RULE", default_value = "left-out", value_parser = choice::<Missing>(), requires = "dataset")]
    #[serde(default)]
    pub missing: Missing,
    /// Key of the gold answer in each record. Needed if docs/how-to/grade.md does not list the key, or if `answer` is
    /// the gold answer in records with a verdict.
    #[arg(long, value_name = "KEY", help_heading = "Data")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gold_key: Option<String>,
    /// Refuse a record without a gold answer. By default such records are left out, with a note.
    #[arg(long, help_heading = "Data")]
    #[serde(default)]
    pub require_gold: bool,
    /// Column of that dataset with the question.
    #[arg(long, help_heading = "Data")]
    pub prompt_column: Option<String>,
    /// Column of that dataset with the answer.
    #[arg(long, help_heading = "Data")]
    pub answer_column: Option<String>,
    /// The judge: --verifier, or else the dataset's own, or math without a dataset.
    #[command(flatten)]
    #[serde(flatten)]
    pub rewards: RewardOptions,
    /// Say that the prompts ended with <think>, so completions begin inside a thought. A completion without </think> is
    /// then an unfinished thought and has no answer.
    #[arg(long)]
    #[serde(default)]
    pub prefilled_thinking: bool,
    /// Report Pass@k and distinct correct answers at these k. Default: powers of two up to the fewest samples that a
    /// problem has.
    #[arg(short, value_delimiter = ',', add = COUNT)]
    #[serde(default)]
    pub k: Vec<usize>,
    /// Estimate Pass@k at these k, also above the number of samples, with intervals and a check on held-out samples.
    #[arg(long, value_name = "K", value_delimiter = ',', add = COUNT)]
    #[serde(default)]
    pub extrapolate: Vec<usize>,
    /// Name of the model in the results.
    #[arg(long, default_value = "graded")]
    pub model: String,
    /// Directory for the results, the report and the judged samples. Without --output the table is printed and nothing
    /// is saved.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Exit with status 3 if more than this share of the completions could not be judged.
    #[arg(long, default_value_t = 0.05, add = at_least(0.0).at_most(1.0))]
    pub max_unjudged: f64,
    /// Do not write the judged samples: the report then has no list of problems, and the command needs little memory
    /// and disk.
    #[arg(long)]
    #[serde(default)]
    pub no_samples: bool,
    /// Also write the samples for another tool's viewer: inspect, for `inspect view --log-dir DIR/inspect`.
    #[arg(long, value_enum)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_format: Option<LogFormat>,
    /// Print the results as JSON instead of as a table.
    #[arg(long)]
    pub json: bool,
}

/// Judges the completions in `file`, standard input where that is `-`, and writes results, report and judged samples.
/// docs/how-to/grade.md lists the formats.
pub fn run(
    options: &GradeOptions,
    file: &str,
    existing: Existing,
    Process { ranks, stop }: &Process,
) -> Result<Judged> {
    Destination::check(options.output.as_deref(), existing)?;
    LogFormat::check(options.log_format, options.output.is_some() && !options.no_samples)?;
    let dataset = options.dataset()?;
    let verifier = options.verifier(dataset.as_ref())?;
    if file == "-" && ranks.size() > 1 {
        bail!("standard input goes to one process: name a FILE, which all of them can read");
    }
    let mut source = source(file)?;
    let destination = Destination::resolve(options.output.as_deref(), stop)?;
    let output = destination.path();
    let mut claim = None;
    ranks.first(|| {
        directory::refuse_run(output, existing)?;
        claim = Some(directory::fresh(output, existing)?);
        Ok(())
    })?;
    // Judged samples go to a folder of their own until all of the file has been accepted: a mistake in its last line
    // costs no earlier results.
    let judging = readable_folder().tempdir_in(output);
    let judging = judging.with_context(|| format!("{}: cannot be written", output.display()))?;
    let set = options.name.clone().unwrap_or_else(|| set_name(file));
    let has_samples = destination.is_saved() && !options.no_samples;
    let samples = has_samples.then(|| format!("samples/{}.jsonl", names::file_name(&set)));
    let path = samples.as_ref().map(|samples| output.join(samples));
    let draft = judging.path().join("samples.jsonl");
    let follows = path.is_some() && ranks.is_first();
    let mut follower = Follower::new(follows.then_some(draft.as_path()))?;
    // For problems that come again after many others.
    let temporary = || {
        tempfile::tempfile_in(judging.path())
            .with_context(|| format!("{}: cannot be written", output.display()))
    };
    let files = [temporary()?, temporary()?];
    let job = GradeJob {
        dataset: dataset.as_ref(),
        starts_inside: options.prefilled_thinking,
        filter: options.filter.as_deref(),
        gold_key: options.gold_key.as_deref(),
        requires_gold: options.require_gold,
        rules: Rules { truncated: options.truncated, failed: options.failed },
        missing: options.missing,
        team: ranks,
        encodes: follower.out.is_some(),
        files: Some(files.each_ref()),
        ..GradeJob::new(&*verifier)
    };
    let sink = &mut |chunk: &JudgedChunk| {
        stop.check()?;
        follower.receive(chunk)
    };
    let graded = job.run(&mut source, sink)?;
    if graded.completions == 0 {
        bail!("{file}: contains no completion to grade");
    }
    graded.notes.iter().for_each(|note| tracing::warn!("{note}"));
    let (seconds, index) = follower.finish(graded.completions, graded.problems.len())?;
    let (unjudged, classes) = (graded.unjudged.clone(), graded.classes);
    let set = options.set((file, set), graded, dataset, (&*verifier, samples))?;
    let results = options.results((file, classes), set, seconds)?;
    ranks.first(|| {
        directory::begin(claim.as_ref(), output, existing)?;
        let Some(path) = &path else { return Ok(()) };
        writable_subfolder(&output.join("samples"))?;
        std::fs::rename(&draft, path).with_context(|| path.display().to_string())
    })?;
    let extras = Extras { indices: Some(vec![index]), ..Extras::default() };
    ranks.first(|| outcome::write(&results, extras, &destination, options.log_format))?;
    if !has_samples {
        unjudged.iter().for_each(|reason| tracing::info!("  {reason}"));
    }
    let verifiers = std::iter::once(&*verifier);
    let doubt = outcome::doubt(&results, verifiers, &unjudged, options.max_unjudged);
    Ok(Judged { results, doubt })
}

impl GradeOptions {
    /// The results of the set of a file.
    fn set(
        &self,
        (file, name): (&str, String),
        graded: Graded,
        dataset: Option<Dataset>,
        (verifier, samples): (&dyn Verifier, Option<String>),
    ) -> Result<SetResult> {
        let ks = self.ks(&graded.tallies)?;
        Ok(SetResult {
            name,
            dataset: self.dataset.clone().unwrap_or_else(|| file.to_owned()),
            domain: None,
            verifier: verifier.name().into(),
            temperature: None,
            summary: outcome::summary(&graded.tallies, &ks, || graded.unjudged.first().cloned())?
                .extrapolated(&graded.tallies, &self.extrapolate)?,
            questions: graded.problems.into_iter().map(Question::from).collect(),
            problems: graded.tallies,
            unusable: dataset.map(|dataset| dataset.unusable).unwrap_or_default(),
            samples,
        })
    }

    /// The results of a file's completions.
    fn results(
        &self,
        (file, classes): (&str, usize),
        set: SetResult,
        seconds: f64,
    ) -> Result<Results> {
        let mut config = serde_json::to_value(self)?;
        config["file"] = file.into();
        if classes > 0 {
            config["file_classes"] = classes.into();
        }
        Ok(Results {
            schema_version: VERSION,
            tealight: format!("{} {}", env!("CARGO_PKG_VERSION"), env!("TEALIGHT_REVISION")),
            model: self.model.clone(),
            config,
            seconds,
            sets: vec![set],
        })
    }
}

/// A file, or standard input.
fn source(file: &str) -> Result<Source<'static>> {
    match file {
        "-" => Source::new(std::io::stdin().lock(), "standard input"),
        file => Source::open(file),
    }
}

/// The name of a file's set: the file's, without its extensions and without the time that lm-eval puts behind it.
fn set_name(file: &str) -> String {
    let Some(stem) = Path::new(file).file_stem().filter(|_| file != "-") else {
        return "stdin".to_owned();
    };
    let stem = stem.to_string_lossy();
    let packed = [".jsonl", ".ndjson", ".json", ".csv", ".tsv"];
    let stem = packed.iter().find_map(|extension| stem.strip_suffix(extension)).unwrap_or(&stem);
    let is_time = |text: &str| {
        text.len() >= 19 && text.starts_with("20") && text.as_bytes().get(10) == Some(&b'T')
    };
    let name = stem.rsplit_once('_').filter(|(name, time)| !name.is_empty() && is_time(time));
    name.map_or(stem, |(name, _)| name).to_owned()
}

/// Follows grading: writes the judged samples, and logs the progress.
struct Follower {
    out: Option<SamplesWriter>,
    judged: usize,
    started: Instant,
    logged: Instant,
}

impl Follower {
    /// Writes samples to the file `path`, where there is one.
    fn new(path: Option<&Path>) -> Result<Self> {
        let out = path.map(SamplesWriter::create).transpose()?;
        let started = Instant::now();
        Ok(Self { out, judged: 0, started, logged: started })
    }

    fn receive(&mut self, chunk: &JudgedChunk) -> Result<()> {
        self.judged += chunk.samples.len();
        if self.logged.elapsed() > LOG_EVERY {
            self.logged = Instant::now();
            let rate = self.judged as f64 / self.started.elapsed().as_secs_f64();
            tracing::info!("{} completions judged ({rate:.0}/s)", self.judged);
        }
        self.out.as_mut().map_or(Ok(()), |out| out.write(chunk))
    }

    /// Writes what is left; the seconds that grading took, and where the samples are.
    fn finish(self, completions: usize, problems: usize) -> Result<(f64, Option<Arc<Index>>)> {
        let index = self.out.map(SamplesWriter::finish).transpose()?.map(Arc::new);
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = completions as f64 / seconds;
        tracing::info!(
            "{completions} completions of {problems} problems in {seconds:.1} s ({rate:.0}/s)"
        );
        tracing::info!("intervals: 95 %, over problems");
        Ok((seconds, index))
    }
}

impl GradeOptions {
    /// The verifier that is named, else the dataset's, else that of mathematics.
    fn verifier(&self, dataset: Option<&Dataset>) -> Result<Arc<dyn Verifier>> {
        let rewards = self.rewards.rewards();
        let classes = rewards.classes.clone();
        let is_default = Rewards { classes, ..Rewards::default() } == rewards;
        Ok(match dataset {
            // It names the classes already.
            Some(dataset) if rewards.verifiers.is_empty() => dataset.verifier.clone(),
            None if is_default => rewards.classed(verify::open("math")?)?,
            _ => rewards.classed(rewards.open(|_| None)?)?,
        })
    }

    fn dataset(&self) -> Result<Option<Dataset>> {
        let Some(spec) = &self.dataset else { return Ok(None) };
        let data = DataOptions {
            dataset: spec.clone(),
            prompt_column: self.prompt_column.clone(),
            answer_column: self.answer_column.clone(),
            rewards: self.rewards.clone(),
            max_samples: None,
            filter_overlong_prompts: false,
            prompts: PromptOptions::default(),
        };
        data.open(spec).map(Some)
    }

    /// The k asked for, or the powers of two that every problem's samples can estimate.
    fn ks(&self, tallies: &[Tally]) -> Result<Vec<usize>> {
        let Some(fewest) = Tally::with_fewest(tallies) else {
            bail!("there is no completion to grade");
        };
        if !self.k.is_empty() {
            return Ok(self.k.clone());
        }
        Ok(tealight_eval::report::grid(&[], fewest.num_samples()))
    }
}

#[cfg(test)]
mod tests {
    use super::set_name;

    #[test]
    fn sets_are_named_by_their_files_without_extensions_and_times() {
        for (file, name) in [
            ("a/completions.jsonl", "completions"),
            ("a/completions.jsonl.gz", "completions"),
            ("samples_gsm8k_2026-11-26T10-00-00.123456.jsonl", "samples_gsm8k"),
            ("details_x_y.parquet", "details_x_y"),
            ("-", "stdin"),
        ] {
            assert_eq!(set_name(file), name, "{file}");
        }
    }
}
