//! Trees as a list of operations on registers, run over every kind of number.
//!
//! Parts that trees have in common are computed once. The operations have no branches, so that a run over a
//! [`Tile`] of f32 is a loop in wide registers for each of them.

use std::collections::HashMap;
use std::ops::{Add, Mul, Neg, Sub};

use anyhow::{Result, bail};

use super::tree::{Function, Node, Tree};
use crate::Number;
use crate::number::operators;

/// Most operations of a program.
const MAX_OPERATIONS: usize = 400;

/// Values of a tile.
pub const TILE: usize = 64;

/// Operations in an order in which each reads what earlier ones made.
#[derive(Debug)]
pub(super) struct Program {
    operations: Vec<Operation>,
    /// Registers of the results.
    pub(super) results: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operation {
    Constant(f64),
    X,
    /// `e^(c x)`.
    Power(f64),
    /// `e^(c x) - 1`.
    PowerM1(f64),
    /// `log(1 + e^(c x))`.
    Softplus(f64),
    /// `c a + d`.
    Affine(usize, f64, f64),
    /// `a + c b`.
    AddScaled(usize, usize, f64),
    Multiply(usize, usize),
    Divide(usize, usize),
    Larger(usize, usize),
    Apply(Function, usize),
}

#[derive(Default)]
struct Compiler {
    operations: Vec<Operation>,
    known: HashMap<String, usize>,
}

impl Program {
    /// The program whose results are these trees.
    pub(super) fn new(trees: &[&Tree]) -> Result<Self> {
        let mut compiler = Compiler::default();
        let results = trees.iter().map(|tree| compiler.tree(tree)).collect::<Result<_>>()?;
        Ok(Self { operations: compiler.operations, results })
    }

    /// Runs it; `registers` then hold what [`Program::results`] point to.
    #[inline(always)]
    pub(super) fn run<N: Number>(&self, x: &N, registers: &mut Vec<N>) {
        registers.clear();
        for operation in &self.operations {
            let at = |register: &usize| registers[*register].clone();
            let value = match operation {
                Operation::Constant(value) => x.clone().affine(0.0, *value),
                Operation::X => x.clone(),
                Operation::Power(by) if *by == 1.0 => x.clone().exp(),
                Operation::Power(by) => x.clone().affine(*by, 0.0).exp(),
                Operation::PowerM1(by) => x.clone().affine(*by, 0.0).exp_m1(),
                Operation::Softplus(by) => x.clone().affine(*by, 0.0).softplus(),
                Operation::Affine(a, by, plus) => at(a).affine(*by, *plus),
                Operation::AddScaled(a, b, by) if *by == 1.0 => at(a) + at(b),
                Operation::AddScaled(a, b, by) if *by == -1.0 => at(a) - at(b),
                Operation::AddScaled(a, b, by) => at(a) + at(b).affine(*by, 0.0),
                Operation::Multiply(a, b) => at(a) * at(b),
                Operation::Divide(a, b) => at(a).over(at(b)),
                Operation::Larger(a, b) => at(a).larger(at(b)),
                Operation::Apply(function, a) => {
                    let a = at(a);
                    match function {
                        Function::Exp => a.exp(),
                        Function::ExpM1 => a.exp_m1(),
                        Function::Log => a.log(),
                        Function::Log1p => a.log_1p(),
                        Function::Root => a.root(),
                        Function::Abs => a.abs(),
                        Function::Sign => a.sign(),
                        Function::Tanh => a.tangent(),
                    }
                }
            };
            registers.push(value);
        }
    }
}

impl Compiler {
    fn push(&mut self, operation: Operation) -> Result<usize> {
        let key = format!("{operation:?}");
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        if self.operations.len() == MAX_OPERATIONS {
            bail!("the formula and its derivative have more than {MAX_OPERATIONS} operations");
        }
        self.operations.push(operation);
        self.known.insert(key, self.operations.len() - 1);
        Ok(self.operations.len() - 1)
    }

