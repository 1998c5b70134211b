//! A completion, whoever sampled it: the words of servers and harnesses for its text and its end come here.
//!
//! `choice` reads a choice of a server, `response` all that it returned, `content` the content of a message, [`Ending`]
//! a finish reason. An evaluation, `grade` and training with servers all read by these; `rules` says what a completion
//! then counts as.

mod choice;
mod content;
mod response;

pub use choice::{Reading, reason};
pub(crate) use content::{Content, TEXTS, is_empty, last_answer, role_of};
pub(crate) use response::{
    MAX_ANSWERS, choices_of, completions_of, is_list_of_python, is_of_python, printed,
};
pub use tealight_datasets::Ending;

/// A completion, as an evaluation sees it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Completion {
    /// The text, without special tokens.
    pub text: String,
    /// Whether it ended by itself; a truncated completion counts as incorrect.
    pub is_finished: bool,
    /// Whether it is unknown how it ended; `is_finished` is then true.
    pub is_end_unknown: bool,
    /// How many tokens it took; 0 where that is not known.
    pub tokens: usize,
    /// Log-probability of the whole completion under the sampling distribution, in nats; none where it is
    /// not known.
    pub logp: Option<f64>,
    /// Why there is no answer to judge: a refusal, a filter, a tool call, a failed request. `--failed` says what it
    /// counts as.
    pub failure: Option<String>,
    /// Whether nothing was sampled: the request itself failed.
    pub is_missing: bool,
    /// The solution class that the source names, where it does.
    pub class: Option<String>,
    /// The verdict of another judge, where the source has one and the caller asks for it, as in a
    /// [`crate::Sample`].
    pub other_verdict: Option<f64>,
    /// The verdict that its record brings itself, by which grading notices gold answers that it misreads.
    pub file_verdict: Option<f64>,
    /// Whether its prompt ended inside a thought ([`tealight_datasets::thinking`]).
    pub starts_inside: bool,
    /// Whether a finished thought was removed from its beginning, as some servers do.
    pub is_stripped: bool,
    /// Tokens up to the end of its last thought; 0 where that is not known.
    pub thought_tokens: usize,
}

impl Completion {
    /// One of a request that failed, and why: nothing was sampled.
    pub fn failed(why: String) -> Self {
        Self { failure: Some(why), is_missing: true, ..Self::default() }
    }
}
