//! The policies of a run: its checkpoints, and copies that are moved.

use std::path::{Path, PathBuf};

use anyhow::Result;
use candle_core::Device;

use super::GapOptions;
use crate::app::training::TrainOptions;
use crate::app::training::fine_tune::new_adapter;
use tealight_core::run_folder::{self, FINAL};
use tealight_formats::adapter::Adapter;
use tealight_formats::pretrained::Pretrained;
use tealight_learn::train::checkpoint;
use tealight_nn::model::Decoder;
use tealight_nn::policy::Policy;

/// A run's base, its settings and its folder.
pub(super) struct Policies<'a> {
    pub(super) options: &'a GapOptions,
    pub(super) settings: &'a TrainOptions,
    pub(super) base: &'a Pretrained,
    pub(super) device: Device,
}

/// A policy of the run's model class, which can be moved.
pub(super) struct Movable {
    pub(super) policy: Policy,
    adapter: Option<Adapter>,
}

impl Policies<'_> {
    /// The saved checkpoints by name, in the order of steps.
    pub(super) fn checkpoints(&self) -> Vec<(String, PathBuf)> {
        let mut all = checkpoint::all(&self.options.run);
        all.reverse();
        all.into_iter().map(|(step, path)| (run_folder::checkpoint(step), path)).collect()
    }

    /// The folder of the trained model.
    pub(super) fn trained(&self) -> PathBuf {
        self.options.run.join(FINAL)
    }

    /// The policy that was saved in a folder of the run.
    pub(super) fn decoder(&self, folder: &Path) -> Result<Decoder> {
        self.base.tuned(folder, &self.device)
    }

    /// A policy of the run's class: all weights, or an adapter of the run's rank on the base; at the base, or at what
    /// was saved in a folder.
    pub(super) fn movable(&self, folder: Option<&Path>) -> Result<Movable> {
        let rlvr = &self.settings.rlvr;
        let adapter = new_adapter(&rlvr.settings.lora, self.base, rlvr.seed, &self.device)?;
        let policy = self.base.policy(adapter.as_ref())?;
        if let Some(folder) = folder {
            policy.restore(&self.base.trained_weights(
                adapter.is_some(),
                folder,
                &self.device,
            )?)?;
        }
        Ok(Movable { policy, adapter })
    }

    /// Writes a policy to a folder of the output, where there is one.
    pub(super) fn save(&self, movable: &Movable, name: &str) -> Result<()> {
        let Some(output) = &self.options.output else { return Ok(()) };
        let folder = output.join(name);
        tealight_system::files::writable_subfolder(&folder)?;
        self.base.save_trained(movable.adapter.as_ref(), &movable.policy.tensors(), &folder)
    }
}
