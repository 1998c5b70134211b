//! Gradient descent on exact losses.

use anyhow::Result;
use candle_core::{Device, Tensor};

use super::Table;

/// The settings of gradient descent on the exact loss.
#[derive(Debug, Clone, Copy)]
pub struct Descent {
    /// Most steps of Adam.
    pub iterations: usize,
    /// Its learning rate at the start; it falls to 0 in a straight line.
    pub learning_rate: f64,
}

impl Default for Descent {
    fn default() -> Self {
        Self { iterations: 6000, learning_rate: 0.03 }
    }
}

impl Descent {
    /// Follows `gradient` from where the table is; stops early where it has vanished.
    pub fn run(
        self,
        table: &Table,
        mut gradient: impl FnMut(&Table) -> Result<Vec<f64>>,
    ) -> Result<()> {
        let shape = table.logits.shape().clone();
        let set = |logits: &[f64]| -> Result<()> {
            Ok(table.logits.set(&Tensor::from_slice(logits, &shape, &Device::Cpu)?)?)
        };
        let mut logits: Vec<f64> = table.logits.flatten_all()?.to_vec1()?;
        self.follow(&mut logits, |logits| {
            set(logits)?;
            gradient(table)
        })?;
        set(&logits)
    }

    /// The same for any parameters: `gradient` is told where they are.
    pub(super) fn follow(
        self,
        parameters: &mut [f64],
        mut gradient: impl FnMut(&[f64]) -> Result<Vec<f64>>,
    ) -> Result<()> {
        // Adam's own constants, as in the field notes' tables. Where nearly all mass is on one output
        // the last digits of what is left (KL(p* || q), U_256) need more iterations.
        let (decay_1, decay_2) = (0.9_f64, 0.999_f64);
        let (mut first, mut second) = (vec![0.0; parameters.len()], vec![0.0; parameters.len()]);
        for step in 1..=self.iterations {
            let slope = gradient(parameters)?;
            if slope.iter().all(|slope| slope.abs() < 1e-10) {
                break;
            }
            let left = 1.0 - (step - 1) as f64 / self.iterations as f64;
            let rate = self.learning_rate * left;
            let (scale_1, scale_2) =
                (1.0 - decay_1.powi(step as i32), 1.0 - decay_2.powi(step as i32));
            for (index, slope) in slope.into_iter().enumerate() {
                first[index] = decay_1 * first[index] + (1.0 - decay_1) * slope;
                second[index] = decay_2 * second[index] + (1.0 - decay_2) * slope * slope;
                let size = (second[index] / scale_2).sqrt() + 1e-8;
                parameters[index] -= rate * first[index] / scale_1 / size;
            }
        }
        Ok(())
    }
}