    fn tree(&mut self, tree: &Tree) -> Result<usize> {
        let operation = match &**tree {
            Node::X => Operation::X,
            Node::Power(by) => Operation::Power(*by),
            Node::Sum(constant, terms) => return self.sum(*constant, terms),
            Node::Product(a, b) => Operation::Multiply(self.tree(a)?, self.tree(b)?),
            Node::Quotient(a, b) => Operation::Divide(self.tree(a)?, self.tree(b)?),
            Node::Larger(a, b) => Operation::Larger(self.tree(a)?, self.tree(b)?),
            Node::Raise(a, exponent) => {
                let base = self.tree(a)?;
                return self.raised(base, *exponent);
            }
            Node::Apply(Function::Log, a) => match softplus(a) {
                Some(by) => Operation::Softplus(by),
                None => Operation::Apply(Function::Log, self.tree(a)?),
            },
            Node::Apply(function, a) => Operation::Apply(*function, self.tree(a)?),
        };
        self.push(operation)
    }

    fn sum(&mut self, constant: f64, terms: &[(f64, Tree)]) -> Result<usize> {
        let mut constant = constant;
        let mut total: Option<usize> = None;
        for (by, term) in terms {
            let register = match &**term {
                // k t^c - k.
                Node::Power(exponent) if constant != 0.0 && *by == -constant => {
                    constant = 0.0;
                    self.push(Operation::PowerM1(*exponent))?
                }
                _ => self.tree(term)?,
            };
            total = Some(match total {
                None if *by == 1.0 => register,
                None => self.push(Operation::Affine(register, *by, 0.0))?,
                Some(total) => self.push(Operation::AddScaled(total, register, *by))?,
            });
        }
        match total {
            None => self.push(Operation::Constant(constant)),
            Some(total) if constant == 0.0 => Ok(total),
            Some(total) => self.push(Operation::Affine(total, 1.0, constant)),
        }
    }

    fn raised(&mut self, base: usize, exponent: f64) -> Result<usize> {
        if exponent < 0.0 {
            let one = self.push(Operation::Constant(1.0))?;
            let below = self.raised(base, -exponent)?;
            return self.push(Operation::Divide(one, below));
        }
        if exponent.fract() == 0.0 && exponent <= 16.0 {
            // By squaring, so that negative bases have powers too.
            let half = exponent as u32 / 2;
            let mut value = match half {
                0 => return Ok(base),
                half => self.raised(base, f64::from(half))?,
            };
            value = self.push(Operation::Multiply(value, value))?;
            return match exponent as u32 % 2 {
                0 => Ok(value),
                _ => self.push(Operation::Multiply(value, base)),
            };
        }
        let log = self.push(Operation::Apply(Function::Log, base))?;
        let scaled = self.push(Operation::Affine(log, exponent, 0.0))?;
        self.push(Operation::Apply(Function::Exp, scaled))
    }
}

/// The c of `1 + t^c`.
fn softplus(tree: &Tree) -> Option<f64> {
    match &**tree {
        Node::Sum(constant, terms) if *constant == 1.0 => match terms.as_slice() {
            [(by, only)] if *by == 1.0 => match &**only {
                Node::Power(exponent) => Some(*exponent),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// So many f32 as one number.
#[derive(Clone, Copy, Debug)]
pub struct Tile(pub [f32; TILE]);

impl Tile {
    #[inline(always)]
    fn map(mut self, by: impl Fn(f32) -> f32) -> Self {
        self.0.iter_mut().for_each(|x| *x = by(*x));
        self
    }

    #[inline(always)]
    fn with(mut self, other: Self, by: impl Fn(f32, f32) -> f32) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(x, y)| *x = by(*x, *y));
        self
    }
}

operators!(Tile: Add add, Sub sub, Mul mul);

/// Functions of one number, lane by lane.
macro_rules! lanes {
    ($($function:ident)*) => {
        $(#[inline(always)]
        fn $function(self) -> Self {
            self.map(Number::$function)
        })*
    };
}

impl Number for Tile {
    const SERIES: f64 = <f32 as Number>::SERIES;
    const IS_DOUBLE: bool = false;

    lanes!(exp exp_m1 softplus abs sign log log_1p root tangent);

    #[inline(always)]
    fn affine(self, by: f64, plus: f64) -> Self {
        self.map(|x| x.affine(by, plus))
    }

    #[inline(always)]
    fn below(self, limit: f64, near: Self, far: Self) -> Self {
        let mut chosen = near;
        for (lane, x) in self.0.iter().enumerate() {
            chosen.0[lane] = x.below(limit, near.0[lane], far.0[lane]);
        }
        chosen
    }

    #[inline(always)]
    fn within(self, low: f64, high: f64) -> Self {
        self.map(|x| x.within(low, high))
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.with(other, Number::larger)
    }

    #[inline(always)]
    fn over(self, other: Self) -> Self {
        self.with(other, |x, y| x / y)
    }
}
