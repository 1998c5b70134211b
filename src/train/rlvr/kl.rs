//! How far the policy is from the base, as steps log it: `KL(policy || base)` of whole completions by the mean of their
//! log-ratios, which costs a forward pass of the base over them.

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::batch::sum;
use super::{Metrics, RlvrConfig, Run};
use crate::objective::Plan;
use crate::policy::{Distributions, Sequence};

/// Every how many steps it is estimated.
const STEPS: usize = 5;
/// From how many completions.
const COMPLETIONS: usize = 32;

/// Of which completions the KL to the base is logged, where the objective does not compare them all with it anyway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogKl {
    /// Of 32 of every fifth step.
    #[default]
    Estimate,
    /// Of all, in every step: a further forward pass.
    #[value(alias = "true")]
    All,
    /// Of none.
    #[value(alias = "false")]
    Off,
}

/// Whether a run reads the base once it trains: its objective does, or what it logs. Before the first step every run
/// does, when the policy is the base.
pub fn reads_base(config: &RlvrConfig, plan: &Plan) -> bool {
    let settings = &config.settings;
    let logs = settings.log_kl != LogKl::Off || settings.log_divergences > 0;
    plan.needs_reference() || (plan.is_on_policy() && logs)
}

/// What the base says of a step's completions, row by row.
pub(super) struct BaseSays {
    /// Log-probabilities of their tokens.
    pub(super) logp: Vec<Vec<f32>>,
    /// The distributions that these are from, where they are compared with and this rank has them all.
    pub(super) distributions: Option<Vec<Distributions>>,
}

impl Run<'_> {
    /// Log-probabilities of a step's completions under the base, where the objective reads them, and its distributions,
    /// where they are compared with later; logs the KL on the way, or by those of a few.
    pub(super) fn compare_with_base(
        &self,
        rows: &[Sequence],
        behavior: &[Vec<f32>],
        step: usize,
        metrics: &mut Metrics,
    ) -> Result<Option<BaseSays>> {
        let log = self.config.settings.log_kl;
        if !self.compares_with_base(step) {
            return Ok(None);
        }
        if self.plan.needs_reference() || log == LogKl::All {
            let said = match self.plan.vocabulary_regulariser() {
                Some(_) if self.ranks.size() == 1 => self.base_distributions(rows)?,
                _ => BaseSays { logp: self.reference_logp(rows)?, distributions: None },
            };
            let pairs = behavior.iter().zip(&said.logp);
            (metrics.kl, metrics.kl_stderr) = mean(pairs.map(|(p, a)| log_ratio(p, a)).collect());
            return Ok(Some(said));
        }
        // Rows are in random order of prompts; those of one stand together.
        let some: Vec<usize> = rows_between(rows.len());
        let few: Vec<Sequence> = some.iter().map(|row| rows[*row].clone()).collect();
        let reference = self.reference_logp(&few)?;
        let pairs = some.iter().zip(&reference);
        let ratios = pairs.map(|(row, base)| log_ratio(&behavior[*row], base)).collect();
        (metrics.kl, metrics.kl_stderr) = mean(ratios);
        Ok(None)
    }

    /// Whether log-probabilities of a step's completions are compared with the base's.
    pub(super) fn compares_with_base(&self, step: usize) -> bool {
        let is_logged = match self.config.settings.log_kl {
            LogKl::All => true,
            LogKl::Estimate => step.is_multiple_of(STEPS),
            LogKl::Off => false,
        };
        is_logged || self.plan.needs_reference()
    }
}

/// The rows that are compared, of so many: evenly spread.
fn rows_between(count: usize) -> Vec<usize> {
    let some = count.min(COMPLETIONS);
    (0..some).map(|place| place * count / some).collect()
}

/// `log(pi / a)` of a completion.
fn log_ratio(policy: &[f32], base: &[f32]) -> f64 {
    sum(policy) - sum(base)
}

/// The mean, and its standard error.
fn mean(ratios: Vec<f64>) -> (Option<f64>, Option<f64>) {
    let count = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / count;
    let squares: f64 = ratios.iter().map(|x| (x - mean) * (x - mean)).sum();
    (Some(mean), Some((squares / (count - 1.0).max(1.0) / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spread_over_all_prompts_and_each_is_compared_once() {
        assert_eq!(rows_between(3), [0, 1, 2]);
        let some = rows_between(200);
        assert_eq!((some.len(), some[0]), (COMPLETIONS, 0));
        assert!(some.windows(2).all(|two| (6..=7).contains(&(two[1] - two[0]))));
        assert!(rows_between(0).is_empty());
        let (value, error) = mean(vec![1.0, 3.0]);
        assert_eq!((value, error), (Some(2.0), Some(1.0)));
    }
}
