//! Why tallies have no summary: kinds of failure that a caller can react to.

use crate::number::counted;

/// Why [`Summary::new`](crate::Summary::new) makes no estimate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SummaryError {
    /// There is no tally.
    #[error("no problem was evaluated")]
    NoProblem,
    /// Every completion is unjudged.
    #[error("no completion could be judged")]
    NothingJudged,
    /// No sample, or no k.
    #[error("pass@k needs at least one sample (-n) and one k (-k)")]
    NoSample,
    /// A k that is 0 or above the number of samples.
    #[error(
        "pass@{k} cannot be estimated from {} a prompt: choose k from 1 to {n}, or take more samples",
        counted(*n, "sample")
    )]
    TooFewSamples {
        /// The k that was asked for.
        k: usize,
        /// Samples of each problem.
        n: usize,
    },
    /// A k above the number of samples of one problem, of which others have more.
    #[error(
        "pass@{k} cannot be estimated: problem `{problem}` has {} (others up to {most}); choose k up to {n}",
        counted(*n, "sample")
    )]
    Uneven {
        /// The k that was asked for.
        k: usize,
        /// The id of the problem with the fewest samples.
        problem: String,
        /// Number of samples of that problem.
        n: usize,
        /// Most samples of any problem.
        most: usize,
    },
}
