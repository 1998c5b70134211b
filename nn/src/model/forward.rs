//! Token ids to hidden states to log-probabilities, and back to the gradients of weights.
//!
//! Stateless: the cache is an argument, and so is what gradients are added to. Hidden states and logits are apart
//! because the logits of a whole batch, `[N, V]`, are the peak of memory; callers project only what they need.

use std::sync::Arc;

use candle_core::{Result, Tensor, bail};
use tealight_gpu::workspace::{Array, Workspace};

use super::decoder::Decoder;
use super::kv_cache::{Cached, KvCache};
use super::{batch_memory, run};
use crate::backend::cpu::Cpu;
use crate::backend::gpu::Gpu;
use crate::backend::{
    Anchor, AnyBackend, Arrays, Backend, Divergences, Either, GradAccumulator, LogpGrads,
    OutputLayer, PackedSequences, Targets, TokenLogp,
};
use tealight_divergence::Divergence;

/// The values that the backward pass through a decoder's layers reads.
pub(crate) type Trace = Either<run::SavedLayers<Cpu>, run::SavedLayers<Gpu>>;

/// The values that the gradient of log-probabilities reads.
pub(crate) type LogpTrace = Either<<Cpu as Arrays>::LogpSums, <Gpu as Arrays>::LogpSums>;

/// The keys and values of every layer of a cache on a GPU.
type LayerCaches<'a> = Vec<<Gpu as Arrays>::Cache<'a>>;

