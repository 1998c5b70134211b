//! The layers backward: the gradient of every weight is added to the sums, that of a layer's input takes
//! the place of its output's.

use std::ops::Range;

use candle_core::Result;
use rayon::prelude::*;
use tealight_matmul::{Matrix, Output, Right, multiply};

use super::super::decoder::Layer;
use super::super::ops::Linear;
use super::super::{Architecture, Decoder, lora};
use super::forward::{Kept, Work};
use super::{Pass, Row, Sums};
use crate::kernels::cpu::rope::rotate;
use crate::kernels::cpu::{by_rows, rms_norm, simd, swiglu, with_values};

/// From the gradient `grad` `[n, D]` of the normed hidden states to those of all weights.
pub(super) fn body(
    decoder: &Decoder,
    pass: Pass<'_>,
    ids: &[u32],
    (kept, last): (Vec<Kept>, Vec<f32>),
    grad: &[f32],
    sums: &mut Sums,
) -> Result<()> {
    let architecture = &decoder.architecture;
    let width = architecture.hidden_size;
    let pool = &decoder.shared.pool;
    let mut dx = pool.take(grad.len());
    dx.fill(0.0);
    norm(&decoder.norm, "model.norm.weight", architecture, &last, grad, &mut dx, sums)?;
    drop(last);
    for (layer, mut kept) in decoder.layers.iter().zip(kept).rev() {
        if kept.both.is_empty() {
            let slots = pass.rows.len() * pass.heads.row();
            let [mut keys, mut values] = [0, 1].map(|_| pool.take(slots));
            let mut x = pool.take(kept.input.len());
            x.copy_from_slice(&kept.input);
            let (mut work, mut own) = (Work::default(), (&mut keys[..], &mut values[..]));
            layer.forward(decoder, pass, &mut x, &mut own, &mut work, &mut kept)?;
            work.give(pool);
            pool.give([keys, values, x]);
        }
        layer.backward(decoder, pass, &mut kept, &mut dx, sums)?;
        kept.forget(pool);
        pool.give([kept.input]);
    }
    if decoder.embedding.track_op() {
        let table = sums.of("model.embed_tokens.weight", architecture.vocab_size * width);
        for (id, dx) in ids.iter().zip(dx.chunks_exact(width)) {
            let row = &mut table[*id as usize * width..][..width];
            row.iter_mut().zip(dx).for_each(|(sum, x)| *sum += x);
        }
    }
    pool.give([dx]);
    Ok(())
}

/// Adds the gradients of a norm's input and weight.
fn norm(
    weight: &candle_core::Tensor,
    name: &str,
    architecture: &Architecture,
    x: &[f32],
    grad: &[f32],
    dx: &mut [f32],
    sums: &mut Sums,
) -> Result<()> {
    let eps = architecture.rms_norm_eps as f32;
    // A norm beside adapters is not trained.
    let mut unused = Vec::new();
    let is_trained = weight.track_op();
    with_values(weight, |weight| {
        let sum = match is_trained {
            true => sums.of(name, weight.len()),
            false => {
                unused.resize(weight.len(), 0.0);
                &mut unused
            }
        };
        rms_norm::gradients(x, weight, eps, grad, dx, sum);
        Ok(())
    })
}

impl Linear {
    /// Adds the gradients of weight and bias, or of the adapter in their place; `x` is `[n, in]`, the columns
    /// `grad` of rows `stride` apart the gradient of the result.
    fn add_gradients(
        &self,
        name: &str,
        x: &[f32],
        (grad, stride): (&[f32], usize),
        pass: Pass<'_>,
        sums: &mut Sums,
    ) -> Result<()> {
        let (width, inner) = self.weight.dims2()?;
        let rows = x.len() / inner;
        if let Some(adapter) = &self.adapter {
            let [a, b] = lora::names(name);
            let counts = [adapter.a.elem_count(), adapter.b.elem_count()];
            let sums = sums.of_two([&a, &b], counts);
            adapter.add_gradients(x, (grad, stride), pass.dropout, sums)?;
        }
        if !self.weight.track_op() {
            return Ok(());
        }
        let left = Matrix::strided(grad, rows, width, stride).transposed();
        let right = Right::Plain(Matrix::new(x, rows, inner), self.precision);
        let data = sums.of(&format!("{name}.weight"), width * inner);
        multiply(left, right, Output { data, stride: inner, adds: true }, true);
        if self.bias.is_some() {
            let sum = sums.of(&format!("{name}.bias"), width);
            simd(
                #[inline(always)]
                || {
                    for row in grad.chunks(stride).take(rows) {
                        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                    }
                },
            );
        }
        Ok(())
    }

