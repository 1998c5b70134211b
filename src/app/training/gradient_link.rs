//! Where the gradients of several ranks are summed.

use anyhow::{Result, bail};
use candle_core::Device;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use tealight_core::ranks::Ranks;
use tealight_learn::train::DeviceLink;

/// The link over which gradients are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GradientLink {
    /// That of the processes, through the host's memory.
    #[default]
    Host,
    /// NCCL, between the GPUs.
    Nccl,
}

impl GradientLink {
    /// Refuses NCCL where the build has none.
    pub(super) fn check(self) -> Result<()> {
        if self == Self::Nccl && !cfg!(feature = "nccl") {
            bail!("--gradient-link nccl: this build has no NCCL; build with `--features nccl`");
        }
        Ok(())
    }

    /// Joins this rank's GPU with those of the others; none where gradients are summed on the host, or by one rank.
    pub(super) fn join(
        self,
        ranks: &Ranks,
        device: &Device,
    ) -> Result<Option<Box<dyn DeviceLink>>> {
        if self == Self::Host {
            return Ok(None);
        }
        if ranks.size() == 1 {
            tracing::warn!("--gradient-link nccl has no effect on one rank");
            return Ok(None);
        }
        if !device.is_cuda() {
            bail!("--gradient-link nccl: rank {} computes on no CUDA device", ranks.rank());
        }
        nccl(ranks, device).map(Some)
    }
}

/// NCCL's name for the group of all ranks goes over their own link.
#[cfg(feature = "nccl")]
fn nccl(ranks: &Ranks, device: &Device) -> Result<Box<dyn DeviceLink>> {
    use tealight_gpu::Communicator;

    let name = ranks.first(|| Ok(Communicator::name()?))?;
    Ok(Box::new(Nccl(Communicator::join(device, ranks.rank(), ranks.size(), &name)?)))
}

#[cfg(not(feature = "nccl"))]
fn nccl(_: &Ranks, _: &Device) -> Result<Box<dyn DeviceLink>> {
    bail!("this build has no NCCL")
}

/// NCCL, as the optimizer uses it.
#[cfg(feature = "nccl")]
struct Nccl(tealight_gpu::Communicator);

#[cfg(feature = "nccl")]
impl DeviceLink for Nccl {
    fn size(&self) -> usize {
        self.0.size()
    }

    fn exchange(&self, local: &candle_core::Tensor) -> Result<candle_core::Tensor> {
        Ok(self.0.exchange(local)?)
    }

    fn concatenate(&self, local: &candle_core::Tensor) -> Result<candle_core::Tensor> {
        Ok(self.0.concatenate(local)?)
    }
}
