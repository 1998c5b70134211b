//! Paths: the checkpoints that a study's curves are made of, on the set that reports; those that choose among the
//! configurations of an objective, on the set of tuning.
//!
//! A path is a run from the base to its end, or a baseline that costs no training: the weights of a run averaged with
//! the base's, or the base at lower temperatures.

use std::path::Path;

use anyhow::{Result, bail};
use tealight_eval::curve::{Answers, Checkpoint, RunPath};
use tealight_eval::exact::ListedProblem;
use tealight_eval::report::Training;

use super::configuration::Configuration;
use super::listed_set::ListedSet;
use super::runs::{averaged_model, last_weights};
use super::sets::{Model, StudySet};
use super::{Prepared, StudyOptions, curves};
use crate::app::session::Session;
use crate::app::training::path::PathPoints;
use tealight_nn::generate::SamplingParams;
use tealight_nn::model::{Decoder, averages};

/// The name of the baseline that lowers the base's temperature.
const COLDER: &str = "base at lower temperatures";

/// The set that checkpoints are evaluated on.
pub(crate) struct PathSet<'a> {
    set: &'a StudySet,
    /// The answers whose probabilities curves are made of; without them, samples.
    listed: Option<&'a ListedSet>,
    params: &'a SamplingParams,
    options: &'a StudyOptions,
    /// The seed of the base's samples.
    seed: u64,
    /// The objective whose runs are averaged with the base.
    averaged: Option<String>,
}

/// The base, where every path begins.
pub(crate) struct BasePath {
    pub(crate) answers: Vec<Answers>,
    /// The base at lower temperatures.
    pub(crate) colder: Option<RunPath>,
}

impl StudyOptions {
    /// The steps of a run whose weights are saved, where paths are asked for.
    pub(crate) fn path_points(&self, steps: usize) -> Option<PathPoints> {
        let every = self.eval_steps;
        let count = || (self.settings.max_steps / every).max(1);
        (every > 0).then(|| PathPoints { steps, count: count() })
    }

    /// Refuses baselines that are given twice.
    pub(super) fn check_baselines(&self) -> Result<()> {
        let all = [
            ("--average-share", &self.average_share),
            ("--base-temperature", &self.base_temperature),
        ];
        for (option, values) in all {
            let is_repeated = |index: &usize| values[..*index].contains(&values[*index]);
            if let Some(index) = (0..values.len()).find(is_repeated) {
                bail!("{option}: {} is given twice", values[index]);
            }
        }
        Ok(())
    }

    /// The objective whose runs are averaged with the base, and which others are compared with: the first without a
    /// divergence.
    pub(super) fn reference(&self, configurations: &[Configuration]) -> Option<String> {
        let is_plain = |one: &&Configuration| {
            let plan = &one.objective.plan;
            plan.regulariser().is_none() && plan.matching().is_none() && plan.is_on_policy()
        };
        configurations.iter().find(is_plain).map(|one| one.family.clone())
    }
}

/// The probabilities of the listed answers under a model, which the first rank computes for all.
fn scored(
    listed: &ListedSet,
    session: &Session<'_>,
    model: &Model<'_>,
    at: (f64, &Path),
) -> Result<Vec<ListedProblem>> {
    session.ranks.first(|| listed.scored(session, model, at).map(drop))?;
    Ok(listed.answers.problems(&listed.scored(session, model, at)?))
}

impl<'a> PathSet<'a> {
    /// The set that reports, with baselines.
    pub(crate) fn of_test(study: &'a Prepared, params: &'a SamplingParams) -> Self {
        let options = &study.options;
        let reference = || options.reference(&study.configurations);
        let averaged = (!options.average_share.is_empty()).then(reference).flatten();
        Self { averaged, ..Self::new(study, params, (study.test(), study.listed.as_ref())) }
    }

    /// A set without baselines.
    pub(crate) fn new(
        study: &'a Prepared,
        params: &'a SamplingParams,
        (set, listed): (&'a StudySet, Option<&'a ListedSet>),
    ) -> Self {
        let (options, seed) = (&study.options, study.seeds[0]);
        Self { set, listed, params, options, seed, averaged: None }
    }

    /// Whether curves are made of probabilities.
    pub(crate) fn is_exact(&self) -> bool {
        self.listed.is_some()
    }

    /// What a model answers.
    fn evaluate(
        &self,
        session: &Session<'_>,
        model: &Model<'_>,
        (temperature, seed): (f64, u64),
        folder: &Path,
    ) -> Result<Vec<Answers>> {
        let Some(listed) = self.listed else {
            let tallies = self.set.sampled(
                session,
                model,
                (&self.options.draw(self.params, seed), temperature),
                folder,
            )?;
            return Ok(tallies.iter().map(|tally| Answers::Sampled(tally.into())).collect());
        };
        let problems = scored(listed, session, model, (temperature, folder))?;
        Ok(problems.into_iter().map(Answers::Listed).collect())
    }

    /// Falls back to samples where the base's find more correct answers than are listed.
    fn settle(&mut self, session: &Session<'_>, model: &Model<'_>, folder: &Path) -> Result<()> {
        let Some(listed) = self.listed else { return Ok(()) };
        let problems = scored(listed, session, model, (self.set.temperature, folder))?;
        let draw = self.options.draw(self.params, self.seed);
        let sampled = self.set.sampled(session, model, (&draw, self.set.temperature), folder)?;
        if !curves::is_whole(&problems, &sampled) {
            tracing::warn!(
                "curves are estimated from samples: the base's samples on {} have more correct answers than the \
                 listed ones, so it writes some answers in other ways",
                listed.dataset
            );
            self.listed = None;
        }
        Ok(())
    }

