//! The plan of a run: every choice that an objective makes, and which choices exclude each
//! other.
//!
//! The taxonomy is `target x divergence x sampler x baseline x trust region`. Three anchors come out
//! of it: none (the reward alone), the base (a regulariser with a coefficient) and a target, p* or
//! p_beta, whose distribution is matched. [`Plan::check`] refuses what cannot work, with the reason.

mod check;

use clap::ValueEnum;

use super::Divergence;
use super::advantage::Baseline;
use super::loss::{LossType, TrustRegion};
use super::rule::Rule;
use super::target::log_partition;

/// Every choice of an objective.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The distribution that the policy is held to or aimed at.
    pub anchor: Anchor,
    /// The rule of the advantage; without one it is the reward less the baseline.
    pub rule: Option<Rule>,
    /// The baseline that is subtracted from a reward.
    pub baseline: Baseline,
    /// The limit on the change of the policy by one batch.
    pub trust_region: TrustRegion,
    /// The average over tokens.
    pub loss_type: LossType,
    /// Passes over each batch of rollouts.
    pub num_iterations: usize,
    /// Mini-batches, each with its own optimizer step, that a batch of rollouts is split into.
    pub steps_per_generation: usize,
    /// Weight of the entropy bonus, or the entropy that it aims at.
    pub entropy: Entropy,
    /// Replace groups whose answers are all correct or all incorrect by further prompts (DAPO).
    pub dynamic_sampling: bool,
    /// Share of the longest completion over which the reward falls by 1 (DAPO); 0 for none.
    pub overlong_buffer: f64,
    /// Leave truncated completions out of the loss instead of counting them as incorrect.
    pub mask_truncated: bool,
}

/// The distribution that the divergence is to.
#[derive(Debug, Clone, PartialEq)]
pub enum Anchor {
    /// Nothing: the reward alone.
    None,
    /// The base, as a regulariser.
    Base(Regulariser),
    /// p* or p_beta: the reward enters through the target.
    Target(Matching),
}

/// A divergence from the base and its weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Regulariser {
    /// Divergence of the policy from the base.
    pub divergence: Divergence,
    /// The coefficient: TRL's `beta`, DPH-RL's `eta`.
    pub beta: f64,
    /// Source of the samples it is estimated on.
    pub sampler: SampleSource,
    /// Estimator, which decides the gradient.
    pub estimator: Estimator,
    /// On which prompts, where the samples are the base's.
    pub split: Split,
}

/// Which prompts are rehearsed on the base's samples and which are explored by rollouts (DPH-RL's
/// D_pef and D_exp).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Split {
    /// Prompts with at least this share of correct completions are rehearsed.
    pub pef_threshold: f64,
    /// The share of the first so many completions (DPH-RL's repository asks for 4 of 4); 0 for all.
    pub pef_samples: usize,
    /// Rehearse only those whose one further sample is correct too.
    pub extra_check: bool,
    /// Explore the prompts that are not rehearsed, instead of all.
    pub explores_rest: bool,
    /// Explore no prompt that the base never solved.
    pub drop_unsolved: bool,
    /// Store one sample of a prompt, as DPH-RL does, instead of all there are.
    pub one_sample: bool,
    /// Average stored completions together with rollouts, as DPH-RL's repository does, instead of apart.
    pub is_joint_mean: bool,
}

/// A distribution over completions of one prompt that is known up to the base and the verifier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// p*: the base conditioned on being correct.
    Filtered,
    /// p_beta: the base tilted by `e^(v / beta)`.
    Tilted,
}

impl Target {
    /// `log(p(y) / a(y))` of a completion, given the base's validity on its prompt; minus infinity
    /// where p gives no mass.
    pub fn log_weight(self, is_correct: bool, validity: f64, beta: f64) -> f64 {
        match (self, is_correct) {
            (Target::Filtered, true) => -validity.ln(),
            (Target::Filtered, false) => f64::NEG_INFINITY,
            (Target::Tilted, _) => {
                f64::from(u8::from(is_correct)) / beta - log_partition(validity, beta)
            }
        }
    }
}

