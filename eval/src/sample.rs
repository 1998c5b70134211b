//! Judged answers, and their counts by problem.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tealight_core::turns::end_of_turn;
use tealight_datasets::judge::grade;
use tealight_datasets::thinking::parts;
use tealight_datasets::verify::math::{Location, Rule};
use tealight_datasets::{Grade, Problem, Verdict, Verifier};

use crate::rules::{Failed, Rules};
use crate::sample_line::Fields;
use crate::{Classes, Completion, Counts, Truncated};

/// Most reasons that are kept of completions that could not be judged.
const MAX_REASONS: usize = 3;

/// The thought before an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinking {
    /// Whether its prompt ended inside the thought.
    pub starts_inside: bool,
    /// Whether the thought was finished.
    pub is_finished: bool,
    /// Tokens up to its end; 0 where that is not known.
    pub tokens: usize,
}

/// Counts of thoughts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thoughts {
    /// Answers with a thought.
    pub count: usize,
    /// Completions that finished their thought.
    pub finished: usize,
    /// Tokens up to their ends.
    pub tokens: usize,
}

/// One judged answer: a line of a samples file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Fields")]
pub struct Sample {
    /// The problem's id.
    pub problem: String,
    /// Which of the n answers.
    pub sample: usize,
    /// The text.
    pub completion: String,
    /// The verdict of the verifier.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The reward that the verifier granted, where the verdict does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
    /// Where its answer was found, and by which rule, where the verifier of mathematics judged it.
    /// A verdict has a text `found` of its own, so in files this is `answer_location`.
    #[serde(rename = "answer_location", skip_serializing_if = "Option::is_none")]
    pub found: Option<Location>,
    /// Whether it ended by itself.
    pub is_finished: bool,
    /// Whether it is unknown how it ended; `is_finished` is then true.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_end_unknown: bool,
    /// How many tokens it took; 0 where that is not known.
    pub tokens: usize,
    /// Log-probability of the completion, in nats, where it is known.
    pub logp: Option<f64>,
    /// Why there is no answer (a refusal, a filter, a tool call); such a sample is judged by no verifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Whether nothing was sampled, since the server refused the request: it is unjudged under every rule.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_missing: bool,
    /// The verdict of another judge, where a column has one: 1 for correct; a share where the column has no more than
    /// the mean of several completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_verdict: Option<f64>,
    /// The verdict that its record brought itself, while a file is graded.
    #[serde(skip)]
    pub file_verdict: Option<f64>,
    /// Its thought, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// What it counts as where it was truncated.
    #[serde(skip_serializing_if = "Truncated::is_wrong")]
    pub truncated: Truncated,
}

impl Sample {
    /// Has `verifier` judge `answer` as the answer number `sample` to `problem`. What it counts as where it was
    /// truncated or failed, [`Self::under`] says.
    pub fn judged(
        problem: &Problem,
        verifier: &dyn Verifier,
        sample: usize,
        answer: Completion,
    ) -> Self {
        let starts_inside = answer.starts_inside;
        let tokens = answer.thought_tokens;
        let thinking = |is_finished| Thinking { starts_inside, is_finished, tokens };
        let mut grade = match &answer.failure {
            Some(why) => Grade::from_verdict(Verdict::unjudged(why.clone())),
            None => grade(verifier, problem, &answer.text, starts_inside),
        };
        if let (Verdict::Correct { class, .. }, Some(named)) = (&mut grade.verdict, answer.class) {
            *class = named;
        }
        Self {
            problem: problem.id.clone(),
            sample,
            reward: grade.graded(),
            found: grade.found,
            verdict: grade.verdict,
            thinking: parts(&answer.text, starts_inside)
                .is_finished
                .or(answer.is_stripped.then_some(true))
                .map(thinking),
            failure: answer.failure,
            is_missing: answer.is_missing,
            other_verdict: answer.other_verdict,
            file_verdict: answer.file_verdict,
            completion: answer.text,
            is_finished: answer.is_finished,
            is_end_unknown: answer.is_end_unknown,
            tokens: answer.tokens,
            logp: answer.logp,
            truncated: Truncated::default(),
        }
    }

