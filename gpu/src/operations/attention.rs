//! Attention over runs of tokens: `kernels/attention.c`.

use std::ops::Range;

use candle_core::{D, Device, Result, Tensor};

use crate::Call;

/// Most tokens that are one product.
const MOST: usize = 256;

/// Tokens that follow each other, and the keys that they see.
struct Queries {
    first: usize,
    count: usize,
    /// Keys that the first of them sees.
    sees: usize,
    start: usize,
    split: usize,
    rest: usize,
}

struct Sizes {
    heads: usize,
    kv: usize,
    dim: usize,
    window: usize,
}

impl Sizes {
    fn from_call(call: &Call<'_>) -> Self {
        Self { heads: call.n(0), kv: call.n(1), dim: call.n(2), window: call.n(3) }
    }

    /// The `index`th tensor as `[rows, heads, D]`.
    fn heads(&self, call: &Call<'_>, index: usize) -> Result<Tensor> {
        call.wide(index)?.reshape(((), self.heads, self.dim))
    }

    fn keys(&self, call: &Call<'_>, index: usize) -> Result<Tensor> {
        call.wide(index)?.reshape(((), self.kv, self.dim))
    }

    /// Rows of `[rows, heads, D]` as `[K, share * count, D]`, by the key-value head that they read.
    fn by_head(&self, x: &Tensor, rows: Range<usize>) -> Result<Tensor> {
        let selected = x.narrow(0, rows.start, rows.len())?.transpose(0, 1)?.contiguous()?;
        selected.reshape((self.kv, (), x.dim(D::Minus1)?))
    }

    /// The other way around: `[count, heads * D]`.
    fn by_token(&self, x: &Tensor, count: usize) -> Result<Tensor> {
        let x = x.reshape((self.heads, count, ()))?;
        x.transpose(0, 1)?.contiguous()?.flatten_from(1)
    }

    /// A value of every query, `[rows, heads]`, beside its scores.
    fn score_column(&self, x: &Tensor, rows: Range<usize>) -> Result<Tensor> {
        self.by_head(&x.unsqueeze(2)?, rows)
    }

    /// Zero where `sees` says so of a token and a key, and far below elsewhere: `[K, share * tokens, keys]`.
    fn mask(
        &self,
        (tokens, keys): (usize, usize),
        device: &Device,
        sees: impl Fn(usize, usize) -> bool,
    ) -> Result<Tensor> {
        let pairs = (0..tokens).flat_map(|token| (0..keys).map(move |key| (token, key)));
        // Finite: of a row without keys -inf - -inf would be no number.
        let values = pairs.map(|(token, key)| if sees(token, key) { 0.0 } else { -1e30f32 });
        let mask = Tensor::from_vec(values.collect(), (1, tokens, keys), device)?;
        let shape = (self.heads, tokens, keys);
        mask.broadcast_as(shape)?.contiguous()?.reshape((self.kv, (), keys))
    }
}

impl Queries {
    /// Those of a table, as many at once as follow each other.
    fn from_table(table: &[i32]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for row in table.chunks_exact(6) {
            let [first, count, sees, start, split, rest] =
                std::array::from_fn(|at| row[at] as usize);
            let place = (start, split, rest);
            match all.last_mut() {
                Some(last)
                    if (last.start, last.split, last.rest) == place
                        && last.first + last.count == first
                        && last.sees + last.count == sees
                        && last.count + count <= MOST =>
                {
                    last.count += count;
                }
                _ => all.push(Self { first, count, sees, start, split, rest }),
            }
        }
        all
    }

    fn tokens(&self) -> Range<usize> {
        self.first..self.first + self.count
    }

    /// Keys that any of them sees, counted as they see them.
    fn seen(&self, window: usize) -> Range<usize> {
        self.sees.saturating_sub(window)..self.sees + self.count - 1
    }

    /// Those rows of `x` `[rows, K, D]`, as `[K, keys, D]`.
    fn pick(&self, x: &Tensor, window: usize) -> Result<Tensor> {
        let seen = self.seen(window);
        let mut parts = Vec::new();
        if seen.start < self.split {
            let end = seen.end.min(self.split);
            parts.push(x.narrow(0, self.start + seen.start, end - seen.start)?);
        }
        if seen.end > self.split {
            let from = seen.start.max(self.split);
            parts.push(x.narrow(0, self.rest + from - self.split, seen.end - from)?);
        }
        Tensor::cat(&parts, 0)?.transpose(0, 1)?.contiguous()
    }

    fn mask(&self, sizes: &Sizes, device: &Device) -> Result<Tensor> {
        let seen = self.seen(sizes.window);
        sizes.mask((self.count, seen.len()), device, |token, key| {
            let (key, end) = (seen.start + key, self.sees + token);
            key < end && key + sizes.window >= end
        })
    }
}