/// A target distribution and the divergence to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Matching {
    /// Target: p* or p_beta.
    pub target: Target,
    /// Which divergence of the policy to it.
    pub divergence: Divergence,
    /// p_beta's temperature; 0 for p*.
    pub beta: f64,
    /// Source of the samples it is estimated on.
    pub sampler: SampleSource,
    /// Upper limit of pseudo-rewards (alpha-DPG's M); see `advantage`.
    pub max_reward: f64,
    /// The estimate of Z, the base's validity on a prompt.
    pub partition: Partition,
}

/// Whose completions an estimator reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SampleSource {
    /// The policy's own, fresh each step.
    Policy,
    /// The base's, stored.
    Stored,
    /// The base's correct ones, stored: samples of p*.
    Filtered,
}

/// The estimator of a regulariser, and with it the place where the penalty enters:
///
/// | estimator | place |
/// |---|---|
/// | score | the advantage, `advantage.rs` |
/// | k2 | [`Plan::loss`], and the advantage of earlier tokens, `advantage.rs` |
/// | k3 | [`Plan::loss`] |
/// | full | [`Plan::loss`], and the advantage of earlier tokens, `advantage.rs` |
/// | generator, definition | [`Plan::stored_loss`], on samples of the base |
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Estimator {
    /// Subtracted from the advantage of whole completions: the exact gradient.
    Score,
    /// Schulman's k2 in the loss, and the log-ratios of later tokens subtracted from advantages: the exact gradient
    /// of the whole completion's reverse KL.
    K2,
    /// Schulman's k3 in the loss: per token, the gradient of **forward** KL at fixed prefixes.
    K3,
    /// Summed over the vocabulary at every position, and the penalty of later positions subtracted from advantages:
    /// for reverse KL the exact gradient of the whole completion's.
    Full,
    /// The generator per token on samples of the base (DPH-RL).
    Generator,
    /// DPH-RL's "definition" form of JS: both KLs to the mean of policy and base, by k3.
    Definition,
}

impl Estimator {
    /// Whether it reads samples of the policy; the others read the base's.
    pub(super) fn is_of_policy(self) -> bool {
        !matches!(self, Self::Generator | Self::Definition)
    }

    /// The names of those that read samples of the policy, or of the others.
    fn names(of_policy: bool) -> Vec<String> {
        let all = Self::value_variants().iter().filter(|one| one.is_of_policy() == of_policy);
        let named = all.filter_map(ValueEnum::to_possible_value);
        named.map(|value| value.get_name().to_owned()).collect()
    }
}

/// The estimate of Z, the base's validity on a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Partition {
    /// The base's pre-samples, once: `(c + 1/2) / (n + 1)`.
    Fixed,
    /// The group itself by importance sampling; biased toward few answers in small groups.
    Online,
    /// The running mean of the same over all groups of the prompt.
    Cumulative,
}

/// Entropy in the loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entropy {
    /// Weight of the mean entropy per token; 0 for none.
    pub bonus: f64,
    /// Adapt the weight so that entropy stays above this, in nats.
    pub target: Option<f64>,
}

impl Matching {
    /// The weight of a stored sample, and its `log(p / a)`, given the base's validity on its prompt: samples of the
    /// base stand for the target by their density, filtered ones are the target's.
    pub fn weigh(&self, is_correct: bool, validity: f64) -> (f64, f64) {
        let log_weight = self.target.log_weight(is_correct, validity, self.beta);
        // E_p[..] = E_a[(p / a) ..] on samples of the base; filtered samples are distributed as p* already.
        let weight = if self.sampler == SampleSource::Filtered { 1.0 } else { log_weight.exp() };
        // A sample that the target cannot produce has weight 0; its ratio only has to be a number.
        (weight, if log_weight.is_finite() { log_weight } else { 0.0 })
    }
}

impl Plan {
    /// Whether the objective is one of correct and incorrect completions alone: its rule, its target or the rehearsal
    /// of the base's correct completions reads verdicts. Others read rewards.
    pub(crate) fn is_binary(&self) -> bool {
        self.rule.as_ref().is_some_and(Rule::is_binary)
            || self.matching().is_some()
            || self.needs_presamples()
    }

