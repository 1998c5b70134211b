//! Divergences and other scalars as tensors, written by the textbook and differentiated exactly: the other side of
//! every check of a gradient. Of the code of objectives it uses names and the parsed form of formulas alone.

use anyhow::{Result, bail};
use candle_core::{Device, Tensor};

use super::{Table, World};
use tealight_learn::objective::Divergence;
use tealight_learn::objective::expression::{Expression, Operator};

pub(super) fn prompts(world: &World) -> f64 {
    world.is_right.len() as f64
}

pub(super) fn constant(values: Vec<f64>) -> Result<Tensor> {
    let count = values.len();
    Ok(Tensor::from_vec(values, count, &Device::Cpu)?)
}

/// The expected number of distinct correct outputs among k, summed over prompts: every correct output is a solution
/// class of its own.
pub(super) fn distinct(world: &World, table: &Table, k: f64) -> Result<Tensor> {
    let correct = world.is_right.iter().flatten().map(|right| f64::from(u8::from(*right)));
    let q = table.token_logp()?.sum(1)?.exp()?;
    let found = (1.0 - (1.0 - q)?.powf(k)?)?;
    Ok((found * constant(correct.collect())?)?.sum_all()?)
}

/// `f` of a log-ratio as tensor operations, from its formula as it is written, but for the line through its value and
/// slope at 1, by Candle's own gradient.
pub(super) fn generator(divergence: Divergence, x: &Tensor) -> Result<Tensor> {
    let u = x.exp()?;
    let [value, slope] = match divergence {
        Divergence::Formula(formula) => formula.facts().removed,
        _ => [0.0, 0.0],
    };
    let written = written(&Expression::parse(&divergence.formula())?, &u, x)?;
    Ok(((written - (u.affine(slope, -slope))?)? - value)?)
}

/// An expression in `t` and `x` as tensor operations, as it is written: the other side of what a formula is made into.
fn written(text: &Expression, t: &Tensor, x: &Tensor) -> Result<Tensor> {
    let tensor = |one: &Expression| written(one, t, x);
    Ok(match text {
        Expression::Number(value) => t.affine(0.0, *value)?,
        Expression::Name(name) => {
            if name == "t" {
                t.clone()
            } else {
                x.clone()
            }
        }
        Expression::Negative(a) => tensor(a)?.neg()?,
        Expression::Binary(operator, a, b) => match (operator, tensor(a)?) {
            (Operator::Add, a) => (a + tensor(b)?)?,
            (Operator::Subtract, a) => (a - tensor(b)?)?,
            (Operator::Multiply, a) => (a * tensor(b)?)?,
            (Operator::Divide, a) => (a / tensor(b)?)?,
            (Operator::Power, a) => match **b {
                Expression::Number(power) => a.powf(power)?,
                _ => (a.log()? * tensor(b)?)?.exp()?,
            },
            _ => bail!("a divergence has no comparisons"),
        },
        Expression::Call(name, arguments) => {
            let a = tensor(&arguments[0])?;
            match name.as_str() {
                "log" => a.log()?,
                "exp" => a.exp()?,
                "sqrt" => a.sqrt()?,
                "abs" => a.abs()?,
                "tanh" => a.tanh()?,
                "log1p" => (a + 1.0)?.log()?,
                "expm1" => (a.exp()? - 1.0)?,
                "max" => a.maximum(&tensor(&arguments[1])?)?,
                "min" => a.minimum(&tensor(&arguments[1])?)?,
                other => bail!("`{other}` is not a function"),
            }
        }
    })
}

#[cfg(test)]
mod tests;
