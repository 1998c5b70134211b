//! The completions of a file to results, by the options that `grade` and `audit` share.

mod input;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tealight_datasets::{Dataset, Rewards, Verifier, verify};
use tealight_eval::grade::{GradeJob, Graded, JudgedChunk, Keys, Source};
use tealight_eval::number::counted;
use tealight_eval::results::{Question, Results, SetResult, VERSION};
use tealight_eval::rules::{Failed, Missing, Rules};
use tealight_eval::store::{Index, SamplesWriter};
use tealight_eval::{Tally, Truncated};

use crate::app::evaluate::outcome;
use crate::app::prompts::PromptOptions;
use crate::app::rewards::RewardOptions;
use crate::app::settings::DataOptions;
pub(crate) use input::Input;
use tealight_system::choices::choice;
use tealight_system::range::at_least;
use tealight_system::stop::Stop;

/// How often the progress of grading is logged.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// The judged samples in a folder of their own, until all of the file has been accepted.
pub(crate) const DRAFT: &str = "samples.jsonl";

/// What judges the completions of a file, and what those count as that have no answer.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct GradingOptions {
    /// Dataset with the gold answers, matched by problem id or by prompt. Its answers replace those in the records.
    #[arg(long, help_heading = "Data")]
    pub dataset: Option<String>,
    /// Filter of lm-evaluation-harness to read, which writes every sample once for each filter. Default: the first
    /// filter in the file.
    #[arg(long, value_name = "NAME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Rule for completions that were truncated at the length limit: wrong (incorrect whatever the text says), or
    /// judged (the verifier decides, as in lm-evaluation-harness).
    #[arg(long, value_name = "RULE", default_value = "wrong", value_parser = choice::<Truncated>())]
    pub truncated: Truncated,
    /// Rule for completions without an answer (a failed request, a refusal, a content filter, a tool call, no text):
    /// wrong (incorrect), or unjudged (left out of every estimate).
    #[arg(long, value_name = "RULE", default_value = "wrong", value_parser = choice::<Failed>())]
    pub failed: Failed,
    /// Rule for problems of --dataset without a completion in the file: left-out (with a note), or wrong (no correct
    /// completion).
    #[arg(long, value_name = "RULE", default_value = "left-out", value_parser = choice::<Missing>(), requires = "dataset")]
    pub missing: Missing,
    /// Key of the gold answer in each record. Needed if docs/how-to/grade.md does not list the key, or if `answer` is
    /// the gold answer in records with a verdict.
    #[arg(long, value_name = "KEY", help_heading = "Data")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gold_key: Option<String>,
    /// Key of the completion in each record, or of the list of them. Needed if docs/how-to/grade.md does not list the
    /// key.
    #[arg(long, value_name = "KEY", help_heading = "Data")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_key: Option<String>,
    /// Refuse a record without a gold answer. By default such records are left out, with a note.
    #[arg(long, help_heading = "Data")]
    pub require_gold: bool,
    /// Column of that dataset with the question.
    #[arg(long, help_heading = "Data", requires = "dataset")]
    pub prompt_column: Option<String>,
    /// Column of that dataset with the answer.
    #[arg(long, help_heading = "Data", requires = "dataset")]
    pub answer_column: Option<String>,
    /// The judge: --verifier, or else the dataset's own, or math without a dataset.
    #[command(flatten)]
    #[serde(flatten)]
    pub rewards: RewardOptions,
    /// The prompts ended with <think>: completions begin inside a thought. A completion without </think> is then an
    /// unfinished thought and has no answer; a file in which no completion closes a thought is read as it is.
    #[arg(long)]
    pub prefilled_thinking: bool,
    /// Exit with status 3 if more than this share of the completions is unjudged.
    #[arg(long, default_value_t = 0.05, add = at_least(0.0).at_most(1.0))]
    pub max_unjudged: f64,
}

pub(crate) struct FileToGrade<'a> {
    pub input: &'a Input,
    /// Name of its set in the results.
    pub set: String,
    /// Name of the model in the results.
    pub model: &'a str,
    pub dataset: Option<&'a Dataset>,
    pub verifier: &'a dyn Verifier,
    /// Where the samples will be, relative to the results; none where they are not kept.
    pub samples: Option<String>,
    /// Key of another judge's verdict, which samples then carry.
    pub verdict_key: Option<&'a str>,
    /// The k to report, none for powers of two.
    pub ks: &'a [usize],
    /// The settings that the results carry.
    pub config: Value,
}

/// A file's results, and what they do not hold.
pub(crate) struct GradedFile {
    pub results: Results,
    /// Where the samples are that were kept.
    pub index: Option<Arc<Index>>,
    /// The first reasons why completions could not be judged.
    pub unjudged: Vec<String>,
    /// What was left out, repeated or not known, one sentence each.
    pub notes: Vec<String>,
    /// The models, or steps of training, that records name.
    pub models: Vec<String>,
}

