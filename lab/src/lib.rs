//! The laboratory: worlds that can be enumerated, where every objective is exact.
//!
//! [`World`] is what can be said and what is correct, [`Class`] what a policy can see, [`Table`] a policy.
//! [`Setting`] runs the objective code of real training on whole distributions instead of samples;
//! [`sampled`] runs the real estimators, and [`prove`] compares them with what they are said to do. The worlds are our
//! own design after Dymetman (arXiv 2605.02375), whose own toy is not public.

#![warn(missing_docs)]

mod claim;
mod class;
mod descent;
mod exact;
pub mod fixed_mu;
mod measure;
mod member;
pub mod paper;
pub mod prove;
pub mod sampled;
mod search;
pub mod vocabulary;
mod world;

pub use class::{Class, Table};
pub use descent::Descent;
pub use exact::Setting;
pub use measure::{KS, Measures};
pub use search::{Optimum, Point, Search};
pub use world::{WORLDS, World};
