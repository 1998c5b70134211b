//! Ways of checking a completion, one file each.

pub mod countdown;
mod expression;
pub mod math;

pub use expression::{Expression, Operator, ParseError};
