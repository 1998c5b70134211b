//! The data of a run besides fresh rollouts: the base's stored completions, how often it solves every prompt, and the
//! beta that follows.

use std::ops::Range;

use anyhow::{Context, Result, bail};
use tealight_eval::population::Trials;

use super::config::RlvrConfig;
use super::settings::BetaPer;
use crate::base_validity::BaseValidity;
use crate::objective::{Anchor, Plan, SampleSource};
use crate::presample::{Presamples, PromptSamples, Split, SplitRule};
use tealight_nn::policy::Sequence;

/// A stored completion of the base.
#[derive(Debug, Clone)]
pub struct Rehearsal {
    /// Its prompt's index among the problems.
    pub problem: usize,
    /// Prompt and completion.
    pub sequence: Sequence,
    /// Log-probability of each completion token under the base.
    pub logp: Vec<f32>,
    /// Whether it is correct.
    pub is_correct: bool,
}

/// The data of a run beside its problems.
#[derive(Debug, Clone)]
pub struct TrainingData {
    /// Problems that rollouts explore, by index.
    pub explore: Vec<usize>,
    /// Stored completions, prompt by prompt.
    pub rehearsal: Vec<Rehearsal>,
    /// The completions of each prompt that has some.
    pub stored_prompts: Vec<Range<usize>>,
    /// The base's accuracy on each problem; empty where it was not measured.
    pub solve_rate: Vec<f64>,
    /// Coefficient or temperature by problem.
    pub beta: Vec<f64>,
    /// Notes for the log on how the data was divided.
    pub notes: Vec<String>,
    /// Warnings for the log.
    pub cautions: Vec<String>,
}

impl TrainingData {
    /// Of `problems` problems, with the base's samples of them where the plan needs those.
    ///
    /// # Errors
    /// Nothing to rehearse, nothing to explore, a target validity that the base has already.
    pub fn new(
        config: &RlvrConfig,
        plan: &Plan,
        problems: usize,
        presamples: Option<&Presamples>,
    ) -> Result<Self> {
        let mut data = Self { beta: vec![plan.beta(); problems], ..Self::of_problems(problems) };
        let Some(presamples) = presamples else { return Ok(data) };
        let (completions, solved) = (presamples.completions(), presamples.solved());
        data.notes.push(format!(
            "base: {completions} pre-samples, {:.3} correct, {solved} of {problems} prompts solved",
            presamples.mean_solve_rate()
        ));
        data.solve_rate = presamples.prompts.iter().map(PromptSamples::solve_rate).collect();
        match &plan.anchor {
            Anchor::Base(regulariser) if regulariser.sampler != SampleSource::Policy => {
                let split = presamples.split(SplitRule {
                    pef_threshold: regulariser.split.pef_threshold,
                    pef_samples: regulariser.split.pef_samples,
                    explore_all: regulariser.split.explore_all,
                    drop_unsolved: regulariser.split.drop_unsolved,
                });
                data.divide(regulariser.split.pef_threshold, &split)?;
                let one = regulariser.split.one_sample;
                data.store(presamples, &split.rehearse, regulariser.sampler, one);
            }
            Anchor::Target(matching) if matching.sampler != SampleSource::Policy => {
                let every: Vec<usize> = (0..problems).collect();
                data.store(presamples, &every, matching.sampler, false);
            }
            _ => {}
        }
        if !plan.is_on_policy() && data.rehearsal.is_empty() {
            bail!(
                "the base solved none of {problems} prompts in {} tries each: there is nothing to \
                 train on; raise --num-presamples, or choose easier problems",
                presamples.request.num_presamples
            );
        }
        if let Some(target) = config.settings.target_validity {
            data.aim(config.settings.beta_per, target, presamples)?;
        }
        Ok(data)
    }

    /// Of so many problems, all of them explored and nothing else known.
    pub(super) fn of_problems(problems: usize) -> Self {
        Self {
            explore: (0..problems).collect(),
            rehearsal: vec![],
            stored_prompts: vec![],
            solve_rate: vec![],
            beta: vec![0.0; problems],
            notes: vec![],
            cautions: vec![],
        }
    }

