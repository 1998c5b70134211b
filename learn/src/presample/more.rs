//! Further completions of some prompts, where the first ones do not tell enough.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::{BaseCompletion, Presamples, STEP};
use crate::rollout::{Collector, Encoded, Rollout, collect};
use tealight_nn::generate::{Finish, RngKey};
use tealight_system::telemetry::JsonLines;

/// Draws completions until each of some prompts has as many as `targets` gives for its index, and stores them in
/// `directory` beside the first ones: those that a first call for as many would have drawn. `progress` is called once
/// a prompt.
pub fn draw_more(
    collector: &Collector<'_>,
    problems: &[Encoded<'_>],
    presamples: &mut Presamples,
    targets: &[(usize, usize)],
    directory: &Path,
    progress: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut lines = JsonLines::append(&directory.join("presamples.jsonl"))?;
    let rng_key = RngKey { seed: presamples.request.seed, step: STEP };
    // Prompts that lack the same completions are drawn together.
    let mut missing: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (index, target) in targets {
        let known = presamples.prompts[*index].samples.len();
        if known < *target {
            missing.entry((known, *target)).or_default().push(*index);
        }
    }
    for ((known, target), indices) in missing {
        collect(collector, problems, &indices, known..target, rng_key, &mut |group| {
            let entry = &mut presamples.prompts[group.problem];
            entry.samples.extend(group.rollouts.into_iter().map(BaseCompletion::from));
            // Of two lines of a prompt the later one counts.
            lines.write(&*entry)?;
            progress()
        })?;
    }
    Ok(())
}

impl From<Rollout> for BaseCompletion {
    fn from(rollout: Rollout) -> Self {
        Self {
            completion: rollout.text,
            verdict: rollout.verdict,
            is_finished: rollout.completion.finish == Finish::Stop,
            tokens: rollout.completion.tokens,
            logp: rollout.completion.logp,
        }
    }
}
