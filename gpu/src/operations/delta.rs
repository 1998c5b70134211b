//! The gated delta rule, token after token, all heads of a run at once: the second part of `kernels/delta.c`.

use std::ops::Range;

use candle_core::{D, Result, Tensor};

use super::{sigmoid, softplus};
use crate::Call;

struct Sizes {
    key_heads: usize,
    heads: usize,
    key_dim: usize,
    value_dim: usize,
}

/// A run of a table, as `kernels/delta.c` has it.
struct Run {
    first: usize,
    tokens: usize,
    from: Option<usize>,
    to: usize,
    /// Runs that go on from this one.
    others: Range<usize>,
}

/// The inputs of a delta rule, one array of all tokens each: columns or rows of a head's matrices.
struct DeltaInputs {
    /// `[N, H, key_dim, 1]`.
    queries: Tensor,
    keys: Tensor,
    /// `[N, H, 1, value_dim]`.
    values: Tensor,
    /// `[N, H, 1, 1]`.
    decay: Tensor,
    beta: Tensor,
}

/// A token's change of a state `[H, key_dim, value_dim]`.
struct Step {
    left: Tensor,
    gap: Tensor,
    change: Tensor,
    after: Tensor,
}

impl Sizes {
    fn from_call(call: &Call<'_>) -> Self {
        let [key_heads, heads, key_dim, value_dim] = [0, 1, 2, 3].map(|at| call.n(at));
        Self { key_heads, heads, key_dim, value_dim }
    }

    fn keys(&self) -> usize {
        self.key_heads * self.key_dim
    }

    fn mixed(&self) -> usize {
        2 * self.keys() + self.heads * self.value_dim
    }

    fn state(&self) -> usize {
        self.heads * self.key_dim * self.value_dim
    }

    /// The state in a row of `states`, of some heads.
    fn load(&self, states: &Tensor, at: usize) -> Result<Tensor> {
        let state = states.narrow(0, at * self.state(), self.state())?;
        state.reshape((self.heads, self.key_dim, self.value_dim))
    }

    fn runs(&self, table: &[i32]) -> Vec<Run> {
        let run = |row: &[i32]| Run {
            first: row[0] as usize,
            tokens: row[1] as usize,
            from: usize::try_from(row[2]).ok(),
            to: row[3] as usize,
            others: row[4] as usize..(row[4] + row[5]) as usize,
        };
        table.chunks_exact(6).map(run).collect()
    }

    /// Of the launches' first three tensors.
    fn given(&self, call: &Call<'_>) -> Result<DeltaInputs> {
        let unit = call.wide(0)?.reshape(((), 2, self.key_heads, 1, self.key_dim))?;
        let tokens = unit.dim(0)?;
        let share = self.heads / self.key_heads;
        // Every key head once for each value head that reads it.
        let per_value_head = |at: usize| {
            let rows = unit.narrow(1, at, 1)?.squeeze(1)?;
            let rows = rows.broadcast_as((tokens, self.key_heads, share, self.key_dim))?;
            rows.contiguous()?.reshape((tokens, self.heads, self.key_dim, 1))
        };
        let mixed = call.rows(1, self.mixed())?;
        let values = mixed.narrow(1, 2 * self.keys(), self.heads * self.value_dim)?;
        let gates = call.wide(2)?.reshape((tokens, self.heads, 1, 2))?;
        Ok(DeltaInputs {
            queries: per_value_head(0)?,
            keys: per_value_head(1)?,
            values: values.contiguous()?.reshape((tokens, self.heads, 1, self.value_dim))?,
            decay: gates.narrow(3, 0, 1)?.contiguous()?,
            beta: gates.narrow(3, 1, 1)?.contiguous()?,
        })
    }
}

impl DeltaInputs {
    fn step(&self, token: usize, state: &Tensor) -> Result<Step> {
        let key = self.keys.get(token)?;
        // P = alpha S', e = v - P^T k, c = beta e, S = P + k c^T.
        let left = state.broadcast_mul(&self.decay.get(token)?)?;
        let gap = (self.values.get(token)? - key.transpose(1, 2)?.contiguous()?.matmul(&left)?)?;
        let change = gap.broadcast_mul(&self.beta.get(token)?)?;
        let after = (&left + key.matmul(&change)?)?;
        Ok(Step { left, gap, change, after })
    }
}

