//! Options of servers that sample for a training run.

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::RemoteOptions;
use tealight_learn::objective::ImportanceCorrection;
use tealight_system::range::at_least;

/// Options of the servers that sample for a training run.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct EngineOptions {
    /// Which servers, several separated by commas, and how they are asked.
    #[command(flatten)]
    #[serde(flatten)]
    pub remote: RemoteOptions,
    /// Policy lag in optimizer steps: 0 samples from the current weights, 1 samples the next step while this step
    /// trains.
    #[arg(long, default_value_t = 0, value_name = "STEPS", add = at_least(0.0).at_most(64.0), help_heading = "Engine")]
    pub max_staleness: usize,
    /// Importance correction of samples from a server or from the policy rounded to --rollout-dtype: token-truncate:C,
    /// sequence-mask:C or none [default: sequence-mask:3].
    #[arg(long, value_name = "CORRECTION", help_heading = "Engine")]
    pub importance_correction: Option<ImportanceCorrection>,
}

/// The weights that servers are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineWeights {
    /// The adapter, under a new name each time.
    Adapter,
    /// All weights; needs vLLM servers that were started with VLLM_SERVER_DEV_MODE=1.
    Full,
}

impl EngineWeights {
    /// Those of a run that trains an adapter, or all weights.
    pub fn of(trains_adapter: bool) -> Self {
        if trains_adapter { Self::Adapter } else { Self::Full }
    }
}

impl EngineOptions {
    /// Refuses options without a server, and settings of one that have no such key or value.
    pub fn check(&self, rounds: bool) -> Result<()> {
        self.remote.kwargs()?;
        if self.remote.engine.is_none() {
            if !self.remote.engine_kwargs.is_empty() || self.max_staleness > 0 {
                bail!("--engine-kwargs and --max-staleness have no effect without --engine");
            }
            if self.importance_correction.is_some() && !rounds {
                bail!("--importance-correction has no effect without --engine or --rollout-dtype");
            }
            return Ok(());
        }
        if rounds {
            bail!("--rollout-dtype has no effect with --engine: the server has its own");
        }
        Ok(())
    }

    /// How their samples are weighted.
    pub fn correction(&self) -> ImportanceCorrection {
        self.importance_correction.unwrap_or_default()
    }
}
