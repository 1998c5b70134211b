//! AdamW (Loshchilov and Hutter, arXiv 1711.05101) with f32 state and clipping by global norm.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use anyhow::bail;
use candle_core::{DType, Result, Shape, Tensor, Var};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_gpu::kernels;

use super::shards::{Piece, Shards};
use tealight_nn::backend::cpu::adamw::{SQUARES, Step, squares};
use tealight_nn::backend::cpu::with_values_mut;
use tealight_nn::model::weights;
use tealight_nn::policy::{GradAccumulator, Gradient, Policy};
use tealight_system::ranks::Ranks;

/// The optimizer's settings; names and defaults are TRL's, but no weight decay.
#[derive(Debug, Clone, Copy, PartialEq, Args, Serialize, Deserialize)]
pub struct AdamWConfig {
    /// AdamW's beta1: decay rate of the mean of gradients.
    #[arg(long, default_value_t = 0.9, help_heading = "Optimizer")]
    pub adam_beta1: f64,
    /// AdamW's beta2: decay rate of the mean of squared gradients.
    #[arg(long, default_value_t = 0.999, help_heading = "Optimizer")]
    pub adam_beta2: f64,
    /// AdamW's epsilon: added to the root of the mean of squared gradients.
    #[arg(long, default_value_t = 1e-8, help_heading = "Optimizer")]
    pub adam_epsilon: f64,
    /// AdamW's weight decay: each step shrinks weight matrices by this share of the learning rate.
    #[arg(long, default_value_t = 0.0, help_heading = "Optimizer")]
    pub weight_decay: f64,
    /// Clip gradients to this norm. 0 disables clipping.
    #[arg(long, default_value_t = 1.0, help_heading = "Optimizer")]
    pub max_grad_norm: f64,
}

impl AdamWConfig {
    /// The settings where no option says otherwise.
    pub const DEFAULT: Self = Self {
        adam_beta1: 0.9,
        adam_beta2: 0.999,
        adam_epsilon: 1e-8,
        weight_decay: 0.0,
        max_grad_norm: 1.0,
    };
}

/// What a saved moment is called: its kind, a dot and the weight's name.
const KINDS: [&str; 2] = ["exp_avg", "exp_avg_sq"];

/// The optimizer: two moments for each weight, or for this rank's shard of all weights, and the number of steps taken.
pub struct AdamW {
    config: AdamWConfig,
    steps: usize,
    shards: Shards,
    /// The shapes of all weights.
    shapes: BTreeMap<String, Shape>,
    /// Of each piece of this rank's shard, flat.
    moments: Vec<[Tensor; 2]>,
}

/// A step that was taken, or left out because the norm was not finite.
pub(crate) struct StepTaken {
    /// The norm of the gradient before clipping.
    pub(crate) grad_norm: f64,
    /// Seconds in which ranks gathered the norm and the new weights of all shards.
    pub(crate) gathering_time: f64,
}

impl AdamW {
    /// An optimizer that has taken no step.
    pub fn new(config: AdamWConfig, weights: &BTreeMap<String, Var>) -> Result<Self> {
        Self::sharded(config, weights, &Ranks::alone())
    }

    /// The same, of whose moments each of `ranks` holds a part. All of them take its steps, and save and restore its
    /// state, together.
    pub fn sharded(
        config: AdamWConfig,
        weights: &BTreeMap<String, Var>,
        ranks: &Ranks,
    ) -> Result<Self> {
        let shards = Shards::new(weights, ranks);
        let zeros = |piece: &Piece| {
            let device = weights[&piece.name].device();
            Tensor::zeros(piece.range.len(), DType::F32, device)
        };
        let both = |piece: &Piece| -> Result<[Tensor; 2]> { Ok([zeros(piece)?, zeros(piece)?]) };
        let moments = shards.own().iter().map(both).collect::<Result<_>>()?;
        let shape = |(name, var): (&String, &Var)| (name.clone(), var.shape().clone());
        Ok(Self { config, steps: 0, shards, shapes: weights.iter().map(shape).collect(), moments })
    }

    /// Which rank holds what.
    pub(super) fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Numbers in the moments that this rank holds.
    pub fn held(&self) -> usize {
        self.moments().map(Tensor::elem_count).sum()
    }

    /// The moments that this rank holds.
    pub(super) fn moments(&self) -> impl Iterator<Item = &Tensor> {
        self.moments.iter().flatten()
    }

    /// The tensors of the state, as they are saved: kind, weight and shape, in the order of their names.
    pub(super) fn saved(&self) -> impl Iterator<Item = (usize, &str, &Shape)> {
        // A dot comes before an underscore, so that all of the first kind come first.
        (0..KINDS.len()).flat_map(move |kind| {
            self.shapes.iter().map(move |(name, shape)| (kind, name.as_str(), shape))
        })
    }

    /// The name of a tensor of the state.
    pub(super) fn saved_name(kind: usize, weight: &str) -> String {
        format!("{}.{weight}", KINDS[kind])
    }

