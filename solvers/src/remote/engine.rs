//! Options of servers that sample for a training run.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
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
    /// Weights that the servers receive before every step: the adapter (the default with --use-peft), all weights
    /// (full), or none, so that the servers go on sampling from the base.
    #[arg(long, value_enum, help_heading = "Engine", requires = "engine")]
    #[serde(default)]
    pub engine_weights: Option<EngineWeights>,
    /// Directory that the servers load weights from, which has the same path on all machines.
    /// Default: a directory in --output.
    #[arg(long, value_name = "DIR", help_heading = "Engine", requires = "engine")]
    #[serde(default)]
    pub engine_folder: Option<PathBuf>,
    /// Staleness in steps: 0 samples every step from the current weights, 1 samples the next step while this step
    /// trains.
    #[arg(long, default_value_t = 0, value_name = "STEPS", add = at_least(0.0).at_most(64.0), help_heading = "Engine")]
    #[serde(default)]
    pub max_staleness: usize,
    /// Importance correction of samples from a server or from the policy rounded to --rollout-dtype: token-truncate:C,
    /// sequence-mask:C or none [default: sequence-mask:3].
    #[arg(long, value_name = "CORRECTION", help_heading = "Engine")]
    #[serde(default)]
    pub importance_correction: Option<ImportanceCorrection>,
}

/// The weights that servers are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineWeights {
    /// The adapter, under a new name each time.
    Adapter,
    /// All weights; needs vLLM servers that were started with VLLM_SERVER_DEV_MODE=1.
    Full,
    /// No weights: the servers sample from the base.
    None,
}

impl EngineOptions {
    /// Refuses options without a server.
    pub fn check(&self, trains_adapter: bool, rounds: bool) -> Result<()> {
        self.remote.check()?;
        if self.remote.engine.is_none() {
            if self.engine_weights.is_some()
                || self.engine_folder.is_some()
                || self.max_staleness > 0
            {
                bail!(
                    "--engine-weights, --engine-folder and --max-staleness have no effect without --engine"
                );
            }
            if self.importance_correction.is_some() && !rounds {
                bail!("--importance-correction has no effect without --engine or --rollout-dtype");
            }
            return Ok(());
        }
        if !self.remote.engine_omit.is_empty() {
            bail!(
                "--engine-omit is for eval and presample: training needs all fields of its requests"
            );
        }
        if rounds {
            bail!("--rollout-dtype has no effect with --engine: the server has its own");
        }
        match self.weights(trains_adapter) {
            EngineWeights::Adapter if !trains_adapter => {
                bail!(
                    "--engine-weights adapter: no adapter is trained; add --use-peft, or take `full`"
                )
            }
            EngineWeights::Full if trains_adapter => {
                bail!(
                    "--engine-weights full with --use-peft: an adapter is trained; take `adapter`"
                )
            }
            _ => Ok(()),
        }
    }

    /// The weights that servers are given.
    pub fn weights(&self, trains_adapter: bool) -> EngineWeights {
        self.engine_weights.unwrap_or(match trains_adapter {
            true => EngineWeights::Adapter,
            false => EngineWeights::Full,
        })
    }

    /// How their samples are weighted.
    pub fn correction(&self) -> ImportanceCorrection {
        self.importance_correction.unwrap_or_default()
    }
}
