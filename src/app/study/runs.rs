//! The runs of a study: what each may spend, what it came to, and what its metrics say of its course.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tealight_core::ranks::Ranks;
use tealight_core::run_folder::{FINAL, METRICS};
use tealight_datasets::Dataset;
use tealight_eval::report::{Training, TrainingPoint};

use super::StudyOptions;
use super::configuration::Configuration;
use super::objectives::{ObjectiveValues, Objectives};
use crate::app::session::Session;
use crate::app::training::setup::RunSetup;
use tealight_formats::adapter;
use tealight_formats::pretrained::Pretrained;
use tealight_learn::train::checkpoint;
use tealight_learn::train::rlvr::{RlvrConfig, TrainingData};
use tealight_nn::device::{Dtype, Precision};
use tealight_nn::model::Decoder;
use tealight_nn::model::weights::Weights;
use tealight_nn::policy;

/// A run: a configuration from a seed.
pub(super) type Run<'c> = (&'c Configuration, u64);

/// All runs of these configurations, seed by seed.
pub(super) fn of_all<'c>(configurations: &[&'c Configuration], seeds: &[u64]) -> Vec<Run<'c>> {
    seeds.iter().flat_map(|seed| configurations.iter().map(move |one| (*one, *seed))).collect()
}

/// Does this rank's share of the runs, and waits for the others; alone it does none. A run is one rank's: when all are
/// done, the first finds them as an interrupted study would.
pub(super) fn own_runs<T>(
    ranks: &Ranks,
    all: &[Run<'_>],
    run: impl Fn(Run<'_>) -> Result<T>,
) -> Result<()> {
    if ranks.size() == 1 {
        return Ok(());
    }
    for (_, one) in all.iter().enumerate().filter(|(place, _)| ranks.is_own(*place)) {
        run(*one)?;
    }
    ranks.wait()
}

impl StudyOptions {
    /// Every configuration of every objective; each can run on every seed. Settings that apply to an objective are part
    /// of its name.
    pub(crate) fn configurations(&self) -> Result<Vec<Configuration>> {
        let mut all: Vec<Configuration> = Vec::new();
        let mut counts: Vec<(String, usize)> = Vec::new();
        for values in Objectives::all(&self.objectives) {
            let configurations = self.configurations_of(values)?;
            let family = &configurations[0].family;
            // Their values would be candidates of one objective, also those that were to be studied.
            if counts.iter().any(|(known, _)| known == family) {
                bail!(
                    "objective `{family}` is named twice: name all of its values in one pair of braces"
                );
            }
            counts.push((family.clone(), configurations.len()));
            for configuration in configurations {
                // Two that train alike are one, whatever their names are.
                if let Some(same) = all.iter().find(|known| known.is_same_run(&configuration)) {
                    let (same, other) = (same.label(), configuration.label());
                    bail!(
                        "objectives `{same}` and `{other}` train the same: leave one of them out"
                    );
                }
                all.push(configuration);
            }
        }
        if let Some((first, count)) = counts.first()
            && let Some((other, fewer)) = counts.iter().find(|(_, other)| other != count)
        {
            tracing::warn!(
                "`{first}` has {count} configurations and `{other}` {fewer}: the objective that is tuned more wins more \
                 often; NAME@{{value,value}} gives each as many"
            );
        }
        Ok(all)
    }

    fn configurations_of(&self, values: &ObjectiveValues) -> Result<Vec<Configuration>> {
        let mut configurations = values.configurations()?;
        let is_alone = configurations.len() == 1;
        for configuration in &mut configurations {
            let config = self.config(configuration, 0);
            config.plan()?;
            configuration.objective = config.resolved()?;
            if is_alone {
                configuration.family = configuration.label();
            }
        }
        Ok(configurations)
    }

    pub(crate) fn config(&self, configuration: &Configuration, seed: u64) -> RlvrConfig {
        let mut settings = self.settings.clone();
        let schedule = &mut settings.schedule;
        schedule.learning_rate = configuration.learning_rate.unwrap_or(schedule.learning_rate);
        RlvrConfig { objective: configuration.objective.clone(), seed, settings }
    }

    /// The settings of one run: --max-steps optimizer steps, in fewer rounds of rollouts where batches are split.
    pub(crate) fn budget(
        &self,
        configuration: &Configuration,
        seed: u64,
        presamples: &Path,
    ) -> Result<RlvrConfig> {
        let mut config = self.config(configuration, seed);
        let plan = config.plan()?;
        let needs_presamples = plan.needs_presamples();
        let settings = &mut config.settings;
        if needs_presamples && settings.presamples.is_none() {
            settings.presamples = Some(presamples.to_owned());
        }
        if plan.is_on_policy() {
            settings.max_steps = settings.max_steps.div_ceil(plan.updates());
        }
        Ok(config)
    }

    /// The base's samples that runs of a seed need, where any does; drawn into the study. A run that they leave nothing
    /// to train on is refused before another one is trained.
    pub(crate) fn presample(
        &self,
        session: &Session<'_>,
        train: &Dataset,
        configurations: &[&Configuration],
        seed: u64,
        output: &Path,
    ) -> Result<()> {
        let presamples = Self::presamples(output, seed);
        let mut drawn = None;
        for configuration in configurations {
            let config = self.budget(configuration, seed, &presamples)?;
            let plan = config.plan()?;
            if !plan.needs_presamples() {
                continue;
            }
            if drawn.is_none() {
                let named = self.settings.presamples.as_deref();
                let place = (named.unwrap_or(&presamples), named.is_some());
                let wants = |other: &&Configuration| {
                    self.config(other, seed).plan().is_ok_and(|plan| plan.wants_extra_check())
                };
                let extra_check = configurations.iter().any(wants);
                drawn = Some(session.presample(train, &config, extra_check, place)?);
            }
            TrainingData::new(&plan, train.problems.len(), drawn.as_ref())
                .with_context(|| format!("objective `{}`", configuration.label()))?;
        }
        Ok(())
    }

    fn presamples(output: &Path, seed: u64) -> PathBuf {
        output.join(format!("presamples-seed{seed}"))
    }

    /// The model that a run came to: trained now, continued, or read where it has ended before.
    pub(crate) fn tuned_model(
        &self,
        session: &Session<'_>,
        train: &Dataset,
        (configuration, seed): (&Configuration, u64),
        output: &Path,
    ) -> Result<Decoder> {
        let config = &self.budget(configuration, seed, &Self::presamples(output, seed))?;
        let folder = &Self::folder(output, configuration, seed);
        tealight_system::files::writable_subfolder(folder)?;
        let last = folder.join(FINAL);
        let is_done = ["config.json", adapter::CONFIG].iter().any(|file| last.join(file).exists());
        let decoder = if is_done {
            session.base.tuned(&last, &session.device)?
        } else {
            let label = format!("train {} seed {seed}", configuration.label());
            let resume = checkpoint::find(folder, "")?;
            let setup = RunSetup {
                resume: resume.as_deref(),
                path: self.path_points(config.settings.max_steps),
                ..RunSetup::plain(&label, folder)
            };
            let tuned = session.fine_tune(train, config, &setup)?;
            session.stop.check()?;
            session.save(&tuned, &last)?;
            tuned.policy.decoder().clone()
        };
        // The result replaces the checkpoint to resume from.
        checkpoint::discard(folder)?;
        Ok(decoder)
    }

    /// The folder of a run.
    pub(crate) fn folder(output: &Path, configuration: &Configuration, seed: u64) -> PathBuf {
        output.join(format!("{}-seed{seed}", configuration.slug()))
    }
}

/// The weights that the run in `folder` ended with, as they were saved.
pub(crate) fn last_weights(session: &Session<'_>, folder: &Path) -> Result<Weights> {
    let last = folder.join(FINAL).display().to_string();
    let precision = Precision { dtype: Dtype::Float32, ..session.base.precision };
    Pretrained::load(&last, precision, &session.device)?.merged()
}

/// A model of averaged weights, computed in the type of the others.
pub(crate) fn averaged_model(session: &Session<'_>, mean: Weights) -> Result<Decoder> {
    let precision = Precision { dtype: session.base.precision.dtype, ..Precision::default() };
    let placement = precision.placement(&session.device)?;
    let placed = mean.iter().map(|(name, weight)| Ok((name.clone(), placement.place(weight)?)));
    let placed = placed.collect::<Result<Weights>>()?;
    Ok(policy::frozen_decoder(&session.base.architecture, &placed)?)
}

/// The course of a run by its metrics.
pub(crate) fn history(label: &str, seed: u64, folder: &Path) -> Result<Training> {
    let rows = tealight_datasets::read::table(&folder.join(METRICS))?;
    let number = |row: &Row, name: &str| row.get(name).and_then(Value::as_f64);
    let count_of =
        |row: &Row, name: &str| row.get(name).and_then(Value::as_u64).unwrap_or(0) as usize;
    let count = |name: &str| rows.last().map_or(0, |row| count_of(row, name));
    Ok(Training {
        objective: label.to_owned(),
        seed,
        steps: count("step"),
        updates: count("num_updates"),
        completions: count("num_completions"),
        tokens: count("num_tokens"),
        gradients: count("num_gradients"),
        rehearsed: count("num_rehearsed"),
        seconds: rows.iter().filter_map(|row| number(row, "step_time")).sum(),
        folder: folder.file_name().map(|name| name.to_string_lossy().into_owned()),
        points: rows
            .iter()
            .map(|row| TrainingPoint {
                step: count_of(row, "step"),
                reward: number(row, "reward"),
                entropy: number(row, "entropy"),
                kl: number(row, "kl"),
                updates: count_of(row, "num_updates"),
                tokens: count_of(row, "num_tokens"),
            })
            .collect(),
    })
}

/// A row of metrics.
type Row = serde_json::Map<String, Value>;
