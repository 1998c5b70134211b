//! Token ids to hidden states to logits, and back to the gradients of weights.
//!
//! Stateless: the cache is an argument, and so is what gradients are added to. `hidden` and `logits` are apart
//! because the logits of a whole batch, `[N, V]`, are the peak of memory; callers project only what they need.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor, bail};

use super::architecture::{Architecture, LayerKind};
use super::kind::{BackendKind, heads};
use super::kv_cache::{Cached, KvCache, Past, Room};
use super::layer::Layer;
use super::lora::{LowRank, Scaling};
use super::rope::RopeTable;
use super::{room, run};
use crate::divergence::Divergence;
use crate::nn::backend::cpu::Cpu;
use crate::nn::backend::gpu::Gpu;
use crate::nn::backend::{
    Anchor, AnyBackend, Backend, Buffer, Divergences, GradAccumulator, LogpGrads, Norm,
    PackedSequences, Parameter, RolloutDtype, TokenLogp, int8, on_backend,
};

/// The transformer. N tokens, D hidden size, V vocabulary.
#[derive(Debug, Clone)]
pub struct Decoder {
    pub(super) architecture: Architecture,
    pub(super) backend: AnyBackend,
    pub(super) embedding: Parameter,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Norm,
    pub(super) head: Parameter,
    /// Of [`Architecture::ropes`].
    pub(super) ropes: Arc<Vec<RopeTable>>,
    /// Keep the input of each layer alone for the backward pass, and compute the rest again.
    pub(super) recomputes: bool,
}

/// What the backward pass through a decoder's layers reads.
pub(crate) enum Trace {
    Cpu(run::Saved<Cpu>),
    Gpu(run::Saved<Gpu>),
}

/// What the gradient of log-probabilities reads.
pub(crate) enum LogpTrace {
    Cpu(<Cpu as Backend>::LogpSums),
    Gpu(<Gpu as Backend>::LogpSums),
}

impl Decoder {
    /// Puts the decoder together from weights under the names of [`Architecture::tensors`].
    ///
    /// # Errors
    /// Whatever `weight` fails with; types or sizes that the backend does not know.
    pub(crate) fn new(
        architecture: &Architecture,
        kind: BackendKind,
        mut weight: impl FnMut(&str) -> Result<Parameter>,
    ) -> Result<Self> {
        let embedding = weight("model.embed_tokens.weight")?;
        let norm = weight("model.norm.weight")?;
        let backend = kind.open(architecture, &norm.values)?;
        let layers = (0..architecture.num_layers)
            .map(|index| {
                Layer::new(architecture, index, |name| {
                    weight(&format!("model.layers.{index}.{name}"))
                })
            })
            .collect::<Result<_>>()?;
        let head = match architecture.tied_embeddings {
            true => embedding.clone(),
            false => weight("lm_head.weight")?,
        };
        let (eps, offset) = (architecture.rms_norm_eps, architecture.norm_offset);
        let rope = |rope| RopeTable::new(rope, architecture.rotary_dim);
        Ok(Self {
            architecture: architecture.clone(),
            backend,
            embedding,
            layers,
            norm: Norm { weight: norm, eps, offset },
            head,
            ropes: Arc::new(architecture.ropes.iter().map(rope).collect()),
            recomputes: false,
        })
    }

    /// How it is put together.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The type that it computes in.
    pub fn dtype(&self) -> DType {
        self.norm.weight.values.dtype()
    }

    /// Where it is.
    pub fn device(&self) -> &Device {
        self.embedding.values.device()
    }

    /// Whether a GPU computes it.
    pub(crate) fn is_on_gpu(&self) -> bool {
        matches!(self.backend, AnyBackend::Gpu(_))
    }

    /// The same decoder with its weights as they are now packed for sampling: another copy of them, on a
    /// CPU with our products; on a GPU with its output layer in f32, in which logits are. With a `dtype` they are
    /// rounded to that: it is another model then. What is packed stays as it is.
    ///
    /// # Errors
    /// No memory.
    pub fn prepacked(&self, dtype: Option<RolloutDtype>) -> Result<Self> {
        self.clone().pack(dtype, false)
    }

    /// The same for sampling and log-probabilities alone: of a layer's weights no other copy is kept.
    ///
    /// # Errors
    /// No memory.
    pub fn packed_alone(self, dtype: Option<RolloutDtype>) -> Result<Self> {
        self.pack(dtype, true)
    }

