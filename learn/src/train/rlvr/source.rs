//! Who samples the rollouts of a step: this process, all ranks together, or an engine that the first of them asks.

use anyhow::Result;

use super::ahead::Ahead;
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
    let Some(RolloutEngine { engine, max_staleness }) = &run.sampling.engine else {
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
    let ahead = Ahead::new(*max_staleness, step, round);
    std::thread::scope(|scope| {
        let steps_in_all = run.config.settings.max_steps;
        let rollouts = ahead.start(scope, steps_in_all, move |round| sample(run, round));
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
