//! Further completions of some prompts, where the first ones do not tell enough.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::{Presamples, STEP, Stored};
use crate::generate::{Finish, RngKey};
use crate::rollout::{Collector, Encoded, Rollout, collect};
use crate::telemetry::JsonLines;

/// Draws completions until each of some prompts has as many as `wanted` says of its place, and stores them in
/// `directory` beside the first ones: those that a first call for as many would have drawn. `progress` is called once
/// a prompt.
///
/// # Errors
/// Whatever the sampler fails with, a full disk.
pub fn draw_more(
    collector: &Collector<'_>,
    problems: &[Encoded<'_>],
    presamples: &mut Presamples,
    wanted: &[(usize, usize)],
    directory: &Path,
    progress: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut lines = JsonLines::append(&directory.join("presamples.jsonl"))?;
    let rng_key = RngKey { seed: presamples.request.seed, step: STEP };
    // Prompts that lack the same completions are drawn together.
    let mut missing: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (place, wanted) in wanted {
        let known = presamples.prompts[*place].samples.len();
        if known < *wanted {
            missing.entry((known, *wanted)).or_default().push(*place);
        }
    }
    for ((known, wanted), places) in missing {
        collect(collector, problems, &places, known..wanted, rng_key, &mut |group| {
            let entry = &mut presamples.prompts[group.problem];
            entry.samples.extend(group.rollouts.into_iter().map(Stored::from));
            // Of two lines of a prompt the later one counts.
            lines.write(&*entry)?;
            progress()
        })?;
    }
    Ok(())
}

impl From<Rollout> for Stored {
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
