//! The closed forms of binary rewards with KL control, on random bases: what the lab
//! and every p_beta rest on.

use proptest::prelude::*;
use tealight::learn::objective::Target;
use tealight::learn::objective::target::{best_value, beta_for, cost, log_partition, validity_of};

/// A base over some outputs, which of them are correct (at least one, not all), and another policy.
#[derive(Debug, Clone)]
struct Case {
    base: Vec<f64>,
    is_right: Vec<bool>,
    policy: Vec<f64>,
    beta: f64,
}

fn normalised(weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

fn cases() -> impl Strategy<Value = Case> {
    (3_usize..12)
        .prop_flat_map(|count| {
            let weights = || prop::collection::vec(0.01_f64..1.0, count);
            (weights(), weights(), prop::collection::vec(any::<bool>(), count), 0.05_f64..3.0)
        })
        .prop_map(|(base, policy, mut is_right, beta)| {
            (is_right[0], is_right[1]) = (true, false);
            Case { base: normalised(&base), is_right, policy: normalised(&policy), beta }
        })
}

impl Case {
    fn mass(&self, q: &[f64], wanted: bool) -> f64 {
        q.iter().zip(&self.is_right).filter(|(_, right)| **right == wanted).map(|(q, _)| q).sum()
    }

    /// A policy given that its answer is correct, or that it is not.
    fn given(&self, q: &[f64], wanted: bool) -> Vec<f64> {
        let kept = q.iter().zip(&self.is_right);
        let kept: Vec<f64> =
            kept.map(|(q, right)| if *right == wanted { *q } else { 0.0 }).collect();
        normalised(&kept)
    }

    fn validity(&self) -> f64 {
        self.mass(&self.base, true)
    }

    /// p_beta through the code's own log-weights.
    fn tilted(&self) -> Vec<f64> {
        let weight =
            |right: bool| Target::Tilted.log_weight(right, self.validity(), self.beta).exp();
        self.base.iter().zip(&self.is_right).map(|(a, right)| a * weight(*right)).collect()
    }
}

fn kl(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| if *p == 0.0 { 0.0 } else { p * (p / q).ln() }).sum()
}

fn close(a: f64, b: f64) -> std::result::Result<(), TestCaseError> {
    prop_assert!((a - b).abs() < 1e-9 * (1.0 + a.abs()), "{} is not {}", a, b);
    Ok(())
}

proptest! {
    #[test]
    fn the_tilted_model_is_the_optimum(case in cases()) {
        let tilted = case.tilted();
        let validity = case.validity();
        close(tilted.iter().sum(), 1.0)?;
        let raw: f64 = case
            .base
            .iter()
            .zip(&case.is_right)
            .map(|(a, right)| a * if *right { (1.0 / case.beta).exp() } else { 1.0 })
            .sum();
        close(log_partition(validity, case.beta), raw.ln())?;
        // J(q) = J* - beta KL(q || p_beta), so p_beta is the only optimum.
        let value = case.mass(&case.policy, true) - case.beta * kl(&case.policy, &case.base);
        let best = best_value(validity, case.beta);
        close(value, best - case.beta * kl(&case.policy, &tilted))?;
        prop_assert!(value <= best + 1e-12);
    }

    #[test]
    fn beta_and_validity_fix_each_other_and_the_cost(case in cases()) {
        let (tilted, validity) = (case.tilted(), case.validity());
        // The validity of p_beta, and its inverse.
        let mu = validity_of(validity, case.beta);
        close(case.mass(&tilted, true), mu)?;
        if mu < 1.0 - 1e-9 {
            prop_assert!((beta_for(validity, mu).unwrap() - case.beta).abs() < 1e-5 * case.beta);
        }
        // The cost is KL(p_beta || base), and that beta is the slope of the frontier.
        close(kl(&tilted, &case.base), cost(validity, mu))?;
        let step = 1e-6 * (1.0 - mu) * mu;
        let slope = (cost(validity, mu + step) - cost(validity, mu - step)) / (2.0 * step);
        prop_assert!((slope * case.beta - 1.0).abs() < 1e-2 || mu > 1.0 - 1e-6);
        prop_assert!((cost(validity, 1.0) + validity.ln()).abs() < 1e-12);
    }

    #[test]
    fn distances_split_into_validity_and_coverage(case in cases()) {
        // The mechanism of collapse (Dymetman 2026, arXiv 2605.02375).
        let (tilted, q) = (case.tilted(), &case.policy);
        let (mu, m) = (case.mass(&tilted, true), case.mass(q, true));
        let (target, wrong) = (case.given(&case.base, true), case.given(&case.base, false));
        let split = cost(mu, m)
            + m * kl(&case.given(q, true), &target)
            + (1.0 - m) * kl(&case.given(q, false), &wrong);
        // Where nearly all of p_beta is correct, 1 - mu has few digits left.
        let rounding = (1.0 - m) * 1e-15 / case.mass(&tilted, false);
        prop_assert!((kl(q, &tilted) - split).abs() < 1e-7 * (1.0 + split) + rounding);
        close(kl(&target, q), -m.ln() + kl(&target, &case.given(q, true)))?;
    }
}
