//! What a verifier says of a completion.

use serde::{Deserialize, Serialize};

use crate::Features;

/// What a verifier says of one completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Right. Two correct completions with the same `class` are the same solution for diversity counts.
    Correct {
        /// Canonical form of the solution.
        class: String,
        /// Canonical form of the final answer.
        #[serde(default)]
        value: String,
        /// What it is made of, where the verifier says.
        #[serde(default, skip_serializing_if = "Features::is_empty")]
        features: Features,
    },
    /// An answer was found and it is wrong.
    Wrong {
        /// What was found, or what went wrong, where the verifier can say.
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
        /// Why.
        why: String,
        /// Whether it is the answer's own doing: comparing it would take more work than a verdict may cost.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_too_costly: bool,
    },
}

impl Verdict {
    /// One that cannot be judged, and why.
    pub fn unjudged(why: String) -> Self {
        Verdict::Unjudged { why, is_too_costly: false }
    }

    /// A correct completion of which no features are known.
    pub fn correct(class: &str, value: &str) -> Self {
        Self::with_features(class, value, Features::default())
    }

    /// A correct completion, and what it is made of.
    pub fn with_features(class: &str, value: &str, features: Features) -> Self {
        Verdict::Correct { class: class.into(), value: value.into(), features }
    }

    /// A wrong one of which there is nothing to say.
    pub fn wrong() -> Self {
        Verdict::Wrong { why: None, answer: None }
    }

    /// A wrong one, and why.
    pub fn because(why: String) -> Self {
        Verdict::Wrong { why: Some(why), answer: None }
    }

    /// Whether the completion earns the reward.
    pub fn is_correct(&self) -> bool {
        matches!(self, Verdict::Correct { .. })
    }
}
