//! How far the policy is from p*, as steps log it where asked (`--log-divergences`): a step's rollouts under policy and
//! base, and the base's stored correct completions of the same prompts under the policy. Nothing else of a step depends
//! on it.

use anyhow::Result;

use super::batch::sum;
use super::{LogKl, Run, Settings};
use crate::objective::pstar::{Evidence, PstarDistances, Scored, StoredEvidence};
use crate::policy::Sequence;
use crate::presample::{PromptSamples, Stored};
use crate::rollout::Group;

/// A step's completions, row by row: what they are, their log-probabilities as they were drawn and under the base.
pub(super) struct LoggedRows<'a> {
    pub(super) groups: &'a [Group],
    pub(super) rows: &'a [Sequence],
    pub(super) behavior: &'a [Vec<f32>],
    pub(super) reference: Option<&'a [Vec<f32>]>,
}

impl Settings {
    /// The same settings, of which nothing is read for the log alone.
    pub fn unlogged(&self) -> Self {
        Self { log_kl: LogKl::Off, log_divergences: 0, ..self.clone() }
    }
}

impl Run<'_> {
    /// Whether the distance from p* is logged of a step.
    pub(super) fn logs_divergences(&self, step: usize) -> bool {
        let every = self.config.settings.log_divergences;
        every > 0 && step.is_multiple_of(every)
    }

    /// The distance at a step's rollouts, before its first update.
    pub(super) fn distances(&self, drawn: &LoggedRows<'_>) -> Result<PstarDistances> {
        let own;
        let reference = match drawn.reference {
            Some(reference) => reference,
            None => {
                own = self.reference_logp(drawn.rows)?;
                own.as_slice()
            }
        };
        let prompts: Vec<usize> = drawn.groups.iter().map(|group| group.problem).collect();
        let mut evidence = self.stored_evidence(&prompts)?;
        let mut scored = drawn.behavior.iter().zip(reference);
        for (group, evidence) in drawn.groups.iter().zip(&mut evidence) {
            evidence.samples = group.rollouts.len();
            evidence.rollouts = group
                .rollouts
                .iter()
                .zip(&mut scored)
                .map(|(rollout, (policy, base))| Scored {
                    policy_logp: sum(policy),
                    base_logp: sum(base),
                    is_correct: rollout.reward() > 0.0,
                })
                .collect();
        }
        Ok(PstarDistances::of(&evidence))
    }

    /// The same of a run without rollouts: on as many prompts as a step has, evenly spread over all.
    pub(super) fn distances_without_rollouts(&self) -> Result<PstarDistances> {
        let all = self.problems.len();
        let count = self.config.settings.prompts_per_step.min(all);
        let prompts: Vec<usize> = (0..count).map(|place| place * all / count).collect();
        Ok(PstarDistances::of(&self.stored_evidence(&prompts)?))
    }

    /// What stored completions say of some prompts. The first half of a prompt's gives samples of p*, the second Z,
    /// which must not come from the samples that decide whether the prompt counts.
    fn stored_evidence(&self, prompts: &[usize]) -> Result<Vec<Evidence>> {
        let samples = self.config.settings.num_generations;
        let halves = |problem: &usize| {
            let prompt = &self.presamples?.prompts[*problem];
            let (first, others) = prompt.samples.split_at(prompt.samples.len().div_ceil(2));
            Some((prompt, first, others))
        };
        let known: Vec<_> = prompts.iter().map(halves).collect();
        let is_correct = |stored: &&Stored| stored.is_correct();
        let row = |prompt: &PromptSamples, stored: &Stored| Sequence {
            prompt: prompt.prompt.clone(),
            completion: stored.tokens.clone(),
        };
        let rows: Vec<Sequence> = known
            .iter()
            .flatten()
            .flat_map(|(prompt, first, _)| {
                first.iter().filter(is_correct).map(|stored| row(prompt, stored))
            })
            .collect();
        let policy = match rows.is_empty() {
            true => Vec::new(),
            false => self.logp_of(self.policy.decoder(), &rows)?,
        };
        let mut policy = policy.iter();
        let mut stored = |first: &[Stored], others: &[Stored]| StoredEvidence {
            correct: first
                .iter()
                .filter(is_correct)
                .zip(&mut policy)
                .map(|(stored, logp)| Scored {
                    policy_logp: sum(logp),
                    base_logp: sum(&stored.logp),
                    is_correct: true,
                })
                .collect(),
            others: (others.iter().filter(is_correct).count(), others.len()),
        };
        let evidence = known.into_iter().map(|known| Evidence {
            rollouts: Vec::new(),
            stored: known.map(|(_, first, others)| stored(first, others)),
            samples,
        });
        Ok(evidence.collect())
    }
}
