//! How often a run has solved each prompt: the record by which prompts are allocated. The state of the
//! run holds it, so that a resumed run has it too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rollout::Group;

/// The weight of a prompt's earlier completions when it is sampled again: the policy has moved since.
const KEPT: f64 = 0.5;

/// How often each prompt was solved, by the id of its problem.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PromptTrials(pub(super) BTreeMap<String, Trials>);

/// Completions of one prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Trials {
    /// Correct ones, and all, of which older ones count less: half as much at every visit of the prompt.
    pub recent: (f64, f64),
}

impl PromptTrials {
    /// Takes in the completions of a step.
    pub(crate) fn add<'a>(&mut self, groups: &[Group], id: impl Fn(usize) -> &'a str) {
        for group in groups {
            let solved = group.rollouts.iter().filter(|rollout| rollout.is_correct()).count();
            let sampled = group.rollouts.len();
            let Trials { recent } = self.0.entry(id(group.problem).to_owned()).or_default();
            // An exponentially weighted count: of n samples at each visit it remembers 2 n.
            recent.0 = KEPT * recent.0 + solved as f64;
            recent.1 = KEPT * recent.1 + sampled as f64;
        }
    }

    /// Correct completions of a problem, and all, older ones counting less; none of a prompt that was not sampled.
    pub(super) fn recent(&self, id: &str) -> Option<&(f64, f64)> {
        self.0.get(id).map(|trials| &trials.recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::Rollout;
    use tealight_datasets::Verdict;
    use tealight_nn::generate::{Completion, Finish};

    fn group(correct: &[bool]) -> Group {
        let rollout = |correct: &bool| Rollout {
            completion: Completion { tokens: vec![1], logp: vec![-1.0], finish: Finish::Stop },
            text: String::new(),
            verdict: if *correct { Verdict::correct("1", "1") } else { Verdict::NoAnswer },
            granted: f64::from(*correct),
            parts: vec![],
            truncated: Default::default(),
        };
        Group { problem: 0, rollouts: correct.iter().map(rollout).collect(), greedy: None }
    }

    #[test]
    fn recent_completions_count_more() {
        let mut trials = PromptTrials::default();
        assert_eq!(trials.recent("a"), None);
        // Both groups of a step are of the same prompt.
        trials.add(&[group(&[true, false, true]), group(&[false])], |_| "a");
        trials.add(&[group(&[true, true])], |_| "a");
        assert_eq!(trials.recent("a"), Some(&(0.5 + 2.0, 0.5 * (1.5 + 1.0) + 2.0)));
        let text = serde_json::to_string(&trials).expect("JSON");
        assert_eq!(serde_json::from_str::<PromptTrials>(&text).expect("trials"), trials);
    }
}
