//! The gated delta rule on the CPU: one head of one sequence a task, and of its state some columns at a time, which
//! stay in the processor's nearest cache from the first token to the last.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use tealight_matmul::vectorized;

use super::super::packed::KeyRow;
use super::super::{Buffer, DeltaSizes, Pool};
use super::delta_tile::{InputGrads, Inputs, run_back, run_forward};
use super::math::{add_scaled, dot, exp};
use super::{by_rows, rows};
use tealight_divergence::elementary::ln_1p;

/// Added to the squared length of queries and keys.
const EPS: f32 = 1e-6;

/// Sequences that begin alike: a prefix, and the rows that continue it.
struct Tree {
    prefix: Range<usize>,
    rows: Vec<KeyRow>,
}

impl Tree {
    /// Those of a pass.
    fn all(rows: &[KeyRow]) -> Vec<Self> {
        let mut trees: Vec<Self> = Vec::new();
        for row in rows {
            match trees.last_mut() {
                Some(tree) if !row.prefix.is_empty() && tree.prefix == row.prefix => {
                    tree.rows.push(row.clone());
                }
                _ => trees.push(Self { prefix: row.prefix.clone(), rows: vec![row.clone()] }),
            }
        }
        trees
    }

    /// All its tokens, which follow each other.
    fn tokens(&self) -> Range<usize> {
        let suffix = &self.rows[0].tokens;
        let start = if self.prefix.is_empty() { suffix.start } else { self.prefix.start };
        start..self.rows.last().map_or(start, |row| row.tokens.end)
    }
}

/// The rule over the tokens of a pass.
pub(super) struct Rule<'a> {
    sizes: DeltaSizes,
    trees: Vec<Tree>,
    /// Queries, keys and values `[N, mixed]`.
    mixed: &'a [f32],
    /// Queries and keys of length 1, the queries divided by the root of their width, `[N, 2 keys]`.
    unit: Buffer,
    /// `alpha` and `beta` of every value head, `[N, 2 value_heads]`.
    gates: Buffer,
}

/// The inputs of a decay: `g = -exp(A_log) softplus(a + dt_bias)`, its logarithm.
pub(super) struct Decay<'a> {
    pub(super) a_log: &'a [f32],
    pub(super) dt_bias: &'a [f32],
}

