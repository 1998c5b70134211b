//! The evaluation sets of a study: sets of problems, in and out of the training domain.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tealight_core::{fnv, names};
use tealight_datasets::{Dataset, SOURCES};
use tealight_eval::evaluate::EvalJob;
use tealight_eval::rules::Rules;
use tealight_eval::store::{self, SampleStore};
use tealight_eval::{Tally, Truncated};

use crate::app::data_file;
use crate::app::evaluate::p_star;
use crate::app::evaluate::progress::EvalBar;
use crate::app::session::{SamplingRequest, Session};
use crate::app::settings::DataOptions;
use tealight_learn::train::rlvr::Settings;
use tealight_nn::generate::{Filters, SamplingParams};
use tealight_nn::model::Decoder;
use tealight_nn::tokenizer::Tokenizer;
use tealight_system::range::{LIMIT, above, at_least};

/// Which sets, and how many samples.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub struct SetOptions {
    /// Held-out datasets of the training domain, for evaluation only. Default: the split `test` of a generated task; of
    /// other datasets a fifth of the problems of --dataset (at most 500), which are then not trained on.
    #[arg(long, value_delimiter = ',', help_heading = "Data")]
    pub test_dataset: Vec<String>,
    /// Held-out datasets outside the training domain.
    #[arg(long, value_delimiter = ',', help_heading = "Data")]
    pub ood_dataset: Vec<String>,
    /// Number of problems of each held-out dataset to use, from the start. Default: all.
    #[arg(long, add = LIMIT, help_heading = "Data")]
    pub max_test_samples: Option<usize>,
    /// Temperature of evaluations. Default: --temperature.
    #[arg(long, add = above(0.0).at_most(100.0), help_heading = "Evaluation")]
    pub eval_temperature: Option<f64>,
    /// Nucleus sampling in evaluations, those of tuning included: keep the most likely tokens up to this probability
    /// mass. Training samples the full distribution.
    #[arg(long, default_value_t = 1.0, add = above(0.0).at_most(1.0), help_heading = "Evaluation")]
    pub eval_top_p: f64,
    /// Sample from the k most likely tokens in evaluations; 0 disables the filter.
    #[arg(long, default_value_t = 0, add = at_least(0.0).at_most(16_777_216.0), help_heading = "Evaluation")]
    pub eval_top_k: usize,
    /// Drop tokens in evaluations whose probability is below this share of the most likely token's; 0 disables the
    /// filter.
    #[arg(long, default_value_t = 0.0, add = at_least(0.0).below(1.0), help_heading = "Evaluation")]
    pub eval_min_p: f64,
    /// Leave out the evaluation at temperature 0.
    #[arg(long, help_heading = "Evaluation")]
    pub no_greedy: bool,
}

/// Most problems that are held out of a dataset without a test set.
const MAX_HELD_OUT: usize = 500;

/// A model that is loaded when something is to be sampled from it.
pub(crate) struct Model<'a> {
    /// Its name while it is sampled from.
    pub(crate) name: String,
    pub(crate) load: &'a dyn Fn() -> Result<Decoder>,
}

/// One set, at the temperature of evaluations.
pub(crate) struct StudySet {
    pub(crate) dataset: Arc<Dataset>,
    /// `in` or `out`.
    pub(crate) domain: &'static str,
    pub(crate) temperature: f64,
    /// What truncated completions count as.
    pub(crate) truncated: Truncated,
    /// The stem of its files' names.
    file: String,
}

/// Another split of a generated task, of which one split, or the name alone, is trained on.
pub(super) fn of_task(dataset: &str, other: &str) -> Option<String> {
    let (name, split) = dataset.split_once('/').unwrap_or((dataset, ""));
    SOURCES.iter().find(|source| source.name == name)?;
    // Parameters follow the split: `train-n5`.
    let parameters = split.split_once('-').map(|(_, parameters)| format!("-{parameters}"));
    Some(format!("{name}/{other}{}", parameters.unwrap_or_default()))
}

impl SetOptions {
    /// The filters of next-token distributions in evaluations.
    pub(crate) fn filters(&self) -> Filters {
        Filters { top_k: self.eval_top_k, top_p: self.eval_top_p, min_p: self.eval_min_p }
    }

