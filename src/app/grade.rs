//! Completions produced elsewhere get the same numbers and the same report.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::{Dataset, names, output as output_file, verify};
use tealight_eval::grade::grade;
use tealight_eval::results::{Question, Results, SetResult, VERSION};
use tealight_eval::{Summary, Tally};

use crate::app::directory::{self, Destination, Existing};
use crate::app::evaluate::outcome::{self, Judged};
use crate::app::prompts::PromptOptions;
use crate::app::settings::DataOptions;
use crate::process::Process;

/// How often grading says how far it is.
const SAY: Duration = Duration::from_secs(10);

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
    /// Verifier of completions. Default: the dataset's own, or math without a dataset.
    #[arg(long)]
    pub verifier: Option<String>,
    /// Prompts ended with <think>, which completions then lack: one without </think> is an unfinished thought.
    #[arg(long)]
    #[serde(default)]
    pub prefilled_thinking: bool,
    /// Report Pass@k and distinct correct answers at these k. Default: powers of two up to the fewest samples that a
    /// problem has.
    #[arg(short, value_delimiter = ',')]
    #[serde(default)]
    pub k: Vec<usize>,
    /// Name of the model in the results.
    #[arg(long, default_value = "graded")]
    pub model: String,
    /// Directory for the results, the report and the judged samples. Without --output the table is printed and nothing
    /// is kept.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Exit with status 3 where a larger share of completions than this could not be judged.
    #[arg(long, default_value_t = 0.05)]
    pub max_unjudged: f64,
    /// Do not write the judged samples: no browser in the report, little memory and disk.
    #[arg(long)]
    #[serde(default)]
    pub no_samples: bool,
    /// Print the results as JSON instead of as a table.
    #[arg(long)]
    pub json: bool,
}

/// Judges the completions in `file`, standard input where that is `-`, and writes results, report and judged samples.
/// A line is {"id", "completion", "gold"}, a sample of Tealight or of lm-evaluation-harness, or output of an OpenAI
/// batch.
///
/// # Errors
/// A file that cannot be read, a folder that is taken, a full disk.
pub fn run(
    options: &GradeOptions,
    file: &str,
    existing: Existing,
    Process { ranks, .. }: &Process,
) -> Result<Judged> {
    let destination = Destination::of(options.output.as_deref(), existing)?;
    let output = destination.path();
    let dataset = options.dataset()?;
    let verifier = match (&options.verifier, &dataset) {
        (Some(spec), _) => verify::open(spec)?,
        (None, Some(dataset)) => dataset.verifier.clone(),
        (None, None) => verify::open("math")?,
    };
    if file == "-" && ranks.size() > 1 {
        bail!("standard input goes to one process: name a FILE, which all of them can read");
    }
    let reader: Box<dyn BufRead> = if file == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        let opened = File::open(file).with_context(|| format!("{file}: cannot be read"))?;
        Box::new(BufReader::with_capacity(1 << 20, opened))
    };
    let mut claim = None;
    ranks.first(|| {
        claim = Some(directory::fresh(output, existing)?);
        directory::clear(output, existing)?;
        crate::files::writable_subfolder(&output.join("samples"))
    })?;
    let started = Instant::now();
    let set =
        std::path::Path::new(file).file_stem().map_or("stdin".into(), |s| s.to_string_lossy());
    let set = if file == "-" { "stdin".to_owned() } else { set.into_owned() };
    let samples = format!("samples/{}.jsonl", names::file_name(&set));
    let path = output.join(&samples);
    let describe = || format!("{}: cannot be written", path.display());
    let has_samples = destination.is_kept() && !options.no_samples;
    let mut out = match !has_samples || !ranks.is_first() {
        true => None,
        false => Some(BufWriter::new(output_file::create(&path).with_context(describe)?)),
    };
    let (mut judged_so_far, mut said) = (0, Instant::now());
    let how = (&*verifier, options.prefilled_thinking);
    let graded = grade(reader, file, dataset.as_ref(), how, ranks, &mut |judged| {
        judged_so_far += judged.len();
        if said.elapsed() > SAY {
            said = Instant::now();
            let rate = judged_so_far as f64 / started.elapsed().as_secs_f64();
            tracing::info!("{judged_so_far} completions judged ({rate:.0}/s)");
        }
        if let Some(out) = &mut out {
            for sample in judged {
                serde_json::to_writer(&mut *out, sample).with_context(describe)?;
                out.write_all(b"\n").with_context(describe)?;
            }
        }
        Ok(())
    })?;
    if let Some(mut out) = out {
        out.flush().with_context(describe)?;
    }
    graded.notes.iter().for_each(|note| tracing::warn!("{note}"));
    let ks = options.ks(&graded.tallies)?;
    let seconds = started.elapsed().as_secs_f64();
    let rate = graded.completions as f64 / seconds;
    let counts =
        format!("{} completions of {} problems", graded.completions, graded.problems.len());
    tracing::info!("{counts} in {seconds:.1} s ({rate:.0}/s)");
    tracing::info!("intervals: 95 %, over problems");
    let questions = graded
        .problems
        .iter()
        .map(|problem| Question { prompt: problem.prompt.plain(), answer: problem.answer.clone() });
    let mut config = serde_json::to_value(options)?;
    config["file"] = file.into();
    let results = Results {
        schema_version: VERSION,
        tealight: format!("{} {}", env!("CARGO_PKG_VERSION"), env!("TEALIGHT_REVISION")),
        model: options.model.clone(),
        config,
        seconds,
        sets: vec![SetResult {
            name: set.clone(),
            dataset: options.dataset.clone().unwrap_or_else(|| file.to_owned()),
            domain: None,
            verifier: verifier.name().into(),
            temperature: None,
            summary: Summary::new(&graded.tallies, &ks)?,
            questions: questions.collect(),
            problems: graded.tallies,
            unusable: dataset.map(|dataset| dataset.unusable).unwrap_or_default(),
            samples: has_samples.then_some(samples),
        }],
    };
    ranks.first(|| outcome::write(&results, &[], &destination))?;
    if !has_samples {
        graded.unjudged.iter().for_each(|reason| tracing::info!("  {reason}"));
    }
    let doubt = outcome::doubt(&results, std::iter::once(&*verifier), options.max_unjudged);
    Ok(Judged { results, doubt })
}

impl GradeOptions {
    fn dataset(&self) -> Result<Option<Dataset>> {
        let Some(spec) = &self.dataset else { return Ok(None) };
        let data = DataOptions {
            dataset: spec.clone(),
            prompt_column: self.prompt_column.clone(),
            answer_column: self.answer_column.clone(),
            verifier: self.verifier.clone(),
            max_samples: None,
            prompts: PromptOptions::default(),
        };
        data.open(spec).map(Some)
    }

    /// The k asked for, or the powers of two that every problem's samples can estimate.
    fn ks(&self, tallies: &[Tally]) -> Result<Vec<usize>> {
        if !self.k.is_empty() {
            return Ok(self.k.clone());
        }
        let Some(least) = tallies.iter().map(|tally| tally.samples + tally.unjudged).min() else {
            bail!("there is no completion to grade");
        };
        Ok(tealight_eval::report::grid(&[], least))
    }
}