    fn pack(mut self, dtype: Option<RolloutDtype>, is_alone: bool) -> Result<Self> {
        on_backend!(&self.backend, backend => {
            for linear in self.layers.iter_mut().flat_map(Layer::linears_mut) {
                *linear = linear.prepacked(backend, dtype)?;
                if is_alone {
                    linear.weight = linear.weight.clone().packed_alone()?;
                }
            }
            self.head = backend.prepack_head(&self.head, dtype)?;
        });
        Ok(self)
    }

    /// Bytes of the packed weights of all layers, where they are packed.
    pub(super) fn prepacked_bytes(&self) -> Option<usize> {
        let linears = self.layers.iter().flat_map(Layer::linears);
        linears.map(|linear| linear.weight.prepacked_bytes()).sum()
    }

    /// The same decoder, whose backward pass computes every layer again instead of keeping what it computed: a third
    /// more arithmetic, a fraction of the memory.
    #[must_use]
    pub fn recomputing(self) -> Self {
        Self { recomputes: true, ..self }
    }

    /// The same decoder, which shares the memory that passes leave with `other`.
    #[must_use]
    pub fn beside(mut self, other: &Self) -> Self {
        if let (AnyBackend::Cpu(own), AnyBackend::Cpu(other)) = (&mut self.backend, &other.backend)
        {
            own.pool = other.pool.clone();
        }
        self
    }

    /// The same decoder with an adapter on every projection that `part` has matrices A and B for, by the
    /// projection's name.
    ///
    /// # Errors
    /// Matrices that do not fit; whatever `part` fails with.
    pub(crate) fn adapted(
        mut self,
        scaling: &Scaling,
        mut part: impl FnMut(&str) -> Result<Option<[Parameter; 2]>>,
    ) -> Result<Self> {
        for (index, layer) in self.layers.iter_mut().enumerate() {
            for (module, linear) in self.architecture.modules(index).iter().zip(layer.linears_mut())
            {
                let name = format!("model.layers.{index}.{module}");
                let Some([a, b]) = part(&name)? else { continue };
                let (out, inner) = linear.weight.dims2()?;
                if a.dims2()?.1 != inner || b.dims2()?.0 != out {
                    bail!(
                        "adapter of `{name}`: A {:?} and B {:?} do not fit {:?}",
                        a.values.dims(),
                        b.values.dims(),
                        (out, inner)
                    );
                }
                linear.adapter = Some(LowRank::new([a, b], scaling, &name)?);
            }
        }
        Ok(self)
    }

    /// The weights of all adapted projections with their adapters added: what merging writes.
    ///
    /// # Errors
    /// No memory.
    pub fn merged(&self) -> Result<Vec<(String, Tensor)>> {
        let mut merged = Vec::new();
        for linear in self.layers.iter().flat_map(Layer::linears) {
            let Some(adapter) = &linear.adapter else { continue };
            let weight = int8::widened(&linear.weight.values)?;
            let wide = weight.to_dtype(DType::F32)? + adapter.product()?.to_dtype(DType::F32)?;
            merged.push((linear.weight.name.to_string(), wide?.to_dtype(weight.dtype())?));
        }
        Ok(merged)
    }

    /// Room for the keys and values of `rows` sequences of up to `slots` tokens.
    ///
    /// # Errors
    /// No memory.
    pub fn cache(&self, rows: usize, slots: usize) -> Result<KvCache> {
        self.cache_with(Room { rows, slots, added: None }, |_| Past::All)
    }

    /// The same for decoding up to `added` tokens, one by one, after [what rows continue](KvCache::continue_from): on
    /// the CPU there is room for little more than these, and in layers with a window for little more than that.
    ///
    /// # Errors
    /// No memory.
    pub fn decoding_cache(&self, rows: usize, slots: usize, added: usize) -> Result<KvCache> {
        let past = |kind: LayerKind| kind.window().map_or(Past::All, Past::Window);
        self.cache_with(Room { rows, slots, added: Some(added) }, past)
    }

