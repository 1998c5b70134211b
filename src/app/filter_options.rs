//! The options `--top-k`, `--top-p` and `--min-p` to the filters of next-token distributions.

use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_nn::generate::Filters;
use tealight_system::range::{above, at_least};

/// Which tokens are never sampled.
#[derive(Debug, Clone, Copy, Args, Serialize, Deserialize)]
pub struct FilterOptions {
    /// Sample from the k most likely tokens; 0 disables the filter.
    #[arg(long, default_value_t = 0, add = at_least(0.0).at_most(16_777_216.0), help_heading = "Decoding")]
    pub top_k: usize,
    /// Nucleus sampling: sample from the most likely tokens up to this probability mass; 1 disables the filter.
    #[arg(long, default_value_t = 1.0, add = above(0.0).at_most(1.0), help_heading = "Decoding")]
    pub top_p: f64,
    /// Drop tokens whose probability is below this share of the most likely token's; 0 disables the filter.
    #[arg(long, default_value_t = 0.0, add = at_least(0.0).below(1.0), help_heading = "Decoding")]
    pub min_p: f64,
}

impl From<FilterOptions> for Filters {
    fn from(FilterOptions { top_k, top_p, min_p }: FilterOptions) -> Self {
        Self { top_k, top_p, min_p }
    }
}
