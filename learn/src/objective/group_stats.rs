//! The samples of a prompt in numbers: rewards, solution classes, log-probabilities.

/// Statistics of the samples of one prompt, in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupStats {
    /// Rewards, an overlong penalty included.
    pub rewards: Vec<f64>,
    /// The solution class of each, as the verifier numbers them in this group; none where it is incorrect.
    pub classes: Vec<Option<usize>>,
    /// Log-probability of each whole completion under the policy that drew it.
    pub behavior_logp: Vec<f64>,
    /// Log-probability under the base; as many zeros where the plan does not need it.
    pub base_logp: Vec<f64>,
    /// Number of tokens of each completion.
    pub lengths: Vec<usize>,
    /// The estimated accuracy of the base on this prompt; only targets read it.
    pub solve_rate: f64,
    /// Temperature of the tilted target, or coefficient of a regulariser, on this prompt.
    pub beta: f64,
    /// The reward of the policy's greedy completion, where `baseline=greedy` subtracts it.
    pub greedy: Option<f64>,
    /// The number of the step, from 0.
    pub step: usize,
    /// The share of the run that is over: 0 at the first step, 1 at the last.
    pub progress: f64,
    /// Probability of each, where these are all outputs there are instead of samples: baselines are
    /// then exact means, the limit of infinitely many samples. Rules of finite groups do not read it.
    pub mass: Option<Vec<f64>>,
}

impl GroupStats {
    /// Whether each is correct.
    pub fn is_correct(&self) -> Vec<bool> {
        self.classes.iter().map(Option::is_some).collect()
    }

    /// How many samples of the group are in each one's solution class; 0 where it is incorrect.
    pub(super) fn class_sizes(&self) -> Vec<usize> {
        let size = |class: &Option<usize>| match class {
            Some(_) => self.classes.iter().filter(|other| *other == class).count(),
            None => 0,
        };
        self.classes.iter().map(size).collect()
    }

    /// The place of each by mean log-probability, 0 for the least likely.
    pub(super) fn ranks(&self) -> Vec<usize> {
        let count = self.rewards.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| self.mean_logp(*a).total_cmp(&self.mean_logp(*b)));
        let mut ranks = vec![0; count];
        order.into_iter().enumerate().for_each(|(rank, index)| ranks[index] = rank);
        ranks
    }

    pub(super) fn mean_logp(&self, index: usize) -> f64 {
        self.behavior_logp[index] / self.lengths[index].max(1) as f64
    }

    /// The accuracy of the base on the prompt by importance sampling from the group itself, `mean(v a / pi)`. What
    /// multiplies it by the same samples again is self-normalised, and biased in small groups.
    pub fn online_solve_rate(&self) -> f64 {
        let weight = |i: usize| match self.classes[i].is_some() {
            // E_pi[v a / pi] = a(v = 1) = Z.
            true => (self.base_logp[i] - self.behavior_logp[i]).exp(),
            false => 0.0,
        };
        let count = self.classes.len();
        (0..count).map(weight).sum::<f64>() / count as f64
    }
}
