//! Who samples in an evaluation: a server, or a model in this process.

use anyhow::{Result, bail};
use tealight_datasets::Dataset;
use tealight_eval::Solver;

use super::EvalOptions;
use crate::app::lengths;
use crate::app::session::SamplingRequest;
use crate::app::settings::DataOptions;
use crate::solvers::local::LocalSolver;
use crate::solvers::remote::Remote;
use crate::solvers::sampled::Sampled;
use tealight_learn::train::rlvr::LENGTH;
use tealight_nn::tokenizer::{HubTokenizer, Tokenizer};
use tealight_system::process::Process;

/// Who samples.
pub(super) enum Engine {
    Server(Box<Remote>),
    Model(Box<Sampled>),
}

impl Engine {
    /// Asks the server, or loads the model.
    pub(super) fn open(options: &EvalOptions, process: &Process) -> Result<Self> {
        let Process { ranks, stop } = process;
        if let Some(engine) = &options.remote.engine {
            let (model, remote) = (&options.model.model, &options.remote);
            let remote = Remote::new(engine, model, remote, options.seed, stop)?;
            tracing::info!("sampling from {} ({})", options.shown_model()?, remote.dialect());
            return Ok(Engine::Server(Box::new(remote)));
        }
        let keeps = options.output.is_some() && ranks.is_first();
        let model = options.model.load_to_sample(ranks, keeps)?;
        if options.exact && model.decoder().is_none() {
            bail!(
                "--exact needs log-probabilities, which this family's decoder (candle-transformers) does not give"
            );
        }
        Ok(Engine::Model(Box::new(model)))
    }

    /// The model, where this process samples.
    pub(super) fn model(&self) -> Option<&Sampled> {
        match self {
            Engine::Server(_) => None,
            Engine::Model(model) => Some(model),
        }
    }

    /// The solver with these sampling settings.
    pub(super) fn solver<'a>(&'a self, draw: &SamplingRequest<'a>) -> Box<dyn Solver + 'a> {
        match self {
            Engine::Server(remote) => Box::new(remote.with(draw.params)),
            Engine::Model(model) => {
                let params = draw.params.clone();
                Box::new(LocalSolver::new(model, params, draw.seed, draw.max_num_seqs))
            }
        }
    }

    /// The tokenizer that writes prompts, and the most tokens of a sequence; none of a server's.
    fn tokenizer_and_context(&self) -> Option<(&HubTokenizer, usize)> {
        self.model().map(|model| (&model.tokenizer, model.context))
    }

    /// Leaves out the problems that are too long, where that is asked for.
    pub(super) fn filter(
        &self,
        data: &DataOptions,
        length: Option<usize>,
        dataset: &mut Dataset,
    ) -> Result<()> {
        match self.tokenizer_and_context() {
            Some(limits) => data.filter(dataset, length, limits),
            None => Ok(()),
        }
    }

    /// Most tokens of a completion. What was `requested` must fit beside every prompt.
    pub(super) fn completion_length<'a>(
        &self,
        requested: Option<usize>,
        datasets: impl IntoIterator<Item = &'a Dataset>,
    ) -> Result<usize> {
        match (self.tokenizer_and_context(), requested) {
            (None, _) => Ok(requested.unwrap_or(LENGTH)),
            (Some(limits), None) => lengths::completion_length(None, datasets, limits),
            (Some(limits), Some(length)) => {
                lengths::longest_prompt(datasets, length, limits).map(|_| length)
            }
        }
    }
}

/// Whether a tokenizer has tokens for words: that of a model of one generated task has only the signs of the task.
pub(super) fn has_words(tokenizer: &HubTokenizer) -> Result<bool> {
    const WORD: &str = "question";
    Ok(tokenizer.decode(&tokenizer.encode_completion(WORD)?)?.contains(WORD))
}
