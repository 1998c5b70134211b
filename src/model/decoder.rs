//! Token ids to hidden states to logits.
//!
//! Stateless: the cache is an argument. `hidden` and `logits` are apart because the logits of a
//! whole batch, `[B, T, V]`, are the peak of memory; callers project only what they need.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{DType, Result, Tensor, bail};

use super::lora::{LowRank, Scaling};
use super::ops::{self, Linear, View};
use super::pool::Pool;
use super::rope::{Angles, RopeTable};
use super::{Architecture, KvCache, Path, Spans, gpu, host, lora};

/// The transformer. B sequences, T tokens, D hidden size, V vocabulary.
#[derive(Debug, Clone)]
pub struct Decoder {
    pub(super) architecture: Architecture,
    pub(super) embedding: Tensor,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Tensor,
    head: Linear,
    /// On a GPU the output layer's weight as it was when this was made, in f32.
    wide_head: Option<Tensor>,
    pub(super) rope: Arc<RopeTable>,
    /// What passes on the CPU leave, shared by clones.
    pub(super) shared: Arc<host::Shared>,
    /// Keep the input of each layer alone for the backward pass, and compute the rest again.
    pub(super) recomputes: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Layer {
    /// What the names of its weights begin with.
    pub(super) prefix: String,
    pub(super) input_norm: Tensor,
    pub(super) q: Linear,
    pub(super) k: Linear,
    pub(super) v: Linear,
    pub(super) output: Linear,
    pub(super) qk_norm: Option<[Tensor; 2]>,
    pub(super) post_norm: Tensor,
    pub(super) gate: Linear,
    pub(super) up: Linear,
    pub(super) down: Linear,
}

impl Decoder {
    /// Puts the decoder together from weights under the names of [`Architecture::tensors`].
    ///
    /// # Errors
    /// Whatever `weight` fails with.
    pub fn new(
        architecture: &Architecture,
        mut weight: impl FnMut(&str) -> Result<Tensor>,
    ) -> Result<Self> {
        let embedding = weight("model.embed_tokens.weight")?;
        let layers = (0..architecture.num_layers)
            .map(|index| {
                let prefix = format!("model.layers.{index}.");
                Layer::new(architecture, prefix.clone(), |name| weight(&format!("{prefix}{name}")))
            })
            .collect::<Result<_>>()?;
        let head = if architecture.tied_embeddings {
            embedding.clone()
        } else {
            weight("lm_head.weight")?
        };
        Ok(Self {
            architecture: architecture.clone(),
            embedding,
            layers,
            norm: weight("model.norm.weight")?,
            head: Linear::new(head, None, architecture.precision),
            wide_head: None,
            rope: Arc::new(RopeTable::new(architecture)),
            shared: Arc::new(host::Shared::within(Arc::default())),
            recomputes: false,
        })
    }

    /// How it is put together.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The embedding, whose dtype and device the whole decoder shares.
    pub fn embedding(&self) -> &Tensor {
        &self.embedding
    }

    /// The same decoder with its weights as they are now packed for sampling: another copy of them, on a
    /// CPU with our products; on a GPU with its output layer in f32, in which logits are.
    ///
    /// # Errors
    /// No memory.
    pub fn ready(&self) -> Result<Self> {
        match self.path() {
            Path::Graph => return Ok(self.clone()),
            Path::Gpu => {
                let wide = self.head.weight.detach().to_dtype(DType::F32)?;
                return Ok(Self { wide_head: Some(wide), ..self.clone() });
            }
            Path::Host => {}
        }
        let pool = &self.shared.pool;
        let layers = self.layers.iter().map(|layer| layer.ready(pool)).collect::<Result<_>>()?;
        Ok(Self { layers, head: self.head.ready(pool)?, ..self.clone() })
    }

    /// The same decoder, whose backward pass on the CPU computes every layer again instead of keeping what it
    /// computed: a third more arithmetic, a fraction of the memory.
    #[must_use]
    pub fn recomputing(self) -> Self {
        Self { recomputes: true, ..self }
    }

