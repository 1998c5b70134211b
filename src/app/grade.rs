//! Completions produced elsewhere get the same numbers and the same report.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::{Dataset, Rewards, names, output as output_file, verify};
use tealight_eval::grade::{Graded, grade};
use tealight_eval::results::{Question, Results, SetResult, VERSION};
use tealight_eval::{Sample, Summary, Tally};

use crate::app::directory::{self, Destination, Existing};
use crate::app::evaluate::outcome::{self, Judged, LogFormat};
use crate::app::prompts::PromptOptions;
use crate::app::rewards::RewardOptions;
use crate::app::settings::DataOptions;
use crate::system::process::Process;

/// How often the progress of grading is logged.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Options of `tealight grade`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct GradeOptions {
    /// Dataset with the gold answers, by problem id, for lines that hold none.
    #[arg(long)]
    pub dataset: Option<String>,
    /// Column of that dataset with the question.
    #[arg(long)]
    pub prompt_column: Option<String>,
    /// Column of that dataset with the answer.
    #[arg(long)]
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
    #[arg(short, value_delimiter = ',')]
    #[serde(default)]
    pub k: Vec<usize>,
    /// Estimate Pass@k at these k, also above the number of samples, with intervals and a check on held-out samples.
    #[arg(long, value_name = "K", value_delimiter = ',')]
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
    #[arg(long, default_value_t = 0.05)]
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
/// A line is {"id", "completion", "gold"}, a sample of Tealight or of lm-evaluation-harness, or output of an OpenAI
/// batch.
pub fn run(
    options: &GradeOptions,
    file: &str,
    existing: Existing,
    Process { ranks, stop }: &Process,
) -> Result<Judged> {
    Destination::check(options.output.as_deref(), existing)?;
    LogFormat::check(options.log_format, options.output.is_some() && !options.no_samples)?;
    let dataset = options.dataset()?;
    let rewards = options.rewards.rewards();
    let verifier = match &dataset {
        Some(dataset) if rewards.verifiers.is_empty() => dataset.verifier.clone(),
        None if rewards == Rewards::default() => verify::open("math")?,
        _ => rewards.open(|_| None)?,
    };
    if file == "-" && ranks.size() > 1 {
        bail!("standard input goes to one process: name a FILE, which all of them can read");
    }
    let input = input(file)?;
    let destination = Destination::of(options.output.as_deref(), stop)?;
    let output = destination.path();
    let mut claim = None;
    ranks.first(|| {
        claim = Some(directory::fresh(output, existing)?);
        directory::clear(output, existing)?;
        crate::system::files::writable_subfolder(&output.join("samples"))
    })?;
    let set = match Path::new(file).file_stem().filter(|_| file != "-") {
        Some(stem) => stem.to_string_lossy().into_owned(),
        None => "stdin".to_owned(),
    };
    let has_samples = destination.is_kept() && !options.no_samples;
    let samples = has_samples.then(|| format!("samples/{}.jsonl", names::file_name(&set)));
    let path = samples.as_ref().map(|samples| output.join(samples));
    let mut follower = Follower::new(path.filter(|_| ranks.is_first()))?;
    let how = (&*verifier, options.prefilled_thinking);
    let sink = &mut |samples: &[Sample]| {
        stop.check()?;
        follower.receive(samples)
    };
    let graded = grade(input, file, dataset.as_ref(), how, ranks, sink)?;
    let seconds = follower.finish(&graded)?;
    let (ks, unjudged) = (options.ks(&graded.tallies)?, graded.unjudged);
    let set = SetResult {
        name: set,
        dataset: options.dataset.clone().unwrap_or_else(|| file.to_owned()),
        domain: None,
        verifier: verifier.name().into(),
        temperature: None,
        summary: Summary::new(&graded.tallies, &ks)?
            .extrapolated(&graded.tallies, &options.extrapolate)?,
        questions: graded.problems.iter().map(Question::of).collect(),
        problems: graded.tallies,
        unusable: dataset.map(|dataset| dataset.unusable).unwrap_or_default(),
        samples,
    };
    let mut config = serde_json::to_value(options)?;
    config["file"] = file.into();
    let results = Results {
        schema_version: VERSION,
        tealight: format!("{} {}", env!("CARGO_PKG_VERSION"), env!("TEALIGHT_REVISION")),
        model: options.model.clone(),
        config,
        seconds,
        sets: vec![set],
    };
    ranks.first(|| outcome::write(&results, &[], &destination, options.log_format))?;
    if !has_samples {
        unjudged.iter().for_each(|reason| tracing::info!("  {reason}"));
    }
    let doubt = outcome::doubt(&results, std::iter::once(&*verifier), options.max_unjudged);
    Ok(Judged { results, doubt })
}

/// The lines of a file, or of standard input.
fn input(file: &str) -> Result<Box<dyn BufRead>> {
    if file == "-" {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let opened = File::open(file).with_context(|| format!("{file}: cannot be read"))?;
    Ok(Box::new(BufReader::with_capacity(1 << 20, opened)))
}

/// Follows grading: writes the judged samples, and logs the progress.
struct Follower {
    out: Option<(PathBuf, BufWriter<File>)>,
    judged: usize,
    started: Instant,
    logged: Instant,
}

impl Follower {
    /// Writes samples to the file `path`, where there is one.
    fn new(path: Option<PathBuf>) -> Result<Self> {
        let open = |path: PathBuf| -> Result<_> {
            let file = output_file::create(&path)
                .with_context(|| format!("{}: cannot be written", path.display()))?;
            Ok((path, BufWriter::new(file)))
        };
        let (out, started) = (path.map(open).transpose()?, Instant::now());
        Ok(Self { out, judged: 0, started, logged: started })
    }

    fn receive(&mut self, samples: &[Sample]) -> Result<()> {
        self.judged += samples.len();
        if self.logged.elapsed() > LOG_EVERY {
            self.logged = Instant::now();
            let rate = self.judged as f64 / self.started.elapsed().as_secs_f64();
            tracing::info!("{} completions judged ({rate:.0}/s)", self.judged);
        }
        let Some((path, out)) = &mut self.out else { return Ok(()) };
        let describe = || format!("{}: cannot be written", path.display());
        for sample in samples {
            serde_json::to_writer(&mut *out, sample).with_context(describe)?;
            out.write_all(b"\n").with_context(describe)?;
        }
        Ok(())
    }

    /// Writes what is left, and returns the seconds that grading took.
    fn finish(self, graded: &Graded) -> Result<f64> {
        if let Some((path, mut out)) = self.out {
            out.flush().with_context(|| format!("{}: cannot be written", path.display()))?;
        }
        graded.notes.iter().for_each(|note| tracing::warn!("{note}"));
        let seconds = self.started.elapsed().as_secs_f64();
        let (completions, problems) = (graded.completions, graded.problems.len());
        let rate = completions as f64 / seconds;
        tracing::info!(
            "{completions} completions of {problems} problems in {seconds:.1} s ({rate:.0}/s)"
        );
        tracing::info!("intervals: 95 %, over problems");
        Ok(seconds)
    }
}

impl GradeOptions {
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
        let Some(least) = tallies.iter().map(|tally| tally.samples + tally.unjudged).min() else {
            bail!("there is no completion to grade");
        };
        if !self.k.is_empty() {
            return Ok(self.k.clone());
        }
        Ok(tealight_eval::report::grid(&[], least))
    }
}
