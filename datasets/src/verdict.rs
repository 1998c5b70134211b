//! Verdicts on completions, and the verifiers that give them.

use serde::{Deserialize, Serialize};

use crate::Problem;
use crate::verify::math::answer::found::Location;

/// A verifier's judgement of one completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Correct. Two correct completions with the same `class` are the same solution for diversity counts.
    Correct {
        /// Canonical form of the solution.
        class: String,
        /// Canonical form of the final answer.
        #[serde(default)]
        value: String,
    },
    /// An answer was found and it is incorrect.
    Wrong {
        /// The answer, or the mistake, where the verifier can name it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// Canonical form of the answer that was given, where the verifier can say: votes count it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
    },
    /// No answer was found in the completion.
    NoAnswer,
    /// Something stands where the answer should be, but it could not be read.
    Unparsable {
        /// The text that could not be read.
        found: String,
    },
    /// Nothing can be said: the gold answer cannot be read, or the verifier failed. Counted apart, never
    /// as wrong.
    Unjudged {
        /// The reason, for the reader.
        why: String,
        /// Whether it is the answer's own doing: comparing it would take more work than a verdict may cost, or makes
        /// the verifier panic.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_too_costly: bool,
    },
}

impl Verdict {
    /// One that cannot be judged, and why.
    pub fn unjudged(why: String) -> Self {
        Verdict::Unjudged { why, is_too_costly: false }
    }

    /// A correct completion.
    pub fn correct(class: &str, value: &str) -> Self {
        Verdict::Correct { class: class.into(), value: value.into() }
    }

    /// A wrong one of which there is nothing to say.
    pub fn wrong() -> Self {
        Verdict::Wrong { why: None, answer: None }
    }

    /// A wrong one, and why.
    pub fn because(why: String) -> Self {
        Verdict::Wrong { why: Some(why), answer: None }
    }

    /// The name that JSON and Parquet files have.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Correct { .. } => "correct",
            Verdict::Wrong { .. } => "wrong",
            Verdict::NoAnswer => "no_answer",
            Verdict::Unparsable { .. } => "unparsable",
            Verdict::Unjudged { .. } => "unjudged",
        }
    }

    /// Whether the completion earns the reward.
    pub fn is_correct(&self) -> bool {
        matches!(self, Verdict::Correct { .. })
    }
}

/// A verdict, and how much the completion earns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grade {
    /// Whether the answer is correct, by the verifier.
    pub verdict: Verdict,
    /// The reward, between 0 and 1.
    pub reward: f64,
    /// The reward by each of several verifiers, in their order; empty where one verifier grades.
    pub parts: Vec<f64>,
    /// Where the answer was found in the completion, by the verifier of mathematics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Location>,
}

impl Grade {
    /// 1 for a correct completion, else 0.
    pub fn from_verdict(verdict: Verdict) -> Self {
        Self { reward: f64::from(verdict.is_correct()), verdict, parts: Vec::new(), found: None }
    }

    /// The reward, where the verdict does not say it: one between 0 and 1, or the mean of several verifiers' rewards.
    /// None where nothing can be said.
    pub fn graded(&self) -> Option<f64> {
        let is_judged = !matches!(self.verdict, Verdict::Unjudged { .. });
        let is_implied =
            self.parts.is_empty() && self.reward == f64::from(self.verdict.is_correct());
        (is_judged && !is_implied).then_some(self.reward)
    }
}

/// How a verifier grades.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grading {
    /// Whether rewards between 0 and 1 are possible.
    pub is_graded: bool,
    /// Names of the rewards that are logged apart; none where there is one.
    pub names: Vec<String>,
    /// The least reward of a correct completion, where the user named it.
    pub threshold: Option<f64>,
    /// The settings that decide rewards beside the verifier's name; empty where there are none.
    pub identity: String,
}

/// A completion, as verifiers are given it.
#[derive(Debug, Clone, Copy)]
pub struct CompletionText<'a> {
    /// All of it, thoughts included.
    pub full: &'a str,
    /// The answer in it, where there is one.
    pub answer: Option<&'a str>,
}

impl<'a> CompletionText<'a> {
    /// The text for a verifier that reads thoughts, or does not.
    pub fn visible_text(self, reads_thoughts: bool) -> Option<&'a str> {
        if reads_thoughts { Some(self.full) } else { self.answer }
    }
}

/// Judges completions: total (never panics, never fails) and deterministic.
pub trait Verifier: Send + Sync {
    /// The name that results and logs carry.
    fn name(&self) -> &'static str;
    /// Judges `completion` as an answer to `problem`.
    fn verify(&self, problem: &Problem, completion: &str) -> Verdict;
    /// Judges and rewards a completion: 1 where it is correct, else 0, unless the verifier grades.
    fn grade(&self, problem: &Problem, completion: CompletionText<'_>) -> Grade {
        Grade::from_verdict(match completion.visible_text(self.reads_thoughts()) {
            Some(text) => self.verify(problem, text),
            None => Verdict::NoAnswer,
        })
    }
    /// How it grades: not at all, unless it says so.
    fn grading(&self) -> Grading {
        Grading::default()
    }
    /// Whether prompts should ask for the answer in a box.
    fn asks_for_a_box(&self) -> bool {
        self.name().starts_with("math")
    }
    /// Whether it is given thoughts as well (`thinking`), not the answer alone.
    fn reads_thoughts(&self) -> bool {
        false
    }
    /// A fault of the verifier itself, to be reported once, where it noticed one.
    fn complaint(&self) -> Option<String> {
        None
    }
    /// Tries the verifier on a problem's gold answer before anything is sampled: code of the user's may fail at its
    /// first call. A warning where the gold answer is incorrect to it, which only says something of gold answers that
    /// are correct completions ([`Dataset::has_answer_texts`](crate::Dataset::has_answer_texts)).
    ///
    /// # Errors
    /// Why the verifier cannot judge.
    fn probe(&self, problem: &Problem) -> Result<Option<String>, String> {
        let _ = problem;
        Ok(None)
    }
    /// Why a gold answer cannot be compared with, where that can be seen without an answer.
    fn refuse_gold(&self, gold: &str) -> Option<String> {
        let _ = gold;
        None
    }
}
