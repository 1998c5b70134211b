//! The normaliser, the value and the validity of p_beta, and the exact link between beta and validity (Dymetman,
//! arXiv 2605.02375).
//!
//! With `A` the base's validity on a prompt: `p* = a v / A`, `p_beta = a e^(v / beta) / Z_beta`,
//! `Z_beta = A e^(1 / beta) + 1 - A`, validity `mu = sigma(1 / beta + logit A)`. Everything is in
//! natural logarithms and log space.

use anyhow::{Result, bail};

/// `log Z_beta`, without overflow however small beta is.
pub fn log_partition(validity: f64, beta: f64) -> f64 {
    // log(A e^(1 / beta) + 1 - A) with the larger exponent taken out: e^(1 / beta) overflows below beta = .0015.
    let right = validity.ln() + 1.0 / beta;
    let wrong = (-validity).ln_1p();
    let top = right.max(wrong);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + ((right - top).exp() + (wrong - top).exp()).ln()
}

/// The best value of `E[v] - beta KL(q || a)`: `beta log Z_beta`.
pub fn best_value(validity: f64, beta: f64) -> f64 {
    beta * log_partition(validity, beta)
}

/// The validity of p_beta, `sigma(1 / beta + logit A)`.
pub fn validity_of(base: f64, beta: f64) -> f64 {
    1.0 / (1.0 + (-(1.0 / beta + logit(base))).exp())
}

/// The beta at which p_beta has validity `target`: `1 / (logit mu - logit A)`.
///
/// # Errors
/// Probabilities outside (0, 1); a target that is not above the base's validity, since no positive
/// beta leads there.
pub fn beta_for(base: f64, target: f64) -> Result<f64> {
    for (name, value) in [("base validity", base), ("target validity", target)] {
        if !(value > 0.0 && value < 1.0) {
            bail!("the {name} must be between 0 and 1, both excluded, not {value}");
        }
    }
    if target <= base {
        bail!(
            "the target validity {target} is not above the base's {base:.4}: every beta above 0 raises \
             validity, so no beta leads there; choose a higher target"
        );
    }
    Ok(1.0 / (logit(target) - logit(base)))
}

/// `KL(p_beta || a)` in nats, the price of validity `mu`: the Bernoulli KL of `mu` and `A`. At
/// `mu = 1` it is `-log A = KL(p* || a)`.
pub fn cost(base: f64, mu: f64) -> f64 {
    // mu log(mu / A) + (1 - mu) log((1 - mu) / (1 - A)), with 0 log 0 = 0.
    let term = |m: f64, n: f64| if m == 0.0 { 0.0 } else { m * (m / n).ln() };
    term(mu, base) + term(1.0 - mu, 1.0 - base)
}

/// `log(p / (1 - p))`.
pub fn logit(p: f64) -> f64 {
    p.ln() - (-p).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Target;

    #[test]
    fn beta_and_validity_are_each_others_inverse() {
        for (base, target, beta) in [
            (0.1, 0.5, 0.4551),
            (0.1, 0.9, 0.2276),
            (0.1, 0.99, 0.1472),
            (0.1, 0.999, 0.1098),
            (0.01, 0.5, 0.2176),
            (0.01, 0.9, 0.1472),
            (0.01, 0.99, 0.1088),
            (0.01, 0.999, 0.0869),
        ] {
            let ours = beta_for(base, target).unwrap();
            assert!((ours - beta).abs() < 5e-5, "{base} {target}: {ours}");
            assert!((validity_of(base, ours) - target).abs() < 1e-12);
        }
    }

    #[test]
    fn impossible_targets_are_refused() {
        assert!(beta_for(0.3, 0.3).unwrap_err().to_string().contains("not above"));
        assert!(beta_for(0.3, 0.1).is_err() && beta_for(0.0, 0.5).is_err());
        assert!(beta_for(0.3, 1.0).is_err() && beta_for(f64::NAN, 0.5).is_err());
    }

    #[test]
    fn tiny_betas_do_not_overflow() {
        assert!((best_value(0.3, 1e-5) - (1.0 + 1e-5 * 0.3_f64.ln())).abs() < 1e-12);
        assert_eq!(validity_of(0.3, 1e-5), 1.0);
        assert_eq!(Target::Filtered.log_weight(false, 0.3, 1.0), f64::NEG_INFINITY);
        let right = Target::Tilted.log_weight(true, 0.3, 1e-5);
        assert!((right + 0.3_f64.ln()).abs() < 1e-9, "p_beta becomes p*: {right}");
        assert!(Target::Tilted.log_weight(false, 0.3, 1e-5) < -9000.0);
        assert!((Target::Filtered.log_weight(true, 0.3, 0.0) + 0.3_f64.ln()).abs() < 1e-12);
    }
}