    /// Its line of a samples file, with the line feed.
    pub(crate) fn line(&self) -> anyhow::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    /// The same under other rules.
    #[must_use]
    pub fn under(mut self, rules: Rules) -> Self {
        self.apply(rules);
        self
    }

    /// Puts it under other rules: the one place that decides what a completion without an answer counts as.
    pub fn apply(&mut self, rules: Rules) {
        self.truncated = rules.truncated;
        if let Some(why) = &self.failure {
            self.verdict = match rules.failed {
                Failed::Wrong if !self.is_missing => Verdict::NoAnswer,
                _ => Verdict::unjudged(why.clone()),
            };
        }
    }

    /// Has `verifier` judge it again.
    pub fn judge_again(&mut self, problem: &Problem, verifier: &dyn Verifier) {
        let grade = self.judged_by(problem, verifier);
        (self.reward, self.found, self.verdict) = (grade.graded(), grade.found, grade.verdict);
    }

    /// What another verifier says of its completion.
    pub(crate) fn judged_by(&self, problem: &Problem, verifier: &dyn Verifier) -> Grade {
        let starts_inside = self.thinking.is_some_and(|thinking| thinking.starts_inside);
        grade(verifier, problem, &self.completion, starts_inside)
    }

    /// Whether its verdict counts: that of a truncated answer does not, unless the rule says so.
    pub fn counts(&self) -> bool {
        self.is_finished || self.truncated == Truncated::Judged
    }

    /// Whether it is correct, and its verdict counts.
    pub fn is_correct(&self) -> bool {
        self.counts() && self.verdict.is_correct()
    }

    /// Its reward; that of a truncated answer is 0, unless its verdict counts.
    pub fn reward(&self) -> f64 {
        let granted = self.reward.unwrap_or_else(|| f64::from(self.verdict.is_correct()));
        if self.counts() { granted } else { 0.0 }
    }
}

/// The counts of one problem: all that estimates need.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// The problem's id.
    pub problem: String,
    /// Answers drawn and judged.
    pub samples: usize,
    /// Number of correct samples.
    pub correct: usize,
    /// Sum of the rewards of all judged answers, where the verdicts of some do not say theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
    /// How often each distinct correct answer was drawn.
    pub classes: Classes,
    /// How often each distinct incorrect answer was given, where the verifier reports the answer.
    pub wrong: Counts,
    /// Answers that were cut off.
    pub truncated: usize,
    /// Truncated answers that went on after an end of turn, and the first such end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_of_turn: Option<(usize, String)>,
    /// Those of them that the verifier calls correct, whether they count or not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated_correct: usize,
    /// Answers that a server failed to give or refused, and that count as incorrect.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: usize,
    /// Answers of which it is unknown whether they were truncated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_ends: usize,
    /// Completions in which no answer was found, or none that could be read.
    pub no_answer: usize,
    /// By which rules the answers were found, and how often, where the verifier of mathematics judged them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<Rule, usize>,
    /// Answers that could not be judged; they are not among `samples`.
    pub unjudged: usize,
    /// Tokens drawn.
    pub tokens: usize,
    /// Answers whose number of tokens is unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_lengths: usize,
    /// Thoughts among them.
    pub thoughts: Thoughts,
    /// Log-probabilities of all answers whose own is known, in nats, and how many those are.
    pub logp: (f64, usize),
    /// Whether the answer at temperature 0 is correct, where it was sampled.
    pub greedy: Option<bool>,
    /// How many distinct correct answers there are, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// `KL(p* || model)` in nats, where all correct answers are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kl_pstar: Option<f64>,
}

