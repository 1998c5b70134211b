//! Who samples in an evaluation: a server, candle-transformers, or a model of ours. Each is a solver and, where the
//! log-probabilities are ours, a scorer.

use anyhow::{Result, bail};
use tealight_datasets::Dataset;
use tealight_eval::Solver;
use tealight_eval::exact::{Exact, ListedProblem};

use super::EvalOptions;
use crate::app::lengths;
use crate::app::session::SamplingRequest;
use crate::app::settings::{DataOptions, ModelOptions};
use crate::solvers::local::LocalSolver;
use crate::solvers::remote::Remote;
use crate::solvers::sampled::Sampled;
use tealight_core::ranks::Ranks;
use tealight_formats::pretrained::Pretrained;
use tealight_learn::listed::{self, ProblemAnswers};
use tealight_learn::train::rlvr::LENGTH;
use tealight_nn::model::Decoder;
use tealight_nn::tokenizer::{HubTokenizer, TemplateDate, Tokenizer};
use tealight_system::stop::Stop;

/// Who samples.
pub(super) enum Engine {
    Server(Box<Remote>),
    /// A model that candle-transformers knows.
    Candle(Box<Sampled>),
    /// A model of ours, with the decoder that samples.
    Ours(Box<Pretrained>, Box<Decoder>),
}

impl Engine {
    /// Asks the server, or loads the model.
    pub(super) fn open(options: &EvalOptions, ranks: &Ranks) -> Result<Self> {
        if let Some(engine) = &options.remote.engine {
            let remote = Remote::new(engine, &options.model.model, &options.remote, options.seed)?;
            tracing::info!("sampling from {} ({})", options.shown_model()?, remote.dialect());
            return Ok(Engine::Server(Box::new(remote)));
        }
        if let Some(model) = options.model.load_on(ranks, ModelOptions::load_elsewhere)? {
            if options.exact {
                bail!("--exact needs log-probabilities, and candle-transformers only samples");
            }
            return Ok(Engine::Candle(Box::new(model)));
        }
        let (mut base, _) = options.model.load_on(ranks, ModelOptions::load_for_rollouts)?;
        if options.output.is_some() && ranks.is_first() {
            base.keep_fingerprint()?;
        }
        let decoder = base.take_sampling_decoder()?;
        Ok(Engine::Ours(Box::new(base), Box::new(decoder)))
    }

    /// The checksum of a model of ours, where samples are kept.
    pub(super) fn model_checksum(&self) -> Option<String> {
        match self {
            Engine::Ours(base, _) => base.kept_fingerprint().map(str::to_owned),
            _ => None,
        }
    }

    /// The tokenizer; a server has its own.
    pub(super) fn tokenizer(&self) -> Option<&HubTokenizer> {
        self.tokenizer_and_context().map(|(tokenizer, _)| tokenizer)
    }

    /// The solver with these sampling settings.
    pub(super) fn solver<'a>(&'a self, draw: &SamplingRequest<'a>) -> Box<dyn Solver + 'a> {
        match self {
            Engine::Server(remote) => Box::new(remote.with(draw.params)),
            Engine::Candle(model) => {
                let params = draw.params.clone();
                Box::new(LocalSolver::new(model, params, draw.seed, draw.max_num_seqs))
            }
            Engine::Ours(base, decoder) => Box::new(draw.solver(decoder, &base.tokenizer)),
        }
    }

    /// The tokenizer that writes prompts, and the most tokens of a sequence; none of a server's.
    fn tokenizer_and_context(&self) -> Option<(&HubTokenizer, usize)> {
        match self {
            Engine::Server(_) => None,
            Engine::Candle(model) => Some((&model.tokenizer, model.context)),
            Engine::Ours(base, _) => Some(base.tokenizer_and_context()),
        }
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

    /// The date that the chat template writes into prompts, where it writes one.
    pub(super) fn date_in_prompts(&self) -> Option<TemplateDate> {
        self.tokenizer_and_context().and_then(|(tokenizer, _)| tokenizer.date_in_prompts())
    }

    /// Most tokens of a completion, unless `requested`.
    pub(super) fn completion_length<'a>(
        &self,
        requested: Option<usize>,
        datasets: impl IntoIterator<Item = &'a Dataset>,
    ) -> Result<usize> {
        match self.tokenizer_and_context() {
            None => Ok(requested.unwrap_or(LENGTH)),
            Some(limits) => lengths::completion_length(requested, datasets, limits),
        }
    }

    /// The listed answers to a dataset's problems, as token sequences of this model; none of other engines.
    pub(super) fn listed(&self, dataset: &Dataset, longest: usize) -> Result<Vec<ProblemAnswers>> {
        let Engine::Ours(base, _) = self else { return Ok(Vec::new()) };
        listed::problems(dataset, &base.tokenizer, longest)
    }

    /// Measures from a model's own probabilities of listed answers; none of other engines.
    pub(super) fn exact(
        &self,
        listed: &[ProblemAnswers],
        temperature: f64,
        ks: &[usize],
        stop: &Stop,
    ) -> Result<Option<Exact>> {
        let Engine::Ours(_, decoder) = self else { return Ok(None) };
        let scored = |problem: &ProblemAnswers| -> Result<ListedProblem> {
            let logp = problem.answers.logp(decoder, temperature, &mut || stop.check())?;
            Ok(ListedProblem { logp, total: problem.total })
        };
        let scored: Vec<ListedProblem> = listed.iter().map(scored).collect::<Result<_>>()?;
        Ok(Exact::new(&scored, ks))
    }
}

/// Whether a tokenizer has tokens for words: that of a model of one generated task has only the signs of the task.
pub(super) fn has_words(tokenizer: &HubTokenizer) -> Result<bool> {
    const WORD: &str = "question";
    Ok(tokenizer.decode(&tokenizer.encode_completion(WORD)?)?.contains(WORD))
}
