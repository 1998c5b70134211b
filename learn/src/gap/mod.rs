//! Why a run stays below the best value of its objective: the part that its model class cannot reach, and the part that
//! its optimisation did not reach.
//!
//! `J(pi) = E[v] - beta KL(pi || a)` is computed without samples, from the probability of every output of problems
//! whose outputs are all listed. Its largest value over all distributions, `beta log Z_beta` at p_beta, is known in
//! closed form; its largest value over the policies of a network is bounded from below by `climb`: a projection of
//! p_beta on the class, then ascent with the exact gradient. Then
//!
//! ```text
//! misspecification gap = J(p_beta) - J(best policy found)
//! optimisation gap     = J(best policy found) - J(run)
//! ```

mod climb;
mod measures;
mod outputs;
#[cfg(test)]
mod tests;

pub use climb::{Aim, Climb};
pub use measures::{Beta, Measures};
pub use outputs::Outputs;
