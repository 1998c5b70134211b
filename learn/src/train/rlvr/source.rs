//! Who samples the rollouts of a step: this process, all ranks together, or an engine that the first of them asks. The
//! engine may draw the rollouts of the next steps while this one trains.

use std::ops::Range;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use anyhow::{Result, bail};

use super::rollouts::{Rollouts, sample};
use super::run::{RolloutEngine, Run};
use crate::train::checkpoint::State;
use tealight_nn::generate::EngineLost;

/// Gives the rollouts of the step that follows a state.
pub(super) type Source<'a> = dyn FnMut(&State) -> Result<Rollouts> + 'a;

/// Does `steps` with rollouts from a step and a round of prompts on.
pub(super) fn with_rollouts<T>(
    run: &Run<'_>,
    (step, round): (usize, usize),
    steps: impl FnOnce(&mut Source<'_>) -> Result<T>,
) -> Result<T> {
    let Some(RolloutEngine { engine, max_staleness }) = &run.models.sampling.engine else {
        return steps(&mut |state| sample(run, state.rounds));
    };
    let Some(engine) = engine else {
        return steps(&mut |_| from_engine(run, || unreachable!("the first rank samples")));
    };
    if *max_staleness == 0 {
        return steps(&mut |state| {
            from_engine(run, || {
                engine.publish(state.global_step)?;
                sample(run, state.rounds)
            })
        });
    }
    let ahead = Ahead { max_staleness: *max_staleness, ..Ahead::default() };
    std::thread::scope(|scope| {
        let all = step..run.config.settings.max_steps;
        let rollouts = ahead.start(scope, all, round, move |round| sample(run, round));
        steps(&mut |state| {
            from_engine(run, || {
                engine.publish(state.global_step)?;
                rollouts.at(state.global_step)
            })
        })
    })
}

/// The rollouts that the first rank has its engine sample, or that it lost it, for all ranks.
fn from_engine(run: &Run<'_>, sample: impl FnOnce() -> Result<Rollouts>) -> Result<Rollouts> {
    if run.ranks.size() == 1 {
        return sample();
    }
    let rollouts = run.ranks.first(|| match sample() {
        Err(error) if error.is::<EngineLost>() => Ok(Err(format!("{error:#}"))),
        rollouts => rollouts.map(Ok),
    })?;
    rollouts.map_err(|lost: String| EngineLost(lost).into())
}

/// The progress of training and of sampling.
#[derive(Default)]
struct Ahead {
    max_staleness: usize,
    progress: Mutex<Progress>,
    moved: Condvar,
}

#[derive(Default)]
struct Progress {
    /// The step whose weights the engine has; none before the first.
    published: Option<usize>,
    is_over: bool,
}

/// The rollouts of the next steps; sampling ends when this is dropped.
struct AheadRollouts<'a> {
    ahead: &'a Ahead,
    rollouts: Receiver<Result<Rollouts>>,
}

impl Ahead {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to sample the rollouts of `steps` with `sample`, which is given the number of a step's first round, from
    /// `round` on.
    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        steps: Range<usize>,
        mut round: usize,
        sample: impl Fn(usize) -> Result<Rollouts> + Send + 'scope,
    ) -> AheadRollouts<'scope> {
        let (send, rollouts) = channel();
        scope.spawn(move || {
            for step in steps {
                // Sampled with weights at most `max_staleness` steps older than those that train on it.
                let Some(published) = self.wait_for(step.saturating_sub(self.max_staleness)) else {
                    break;
                };
                let sampled = sample(round).map(|rollouts| {
                    round = rollouts.rounds;
                    Rollouts { staleness: step - published, ..rollouts }
                });
                let is_last = sampled.is_err();
                if send.send(sampled).is_err() || is_last {
                    break;
                }
            }
        });
        AheadRollouts { ahead: self, rollouts }
    }

    /// The step whose weights the engine has, once it is this one or a later; none when all is over.
    fn wait_for(&self, step: usize) -> Option<usize> {
        let mut progress = self.progress();
        loop {
            match progress.published {
                _ if progress.is_over => return None,
                Some(published) if published >= step => return Some(published),
                _ => {}
            }
            progress = self.moved.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl AheadRollouts<'_> {
    /// The rollouts of a step, whose weights the engine has now.
    fn at(&self, step: usize) -> Result<Rollouts> {
        self.ahead.progress().published = Some(step);
        self.ahead.moved.notify_all();
        match self.rollouts.recv() {
            Ok(rollouts) => rollouts,
            Err(_) => bail!("nothing more is sampled ahead"),
        }
    }
}

impl Drop for AheadRollouts<'_> {
    fn drop(&mut self) {
        self.ahead.progress().is_over = true;
        self.ahead.moved.notify_all();
    }
}