    fn cache_with(&self, room: Room, of_attention: impl Fn(LayerKind) -> Past) -> Result<KvCache> {
        let (heads, like) = (heads(&self.architecture), &self.norm.weight.values);
        let past = |kind: &LayerKind| match (kind, self.architecture.delta) {
            (LayerKind::Delta, Some(sizes)) => Past::State(sizes),
            _ => of_attention(*kind),
        };
        let layers = self.architecture.layers.iter().map(past);
        KvCache::new(&self.backend, layers, heads, room, like)
    }

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
        mut cache: Option<&mut KvCache>,
    ) -> Result<Tensor> {
        self.check(ids, packed)?;
        match &self.backend {
            // Inside the pool of threads, so that no operation waits to get there.
            AnyBackend::Cpu(cpu) => rayon::scope(|_| run::on_cpu(self, cpu, ids, packed, cache)),
            AnyBackend::Gpu(gpu) => {
                let slots = room::grown(cache.as_deref_mut(), packed)?;
                let pass = run::pass(self, gpu, packed, slots)?;
                let mut layers =
                    cache.map(|cache| Gpu::layers(cache, packed.all().len())).transpose()?;
                let scale = self.architecture.embedding_scale;
                let mut stream = gpu.embed(&self.embedding, ids, scale)?;
                run::layers(self, gpu, &pass, &mut stream, layers.as_deref_mut())?;
                run::last_norm(self, gpu, &mut stream)
            }
        }
    }

    /// The same without a cache, and what [`Decoder::backward`] reads; `number` is that of a training pass, which
    /// keys what adapters drop.
    pub(crate) fn forward(
        &self,
        ids: &[u32],
        packed: &PackedSequences,
        number: Option<u64>,
    ) -> Result<(Tensor, Trace)> {
        self.check(ids, packed)?;
        match &self.backend {
            AnyBackend::Cpu(cpu) => {
                let found = rayon::scope(|_| run::forward(self, cpu, ids, packed, number))?;
                Ok((found.0, Trace::Cpu(found.1)))
            }
            AnyBackend::Gpu(gpu) => {
                let (hidden, saved) = run::forward(self, gpu, ids, packed, number)?;
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

    fn check(&self, ids: &[u32], packed: &PackedSequences) -> Result<()> {
        if ids.len() != packed.tokens() {
            bail!("{} tokens where the segments have {}", ids.len(), packed.tokens());
        }
        Ok(())
    }

    /// `[rows, D]` with the rows of `x` added at `places`: the gradient of picking rows.
    pub(crate) fn scatter(&self, x: &Tensor, places: &[u32], rows: usize) -> Result<Tensor> {
        on_backend!(&self.backend, backend => backend.scatter(x, places, rows))
    }

    /// Log-probabilities of `targets` and entropies for hidden states `[N, D]`, and so many of the likeliest tokens.
    pub(crate) fn logp(
        &self,
        hidden: &Tensor,
        targets: (&[u32], f64),
        likeliest: usize,
    ) -> Result<TokenLogp<LogpTrace>> {
        match &self.backend {
            AnyBackend::Cpu(cpu) => {
                Ok(cpu.logp(hidden, &self.head, targets, likeliest)?.map(LogpTrace::Cpu))
            }
            AnyBackend::Gpu(gpu) => {
                Ok(gpu.logp(hidden, &self.head, targets, likeliest)?.map(LogpTrace::Gpu))
            }
        }
    }

    /// This model's distributions at some places, for another's to be compared with: hidden states `[N, D]` there, and
    /// the logarithms `[N]` of what `exp(logit / temperature)` adds up to.
    pub(crate) fn anchor(&self, [hidden, log_mass]: [Tensor; 2], divergence: Divergence) -> Anchor {
        Anchor { head: self.head.clone(), hidden, log_mass, divergence }
    }

    /// How far the distributions are from an anchor's.
    pub(crate) fn divergences(
        &self,
        hidden: &Tensor,
        targets: (&[u32], f64),
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
        targets: (&[u32], f64),
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

    /// Logits `[N, V]` of hidden states `[N, D]`, in f32.
    ///
    /// # Errors
    /// No memory.
    pub fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        on_backend!(&self.backend, backend => backend.logits(hidden, &self.head))
    }

    /// The same values on the CPU, in memory that goes back for the next.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn logits_on_cpu(&self, hidden: &Tensor) -> Result<Buffer> {
        match &self.backend {
            AnyBackend::Cpu(cpu) => cpu.pooled_logits(hidden, &self.head),
            AnyBackend::Gpu(gpu) => {
                Ok(gpu.logits(hidden, &self.head)?.flatten_all()?.to_vec1()?.into())
            }
        }
    }
}