pub(super) fn unit(call: &Call<'_>) -> Result<()> {
    let sizes = Sizes::from_call(call);
    let mixed = call.rows(0, sizes.mixed())?;
    let both = mixed.narrow(1, 0, 2 * sizes.keys())?.contiguous()?;
    let both = both.reshape(((), 2, sizes.key_heads, sizes.key_dim))?;
    let length = (both.sqr()?.sum_keepdim(D::Minus1)? + call.f(0))?.sqrt()?;
    let unit = both.broadcast_div(&length)?;
    let queries = (unit.narrow(1, 0, 1)? * (sizes.key_dim as f64).powf(-0.5))?;
    call.put(5, &Tensor::cat(&[queries, unit.narrow(1, 1, 1)?], 1)?)?;
    let soft = softplus(&call.rows(2, sizes.heads)?.broadcast_add(&call.wide(4)?)?)?;
    let decay = soft.broadcast_mul(&call.wide(3)?.exp()?)?.neg()?.exp()?;
    let beta = sigmoid(&call.rows(1, sizes.heads)?)?;
    call.put(6, &Tensor::stack(&[decay, beta], 2)?)
}

pub(super) fn rule(call: &Call<'_>) -> Result<()> {
    let sizes = Sizes::from_call(call);
    let given = sizes.given(call)?;
    for run in sizes.runs(&call.table(3)?) {
        let mut state = match run.from {
            Some(from) => sizes.load(&call.wide(4)?, from)?,
            None => sizes.load(&call.wide(4)?.zeros_like()?, 0)?,
        };
        for token in run.first..run.first + run.tokens {
            state = given.step(token, &state)?.after;
            let query = given.queries.get(token)?.transpose(1, 2)?.contiguous()?;
            call.put_from(5, token * sizes.heads * sizes.value_dim, &query.matmul(&state)?)?;
        }
        call.put_from(4, run.to * sizes.state(), &state)?;
    }
    Ok(())
}

/// A launch covers some heads of some runs; here every run that it touches is computed whole, which writes the same.
pub(super) fn back(call: &Call<'_>) -> Result<()> {
    let sizes = Sizes::from_call(call);
    let given = sizes.given(call)?;
    let grads = call.wide(7)?.reshape(((), sizes.heads, 1, sizes.value_dim))?;
    let touched = call.n(4) / sizes.heads..(call.n(4) + call.groups).div_ceil(sizes.heads);
    let runs = sizes.runs(&call.table(3)?);
    for run in &runs[touched] {
        let zeros = sizes.load(&call.wide(4)?.zeros_like()?, 0)?;
        let mut state = match run.from {
            Some(from) => sizes.load(&call.wide(4)?, from)?,
            None => zeros.clone(),
        };
        let mut steps = Vec::new();
        for token in run.first..run.first + run.tokens {
            steps.push(given.step(token, &state)?);
            state = steps[steps.len() - 1].after.clone();
        }
        let mut state_grad = zeros;
        for other in run.others.clone() {
            state_grad = (state_grad + sizes.load(&call.wide(5)?, other)?)?;
        }
        for (inside, step) in steps.iter().enumerate().rev() {
            let token = run.first + inside;
            state_grad =
                step_back(call, &sizes, (&given, step), &grads.get(token)?, (token, &state_grad))?;
        }
        call.put_from(5, run.to * sizes.state(), &state_grad)?;
    }
    Ok(())
}