    /// Whether the base must be sampled before training starts.
    pub fn needs_presamples(&self) -> bool {
        let is_fixed = |matching: &Matching| matching.partition == Partition::Fixed;
        self.trains_on_stored() || self.matching().is_some_and(is_fixed)
    }

    /// Whether prompts to rehearse are confirmed by one further sample of the base.
    pub fn wants_extra_check(&self) -> bool {
        self.regulariser().is_some_and(|regulariser| regulariser.split.extra_check)
    }

    /// Whether a step trains on stored samples of the base.
    pub fn trains_on_stored(&self) -> bool {
        let stored = |sampler: SampleSource| sampler != SampleSource::Policy;
        self.regulariser().is_some_and(|regulariser| stored(regulariser.sampler))
            || !self.is_on_policy()
    }

    /// Whether a step samples the policy; supervised objectives train on stored samples alone.
    pub fn is_on_policy(&self) -> bool {
        !matches!(&self.anchor, Anchor::Target(matching) if matching.sampler != SampleSource::Policy)
    }

    /// Whether advantages need the log-probability of rollouts under the base.
    pub(crate) fn needs_reference(&self) -> bool {
        let is_in_rule = self.rule.as_ref().is_some_and(|rule| rule.reads("logp_base"));
        match &self.anchor {
            Anchor::None => is_in_rule,
            Anchor::Base(r) => {
                r.sampler == SampleSource::Policy
                    || r.estimator == Estimator::Definition
                    || is_in_rule
            }
            Anchor::Target(matching) => matching.sampler == SampleSource::Policy,
        }
    }

    /// The rule that makes advantages of rewards, in the language of `advantage=`; none where the language cannot say
    /// it: a target's pseudo-rewards, and what reads other prompts of the batch or the greedy completion.
    pub fn advantage(&self) -> Option<&str> {
        match (&self.rule, self.baseline) {
            _ if self.matching().is_some() => None,
            (Some(rule), _) => Some(rule.text()),
            (None, Baseline::None) => Some("r"),
            (None, Baseline::Loo) => Some("r - mean_others(r)"),
            (None, Baseline::GroupMean) => Some("r - mean(r)"),
            (None, Baseline::GroupStd) => Some("(r - mean(r)) / (std(r) + 1e-6)"),
            (
                None,
                Baseline::BatchStd | Baseline::Batch | Baseline::ValidMean | Baseline::Greedy,
            ) => None,
        }
    }

    /// The fewest samples of a group that its rule needs.
    pub fn smallest_group(&self) -> usize {
        self.rule.as_ref().map_or(1, Rule::smallest_group)
    }

    /// The coefficient of the regulariser, or the temperature of the target; 0 without either.
    pub fn beta(&self) -> f64 {
        match &self.anchor {
            Anchor::None => 0.0,
            Anchor::Base(regulariser) => regulariser.beta,
            Anchor::Target(matching) => matching.beta,
        }
    }

    /// Optimizer steps on each batch of rollouts.
    pub fn updates(&self) -> usize {
        self.num_iterations * self.steps_per_generation
    }

    /// Whether a trust region is asked for that cannot act: with one update a batch every ratio is 1.
    pub fn is_trust_region_inactive(&self) -> bool {
        self.is_on_policy() && self.trust_region != TrustRegion::None && self.updates() == 1
    }

    /// The regulariser whose penalty at later tokens is subtracted from the advantage of earlier ones.
    pub fn penalty_to_go(&self) -> Option<&Regulariser> {
        self.regulariser().filter(|r| matches!(r.estimator, Estimator::Full | Estimator::K2))
    }

    /// The regulariser, if there is one.
    pub fn regulariser(&self) -> Option<&Regulariser> {
        match &self.anchor {
            Anchor::Base(regulariser) => Some(regulariser),
            _ => None,
        }
    }

    /// The target, if there is one.
    pub fn matching(&self) -> Option<&Matching> {
        match &self.anchor {
            Anchor::Target(matching) => Some(matching),
            _ => None,
        }
    }
}
