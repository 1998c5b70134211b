//! The data of a run besides fresh rollouts: the base's stored completions, and how often it solves every prompt.

use std::ops::Range;

use anyhow::{Result, bail};

use crate::objective::{Anchor, Plan, SampleSource, Split};
use crate::presample::{BaseCompletion, Presamples, PromptSamples};
use tealight_eval::number::counted;
use tealight_nn::policy::Sequence;

/// A stored completion of the base.
#[derive(Debug, Clone)]
pub struct StoredCompletion {
    /// Its prompt's index among the problems.
    pub problem: usize,
    /// Prompt and completion.
    pub sequence: Sequence,
    /// Log-probability of each completion token under the base.
    pub logp: Vec<f32>,
    /// Whether it is correct.
    pub is_correct: bool,
}

/// The data of a run beside its problems.
#[derive(Debug, Clone)]
pub struct TrainingData {
    /// Problems that rollouts explore, by index.
    pub explore: Vec<usize>,
    /// Stored completions, prompt by prompt.
    pub rehearsal: Vec<StoredCompletion>,
    /// The completions of each prompt that has some.
    pub stored_prompts: Vec<Range<usize>>,
    /// The normaliser Z of a target on each problem; empty where it was not measured.
    pub normaliser: Vec<f64>,
    /// Notes for the log on how the data was divided.
    pub notes: Vec<String>,
}

impl TrainingData {
    /// Of `problems` problems, with the base's samples of them where the plan needs those.
    ///
    /// # Errors
    /// Nothing to rehearse, nothing to explore.
    pub fn new(plan: &Plan, problems: usize, presamples: Option<&Presamples>) -> Result<Self> {
        let mut data = Self {
            explore: (0..problems).collect(),
            rehearsal: vec![],
            stored_prompts: vec![],
            normaliser: vec![],
            notes: vec![],
        };
        let Some(presamples) = presamples else { return Ok(data) };
        let (completions, solved) = (presamples.completions(), presamples.solved());
        data.notes.push(format!(
            "base: {}, {:.3} correct, {solved} of {} solved",
            counted(completions, "pre-sample"),
            presamples.mean_validity(),
            counted(problems, "prompt")
        ));
        data.normaliser = presamples.prompts.iter().map(PromptSamples::normaliser).collect();
        match &plan.anchor {
            Anchor::Base(regulariser) if regulariser.sampler != SampleSource::Policy => {
                let split = &regulariser.split;
                let sampler = regulariser.sampler;
                let division = divide(presamples, split, sampler);
                data.explore(split.pef_threshold, sampler, &division)?;
                data.store(presamples, &division.rehearse, sampler, split.one_sample);
            }
            Anchor::Target(matching) if matching.sampler != SampleSource::Policy => {
                let every: Vec<usize> = (0..problems).collect();
                data.store(presamples, &every, matching.sampler, false);
            }
            _ => {}
        }
        if !plan.is_on_policy() && data.rehearsal.is_empty() {
            bail!(
                "the base solved none of {} in {} each: there is nothing to train on; raise --num-presamples, or \
                 choose easier problems",
                counted(problems, "prompt"),
                counted(presamples.request.num_presamples, "attempt")
            );
        }
        Ok(data)
    }

    /// Notes how the prompts were divided, and takes those to explore.
    fn explore(
        &mut self,
        threshold: f64,
        sampler: SampleSource,
        division: &Division,
    ) -> Result<()> {
        let condition = match (threshold > 0.0, sampler) {
            (true, _) => format!("at least {threshold:.3} of the base's samples correct"),
            (false, SampleSource::Stored) => "all prompts".to_owned(),
            (false, _) => "with a correct sample of the base".to_owned(),
        };
        self.notes.push(format!(
            "{} to rehearse ({condition}{}), {} for rollouts, {} dropped",
            counted(division.rehearse.len(), "prompt"),
            match division.unconfirmed {
                0 => String::new(),
                count => format!("; {count} failed the extra check"),
            },
            counted(division.explore.len(), "prompt"),
            division.dropped.len(),
        ));
        if division.rehearse.is_empty() {
            // Any correct sample will do where the threshold is below every share that there can be.
            let (share, mend) = match threshold < 1e-6 {
                true => (String::new(), "raise --num-presamples, choose easier prompts".to_owned()),
                false => (
                    format!(
                        " with a share of at least {threshold} (the objective's key pef-threshold)"
                    ),
                    format!("lower the key, as in NAME:pef-threshold={}", 0.5 * threshold),
                ),
            };
            bail!(
                "no prompt has correct base samples{share}, so there is nothing to rehearse; {mend}, or use an \
                 objective without rehearsal, such as grpo"
            );
        }
        if division.explore.is_empty() {
            bail!(
                "every prompt is rehearsed and none explored; add explore=all to the objective, or raise its pef-threshold"
            );
        }
        self.explore = division.explore.clone();
        Ok(())
    }