/// The last token of each row.
pub(crate) enum LastTokens<'a> {
    /// Known to the host.
    Known(&'a [u32]),
    /// Drawn on the GPU from this decoder's logits; the host has not seen them.
    Sampled(&'a Array),
}

impl Decoder {
    /// Hidden states `[N, D]`, after the last norm, of `ids` `[N]`, the tokens of all segments.
    ///
    /// With a cache, the tokens of segment `i` continue what its row `i` holds and are added to it.
    ///
    /// # Errors
    /// Ids beyond the vocabulary or not as many as the segments say, more tokens than the cache has room for, no
    /// memory.
    pub fn hidden(
        &self,
        ids: &[u32],
        packed: &PackedSequences,
        cache: Option<&mut KvCache>,
    ) -> Result<Tensor> {
        self.check(ids.len(), packed)?;
        match &self.backend {
            // Inside the pool of threads, so that no operation waits to get there.
            AnyBackend::Cpu(cpu) => rayon::scope(|_| run::on_cpu(self, cpu, ids, packed, cache)),
            AnyBackend::Gpu(gpu) => {
                let scale = self.architecture.embedding_scale;
                let stream = gpu.embed(&self.embedding, ids, scale)?;
                self.on_gpu(gpu, stream, packed, cache).map(Array::into_tensor)
            }
        }
    }

    /// Logits `[N, V]` on a GPU of the tokens after `tokens`, one of each row, which are added to the cache. All
    /// that is computed is in the cache's workspace. At least `more` such steps of the same rows follow.
    pub(crate) fn next_logits(
        &self,
        (tokens, more): (LastTokens<'_>, usize),
        packed: &PackedSequences,
        cache: &mut KvCache,
    ) -> Result<Array> {
        let AnyBackend::Gpu(gpu) = &self.backend else { bail!("the decoder is on the CPU") };
        let gpu = gpu.within(cache.workspace(packed.tokens()).cloned());
        let scale = self.architecture.embedding_scale;
        let mut stream = match tokens {
            LastTokens::Known(ids) => {
                self.check(ids.len(), packed)?;
                gpu.embed(&self.embedding, ids, scale)?
            }
            LastTokens::Sampled(ids) => {
                self.check(ids.elem_count(), packed)?;
                gpu.embed_on_device(&self.embedding, ids, scale)?
            }
        };
        let hidden = match &gpu.workspace {
            Some(workspace) if self.architecture.delta.is_none() => {
                let x = gpu.saved(&mut stream)?;
                self.repeated_step((&gpu, workspace), (&x, more), packed, cache)?
            }
            _ => self.on_gpu(&gpu, stream, packed, Some(cache))?,
        };
        gpu.logits_of_array(&hidden, &self.head)
    }

    /// Hidden states from token embeddings, one token of each row, launched as a CUDA graph where the previous step
    /// made the same launches. Not for delta rules: they change states in place, so a step cannot be repeated to check
    /// the first graph.
    fn repeated_step(
        &self,
        (gpu, workspace): (&Gpu, &Arc<Workspace>),
        (x, more): (&Array, usize),
        packed: &PackedSequences,
        cache: &mut KvCache,
    ) -> Result<Array> {
        let (pass, layers) = self.pass_on_gpu(gpu, packed, Some(cache))?;
        gpu.upload(&pass, x)?;
        let hidden = workspace
            .repeated(more, &|| self.layers_on_gpu(gpu, gpu.stream(x)?, &pass, layers.clone()));
        if let Some(notice) = tealight_gpu::graph::take_notice() {
            tracing::warn!(
                "{notice}; kernels are launched one by one from now on, which is slower"
            );
        }
        hidden
    }

    /// Hidden states from token embeddings.
    fn on_gpu(
        &self,
        gpu: &Gpu,
        stream: <Gpu as Arrays>::Stream,
        packed: &PackedSequences,
        cache: Option<&mut KvCache>,
    ) -> Result<Array> {
        let (pass, layers) = self.pass_on_gpu(gpu, packed, cache)?;
        self.layers_on_gpu(gpu, stream, &pass, layers)
    }

    /// A pass over tokens, and the cache of every layer, with room for them.
    fn pass_on_gpu<'a>(
        &self,
        gpu: &Gpu,
        packed: &PackedSequences,
        mut cache: Option<&'a mut KvCache>,
    ) -> Result<(<Gpu as Arrays>::Pass, Option<LayerCaches<'a>>)> {
        let slots = batch_memory::grown(cache.as_deref_mut(), packed)?;
        let pass = run::pass(self, gpu, packed, slots)?;
        let layers = cache.map(|cache| Gpu::layers(cache, packed.all().len())).transpose()?;
        Ok((pass, layers))
    }

    /// All layers and the last norm.
    fn layers_on_gpu(
        &self,
        gpu: &Gpu,
        mut stream: <Gpu as Arrays>::Stream,
        pass: &<Gpu as Arrays>::Pass,
        mut layers: Option<LayerCaches<'_>>,
    ) -> Result<Array> {
        run::layers(self, gpu, pass, &mut stream, layers.as_deref_mut())?;
        run::last_norm(self, gpu, &mut stream)
    }

    /// The same without a cache, and what [`Decoder::backward`] reads.
    pub(crate) fn forward(&self, ids: &[u32], packed: &PackedSequences) -> Result<(Tensor, Trace)> {
        self.check(ids.len(), packed)?;
        match &self.backend {
            AnyBackend::Cpu(cpu) => {
                let (hidden, saved) = rayon::scope(|_| run::forward(self, cpu, ids, packed))?;
                Ok((hidden, Trace::Cpu(saved)))
            }
            AnyBackend::Gpu(gpu) => {
                let (hidden, saved) = run::forward(self, gpu, ids, packed)?;
                Ok((hidden, Trace::Gpu(saved)))
            }
        }
    }

    /// Adds the gradients of all weights that are trained for the gradient `grad` `[N, D]` of the hidden states.
    pub(crate) fn backward(
        &self,
        trace: Trace,
        grad: &Tensor,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        match (&self.backend, trace) {
            (AnyBackend::Cpu(cpu), Trace::Cpu(saved)) => {
                rayon::scope(|_| run::backward(self, cpu, saved, grad, grads))
            }
            (AnyBackend::Gpu(gpu), Trace::Gpu(saved)) => {
                run::backward(self, gpu, saved, grad, grads)
            }
            _ => bail!("the forward pass was that of another backend"),
        }
    }

    fn check(&self, ids: usize, packed: &PackedSequences) -> Result<()> {
        if ids != packed.tokens() {
            bail!("{ids} tokens where the segments have {}", packed.tokens());
        }
        Ok(())
    }

    /// Log-probabilities of `targets` and entropies for hidden states `[N, D]`.
    pub(crate) fn logp(
        &self,
        hidden: &Tensor,
        targets: Targets<'_>,
    ) -> Result<TokenLogp<LogpTrace>> {
        match &self.backend {
            AnyBackend::Cpu(cpu) => Ok(cpu.logp(hidden, &self.head, targets)?.map(LogpTrace::Cpu)),
            AnyBackend::Gpu(gpu) => Ok(gpu.logp(hidden, &self.head, targets)?.map(LogpTrace::Gpu)),
        }
    }

    /// This model's distributions at some positions, for another's to be compared with: hidden states `[N, D]` there,
    /// and the logarithms `[N]` of what `exp(logit / temperature)` adds up to.
    pub(crate) fn anchor(&self, [hidden, log_mass]: [Tensor; 2], divergence: Divergence) -> Anchor {
        Anchor { head: self.head.clone(), hidden, log_mass, divergence }
    }

    /// How far the distributions are from an anchor's.
    pub(crate) fn divergences(
        &self,
        hidden: &Tensor,
        targets: Targets<'_>,
        trace: &LogpTrace,
        anchor: &Anchor,
    ) -> Result<Divergences> {
        match (&self.backend, trace) {
            (AnyBackend::Cpu(cpu), LogpTrace::Cpu(saved)) => {
                cpu.divergences(hidden, &self.head, targets, saved, anchor)
            }
            (AnyBackend::Gpu(gpu), LogpTrace::Gpu(saved)) => {
                gpu.divergences(hidden, &self.head, targets, saved, anchor)
            }
            _ => bail!("the log-probabilities were found by another backend"),
        }
    }

    /// The gradient of the hidden states for that of what was found; the output layer's is added.
    pub(crate) fn logp_backward(
        &self,
        hidden: &Tensor,
        targets: Targets<'_>,
        trace: &LogpTrace,
        grad: &LogpGrads<'_>,
        grads: &mut GradAccumulator,
    ) -> Result<Tensor> {
        match (&self.backend, trace) {
            (AnyBackend::Cpu(cpu), LogpTrace::Cpu(saved)) => {
                cpu.logp_backward(hidden, &self.head, targets, saved, grad, grads)
            }
            (AnyBackend::Gpu(gpu), LogpTrace::Gpu(saved)) => {
                gpu.logp_backward(hidden, &self.head, targets, saved, grad, grads)
            }
            _ => bail!("the log-probabilities were found by another backend"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use candle_core::{DType, Device};
    use tealight_gpu::counts::counted;

    use super::*;
    use crate::backend::Parameter;
    use crate::model::{Architecture, BackendKind, batch_memory, weights};

    /// Norms of queries and keys, biases, windows and an output layer of its own, by family.
    fn decoder(family: &str, dtype: DType) -> Decoder {
        let config = serde_json::json!({
            "model_type": family, "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
            "max_position_embeddings": 64, "tie_word_embeddings": family == "qwen2",
        });
        let architecture = Architecture::from_config(&config).expect("a config");
        let weights = weights::random(&architecture, 3, &Device::Cpu).expect("weights");
        let weight = |name: &str| Ok(Parameter::constant(name, weights[name].to_dtype(dtype)?));
        Decoder::new(&architecture, BackendKind::Gpu, weight).expect("a decoder")
    }

    #[test]
    fn steps_in_one_workspace_agree_and_overwrite_no_live_array() {
        for (family, dtype) in
            [("qwen2", DType::F32), ("qwen2", DType::BF16), ("qwen3", DType::F32)]
        {
            let decoder = decoder(family, dtype);
            let mut cache = decoder.decoding_cache(3, 60, 60).expect("a cache");
            let mut other = decoder.cache(3, 60).expect("a cache");
            let memory = Arc::downgrade(cache.workspace(3).expect("on a GPU"));
            let mut results = Vec::new();
            // Rows end.
            for (step, rows) in [3, 3, 3, 2, 2, 1, 1].into_iter().enumerate() {
                let packed = PackedSequences::after((0..rows).map(|_| step));
                let ids: Vec<u32> = (0..rows).map(|row| (7 * step + 5 * row) as u32 % 40).collect();
                let (logits, counts) = counted(|| {
                    decoder.next_logits((LastTokens::Known(&ids), 8), &packed, &mut cache)
                });
                // Nobody frees the logits, so that every step needs others; after the first nothing else, but for the
                // hidden states that those of a graph are compared with.
                let most = 1 + counts.graphs_made;
                assert!(step == 0 || (1..=most).contains(&counts.allocations), "{counts:?}");
                let hidden = decoder.hidden(&ids, &packed, Some(&mut other)).expect("a pass");
                let exact = decoder.logits(&hidden).and_then(|x| x.flatten_all()?.to_vec1::<f32>());
                results.push((logits.expect("a step"), exact.expect("values")));
            }
            for (logits, exact) in &results {
                assert_eq!(&logits.download::<f32>().expect("values"), exact);
            }
            let logits = 4 * 40 * 3 * results.len();
            let rest = memory.upgrade().expect("there").bytes() - logits;
            let planned = 3 * batch_memory::step_bytes(decoder.architecture(), dtype) as usize;
            assert!(rest <= planned, "{rest} bytes where {planned} are planned");
            results.clear();
            let packed = PackedSequences::after([7, 7, 7]);
            let (step, counts) = counted(|| {
                decoder.next_logits((LastTokens::Known(&[1, 2, 3]), 8), &packed, &mut cache)
            });
            assert_eq!((step.is_ok(), counts.allocations), (true, 0));
            // The memory is freed with the cache: training has it then.
            drop((step, cache));
            assert!(memory.upgrade().is_none());
        }
    }
}
