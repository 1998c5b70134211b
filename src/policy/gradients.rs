//! Gradients of one step: plain numbers where the layers run on the host, tensors where a graph found them.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{Result, Tensor, Var};

use crate::kernels::cpu::with_values;
use crate::model::Pool;

/// Gradients by weight name. Their memory serves the next step once they are dropped.
#[derive(Default)]
pub struct Gradients {
    host: BTreeMap<String, Vec<f32>>,
    graph: BTreeMap<String, Tensor>,
    pool: Arc<Pool>,
}

/// The gradient of one weight.
pub(crate) enum Gradient<'a> {
    /// Its values in the order of the weight's.
    Host(&'a [f32]),
    /// In the weight's shape.
    Graph(&'a Tensor),
}

impl Gradients {
    /// What the layers summed and what the graph knows, added up.
    pub(crate) fn joined(
        mut host: BTreeMap<String, Vec<f32>>,
        mut graph: BTreeMap<String, Tensor>,
        pool: Arc<Pool>,
    ) -> Result<Self> {
        for (name, sums) in &mut host {
            let Some(more) = graph.remove(name) else { continue };
            with_values(&more, |more| {
                sums.iter_mut().zip(more).for_each(|(sum, x)| *sum += x);
                Ok(())
            })?;
        }
        Ok(Self { host, graph, pool })
    }

    /// The gradient of a weight, where it has one.
    pub(crate) fn get(&self, name: &str) -> Option<Gradient<'_>> {
        let host = self.host.get(name).map(|values| Gradient::Host(values));
        host.or_else(|| self.graph.get(name).map(Gradient::Graph))
    }

    /// All of them as tensors, in the shapes of `weights`.
    pub(super) fn tensors(
        &self,
        weights: &BTreeMap<String, Var>,
    ) -> Result<BTreeMap<String, Tensor>> {
        let mut all = self.graph.clone();
        for (name, values) in &self.host {
            let var = &weights[name];
            all.insert(name.clone(), Tensor::from_slice(values, var.shape(), var.device())?);
        }
        Ok(all)
    }
}

impl Drop for Gradients {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.host).into_values());
    }
}
