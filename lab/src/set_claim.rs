//! The expected value of every function of a set, as a scalar of a policy written by the textbook: k independent draws.

use anyhow::{Result, bail};
use candle_core::Tensor;

use super::{Table, World};
use tealight_learn::objective::{SetFunction, SetObjective};

/// Minus the expected value on a world's prompts, averaged over them.
pub(super) fn loss(world: &World, table: &Table, objective: SetObjective) -> Result<Tensor> {
    let k = objective.k as f64;
    let outputs = world.outputs.len();
    let chances = table.token_logp()?.sum(1)?.exp()?;
    let mut total: Option<Tensor> = None;
    for (prompt, is_right) in world.is_right.iter().enumerate() {
        let indices: Vec<u32> = (0..outputs).filter(|y| is_right[*y]).map(|y| y as u32).collect();
        let count = indices.len();
        if count == 0 {
            continue;
        }
        let indices = Tensor::from_vec(indices, count, chances.device())?;
        // Every correct output is a solution class of its own.
        let q = chances.narrow(0, prompt * outputs, outputs)?.index_select(&indices, 0)?;
        let p = q.sum_all()?;
        let missed = (1.0 - &q)?.powf(k)?;
        let value = match objective.function {
            SetFunction::Pass => (1.0 - (1.0 - p)?.powf(k)?)?,
            SetFunction::Unique => (1.0 - missed)?.sum_all()?,
            SetFunction::Coverage => ((1.0 - missed)?.sum_all()? / count as f64)?,
            SetFunction::Pair => (p - q.sqr()?.sum_all()?)?,
            // E[correct, class hit] is k p less E[correct, class missed], in which all k draws miss the class.
            SetFunction::Polychromic => {
                let others = p.broadcast_sub(&q)?;
                let missed = (others * (1.0 - &q)?.powf(k - 1.0)?)?;
                (p.broadcast_sub(&missed)?.sum_all()? / k)?
            }
        };
        total = Some(match total {
            None => value,
            Some(total) => (total + value)?,
        });
    }
    let Some(total) = total else { bail!("no output of this world is correct") };
    Ok((total.neg()? / world.is_right.len() as f64)?)
}