pub(super) fn forward(call: &Call<'_>) -> Result<()> {
    let sizes = Sizes::from_call(call);
    let (q, k, v) = (sizes.heads(call, 0)?, sizes.keys(call, 1)?, sizes.keys(call, 2)?);
    for run in Queries::from_table(&call.table(5)?) {
        let queries = (sizes.by_head(&q, run.tokens())? * call.f(0))?;
        let keys = run.pick(&k, sizes.window)?;
        let scores = (queries.matmul(&keys.t()?)? + run.mask(&sizes, call.device())?)?;
        let top = scores.max_keepdim(D::Minus1)?;
        let weights = scores.broadcast_sub(&top)?.exp()?;
        let mass = weights.sum_keepdim(D::Minus1)?;
        let out = weights.matmul(&run.pick(&v, sizes.window)?)?.broadcast_div(&mass)?;
        let width = sizes.heads * sizes.dim;
        call.put_from(3, run.first * width, &sizes.by_token(&out, run.count)?)?;
        // log sum e^score of each query, from which the backward pass has p = e^(score - sum) without another maximum.
        let sums = sizes.by_token(&(top + mass.log()?)?, run.count)?;
        call.put_from(4, run.first * sizes.heads, &sums)?;
    }
    Ok(())
}

pub(super) fn queries(call: &Call<'_>) -> Result<()> {
    let sizes = Sizes::from_call(call);
    let (q, k, v) = (sizes.heads(call, 0)?, sizes.keys(call, 1)?, sizes.keys(call, 2)?);
    let (out, grad) = (sizes.heads(call, 3)?, sizes.heads(call, 4)?);
    let sums = call.rows(5, sizes.heads)?;
    // sum_j p_j dp_j = sum_j p_j (grad . v_j) = grad . out: known without the weights.
    let out_dot_grad = (&out * &grad)?.sum(D::Minus1)?;
    call.put(7, &out_dot_grad)?;
    for run in Queries::from_table(&call.table(8)?) {
        let (queries, keys) = (sizes.by_head(&q, run.tokens())?, run.pick(&k, sizes.window)?);
        let scores = (queries.matmul(&keys.t()?)? * call.f(0))?;
        let scores = (scores + run.mask(&sizes, call.device())?)?;
        let weights = scores.broadcast_sub(&sizes.score_column(&sums, run.tokens())?)?.exp()?;
        let values = run.pick(&v, sizes.window)?;
        let of_weights = sizes.by_head(&grad, run.tokens())?.matmul(&values.t()?)?;
        let of_scores =
            of_weights.broadcast_sub(&sizes.score_column(&out_dot_grad, run.tokens())?)?;
        // ds = p (dp - out . grad) scale, dq = ds k.
        let dq = ((weights * of_scores)? * call.f(0))?.matmul(&keys)?;
        let width = sizes.heads * sizes.dim;
        call.put_from(6, run.first * width, &sizes.by_token(&dq, run.count)?)?;
    }
    Ok(())
}

pub(super) fn keys(call: &Call<'_>) -> Result<()> {
    let sizes = Sizes::from_call(call);
    let (q, k, v) = (sizes.heads(call, 0)?, sizes.keys(call, 1)?, sizes.keys(call, 2)?);
    let grad = sizes.heads(call, 3)?;
    let (sums, out_dot_grad) = (call.rows(4, sizes.heads)?, call.rows(5, sizes.heads)?);
    let positions = call.table(9)?;
    for block in call.table(8)?.chunks_exact(3) {
        let [first, count, until] = std::array::from_fn(|at| block[at] as usize);
        let tokens = first..until;
        let of_block = |x: &Tensor| x.narrow(0, first, count)?.transpose(0, 1)?.contiguous();
        let (keys, values) = (of_block(&k)?, of_block(&v)?);
        let queries = sizes.by_head(&q, tokens.clone())?;
        let mask = sizes.mask((tokens.len(), count), call.device(), |token, key| {
            let apart = positions[first + token] - positions[first + key];
            token >= key && apart < call.params.n[3]
        })?;
        let scores = ((queries.matmul(&keys.t()?)? * call.f(0))? + mask)?;
        let weights = scores.broadcast_sub(&sizes.score_column(&sums, tokens.clone())?)?.exp()?;
        let grads = sizes.by_head(&grad, tokens.clone())?;
        let of_weights = grads.matmul(&values.t()?)?;
        let of_scores = of_weights.broadcast_sub(&sizes.score_column(&out_dot_grad, tokens)?)?;
        let of_scores = ((&weights * of_scores)? * call.f(0))?;
        // dk = ds^T q, dv = p^T grad.
        let (dk, dv) = (
            of_scores.transpose(1, 2)?.contiguous()?.matmul(&queries)?,
            weights.transpose(1, 2)?.contiguous()?.matmul(&grads)?,
        );
        let at = first * sizes.kv * sizes.dim;
        call.put_from(6, at, &dk.transpose(0, 1)?.contiguous()?)?;
        call.put_from(7, at, &dv.transpose(0, 1)?.contiguous()?)?;
    }
    Ok(())
}
