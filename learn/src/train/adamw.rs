//! AdamW (Loshchilov and Hutter, arXiv 1711.05101) with f32 state and clipping by global norm.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::bail;
use candle_core::{DType, Result, Tensor, Var};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_gpu::kernels;
use tealight_system::range::{above, at_least};

use tealight_nn::backend::cpu::adamw::{Step, squares};
use tealight_nn::backend::cpu::with_values_mut;
use tealight_nn::model::weights;
use tealight_nn::policy::{GradAccumulator, Gradient, Policy};

/// The optimizer's settings; names and defaults are TRL's, but no weight decay.
#[derive(Debug, Clone, Copy, PartialEq, Args, Serialize, Deserialize)]
pub struct AdamWConfig {
    /// AdamW's beta1: decay rate of the mean of gradients.
    #[arg(long, default_value_t = 0.9, add = at_least(0.0).below(1.0), help_heading = "Optimizer")]
    pub adam_beta1: f64,
    /// AdamW's beta2: decay rate of the mean of squared gradients.
    #[arg(long, default_value_t = 0.999, add = at_least(0.0).below(1.0), help_heading = "Optimizer")]
    pub adam_beta2: f64,
    /// AdamW's epsilon: added to the root of the mean of squared gradients.
    #[arg(long, default_value_t = 1e-8, add = above(0.0).at_most(1.0), help_heading = "Optimizer")]
    pub adam_epsilon: f64,
    /// AdamW's weight decay: each step shrinks weight matrices by this share of the learning rate.
    #[arg(long, default_value_t = 0.0, add = at_least(0.0).at_most(10.0), help_heading = "Optimizer")]
    pub weight_decay: f64,
    /// Clip gradients to this norm. 0 disables clipping.
    #[arg(long, default_value_t = 1.0, add = at_least(0.0).at_most(1e30), help_heading = "Optimizer")]
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

/// The optimizer: two moments for each weight, and the number of steps taken.
pub struct AdamW {
    config: AdamWConfig,
    steps: usize,
    /// Of each weight, in its shape.
    moments: BTreeMap<String, [Tensor; 2]>,
}

impl AdamW {
    /// Bytes of the moments of a weight.
    pub const BYTES_A_WEIGHT: u64 = 8;

    /// An optimizer that has taken no step.
    ///
    /// # Errors
    /// No memory for the moments.
    pub fn new(config: AdamWConfig, weights: &BTreeMap<String, Var>) -> Result<Self> {
        let zeros = |var: &Var| Tensor::zeros(var.shape(), DType::F32, var.device());
        let both = |(name, var): (&String, &Var)| -> Result<_> {
            Ok((name.clone(), [zeros(var)?, zeros(var)?]))
        };
        Ok(Self { config, steps: 0, moments: weights.iter().map(both).collect::<Result<_>>()? })
    }

    /// The moments, by the names that they are saved under: `exp_avg.WEIGHT` and `exp_avg_sq.WEIGHT`, as in PyTorch.
    pub(super) fn state(&self) -> BTreeMap<String, Tensor> {
        let named = |(weight, [mean, square]): (&String, &[Tensor; 2])| {
            [
                (format!("exp_avg.{weight}"), mean.clone()),
                (format!("exp_avg_sq.{weight}"), square.clone()),
            ]
        };
        self.moments.iter().flat_map(named).collect()
    }

    /// Continues after `steps` steps from the state in `file`.
    ///
    /// # Errors
    /// A moment that is missing or of another shape; a file that cannot be read.
    pub fn restore(&mut self, steps: usize, file: &Path) -> anyhow::Result<()> {
        let mut missing: BTreeMap<String, &mut Tensor> = BTreeMap::new();
        for (weight, [mean, square]) in &mut self.moments {
            missing.insert(format!("exp_avg.{weight}"), mean);
            missing.insert(format!("exp_avg_sq.{weight}"), square);
        }
        weights::read_each(file, &mut |name, saved| {
            let fits = missing.get(&name).is_some_and(|moment| moment.shape() == saved.shape());
            if fits && let Some(moment) = missing.remove(&name) {
                *moment = saved.to_dtype(DType::F32)?.to_device(moment.device())?;
            }
            Ok(())
        })?;
        if let Some(name) = missing.keys().next() {
            bail!("{}: optimizer state has no fitting `{name}`", file.display());
        }
        self.steps = steps;
        Ok(())
    }

