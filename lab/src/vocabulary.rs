//! Divergence and entropy of the whole vocabulary at every position, by their definitions. Training does not come here:
//! `nn/src/backend/cpu/full_vocabulary.rs` finds both, and their gradients, a block of the vocabulary at a time.
//!
//! Letters: N positions, V vocabulary. Log-probabilities are normalised over V.

use candle_core::{D, Result, Tensor};
use tealight_divergence::elementary::Elementwise::Exp;
use tealight_learn::objective::{Divergence, PointwiseLoss};

/// `D_f(pi || a) [N]` of the next-token distributions: `sum_v a_v f(pi_v / a_v)`.
pub fn divergence(kind: Divergence, logp: &Tensor, base_logp: &Tensor) -> Result<Tensor> {
    let ratio = (logp - base_logp)?;
    (PointwiseLoss::Generator(kind).apply(&ratio)? * Exp.apply(base_logp)?)?.sum(D::Minus1)
}

/// Entropy `[N]` in nats.
pub fn entropy(logp: &Tensor) -> Result<Tensor> {
    (Exp.apply(logp)? * logp)?.sum(D::Minus1)?.neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};
    use candle_nn::ops::log_softmax;

    #[test]
    fn the_vocabulary_term_is_the_divergence_with_its_gradient() {
        let base = Tensor::new(&[[0.5_f64, 0.3, 0.15, 0.05]], &Device::Cpu).unwrap().log().unwrap();
        let start = [[0.3_f64, -0.2, 1.1, -2.0]];
        for kind in Divergence::all() {
            let value = |logits: &Tensor| {
                let logp = log_softmax(logits, 1).unwrap();
                divergence(kind, &logp, &base).unwrap().sum_all().unwrap()
            };
            let logits = Var::new(&start, &Device::Cpu).unwrap();
            let grad = value(logits.as_tensor()).backward().unwrap();
            let grad = grad.get(&logits).unwrap().to_vec2::<f64>().unwrap();
            for index in 0..4 {
                let shifted = |by: f64| {
                    let mut point = start;
                    point[0][index] += by;
                    value(&Tensor::new(&point, &Device::Cpu).unwrap()).to_scalar::<f64>().unwrap()
                };
                let exact = (shifted(1e-6) - shifted(-1e-6)) / 2e-6;
                assert!(
                    (grad[0][index] - exact).abs() < 1e-8,
                    "{kind}: {} {exact}",
                    grad[0][index]
                );
            }
        }
    }
}
