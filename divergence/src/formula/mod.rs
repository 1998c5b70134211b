//! A divergence by its formula: `f=(t-1)^2/(t+1)`, with `t = pi / anchor` and `x = log t`.
//!
//! The text is read once into a tree (`tree`), whose derivative is a tree (`derivative`). Both become programs that
//! run over every kind of number (`program`). Near `t = 1`, where a generator is a small difference of large terms,
//! the power series of the same tree takes their place (`series`, `near`). A constant and a linear term are taken off,
//! since `E_p[c + d (t - 1)] = c` for every policy; what is then no divergence is refused with the point that shows
//! it (`check`). What is accepted is kept for the life of the process, which bounds how many there may be.

mod check;
mod derivative;
mod near;
mod program;
mod series;
mod tree;

use std::fmt;
use std::sync::Mutex;

use anyhow::{Result, anyhow, bail};

use crate::expression::Expression;
use crate::{Divergence, Number};
use derivative::derivative;
use near::Near;
use program::Program;
pub use program::{TILE, Tile};
use series::series;
use tree::{Tree, constant, lower, power, sum, times_power};

/// A divergence that was given as a formula. Equal texts are equal.
#[derive(Clone, Copy)]
pub struct Formula(&'static Law);

/// Properties of a divergence, for a reader.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// `f(0)`: what it costs to lose an answer of the anchor, infinite where mass must be covered.
    pub at_zero: f64,
    /// `f'` at infinity: what mass costs where the anchor has none, infinite where it cannot aim at p*.
    pub at_infinity: f64,
    /// `f''(1)`: divergences with equal products of coefficient and curvature cost small changes equally; infinite at a
    /// kink.
    pub curvature: f64,
    /// `f(1)` and `f'(1)` of the text, which were taken off.
    pub removed: [f64; 2],
    /// The named divergence that it is a multiple of, and the factor.
    pub twin: Option<(f64, Divergence)>,
}

/// The two kinds of digits: f32 and f64.
const PRECISIONS: [f64; 2] = [1e-8, 1e-17];

/// Most formulas of a process.
const MAX_FORMULAS: usize = 4096;

struct Law {
    text: String,
    value: Program,
    slope: Program,
    both: Program,
    f_prime: Program,
    /// Value and slope of `f - f'(inf) (t - 1)`, where that is another function.
    matching: Option<Program>,
    near: [Near; 2],
    /// The lowest and highest x at which all is finite, for either kind of digits.
    range: [[f64; 2]; 2],
    facts: Facts,
}

static KNOWN: Mutex<Vec<Formula>> = Mutex::new(Vec::new());

