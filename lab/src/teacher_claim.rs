//! The claim of self-distillation, by the textbook: the divergence of every next-token distribution from the teacher's,
//! on the policy's own outputs, whose chance is a constant.

use anyhow::Result;
use candle_core::{Device, Tensor};

use super::claim::generator;
use super::{Table, World};
use tealight_learn::objective::{Demonstration, Divergence, Teacher, TeacherWeights};

/// `sum_x sum_d w_d sum_y pi(y) sum_t D(pi(.|y before t) || T_d(.|y before t)) / X` for the solutions d that are shown.
pub(super) fn cost(
    world: &World,
    table: &Table,
    divergence: Divergence,
    teacher: Teacher,
    group: usize,
) -> Result<Tensor> {
    let next = table.next_logp()?;
    let outputs = world.outputs.len();
    let (rows, length) = table.shape();
    let q = table.distributions(world)?;
    let mut total = Tensor::zeros((), next.dtype(), &Device::Cpu)?;
    for (prompt, q) in q.iter().enumerate() {
        let is_right = &world.is_right[prompt];
        let right: f64 = q.iter().zip(is_right).filter(|(_, right)| **right).map(|(q, _)| q).sum();
        let own = match teacher.weights {
            TeacherWeights::Base => &world.base,
            TeacherWeights::Policy => q,
        };
        // The positions of this prompt's outputs, each as often as the output is sampled.
        let mut chance = vec![0.0; rows * length];
        for (y, q) in q.iter().enumerate() {
            let first = (prompt * outputs + y) * length;
            chance[first..first + length].fill(*q);
        }
        let chance = Tensor::from_vec(chance, rows * length, &Device::Cpu)?;
        for shown in (0..outputs).filter(|y| is_right[*y]) {
            let weight = match teacher.shown {
                Demonstration::Dataset => f64::from(u8::from(shown == world.solution(prompt))),
                Demonstration::Base => world.base[shown] / world.solve_rate(prompt),
                Demonstration::Rollout => {
                    q[shown] / right * (1.0 - (1.0 - right).powi(group as i32 - 1))
                }
            };
            if weight == 0.0 {
                continue;
            }
            let lesson = next_tokens(world, &world.shown(own, shown), world.is_right.len());
            let lesson = Tensor::from_vec(lesson, next.shape(), &Device::Cpu)?;
            let cost = generator(divergence, &(&next - lesson.log()?)?)?;
            let cost = (cost * lesson)?.sum(1)?;
            total = (total + ((cost * &chance)?.sum_all()? * weight)?)?;
        }
    }
    Ok((total / world.is_right.len() as f64)?)
}

/// The next-token distribution at every position of every output, as often as there are prompts: sums of the chances
/// of the outputs that begin alike.
fn next_tokens(world: &World, chances: &[f64], prompts: usize) -> Vec<f64> {
    let mut all = Vec::new();
    for output in &world.outputs {
        for place in 0..output.len() {
            let mut next = vec![0.0; world.vocabulary];
            let alike = world.outputs.iter().zip(chances);
            for (other, chance) in alike.filter(|(other, _)| other[..place] == output[..place]) {
                next[other[place]] += chance;
            }
            let sum: f64 = next.iter().sum();
            all.extend(next.iter().map(|chance| chance / sum));
        }
    }
    all.repeat(prompts)
}
