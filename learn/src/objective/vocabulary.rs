//! Loss terms that look at the whole vocabulary of every position. The exact definitions of divergence and entropy are
//! the laboratory's; a backend finds both, and their gradients, a block of the vocabulary at a time.
//!
//! Letters: N positions, V vocabulary, K likeliest tokens. Log-probabilities are normalised over V.

use candle_core::{D, Result, Tensor};

use super::{Divergence, PointwiseLoss};
use tealight_divergence::elementary::Elementwise::Exp;

/// `D_f(pi || a) [N]` of the next-token distributions: `sum_v a_v f(pi_v / a_v)`.
pub fn divergence(kind: Divergence, logp: &Tensor, base_logp: &Tensor) -> Result<Tensor> {
    let ratio = (logp - base_logp)?;
    (PointwiseLoss::Generator(kind).apply(&ratio)? * Exp.apply(base_logp)?)?.sum(D::Minus1)
}

/// Entropy `[N]` in nats.
pub fn entropy(logp: &Tensor) -> Result<Tensor> {
    (Exp.apply(logp)? * logp)?.sum(D::Minus1)?.neg()
}

/// The inputs of SimKO at uncertain tokens, `[N]` but where it says otherwise.
pub struct Candidates<'a> {
    /// Log-probabilities of the tokens, with a gradient.
    pub token: &'a Tensor,
    /// Those `[N, K]` of the likeliest candidates, with a gradient.
    pub likeliest: &'a Tensor,
    /// 1 where the token is the top candidate, else 0.
    pub is_top: &'a Tensor,
    /// The advantage of tokens of correct answers times the mix, 0 elsewhere: that much of the update moves from the
    /// token to its likeliest candidates.
    pub lift: &'a Tensor,
    /// The advantage of tokens of incorrect answers times the extra penalty, 0 elsewhere; it counts where the
    /// token is the top candidate.
    pub press: &'a Tensor,
}

/// The loss that SimKO adds at uncertain tokens, `[N]`, to be minimised.
pub fn simko(candidates: &Candidates<'_>) -> Result<Tensor> {
    // Correct: A log pi(token) of the surrogate becomes A ((1 - mix) log pi(token) + mix mean_K log pi).
    let lifted = (candidates.likeliest.mean(1)? - candidates.token)?;
    ((lifted * candidates.lift)? + ((candidates.token * candidates.press)? * candidates.is_top)?)?
        .neg()
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
        for kind in Divergence::ALL {
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

    #[test]
    fn simko_lifts_candidates_and_presses_the_top() {
        let logits =
            Var::new(&[[2.0_f64, 1.0, 0.5, -3.0], [2.0, 1.0, 0.5, -3.0]], &Device::Cpu).unwrap();
        let logp = log_softmax(logits.as_tensor(), 1).unwrap();
        let column = |values: [f64; 2]| Tensor::new(&values, &Device::Cpu).unwrap();
        let at = |tokens: &[[u32; 1]; 2]| {
            let tokens = Tensor::new(tokens, &Device::Cpu).unwrap();
            logp.gather(&tokens, 1).unwrap().squeeze(1).unwrap()
        };
        let loss = simko(&Candidates {
            token: &at(&[[3], [0]]),
            likeliest: &logp.narrow(1, 0, 3).unwrap(),
            is_top: &column([0.0, 1.0]),
            lift: &column([0.3, 0.0]),
            press: &column([0.0, -0.5]),
        })
        .unwrap();
        let grad = loss.sum_all().unwrap().backward().unwrap();
        let grad = grad.get(&logits).unwrap().to_vec2::<f64>().unwrap();
        // Log-softmax terms cancel in the first row: a third of 0.3 to each candidate, from the token.
        for (ours, exact) in grad[0].iter().zip([-0.1, -0.1, -0.1, 0.3]) {
            assert!((ours - exact).abs() < 1e-12, "{grad:?}");
        }
        assert!(grad[1][0] > 0.0, "the top candidate of a wrong answer goes down");
    }
}