    /// Writes, or with `adds` adds, the gradient `[n, in]` of the input.
    fn input_gradient(
        &self,
        (grad, stride): (&[f32], usize),
        dx: &mut [f32],
        adds: bool,
        pass: Pass<'_>,
    ) -> Result<()> {
        let (width, inner) = self.weight.dims2()?;
        let left = Matrix::strided(grad, dx.len() / inner, width, stride);
        with_values(&self.weight, |weight| {
            let right = Right::Plain(Matrix::new(weight, width, inner), self.precision);
            multiply(left, right, Output { data: &mut *dx, stride: inner, adds }, true);
            Ok(())
        })?;
        match &self.adapter {
            Some(adapter) => adapter.add_input_gradient((grad, stride), pass.dropout, dx),
            None => Ok(()),
        }
    }
}

impl Layer {
    /// `dx` goes in as the gradient of the layer's result and comes out as that of its input.
    fn backward(
        &self,
        decoder: &Decoder,
        pass: Pass<'_>,
        kept: &mut Kept,
        dx: &mut [f32],
        sums: &mut Sums,
    ) -> Result<()> {
        let (architecture, pool) = (&decoder.architecture, &decoder.shared.pool);
        let (tokens, width) = (pass.tokens(), architecture.hidden_size);
        let (heads, eps) = (pass.heads, architecture.rms_norm_eps as f32);
        let (queries, keys) = (heads.queries * heads.dim, heads.keys * heads.dim);
        let (all, inner) = (queries + 2 * keys, architecture.intermediate_size);
        let name = |part: &str| format!("{}{part}", self.prefix);

        // The feed-forward block.
        let mut wide = pool.take(tokens * inner);
        swiglu::swiglu(&kept.both, inner, &mut wide, true);
        self.down.add_gradients(&name("mlp.down_proj"), &wide, (dx, width), pass, sums)?;
        // Its gradient takes its place.
        self.down.input_gradient((dx, width), &mut wide, false, pass)?;
        swiglu::gradients(&mut kept.both, inner, &wide);
        pool.give([wide]);
        let mut normed = pool.take(tokens * width);
        with_values(&self.post_norm, |weight| {
            rms_norm::rms_norm(&kept.middle, weight, eps, &mut normed, true);
            Ok(())
        })?;
        let (gate, up) = ((&kept.both[..], 2 * inner), (&kept.both[inner..], 2 * inner));
        self.gate.add_gradients(&name("mlp.gate_proj"), &normed, gate, pass, sums)?;
        self.up.add_gradients(&name("mlp.up_proj"), &normed, up, pass, sums)?;
        let mut d_normed = pool.take(tokens * width);
        self.gate.input_gradient(gate, &mut d_normed, false, pass)?;
        self.up.input_gradient(up, &mut d_normed, true, pass)?;
        let own = name("post_attention_layernorm.weight");
        norm(&self.post_norm, &own, architecture, &kept.middle, &d_normed, dx, sums)?;

        // Attention.
        let own = name("self_attn.o_proj");
        self.output.add_gradients(&own, &kept.attended, (dx, width), pass, sums)?;
        self.output.input_gradient((dx, width), &mut kept.attended, false, pass)?;
        let mut d_qkv = pool.take(tokens * all);
        attention(&kept.qkv, pass, &kept.attended, &mut d_qkv);
        by_rows(true, &mut d_qkv, all, |first, part| {
            simd(
                #[inline(always)]
                || {
                    for (index, row) in part.chunks_exact_mut(all).enumerate() {
                        let (cos, sin) = pass.angles(first + index);
                        rotate(&mut row[..queries + keys], cos, sin, -1.0);
                    }
                },
            );
        });
        if let Some([q_norm, k_norm]) = &self.qk_norm {
            for (weight, part, at, count) in [
                (q_norm, "self_attn.q_norm.weight", 0, queries),
                (k_norm, "self_attn.k_norm.weight", queries, keys),
            ] {
                let raw = columns(&kept.raw, all, at, count);
                let grad = columns(&d_qkv, all, at, count);
                let mut d_raw = vec![0f32; raw.len()];
                norm(weight, &name(part), architecture, &raw, &grad, &mut d_raw, sums)?;
                for (row, own) in d_qkv.chunks_exact_mut(all).zip(d_raw.chunks_exact(count)) {
                    row[at..at + count].copy_from_slice(own);
                }
            }
        }
        with_values(&self.input_norm, |weight| {
            rms_norm::rms_norm(&kept.input, weight, eps, &mut normed, true);
            Ok(())
        })?;
        let parts = [
            ("self_attn.q_proj", &self.q, 0),
            ("self_attn.k_proj", &self.k, queries),
            ("self_attn.v_proj", &self.v, queries + keys),
        ];
        for (part, linear, at) in parts {
            let grad = (&d_qkv[at..], all);
            linear.add_gradients(&name(part), &normed, grad, pass, sums)?;
            linear.input_gradient(grad, &mut d_normed, at > 0, pass)?;
        }
        let own = name("input_layernorm.weight");
        norm(&self.input_norm, &own, architecture, &kept.input, &d_normed, dx, sums)?;
        pool.give([normed, d_normed, d_qkv]);
        Ok(())
    }
}