    /// The bytes of a tensor of the state, on the first rank; the others send theirs and have none. Where moments are
    /// not sharded each rank has all.
    pub(super) fn gather(&self, kind: usize, weight: &str) -> anyhow::Result<Vec<u8>> {
        let mut own = self.shards.own().iter().zip(&self.moments);
        let own = own.find(|(piece, _)| piece.name == weight);
        let own = own.map(|(piece, moments)| (piece, &moments[kind]));
        self.shards.gather_to_first(self.shapes[weight].elem_count(), own)
    }

    /// Continues after `steps` steps from the state in `file`, of which this rank's shard is kept.
    ///
    /// # Errors
    /// A moment that is missing or of another shape; a file that cannot be read.
    pub fn restore(&mut self, steps: usize, file: &Path) -> anyhow::Result<()> {
        let mut missing: BTreeSet<String> =
            self.saved().map(|(kind, weight, _)| Self::saved_name(kind, weight)).collect();
        let (shapes, pieces) = (&self.shapes, self.shards.own());
        let moments = &mut self.moments;
        weights::read_each(file, &mut |name, saved| {
            let kind = name.split_once('.').and_then(|(kind, weight)| {
                Some((KINDS.iter().position(|known| *known == kind)?, weight))
            });
            let Some((kind, weight)) = kind else { return Ok(()) };
            if shapes.get(weight) != Some(saved.shape()) {
                return Ok(());
            }
            missing.remove(&name);
            if let Some(index) = pieces.iter().position(|piece| piece.name == weight) {
                let moment = &mut moments[index][kind];
                // A view would keep the whole tensor in memory.
                let part = pieces[index].of(&saved)?.force_contiguous()?;
                *moment = part.to_dtype(DType::F32)?.to_device(moment.device())?;
            }
            Ok(())
        })?;
        if let Some(name) = missing.first() {
            bail!("{}: optimizer state has no fitting `{name}`", file.display());
        }
        self.steps = steps;
        Ok(())
    }

    /// Clips `gradients` and takes one step; where moments are sharded, each rank updates the weights of its shard from
    /// the gradients there, and all ranks get all of them.
    ///
    /// A norm that is not finite leaves the weights and the state as they are.
    pub(crate) fn step(
        &mut self,
        policy: &Policy,
        gradients: &GradAccumulator,
        learning_rate: f64,
    ) -> anyhow::Result<StepTaken> {
        let taken = self.update(policy.weights(), gradients, learning_rate)?;
        policy.refresh()?;
        Ok(taken)
    }

    /// The same without what the policy makes of its weights.
    pub(super) fn update(
        &mut self,
        weights: &BTreeMap<String, Var>,
        gradients: &GradAccumulator,
        learning_rate: f64,
    ) -> anyhow::Result<StepTaken> {
        let blocks = self.squares(gradients)?;
        let started = Instant::now();
        let blocks = self.shards.gather_blocks(blocks)?;
        let mut gathering_time = started.elapsed().as_secs_f64();
        let grad_norm = self.norm(gradients, &blocks);
        if !grad_norm.is_finite() {
            return Ok(StepTaken { grad_norm, gathering_time });
        }
        self.steps += 1;
        for (piece, moments) in self.shards.own().iter().zip(&self.moments) {
            let Some(gradient) = gradients.get(&piece.name) else { continue };
            let var = &weights[&piece.name];
            let step = self.numbers(grad_norm, learning_rate, var.rank());
            let weight = piece.of(&var.as_detached_tensor())?;
            match gradient {
                Gradient::Cpu(gradient) => {
                    on_cpu(step, &weight, &gradient[piece.range.clone()], moments)?;
                }
                Gradient::Gpu(gradient) => on_gpu(step, &weight, &piece.of(gradient)?, moments)?,
            }
        }
        let started = Instant::now();
        self.shards.gather(weights, |name| gradients.get(name).is_some())?;
        gathering_time += started.elapsed().as_secs_f64();
        Ok(StepTaken { grad_norm, gathering_time })
    }

    /// The numbers of a step on a weight of this rank.
    fn numbers(&self, grad_norm: f64, learning_rate: f64, rank: usize) -> Step {
        let AdamWConfig { adam_beta1: beta1, adam_beta2: beta2, .. } = self.config;
        let scale = match self.config.max_grad_norm {
            0.0 => 1.0,
            most => (most / (grad_norm + 1e-6)).min(1.0),
        };
        let correct_1 = 1.0 - beta1.powi(self.steps as i32);
        let correct_2 = 1.0 - beta2.powi(self.steps as i32);
        // Norms and biases do not shrink.
        let decay = if rank < 2 { 0.0 } else { self.config.weight_decay };
        Step {
            scale: scale as f32,
            beta1: [beta1 as f32, (1.0 - beta1) as f32],
            beta2: [beta2 as f32, (1.0 - beta2) as f32],
            rate: (learning_rate / correct_1) as f32,
            correct_2: (1.0 / correct_2) as f32,
            epsilon: self.config.adam_epsilon as f32,
            keep: (1.0 - learning_rate * decay) as f32,
        }
    }

