//! Which prompts are explored by rollouts and which are rehearsed on the base's completions.

use super::{BaseCompletion, Presamples};

/// The division of prompts between exploring (rollouts) and rehearsing (DPH-RL's D_exp and D_pef).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitRule {
    /// Prompts with at least this share of correct completions are rehearsed.
    pub pef_threshold: f64,
    /// The share of the first so many completions; 0 for all.
    pub pef_samples: usize,
    /// Explore rehearsed prompts too.
    pub explore_all: bool,
    /// Explore no prompt that the base never solved.
    pub drop_unsolved: bool,
}

/// The prompts of each part, by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Indices of prompts for rollouts, DPH-RL's D_exp.
    pub explore: Vec<usize>,
    /// Indices of prompts for rehearsal, DPH-RL's D_pef.
    pub rehearse: Vec<usize>,
    /// Prompts in neither.
    pub dropped: Vec<usize>,
    /// Prompts that reached the threshold and failed the extra check: explored.
    pub unconfirmed: usize,
}

impl Presamples {
    /// Divides the prompts. A prompt that reaches the threshold is rehearsed only if its extra sample,
    /// where there is one, is correct too: this takes out the luck of the first ones (DPH-RL).
    pub fn split(&self, rule: SplitRule) -> Split {
        let mut split =
            Split { explore: vec![], rehearse: vec![], dropped: vec![], unconfirmed: 0 };
        for (index, prompt) in self.prompts.iter().enumerate() {
            let correct = prompt.correct();
            let count = match rule.pef_samples {
                0 => prompt.samples.len(),
                count => count.min(prompt.samples.len()),
            };
            let first = prompt.samples[..count].iter().filter(|one| one.is_correct()).count();
            let reaches = first > 0 && first as f64 / count as f64 >= rule.pef_threshold;
            let is_confirmed = prompt.check.as_ref().is_none_or(BaseCompletion::is_correct);
            split.unconfirmed += usize::from(reaches && !is_confirmed);
            let rehearsed = reaches && is_confirmed;
            if rehearsed {
                split.rehearse.push(index);
            }
            if correct == 0 && rule.drop_unsolved {
                split.dropped.push(index);
            } else if !rehearsed || rule.explore_all {
                split.explore.push(index);
            }
        }
        split
    }
}

#[cfg(test)]
mod tests {
    use tealight_datasets::Verdict;

    use super::*;
    use crate::presample::{PresampleSpec, PromptSamples};
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
        let rule = SplitRule {
            pef_threshold: 7.0 / 8.0,
            pef_samples: 0,
            explore_all: false,
            drop_unsolved: false,
        };
        let split = presamples.split(rule);
        assert_eq!((split.rehearse, split.explore, split.unconfirmed), (vec![0], vec![1, 2, 3], 1));
        let split = presamples.split(SplitRule { explore_all: true, drop_unsolved: true, ..rule });
        assert_eq!((split.explore, split.dropped), (vec![0, 1, 2], vec![3]));
        let none = presamples.split(SplitRule { pef_threshold: 0.0, ..rule });
        assert_eq!(
            none.rehearse,
            [0, 2],
            "a prompt without a correct answer has nothing to rehearse"
        );
        // The first four of four, as DPH-RL's repository asks: six of eight will do, if the extra one is correct.
        let four = SplitRule { pef_threshold: 1.0, pef_samples: 4, ..rule };
        assert_eq!(presamples.split(four).rehearse, [0, 2]);
        assert_eq!(
            (presamples.completions(), presamples.tokens(), presamples.solved()),
            (36, 72, 3)
        );
        assert!((presamples.prompts[3].solve_rate() - 0.5 / 9.0).abs() < 1e-15);
    }
}
