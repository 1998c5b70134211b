//! The plan of a run: every choice that an objective makes, and which choices exclude each
//! other.
//!
//! The taxonomy is `target x divergence x sampler x baseline x trust region`. Three anchors come out
//! of it: none (the reward alone), the base (a regulariser with a coefficient) and a target, p* or
//! p_beta, whose distribution is matched. [`Plan::check`] refuses what cannot work, with the reason.

use anyhow::{Result, bail};

use super::annealing::Annealing;
use super::baseline::Baseline;
use super::estimators::AdvantageEstimator;
use super::surrogate::{LossType, TrustRegion};
use super::target::Target;
use super::tokens::{Covariance, SimKo};
use super::{Divergence, PointwiseLoss};

/// Every choice of an objective.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The distribution that the policy is held to or aimed at.
    pub anchor: Anchor,
    /// The rule that turns rewards into advantages.
    pub rule: AdvantageEstimator,
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
    /// The entropy bonus.
    pub entropy: Entropy,
    /// Tokens whose gradient is cut or held because reward and probability move together.
    pub covariance: Option<Covariance>,
    /// SimKO's treatment of uncertain tokens.
    pub simko: Option<SimKo>,
    /// Replace groups whose answers are all correct or all incorrect by further prompts (DAPO).
    pub dynamic_sampling: bool,
    /// Share of the longest completion over which the reward falls by 1 (DAPO); 0 for none.
    pub overlong_buffer: f64,
    /// The schedule of coefficients.
    pub annealing: Annealing,
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
    /// Which.
    pub divergence: Divergence,
    /// The coefficient: TRL's `beta`, DPH-RL's `eta`.
    pub beta: f64,
    /// On whose samples.
    pub sampler: SampleSource,
    /// By which estimator.
    pub estimator: Estimator,
    /// On which prompts, where the samples are the base's.
    pub split: Split,
}

/// Which prompts are rehearsed on the base's samples and which are explored by rollouts (DPH-RL's
/// D_pef and D_exp).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// Prompts with at least this share of correct completions are rehearsed.
    pub pef_threshold: f64,
    /// The share of the first so many completions (DPH-RL's repository asks for 4 of 4); 0 for all.
    pub pef_samples: usize,
    /// Rehearse only those whose one further sample is correct too.
    pub extra_check: bool,
    /// Explore rehearsed prompts too.
    pub explore_all: bool,
    /// Explore no prompt that the base never solved.
    pub drop_unsolved: bool,
    /// Store one sample of a prompt, as DPH-RL does, instead of all there are.
    pub one_sample: bool,
    /// Average stored completions together with rollouts, as DPH-RL's repository does, instead of apart.
    pub is_joint_mean: bool,
}

/// A target distribution and the divergence to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Matching {
    /// p* or p_beta.
    pub target: Target,
    /// Which divergence of the policy to it.
    pub divergence: Divergence,
    /// p_beta's temperature; 0 for p*.
    pub beta: f64,
    /// On whose samples.
    pub sampler: SampleSource,
    /// Upper limit of pseudo-rewards (alpha-DPG's M); see `advantage`.
    pub max_reward: f64,
    /// The estimate of the base's validity on a prompt.
    pub partition: Partition,
}

/// Whose completions an estimator reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleSource {
    /// The policy's own, fresh each step.
    Policy,
    /// The base's, stored.
    Stored,
    /// The base's correct ones, stored: samples of p*.
    Filtered,
}

/// The estimator of a regulariser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// The estimate of Z, the base's validity on a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The weight of a stored sample, and its `log(p / a)`, given that: samples of the base stand for the target by
    /// their density, filtered ones are the target's.
    pub fn weigh(&self, log_weight: f64) -> (f64, f64) {
        let weight = if self.sampler == SampleSource::Filtered { 1.0 } else { log_weight.exp() };
        // A sample that the target cannot produce has weight 0; its ratio only has to be a number.
        (weight, if log_weight.is_finite() { log_weight } else { 0.0 })
    }
}

