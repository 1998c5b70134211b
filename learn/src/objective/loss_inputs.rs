//! The packed tokens that a loss is computed from, and the loss.

use candle_core::{Device, Result, Tensor};

/// Which completion each packed token belongs to.
#[derive(Debug, Clone)]
pub struct Completions {
    /// Tokens of each completion, B of them.
    lengths: Vec<usize>,
    /// The completion of each token, `[N]`.
    owner: Tensor,
}

impl Completions {
    /// Of completions with so many tokens each.
    pub fn new(lengths: Vec<usize>, device: &Device) -> Result<Self> {
        let owner = lengths.iter().enumerate();
        let owner: Vec<u32> =
            owner.flat_map(|(row, length)| std::iter::repeat_n(row as u32, *length)).collect();
        let count = owner.len();
        Ok(Self { lengths, owner: Tensor::from_vec(owner, count, device)? })
    }

    /// Sums `[B]` of the tokens of each completion, of `x` `[N]`.
    pub fn sum(&self, x: &Tensor) -> Result<Tensor> {
        let zeros = Tensor::zeros(self.lengths.len(), x.dtype(), x.device())?;
        // By index and not by a mask [B, N], which would be quadratic in the completions.
        zeros.index_add(&self.owner, x, 0)
    }

    /// Means `[B]` of the tokens of each completion.
    pub fn mean(&self, x: &Tensor) -> Result<Tensor> {
        let lengths = self.lengths.iter().map(|length| *length as f64).collect();
        let lengths = Tensor::from_vec(lengths, self.lengths.len(), &Device::Cpu)?;
        self.sum(x)? / lengths.to_dtype(x.dtype())?.to_device(x.device())?
    }

    /// `[N]` with the value of its completion at every token, of `x` `[B]`.
    pub fn spread(&self, x: &Tensor) -> Result<Tensor> {
        x.index_select(&self.owner, 0)
    }
}

/// Inputs of the loss of rollouts, `[N]` each.
pub struct LossInputs<'a> {
    /// Whose tokens these are.
    pub completions: &'a Completions,
    /// Log-probabilities under the policy, with a gradient.
    pub policy_logp: &'a Tensor,
    /// Log-probabilities under what sampled the tokens.
    pub behavior_logp: &'a Tensor,
    /// Log-probabilities under the base, where the plan compares with it token by token.
    pub base_logp: Option<&'a Tensor>,
    /// Advantage of each token.
    pub advantage: &'a Tensor,
    /// Weight of each token in the step's loss: see [`super::LossType::weight`].
    pub weight: &'a Tensor,
    /// The same times the regulariser's coefficient: see [`super::plan::Plan::penalty_weight`].
    pub penalty_weight: Option<&'a Tensor>,
}

/// Inputs of the full-vocabulary loss, `[N]` each.
pub struct VocabularyInputs<'a> {
    /// Entropies, with a gradient.
    pub entropy: &'a Tensor,
    /// Divergences from the base, with a gradient, where the plan has one.
    pub divergence: Option<&'a Tensor>,
    /// Weight of each token in the step's loss.
    pub weight: &'a Tensor,
    /// The same times the regulariser's coefficient.
    pub penalty_weight: &'a Tensor,
    /// Weight of the entropy bonus.
    pub entropy_bonus: f64,
}

/// Inputs of the loss of stored completions of the base.
pub struct StoredInputs<'a> {
    /// Whose tokens these are.
    pub completions: &'a Completions,
    /// Log-probabilities `[N]` under the policy, with a gradient.
    pub policy_logp: &'a Tensor,
    /// Log-probabilities `[N]` under the base.
    pub base_logp: &'a Tensor,
    /// Weights by token or by sample.
    pub weight: StoredWeight<'a>,
}

/// The average over stored completions.
pub enum StoredWeight<'a> {
    /// Token by token, with these weights `[N]`: rehearsal.
    Tokens(&'a Tensor),
    /// As whole samples of a target, with these weights `[B]` and the logarithms of the target's density over the
    /// base's, `[B]`: matching.
    Samples {
        /// Weight of each sample in the mean, `[B]`.
        weight: &'a Tensor,
        /// `log(p / a)` of each sample, p the target, `[B]`.
        log_weight: &'a Tensor,
    },
}

/// A loss to minimise, and its logged statistic.
pub struct Loss {
    /// The scalar to differentiate: this micro-batch's share of the step's loss.
    pub total: Tensor,
    /// Number of clipped tokens, `[]`.
    pub clipped: Tensor,
}

/// The same of stored completions.
pub struct StoredLoss {
    /// The scalar to differentiate, without the regulariser's coefficient.
    pub total: Tensor,
    /// Number of log-ratios that were clipped at [`tealight_divergence::MAX_LOG_RATIO`].
    pub cut: f64,
}