    /// The base, where every path begins.
    pub(crate) fn base(&mut self, session: &Session<'_>, output: &Path) -> Result<Vec<Answers>> {
        let load = || Ok(session.base_decoder.clone());
        let folder = output.join("base");
        let base = Model { name: "base".into(), load: &load };
        self.settle(session, &base, &folder)?;
        self.evaluate(session, &base, (self.set.temperature, self.seed), &folder)
    }

    /// The same, and its path at lower temperatures.
    pub(crate) fn with_colder(&mut self, session: &Session<'_>, output: &Path) -> Result<BasePath> {
        let answers = self.base(session, output)?;
        let load = || Ok(session.base_decoder.clone());
        let mut factors = self.options.base_temperature.clone();
        factors.sort_by(|a, b| b.total_cmp(a));
        let mut checkpoints = Vec::new();
        for (place, factor) in factors.iter().enumerate() {
            let temperature = factor * self.set.temperature;
            let model = Model { name: format!("base at temperature {temperature}"), load: &load };
            let folder = output.join("base").join(format!("temperature-{temperature}"));
            let problems = self.evaluate(session, &model, (temperature, self.seed), &folder)?;
            checkpoints.push(Checkpoint { step: place as u64 + 1, problems });
        }
        let names: Vec<String> = factors.iter().map(ToString::to_string).collect();
        let colder = RunPath {
            objective: COLDER.into(),
            configuration: format!("temperatures {}", names.join(", ")),
            seed: None,
            is_baseline: true,
            beta: None,
            checkpoints,
        };
        Ok(BasePath { answers, colder: Some(colder).filter(|path| !path.checkpoints.is_empty()) })
    }

    /// The path of a run that has ended, then that of its averages with the base; evaluated as far as that is not
    /// done. Weights on the way are removed then.
    pub(crate) fn run(
        &self,
        session: &Session<'_>,
        configuration: &Configuration,
        (training, last): (&Training, &Decoder),
        folder: &Path,
    ) -> Result<Vec<RunPath>> {
        let (label, seed) = (configuration.label(), training.seed);
        let steps = self.options.budget(configuration, seed, folder)?.settings.max_steps;
        let Some(points) = self.options.path_points(steps) else { bail!("{label} has no path") };
        let mut checkpoints = Vec::new();
        for step in points.reached(training.steps) {
            let is_last = step == training.steps;
            let load = || match is_last {
                true => Ok(last.clone()),
                false => session.base.tuned(&PathPoints::model(folder, step), &session.device),
            };
            let model = Model { name: format!("{label} seed {seed} step {step}"), load: &load };
            // The end has been sampled on the test set already.
            let own = if is_last { folder.to_owned() } else { PathPoints::folder(folder, step) };
            let problems = self.evaluate(session, &model, (self.set.temperature, seed), &own)?;
            let cost = training.points.iter().find(|point| point.step == step);
            let updates = cost.map_or(0, |cost| cost.updates);
            checkpoints.push(Checkpoint { step: updates as u64, problems });
            PathPoints::discard(folder, step)?;
        }
        let mut paths = vec![RunPath {
            objective: configuration.family.clone(),
            configuration: label,
            seed: Some(seed),
            is_baseline: false,
            beta: configuration.objective.plan.kl_coefficient(),
            checkpoints,
        }];
        paths.extend(self.averages(session, &paths[0], folder)?);
        Ok(paths)
    }

    /// The weights of the run's end averaged with the base's: a path by the share of the run, which ends at the run's
    /// own end; none of a run that is not averaged.
    fn averages(
        &self,
        session: &Session<'_>,
        run: &RunPath,
        folder: &Path,
    ) -> Result<Option<RunPath>> {
        let mut shares = self.options.average_share.clone();
        shares.sort_by(f64::total_cmp);
        let is_averaged = self.averaged.as_ref() == Some(&run.objective);
        let Some(end) = run.checkpoints.last().filter(|_| is_averaged) else {
            return Ok(None);
        };
        let mut checkpoints = Vec::new();
        for share in &shares {
            let load = || {
                let last = last_weights(session, folder)?;
                averaged_model(session, averages::between(&session.base.merged()?, &last, *share)?)
            };
            let seed = run.seed.unwrap_or_default();
            let name = format!("{} seed {seed} averaged, share {share}", run.configuration);
            let model = Model { name, load: &load };
            let folder = folder.join(format!("average-{share}"));
            let at = (self.set.temperature, seed);
            checkpoints.push(self.evaluate(session, &model, at, &folder)?);
        }
        checkpoints.push(end.problems.clone());
        let point = |(place, problems)| Checkpoint { step: place as u64 + 1, problems };
        Ok(Some(RunPath {
            objective: averaged(&run.objective),
            configuration: run.configuration.clone(),
            seed: run.seed,
            is_baseline: true,
            beta: None,
            checkpoints: checkpoints.into_iter().enumerate().map(point).collect(),
        }))
    }
}

/// The name of the baseline that averages an objective's weights with the base's.
pub(crate) fn averaged(family: &str) -> String {
    format!("{family} averaged with the base")
}