    fn divide(&mut self, threshold: f64, split: &Split) -> Result<()> {
        self.notes.push(format!(
            "{} prompts with correct base samples to rehearse (at least {:.3} correct{}), {} prompts for rollouts, {} dropped",
            split.rehearse.len(),
            threshold,
            match split.unconfirmed {
                0 => String::new(),
                count => format!("; {count} failed the extra check"),
            },
            split.explore.len(),
            split.dropped.len(),
        ));
        if split.rehearse.is_empty() {
            bail!(
                "the base solves no prompt at least {} of the time: there is nothing to rehearse; \
                 lower its key pef-threshold, raise --num-presamples, or use an objective that needs none",
                threshold
            );
        }
        if split.explore.is_empty() {
            bail!(
                "every prompt is rehearsed and none explored; add explore=all to the objective, or raise its pef-threshold"
            );
        }
        self.explore = split.explore.clone();
        Ok(())
    }

    fn store(
        &mut self,
        presamples: &Presamples,
        prompts: &[usize],
        sampler: SampleSource,
        one_sample: bool,
    ) {
        for index in prompts {
            let prompt = &presamples.prompts[*index];
            let most = if one_sample { 1 } else { prompt.samples.len() };
            let is_wanted = |is_correct: bool| sampler == SampleSource::Stored || is_correct;
            let samples = prompt.samples.iter().filter(|s| is_wanted(s.is_correct())).take(most);
            let first = self.rehearsal.len();
            self.rehearsal.extend(samples.map(|sample| Rehearsal {
                problem: *index,
                sequence: Sequence {
                    prompt: prompt.prompt.clone(),
                    completion: sample.tokens.clone(),
                },
                logp: sample.logp.clone(),
                is_correct: sample.is_correct(),
            }));
            if self.rehearsal.len() > first {
                self.stored_prompts.push(first..self.rehearsal.len());
            }
        }
    }

    /// Sets beta so that the tilted base is expected to be correct `target` of the time, on the prompts that are
    /// explored.
    fn aim(&mut self, per: BetaPer, target: f64, presamples: &Presamples) -> Result<()> {
        let trials: Vec<Trials> = presamples.prompts.iter().map(PromptSamples::trials).collect();
        let reached = match per {
            BetaPer::Run => {
                // The mean validity of the prompts that are trained on; others have no part in the target.
                let explored = self.explore.iter().map(|index| trials[*index]).collect();
                let base = BaseValidity::measured(explored).context("--target-validity")?;
                let beta =
                    base.common_beta(target).context("--target-validity, over the prompts")?;
                self.notes.push(format!(
                    "target validity {target} from {:.4}, the mean over prompts: beta {beta:.4}",
                    base.mean(&|validity| validity)
                ));
                self.beta.fill(beta);
                let reached = base.reached(beta);
                self.cautions.extend(base.caution(&reached).map(advised));
                reached
            }
            BetaPer::Prompt => {
                let base = BaseValidity::measured(trials).context("--target-validity")?;
                let before = self.explore.len();
                let solution = base.prompt_betas(&self.explore, target)?;
                if solution.betas.is_empty() {
                    bail!("--target-validity {target}: the base is there already on every prompt");
                }
                self.explore = solution.betas.iter().map(|(index, _)| *index).collect();
                for (index, beta) in &solution.betas {
                    self.beta[*index] = *beta;
                }
                let betas = || solution.betas.iter().map(|(_, beta)| *beta);
                self.notes.push(format!(
                    "target validity {target} prompt by prompt: beta {:.4} to {:.4}; {} prompts are \
                     there already and left out",
                    betas().fold(f64::INFINITY, f64::min),
                    betas().fold(0.0, f64::max),
                    before - self.explore.len(),
                ));
                self.cautions.extend(base.caution(&solution.reached).map(advised));
                solution.reached
            }
        };
        if let Some((low, high)) = reached.interval {
            self.notes.push(format!(
                "the best policy's validity at that beta: {:.3} expected, {low:.3} to {high:.3} (95 %, whatever shape \
                 the population of prompts has)",
                reached.expected
            ));
        }
        Ok(())
    }
}

/// A warning with its fix.
fn advised(caution: String) -> String {
    format!("{caution}; raise --num-presamples, or lower --target-validity")
}

/// Whether prompts are confirmed by a further sample: only where they are split.
pub fn wants_extra_check(plan: &Plan) -> bool {
    plan.rehearses() && plan.regulariser().is_some_and(|r| r.split.extra_check)
}

/// Whether the base must be sampled before training: for stored completions, for its solve rates.
pub fn wants_presamples(config: &RlvrConfig, plan: &Plan) -> bool {
    plan.needs_presamples() || config.settings.target_validity.is_some()
}