impl Plan {
    /// Whether the base must be sampled before training starts.
    pub fn needs_presamples(&self) -> bool {
        match &self.anchor {
            Anchor::None => false,
            Anchor::Base(regulariser) => regulariser.sampler != SampleSource::Policy,
            Anchor::Target(matching) => {
                matching.sampler != SampleSource::Policy || matching.partition == Partition::Fixed
            }
        }
    }

    /// Whether a divergence from the base is held on stored samples beside the rollouts.
    pub fn rehearses(&self) -> bool {
        self.regulariser().is_some_and(|regulariser| regulariser.sampler != SampleSource::Policy)
    }

    /// Whether a step samples the policy; supervised objectives train on stored samples alone.
    pub fn is_on_policy(&self) -> bool {
        !matches!(&self.anchor, Anchor::Target(matching) if matching.sampler != SampleSource::Policy)
    }

    /// Whether advantages need the log-probability of rollouts under the base.
    pub fn needs_reference(&self) -> bool {
        match &self.anchor {
            Anchor::None => false,
            Anchor::Base(r) => {
                r.sampler == SampleSource::Policy || r.estimator == Estimator::Definition
            }
            Anchor::Target(matching) => matching.sampler == SampleSource::Policy,
        }
    }

    /// Whether anything reads the policy's log-probabilities of rollouts before the one pass that trains on them.
    pub fn reads_policy_first(&self) -> bool {
        self.needs_reference()
            || self.updates() > 1
            || self.covariance.is_some()
            || self.rule.reads_policy()
    }

