//! Convolution and delta rule as operations of the backend.

use candle_core::{Result, bail};

use super::super::packed::KeyRow;
use super::super::{Buffer, Delta, GradAccumulator, Mixing, Parameter};
use super::convolution::Convolution;
use super::delta::{Decay, Rule};
use super::pass::Pass;
use super::slots::{RowLayout, Slots};
use super::{Cpu, with_values};

/// The rows of a pass with a cache; refuses prefixes, which no cache has room for.
fn rows_of_cache(pass: &Pass) -> Result<Vec<KeyRow>> {
    if pass.rows.iter().any(|row| !row.prefix.is_empty()) {
        bail!("a cache of states takes whole sequences or what continues them");
    }
    Ok(pass.rows.clone())
}

/// A layer's states, and what its convolution needs of the past.
fn states<'a>(slots: &'a mut Slots<'_>) -> Result<[&'a mut [f32]; 2]> {
    match slots.layout {
        RowLayout::State(_) => Ok(slots.parts.each_mut().map(|part| &mut **part)),
        RowLayout::Keys(_) => bail!("the cache of this layer is of keys and values"),
    }
}

impl Mixing for Cpu {
    fn convolution(
        &self,
        pass: &Pass,
        x: &Buffer,
        kernel: &Parameter,
        cache: Option<&mut Slots<'_>>,
    ) -> Result<Buffer> {
        let width = kernel.values.dim(0)?;
        let mut out = self.pool.take(x.len());
        with_values(&kernel.values, |kernel| match cache {
            None => {
                let runs = pass.runs();
                Convolution::new(runs, (kernel, width), x, None)
                    .forward(&mut out, self.is_parallel);
                Ok(())
            }
            Some(slots) => {
                let [_, past] = states(slots)?;
                let convolution =
                    Convolution::new(rows_of_cache(pass)?, (kernel, width), x, Some(past));
                convolution.forward(&mut out, self.is_parallel);
                let next = convolution.next_past();
                past[..next.len()].copy_from_slice(&next);
                Ok(())
            }
        })?;
        Ok(out)
    }

    fn convolution_backward(
        &self,
        pass: &Pass,
        x: &Buffer,
        kernel: &Parameter,
        grad: &Buffer,
        grads: &mut GradAccumulator,
    ) -> Result<Buffer> {
        let width = kernel.values.dim(0)?;
        let [mut slopes, mut dx] = [0, 1].map(|_| self.pool.take(x.len()));
        let d_kernel = with_values(&kernel.values, |kernel| {
            let convolution = Convolution::new(pass.runs(), (kernel, width), x, None);
            Ok(convolution.backward(grad, &mut slopes, &mut dx))
        })?;
        if kernel.is_trained {
            // Found as [taps, width], which registers take; the kernel is [width, 1, taps].
            let sums = grads.on_cpu(kernel, &self.pool);
            let taps = sums.len() / width;
            for (tap, columns) in d_kernel.chunks_exact(width).enumerate() {
                columns.iter().enumerate().for_each(|(column, x)| sums[column * taps + tap] += x);
            }
        }
        Ok(dx)
    }

    fn delta_rule(
        &self,
        pass: &Pass,
        delta: &Delta,
        inputs: [&Buffer; 3],
        cache: Option<&mut Slots<'_>>,
    ) -> Result<Buffer> {
        with_decay(delta, |decay| {
            let inputs = inputs.map(|input| &input[..]);
            let rule =
                Rule::new(delta.sizes, &pass.rows, inputs, decay, &self.pool, self.is_parallel);
            let states = match cache {
                None => None,
                Some(slots) => {
                    rows_of_cache(pass)?;
                    let [states, _] = states(slots)?;
                    Some(states)
                }
            };
            Ok(rule.forward(states, &self.pool, self.is_parallel))
        })
    }

    fn delta_rule_backward(
        &self,
        pass: &Pass,
        delta: &Delta,
        inputs: [&Buffer; 3],
        grad: &Buffer,
        grads: &mut GradAccumulator,
    ) -> Result<[Buffer; 3]> {
        let (d_inputs, sums) = with_decay(delta, |decay| {
            let [mixed, b, a] = inputs.map(|input| &input[..]);
            let rule = Rule::new(delta.sizes, &pass.rows, [mixed, b, a], decay, &self.pool, true);
            Ok(rule.backward(grad, [b, a], decay, &self.pool))
        })?;
        for (weight, more) in [&delta.a_log, &delta.dt_bias].into_iter().zip(sums) {
            if weight.is_trained {
                let sums = grads.on_cpu(weight, &self.pool);
                sums.iter_mut().zip(more).for_each(|(sum, x)| *sum += x);
            }
        }
        Ok(d_inputs)
    }
}

fn with_decay<R>(delta: &Delta, read: impl FnOnce(&Decay<'_>) -> Result<R>) -> Result<R> {
    with_values(&delta.a_log.values, |a_log| {
        with_values(&delta.dt_bias.values, |dt_bias| read(&Decay { a_log, dt_bias }))
    })
}