impl GradingOptions {
    /// Judges a file; samples that are kept go to [`DRAFT`] in the folder `judging`.
    pub(crate) fn grade(
        &self,
        mut source: Source<'_>,
        to_grade: FileToGrade<'_>,
        judging: &Path,
        stop: &Stop,
    ) -> Result<GradedFile> {
        let draft = judging.join(DRAFT);
        let draft = to_grade.samples.is_some().then_some(draft.as_path());
        let mut follower = Follower::new(draft)?;
        // For problems that come again after many others.
        let temporary = || {
            tempfile::tempfile_in(judging)
                .with_context(|| format!("{}: cannot be written", judging.display()))
        };
        let files = [temporary()?, temporary()?];
        let job = GradeJob {
            dataset: to_grade.dataset,
            starts_inside: self.prefilled_thinking,
            filter: self.filter.as_deref(),
            keys: Keys {
                gold: self.gold_key.as_deref(),
                verdict: to_grade.verdict_key,
                completion: self.completion_key.as_deref(),
            },
            requires_gold: self.require_gold,
            rules: Rules { truncated: self.truncated, failed: self.failed },
            missing: self.missing,
            encodes: follower.out.is_some(),
            files: Some(files.each_ref()),
            ..GradeJob::new(to_grade.verifier)
        };
        let sink = &mut |chunk: &JudgedChunk| {
            stop.check()?;
            follower.receive(chunk)
        };
        let graded = job.run(&mut source, sink)?;
        if graded.completions == 0 {
            bail!("{}: contains no completion to grade", to_grade.input.file);
        }
        for note in &graded.notes {
            match note.contains(&to_grade.input.file) {
                true => tracing::warn!("{note}"),
                false => tracing::warn!("{}: {note}", to_grade.input.file),
            }
        }
        let (seconds, index) = follower.finish(graded.completions, graded.problems.len())?;
        let (unjudged, notes) = (graded.unjudged.clone(), graded.notes.clone());
        let models = graded.models.clone();
        let results = self.results(to_grade, graded, seconds)?;
        Ok(GradedFile { results, index, unjudged, notes, models })
    }

    /// The results of a file's completions.
    fn results(&self, to_grade: FileToGrade<'_>, graded: Graded, seconds: f64) -> Result<Results> {
        let FileToGrade { input, mut config, .. } = to_grade;
        config["file"] = input.file.as_str().into();
        if graded.classes > 0 {
            config["file_classes"] = graded.classes.into();
        }
        if !graded.sampling.is_empty() {
            config["file_sampling"] = serde_json::to_value(&graded.sampling)?;
        }
        let ks = ks(to_grade.ks, &graded.tallies)?;
        let set = SetResult {
            name: to_grade.set,
            dataset: self.dataset.clone().unwrap_or_else(|| input.file.clone()),
            domain: None,
            verifier: to_grade.verifier.name().into(),
            temperature: None,
            summary: outcome::summary(&graded.tallies, &ks, || graded.unjudged.first().cloned())?,
            questions: graded.problems.iter().map(Question::from_problem).collect(),
            problems: graded.tallies,
            unusable: to_grade.dataset.map(|all| all.unusable.clone()).unwrap_or_default(),
            samples: to_grade.samples,
        };
        let mut results = Results {
            schema_version: VERSION,
            tealight: format!("{} {}", env!("CARGO_PKG_VERSION"), env!("TEALIGHT_REVISION")),
            model: to_grade.model.to_owned(),
            config,
            seconds,
            sets: vec![set],
        };
        input.describe(&mut results);
        Ok(results)
    }

    /// The verifier that is named, else the dataset's, else that of mathematics.
    pub(crate) fn verifier(&self, dataset: Option<&Dataset>) -> Result<Arc<dyn Verifier>> {
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

    pub(crate) fn dataset(&self) -> Result<Option<Dataset>> {
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
}

/// The k asked for, or the powers of two that every problem's samples can estimate.
fn ks(asked: &[usize], tallies: &[Tally]) -> Result<Vec<usize>> {
    let Some(fewest) = Tally::with_fewest(tallies) else {
        bail!("there is no completion to grade");
    };
    match asked.is_empty() {
        true => Ok(tealight_eval::report::grid(&[], fewest.num_samples())),
        false => Ok(asked.to_vec()),
    }
}

/// The name of a file's set: the file's, without its extensions, without the time that lm-eval puts behind it, and
/// without the time before and the id behind an Inspect log's task.
pub(crate) fn set_name(file: &str) -> String {
    let Some(stem) = Path::new(file).file_stem().filter(|_| file != "-") else {
        return "stdin".to_owned();
    };
    let stem = stem.to_string_lossy();
    let packed = [".jsonl", ".ndjson", ".json", ".csv", ".tsv"];
    let stem = packed.iter().find_map(|extension| stem.strip_suffix(extension)).unwrap_or(&stem);
    if let Some((time, rest)) = stem.split_once('_')
        && let Some((task, _)) = rest.rsplit_once('_')
        && is_time(time)
    {
        return task.to_owned();
    }
    let name = stem.rsplit_once('_').filter(|(name, time)| !name.is_empty() && is_time(time));
    name.map_or(stem, |(name, _)| name).to_owned()
}

/// Whether a name, or a part of one, is the time that harnesses put there.
pub(crate) fn is_time(text: &str) -> bool {
    text.len() >= 19 && text.starts_with("20") && text.as_bytes().get(10) == Some(&b'T')
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
            tracing::info!("{} judged ({rate:.0}/s)", counted(self.judged, "completion"));
        }
        self.out.as_mut().map_or(Ok(()), |out| out.write(chunk))
    }

    /// Writes what is left; the seconds that grading took, and where the samples are.
    fn finish(self, completions: usize, problems: usize) -> Result<(f64, Option<Arc<Index>>)> {
        let index = self.out.map(SamplesWriter::finish).transpose()?.map(Arc::new);
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = completions as f64 / seconds;
        tracing::info!(
            "{} of {} in {seconds:.1} s ({rate:.0}/s)",
            counted(completions, "completion"),
            counted(problems, "problem")
        );
        Ok((seconds, index))
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
            ("2026-11-28T21-02-36-00-00_my_task_JupfEDrmM7Pigz6A5ohuYT.eval", "my_task"),
            ("-", "stdin"),
        ] {
            assert_eq!(set_name(file), name, "{file}");
        }
    }
}