impl Decay<'_> {
    /// `g` of a head, and its slope by `a`.
    fn log_decay(&self, head: usize, a: f32) -> (f32, f32) {
        let (x, rate) = (a + self.dt_bias[head], -exp(self.a_log[head]));
        // softplus(x) = max(x, 0) + log(1 + e^-|x|), whose derivative is sigmoid(x).
        (rate * (x.max(0.0) + ln_1p(exp(-x.abs()))), rate * sigmoid(x))
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

impl<'a> Rule<'a> {
    /// Of `mixed` `[N, mixed]`, `b` and `a` `[N, value_heads]`.
    pub(super) fn new(
        sizes: DeltaSizes,
        pass_rows: &[KeyRow],
        [mixed, b, a]: [&'a [f32]; 3],
        decay: &Decay<'_>,
        pool: &Arc<Pool>,
        parallel: bool,
    ) -> Self {
        let tokens = mixed.len() / sizes.mixed();
        let (both, dim) = (2 * sizes.keys(), sizes.key_dim);
        let mut unit = pool.take(tokens * both);
        let root = 1.0 / (dim as f32).sqrt();
        by_rows(parallel, &mut unit, both, |first, part| {
            vectorized(
                #[inline(always)]
                || {
                    for (index, out) in part.chunks_exact_mut(both).enumerate() {
                        let x = &mixed[(first + index) * sizes.mixed()..][..both];
                        let heads = out.chunks_exact_mut(dim).zip(x.chunks_exact(dim));
                        for (head, (out, x)) in heads.enumerate() {
                            let scale = if head < sizes.key_heads { root } else { 1.0 };
                            // Keys of length 1: S = (I - beta k k^T) P + beta k v^T amplifies nothing of P.
                            let scale = scale / (dot(x, x) + EPS).sqrt();
                            out.iter_mut().zip(x).for_each(|(out, x)| *out = x * scale);
                        }
                    }
                },
            );
        });
        let mut gates = pool.take(2 * b.len());
        for (index, gates) in gates.chunks_exact_mut(2).enumerate() {
            gates[0] = exp(decay.log_decay(index % sizes.value_heads, a[index]).0);
            gates[1] = sigmoid(b[index]);
        }
        Self { sizes, trees: Tree::all(pass_rows), mixed, unit, gates }
    }

    fn inputs(&self, head: usize) -> Inputs<'_> {
        let DeltaSizes { key_dim, value_dim, .. } = self.sizes;
        let key = head / self.sizes.group() * key_dim;
        Inputs {
            unit: &self.unit,
            unit_width: 2 * self.sizes.keys(),
            query: key,
            key: self.sizes.keys() + key,
            key_dim,
            mixed: self.mixed,
            mixed_width: self.sizes.mixed(),
            value: 2 * self.sizes.keys() + head * value_dim,
            value_dim,
            gates: &self.gates,
            gates_width: 2 * self.sizes.value_heads,
            gate: 2 * head,
        }
    }

    /// Results `[N, values]`. With states `[rows, value_heads, key_dim, value_dim]`, which belong to the rows of a pass
    /// without prefixes, rows go on from theirs, and leave them as they end.
    pub(super) fn forward(
        &self,
        mut states: Option<&mut [f32]>,
        pool: &Arc<Pool>,
        parallel: bool,
    ) -> Buffer {
        let DeltaSizes { value_heads, key_dim, value_dim, .. } = self.sizes;
        let width = self.sizes.values();
        let tokens = self.mixed.len() / self.sizes.mixed();
        let mut by_head = pool.take(tokens * width);
        let mut states = states.as_mut().map(|states| states.chunks_exact_mut(key_dim * value_dim));
        // One task per sequence tree and head. Results are head by head, so that every task writes a slice of its own.
        let mut rest = &mut by_head[..];
        let mut units = Vec::with_capacity(self.trees.len() * value_heads);
        for tree in &self.trees {
            for head in 0..value_heads {
                let (out_of_head, others) = rest.split_at_mut(tree.tokens().len() * value_dim);
                rest = others;
                units.push((tree, head, states.as_mut().and_then(Iterator::next), out_of_head));
            }
        }
        let work = |(tree, head, state, out): (&Tree, usize, Option<&mut [f32]>, &mut [f32])| {
            let inputs = self.inputs(head);
            let first = tree.tokens().start;
            vectorized(
                #[inline(always)]
                || {
                    let past = tree.rows[0].past > 0;
                    let suffixes = tree.rows.iter().map(|row| row.tokens.clone());
                    run_forward(&inputs, (&tree.prefix, suffixes), (state, past), (out, first));
                },
            );
        };
        if parallel {
            units.into_par_iter().for_each(work);
        } else {
            units.into_iter().for_each(work);
        }
        // With one token a tree, head by head is token by token already.
        if self.trees.iter().all(|tree| tree.tokens().len() == 1) {
            return by_head;
        }
        let mut out = pool.take(tokens * width);
        let mut rest = &by_head[..];
        for tree in &self.trees {
            let (values, others) = rest.split_at(tree.tokens().len() * width);
            rest = others;
            let range = tree.tokens();
            let heads: Vec<&[f32]> = values.chunks_exact(range.len().max(1) * value_dim).collect();
            let out = &mut out[range.start * width..range.end * width];
            rows::join(&heads, &vec![value_dim; heads.len()], out);
        }
        out
    }

    /// The gradients of `mixed`, `b` and `a` for those of the results, with the sums of `A_log`'s and `dt_bias`'s.
    pub(super) fn backward(
        &self,
        grad: &[f32],
        [b, a]: [&[f32]; 2],
        decay: &Decay<'_>,
        pool: &Arc<Pool>,
    ) -> ([Buffer; 3], [Vec<f32>; 2]) {
        let DeltaSizes { value_heads, key_dim, value_dim, .. } = self.sizes;
        let units: Vec<InputGrads> = (0..self.trees.len() * value_heads)
            .into_par_iter()
            .map(|index| {
                let (tree, head) = (&self.trees[index / value_heads], index % value_heads);
                let grad = (grad, self.sizes.values(), head * value_dim);
                let suffixes: Vec<_> = tree.rows.iter().map(|row| row.tokens.clone()).collect();
                vectorized(
                    #[inline(always)]
                    || run_back(&self.inputs(head), (&tree.prefix, &suffixes), tree.tokens(), grad),
                )
            })
            .collect();
        // Tasks return gradients per head; below, each token gathers those of its heads in one order: no atomic sums.
        let mut tree_of = vec![0; self.mixed.len() / self.sizes.mixed()];
        for (index, tree) in self.trees.iter().enumerate() {
            tree_of[tree.tokens()].fill(index);
        }
        let unit_of = |token: usize, head: usize| {
            let tree = tree_of[token];
            (&units[tree * value_heads + head], token - self.trees[tree].tokens().start)
        };
        let (mixed_width, keys) = (self.sizes.mixed(), self.sizes.keys());
        let mut d_mixed = pool.take(self.mixed.len());
        by_rows(true, &mut d_mixed, mixed_width, |first, part| {
            let mut unit_grad = vec![0f32; key_dim];
            for (index, out) in part.chunks_exact_mut(mixed_width).enumerate() {
                let token = first + index;
                let x = &self.mixed[token * mixed_width..][..2 * keys];
                let unit = &self.unit[token * 2 * keys..][..2 * keys];
                let (lengths, values) = out.split_at_mut(2 * keys);
                let heads = lengths.chunks_exact_mut(key_dim).zip(x.chunks_exact(key_dim));
                for (place, ((out, x), unit)) in heads.zip(unit.chunks_exact(key_dim)).enumerate() {
                    let (is_key, head) =
                        (place / self.sizes.key_heads, place % self.sizes.key_heads);
                    unit_grad.fill(0.0);
                    // Value heads of a group read the same key and query: their gradients add up.
                    for value in head * self.sizes.group()..(head + 1) * self.sizes.group() {
                        let (grads, at) = unit_of(token, value);
                        let unit = &grads.unit[is_key][at * key_dim..][..key_dim];
                        unit_grad.iter_mut().zip(unit).for_each(|(sum, x)| *sum += x);
                    }
                    // Of y = s x / |x|: s (d - u (u . d)) / |x| with u = x / |x|.
                    let inverse = 1.0 / (dot(x, x) + EPS).sqrt();
                    let scale = if is_key == 0 { 1.0 / (key_dim as f32).sqrt() } else { 1.0 };
                    let along = dot(unit, &unit_grad) / scale;
                    out.fill(0.0);
                    add_scaled(out, scale * inverse, &unit_grad);
                    add_scaled(out, -along * inverse, unit);
                }
                for (head, out) in values.chunks_exact_mut(value_dim).enumerate() {
                    let (grads, at) = unit_of(token, head);
                    out.copy_from_slice(&grads.value[at * value_dim..][..value_dim]);
                }
            }
        });
        let (mut d_b, mut d_a) = (pool.take(b.len()), pool.take(a.len()));
        let [mut d_log, mut d_bias] = [0, 1].map(|_| vec![0f32; value_heads]);
        for index in 0..b.len() {
            let (token, head) = (index / value_heads, index % value_heads);
            let (grads, at) = unit_of(token, head);
            let [of_decay, of_beta] = grads.gates[at];
            let ((g, slope), beta) = (decay.log_decay(head, a[index]), self.gates[2 * index + 1]);
            // beta = sigmoid(b); alpha = e^g with g = -e^(A_log) softplus(a + dt_bias), so that dg / dA_log = g.
            d_b[index] = of_beta * beta * (1.0 - beta);
            d_a[index] = of_decay * slope;
            d_log[head] += of_decay * g;
            d_bias[head] += of_decay * slope;
        }
        ([d_mixed, d_b, d_a], [d_log, d_bias])
    }
}
