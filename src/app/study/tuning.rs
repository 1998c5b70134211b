//! Tuning: of each objective the configuration that runs from other seeds choose, on problems that are neither trained
//! on nor tested. [`tealight_eval::curve::Tuning`] has the rule.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tealight_datasets::Dataset;
use tealight_eval::curve::{Measure, RunPath, Tuning};

use super::configuration::Configuration;
use super::listed_set::ListedSet;
use super::paths::PathSet;
use super::runs::{Run, history, of_all, own_runs};
use super::sets::{StudySet, of_task};
use super::{MAX_SAMPLES, Prepared, StudyOptions, distinct, seeds};
use crate::app::data_file;
use crate::app::session::Session;
use crate::app::settings::DataOptions;
use tealight_nn::generate::SamplingParams;

/// The folder of a study that has the runs of tuning.
pub(crate) const FOLDER: &str = "tuning";

/// What chooses.
pub(super) struct TuningSet {
    pub(super) set: StudySet,
    /// The answers whose probabilities choose; without them, samples.
    pub(super) listed: Option<ListedSet>,
}

/// The configurations among which something is to be chosen.
pub(super) fn tuned(all: &[Configuration]) -> Vec<&Configuration> {
    let has_others =
        |one: &&Configuration| all.iter().filter(|other| other.family == one.family).count() > 1;
    all.iter().filter(has_others).collect()
}

impl StudyOptions {
    /// Refuses settings of tuning that do not go with the objectives, or are missing.
    pub(super) fn check_tuning(&self, configurations: &[Configuration]) -> Result<()> {
        if tuned(configurations).is_empty() {
            let given = [
                ("--tuning-pass-at-1", self.tuning_pass_at_1.is_some()),
                ("--tuning-seeds", distinct(&self.tuning_seeds) != distinct(&seeds::of_tuning())),
                ("--eval-max-samples", self.eval_max_samples != MAX_SAMPLES),
            ];
            for (option, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
                tracing::warn!(
                    "{option} has no effect: no objective has several values to choose from"
                );
            }
            match self.eval_dataset {
                Some(_) => bail!(
                    "--eval-dataset chooses among the values of an objective, and none has several: leave it out, or \
                     name values, as in NAME@{{learning-rate=3e-5,7e-5}}"
                ),
                None => return Ok(()),
            }
        }
        if self.eval_steps == 0 {
            bail!("objectives with several values need --eval-steps, whose checkpoints choose");
        }
        if self.tuning_pass_at_1.is_none() {
            bail!(
                "objectives with several values need --tuning-pass-at-1, the smallest Pass@1 of a chosen checkpoint, \
                 as .5: a rule from before the study"
            );
        }
        let (seeds, tuning) = (distinct(&self.seeds), distinct(&self.tuning_seeds));
        match tuning.iter().find(|seed| seeds.contains(seed)) {
            _ if tuning.is_empty() => {
                bail!("--tuning-seeds: objectives with several values need one")
            }
            Some(seed) => bail!("--tuning-seeds {seed} is one of --seeds: choose by other runs"),
            None => Ok(()),
        }
    }

    /// The set that chooses, sampled as `test` is.
    pub(super) fn open_valid(
        &self,
        (train, sets): (&Dataset, &[StudySet]),
        test: &StudySet,
        filter: &dyn Fn(&mut Dataset) -> Result<()>,
    ) -> Result<StudySet> {
        let valid = self.eval_dataset.clone().or_else(|| of_task(&self.data.dataset, "valid"));
        let valid = valid.context(
            "objectives with several values need --eval-dataset, which chooses among them",
        )?;
        let limited = DataOptions { max_samples: Some(self.eval_max_samples), ..self.data.clone() };
        let mut valid = limited.open(&valid)?;
        filter(&mut valid)?;
        for other in std::iter::once(train).chain(sets.iter().map(|set| &*set.dataset)) {
            data_file::refuse_overlap(other, &valid, "--eval-dataset")?;
        }
        Ok(StudySet::new(Arc::new(valid), "valid", test.temperature, test.truncated))
    }
}

/// Of each objective the configuration that is studied, and what was tried where something was: trained and evaluated
/// as far as that is not done, by all ranks.
pub(super) fn chosen<'a>(
    study: &'a Prepared,
    session: &Session<'a>,
    params: &SamplingParams,
    output: &Path,
) -> Result<(Vec<&'a Configuration>, Option<Tuning>)> {
    let (all, options) = (&study.configurations, &study.options);
    let Some(tuning) = &study.tuning else { return Ok((all.iter().collect(), None)) };
    let mut paths = PathSet::new(study, params, (&tuning.set, tuning.listed.as_ref()));
    paths.base(session, output)?;
    let folder = output.join(FOLDER);
    session.ranks.first(|| tealight_system::files::writable_subfolder(&folder))?;
    let (tried, seeds) = (tuned(all), distinct(&options.tuning_seeds));
    for seed in &seeds {
        options.presample(session, &study.train, &tried, *seed, &folder)?;
    }
    let own = session.alone();
    let run = |(one, seed): Run<'_>| -> Result<(RunPath, f64)> {
        let last = options.tuned_model(&own, &study.train, (one, seed), &folder)?;
        let folder = StudyOptions::folder(&folder, one, seed);
        let training = history(&one.label(), seed, &folder)?;
        let path = paths.run(&own, one, (&training, &last), &folder)?.remove(0);
        Ok((path, options.config(one, seed).settings.schedule.learning_rate))
    };
    let runs = of_all(&tried, &seeds);
    own_runs(&session.ranks, &runs, run)?;
    let found: Tuning = session.ranks.first(|| {
        let runs = runs.into_iter().map(run).collect::<Result<Vec<_>>>()?;
        let measure = Measure::Distinct(options.largest());
        let least = options.tuning_pass_at_1.unwrap_or_default();
        Tuning::new(&tuning.set.dataset.name, (measure, least), &runs)
    })?;
    let is_studied = |one: &&Configuration| !tried.contains(one) || found.is_chosen(&one.label());
    Ok((all.iter().filter(is_studied).collect(), Some(found)))
}