    /// The same decoder with an adapter on every projection that `part` has matrices A and B for, by the
    /// projection's name.
    ///
    /// # Errors
    /// Matrices that do not fit; whatever `part` fails with.
    pub fn adapted(
        mut self,
        scaling: &Scaling,
        mut part: impl FnMut(&str) -> Result<Option<[Tensor; 2]>>,
    ) -> Result<Self> {
        for layer in &mut self.layers {
            let prefix = layer.prefix.clone();
            for (module, linear) in lora::MODULES.iter().zip(layer.linears_mut()) {
                let name = format!("{prefix}{module}");
                let Some([a, b]) = part(&name)? else { continue };
                let (out, inner) = linear.weight.dims2()?;
                if a.dims2()?.1 != inner || b.dims2()?.0 != out {
                    bail!(
                        "adapter of `{name}`: A {:?} and B {:?} do not fit {:?}",
                        a.dims(),
                        b.dims(),
                        (out, inner)
                    );
                }
                linear.adapter = Some(LowRank::new(a, b, scaling, &name)?);
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
        for layer in &self.layers {
            for (module, linear) in lora::MODULES.iter().zip(layer.linears()) {
                let Some(adapter) = &linear.adapter else { continue };
                let weight = linear.weight.detach();
                let wide =
                    weight.to_dtype(DType::F32)? + adapter.product()?.to_dtype(DType::F32)?;
                let name = format!("{}{module}.weight", layer.prefix);
                merged.push((name, wide?.to_dtype(weight.dtype())?));
            }
        }
        Ok(merged)
    }

    /// Rows `places` of hidden states `[N, D]`; one may be named several times.
    pub(crate) fn rows(&self, hidden: &Tensor, places: Vec<u32>) -> Result<Tensor> {
        if self.path() == Path::Gpu && hidden.track_op() {
            return gpu::rows(hidden, places);
        }
        let count = places.len();
        hidden.index_select(&Tensor::from_vec(places, count, hidden.device())?, 0)
    }

    /// A weight that is trained, where any is.
    pub(super) fn trained(&self) -> Option<&Tensor> {
        let adapters = self.layers.iter().flat_map(Layer::linears);
        let adapters = adapters.filter_map(|linear| linear.adapter.as_ref().map(|own| &own.a));
        [&self.embedding].into_iter().chain(adapters).find(|weight| weight.track_op())
    }

    /// Numbers training passes from `first` on, which keys what adapters drop.
    pub(crate) fn set_dropout_seed(&self, first: u64) {
        self.shared.passes.store(first, std::sync::atomic::Ordering::Relaxed);
    }

    /// The same decoder, which shares what memory passes leave with `other`.
    #[must_use]
    pub fn beside(self, other: &Self) -> Self {
        let shared = Arc::new(host::Shared::within(other.shared.pool.clone()));
        Self { shared, ..self }
    }

    /// The memory that passes leave.
    pub(crate) fn pool(&self) -> Arc<Pool> {
        self.shared.pool.clone()
    }

    /// Takes out the gradients that backward passes left here, on the host or on a GPU: none where Candle's graph
    /// holds them.
    pub(crate) fn take_gradients(&self) -> (BTreeMap<String, Vec<f32>>, BTreeMap<String, Tensor>) {
        let host = self.shared.sums.lock().expect("no panic while the lock is held").take();
        let mut device = self.shared.on_device.lock().expect("no panic while the lock is held");
        (host, std::mem::take(&mut *device))
    }

    /// The name of the output layer's weight.
    fn head_name(&self) -> &'static str {
        match self.architecture.tied_embeddings {
            true => "model.embed_tokens.weight",
            false => "lm_head.weight",
        }
    }

    /// Adds to the gradient of the output layer's weight on a GPU.
    pub(crate) fn add_head_gradient_on_gpu(&self, gradient: &Tensor) -> Result<()> {
        let mut sums = self.shared.on_device.lock().expect("no panic while the lock is held");
        let head = &self.head.weight;
        let sum = gpu::sum_of(&mut sums, self.head_name(), head.shape(), head.device())?;
        tealight_gpu::kernels::add_to(&sum, gradient)
    }

    /// Lets `work` add to the gradient of the output layer's weight.
    pub(crate) fn add_head_gradient(&self, work: impl FnOnce(&mut [f32])) {
        let mut sums = self.shared.sums.lock().expect("no panic while the lock is held");
        work(sums.of(self.head_name(), self.head.weight.elem_count()));
    }

    /// Bytes of the packed weights of all layers, where they are packed.
    pub(super) fn ready_bytes(&self) -> Option<usize> {
        self.layers.iter().map(Layer::ready_bytes).sum()
    }

    /// The weight `[V, D]` of the output layer.
    pub fn head(&self) -> &Tensor {
        &self.head.weight
    }

    /// Hidden states `[N, D]`, after the last norm, of `ids` u32 `[N]`, the tokens of all `spans`.
    ///
    /// With a cache, the tokens of span `i` continue what its row `i` holds and are added to it.
    ///
    /// # Errors
    /// Ids beyond the vocabulary or not as many as `spans` say, more tokens than the cache has room for, no
    /// memory.
    pub fn hidden(
        &self,
        ids: &Tensor,
        spans: &Arc<Spans>,
        cache: Option<&KvCache>,
    ) -> Result<Tensor> {
        if ids.dims1()? != spans.tokens() {
            bail!("{} tokens where the spans have {}", ids.dims1()?, spans.tokens());
        }
        // Weights that are trained: their gradient is wanted, and a cache has none.
        let is_trained = self.trained().is_some();
        if is_trained && cache.is_some() {
            bail!("a forward pass with a cache has no gradient");
        }
        match (self.path(), is_trained) {
            (Path::Host, false) => return host::hidden(self, ids, spans, cache),
            (Path::Host, true) => return host::with_grad(self, ids, spans),
            (Path::Gpu, false) => return gpu::hidden(self, ids, spans, cache),
            (Path::Gpu, true) => return gpu::with_grad(self, ids, spans),
            (Path::Graph, _) => {}
        }
        let mut x = self.embedding.index_select(ids, 0)?;
        let angles = self.rope.angles(spans, ids.device())?;
        let view = View::new(spans, cache.map(KvCache::slots), x.dtype(), ids.device())?;
        for (index, layer) in self.layers.iter().enumerate() {
            let cache = cache.map(|cache| (cache, index));
            x = layer.graph(&x, &self.architecture, &angles, &view, cache)?;
        }
        ops::rms_norm(&x, &self.norm, self.architecture.rms_norm_eps)
    }

    /// Logits `[N, V]` of hidden states `[N, D]`; on a GPU in f32, whatever the weights are in,
    /// and without a gradient.
    ///
    /// # Errors
    /// No memory.
    pub fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        if self.path() != Path::Gpu {
            return self.head.apply(hidden);
        }
        let wide = match &self.wide_head {
            Some(wide) => wide.clone(),
            None => self.head.weight.detach().to_dtype(DType::F32)?,
        };
        let hidden = hidden.detach();
        tealight_gpu::product(&hidden.to_dtype(DType::F32)?, &wide.t()?, hidden.dtype())
    }
}

impl Layer {
    fn new(
        architecture: &Architecture,
        prefix: String,
        mut weight: impl FnMut(&str) -> Result<Tensor>,
    ) -> Result<Self> {
        let mut linear = |name: &str, has_bias: bool| -> Result<Linear> {
            let bias = if has_bias { Some(weight(&format!("{name}.bias"))?) } else { None };
            Ok(Linear::new(weight(&format!("{name}.weight"))?, bias, architecture.precision))
        };
        let q = linear("self_attn.q_proj", architecture.qkv_bias)?;
        let k = linear("self_attn.k_proj", architecture.qkv_bias)?;
        let v = linear("self_attn.v_proj", architecture.qkv_bias)?;
        let output = linear("self_attn.o_proj", architecture.output_bias)?;
        let gate = linear("mlp.gate_proj", false)?;
        let up = linear("mlp.up_proj", false)?;
        let down = linear("mlp.down_proj", false)?;
        let qk_norm = if architecture.qk_norm {
            Some([weight("self_attn.q_norm.weight")?, weight("self_attn.k_norm.weight")?])
        } else {
            None
        };
        let input_norm = weight("input_layernorm.weight")?;
        let post_norm = weight("post_attention_layernorm.weight")?;
        Ok(Self { prefix, input_norm, q, k, v, output, qk_norm, post_norm, gate, up, down })
    }

