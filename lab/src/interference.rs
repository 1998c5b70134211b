//! Prompt interference (arXiv 2602.21189), exactly: how far a step that raises the chance of a correct output on one
//! prompt raises or lowers it on another, by inner products of gradients; and what follows for Pass@k, whose gradient
//! weighs a prompt of chance p by `k (1 - p)^(k - 1)`.

use anyhow::{Result, bail};
use serde::Serialize;

use super::exact::gradient_of;
use super::{Class, KS, Table, World};

/// Two gradients beside each other.
#[derive(Debug, Clone, Serialize)]
pub struct Interference {
    /// Of what: two prompts, or Pass@k and Pass@1 over all prompts.
    pub gradients: [String; 2],
    /// The chances of a correct output on the prompts; Pass@k and Pass@1.
    pub values: [f64; 2],
    /// The inner product: what a small step along the first gradient adds to the second value, for each unit of its
    /// length.
    pub inner_product: f64,
    /// The same over the norms; none where one of them is 0.
    pub cosine: Option<f64>,
}

impl Interference {
    fn new(names: [String; 2], values: [f64; 2], [some, other]: [&[f64]; 2]) -> Self {
        let inner_product = inner(some, other);
        let norms = (inner(some, some) * inner(other, other)).sqrt();
        let cosine = (norms > 0.0).then(|| inner_product / norms);
        Self { gradients: names, values, inner_product, cosine }
    }
}

/// Every pair of prompts, and Pass@k beside Pass@1 for every k, of a policy of `class` at the base.
///
/// # Errors
/// A world of one prompt.
pub fn interference(world: &World, class: Class) -> Result<Vec<Interference>> {
    let prompts = world.is_right.len();
    if prompts < 2 {
        bail!(
            "interference is between prompts, and {} has one: try walk or strategies",
            world.name
        );
    }
    let table = Table::base(world, class)?;
    let chances: Vec<f64> = table
        .distributions(world)?
        .iter()
        .enumerate()
        .map(|(prompt, q)| world.mass(prompt, q))
        .collect();
    let gradients: Vec<Vec<f64>> =
        (0..prompts).map(|prompt| gradient(world, &table, prompt)).collect::<Result<_>>()?;
    let mut rows = Vec::new();
    for some in 0..prompts {
        for other in some + 1..prompts {
            let names = [some, other].map(|prompt| format!("prompt {}", prompt + 1));
            let pair = [some, other].map(|prompt| gradients[prompt].as_slice());
            rows.push(Interference::new(names, [chances[some], chances[other]], pair));
        }
    }
    let pass = |k: u32| {
        // grad mean (1 - (1 - p)^k) = mean k (1 - p)^(k - 1) grad p.
        let weight = |p: &f64| f64::from(k) * (1.0 - p).powi(k as i32 - 1) / prompts as f64;
        let mut sum = vec![0.0; gradients[0].len()];
        for (gradient, p) in gradients.iter().zip(&chances) {
            sum.iter_mut().zip(gradient).for_each(|(sum, x)| *sum += weight(p) * x);
        }
        let value = chances.iter().map(|p| 1.0 - (1.0 - p).powi(k as i32)).sum::<f64>();
        (value / prompts as f64, sum)
    };
    let (first, of_first) = pass(1);
    for k in KS.into_iter().filter(|k| *k > 1) {
        let (value, of_k) = pass(k);
        let names = [format!("Pass@{k}"), "Pass@1".to_owned()];
        rows.push(Interference::new(names, [value, first], [&of_k, &of_first]));
    }
    Ok(rows)
}

/// The gradient, in the table's logits, of the chance of a correct output on a prompt.
fn gradient(world: &World, table: &Table, prompt: usize) -> Result<Vec<f64>> {
    let chance = table.token_logp()?.sum(1)?.exp()?;
    let outputs = world.outputs.len();
    let right: Vec<u32> = (0..outputs)
        .filter(|y| world.is_right[prompt][*y])
        .map(|y| (prompt * outputs + y) as u32)
        .collect();
    let count = right.len();
    let right = candle_core::Tensor::from_vec(right, count, chance.device())?;
    gradient_of(&chance.index_select(&right, 0)?.sum_all()?, table)
}

fn inner(some: &[f64], other: &[f64]) -> f64 {
    some.iter().zip(other).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_that_exclude_each_other_interfere() {
        let world = World::named("strategies").unwrap();
        let rows = interference(&world, Class::Unigram).unwrap();
        assert_eq!(rows.len(), 10 * 9 / 2 + KS.len() - 1);
        // A softmax of single outputs: the inner product of the gradients of two outputs' chances, by hand.
        let a = &world.base;
        let gradient = |s: usize| -> Vec<f64> {
            (0..4).map(|v| a[s] * (f64::from(u8::from(v == s)) - a[v])).collect()
        };
        let by_hand = inner(&gradient(0), &gradient(1));
        // Prompt 1 is solved by the first strategy alone, prompt 6 by the second.
        let pair = rows.iter().find(|row| row.gradients == ["prompt 1", "prompt 6"]).unwrap();
        assert!((pair.inner_product - by_hand).abs() < 1e-12 && by_hand < 0.0);
        assert!(pair.values.iter().zip(a).all(|(ours, a)| (ours - a).abs() < 1e-12));
        let same = rows.iter().find(|row| row.gradients == ["prompt 1", "prompt 2"]).unwrap();
        assert!((same.cosine.unwrap() - 1.0).abs() < 1e-12);
        // The paper's claim: from some k on a step along Pass@k's gradient lowers Pass@1.
        let of_k: Vec<f64> = rows[45..].iter().map(|row| row.inner_product).collect();
        assert!(of_k[0] > 0.0 && of_k[KS.len() - 2] < 0.0, "{of_k:?}");
        assert!(interference(&World::named("ends").unwrap(), Class::Bigram).is_err());
    }

    /// The inner product predicts the change by a small step.
    #[test]
    fn a_step_changes_another_prompt_as_the_inner_product_says() {
        let world = World::named("walk").unwrap();
        let rows = interference(&world, Class::Bigram).unwrap();
        let table = Table::base(&world, Class::Bigram).unwrap();
        let along = gradient(&world, &table, 0).unwrap();
        let logits: Vec<f64> = table.logits.flatten_all().unwrap().to_vec1().unwrap();
        let chance = |step: f64| {
            let moved: Vec<f64> = logits.iter().zip(&along).map(|(x, g)| x + step * g).collect();
            let moved =
                candle_core::Tensor::from_vec(moved, table.logits.shape(), table.logits.device());
            table.logits.set(&moved.unwrap()).unwrap();
            world.mass(2, &table.distributions(&world).unwrap()[2])
        };
        let slope = (chance(1e-4) - chance(-1e-4)) / 2e-4;
        let pair = rows.iter().find(|row| row.gradients == ["prompt 1", "prompt 3"]).unwrap();
        assert!((slope - pair.inner_product).abs() < 1e-6 * slope.abs().max(1e-3));
    }
}