impl Formula {
    /// Reads a text, with or without `f=` before it.
    ///
    /// # Errors
    /// A text that is no formula, or a formula of no divergence; the message names the point.
    pub fn parse(text: &str) -> Result<Self> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut joined = String::new();
        for word in text.split_whitespace() {
            // A blank between two names stays: they are not one.
            if joined.ends_with(is_word) && word.starts_with(is_word) {
                joined.push(' ');
            }
            joined.push_str(word);
        }
        let text = joined;
        let text = text.strip_prefix("f=").unwrap_or(&text);
        let find = |known: &[Formula]| known.iter().find(|one| one.0.text == text).copied();
        if let Some(known) = find(&lock()) {
            return Ok(known);
        }
        let law = Law::new(text).map_err(|error| anyhow!("divergence `f={text}`: {error:#}"))?;
        let mut known = lock();
        if let Some(known) = find(&known) {
            return Ok(known);
        }
        if known.len() == MAX_FORMULAS {
            bail!("a process reads at most {MAX_FORMULAS} formulas");
        }
        let formula = Formula(Box::leak(Box::new(law)));
        known.push(formula);
        Ok(formula)
    }

    /// Whether a text is meant as a formula rather than as a name.
    pub fn is_meant_by(text: &str) -> bool {
        let names = || {
            Expression::parse(text).ok().map(|tree| {
                tree.names().iter().all(|name| tree::known().any(|known| known == *name))
            })
        };
        text.trim_start().starts_with("f=")
            || text.contains(['(', ')', '*', '/', '^', '+'])
            || names().unwrap_or(false)
    }

    /// The text, without blanks.
    pub fn text(self) -> &'static str {
        &self.0.text
    }

    /// Its properties.
    pub fn facts(self) -> &'static Facts {
        &self.0.facts
    }

    /// `f(e^x)`.
    pub(crate) fn f<N: Number>(self, x: N) -> N {
        let law = self.0;
        let at = law.inside(&x);
        let value = one(&law.value, &at);
        let near = law.near_of::<N>();
        let value = at.clone().below(near.limit, near.value(&at), value);
        if !(N::IS_DOUBLE && law.facts.at_zero.is_infinite()) {
            return value;
        }
        // Below every number the value is the limit itself.
        x.below(f64::MAX, value, at.affine(0.0, law.facts.at_zero))
    }

    /// `u f'(u)`.
    pub(crate) fn slope<N: Number>(self, x: N) -> N {
        let at = self.0.inside(&x);
        let near = self.0.near_of::<N>();
        at.clone().below(near.limit, near.slope(&at), one(&self.0.slope, &at))
    }

    /// `f'(e^x)`.
    pub(crate) fn f_prime(self, x: f64) -> f64 {
        let at = self.0.inside(&x);
        let near = self.0.near_of::<f64>();
        match at.abs() < near.limit {
            true => near.slope(&at) * Number::exp(-at),
            false => one(&self.0.f_prime, &at),
        }
    }

    /// `f(u) - f'(inf) (u - 1)`, or `f(u)` where that limit is infinite.
    pub(crate) fn matching<N: Number>(self, x: N) -> N {
        self.matched(x, 0, Self::f, |x| x.exp_m1())
    }

    /// Its derivative in `x`.
    pub(crate) fn matching_slope<N: Number>(self, x: N) -> N {
        self.matched(x, 1, Self::slope, |x| x.exp())
    }

    fn matched<N: Number>(
        self,
        x: N,
        result: usize,
        plain: fn(Self, N) -> N,
        linear: fn(N) -> N,
    ) -> N {
        let Some(program) = &self.0.matching else { return plain(self, x) };
        let at = self.0.inside(&x);
        let mut registers = Vec::new();
        program.run(&at, &mut registers);
        let far = registers[program.results[result]].clone();
        let limit = self.0.near_of::<N>().limit;
        let less = linear(at.clone()).affine(self.0.facts.at_infinity, 0.0);
        at.below(limit, plain(self, x) - less, far)
    }

    /// `f` and `u f'(u)` of a tile, for loops over a vocabulary.
    #[inline(always)]
    pub fn tile(self, x: &Tile, registers: &mut Vec<Tile>) -> [Tile; 2] {
        let (law, at) = (self.0, self.0.inside(x));
        law.both.run(&at, registers);
        let [value, slope] = [0, 1].map(|result| registers[law.both.results[result]]);
        let near = law.near_of::<Tile>();
        [at.below(near.limit, near.value(&at), value), at.below(near.limit, near.slope(&at), slope)]
    }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<Formula>> {
    // A panic while it was held leaves a list that is whole: nothing but a push happens under it.
    KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The first result of a program.
fn one<N: Number>(program: &Program, x: &N) -> N {
    let mut registers = Vec::new();
    program.run(x, &mut registers);
    registers.swap_remove(program.results[0])
}

impl Law {
    fn new(text: &str) -> Result<Self> {
        let tree = lower(&Expression::parse(text)?)?;
        let sides = [series(&tree, -1.0)?, series(&tree, 1.0)?];
        let [left, right] = &sides;
        // At a kink the mean of both slopes, which leaves |t - 1| as it is.
        let removed = [right[0], 0.5 * (left[1] + right[1])];
        if !removed.iter().all(|one| one.is_finite()) {
            bail!("f is not finite at t = 1");
        }
        let tree = with_line(&tree, removed.map(|one| -one));
        let mut sides = [series(&tree, -1.0)?, series(&tree, 1.0)?];
        let kink = 0.5 * (sides[1][1] - sides[0][1]);
        sides[0][..2].copy_from_slice(&[0.0, -kink]);
        sides[1][..2].copy_from_slice(&[0.0, kink]);
        let curvature = match kink.abs() > 1e-12 {
            true => f64::INFINITY,
            false => sides[0][2] + sides[1][2],
        };
        let slope = derivative(&tree);
        let f_prime = times_power(&slope, -1.0);
        let mut law = Self {
            text: text.to_owned(),
            value: Program::new(&[&tree])?,
            slope: Program::new(&[&slope])?,
            both: Program::new(&[&tree, &slope])?,
            f_prime: Program::new(&[&f_prime])?,
            matching: None,
            near: PRECISIONS.map(|precision| Near::new(&sides, precision)),
            range: [[-100.0, 20.0], [-700.0, 700.0]],
            facts: Facts {
                at_zero: f64::NAN,
                at_infinity: f64::NAN,
                curvature,
                removed,
                twin: None,
            },
        };
        law.check(sides[1][3] / sides[1][2])?;
        let limit = law.facts.at_infinity;
        if limit.is_finite() {
            let tree = with_line(&tree, [0.0, -limit]);
            law.matching = Some(Program::new(&[&tree, &derivative(&tree)])?);
        }
        Ok(law)
    }

    fn near_of<N: Number>(&self) -> &Near {
        &self.near[usize::from(N::IS_DOUBLE)]
    }

    /// `x` within the range where all is finite.
    #[inline(always)]
    fn inside<N: Number>(&self, x: &N) -> N {
        let [low, high] = self.range[usize::from(N::IS_DOUBLE)];
        x.clone().within(low, high)
    }
}

/// `tree + c + d (t - 1)`.
fn with_line(tree: &Tree, [c, d]: [f64; 2]) -> Tree {
    sum([(1.0, tree.clone()), (c - d, constant(1.0)), (d, power(1.0))])
}

impl PartialEq for Formula {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl fmt::Debug for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.text)
    }
}

#[cfg(test)]
mod tests;
