//! The effect of importance correction on a policy gradient whose samples another distribution drew, exactly: the
//! expectation over every output, beside the gradient of the policy's own samples.

use anyhow::{Context, Result};
use candle_core::Tensor;
use serde::Serialize;

use super::sampled::off_base;
use super::{Class, Table, World};
use tealight_learn::objective::{ImportanceCorrection, Offsets};

/// One correction of one engine's samples.
#[derive(Debug, Clone, Serialize)]
pub struct Correction {
    /// The distribution that drew them.
    pub engine: &'static str,
    /// How they are weighed.
    pub correction: String,
    /// Expected absolute difference of a token's log-probability between engine and policy, in nats.
    pub difference: f64,
    /// Effective sample size of completions weighed by their whole ratio, as a share of their number.
    pub effective: f64,
    /// The chance of a completion that does not count.
    pub masked: f64,
    /// The expected gradient's distance from the policy's own, as a share of that.
    pub bias: f64,
    /// The cosine of the angle between the two.
    pub cosine: f64,
}

/// The log-probabilities `[Y][L]` of every output's tokens.
fn token_logp(table: &Table) -> Result<Vec<Vec<f64>>> {
    Ok(table.token_logp()?.detach().to_vec2()?)
}

/// A policy like `table` whose logits are `change` of its own.
fn changed(
    world: &World,
    class: Class,
    table: &Table,
    change: &dyn Fn(usize, f64) -> f64,
) -> Result<Table> {
    let engine = Table::base(world, class)?;
    let logits: Vec<f64> = table.logits.flatten_all()?.to_vec1()?;
    let logits: Vec<f64> = logits.into_iter().enumerate().map(|(i, x)| change(i, x)).collect();
    engine.logits.set(&Tensor::from_vec(logits, table.logits.shape(), table.logits.device())?)?;
    Ok(engine)
}

/// The gradient of `sum_y chance(y) sum_t factor(y, t) (R(y) - baseline) log pi(y_t)` in the logits.
fn gradient(table: &Table, coefficients: &[Vec<f64>]) -> Result<Vec<f64>> {
    let (rows, length) = table.shape();
    let coefficients =
        Tensor::from_vec(coefficients.concat(), (rows, length), table.logits.device())?;
    let sum = (table.token_logp()? * coefficients)?.sum_all()?;
    let gradients = sum.backward()?;
    let gradient = gradients.get(&table.logits).context("the logits have no gradient")?;
    Ok(gradient.flatten_all()?.to_vec1()?)
}

