//! A run while it trains: what is to be done, with which models, on which data.

use tealight_datasets::Verifier;

use super::config::RlvrConfig;
use super::rewarding::Rewarding;
use super::training_data::TrainingData;
use crate::objective::{ImportanceCorrection, Plan};
use crate::rollout::Encoded;
use crate::train::checkpoint::State;
use tealight_core::ranks::Ranks;
use tealight_nn::generate::Engine;
use tealight_nn::model::{Decoder, RolloutDtype};
use tealight_nn::policy::Policy;
use tealight_nn::tokenizer::Tokenizer;

/// A run. Only the weights of the policy change.
pub struct Run<'a> {
    /// The settings, checked.
    pub config: &'a RlvrConfig,
    /// What the objective of the settings computes.
    pub plan: &'a Plan,
    /// The models, and who samples.
    pub models: Models<'a>,
    /// The prompts, and how completions of them are judged.
    pub data: Data<'a>,
    /// The processes that train together.
    pub ranks: &'a Ranks,
}

/// The models of a run.
pub struct Models<'a> {
    /// The model that changes.
    pub policy: &'a Policy,
    /// The base, which does not; none where nothing reads it ([`super::reads_base`]) and its weights are not held.
    pub base: Option<&'a Decoder>,
    /// Tokenizer that decodes completions.
    pub tokenizer: &'a dyn Tokenizer,
    /// Who samples the rollouts.
    pub sampling: Sampling<'a>,
}

/// The data of a run.
pub struct Data<'a> {
    /// Prompts to train on, encoded.
    pub problems: &'a [Encoded<'a>],
    /// Statistics of the prompts, and stored completions.
    pub training: &'a TrainingData,
    /// Verifier that judges completions.
    pub verifier: &'a dyn Verifier,
    /// How their rewards are used and logged.
    pub rewarding: &'a Rewarding,
}

/// Who samples the rollouts: by default the policy, in this process.
#[derive(Default)]
pub struct Sampling<'a> {
    /// The engine that samples in place of this process.
    pub engine: Option<RolloutEngine<'a>>,
    /// The type that the policy is rounded to where this process samples.
    pub rollout_dtype: Option<RolloutDtype>,
    /// The importance correction of samples of another model than the policy: a server's, or the rounded policy's.
    pub correction: Option<ImportanceCorrection>,
}

/// An engine outside this process.
pub struct RolloutEngine<'a> {
    /// The engine; none on ranks for which the first asks it.
    pub engine: Option<&'a dyn Engine>,
    /// Steps that it may be ahead of training: 0 waits for every step's weights.
    pub max_staleness: usize,
}

impl Run<'_> {
    pub(super) fn id(&self, problem: usize) -> &str {
        &self.data.problems[problem].problem.id
    }

    /// Whether there is a further step to do.
    pub fn goes_on(&self, state: &State) -> bool {
        state.global_step < self.config.settings.max_steps
    }

    /// The share of the run that is over at a step: 0 at the first, 1 at the last.
    pub(super) fn progress(&self, step: usize) -> f64 {
        let last = self.config.settings.max_steps.saturating_sub(1).max(1);
        (step as f64 / last as f64).min(1.0)
    }

    /// The weight of the entropy bonus: where it adapts, none while entropy is above its target.
    pub(super) fn entropy_bonus(&self, state: &State) -> f64 {
        let fixed = self.plan.entropy.bonus;
        match self.plan.entropy.target {
            None => fixed,
            Some(_) if state.is_above_entropy => 0.0,
            Some(_) if state.entropy_bonus > 0.0 => state.entropy_bonus,
            Some(_) => fixed,
        }
    }
}