    /// How evaluations sample, at the temperature of training.
    pub(crate) fn sampling(
        &self,
        settings: &Settings,
        tokenizer: &dyn Tokenizer,
    ) -> SamplingParams {
        SamplingParams { filters: self.filters(), ..settings.sampling(tokenizer) }
    }

    /// The held-out datasets of the training domain: those that were named, or the test split of a generated task.
    fn tests(&self, dataset: &str) -> Vec<String> {
        match of_task(dataset, "test") {
            Some(test) if self.test_dataset.is_empty() => vec![test],
            _ => self.test_dataset.clone(),
        }
    }

    /// Takes a share of the training problems out, where no test set is named, and says so. Problems with one prompt
    /// are on one side; which prompts are held out does not depend on their order.
    pub(crate) fn hold_out(&self, dataset: &str, train: &mut Dataset) -> Result<Option<Dataset>> {
        if !self.tests(dataset).is_empty() {
            return Ok(None);
        }
        let hash = |prompt: &str| fnv(prompt.bytes());
        let all = train.problems.len();
        let prompts: BTreeSet<u64> =
            train.problems.iter().map(|problem| hash(&problem.prompt.plain())).collect();
        if prompts.len() < 2 {
            bail!(
                "a study of {}, with one prompt, needs a held-out set: --test-dataset",
                train.name
            );
        }
        let most = self.max_test_samples.unwrap_or(MAX_HELD_OUT).min(MAX_HELD_OUT);
        let count = prompts.len().div_ceil(5).min(most.max(1));
        let chosen: BTreeSet<u64> = prompts.into_iter().take(count).collect();
        let mut test = Dataset { name: format!("{} (held out)", train.name), ..train.clone() };
        test.problems.retain(|problem| chosen.contains(&hash(&problem.prompt.plain())));
        train.problems.retain(|problem| !chosen.contains(&hash(&problem.prompt.plain())));
        tracing::info!(
            "no --test-dataset: {} of the {all} problems of {} are held out, for evaluation only; --test-dataset names \
             another set",
            test.problems.len(),
            train.name
        );
        Ok(Some(test))
    }

    /// Every set; `held_out` is what [`Self::hold_out`] took of the training problems.
    pub(crate) fn open(
        &self,
        data: &DataOptions,
        (train, held_out): (&Dataset, Option<Dataset>),
        (temperature, truncated): (f64, Truncated),
        filter: &dyn Fn(&mut Dataset) -> Result<()>,
    ) -> Result<Vec<StudySet>> {
        let temperature = self.eval_temperature.unwrap_or(temperature);
        let limited = DataOptions { max_samples: self.max_test_samples, ..data.clone() };
        let mut opened: Vec<(Arc<Dataset>, &'static str)> = Vec::new();
        opened.extend(held_out.map(|dataset| (Arc::new(dataset), "in")));
        let tests = self.tests(&data.dataset);
        let named = tests.iter().map(|name| (name, "in", "--test-dataset"));
        let others = self.ood_dataset.iter().map(|name| (name, "out", "--ood-dataset"));
        for (name, domain, option) in named.chain(others) {
            let mut dataset = limited.open(name.trim())?;
            filter(&mut dataset)?;
            data_file::refuse_overlap(train, &dataset, option)?;
            opened.push((Arc::new(dataset), domain));
        }
        let set = |(dataset, domain)| StudySet::new(dataset, domain, temperature, truncated);
        let all: Vec<StudySet> = opened.into_iter().map(set).collect();
        if all.is_empty() {
            bail!("a study needs a held-out set: --test-dataset or --ood-dataset");
        }
        for (index, set) in all.iter().enumerate() {
            if all[..index].iter().any(|other| other.file == set.file) {
                bail!("`{}` occurs twice among the held-out sets", set.file);
            }
        }
        Ok(all)
    }
}

impl StudySet {
    pub(crate) fn new(
        dataset: Arc<Dataset>,
        domain: &'static str,
        temperature: f64,
        truncated: Truncated,
    ) -> Self {
        let file = names::file_name(&dataset.name);
        Self { dataset, domain, temperature, truncated, file }
    }