    fn linears(&self) -> [&Linear; 7] {
        [&self.q, &self.k, &self.v, &self.output, &self.gate, &self.up, &self.down]
    }

    fn linears_mut(&mut self) -> [&mut Linear; 7] {
        let Self { q, k, v, output, gate, up, down, .. } = self;
        [q, k, v, output, gate, up, down]
    }

    fn ready_bytes(&self) -> Option<usize> {
        self.linears()
            .iter()
            .map(|linear| linear.ready.as_ref().map(|ready| ready.packed().bytes()))
            .sum()
    }

    fn ready(&self, pool: &Arc<Pool>) -> Result<Self> {
        Ok(Self {
            q: self.q.ready(pool)?,
            k: self.k.ready(pool)?,
            v: self.v.ready(pool)?,
            output: self.output.ready(pool)?,
            gate: self.gate.ready(pool)?,
            up: self.up.ready(pool)?,
            down: self.down.ready(pool)?,
            ..self.clone()
        })
    }

    /// The layer as a graph of Candle's operations.
    fn graph(
        &self,
        x: &Tensor,
        architecture: &Architecture,
        angles: &Angles,
        view: &View,
        cache: Option<(&KvCache, usize)>,
    ) -> Result<Tensor> {
        let eps = architecture.rms_norm_eps;
        let normed = ops::rms_norm(x, &self.input_norm, eps)?;
        let (mut q, mut k) = (self.q.apply(&normed)?, self.k.apply(&normed)?);
        let v = self.v.apply(&normed)?;
        if let Some([q_norm, k_norm]) = &self.qk_norm {
            let per_head = |x: &Tensor, weight: &Tensor| {
                let heads = x.reshape(((), architecture.head_dim))?;
                ops::rms_norm(&heads, weight, eps)?.reshape(x.shape())
            };
            (q, k) = (per_head(&q, q_norm)?, per_head(&k, k_norm)?);
        }
        q = ops::rope(&q, angles, architecture.head_dim)?;
        k = ops::rope(&k, angles, architecture.head_dim)?;
        let attended = match cache {
            Some((cache, layer)) => {
                let (k, v) = cache.extend(layer, &view.spread(&k)?, &view.spread(&v)?, view)?;
                ops::attention(&q, &k, &v, view, architecture)?
            }
            None => ops::attention(&q, &view.spread(&k)?, &view.spread(&v)?, view, architecture)?,
        };
        let x = (x + self.output.apply(&attended)?)?;
        let normed = ops::rms_norm(&x, &self.post_norm, eps)?;
        let wide = ops::swiglu(&self.gate.apply(&normed)?, &self.up.apply(&normed)?)?;
        x + self.down.apply(&wide)?
    }
}
