//! The teacher of self-distillation in a world: a model that copies the solution it is shown with chance
//! [`COPIED`] and answers as it does without it otherwise. Once it has begun to copy it goes on: its next-token
//! distributions are those of the mixture of both.

use anyhow::Result;
use candle_core::{Device, Tensor};

use super::sampled::Cumulative;
use super::{Class, Table, World};
use tealight_learn::objective::demonstration::choose;
use tealight_learn::objective::{Demonstration, GroupStats, Plan, Teacher, TeacherWeights};

/// The chance that a solution is copied.
pub const COPIED: f64 = 0.5;

impl World {
    /// Of a policy `q` on a prompt: what it gives once it is shown an output.
    pub fn shown(&self, q: &[f64], output: usize) -> Vec<f64> {
        let copied = |y: usize| if y == output { COPIED } else { 0.0 };
        q.iter().enumerate().map(|(y, q)| (1.0 - COPIED) * q + copied(y)).collect()
    }

    /// The dataset's solution of a prompt: the correct output that is likeliest under the base.
    pub fn solution(&self, prompt: usize) -> usize {
        let right = (0..self.base.len()).filter(|y| self.is_right[prompt][*y]);
        right.max_by(|a, b| self.base[*a].total_cmp(&self.base[*b])).unwrap_or(0)
    }
}

/// The next-token distribution of a teacher at every token's position, `[X Y L, V]`, with the weight `[X Y L]` of what
/// it is shown.
pub(super) struct Lesson {
    pub(super) output: usize,
    pub(super) next: Tensor,
    pub(super) weight: Tensor,
}

/// Every output that is shown on some prompt, in groups of `group` samples (none: infinitely many) of the policy that
/// `stats` describe.
pub(super) fn lessons(
    world: &World,
    teacher: Teacher,
    stats: &[GroupStats],
    group: Option<usize>,
) -> Result<Vec<Lesson>> {
    let mass = |prompt: usize| stats[prompt].mass.clone().unwrap_or_default();
    let shown: Vec<Vec<f64>> = (0..world.is_right.len())
        .map(|prompt| chances(world, teacher.shown, prompt, &mass(prompt), group))
        .collect();
    let length = world.length();
    let mut lessons = Vec::new();
    for output in 0..world.outputs.len() {
        if shown.iter().all(|chances| chances[output] == 0.0) {
            continue;
        }
        let towards: Vec<Vec<f64>> = (0..world.is_right.len())
            .map(|prompt| match teacher.weights {
                TeacherWeights::Base => world.shown(&world.base, output),
                TeacherWeights::Policy => world.shown(&mass(prompt), output),
            })
            .collect();
        let weight = shown.iter().map(|chances| chances[output]);
        let weight: Vec<f64> =
            weight.flat_map(|weight| vec![weight; world.outputs.len() * length]).collect();
        let count = weight.len();
        lessons.push(Lesson {
            output,
            // The full class has a context for each prefix: its table of a distribution has exactly its next-token
            // distributions.
            next: Table::project(world, Class::Full, &towards)?.next_logp()?.detach(),
            weight: Tensor::from_vec(weight, count, &Device::Cpu)?,
        });
    }
    Ok(lessons)
}

/// The output that the teacher of each of a group's samples is shown, as real runs choose it.
pub(super) fn shown(
    world: &World,
    plan: &Plan,
    prompt: usize,
    picks: &[usize],
    uniform: &mut dyn FnMut() -> f64,
) -> Vec<Option<usize>> {
    let Some(teacher) = plan.teacher() else { return vec![None; picks.len()] };
    let is_right: Vec<bool> = picks.iter().map(|y| world.is_right[prompt][*y]).collect();
    let of_base = Cumulative::new(&world.filtered(prompt));
    (0..picks.len())
        .map(|own| match teacher.shown {
            Demonstration::Dataset => Some(world.solution(prompt)),
            Demonstration::Base => Some(of_base.pick(uniform())),
            Demonstration::Rollout => {
                choose(&is_right, Some(own), uniform()).map(|index| picks[index])
            }
        })
        .collect()
}

/// The teachers of a group's rows, whose tokens are at these positions of all, each with the rows that it is shown an
/// output for.
pub(super) fn lessons_of(
    lessons: &[Lesson],
    positions: Vec<u32>,
    shown: &[Option<usize>],
) -> Result<Vec<Lesson>> {
    let count = positions.len();
    let positions = Tensor::from_vec(positions, count, &Device::Cpu)?;
    let length = count / shown.len();
    let is_shown = |lesson: &Lesson, shown: &Option<usize>| *shown == Some(lesson.output);
    let at_positions = |lesson: &Lesson| -> Result<Lesson> {
        let weight = shown.iter().map(|shown| f64::from(u8::from(is_shown(lesson, shown))));
        let weight: Vec<f64> = weight.flat_map(|weight| vec![weight; length]).collect();
        Ok(Lesson {
            output: lesson.output,
            next: lesson.next.index_select(&positions, 0)?,
            weight: Tensor::from_vec(weight, count, &Device::Cpu)?,
        })
    };
    let some = lessons.iter().filter(|lesson| shown.iter().any(|one| is_shown(lesson, one)));
    some.map(at_positions).collect()
}

/// The chance that each output is shown to the teacher of a sample of a prompt; the rest is that of no solution.
fn chances(
    world: &World,
    shown: Demonstration,
    prompt: usize,
    mass: &[f64],
    group: Option<usize>,
) -> Vec<f64> {
    match shown {
        Demonstration::Dataset => {
            let solution = world.solution(prompt);
            (0..mass.len()).map(|y| f64::from(u8::from(y == solution))).collect()
        }
        Demonstration::Base => world.filtered(prompt),
        Demonstration::Rollout => {
            let right = world.mass(prompt, mass);
            let found = match group {
                None => 1.0,
                Some(group) => chance_of_one(group - 1, right),
            };
            let is_right = &world.is_right[prompt];
            mass.iter()
                .zip(is_right)
                .map(|(q, is_right)| if *is_right { found * q / right } else { 0.0 })
                .collect()
        }
    }
}

/// The chance that a sample is shown one of `others`, each correct with chance `right`, by the rule of real runs.
fn chance_of_one(others: usize, right: f64) -> f64 {
    let right = right.min(1.0 - 1e-12);
    let (mut found, mut chance) = (0.0, (1.0 - right).powi(others as i32));
    for correct in 0..=others {
        let is_correct: Vec<bool> = (0..=others).map(|index| index <= correct).collect();
        // Sample 0 is the one that is scored, correct itself here.
        if choose(&is_correct, Some(0), 0.5).is_some() {
            found += chance;
        }
        chance *= (others - correct) as f64 / (correct + 1) as f64 * right / (1.0 - right);
    }
    found
}