    /// Replaces the coefficient of the regulariser, or the temperature of the target.
    pub fn set_beta(&mut self, beta: f64) {
        match &mut self.anchor {
            Anchor::None => {}
            Anchor::Base(regulariser) => regulariser.beta = beta,
            Anchor::Target(matching) => matching.beta = beta,
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

    /// The pointwise loss that the log-ratio of each token of a rollout adds to the loss, and its weight.
    pub fn token_loss(&self) -> Option<(PointwiseLoss, f64)> {
        let regulariser = self.regulariser()?;
        match regulariser.estimator {
            Estimator::K2 => Some((PointwiseLoss::K2, regulariser.beta)),
            Estimator::K3 => Some((PointwiseLoss::K3, regulariser.beta)),
            // JS is half of either KL to the mean; DPH-RL adds the policy's to one micro-batch in ten.
            Estimator::Definition => Some((PointwiseLoss::MixturePolicy, 0.05 * regulariser.beta)),
            _ => None,
        }
    }

    /// The same for stored samples, token by token.
    pub fn rehearsal_loss(&self) -> Option<(PointwiseLoss, f64)> {
        let regulariser = self.regulariser()?;
        match regulariser.estimator {
            Estimator::Generator => {
                Some((PointwiseLoss::Generator(regulariser.divergence), regulariser.beta))
            }
            Estimator::Definition => Some((PointwiseLoss::MixtureBase, 0.5 * regulariser.beta)),
            _ => None,
        }
    }

    /// Refuses combinations that cannot work.
    ///
    /// # Errors
    /// An impossible combination, with the reason and an alternative.
    pub fn check(&self) -> Result<()> {
        match &self.anchor {
            Anchor::None => {}
            Anchor::Base(regulariser) => self.check_regulariser(regulariser)?,
            Anchor::Target(matching) => self.check_matching(matching)?,
        }
        if self.baseline == Baseline::Greedy && self.matching().is_some() {
            bail!(
                "a greedy completion has a reward, and no pseudo-reward of a target: set baseline=loo"
            );
        }
        if self.rule.has_baseline() && self.baseline != Baseline::None {
            bail!("this rule brings its own baseline: leave `baseline` at none");
        }
        if let AdvantageEstimator::Pkpo { k: 0 } | AdvantageEstimator::PassAtK { k: 0 } = self.rule
        {
            bail!("`k` must be at least 1");
        }
        if self.num_iterations == 0 || self.steps_per_generation == 0 {
            bail!("`num-iterations` and `steps-per-generation` must be at least 1");
        }
        if self.updates() > 1 && self.is_on_policy() && self.trust_region == TrustRegion::None {
            bail!(
                "more than one update on a batch is off-policy, and without a trust region nothing \
                 corrects for it: set num-iterations=1 and steps-per-generation=1, or trust-region=ppo, gspo \
                 or cispo"
            );
        }
        self.annealing.check(self)?;
        if !self.is_on_policy() && self.uses_rollouts() {
            bail!(
                "stored samples alone are trained on: baselines, trust regions, several updates a batch, entropy \
                 control and dynamic sampling belong to rollouts (sampler=policy)"
            );
        }
        if !(0.0..1.0).contains(&self.overlong_buffer) {
            bail!("`overlong-buffer` must be at least 0 and below 1");
        }
        Ok(())
    }

    fn uses_rollouts(&self) -> bool {
        self.trust_region != TrustRegion::None
            || self.baseline != Baseline::None
            || self.entropy.bonus != 0.0
            || self.entropy.target.is_some()
            || self.covariance.is_some()
            || self.simko.is_some()
            || self.dynamic_sampling
            || self.updates() > 1
    }

    fn check_regulariser(&self, regulariser: &Regulariser) -> Result<()> {
        let Regulariser { divergence, beta, sampler, estimator, split } = regulariser;
        if !(*beta > 0.0 && beta.is_finite()) {
            bail!(
                "the coefficient (`beta`) must be above 0; for no divergence use divergence=none"
            );
        }
        if !(0.0..=1.0).contains(&split.pef_threshold) {
            bail!("`pef-threshold` must be between 0 and 1");
        }
        let on_policy =
            matches!(estimator, Estimator::Score | Estimator::K2 | Estimator::K3 | Estimator::Full);
        match (sampler, on_policy) {
            (SampleSource::Policy, false) => bail!(
                "the generator needs samples of the base: set sampler=filtered or stored, or an \
                 estimator for the policy's own (score, full, k2, k3)"
            ),
            (SampleSource::Stored | SampleSource::Filtered, true) => {
                bail!("samples of the base are read by estimator=generator or definition")
            }
            _ => {}
        }
        let is_k = matches!(estimator, Estimator::K2 | Estimator::K3);
        if is_k && *divergence != Divergence::ReverseKl {
            bail!(
                "k2 and k3 are estimators of reverse-kl; for {divergence} use estimator=score or full"
            );
        }
        if *estimator == Estimator::Definition && *divergence != Divergence::Js {
            bail!("the definition form exists for js alone; use estimator=generator");
        }
        Ok(())
    }

    fn check_matching(&self, matching: &Matching) -> Result<()> {
        let Matching { target, divergence, sampler, beta, max_reward, .. } = matching;
        match target {
            Target::Filtered if divergence.at_infinity().is_infinite() => bail!(
                "{divergence} to p* is infinite for every policy that can be wrong, since p* gives no \
                 mass to wrong answers: aim at p-beta, or take alpha below 1 (0.999 is nearly reverse \
                 KL)"
            ),
            Target::Tilted if !(*beta > 0.0 && beta.is_finite()) => {
                bail!("target=p-beta needs a `beta` above 0, or --target-validity")
            }
            Target::Tilted if *sampler == SampleSource::Filtered => bail!(
                "p-beta gives mass to wrong answers, which filtered samples lack: set sampler=stored \
                 or policy"
            ),
            _ => {}
        }
        if *max_reward <= 0.0 {
            bail!("`max-reward` must be above 0");
        }
        if self.rule != AdvantageEstimator::Plain {
            bail!("a target replaces the reward: `rule` must be plain");
        }
        if self.overlong_buffer > 0.0 {
            bail!(
                "a target has no reward for `overlong-buffer` to shape; truncated answers are wrong"
            );
        }
        Ok(())
    }
}