/// Writes the gradients of what a token gave for `state_grad`, that of the state after it; returns that of the state
/// before.
fn step_back(
    call: &Call<'_>,
    sizes: &Sizes,
    (given, step): (&DeltaInputs, &Step),
    grad: &Tensor,
    (token, state_grad): (usize, &Tensor),
) -> Result<Tensor> {
    let (query, key) = (given.queries.get(token)?, given.keys.get(token)?);
    let (decay, beta) = (given.decay.get(token)?, given.beta.get(token)?);
    let column = |x: &Tensor| x.transpose(1, 2)?.contiguous();
    // o = S^T q: dS += q do^T. Then the step backward: dc = dS^T k, dv = beta dc = -d(P^T k), dP = dS + k d(P^T k)^T.
    let state_grad = (state_grad + query.matmul(grad)?)?;
    let of_change = column(&key)?.matmul(&state_grad)?;
    let of_value = of_change.broadcast_mul(&beta)?;
    let of_known = of_value.neg()?;
    let along = (&step.change * grad)?.sum_keepdim(2)?;
    let of_query = (key.broadcast_mul(&along)? + step.left.matmul(&column(grad)?)?)?;
    let of_key =
        (state_grad.matmul(&column(&step.change)?)? + step.left.matmul(&column(&of_known)?)?)?;
    let of_left = (&state_grad + key.matmul(&of_known)?)?;
    // d(log alpha) = sum dP P, dbeta = dc . e, dS' = alpha dP.
    let of_decay = (&of_left * &step.left)?.sum_keepdim(1)?.sum_keepdim(2)?;
    let of_beta = (of_change * &step.gap)?.sum_keepdim(2)?;
    let units = Tensor::cat(&[column(&of_query)?, column(&of_key)?], 1)?;
    call.put_from(8, token * sizes.heads * 2 * sizes.key_dim, &units)?;
    let rest = Tensor::cat(&[of_value, of_decay, of_beta], 2)?;
    call.put_from(9, token * sizes.heads * (sizes.value_dim + 2), &rest)?;
    of_left.broadcast_mul(&decay)
}

pub(super) fn inputs(call: &Call<'_>) -> Result<()> {
    let sizes = Sizes::from_call(call);
    let (heads, key_heads, key_dim) = (sizes.heads, sizes.key_heads, sizes.key_dim);
    let mixed = call.rows(0, sizes.mixed())?;
    let tokens = mixed.dim(0)?;
    let both = mixed.narrow(1, 0, 2 * sizes.keys())?.contiguous()?;
    let both = both.reshape((tokens, 2, key_heads, key_dim))?;
    // The gradients of a key head from its value heads.
    let unit_grad = call.wide(1)?.reshape((tokens, key_heads, heads / key_heads, 2, key_dim))?;
    let unit_grad = unit_grad.sum(2)?.transpose(1, 2)?.contiguous()?;
    let unit = call.wide(3)?.reshape((tokens, 2, key_heads, key_dim))?;
    let inverse = (both.sqr()?.sum_keepdim(D::Minus1)? + call.f(0))?.sqrt()?.recip()?;
    // y = s x / |x|: dx = s (d - u (u . d)) / |x| with u = x / |x| = y / s.
    let along = (&unit * &unit_grad)?.sum_keepdim(D::Minus1)?;
    let scaled = |at: usize, scale: f64| {
        let part = |x: &Tensor| x.narrow(1, at, 1);
        let along = (part(&along)? / scale)?;
        let gradient = ((part(&unit_grad)? * scale)? - part(&unit)?.broadcast_mul(&along)?)?;
        gradient.broadcast_mul(&part(&inverse)?)
    };
    let units = [scaled(0, (key_dim as f64).powf(-0.5))?, scaled(1, 1.0)?];
    let units = Tensor::cat(&units, 1)?.reshape((tokens, ()))?;
    let rest = call.wide(2)?.reshape((tokens, heads, sizes.value_dim + 2))?;
    let values = rest.narrow(2, 0, sizes.value_dim)?.contiguous()?.reshape((tokens, ()))?;
    call.put(5, &Tensor::cat(&[units, values], 1)?)?;
    let gate = |at: usize| rest.narrow(2, sizes.value_dim + at, 1)?.squeeze(2);
    let (of_decay, of_beta) = (gate(0)?, gate(1)?);
    let gates = call.wide(4)?.reshape((tokens, heads, 2))?;
    let beta = gates.narrow(2, 1, 1)?.squeeze(2)?;
    let weights = call.rows(9, heads)?;
    let (rate, bias) = (weights.get(0)?.exp()?, weights.get(1)?);
    let x = call.rows(8, heads)?.broadcast_add(&bias)?;
    let rated = of_decay.broadcast_mul(&rate)?.neg()?;
    // log alpha = -e^(A_log) softplus(a + dt_bias): its derivative by a is -e^(A_log) sigmoid, by A_log itself.
    let of_a = (&rated * sigmoid(&x)?)?;
    let of_b = ((of_beta * &beta)? * (1.0 - &beta)?)?;
    call.put(6, &Tensor::cat(&[of_b, of_a.clone()], 1)?)?;
    call.put(7, &Tensor::cat(&[(rated * softplus(&x)?)?, of_a], 1)?)
}
