//! All layers of a decoder, forward and backward, over any backend.

use candle_core::{Result, Tensor};

use super::decoder::Decoder;
use super::kind::heads;
use super::kv_cache::{Cached, KvCache};
use super::layer::SavedActivations;
use super::layer_parts::At;
use crate::backend::cpu::Cpu;
use crate::backend::cpu::slots::Slots;
use crate::backend::{Arrays, Backend, GradAccumulator, PackedSequences};

/// The values that a pass through all layers keeps for its backward pass.
pub(crate) struct SavedLayers<B: Backend> {
    ids: Vec<u32>,
    pass: B::Pass,
    layers: Vec<SavedActivations<B>>,
    /// The stream before the last norm.
    last: B::Array,
}

/// The pass over these sequences, for a cache with so many slots a row.
pub(super) fn pass<B: Backend>(
    decoder: &Decoder,
    backend: &B,
    packed: &PackedSequences,
    slots: Option<usize>,
) -> Result<B::Pass> {
    let angles = decoder.ropes.iter().map(|rope| rope.angles(packed)).collect();
    backend.pass(packed, heads(&decoder.architecture), angles, slots)
}

/// All layers on the stream, without a gradient.
pub(super) fn layers<B: Backend>(
    decoder: &Decoder,
    backend: &B,
    pass: &B::Pass,
    stream: &mut B::Stream,
    mut caches: Option<&mut [B::Cache<'_>]>,
) -> Result<()> {
    for (index, layer) in decoder.layers.iter().enumerate() {
        let cache = caches.as_mut().map(|caches| &mut caches[index]);
        layer.forward(At { backend, pass }, stream, cache)?;
    }
    Ok(())
}

/// Hidden states `[N, D]` of the stream.
pub(super) fn last_norm<B: Backend>(
    decoder: &Decoder,
    backend: &B,
    stream: &mut B::Stream,
) -> Result<B::Array> {
    let architecture = &decoder.architecture;
    let mut normed = backend.add_norm(stream, &decoder.norm)?;
    if architecture.logits_scale != 1.0 {
        // Logits are linear in what is scaled here.
        backend.scale(&mut normed, architecture.logits_scale)?;
    }
    Ok(normed)
}

/// The same, to be read outside.
fn hidden_states<B: Backend>(
    decoder: &Decoder,
    backend: &B,
    stream: &mut B::Stream,
) -> Result<Tensor> {
    let normed = last_norm(decoder, backend, stream)?;
    backend.to_tensor(normed, decoder.architecture.hidden_size)
}

/// Hidden states `[N, D]`, and what their gradient reads.
pub(super) fn forward<B: Backend>(
    decoder: &Decoder,
    backend: &B,
    ids: &[u32],
    packed: &PackedSequences,
) -> Result<(Tensor, SavedLayers<B>)> {
    let pass = pass(decoder, backend, packed, None)?;
    let mut stream =
        backend.embed(&decoder.embedding, ids, decoder.architecture.embedding_scale)?;
    let mut layers = Vec::with_capacity(decoder.layers.len());
    for layer in &decoder.layers {
        let saved = layer.forward_saved(At { backend, pass: &pass }, &mut stream)?;
        layers.push(if decoder.recomputes { saved.input_only() } else { saved });
    }
    let hidden = hidden_states(decoder, backend, &mut stream)?;
    let last = backend.saved(&mut stream)?;
    Ok((hidden, SavedLayers { ids: ids.to_vec(), pass, layers, last }))
}

/// Adds the gradients of all weights for the gradient `grad` `[N, D]` of the hidden states.
pub(super) fn backward<B: Backend>(
    decoder: &Decoder,
    backend: &B,
    saved: SavedLayers<B>,
    grad: &Tensor,
    grads: &mut GradAccumulator,
) -> Result<()> {
    let SavedLayers { ids, pass, layers, last } = saved;
    let architecture = &decoder.architecture;
    let mut grad = backend.of_tensor(grad)?;
    if architecture.logits_scale != 1.0 {
        backend.scale(&mut grad, architecture.logits_scale)?;
    }
    let mut dx = backend.zeros_like(&grad)?;
    // From here `dx` is the gradient of the residual stream, which every layer adds to.
    backend.norm_backward(&last, &decoder.norm, &grad, &mut dx, grads)?;
    drop((grad, last));
    for (layer, saved) in decoder.layers.iter().zip(layers).rev() {
        layer.backward(At { backend, pass: &pass }, saved, &mut dx, grads)?;
    }
    if !decoder.embedding.is_trained {
        return Ok(());
    }
    if architecture.embedding_scale != 1.0 {
        // x = scale table[id], so that the table's gradient has the factor too.
        backend.scale(&mut dx, architecture.embedding_scale)?;
    }
    backend.embed_backward(&decoder.embedding, &ids, &dx, grads)
}

/// Hidden states on the CPU. Small models are sampled from with every thread on rows of its own, without ever waiting
/// for another; otherwise all threads share every product, so that weights are read once.
pub(super) fn on_cpu(
    decoder: &Decoder,
    cpu: &Cpu,
    ids: &[u32],
    packed: &PackedSequences,
    cache: Option<&mut KvCache>,
) -> Result<Tensor> {
    /// Packed weights that fit the caches of a processor's cores, in bytes.
    const SMALL: usize = 32 << 20;
    let pass = pass(decoder, cpu, packed, cache.as_ref().map(|cache| cache.slots()))?;
    let mut stream = cpu.embed(&decoder.embedding, ids, decoder.architecture.embedding_scale)?;
    let threads = rayon::current_num_threads().min(pass.rows.len());
    let is_small = decoder.prepacked_bytes().is_some_and(|bytes| bytes <= SMALL);
    let mut caches = cache.map(|cache| Cpu::layers(cache, pass.rows.len())).transpose()?;
    match caches {
        Some(caches) if is_small && threads > 1 => {
            by_rows(decoder, cpu, &pass, &mut stream, caches, threads)?;
        }
        _ => layers(decoder, cpu, &pass, &mut stream, caches.as_deref_mut())?,
    }
    hidden_states(decoder, cpu, &mut stream)
}

/// All layers with some rows a thread.
fn by_rows(
    decoder: &Decoder,
    cpu: &Cpu,
    pass: &<Cpu as Arrays>::Pass,
    stream: &mut [f32],
    caches: Vec<<Cpu as Arrays>::Cache<'_>>,
    threads: usize,
) -> Result<()> {
    let rows = pass.rows.len();
    let (share, width) = (rows.div_ceil(threads), decoder.architecture.hidden_size);
    let mut parts: Vec<Vec<<Cpu as Arrays>::Cache<'_>>> = (0..threads).map(|_| vec![]).collect();
    for Slots { parts: [first, second], layout, beginnings } in caches {
        let [one, other] = layout.sizes().map(|size| share * size);
        let chunks = first.chunks_mut(one).zip(second.chunks_mut(other));
        let beginnings_of_part =
            beginnings.chunks(share).map(<[_]>::to_vec).chain(std::iter::repeat(vec![]));
        let slots = chunks.zip(beginnings_of_part).map(|((first, second), beginnings)| Slots {
            parts: [first, second],
            layout,
            beginnings,
        });
        parts.iter_mut().zip(slots).for_each(|(part, slots)| part.push(slots));
    }
    let cpu = Cpu { is_parallel: false, ..cpu.clone() };
    let mut done: Vec<Result<()>> = (0..threads).map(|_| Ok(())).collect();
    rayon::scope(|scope| {
        let mut rest = stream;
        for ((index, mut caches), done) in parts.into_iter().enumerate().zip(&mut done) {
            let range = index * share..((index + 1) * share).min(rows);
            if range.is_empty() {
                return;
            }
            let values = pass.tokens_of(range.clone()).len() * width;
            let (own_stream, others) = std::mem::take(&mut rest).split_at_mut(values);
            rest = others;
            let cpu = &cpu;
            scope.spawn(move |_| {
                let mut own_pass = cpu.pool.copy(own_stream);
                let part = pass.part(range);
                *done = layers(decoder, cpu, &part, &mut own_pass, Some(&mut caches));
                own_stream.copy_from_slice(&own_pass);
            });
        }
    });
    done.into_iter().collect()
}
