//! Measures of a step that only its log reads: they see what training sees, and nothing of a step depends on them.

mod kl;

use anyhow::Result;

use super::metrics::Metrics;
use super::run::Run;
use super::scored::ScoredGroups;
use crate::objective::clipped_reward_ratio;

/// Logs what the run asks for of a step's rollouts, before its first update.
pub(super) fn log_rollouts(
    run: &Run<'_>,
    scored: &ScoredGroups,
    step: usize,
    metrics: &mut Metrics,
) -> Result<()> {
    (metrics.kl, metrics.kl_stderr) = kl::from_base(run, scored, step)?.unzip();
    let matching = run.plan.matching();
    metrics.max_reward_ratio = matching.map(|it| clipped_reward_ratio(it, &scored.stats));
    Ok(())
}
