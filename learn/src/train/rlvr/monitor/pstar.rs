//! How far the policy is from p*, as steps log it where asked (`--log-divergences`): a step's rollouts under policy and
//! base, and the base's stored correct completions of the same prompts under the policy.

use anyhow::Result;

use crate::objective::Offsets;
use crate::objective::pstar::{Evidence, PstarDistances, ScoredCompletion, StoredEvidence};
use crate::presample::{BaseCompletion, PromptSamples};
use crate::rollout::Group;
use crate::train::rlvr::run::Run;
use crate::train::rlvr::scored::ScoredGroups;
use crate::train::rlvr::scorer::sum;
use tealight_nn::policy::Sequence;

/// The distance at a step's rollouts, before its first update.
pub(super) fn distances(
    run: &Run<'_>,
    groups: &[Group],
    scored: &ScoredGroups,
) -> Result<PstarDistances> {
    let ScoredGroups { sequences, offsets, behavior_logp, .. } = scored;
    let logged;
    let base_logp = match &scored.base {
        Some(base) => &base.logp,
        None => {
            logged = run.scorer().base_logp(sequences)?;
            &logged
        }
    };
    let prompts: Vec<usize> = groups.iter().map(|group| group.problem).collect();
    let mut evidence = stored_evidence(run, &prompts)?;
    let mut logp = offsets.split(behavior_logp).zip(offsets.split(base_logp));
    for (group, evidence) in groups.iter().zip(&mut evidence) {
        evidence.samples = group.rollouts.len();
        evidence.rollouts = group
            .rollouts
            .iter()
            .zip(&mut logp)
            .map(|(rollout, (policy, base))| ScoredCompletion {
                policy_logp: sum(policy),
                base_logp: sum(base),
                is_correct: rollout.is_correct(),
            })
            .collect();
    }
    Ok(PstarDistances::from_evidence(&evidence))
}

/// The same of a run without rollouts: on as many prompts as a step has, evenly spread over all.
pub(super) fn distances_without_rollouts(run: &Run<'_>) -> Result<PstarDistances> {
    let all = run.problems.len();
    let count = run.config.settings.prompts_per_step.min(all);
    let prompts: Vec<usize> = (0..count).map(|index| index * all / count).collect();
    Ok(PstarDistances::from_evidence(&stored_evidence(run, &prompts)?))
}

/// The evidence of stored completions on some prompts. The first half of a prompt's gives samples of p*, the second Z,
/// which must not come from the samples that decide whether the prompt counts.
fn stored_evidence(run: &Run<'_>, prompts: &[usize]) -> Result<Vec<Evidence>> {
    let samples = run.config.settings.num_generations;
    let halves = |problem: &usize| {
        let prompt = &run.presamples?.prompts[*problem];
        // Prompts count where the first half has a correct completion: Z of the same half would be too large.
        let (first, others) = prompt.samples.split_at(prompt.samples.len().div_ceil(2));
        Some((prompt, first, others))
    };
    let known: Vec<_> = prompts.iter().map(halves).collect();
    let is_correct = |stored: &&BaseCompletion| stored.is_correct();
    let sequence = |prompt: &PromptSamples, stored: &BaseCompletion| Sequence {
        prompt: prompt.prompt.clone(),
        completion: stored.tokens.clone(),
    };
    let sequences: Vec<Sequence> = known
        .iter()
        .flatten()
        .flat_map(|(prompt, first, _)| {
            first.iter().filter(is_correct).map(|stored| sequence(prompt, stored))
        })
        .collect();
    let offsets = Offsets::new(sequences.iter().map(|row| row.completion.len()));
    let policy_logp = match sequences.is_empty() {
        true => Vec::new(),
        false => run.scorer().policy_logp(&sequences)?,
    };
    let mut policy_logp = offsets.split(&policy_logp);
    let mut stored = |first: &[BaseCompletion], others: &[BaseCompletion]| StoredEvidence {
        correct: first
            .iter()
            .filter(is_correct)
            .zip(&mut policy_logp)
            .map(|(stored, logp)| ScoredCompletion {
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
