//! Samples: `kernels/sampling.c`.

use candle_core::{Result, Tensor};

use super::index;
use crate::Call;

/// Draws on the CPU, from tokens that are sorted and masses that are added up in f64.
pub(super) fn sample(call: &Call<'_>) -> Result<()> {
    let rows = call.rows(0, call.n(0))?.to_vec2::<f32>()?;
    let uniform = call.wide(1)?.to_vec1::<f32>()?;
    let row_of = match call.n(1) {
        0 => (0..rows.len()).collect(),
        _ => call.table(2)?.into_iter().map(|row| row as usize).collect::<Vec<_>>(),
    };
    let draw = |(row, uniform): (&usize, &f32)| one(call, &rows[*row], f64::from(*uniform));
    let (tokens, logp): (Vec<u32>, Vec<f32>) = row_of.iter().zip(&uniform).map(draw).unzip();
    let count = logp.len();
    call.put(3, &index(tokens, call.device())?)?;
    call.put(4, &Tensor::from_vec(logp, count, call.device())?)
}

fn one(call: &Call<'_>, logits: &[f32], uniform: f64) -> (u32, f32) {
    let inverse = call.f(0);
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut masses: Vec<f64> =
        logits.iter().map(|logit| (f64::from(logit - top) * inverse).exp()).collect();
    if !masses.iter().sum::<f64>().is_finite() || !top.is_finite() {
        return (0, f32::NAN);
    }
    filter(&mut masses, call.n(3), call.f(1), call.f(2));
    let total: f64 = masses.iter().sum();
    let chosen = if call.n(2) == 1 {
        logits.iter().position(|logit| *logit == top)
    } else {
        let mut sum = 0.0;
        let passed = masses.iter().position(|mass| {
            sum += mass;
            sum > uniform * total
        });
        // Rounding may leave the goal past the end: then it is the last with any mass.
        passed.or_else(|| masses.iter().rposition(|mass| *mass > 0.0))
    };
    let chosen = chosen.unwrap_or(0);
    let logp = f64::from(logits[chosen] - top) * inverse - total.ln();
    (chosen as u32, logp as f32)
}

/// Sets what is cut off to 0.
fn filter(masses: &mut [f64], top_k: usize, top_p: f64, min_p: f64) {
    let mut order: Vec<usize> = (0..masses.len()).collect();
    order.sort_by(|a, b| masses[*b].total_cmp(&masses[*a]).then(a.cmp(b)));
    let mut retained = if top_k == 0 { order.len() } else { top_k };
    if top_p < 1.0 {
        let goal = top_p * order[..retained].iter().map(|at| masses[*at]).sum::<f64>();
        let mut sum = 0.0;
        let below = order[..retained].iter().take_while(|at| {
            let is_below = sum < goal;
            sum += masses[**at];
            is_below
        });
        retained = below.count();
    }
    retained = order[..retained].iter().filter(|at| masses[**at] >= min_p).count();
    for at in &order[retained..] {
        masses[*at] = 0.0;
    }
}
