//! Filters of a next-token distribution: what sampling cuts off, and how reports say it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Cuts off unlikely tokens; the default keeps the distribution whole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Filters {
    /// Sample from the k most likely tokens; 0 disables the filter.
    pub top_k: usize,
    /// Keep the most likely tokens up to this mass; 1 keeps all.
    pub top_p: f64,
    /// Drop tokens less likely than this share of the most likely one; 0 drops none.
    pub min_p: f64,
}

impl Default for Filters {
    fn default() -> Self {
        Self { top_k: 0, top_p: 1.0, min_p: 0.0 }
    }
}

impl fmt::Display for Filters {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { top_p, top_k, min_p } = self;
        let parts = [
            (*top_p < 1.0).then(|| format!("top-p {top_p}")),
            (*top_k > 0).then(|| format!("top-k {top_k}")),
            (*min_p > 0.0).then(|| format!("min-p {min_p}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match parts.is_empty() {
            true => write!(out, "no filters (top-p 1, top-k 0, min-p 0)"),
            false => write!(out, "{}", parts.join(", ")),
        }
    }
}

impl Filters {
    /// The filters that cut something off a vocabulary of `size` tokens: without a top-k that keeps all of them.
    pub fn of_vocabulary(self, size: usize) -> Self {
        Self { top_k: if self.top_k >= size { 0 } else { self.top_k }, ..self }
    }

    /// Sets what is cut off to 0 and returns what is left; the largest of `masses` is 1. Sums are in f64: a hundred
    /// thousand masses of 1e-7 beside a 1 would be lost in f32.
    pub fn apply(&self, masses: &mut [f32]) -> f64 {
        let mut order: Vec<usize> = (0..masses.len()).collect();
        order.sort_by(|a, b| masses[*b].total_cmp(&masses[*a]).then(a.cmp(b)));
        let mut keep = if self.top_k == 0 { order.len() } else { self.top_k.min(order.len()) };
        let sum = |ids: &[usize], masses: &[f32]| -> f64 {
            ids.iter().map(|id| f64::from(masses[*id])).sum()
        };
        if self.top_p < 1.0 {
            // A share of what top-k left, as in vLLM.
            let goal = self.top_p * sum(&order[..keep], &*masses);
            let mut mass = 0.0;
            // The token that crosses the goal is kept.
            let below = order[..keep].iter().take_while(|id| {
                let is_below = mass < goal;
                mass += f64::from(masses[**id]);
                is_below
            });
            keep = below.count().max(1);
        }
        // The most likely token has mass 1, so that min-p compares with masses as they are.
        keep = order[..keep].iter().filter(|id| masses[**id] >= self.min_p as f32).count().max(1);
        for id in &order[keep..] {
            masses[*id] = 0.0;
        }
        sum(&order[..keep], &*masses)
    }
}
