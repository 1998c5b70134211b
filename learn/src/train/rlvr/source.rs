//! Who samples the rollouts of a step: this process, all ranks together, or an engine that the first of them asks. The
//! engine may draw the rollouts of the next steps while this one trains.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::Scope;

use anyhow::{Context, Result};

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
    std::thread::scope(|scope| {
        let all = step..run.config.settings.max_steps;
        let (publish, rollouts) =
            start(scope, *max_staleness, all, round, move |round| sample(run, round));
        steps(&mut |state| {
            from_engine(run, || {
                engine.publish(state.global_step)?;
                // A sampler that has ended says why below.
                let _ = publish.send(state.global_step);
                rollouts.recv().context("the background sampler has stopped")?
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

/// Starts to sample the rollouts of `steps` with `sample`, which is given the number of a step's first round, from
/// `round` on. Send each step whose weights the engine has loaded; dropping the sender stops sampling.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    max_staleness: usize,
    steps: Range<usize>,
    mut round: usize,
    sample: impl Fn(usize) -> Result<Rollouts> + Send + 'scope,
) -> (Sender<usize>, Receiver<Result<Rollouts>>) {
    let (publish, published) = channel();
    let (send, rollouts) = channel();
    scope.spawn(move || {
        let mut latest = None;
        for step in steps {
            // Sampled with weights at most `max_staleness` steps older than those that train on it.
            let oldest = step.saturating_sub(max_staleness);
            let newest = loop {
                match (published.try_recv(), latest) {
                    (Ok(other), _) => latest = Some(other),
                    (Err(TryRecvError::Disconnected), _) => return,
                    (Err(_), Some(newest)) if newest >= oldest => break newest,
                    (Err(_), _) => match published.recv() {
                        Ok(other) => latest = Some(other),
                        Err(_) => return,
                    },
                }
            };
            let sampled = sample(round).map(|rollouts| {
                round = rollouts.rounds;
                Rollouts { staleness: step - newest, ..rollouts }
            });
            let is_last = sampled.is_err();
            if send.send(sampled).is_err() || is_last {
                return;
            }
        }
    });
    (publish, rollouts)
}
