//! AdamW (Loshchilov and Hutter, arXiv 1711.05101) with f32 state and clipping by global norm.

use std::collections::BTreeMap;

use candle_core::{DType, Result, Tensor, Var};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_gpu::kernels;

use crate::nn::backend::cpu::adamw::{Step, sum_of_squares};
use crate::nn::backend::cpu::with_values_mut;
use crate::nn::policy::{GradAccumulator, Gradient, Policy};

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

/// The optimizer: two moments for each weight and the number of steps taken.
pub struct AdamW {
    config: AdamWConfig,
    steps: usize,
    moments: BTreeMap<String, [Tensor; 2]>,
}

impl AdamW {
    /// An optimizer that has taken no step.
    pub fn new(config: AdamWConfig, weights: &BTreeMap<String, Var>) -> Result<Self> {
        let zeros = |var: &Var| Tensor::zeros(var.shape(), DType::F32, var.device());
        let moments = weights
            .iter()
            .map(|(name, var)| Ok((name.clone(), [zeros(var)?, zeros(var)?])))
            .collect::<Result<_>>()?;
        Ok(Self { config, steps: 0, moments })
    }

    /// The state as tensors, to be saved.
    pub fn state(&self) -> BTreeMap<String, Tensor> {
        let named = |name: &str, kind: &str| format!("{kind}.{name}");
        let both = self.moments.iter().flat_map(|(name, [mean, square])| {
            [(named(name, "exp_avg"), mean.clone()), (named(name, "exp_avg_sq"), square.clone())]
        });
        both.collect()
    }

    /// Continues from a saved state after `steps` steps.
    ///
    /// # Errors
    /// A moment that is missing or of another shape.
    pub fn restore(&mut self, steps: usize, state: &BTreeMap<String, Tensor>) -> Result<()> {
        for (name, moments) in &mut self.moments {
            for (kind, moment) in ["exp_avg", "exp_avg_sq"].into_iter().zip(moments) {
                match state.get(&format!("{kind}.{name}")) {
                    Some(saved) if saved.shape() == moment.shape() => {
                        *moment = saved.to_device(moment.device())?.copy()?;
                    }
                    _ => candle_core::bail!("optimizer state has no fitting `{kind}.{name}`"),
                }
            }
        }
        self.steps = steps;
        Ok(())
    }

    /// Clips `gradients` and takes one step; returns their norm before clipping.
    ///
    /// A norm that is not finite leaves the weights and the state as they are.
    pub(crate) fn step(
        &mut self,
        policy: &Policy,
        gradients: &GradAccumulator,
        learning_rate: f64,
    ) -> Result<f64> {
        let norm = self.update(policy.weights(), gradients, learning_rate)?;
        policy.refresh()?;
        Ok(norm)
    }

    fn update(
        &mut self,
        weights: &BTreeMap<String, Var>,
        gradients: &GradAccumulator,
        learning_rate: f64,
    ) -> Result<f64> {
        let norm = global_norm(weights, gradients)?;
        if !norm.is_finite() {
            return Ok(norm);
        }
        let AdamWConfig { adam_beta1: beta1, adam_beta2: beta2, .. } = self.config;
        let scale = match self.config.max_grad_norm {
            0.0 => 1.0,
            most => (most / (norm + 1e-6)).min(1.0),
        };
        self.steps += 1;
        let correct_1 = 1.0 - beta1.powi(self.steps as i32);
        let correct_2 = 1.0 - beta2.powi(self.steps as i32);
        for (name, var) in weights {
            let Some(gradient) = gradients.get(name) else { continue };
            let moments = self.moments.get_mut(name).expect("one for each weight");
            // Norms and biases do not shrink.
            let decay = if var.rank() < 2 { 0.0 } else { self.config.weight_decay };
            let step = Step {
                scale: scale as f32,
                beta1: [beta1 as f32, (1.0 - beta1) as f32],
                beta2: [beta2 as f32, (1.0 - beta2) as f32],
                rate: (learning_rate / correct_1) as f32,
                correct_2: (1.0 / correct_2) as f32,
                epsilon: self.config.adam_epsilon as f32,
                keep: (1.0 - learning_rate * decay) as f32,
            };
            match gradient {
                Gradient::Cpu(gradient) => on_cpu(step, var, gradient, moments)?,
                Gradient::Gpu(gradient) => on_gpu(step, var, gradient, moments)?,
            }
        }
        Ok(norm)
    }
}

/// One pass over weight, gradient and moments, in place.
fn on_cpu(step: Step, var: &Var, gradient: &[f32], [mean, square]: &[Tensor; 2]) -> Result<()> {
    with_values_mut(var, |weight| {
        with_values_mut(mean, |mean| {
            with_values_mut(square, |square| {
                step.apply(weight, gradient, mean, square);
                Ok(())
            })
        })
    })
}

/// The same by one kernel.
fn on_gpu(step: Step, var: &Var, gradient: &Tensor, [mean, square]: &[Tensor; 2]) -> Result<()> {
    let Step { scale, beta1, beta2, rate, correct_2, epsilon, keep } = step;
    let step = kernels::AdamW { scale, beta1, beta2, rate, correct_2, epsilon, keep };
    kernels::adamw(step, &var.as_detached_tensor(), [mean, square], gradient)
}

/// The Euclidean norm of all gradients together, summed in f64 in the order of names.
fn global_norm(weights: &BTreeMap<String, Var>, gradients: &GradAccumulator) -> Result<f64> {
    let mut sum = 0.0;
    // One wait for the GPU for all that is there.
    let mut on_gpu = Vec::new();
    for gradient in weights.keys().filter_map(|name| gradients.get(name)) {
        match gradient {
            Gradient::Cpu(values) => sum += sum_of_squares(values),
            Gradient::Gpu(gradient) => on_gpu.push(gradient),
        }
    }
    sum += kernels::sum_of_squares(&on_gpu)?;
    Ok(sum.sqrt())
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
        GradAccumulator::of(&[("w", &values)])
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