    /// The sums of the squares of blocks of this rank's gradients, in order.
    fn squares(&self, gradients: &GradAccumulator) -> Result<Vec<f64>> {
        let mut blocks = Vec::new();
        // One wait for the GPU for all that is there.
        let mut on_gpu = Vec::new();
        for piece in self.shards.own() {
            match gradients.get(&piece.name) {
                Some(Gradient::Cpu(values)) => {
                    blocks.extend(squares(&values[piece.range.clone()]));
                }
                Some(Gradient::Gpu(values)) => on_gpu.push(piece.of(values)?),
                None => {}
            }
        }
        blocks.extend(kernels::squares(&on_gpu.iter().collect::<Vec<_>>())?);
        Ok(blocks)
    }

    /// The Euclidean norm of all gradients together from the sums of the squares of their blocks, added in f64 in the
    /// order of names; on the CPU weight by weight.
    fn norm(&self, gradients: &GradAccumulator, blocks: &[f64]) -> f64 {
        let (mut sum, mut rest) = (0.0, blocks);
        for (name, shape) in &self.shapes {
            if let Some(Gradient::Cpu(_)) = gradients.get(name) {
                let (own, others) = rest.split_at(shape.elem_count().div_ceil(SQUARES));
                sum += own.iter().sum::<f64>();
                rest = others;
            }
        }
        sum += rest.iter().sum::<f64>();
        sum.sqrt()
    }
}

/// One pass over weight, gradient and moments, in place.
fn on_cpu(
    step: Step,
    weight: &Tensor,
    gradient: &[f32],
    [mean, square]: &[Tensor; 2],
) -> Result<()> {
    with_values_mut(weight, |weight| {
        with_values_mut(mean, |mean| {
            with_values_mut(square, |square| {
                step.apply(weight, gradient, mean, square);
                Ok(())
            })
        })
    })
}

/// The same by one kernel.
fn on_gpu(
    step: Step,
    weight: &Tensor,
    gradient: &Tensor,
    [mean, square]: &[Tensor; 2],
) -> Result<()> {
    let Step { scale, beta1, beta2, rate, correct_2, epsilon, keep } = step;
    let step = kernels::AdamW { scale, beta1, beta2, rate, correct_2, epsilon, keep };
    kernels::adamw(step, weight, [mean, square], gradient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    const CONFIG: AdamWConfig = AdamWConfig { weight_decay: 0.1, ..AdamWConfig::DEFAULT };

    fn weights() -> BTreeMap<String, Var> {
        let values = Tensor::new(&[[1.0_f32, -2.0]], &Device::Cpu).unwrap();
        BTreeMap::from([("w".to_owned(), Var::from_tensor(&values).unwrap())])
    }

    fn gradient(values: [f32; 2]) -> GradAccumulator {
        GradAccumulator::from_values(&[("w", &values)])
    }

    fn values(weights: &BTreeMap<String, Var>) -> Vec<f64> {
        let flat = weights["w"].flatten_all().unwrap().to_vec1::<f32>().unwrap();
        flat.into_iter().map(f64::from).collect()
    }

    #[test]
    fn two_steps_equal_the_formula_in_f64() {
        let weights = weights();
        let mut optimizer = AdamW::new(CONFIG, &weights).unwrap();
        let (mut exact, mut mean, mut square) = ([1.0, -2.0_f64], [0.0; 2], [0.0; 2]);
        for (step, given) in [[3.0_f32, 4.0], [0.1, -0.2]].into_iter().enumerate() {
            let taken = optimizer.update(&weights, &gradient(given), 0.01).unwrap();
            let norm = taken.grad_norm;
            let scale = (1.0 / (norm + 1e-6)).min(1.0);
            for i in 0..2 {
                let g = f64::from(given[i]) * scale;
                mean[i] = 0.9 * mean[i] + 0.1 * g;
                square[i] = 0.999 * square[i] + 0.001 * g * g;
                let t = step as i32 + 1;
                let (m, v) =
                    (mean[i] / (1.0 - 0.9_f64.powi(t)), square[i] / (1.0 - 0.999_f64.powi(t)));
                exact[i] = exact[i] * (1.0 - 0.01 * 0.1) - 0.01 * m / (v.sqrt() + 1e-8);
            }
            for (ours, exact) in values(&weights).iter().zip(exact) {
                assert!((ours - exact).abs() < 1e-6, "{ours} is not {exact}");
            }
        }
        assert_eq!(optimizer.steps, 2);
    }

    #[test]
    fn a_gradient_that_is_not_finite_changes_nothing() {
        let weights = weights();
        let mut optimizer = AdamW::new(CONFIG, &weights).unwrap();
        let taken = optimizer.update(&weights, &gradient([f32::NAN, 1.0]), 0.01).unwrap();
        assert!(taken.grad_norm.is_nan());
        assert_eq!(values(&weights), [1.0, -2.0]);
        assert_eq!(optimizer.steps, 0);
    }
}
