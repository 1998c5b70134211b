//! The records of a run while it trains: metrics, held-out evaluations, points of its path, checkpoints.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use tealight_core::run_folder::BEST;

use super::journal::Journal;
use super::path::PathPoints;
use super::setup::RunSetup;
use crate::app::session::{SamplingRequest, Session};
use tealight_learn::train::AdamW;
use tealight_learn::train::checkpoint::{Checkpoints, State};
use tealight_learn::train::rlvr::{End, Run, Step};
use tealight_nn::policy;

/// Records a run in its output folder.
pub(super) struct Recorder<'a> {
    session: &'a Session<'a>,
    run: &'a Run<'a>,
    setup: &'a RunSetup<'a>,
    checkpoints: &'a Checkpoints<'a>,
    /// On the first rank.
    journal: Option<Journal<'a>>,
    /// The newest checkpoint.
    saved: Option<(usize, PathBuf)>,
}

impl<'a> Recorder<'a> {
    /// Starts at `step`; evaluates the base where that is the first.
    pub(super) fn new(
        session: &'a Session<'a>,
        run: &'a Run<'a>,
        setup: &'a RunSetup<'a>,
        checkpoints: &'a Checkpoints<'a>,
        step: usize,
    ) -> Result<Self> {
        let rounding = policy::rounding(run.models.policy.decoder());
        let journal = match session.ranks.is_first() {
            true => Some(Journal::new(run.config, setup, step, rounding)?),
            false => None,
        };
        let mut recorder = Self { session, run, setup, checkpoints, journal, saved: None };
        session.stop.risks(match setup.resume {
            Some(path) => format!("every step after {}", path.display()),
            None => "every step so far (none is saved)".to_owned(),
        });
        if step == 0 {
            recorder.evaluate(0)?;
        }
        Ok(recorder)
    }

    pub(super) fn record(&mut self, step: Step<'_>) -> Result<()> {
        let is_last = !self.run.goes_on(step.state);
        self.session.ranks.first(|| match &mut self.journal {
            Some(journal) => journal.record(&step, self.run.data.problems, is_last),
            None => Ok(()),
        })?;
        let Step { state, optimizer, metrics, .. } = step;
        if self.setup.held_out.is_some_and(|set| set.is_due(state.global_step, is_last)) {
            self.evaluate(state.global_step)?;
        }
        if self.setup.path.is_some_and(|points| points.is_due(state.global_step)) && !is_last {
            // Before the checkpoint: a run that goes on from there finds these weights.
            let folder = PathPoints::model(self.setup.output, state.global_step);
            self.session.ranks.first(|| self.save_model(&folder))?;
        }
        let merit = metrics.reward.unwrap_or(-metrics.loss);
        if merit.is_finite() {
            state.since_save = (state.since_save.0 + merit, state.since_save.1 + 1);
        }
        let every = self.run.config.settings.save_steps;
        if every > 0 && (state.global_step.is_multiple_of(every) || is_last) {
            let path =
                self.checkpoints.save(&self.run.models.policy.tensors(), optimizer, state)?;
            self.session.stop.risks(format!("every step after {}", path.display()));
            self.saved = Some((state.global_step, path));
        }
        Ok(())
    }

    /// Saves a checkpoint of a run that ended before its last step, and fails with the reason why it gave up.
    pub(super) fn finish(self, end: End, state: &mut State, optimizer: &AdamW) -> Result<()> {
        drop(self.journal);
        if end != End::Done {
            let path = match self.saved {
                Some((step, path)) if step == state.global_step => path,
                _ => self.checkpoints.save(&self.run.models.policy.tensors(), optimizer, state)?,
            };
            tracing::info!("stopped after step {}; saved {}", state.global_step, path.display());
        }
        match end {
            End::GaveUp(reason) => bail!("{reason}"),
            End::Done | End::Stopped => Ok(()),
        }
    }

    /// Evaluates the policy on the held-out set, where there is one, and saves the best model so far.
    fn evaluate(&mut self, step: usize) -> Result<()> {
        let Some(held_out) = self.setup.held_out else { return Ok(()) };
        let config = self.run.config;
        let params = config.settings.sampling(self.run.models.tokenizer);
        let max_num_seqs = config.settings.max_num_seqs;
        // The held-out set has the number of samples a problem.
        let draw = SamplingRequest { n: 0, params: &params, seed: config.seed, max_num_seqs };
        let (output, decoder) = (self.setup.output, self.run.models.policy.decoder());
        let (measured, best) = held_out.check(self.session, decoder, &draw, (step, output))?;
        if let Some(best) = best {
            self.session.ranks.first(|| {
                self.save_model(&output.join(BEST))?;
                best.record(output)
            })?;
        }
        match &mut self.journal {
            Some(journal) => journal.held_out(&measured),
            None => Ok(()),
        }
    }

    fn save_model(&self, folder: &Path) -> Result<()> {
        tealight_system::files::writable_subfolder(folder)?;
        let tensors = self.run.models.policy.tensors();
        self.session.base.save_trained(self.checkpoints.adapter, &tensors, folder)
    }
}
