//! The data of a run besides fresh rollouts: the base's stored completions, and how often it solves every prompt.

use std::ops::Range;

use anyhow::{Result, bail};

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
    /// Notes for the log on how the data was divided.
    pub notes: Vec<String>,
}

impl TrainingData {
    /// Of `problems` problems, with the base's samples of them where the plan needs those.
    ///
    /// # Errors
    /// Nothing to rehearse, nothing to explore.
    pub fn new(plan: &Plan, problems: usize, presamples: Option<&Presamples>) -> Result<Self> {
        let mut data = Self::of_problems(problems);
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
        Ok(data)
    }

    /// Of so many problems, all of them explored and nothing else known.
    pub(super) fn of_problems(problems: usize) -> Self {
        Self {
            explore: (0..problems).collect(),
            rehearsal: vec![],
            stored_prompts: vec![],
            solve_rate: vec![],
            notes: vec![],
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
}

/// Whether prompts are confirmed by a further sample: only where they are split.
pub fn wants_extra_check(plan: &Plan) -> bool {
    plan.rehearses() && plan.regulariser().is_some_and(|r| r.split.extra_check)
}
