//! `tealight presample`: sample the base once, verify, store; say what it can do.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_eval::pass_at_k::pass_at_k;

use super::options::{self, DataOptions, ModelOptions};
use super::place;
use super::session::Session;
use super::table;
use crate::files::write_atomic;
use crate::presample::{Presamples, Request, SplitRule};
use crate::remote::{Remote, RemoteOptions, RemoteSampler};
use crate::rollout::Encoded;
use crate::telemetry::print;
use crate::train::Stop;

/// Options of `tealight presample`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(super) struct PresampleOptions {
    #[command(flatten)]
    #[serde(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    #[serde(flatten)]
    data: DataOptions,
    /// Completions a prompt.
    #[arg(short = 'n', long, default_value_t = 16)]
    num_presamples: usize,
    /// Report the base's Pass@k at these k, none above -n; unless given, those of 1, 4 and 16 that are not.
    #[arg(short, value_delimiter = ',')]
    #[serde(default)]
    k: Vec<usize>,
    /// Draw one more for each prompt, to confirm those that look solved (DPH-RL).
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    extra_check: bool,
    /// Report the split into D_exp and D_pef at this share of right completions.
    #[arg(long, default_value_t = 0.875)]
    pef_threshold: f64,
    /// Sampling temperature; must be that of the training that will use the samples.
    #[arg(long, default_value_t = 1.0)]
    temperature: f64,
    /// Most tokens in a completion; must be that of the training that will use the samples. Unless given, what the
    /// context leaves, up to 512.
    #[arg(long)]
    max_completion_length: Option<usize>,
    /// Seeds the samples.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Most sequences in one decoding batch.
    #[arg(long, default_value_t = 256)]
    max_num_seqs: usize,
    #[command(flatten)]
    #[serde(flatten)]
    remote: RemoteOptions,
    /// Where the samples go; an interrupted call is continued.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Print the summary as JSON instead of as a table.
    #[arg(long)]
    json: bool,
}

/// What the samples say: `summary.json`.
#[derive(Serialize)]
struct Summary {
    prompts: usize,
    num_presamples: usize,
    mean_validity: f64,
    solved: usize,
    correct_completions: usize,
    #[serde(rename = "pass@k")]
    pass_at_k: Vec<(usize, f64)>,
    pef_threshold: f64,
    d_exp: Vec<String>,
    d_pef: Vec<String>,
    failed_extra_check: usize,
    validity: Vec<(String, f64)>,
    tokens: usize,
}

impl Summary {
    fn of(presamples: &Presamples, ks: &[usize], pef_threshold: f64) -> Self {
        let rule = SplitRule { pef_threshold, explore_all: false, drop_unsolved: false };
        let split = presamples.split(rule);
        let prompts = &presamples.prompts;
        let names = |chosen: &[usize]| chosen.iter().map(|i| prompts[*i].problem.clone()).collect();
        let n = presamples.request.num_presamples;
        let mean = |k: usize| {
            prompts.iter().map(|prompt| pass_at_k(n, prompt.correct(), k)).sum::<f64>()
                / prompts.len() as f64
        };
        Self {
            prompts: prompts.len(),
            num_presamples: n,
            mean_validity: presamples.mean_validity(),
            solved: presamples.solved(),
            correct_completions: prompts.iter().map(|prompt| prompt.correct()).sum(),
            pass_at_k: ks.iter().map(|k| (*k, mean(*k))).collect(),
            pef_threshold,
            d_exp: names(&split.explore),
            d_pef: names(&split.rehearse),
            failed_extra_check: split.unconfirmed,
            validity: prompts.iter().map(|p| (p.problem.clone(), p.validity())).collect(),
            tokens: presamples.tokens(),
        }
    }

    fn table(&self) -> String {
        let mut rows = vec![vec!["base".to_owned(), "value".to_owned()]];
        let mut row = |name: String, value: String| rows.push(vec![name, value]);
        for (k, value) in &self.pass_at_k {
            row(format!("pass@{k}"), format!("{value:.4}"));
        }
        row("prompts".into(), self.prompts.to_string());
        row("solved at least once".into(), self.solved.to_string());
        row("right completions (RFT set)".into(), self.correct_completions.to_string());
        row(
            format!("D_pef, at least {:.3} right", self.pef_threshold),
            self.d_pef.len().to_string(),
        );
        row("D_exp, the rest".into(), self.d_exp.len().to_string());
        row("failed the extra check".into(), self.failed_extra_check.to_string());
        table::plain(&rows)
    }
}

pub(super) fn run(options: &PresampleOptions, stop: &Stop) -> Result<()> {
    let Some(output) = &options.output else { bail!("--output DIR is needed") };
    let ks = options::estimable(&options.k, &[1, 4, 16], options.num_presamples)?;
    if !(options.temperature > 0.0 && options.temperature.is_finite()) {
        bail!("temperature must be above 0: log-probabilities are taken at it");
    }
    let dataset = options.data.open(&options.data.dataset)?;
    let (base, device) = options.model.load_to_train()?;
    let asked = options.max_completion_length;
    let length = options::completion_length(asked, &dataset.problems, &base)?;
    if !output.join("presamples.json").exists() && !place::is_free(output) {
        bail!(
            "{}: holds something else than pre-samples; choose another --output",
            output.display()
        );
    }
    let _claim = crate::files::Claim::take(output)?;
    let recorded = PresampleOptions { max_completion_length: Some(length), ..options.clone() };
    options::record_config(&recorded, output)?;
    stop.saves();
    let session = Session::new(&base, device, stop)?;
    let request = Request {
        model: base.name.clone(),
        dataset: dataset.name.clone(),
        num_presamples: options.num_presamples,
        extra_check: options.extra_check,
        temperature: options.temperature,
        max_completion_length: length,
        seed: options.seed,
        dtype: base.dtype,
    };
    let context = base.architecture.max_positions;
    let problems = Encoded::all(&dataset.problems, &base.tokenizer, context, length)?;
    let presamples = match &options.remote.engine {
        None => {
            session.draw_presamples(&dataset, &problems, &request, options.max_num_seqs, output)?
        }
        Some(engine) => {
            let remote = Remote::new(engine, &options.model.model, &options.remote, options.seed)?;
            tracing::info!("sampling from {engine}, log-probabilities from here");
            let (decoder, tokenizer) = (&session.reference, &base.tokenizer);
            let sampler =
                RemoteSampler { remote: &remote, problems: &problems, decoder, tokenizer };
            session.draw_presamples_from(&sampler, &dataset, &problems, &request, output)?
        }
    };
    let summary = Summary::of(&presamples, &ks, options.pef_threshold);
    let json = serde_json::to_string_pretty(&summary)?;
    write_atomic(&output.join("summary.json"), json.as_bytes())?;
    let text = if options.json { json } else { summary.table() };
    print(text)?;
    tracing::info!("samples in {}", output.join("presamples.jsonl").display());
    Ok(())
}
