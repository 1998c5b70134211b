//! What speaks against the numbers of a set: truncated completions, failed requests, samples that are all the same.

use crate::Truncated;
use crate::number::{counted, with_verb};
use crate::results::SetResult;

impl SetResult {
    /// The end of turn after which most of the truncated completions went on.
    fn unnoticed_end(&self) -> Option<&str> {
        let ends = || self.problems.iter().filter_map(|tally| tally.end_of_turn.as_ref());
        let truncated: usize = self.problems.iter().map(|tally| tally.truncated).sum();
        let went_on: usize = ends().map(|(count, _)| *count).sum();
        ends().next().filter(|_| 2 * went_on > truncated).map(|(_, end)| end.as_str())
    }

    /// What to do where completions are too short: the completions of a file were sampled elsewhere.
    fn remedy(&self) -> &'static str {
        match self.temperature {
            Some(_) => "raise --max-completion-length",
            None => "sample them with a larger limit of their length",
        }
    }

    /// Reasons to read the numbers of what is called `name` with caution, under a rule for truncated completions.
    pub fn cautions(&self, name: &str, rule: Truncated) -> Vec<String> {
        let summary = &self.summary;
        let mut cautions = Vec::new();
        if self.temperature == Some(0.0) && summary.n > 1 {
            cautions.push(format!(
                "{name}: at temperature 0 the samples of a problem are the same greedy completion, so that pass@k says \
                 no more than pass@1; sample at a higher temperature, or draw one with -n 1"
            ));
        }
        if rule == Truncated::Wrong && summary.truncated.is_some_and(|share| share > 0.5) {
            cautions.push(match self.unnoticed_end() {
                Some(end) => format!(
                    "{name}: more than half of the completions were truncated, and most of these went on after an end \
                     of turn, `{end}`: add the token to eos_token_id in the model's generation_config.json"
                ),
                None => format!(
                    "{name}: more than half of the completions were truncated; {}",
                    self.remedy()
                ),
            });
        }
        if summary.truncated_correct > 0 && rule.is_wrong() {
            cautions.push(format!(
                "{name}: {} would be correct but reached the length limit, which counts as incorrect; --truncated \
                 judged lets the verifier decide",
                counted(summary.truncated_correct, "completion")
            ));
        }
        if summary.failed > 0 && self.temperature.is_some() {
            cautions.push(format!(
                "{name}: {} without an answer (refused, filtered, a tool call, no text), counted as incorrect; \
                 --failed unjudged excludes them",
                counted(summary.failed, "completion")
            ));
        }
        if summary.no_answer > 0.5 {
            cautions.push(format!(
                "{name}: more than half of the completions contain no readable answer; look at the samples"
            ));
        }
        if summary.thinking.is_some_and(|thinking| thinking.finished < 0.5) {
            cautions.push(format!(
                "{name}: more than half of the thoughts were never finished; {}",
                self.remedy()
            ));
        }
        if summary.unjudged > 0 {
            let problems = match summary.unjudged_problems {
                0 => String::new(),
                count => {
                    format!(", and {} no judged completion", with_verb(count, "problem", "have"))
                }
            };
            cautions.push(format!(
                "{name}: {} left out, which could not be judged{problems}",
                with_verb(summary.unjudged, "completion", "are")
            ));
        }
        cautions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{set, tally};

    #[test]
    fn several_samples_at_temperature_0_are_called_one() {
        let cautions = |temperature: f64, samples: usize| {
            let set = set("s", vec![tally("a", samples, samples)], &[1]);
            SetResult { temperature: Some(temperature), ..set }.cautions("s", Truncated::default())
        };
        assert!(cautions(0.0, 8)[0].contains("pass@k says no more than pass@1"));
        assert!(cautions(0.0, 1).is_empty() && cautions(0.6, 8).is_empty());
    }
}
