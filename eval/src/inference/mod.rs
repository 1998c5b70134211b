//! How sure a difference is when seeds and problems are samples, and what may be said of it.
//!
//! `two_way` is the analysis; an [`Effect`] is a difference with its interval and p-value; a [`Family`] is what is
//! tested together, and each [`Tested`] difference of it writes its star, its cell and its sentence. Means of one
//! model have the intervals of [`crate::interval`].

#[cfg(test)]
mod coverage;
mod effect;
pub(crate) mod student;
mod tested;
pub(crate) mod two_way;

pub use effect::{CONFIDENCE, Effect, crossed, paired};
pub use tested::{Family, Finding, Tested, TestedFamily, holm, in_words};
pub use two_way::Variances;