    /// Clips `gradients` and takes one step. Returns the norm of the gradients before clipping; where it is not finite,
    /// the weights and the state stay as they are.
    pub(crate) fn step(
        &mut self,
        policy: &Policy,
        gradients: &GradAccumulator,
        learning_rate: f64,
    ) -> anyhow::Result<f64> {
        let grad_norm = self.update(policy.weights(), gradients, learning_rate)?;
        policy.refresh()?;
        Ok(grad_norm)
    }

    /// The same without what the policy makes of its weights.
    fn update(
        &mut self,
        weights: &BTreeMap<String, Var>,
        gradients: &GradAccumulator,
        learning_rate: f64,
    ) -> anyhow::Result<f64> {
        let grad_norm = self.norm(gradients)?;
        if !grad_norm.is_finite() {
            return Ok(grad_norm);
        }
        self.steps += 1;
        for (name, moments) in &self.moments {
            let Some(gradient) = gradients.get(name) else { continue };
            let var = &weights[name];
            let step = self.numbers(grad_norm, learning_rate, var.rank());
            let weight = var.as_detached_tensor();
            match gradient {
                Gradient::Cpu(gradient) => on_cpu(step, &weight, gradient, moments)?,
                Gradient::Gpu(gradient) => on_gpu(step, &weight, gradient, moments)?,
            }
        }
        Ok(grad_norm)
    }

    /// The numbers of a step on a weight with so many dimensions.
    fn numbers(&self, grad_norm: f64, learning_rate: f64, rank: usize) -> Step {
        let AdamWConfig { adam_beta1: beta1, adam_beta2: beta2, .. } = self.config;
        let scale = match self.config.max_grad_norm {
            0.0 => 1.0,
            // g min(1, limit / |g|), with PyTorch's 1e-6.
            most => (most / (grad_norm + 1e-6)).min(1.0),
        };
        // Moments start at 0: E[m_t] = (1 - beta1^t) E[g], E[v_t] = (1 - beta2^t) E[g^2].
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

    /// The Euclidean norm of all gradients together: sums of squares of blocks of [`kernels::SQUARES`] values, added in
    /// f64 in the order of names; on the CPU weight by weight.
    fn norm(&self, gradients: &GradAccumulator) -> Result<f64> {
        let mut sum = 0.0;
        // One wait for the GPU for all that is there.
        let mut on_gpu = Vec::new();
        for name in self.moments.keys() {
            match gradients.get(name) {
                Some(Gradient::Cpu(values)) => sum += squares(values).iter().sum::<f64>(),
                Some(Gradient::Gpu(values)) => on_gpu.push(values),
                None => {}
            }
        }
        sum += kernels::squares(&on_gpu)?.iter().sum::<f64>();
        Ok(sum.sqrt())
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
        let mut gradients = GradAccumulator::default();
        let mut write = |sums: &mut [f32]| {
            sums.copy_from_slice(&values);
            Ok(())
        };
        gradients.change(&[("w", &weights()["w"])], &mut write).unwrap();
        gradients
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
            let norm = optimizer.update(&weights, &gradient(given), 0.01).unwrap();
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
        let norm = optimizer.update(&weights, &gradient([f32::NAN, 1.0]), 0.01).unwrap();
        assert!(norm.is_nan());
        assert_eq!(values(&weights), [1.0, -2.0]);
        assert_eq!(optimizer.steps, 0);
    }
}
