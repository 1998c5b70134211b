//! A decoder: its weights, put together, packed, adapted and merged; and its output layer.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor, bail};

use super::architecture::{Architecture, LayerKind};
use super::kind::{BackendKind, heads};
use super::kv_cache::{CacheCapacity, KvCache, Past};
use super::layer::Layer;
use super::lora::{LowRank, Scaling};
use super::rope::RopeTable;
use crate::backend::{
    AnyBackend, Backend, Buffer, Norm, OutputLayer, Parameter, RolloutDtype, int8, on_backend,
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
    /// Tables of cosines and sines, one for each of [`Architecture::ropes`].
    pub(super) ropes: Arc<Vec<RopeTable>>,
    /// Keep the input of each layer alone for the backward pass, and compute the rest again.
    pub(super) recomputes: bool,
}

impl Decoder {
    /// Puts the decoder together from weights under the names of [`Architecture::tensors`].
    pub(crate) fn new(
        architecture: &Architecture,
        kind: BackendKind,
        mut weight: impl FnMut(&str) -> Result<Parameter>,
    ) -> Result<Self> {
        let embedding = weight("model.embed_tokens.weight")?;
        let norm = weight("model.norm.weight")?;
        let mut backend = kind.open(architecture, &norm.values)?;
        // Where the base is of 8 bits the lookup is too, and no product is of bfloat16.
        if embedding.values.dtype() == DType::BF16 {
            backend.round_keys();
        }
        let layers = (0..architecture.num_layers)
            .map(|index| {
                Layer::new(architecture, index, |name| {
                    weight(&format!("model.layers.{index}.{name}"))
                })
            })
            .collect::<Result<_>>()?;
        // Tied weights share a name, under which the gradients of both uses add up.
        let head = match architecture.tied_embeddings {
            true => embedding.clone(),
            false => weight("lm_head.weight")?,
        };
        // Rows that pad the vocabulary are no tokens: they take part in no softmax.
        let head = head.first_rows(architecture.output_size)?;
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

    /// The device of its weights.
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
    pub fn prepacked(&self, dtype: Option<RolloutDtype>) -> Result<Self> {
        self.clone().pack(dtype, false)
    }

    /// The same for sampling and log-probabilities alone: of a layer's weights no other copy is kept.
    pub fn packed_alone(self, dtype: Option<RolloutDtype>) -> Result<Self> {
        self.pack(dtype, true)
    }

    fn pack(mut self, dtype: Option<RolloutDtype>, is_alone: bool) -> Result<Self> {
        if dtype == Some(RolloutDtype::Bfloat16) {
            self.backend.round_keys();
        }
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
    pub fn sharing_buffers_with(mut self, other: &Self) -> Self {
        if let (AnyBackend::Cpu(cpu), AnyBackend::Cpu(other)) = (&mut self.backend, &other.backend)
        {
            cpu.pool = other.pool.clone();
        }
        self
    }

    /// The same decoder with an adapter on every projection that `part` has matrices A and B for, by the
    /// projection's name.
    pub fn adapted(
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
    pub fn merged(&self) -> Result<Vec<(String, Tensor)>> {
        let mut merged = Vec::new();
        for linear in self.layers.iter().flat_map(Layer::linears) {
            let Some(adapter) = &linear.adapter else { continue };
            let weight = int8::widened(&linear.weight.values)?;
            // Added in f32 and rounded once: an adapter's part is often below a step of bf16.
            let wide = weight.to_dtype(DType::F32)? + adapter.product()?.to_dtype(DType::F32)?;
            merged.push((linear.weight.name.to_string(), wide?.to_dtype(weight.dtype())?));
        }
        Ok(merged)
    }

    /// Room for the keys and values of `rows` sequences of up to `slots` tokens.
    pub fn cache(&self, rows: usize, slots: usize) -> Result<KvCache> {
        self.cache_with(CacheCapacity { rows, slots, added: None }, |_| Past::All)
    }

    /// The same for decoding up to `added` tokens, one by one, after [what rows continue](KvCache::continue_from): on
    /// the CPU there is room for little more than these, and in layers with a window for little more than that.
    pub fn decoding_cache(&self, rows: usize, slots: usize, added: usize) -> Result<KvCache> {
        let past = |kind: LayerKind| kind.window().map_or(Past::All, Past::Window);
        self.cache_with(CacheCapacity { rows, slots, added: Some(added) }, past)
    }

    fn cache_with(
        &self,
        capacity: CacheCapacity,
        of_attention: impl Fn(LayerKind) -> Past,
    ) -> Result<KvCache> {
        let (heads, like) = (heads(&self.architecture), &self.norm.weight.values);
        let past = |kind: &LayerKind| match (kind, self.architecture.delta) {
            (LayerKind::Delta, Some(sizes)) => Past::State(sizes),
            _ => of_attention(*kind),
        };
        let layers = self.architecture.layers.iter().map(past);
        KvCache::new(&self.backend, layers, heads, capacity, like)
    }

    /// `[rows, D]` with the rows of `x` added at `indices`: the gradient of picking rows.
    pub(crate) fn scatter(&self, x: &Tensor, indices: &[u32], rows: usize) -> Result<Tensor> {
        on_backend!(&self.backend, backend => backend.scatter(x, indices, rows))
    }

    /// Logits `[N, V]` of hidden states `[N, D]`, in f32, of the ids below [`Architecture::output_size`].
    pub fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        on_backend!(&self.backend, backend => backend.logits(hidden, &self.head))
    }

    /// The same values where the CPU computes them, in memory that goes back for the next.
    pub(crate) fn logits_on_cpu(&self, hidden: &Tensor) -> Result<Option<Buffer>> {
        match &self.backend {
            AnyBackend::Cpu(cpu) => cpu.pooled_logits(hidden, &self.head).map(Some),
            AnyBackend::Gpu(_) => Ok(None),
        }
    }
}
