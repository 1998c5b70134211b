//! What counts as wrong besides a wrong answer: completions that were cut off, requests that failed, problems that
//! nobody answered. Two evaluations can be compared where their rules are the same.

use serde::{Deserialize, Serialize};
use tealight_core::choices::Choices;

/// What a completion counts as that was cut off at the limit of its length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Truncated {
    /// As incorrect, whatever stands in it.
    #[default]
    Wrong,
    /// As what the verifier says of the text that is there.
    Judged,
}

impl Truncated {
    /// Whether it is the usual rule.
    pub fn is_wrong(&self) -> bool {
        *self == Self::Wrong
    }
}

/// What a completion counts as that a server failed to give or refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failed {
    /// As an empty completion, which is incorrect.
    #[default]
    Wrong,
    /// As one that could not be judged, which no estimate counts.
    Unjudged,
}

/// What becomes of a dataset's problems of which a file has no completion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// No estimate counts them.
    #[default]
    LeftOut,
    /// They count as problems without a correct completion.
    Wrong,
}

/// What completions without an answer of their own count as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// Those that were truncated.
    pub truncated: Truncated,
    /// Those that a server failed to give or refused.
    pub failed: Failed,
}

impl Choices for Truncated {
    const ALL: &'static [(&'static str, Self)] =
        &[("wrong", Self::Wrong), ("judged", Self::Judged)];
}

impl Choices for Failed {
    const ALL: &'static [(&'static str, Self)] =
        &[("wrong", Self::Wrong), ("unjudged", Self::Unjudged)];
}

impl Choices for Missing {
    const ALL: &'static [(&'static str, Self)] =
        &[("left-out", Self::LeftOut), ("wrong", Self::Wrong)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_names_equal_names_in_results() {
        fn check<T: Choices + Serialize>() {
            for (name, choice) in T::ALL {
                assert_eq!(serde_json::to_value(choice).unwrap(), *name);
                assert!(T::named(name).is_some());
            }
        }
        check::<Truncated>();
        check::<Failed>();
        check::<Missing>();
        assert!(Truncated::named("correct").is_none());
    }
}
