//! The launches of a self-check: each function works a few tokens through the kernels of one part of a model.

use candle_core::{DType, Device, Result, Tensor};

use super::{DeltaShapes, Shapes, comparison};
use crate::kernels::{
    self, AdamW, Delta, DeltaRun, Gain, Gate, Heads, Run, Runs, SampleArgs, Taps,
};
use crate::products::{product, wide_product};
use crate::sizes::{ELEMENTS, PART, SQUARES};
use crate::workspace::{Array, Destination, Workspace};

/// Tokens of most launches.
const TOKENS: usize = 5;

/// Every kernel that a model of these sizes needs.
pub(super) fn all(device: &Device, shapes: &Shapes) -> Result<()> {
    let on = On { device, shapes };
    on.products()?;
    on.norms()?;
    on.elementwise()?;
    on.gates()?;
    for heads in [shapes.heads].iter().chain(&shapes.other_heads) {
        on.attention(*heads)?;
    }
    on.output()?;
    on.optimizer()?;
    match &shapes.delta {
        None => Ok(()),
        Some(delta) => on.delta(delta),
    }
}

/// A device, and the sizes to use it at.
struct On<'a> {
    device: &'a Device,
    shapes: &'a Shapes,
}

impl On<'_> {
    /// Values of no meaning; `by` tells tensors apart.
    fn wave(&self, shape: &[usize], by: f64, dtype: DType) -> Result<Tensor> {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|i| (1.3 * (i as f64 * by + by).sin()) as f32).collect();
        Tensor::from_vec::<_, f32>(values, shape, &Device::Cpu)?
            .to_dtype(dtype)?
            .to_device(self.device)
    }

    /// Activations.
    fn x(&self, shape: &[usize], by: f64) -> Result<Tensor> {
        self.wave(shape, by, self.shapes.dtype)
    }

    fn single(&self, shape: &[usize], by: f64) -> Result<Tensor> {
        self.wave(shape, by, DType::F32)
    }

    fn numbers(&self, values: &[u32]) -> Result<Tensor> {
        Tensor::from_slice(values, values.len(), self.device)
    }

    /// The device's own products, which are no kernels of ours: in the type of activations, and to f32.
    fn products(&self) -> Result<()> {
        let (x, w) = (
            self.x(&[TOKENS, self.shapes.hidden], 0.37)?,
            self.x(&[self.shapes.inner, self.shapes.hidden], 0.11)?,
        );
        let on_cpu = |x: &Tensor| x.to_device(&Device::Cpu)?.to_dtype(DType::F32);
        let exact = on_cpu(&x)?.matmul(&on_cpu(&w)?.t()?)?;
        let compare = |name: &str, ours: Array| comparison::compare(name, ours.tensor(), &exact);
        compare("product", product(&x, &w)?)?;
        compare("product to float32", wide_product(&x, &w)?)?;
        let Some(workspace) = Workspace::new(self.device, TOKENS) else { return Ok(()) };
        // As a decoding step has them: the second time in the memory of the first.
        for _ in 0..2 {
            let x = Array::in_workspace(x.clone(), Some(workspace.clone()));
            compare("product in a workspace", product(&x, &w)?)?;
            compare("product to float32 in a workspace", wide_product(&x, &w)?)?;
            let at = Destination { device: self.device, workspace: Some(&workspace) };
            let values: Vec<f32> = (0..TOKENS).map(|i| (i as f32).cos()).collect();
            let expected = Tensor::from_slice(&values, TOKENS, &Device::Cpu)?;
            let copied = at.upload(values, TOKENS)?;
            comparison::compare("copy to a workspace", copied.tensor(), &expected)?;
        }
        Ok(())
    }

    fn norms(&self) -> Result<()> {
        let shape = [TOKENS, self.shapes.hidden];
        let (x, y, dx) = (self.x(&shape, 0.37)?, self.x(&shape, 0.9)?, self.x(&shape, 0.5)?);
        let weight = self.x(&[self.shapes.hidden], 0.11)?;
        let gain = Gain { weight: &weight, offset: 0.5, eps: 1e-5 };
        kernels::add_norm(&x, None, gain)?;
        kernels::add_norm(&x, Some(&y), gain)?;
        let sums = self.single(&[self.shapes.hidden], 0.2)?;
        kernels::norm_back(&x, gain, &y, &dx, Some(&sums))
    }

    /// Sums, copies, positions; more rows than one part of a sum over tokens.
    fn elementwise(&self) -> Result<()> {
        let hidden = self.shapes.hidden;
        let (x, y) = (self.x(&[TOKENS, hidden], 0.7)?, self.x(&[TOKENS, hidden], 0.3)?);
        kernels::add(&x, &y)?;
        kernels::add_bias(&x, &self.x(&[hidden], 0.4)?)?;
        let (z, wide) = (self.x(&[TOKENS, 7], 0.8)?, self.x(&[hidden], 0.9)?);
        kernels::add_biases([(&x, &wide), (&y, &wide), (&z, &self.x(&[7], 0.2)?)])?;
        let long = self.x(&[PART + 3, hidden], 0.21)?;
        kernels::column_sums(&long, &self.single(&[hidden], 0.8)?)?;
        kernels::add_to(&self.single(&[ELEMENTS + 7], 0.1)?, &self.x(&[ELEMENTS + 7], 0.6)?)?;
        kernels::narrow(&self.single(&[ELEMENTS + 7], 0.1)?, &self.x(&[ELEMENTS + 7], 0.6)?)?;
        let long = self.x(&[ELEMENTS + 7], 0.2)?;
        kernels::scaled(&long, 0.7)?;
        kernels::columns(&x, hidden, 1..hidden - 1)?;
        kernels::joined(&[&x, &z], &[hidden, 7])?;
        kernels::store_rows(&x, &self.x(&[9, hidden], 0.1)?, &self.numbers(&[7, 0, 3, 8, 2])?)?;
        kernels::pick_rows(&x, &self.numbers(&[3, 0, 3, 4])?, 1.7, self.device.into())?;
        kernels::embedding_back(&x, &[4, 0, 4, 2, 4], &self.single(&[6, hidden], 0.3)?)?;
        let [heads, keys, dim] = self.shapes.heads;
        let turned = self.x(&[TOKENS, heads * dim], 0.4)?;
        let angles = self.single(&[TOKENS, self.shapes.pairs], 0.2)?;
        let (cos, sin) = (angles.cos()?, angles.sin()?);
        kernels::rope(&turned, dim, [&cos, &sin], false)?;
        kernels::rope(&turned, dim, [&cos, &sin], true)?;
        let kv = |rows, by| self.x(&[rows, keys * dim], by);
        let other = self.single(&[TOKENS, self.shapes.pairs], 0.5)?;
        kernels::rope_store(
            [&turned, &kv(TOKENS, 0.3)?, &kv(TOKENS, 0.6)?],
            Heads { queries: heads, keys, dim },
            [&[cos, sin], &[other.cos()?, other.sin()?]],
            [&kv(9, 0.1)?, &kv(9, 0.2)?],
            &self.numbers(&[7, 0, 3, 8, 2])?,
        )
    }

    fn gates(&self) -> Result<()> {
        let shape = [TOKENS, self.shapes.inner];
        for gate in Gate::ALL {
            let (x, up, grad) = (self.x(&shape, 0.3)?, self.x(&shape, 0.8)?, self.x(&shape, 0.2)?);
            kernels::gated(&x, &up, gate)?;
            kernels::gated_back(&x, &up, &grad, gate)?;
        }
        Ok(())
    }

    /// A prefix with two suffixes, forward and backward, and a row of a cache.
    fn attention(&self, [queries, keys, dim]: [usize; 3]) -> Result<()> {
        let (heads, scale) = (Heads { queries, keys, dim }, 1.0 / (dim as f64).sqrt());
        let run = |first, tokens, past, until| Run {
            first,
            tokens,
            sees: past + 1,
            start: if past > 0 { 0 } else { first },
            split: if past > 0 { past } else { tokens },
            rest: first,
            until,
        };
        // On tensor cores, whose groups are larger, more than one group and one tile of keys.
        let is_long = self.shapes.dtype == DType::BF16 && crate::has_tensor_cores(self.device);
        let [prefix, suffix] = if is_long { [130, 5] } else { [4, 2] };
        let tokens = prefix + suffix + 1;
        let runs = [
            run(0, prefix, 0, tokens),
            run(prefix, suffix, prefix, tokens - 1),
            run(tokens - 1, 1, prefix, tokens),
        ];
        let runs = Runs::new(&runs, heads, scale)?;
        let rows = |heads: usize, by| self.x(&[tokens, heads * dim], by);
        let (q, grad) = (rows(queries, 0.37)?, rows(queries, 0.29)?);
        let (k, v) = (rows(keys, 0.71)?, rows(keys, 0.13)?);
        for window in [None, self.shapes.window] {
            let (out, sums) = kernels::attention(&q, &k, &v, &runs, window)?;
            kernels::attention_back([&q, &k, &v], [&out, &sums], &grad, &runs, window)?;
        }
        // One token after 40 in the second row of a cache of 45 slots: more keys than one tile.
        let run = Run { first: 0, tokens: 1, sees: 41, start: 45, split: 45, rest: 0, until: 1 };
        let runs = Runs::new(&[run], heads, scale)?;
        let cache = |by| self.x(&[90, keys * dim], by);
        kernels::attention(&q.narrow(0, 0, 1)?, &cache(0.3)?, &cache(0.6)?, &runs, None)?;
        Ok(())
    }

    /// Log-probabilities and their gradient, samples.
    fn output(&self) -> Result<()> {
        let vocabulary = self.shapes.vocabulary;
        let logits = (self.single(&[3, vocabulary], 1.7)? * 4.0)?;
        let last = vocabulary as u32 - 1;
        let targets = self.numbers(&[0, last / 2, last])?;
        let sums = kernels::logp(&logits, &targets, 0.7)?;
        let known = (&sums.sums, &self.single(&[3], 0.9)?);
        kernels::logits_grad(&logits, &targets, known, 0.7, self.shapes.dtype)?;
        self.samples()
    }

    /// Every filter alone and all of them, on a few likely tokens, some of which are equally likely: a token must be
    /// the CPU's, and between these no rounding of `exp` decides.
    fn samples(&self) -> Result<()> {
        let vocabulary = self.shapes.vocabulary;
        let mut logits =
            self.single(&[2, vocabulary], 1.7)?.to_device(&Device::Cpu)?.to_vec2::<f32>()?;
        for row in &mut logits {
            for (rank, at) in (1..vocabulary).step_by(vocabulary.div_ceil(13)).enumerate() {
                row[at] = 16.0 + 0.375 * (rank % 5) as f32;
            }
        }
        let logits = Tensor::new(logits, self.device)?;
        let uniform = Tensor::new(&[0.05f32, 0.5, 0.95], self.device)?;
        let (tokens, logp) = (self.numbers(&[0; 3])?, uniform.zeros_like()?);
        for draw in [
            SampleArgs::whole(0.0),
            SampleArgs::whole(1.0),
            SampleArgs { top_k: 4, ..SampleArgs::whole(1.0) },
            SampleArgs { top_p: 0.8, ..SampleArgs::whole(1.0) },
            SampleArgs { min_p: 0.4, ..SampleArgs::whole(1.0) },
            SampleArgs { temperature: 0.7, top_k: 7, top_p: 0.9, min_p: 0.3 },
        ] {
            kernels::sample(&logits, Some(&[1, 0, 1]), &uniform, draw, [&tokens, &logp])?;
        }
        let two = |x: &Tensor| x.narrow(0, 0, 2);
        let (tokens, logp) = (two(&tokens)?, two(&logp)?);
        kernels::sample(&logits, None, &two(&uniform)?, SampleArgs::whole(1.0), [&tokens, &logp])
    }

    fn optimizer(&self) -> Result<()> {
        let x = |by| self.single(&[ELEMENTS + 7], by);
        let (weight, mean, square, gradient) = (x(0.3)?, x(0.7)?, x(0.2)?.sqr()?, x(0.5)?);
        let step = AdamW {
            scale: 0.5,
            beta1: [0.9, 0.1],
            beta2: [0.99, 0.01],
            rate: 0.02,
            correct_2: 3.0,
            epsilon: 1e-3,
            keep: 0.98,
        };
        kernels::adamw(step, &weight, [&mean, &square], &gradient)?;
        kernels::squares(&[&gradient, &self.single(&[SQUARES + 5], 0.4)?])?;
        Ok(())
    }

    /// The convolution and the rule over a run, one that goes on from it, and a cache.
    fn delta(&self, delta: &DeltaShapes) -> Result<()> {
        let ([key_heads, value_heads], [key_dim, value_dim]) = (delta.heads, delta.dims);
        let mixed = 2 * key_heads * key_dim + value_heads * value_dim;
        let run = |tokens, after, goes_on| DeltaRun { tokens, after, goes_on };
        let runs = [run(0..3, None, false), run(3..TOKENS, Some(0), false)];
        let x = self.x(&[TOKENS, mixed], 0.37)?;
        let (kernel, grad) =
            (self.x(&[mixed, 1, delta.taps], 0.9)?, self.x(&[TOKENS, mixed], 0.6)?);
        let taps = Taps::new(&runs, TOKENS, delta.taps, false, self.device)?;
        kernels::convolution(&x, &kernel, &taps, None)?;
        let sums = self.single(&[mixed * delta.taps], 0.3)?;
        kernels::convolution_back(&x, &kernel, &taps, &grad, Some(&sums))?;
        let cached = [run(0..3, None, true), run(3..TOKENS, None, false)];
        let past = self.x(&[2, (delta.taps - 1) * mixed], 0.8)?;
        let taps = Taps::new(&cached, TOKENS, delta.taps, true, self.device)?;
        kernels::convolution(&x, &kernel, &taps, Some(&past))?;

        let (b, a) = (self.x(&[TOKENS, value_heads], 0.9)?, self.x(&[TOKENS, value_heads], 0.5)?);
        let (a_log, bias) = (self.x(&[value_heads], 0.3)?, self.x(&[value_heads], 0.7)?);
        let rule = Delta { key_heads, value_heads, key_dim, value_dim, weights: [&a_log, &bias] };
        let grad = self.x(&[TOKENS, value_heads * value_dim], 0.61)?;
        kernels::delta_rule(rule, [&x, &b, &a], &runs, None)?;
        kernels::delta_back(rule, [&x, &b, &a], &runs, &grad)?;
        let states = self.single(&[2, value_heads * key_dim * value_dim], 0.4)?;
        kernels::delta_rule(rule, [&x, &b, &a], &cached, Some(&states))?;
        Ok(())
    }
}
