//! Ascent in the weights of a policy with exact gradients: towards p_beta (forward KL), or of J itself.
//!
//! Each listed output is a row of the pass, with the derivative of the aim with respect to its log-probability as its
//! weight: no sample is drawn. Outputs that together have next to no probability join the unlisted ones for a while,
//! so that a policy with few outputs is cheap; the measures of `measures` never leave anything out.

use anyhow::{Result, bail};
use candle_core::Tensor;

use super::measures::Beta;
use super::outputs::Outputs;
use crate::listed;
use crate::train::{AdamW, AdamWConfig, Schedule, Scheduler};
use tealight_nn::policy::{GradAccumulator, Policy, Sequence};

/// The probability that outputs without a row of the pass have together, in a problem.
const LEFT_OUT: f64 = 1e-4;
/// Steps after which the rows are chosen again.
const REFRESH: usize = 10;

/// The function that is maximised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// `-KL(p_beta || pi)` over the listed outputs: the projection of p_beta on the model class.
    Projection,
    /// `J` itself.
    Objective,
}

/// An ascent by AdamW, its rate falling to 0 by half a cosine.
#[derive(Debug, Clone, Copy)]
pub struct Climb {
    /// The function that is maximised.
    pub aim: Aim,
    /// The coefficient of the KL in J.
    pub beta: Beta,
    /// Temperature of all distributions.
    pub temperature: f64,
    /// Number of steps, each over all problems.
    pub steps: usize,
    /// Learning rate of the first step.
    pub learning_rate: f64,
}

/// The rows of a problem that a pass computes.
pub(super) struct Active {
    rows: Vec<Sequence>,
    is_correct: Vec<bool>,
    base: Vec<f64>,
    /// p_beta's probability of each.
    optimum: Vec<f64>,
}

impl Climb {
    /// Moves `policy` in place; `advance` hears of every step.
    ///
    /// # Errors
    /// A gradient that is not finite, a failed pass, an error of `advance`.
    pub fn run(
        &self,
        policy: &Policy,
        problems: &[Outputs],
        advance: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut optimizer = AdamW::new(AdamWConfig::DEFAULT, policy.weights())?;
        let schedule = Schedule::without_warmup(self.learning_rate, Scheduler::Cosine);
        let mut active: Vec<Active> = Vec::new();
        for step in 0..self.steps {
            let is_due = self.aim == Aim::Objective && step % REFRESH == 0;
            if active.is_empty() || is_due {
                let choose = |outputs: &Outputs| self.active(policy, outputs, LEFT_OUT);
                active = problems.iter().map(choose).collect::<Result<_>>()?;
            }
            let gradients = self.gradients(policy, &active)?;
            let rate = schedule.rate(step, self.steps);
            if !optimizer.step(policy, &gradients, rate)?.is_finite() {
                bail!("step {}: the gradient is not finite; lower the learning rate", step + 1);
            }
            advance()?;
        }
        Ok(())
    }

    /// The outputs without those that have at most `left_out` of the probability together, the least likely first.
    pub(super) fn active(
        &self,
        policy: &Policy,
        outputs: &Outputs,
        left_out: f64,
    ) -> Result<Active> {
        let optimum = self.beta.optimum(outputs);
        let weight = match self.aim {
            Aim::Projection => optimum.clone(),
            Aim::Objective => {
                let rows = &outputs.rows;
                let decoder = policy.decoder();
                let logp = listed::logp(decoder, rows, self.temperature, &mut || Ok(()))?;
                logp.into_iter().map(f64::exp).collect()
            }
        };
        let mut rows: Vec<usize> = (0..weight.len()).collect();
        rows.sort_by(|a, b| weight[*a].total_cmp(&weight[*b]));
        let mut sum = 0.0;
        let mut is_left_out = |row: &&usize| {
            sum += weight[**row];
            sum <= left_out
        };
        // The likeliest stays where even all together are unlikely.
        let first = rows.iter().take_while(|row| is_left_out(row)).count().min(rows.len() - 1);
        rows.drain(..first);
        rows.sort_unstable();
        Ok(Active {
            rows: rows.iter().map(|row| outputs.rows[*row].clone()).collect(),
            is_correct: rows.iter().map(|row| outputs.is_correct(*row)).collect(),
            base: rows.iter().map(|row| outputs.base[*row]).collect(),
            optimum: rows.iter().map(|row| optimum[*row]).collect(),
        })
    }

    /// The gradient of the mean over problems of the aim's negative.
    pub(super) fn gradients(&self, policy: &Policy, active: &[Active]) -> Result<GradAccumulator> {
        let mut gradients = GradAccumulator::default();
        for problem in active {
            let forward = policy.forward(&problem.rows, self.temperature)?;
            let tokens: Vec<f32> = forward.logp().to_vec1()?;
            let mut tokens = tokens.iter().map(|x| f64::from(*x));
            let lengths = problem.rows.iter().map(|row| row.completion.len());
            let logp: Vec<f64> =
                lengths.clone().map(|length| tokens.by_ref().take(length).sum()).collect();
            let slopes = match self.aim {
                Aim::Projection => problem.optimum.clone(),
                Aim::Objective => self.beta.gradient(&problem.is_correct, &logp, &problem.base),
            };
            // log q(y) is the sum over tokens, so each token has the output's derivative.
            let share = -1.0 / active.len() as f64;
            let of_tokens: Vec<f32> = lengths
                .zip(&slopes)
                .flat_map(|(length, slope)| vec![(slope * share) as f32; length])
                .collect();
            let count = of_tokens.len();
            let weights = Tensor::from_vec(of_tokens, count, forward.logp().device())?;
            let loss = (forward.logp() * weights)?.sum_all()?;
            policy.backward(forward, &loss, &mut gradients)?;
        }
        Ok(gradients)
    }
}
