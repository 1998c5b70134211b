//! `tealight eval`: sample a model on a dataset and report Pass@k and distinct right answers.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_eval::{Summary, pass_at_k};

use super::options::{self, DataOptions, DecodingOptions, ModelOptions};
use super::reject;
use super::session::{Draw, Session};
use super::table;
use crate::device::Dtype;
use crate::files::write_atomic;
use crate::generate::Filters;
use crate::telemetry::{say, warn};
use crate::train::Stop;

/// Options of `tealight eval`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(super) struct EvalOptions {
    #[command(flatten)]
    #[serde(flatten)]
    model: ModelOptions,
    /// Type of weights and activations.
    #[arg(long, value_enum, default_value_t = Dtype::Float32)]
    dtype: Dtype,
    #[command(flatten)]
    #[serde(flatten)]
    data: DataOptions,
    /// Samples a problem.
    #[arg(short, default_value_t = 64)]
    n: usize,
    /// Report Pass@k and distinct right answers at these k, none above -n.
    #[arg(short, value_delimiter = ',', default_value = "1,4,16,64")]
    k: Vec<usize>,
    #[command(flatten)]
    #[serde(flatten)]
    decoding: DecodingOptions,
    /// Seeds the samples.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Most sequences in one decoding batch.
    #[arg(long, default_value_t = 256)]
    max_num_seqs: usize,
    /// Sample until -n answers of every problem are right (GUARD) and report what that takes.
    #[arg(long)]
    #[serde(default)]
    reject: bool,
    /// Rounds of -n samples a problem after which --reject gives up on it.
    #[arg(long, default_value_t = 16)]
    max_rounds: usize,
    /// The base's samples (`tealight presample`), for the distance from p* that --reject reports.
    #[arg(long)]
    presamples: Option<PathBuf>,
    /// Where results.json and samples.jsonl go.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Print the results as JSON instead of as a table.
    #[arg(long)]
    json: bool,
    /// Show nothing but the results, warnings and errors.
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(options: &EvalOptions, stop: &Stop) -> Result<()> {
    let Some(output) = &options.output else { bail!("--output DIR is needed") };
    if !options.reject {
        pass_at_k::check(options.n, &options.k)?;
        if options.presamples.is_some() {
            bail!("--presamples is for --reject");
        }
    }
    if options.max_num_seqs == 0 {
        bail!("max-num-seqs must be at least 1");
    }
    let dataset = options.data.open(&options.data.dataset, options.quiet)?;
    options::fresh_output(output, "results.json")?;
    let (base, device) = options.model.load(options.dtype, options.quiet)?;
    options::record_config(options, output, options.quiet)?;
    let session = Session::new(&base, device, stop, options.quiet)?;
    let params = options.decoding.params(session.eos());
    params.check()?;
    let draw = Draw {
        n: options.n,
        params: &params,
        seed: options.seed,
        max_num_seqs: options.max_num_seqs,
    };
    if options.reject {
        let presamples = options.presamples.as_deref();
        if presamples.is_some() && params.filters != Filters::default() {
            bail!(
                "KL(p* || g') is that of the whole distribution: leave --top-k, --top-p and --min-p, or \
                 --presamples, out"
            );
        }
        let rounds = options.max_rounds;
        return reject::run(&session, &dataset, &draw, rounds, presamples, output, options.json);
    }
    let samples = output.join("samples.jsonl");
    let tallies = session.evaluate(&session.reference, &dataset, &draw, "eval", &samples)?;
    let summary = Summary::new(&tallies, options.n, &options.k)?;
    let results = serde_json::json!({
        "model": base.name,
        "dataset": dataset.name,
        "config": options,
        "summary": summary,
        "problems": tallies,
    });
    write_atomic(&output.join("results.json"), serde_json::to_string_pretty(&results)?.as_bytes())?;
    if summary.truncated > 0.5 {
        warn("more than half of the completions were cut off; raise --max-completion-length");
    }
    if summary.no_answer > 0.5 {
        warn("more than half of the completions hold no readable answer; look at samples.jsonl");
    }
    let text = if options.json {
        serde_json::to_string_pretty(
            &serde_json::json!({"dataset": dataset.name, "summary": summary}),
        )?
    } else {
        table::summary(&summary)
    };
    writeln!(std::io::stdout(), "{text}")?;
    say(options.quiet, format!("results and samples in {}", output.display()));
    Ok(())
}