/// For numbers that are written where there is something to say.
pub(crate) fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Tally {
    /// No answers to `problem` yet.
    pub fn new(problem: &Problem) -> Self {
        Self { problem: problem.id.clone(), total: problem.total, ..Self::default() }
    }

    /// Answers drawn, judged or not.
    pub fn num_samples(&self) -> usize {
        self.samples + self.unjudged
    }

    /// The tally with the fewest answers drawn, of those with a judged answer of the model. A request that a server
    /// failed to answer is one failure, however many answers it asked for: such a problem limits no k. All tallies, if
    /// none has an answer.
    pub fn with_fewest(tallies: &[Self]) -> Option<&Self> {
        let answered = tallies.iter().filter(|tally| tally.samples > tally.failed);
        let fewest = answered.min_by_key(|tally| tally.num_samples());
        fewest.or_else(|| tallies.iter().min_by_key(|tally| tally.num_samples()))
    }

    /// Counts one answer.
    pub fn add(&mut self, sample: &Sample) {
        if let Verdict::Unjudged { .. } = sample.verdict {
            self.unjudged += 1;
            return;
        }
        if sample.reward.is_some() || self.reward.is_some() {
            // Those before the first whose verdict does not say its reward earned 1 or 0.
            self.reward = Some(self.reward.unwrap_or(self.correct as f64) + sample.reward());
        }
        self.samples += 1;
        self.tokens = self.tokens.saturating_add(sample.tokens);
        if let Some(found) = &sample.found {
            *self.rules.entry(found.rule).or_insert(0) += 1;
        }
        self.truncated += usize::from(!sample.is_finished && sample.failure.is_none());
        if let Some(end) = (!sample.is_finished).then(|| end_of_turn(&sample.completion)).flatten()
        {
            self.end_of_turn.get_or_insert_with(|| (0, end.to_owned())).0 += 1;
        }
        self.truncated_correct += usize::from(!sample.is_finished && sample.verdict.is_correct());
        self.failed += usize::from(sample.failure.is_some());
        self.unknown_ends += usize::from(sample.is_end_unknown);
        self.unknown_lengths += usize::from(sample.tokens == 0);
        if let Some(thinking) = sample.thinking {
            self.thoughts.count += 1;
            self.thoughts.finished += usize::from(thinking.is_finished);
            self.thoughts.tokens = self.thoughts.tokens.saturating_add(thinking.tokens);
        }
        if let Some(logp) = sample.logp {
            self.logp = (self.logp.0 + logp, self.logp.1 + 1);
        }
        match &sample.verdict {
            Verdict::Correct { class, value, .. } if sample.counts() => {
                self.correct += 1;
                self.classes.add(&sample.completion, class, value);
            }
            Verdict::NoAnswer | Verdict::Unparsable { .. } => self.no_answer += 1,
            Verdict::Wrong { answer: Some(answer), .. } => self.wrong.add(answer.bytes()),
            Verdict::Correct { .. } | Verdict::Wrong { .. } | Verdict::Unjudged { .. } => {}
        }
    }

    /// Samples that vote for no answer.
    pub fn silent(&self) -> usize {
        // Counts may come from a file that somebody changed.
        let answered =
            self.wrong.multiplicities().iter().fold(self.correct, |a, b| a.saturating_add(*b));
        self.samples.saturating_sub(answered)
    }
}
/// Adds why samples could not be judged: each reason once, with the first problem that has it.
pub fn note_unjudged(samples: &[Sample], reasons: &mut Vec<String>) {
    for sample in samples {
        let Verdict::Unjudged { why, .. } = &sample.verdict else { continue };
        let why = format!("`: {why}");
        if reasons.len() < MAX_REASONS && !reasons.iter().any(|known| known.ends_with(&why)) {
            reasons.push(format!("problem `{}{why}", sample.problem));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use crate::Summary;

    #[test]
    fn a_failed_request_limits_no_k() {
        let tally = |samples, correct| Tally { samples, correct, ..Tally::default() };
        let failed = Tally { failed: 1, ..tally(1, 0) };
        let tallies = [tally(4, 2), failed];
        let summary = Summary::new(&tallies, &[1, 4]).unwrap();
        assert_eq!((summary.samples_each(), summary.pass_at_k[&4].value), ("4".into(), 0.5));
        let unjudged = Tally { unjudged: 1, ..tally(0, 0) };
        let summary = Summary::new(&[tally(4, 2), unjudged], &[4]).unwrap();
        assert_eq!((summary.pass_at_k[&4].value, summary.unjudged_problems), (1.0, 1));
        assert!(Summary::new(&tallies[1..], &[1]).is_ok());
        assert!(Summary::new(&[tally(4, 2), tally(1, 0)], &[4]).is_err());
    }
}
