//! What training optimises: a clipped policy gradient and a divergence from the base model.
//!
//! This module sees aligned tensors and numbers; it knows no model, no text, no prompt. The
//! divergence is one definition (`divergence.rs`) with one estimator for each kind of sample:
//!
//! - drawn from the policy: `E_pi[f'(u) grad log pi]`, a score function, so `-f'` joins the
//!   advantage ([`penalise`]);
//! - drawn from the base: `E_a[grad f(u)]`, pathwise, so `f(u)` is a loss of its own
//!   ([`rehearsal_loss`]).
//!
//! Here `u = pi / a`, policy over base. To add a divergence, add a variant in `divergence.rs`.

mod advantage;
mod divergence;
mod preset;
mod surrogate;

pub use advantage::{Advantage, advantages, penalise};
pub use divergence::Divergence;
pub(crate) use preset::HELP;
pub use preset::{DrawnFrom, Objective, Penalty};
pub use surrogate::{Clip, Loss, LossType, Normaliser, Streams, rehearsal_loss};