/// Engines that are off a policy by known amounts, and each correction of the gradient of expected reward by their
/// samples, with the true mean reward as the baseline. Sums are divided by the completions that count.
pub fn corrections(world: &World, class: Class) -> Result<Vec<Correction>> {
    let table = off_base(world, class)?;
    let policy_logp = token_logp(&table)?;
    let policy = table.distributions(world)?.remove(0);
    let validity = world.mass(0, &policy);
    let advantage = |y: usize| f64::from(world.is_right[0][y]) - validity;
    let plain = |y: usize| vec![policy[y] * advantage(y); policy_logp[y].len()];
    let exact = gradient(&table, &(0..policy_logp.len()).map(plain).collect::<Vec<_>>())?;
    let noise = |i: usize| (2.3 * i as f64 + 0.9).sin();
    let engines = [
        ("the policy", changed(world, class, &table, &|_, x| x)?),
        ("logits rounded by 0.01", changed(world, class, &table, &|i, x| x + 0.01 * noise(i))?),
        ("an older policy (0.2)", changed(world, class, &table, &|i, x| x + 0.2 * noise(i))?),
        ("temperature 1.3", changed(world, class, &table, &|_, x| x / 1.3)?),
        ("temperature 0.7", changed(world, class, &table, &|_, x| x / 0.7)?),
        ("the base", Table::base(world, class)?),
    ];
    let kinds = [
        ImportanceCorrection::None,
        ImportanceCorrection::TokenTruncate(2.0),
        ImportanceCorrection::SequenceMask(3.0),
        ImportanceCorrection::SequenceMask(f64::MAX),
    ];
    let norm = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut corrections = Vec::new();
    for (name, engine) in &engines {
        let engine_logp = token_logp(engine)?;
        let chance: Vec<f64> =
            engine_logp.iter().map(|tokens| tokens.iter().sum::<f64>().exp()).collect();
        let log_ratios: Vec<Vec<f64>> = policy_logp
            .iter()
            .zip(&engine_logp)
            .map(|(policy_logp, engine_logp)| {
                policy_logp.iter().zip(engine_logp).map(|(p, b)| p - b).collect()
            })
            .collect();
        let offsets = Offsets::new(log_ratios.iter().map(Vec::len));
        for kind in kinds {
            let corrected = kind.weigh(&offsets, &log_ratios.concat());
            let masked: f64 =
                (0..chance.len()).filter(|y| !corrected.counts[*y]).map(|y| chance[y]).sum();
            let coefficients: Vec<Vec<f64>> = (0..chance.len())
                .map(|y| {
                    // E_b[w A grad log pi] by enumeration, over the share of completions that count.
                    let pull = chance[y] * advantage(y) / (1.0 - masked);
                    let factors = &corrected.factor[offsets.span(y..y + 1)];
                    factors.iter().map(|factor| factor * pull).collect()
                })
                .collect();
            let expected = gradient(&table, &coefficients)?;
            let off: Vec<f64> = expected.iter().zip(&exact).map(|(a, b)| a - b).collect();
            let product: f64 = expected.iter().zip(&exact).map(|(a, b)| a * b).sum();
            let (difference, effective) = engine_difference(&log_ratios, &chance);
            corrections.push(Correction {
                engine: name,
                correction: match kind {
                    ImportanceCorrection::SequenceMask(f64::MAX) => "whole ratio, no limit".into(),
                    kind => kind.to_string(),
                },
                difference,
                effective,
                masked,
                bias: norm(&off) / norm(&exact),
                cosine: product / (norm(&expected) * norm(&exact)),
            });
        }
    }
    Ok(corrections)
}

/// The expected difference of a token's log-probability, and the effective sample size, where completions with these
/// log-ratios have these chances.
fn engine_difference(log_ratios: &[Vec<f64>], chance: &[f64]) -> (f64, f64) {
    let (mut difference, mut tokens, mut sum, mut squares) = (0.0, 0.0, 0.0, 0.0);
    for (log_ratios, chance) in log_ratios.iter().zip(chance) {
        difference += chance * log_ratios.iter().map(|x| x.abs()).sum::<f64>();
        tokens += chance * log_ratios.len() as f64;
        let ratio = log_ratios.iter().sum::<f64>().exp();
        sum += chance * ratio;
        squares += chance * ratio * ratio;
    }
    (difference / tokens, sum * sum / squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_ratio_is_exact_and_small_mismatch_is_small_bias() {
        let world = World::named("ends").unwrap();
        let corrections = corrections(&world, Class::Bigram).unwrap();
        let find = |engine: &str, correction: &str| {
            corrections
                .iter()
                .find(|row| {
                    row.engine.starts_with(engine) && row.correction.starts_with(correction)
                })
                .unwrap_or_else(|| panic!("{engine}, {correction}"))
        };
        for row in corrections.iter().filter(|row| row.correction == "whole ratio, no limit") {
            assert!(row.bias < 1e-9 && row.masked == 0.0, "{}: {:e}", row.engine, row.bias);
        }
        for kind in ["none", "token", "sequence"] {
            assert!(find("the policy", kind).bias < 1e-9);
            assert!(find("logits rounded", kind).bias < 0.03);
            // Farther off is worse.
            assert!(find("the base", kind).bias > find("logits rounded", kind).bias);
        }
        // Where the engine is a little off, a correction helps.
        let older = |kind| find("an older policy", kind).bias;
        assert!(older("sequence") < older("token") && older("token") < older("none"));
        assert!(find("the base", "none").effective < find("an older policy", "none").effective);
        assert!(
            find("the base", "none").effective > 0.0
                && find("the policy", "none").effective > 1.0 - 1e-9
        );
    }
}
