//! The range of a numeric option, which the declaration of the option carries: `#[arg(long, add = at_least(0.0))]`. The
//! command line, settings files and their schema read the range from there.

use std::fmt::{self, Display};

use clap::builder::ArgExt;

/// A bound and whether it may be reached itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// The bound is allowed.
    At(f64),
    /// Only numbers beyond the bound are allowed.
    Beyond(f64),
}

use Bound::{At, Beyond};

/// The numbers that an option allows. All are finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Lower bound.
    pub least: Bound,
    /// Upper bound; none where the option's type is the limit.
    pub most: Option<Bound>,
}

/// Counts that need memory or time of their own.
pub const COUNT: Range = at_least(1.0).at_most(1e6);
/// Counts that only end something.
pub const LIMIT: Range = at_least(1.0).at_most(1e15);
/// The same where 0 has a meaning of its own.
pub const LIMIT_OR_ZERO: Range = at_least(0.0).at_most(1e15);
/// Numbers of tokens of one completion.
pub const TOKENS: Range = at_least(1.0).at_most(16_777_216.0);
/// Seeds, and whatever else may be any number.
pub const SEED: Range = at_least(0.0);

/// `least` and more.
pub const fn at_least(least: f64) -> Range {
    Range { least: At(least), most: None }
}

/// More than `least`.
pub const fn above(least: f64) -> Range {
    Range { least: Beyond(least), most: None }
}

impl Range {
    /// The same up to `most`.
    #[must_use]
    pub const fn at_most(self, most: f64) -> Self {
        Self { most: Some(At(most)), ..self }
    }

    /// The same below `most`.
    #[must_use]
    pub const fn below(self, most: f64) -> Self {
        Self { most: Some(Beyond(most)), ..self }
    }

    /// Whether the range has `number`.
    pub fn contains(&self, number: f64) -> bool {
        let is_above = match self.least {
            At(least) => number >= least,
            Beyond(least) => number > least,
        };
        let is_below = match self.most {
            None => true,
            Some(At(most)) => number <= most,
            Some(Beyond(most)) => number < most,
        };
        is_above && is_below && number.is_finite()
    }
}

impl ArgExt for Range {}

impl Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.least {
            At(least) => write!(f, "at least {least}")?,
            Beyond(least) => write!(f, "above {least}")?,
        }
        match self.most {
            None => Ok(()),
            Some(At(most)) => write!(f, " and at most {most}"),
            Some(Beyond(most)) => write!(f, " and below {most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_bounds_as_it_is_spelled() {
        for (range, spelled, inside, outside) in [
            (at_least(0.0).at_most(1.0), "at least 0 and at most 1", [0.0, 1.0], [-0.1, 1.1]),
            (above(0.0).below(1.0), "above 0 and below 1", [0.1, 0.9], [0.0, 1.0]),
            (above(0.0).at_most(1e6), "above 0 and at most 1000000", [1e-9, 1e6], [0.0, 1e7]),
            (SEED, "at least 0", [0.0, f64::MAX], [-1.0, f64::INFINITY]),
        ] {
            assert_eq!(range.to_string(), spelled);
            assert!(inside.iter().all(|number| range.contains(*number)), "{spelled}");
            let refused = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
            assert!(
                outside.iter().chain(&refused).all(|number| !range.contains(*number)),
                "{spelled}"
            );
        }
    }
}