    fn store(
        &mut self,
        presamples: &Presamples,
        prompts: &[usize],
        sampler: SampleSource,
        one_sample: bool,
    ) {
        for index in prompts {
            let prompt = &presamples.prompts[*index];
            let most = if one_sample { 1 } else { prompt.samples.len() };
            let is_wanted = |is_correct: bool| sampler == SampleSource::Stored || is_correct;
            let samples = prompt.samples.iter().filter(|s| is_wanted(s.is_correct())).take(most);
            let first = self.rehearsal.len();
            self.rehearsal.extend(samples.map(|sample| StoredCompletion {
                problem: *index,
                sequence: Sequence {
                    prompt: prompt.prompt.clone(),
                    completion: sample.tokens.clone(),
                },
                logp: sample.logp.clone(),
                is_correct: sample.is_correct(),
            }));
            if self.rehearsal.len() > first {
                self.stored_prompts.push(first..self.rehearsal.len());
            }
        }
    }
}

/// The prompts of each part, by index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Division {
    /// Prompts for rollouts, DPH-RL's D_exp.
    explore: Vec<usize>,
    /// Prompts for rehearsal, DPH-RL's D_pef.
    rehearse: Vec<usize>,
    /// Prompts in neither.
    dropped: Vec<usize>,
    /// Prompts that reached the threshold and failed the extra check: explored.
    unconfirmed: usize,
}

/// Divides the prompts. A prompt that reaches the threshold is rehearsed only if its extra sample, where there is one,
/// is correct too: this takes out the luck of the first ones (DPH-RL). Where the base's correct samples alone are
/// rehearsed, a prompt needs one; a divergence from the base itself is over the samples of every prompt.
fn divide(presamples: &Presamples, rule: &Split, sampler: SampleSource) -> Division {
    let mut division = Division::default();
    for (index, prompt) in presamples.prompts.iter().enumerate() {
        let correct = prompt.correct();
        let count = match rule.pef_samples {
            0 => prompt.samples.len(),
            count => count.min(prompt.samples.len()),
        };
        let first = prompt.samples[..count].iter().filter(|one| one.is_correct()).count();
        let has_samples = first > 0 || sampler == SampleSource::Stored;
        let reaches = has_samples && first as f64 / count as f64 >= rule.pef_threshold;
        let is_confirmed = prompt.check.as_ref().is_none_or(BaseCompletion::is_correct);
        division.unconfirmed += usize::from(reaches && !is_confirmed);
        let rehearsed = reaches && is_confirmed;
        if rehearsed {
            division.rehearse.push(index);
        }
        if correct == 0 && rule.drop_unsolved {
            division.dropped.extend((!rehearsed).then_some(index));
        } else if !(rehearsed && rule.explores_rest) {
            division.explore.push(index);
        }
    }
    division
}

#[cfg(test)]
mod tests {
    use tealight_datasets::Verdict;

    use super::*;
    use crate::presample::PresampleSpec;
    use tealight_nn::device::Precision;

    fn prompt(correct: usize, check: Option<bool>) -> PromptSamples {
        let stored = |is_right: bool| BaseCompletion {
            completion: String::new(),
            verdict: if is_right { Verdict::correct("1", "1") } else { Verdict::wrong() },
            is_finished: true,
            tokens: vec![1, 2],
            logp: vec![-1.0, -1.0],
        };
        PromptSamples {
            problem: "p".into(),
            prompt: vec![1],
            samples: (0..8).map(|i| stored(i < correct)).collect(),
            check: check.map(stored),
        }
    }

    #[test]
    fn prompts_are_split_by_threshold_and_extra_check() {
        let request = PresampleSpec {
            model: "m".into(),
            dataset: "d".into(),
            num_presamples: 8,
            extra_check: true,
            temperature: 1.0,
            max_completion_length: 2,
            seed: 0,
            precision: Precision::default(),
        };
        let prompts = vec![
            prompt(8, Some(true)),
            prompt(7, Some(false)),
            prompt(6, Some(true)),
            prompt(0, Some(false)),
        ];
        let presamples = Presamples { request, prompts };
        let mut unchecked = presamples.clone();
        unchecked.prompts.iter_mut().for_each(|prompt| prompt.check = None);
        let rule = Split {
            pef_threshold: 7.0 / 8.0,
            extra_check: true,
            explores_rest: true,
            ..Split::default()
        };
        let divide = |rule: &Split| divide(&presamples, rule, SampleSource::Filtered);
        let split = divide(&rule);
        assert_eq!((split.rehearse, split.explore, split.unconfirmed), (vec![0], vec![1, 2, 3], 1));
        let split = divide(&Split { explores_rest: false, drop_unsolved: true, ..rule });
        assert_eq!((split.explore, split.dropped), (vec![0, 1, 2], vec![3]));
        let none = divide(&Split { pef_threshold: 0.0, ..rule });
        assert_eq!(
            none.rehearse,
            [0, 2],
            "a prompt without a correct answer has nothing to rehearse"
        );
        let every = Split { pef_threshold: 0.0, extra_check: false, ..rule };
        let stored = super::divide(&unchecked, &every, SampleSource::Stored);
        assert_eq!(
            stored.rehearse,
            [0, 1, 2, 3],
            "a divergence from the base is over all its samples"
        );
        // The first four of four, as DPH-RL's repository asks: six of eight will do, if the extra one is correct.
        let four = Split { pef_threshold: 1.0, pef_samples: 4, ..rule };
        assert_eq!(divide(&four).rehearse, [0, 2]);
        assert_eq!(
            (presamples.completions(), presamples.tokens(), presamples.solved()),
            (36, 72, 3)
        );
        assert!((presamples.prompts[3].normaliser() - 0.5 / 9.0).abs() < 1e-15);
    }
}