/// The columns `at..at + count` of rows of `width`.
fn columns(values: &[f32], width: usize, at: usize, count: usize) -> Vec<f32> {
    values.chunks_exact(width).flat_map(|row| row[at..at + count].iter().copied()).collect()
}

/// Writes the gradient `[n, Q + 2 K]` of queries, keys and values from that of what attention gathered.
fn attention(qkv: &[f32], pass: Pass<'_>, grad: &[f32], out: &mut [f32]) {
    let heads = pass.heads;
    let (queries, keys) = (heads.queries * heads.dim, heads.keys * heads.dim);
    let (all, wide) = (queries + 2 * keys, heads.group() * heads.dim);
    let runs = runs(pass);
    let parts: Vec<[Vec<f32>; 3]> = (0..runs.len() * heads.keys)
        .into_par_iter()
        .map(|index| {
            let (run, head) = (&runs[index / heads.keys], index % heads.keys);
            let part = |values: &[f32], width: usize, tokens: &Range<usize>, at, count| {
                columns(&values[tokens.start * width..tokens.end * width], width, at, count)
            };
            let past = |at: usize| {
                let mut past = part(qkv, all, &run.trunk, at, heads.dim);
                past.extend(part(qkv, all, &run.own, at, heads.dim));
                past
            };
            let q = part(qkv, all, &run.own, head * wide, wide);
            let k = past(queries + head * heads.dim);
            let v = past(queries + keys + head * heads.dim);
            let grad = part(grad, queries, &run.own, head * wide, wide);
            let mut found = [vec![0f32; q.len()], vec![0f32; k.len()], vec![0f32; v.len()]];
            simd(
                #[inline(always)]
                || {
                    heads.gradients(
                        run.trunk.len(),
                        [&q, &k, &v, &grad],
                        found.each_mut().map(Vec::as_mut_slice),
                    )
                },
            );
            found
        })
        .collect();
    // A task a head: what branches pull at their trunk adds up in their order.
    let columns_of: Vec<Vec<f32>> = (0..heads.keys)
        .into_par_iter()
        .map(|head| {
            let row = wide + 2 * heads.dim;
            let mut sums = vec![0f32; pass.tokens() * row];
            for (index, run) in runs.iter().enumerate() {
                let [dq, dk, dv] = &parts[index * heads.keys + head];
                for (token, dq) in run.own.clone().zip(dq.chunks_exact(wide)) {
                    sums[token * row..][..wide].copy_from_slice(dq);
                }
                let tokens = run.trunk.clone().chain(run.own.clone());
                let pulls = dk.chunks_exact(heads.dim).zip(dv.chunks_exact(heads.dim));
                for (token, (dk, dv)) in tokens.zip(pulls) {
                    let own = &mut sums[token * row + wide..][..2 * heads.dim];
                    own.iter_mut().zip(dk.iter().chain(dv)).for_each(|(sum, x)| *sum += x);
                }
            }
            sums
        })
        .collect();
    by_rows(true, out, all, |first, part| {
        for (index, row) in part.chunks_exact_mut(all).enumerate() {
            let (q, kv) = row.split_at_mut(queries);
            let (k, v) = kv.split_at_mut(keys);
            for (head, sums) in columns_of.iter().enumerate() {
                let (width, dim) = (wide + 2 * heads.dim, heads.dim);
                let own = &sums[(first + index) * width..][..width];
                q[head * wide..][..wide].copy_from_slice(&own[..wide]);
                k[head * dim..][..dim].copy_from_slice(&own[wide..wide + dim]);
                v[head * dim..][..dim].copy_from_slice(&own[wide + dim..]);
            }
        }
    });
}

/// Tokens that follow each other and the trunk that they continue.
fn runs(pass: Pass<'_>) -> Vec<Row> {
    let mut runs: Vec<Row> = Vec::with_capacity(pass.rows.len());
    let mut last = 0..0;
    for row in pass.rows {
        if !row.trunk.is_empty() && row.trunk != last {
            last = row.trunk.clone();
            runs.push(Row { trunk: 0..0, own: row.trunk.clone(), past: 0 });
        }
        runs.push(row.clone());
    }
    runs
}