    /// The name of the file of a model's samples on this set.
    pub(crate) fn samples_file(&self) -> String {
        format!("samples-{}.jsonl", self.file)
    }

    /// The counts of a model on every problem at `temperature`, from samples in `folder`, drawn as far as they are not
    /// there; the model is loaded only where some are missing.
    pub(crate) fn sampled(
        &self,
        session: &Session<'_>,
        model: &Model<'_>,
        (draw, temperature): (&SamplingRequest<'_>, f64),
        folder: &Path,
    ) -> Result<Vec<Tally>> {
        tealight_system::files::writable_subfolder(folder)?;
        let dataset = &self.dataset;
        let label = format!("{} on {}", model.name, dataset.name);
        let params = SamplingParams { temperature, ..draw.params.clone() };
        let draw = SamplingRequest { params: &params, ..*draw };
        let samples = names::inside(folder, &self.samples_file())?;
        let is_whole = session.ranks.first(|| self.is_whole(&samples, draw.n))?;
        let decoder = match is_whole {
            // Nothing is drawn from it.
            true => session.base_decoder.clone(),
            false => {
                (model.load)().with_context(|| format!("{}: cannot be sampled", model.name))?
            }
        };
        self.tallies_in(session, &decoder, &draw, label, &samples)
    }

    /// Whether a file holds `n` samples of every problem.
    fn is_whole(&self, samples: &Path, n: usize) -> Result<bool> {
        if !samples.exists() {
            return Ok(false);
        }
        let known = store::read(samples)?.problems;
        let has = |id: &String| known.get(id).is_some_and(|samples| samples.len() >= n);
        Ok(self.dataset.problems.iter().all(|problem| has(&problem.id)))
    }

    /// The counts of `decoder` on every problem, from samples in `folder`, drawn as far as they are not there.
    pub(crate) fn tallies(
        &self,
        session: &Session<'_>,
        (decoder, who): (&Decoder, &str),
        draw: &SamplingRequest<'_>,
        greedy: bool,
        folder: &Path,
    ) -> Result<Vec<Tally>> {
        tealight_system::files::writable_subfolder(folder)?;
        let dataset = &self.dataset;
        let label = format!("{who} on {}", dataset.name);
        let params = SamplingParams { temperature: self.temperature, ..draw.params.clone() };
        let draw_here = SamplingRequest { params: &params, ..*draw };
        let samples = names::inside(folder, &self.samples_file())?;
        let mut tallies = self.tallies_in(session, decoder, &draw_here, label.clone(), &samples)?;
        if greedy {
            let params = SamplingParams { temperature: 0.0, ..params.clone() };
            let one = SamplingRequest { params: &params, n: 1, ..*draw };
            let samples = names::inside(folder, &format!("samples-{}.greedy.jsonl", self.file))?;
            let label = format!("{label} greedy");
            for (tally, greedy) in
                tallies.iter_mut().zip(self.tallies_in(session, decoder, &one, label, &samples)?)
            {
                tally.greedy = Some(greedy.correct > 0);
            }
        }
        if params.filters == Filters::default() {
            p_star::enumerated(
                &session.scorer(),
                decoder,
                dataset,
                self.temperature,
                &mut tallies,
            )?;
        }
        Ok(tallies)
    }

    /// The counts of `decoder` on every problem; samples that the file `path` lacks are drawn into it.
    fn tallies_in(
        &self,
        session: &Session<'_>,
        decoder: &Decoder,
        draw: &SamplingRequest<'_>,
        label: String,
        path: &Path,
    ) -> Result<Vec<Tally>> {
        let solver = draw.solver(decoder, &session.base.tokenizer);
        let store = SampleStore::open(path, &self.dataset.problems, &session.ranks)?;
        store.notes.iter().for_each(|note| tracing::info!("  {note}"));
        let job = EvalJob {
            store,
            rules: Rules { truncated: self.truncated, ..Rules::default() },
            ranks: &session.ranks,
            progress: Box::new(EvalBar::new(label, session.stop)),
            ..EvalJob::new(&self.dataset, draw.n, &solver)
        };
        job.run()
    }
}
