//! Ways of checking a completion, one file each.

mod expression;
pub mod countdown;
pub mod math;

pub use expression::{Expression, Operator, ParseError};
