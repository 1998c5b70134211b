//! Completions of the base, verified once and kept: what rehearsal trains on (DPH-RL).
//!
//! The right ones, with their multiplicities, are samples of the filtered model p* (the base
//! conditioned on being right); training reads them back as sequences drawn from the reference.

use std::io::Write;
use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::generate::Noise;
use crate::policy::Sequence;
use crate::rollout::{Collector, Encoded, Group, collect};

/// Keys the randomness of pre-sampling apart from that of training steps.
const STEP: u64 = u64::MAX;

/// A right completion of the base.
#[derive(Debug, Clone, Serialize)]
pub struct Rehearsal {
    /// The problem's id.
    pub problem: String,
    /// The completion's text.
    pub text: String,
    /// Prompt and completion as token ids.
    #[serde(flatten)]
    pub sequence: Sequence,
    /// Log-probability of each completion token under the base.
    pub logp: Vec<f32>,
}

/// The right completions, and what it took to find them.
pub struct Presamples {
    /// Every right completion, repeated as often as it was drawn.
    pub rehearsal: Vec<Rehearsal>,
    /// Completions that were drawn.
    pub completions: usize,
    /// Tokens that were drawn.
    pub tokens: usize,
    /// Prompts with at least one right completion.
    pub solved: usize,
}

/// Draws `count` completions for every problem from the base and keeps the right ones.
///
/// # Errors
/// Whatever the sampler fails with; no right completion at all, since there is nothing to rehearse.
pub fn presample(
    collector: &Collector<'_>,
    problems: &[Encoded<'_>],
    count: usize,
    seed: u64,
    progress: &mut dyn FnMut(),
) -> Result<Presamples> {
    let mut groups: Vec<Group> = Vec::with_capacity(problems.len());
    let all: Vec<usize> = (0..problems.len()).collect();
    collect(collector, problems, &all, count, Noise { seed, step: STEP }, &mut |group| {
        groups.push(group);
        progress();
        Ok(())
    })?;
    // Groups end in any order; rehearsal must not depend on it.
    groups.sort_by_key(|group| group.problem);
    let mut presamples = Presamples { rehearsal: Vec::new(), completions: 0, tokens: 0, solved: 0 };
    for group in groups {
        let problem = &problems[group.problem];
        presamples.completions += group.rollouts.len();
        presamples.solved += usize::from(group.rollouts.iter().any(|r| r.reward() > 0.0));
        for rollout in group.rollouts {
            presamples.tokens += rollout.completion.tokens.len();
            if rollout.reward() > 0.0 {
                presamples.rehearsal.push(Rehearsal {
                    problem: problem.problem.id.clone(),
                    text: rollout.text,
                    logp: rollout.completion.logp,
                    sequence: Sequence {
                        prompt: problem.prompt.clone(),
                        completion: rollout.completion.tokens,
                    },
                });
            }
        }
    }
    if presamples.rehearsal.is_empty() {
        bail!(
            "the base solved none of {} prompts in {count} tries each: there is nothing to rehearse; \
             raise --num-presamples, or use an objective that needs none",
            problems.len()
        );
    }
    Ok(presamples)
}

impl Presamples {
    /// Writes the right completions as JSON lines.
    ///
    /// # Errors
    /// A directory that cannot be written, a full disk.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut text = Vec::new();
        for item in &self.rehearsal {
            serde_json::to_writer(&mut text, item)?;
            text.write_all(b"\n")?;
        }
        crate::files::write_atomic(path, &text)
    }
}
