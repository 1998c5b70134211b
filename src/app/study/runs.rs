//! The runs of a study: what each may spend, what it came to, and what its metrics say of its course.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tealight_datasets::Dataset;
use tealight_eval::report::{Training, TrainingPoint};

use super::StudyOptions;
use super::configuration::Configuration;
use super::tuning::{Objectives, Tuning};
use crate::app::directory::FINAL;
use crate::app::session::Session;
use crate::app::training::held_out::{self, BEST, HeldOutSet};
use crate::app::training::setup::RunSetup;
use crate::formats::adapter;
use crate::formats::pretrained::Pretrained;
use crate::learn::objective::ImportanceCorrection;
use crate::learn::train::checkpoint;
use crate::learn::train::rlvr::{RlvrConfig, wants_extra_check, wants_presamples};
use crate::nn::device::{Dtype, Precision};
use crate::nn::model::Decoder;
use crate::nn::model::averages;
use crate::nn::model::weights::Weights;
use crate::nn::policy;

/// Budget equalised across the runs of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matched {
    /// Sampled completions, those of the base included: an objective that samples the base trains for fewer steps.
    Completions,
    /// Sampled tokens, those of the base included, up to --max-tokens.
    Tokens,
    /// Optimizer steps, up to --max-steps: fewer rounds of rollouts where batches are split; samples of the base are
    /// not counted.
    Updates,
}

/// A model made of a run without further training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The run's best model by --eval-steps: early stopping.
    Best,
    /// The mean of the run's weights and the base's.
    Average,
}

impl Variant {
    /// The label of the variant of a configuration.
    pub(crate) fn label(self, run: &str) -> String {
        match self {
            Variant::Best => format!("{run} +best"),
            Variant::Average => format!("{run} +average"),
        }
    }

    /// Where its samples go, in the folder of its run.
    pub(crate) fn folder(self, run: &Path) -> PathBuf {
        run.join(match self {
            Variant::Best => "evaluated-best",
            Variant::Average => "evaluated-average",
        })
    }

    /// The variant in words.
    pub(crate) fn about(self, metric: &str) -> String {
        match self {
            Variant::Best => format!("the run's best model by held-out {metric}: early stopping"),
            Variant::Average => "the mean of the run's weights and the base's".to_owned(),
        }
    }

    /// The model, of the run in `folder`.
    pub(crate) fn model(self, session: &Session<'_>, folder: &Path) -> Result<Decoder> {
        let base = session.base;
        match self {
            Variant::Best => base.tuned(&folder.join(BEST), &session.device),
            Variant::Average => {
                let last = last_weights(session, folder)?;
                averaged_model(session, averages::mean(&[base.merged()?, last])?)
            }
        }
    }
}

impl StudyOptions {
    /// Every configuration of every objective, bare names replaced by what they stand for; each can run on every seed.
    /// Settings that apply to an objective are part of its name.
    pub(crate) fn configurations(&self) -> Result<Vec<Configuration>> {
        let mut all: Vec<Configuration> = Vec::new();
        let mut counts: Vec<(String, usize)> = Vec::new();
        for tuning in Objectives::all(&self.objectives) {
            let configurations = self.configurations_of(tuning)?;
            counts.push((configurations[0].family.clone(), configurations.len()));
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
        let Some((first, count)) = counts.first() else { return Ok(all) };
        match counts.iter().find(|(_, other)| other != count) {
            Some((other, fewer)) if !self.allow_unequal_tuning => bail!(
                "`{first}` has {count} configurations and `{other}` {fewer}: the objective that is tuned more wins more \
                 often; give each as many (NAME@{{value,value}}), or add --allow-unequal-tuning"
            ),
            _ => Ok(all),
        }
    }

    fn configurations_of(&self, tuning: &Tuning) -> Result<Vec<Configuration>> {
        let objective = tuning.objective();
        let tuned = self.tuned.iter().find(|tuned| tuned.name() == objective.name());
        let mut configurations = match tuned.filter(|_| tuning.is_bare()) {
            Some(chosen) => vec![Configuration::new(chosen)],
            None => tuning.configurations()?,
        };
        let is_alone = configurations.len() == 1;
        for configuration in &mut configurations {
            let config = self.config(configuration, 0);
            config.plan()?;
            configuration.objective = config.resolved()?;
            if let Some(steps) = configuration.max_steps.filter(|s| *s > self.settings.max_steps) {
                bail!(
                    "`{}` trains for {steps} steps and --max-steps, the budget of every run, is {}: raise --max-steps",
                    configuration.label(),
                    self.settings.max_steps
                );
            }
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
        settings.max_steps = configuration.max_steps.unwrap_or(settings.max_steps);
        RlvrConfig { objective: configuration.objective.clone(), seed, settings }
    }

    /// The settings of one run, within its budget.
    pub(crate) fn budget(
        &self,
        configuration: &Configuration,
        seed: u64,
        prompts: usize,
        presamples: &Path,
    ) -> Result<RlvrConfig> {
        let mut config = self.config(configuration, seed);
        let plan = config.plan()?;
        let needs_presamples = wants_presamples(&config, &plan);
        let settings = &mut config.settings;
        let step = settings.prompts_per_step.min(prompts) * settings.num_generations;
        if needs_presamples && settings.presamples.is_none() {
            settings.presamples = Some(presamples.to_owned());
        }
        match self.matched {
            Matched::Updates if plan.is_on_policy() => {
                settings.max_steps = settings.max_steps.div_ceil(plan.updates());
            }
            Matched::Updates => {}
            Matched::Tokens if settings.max_tokens.is_none() => {
                bail!("--match tokens needs --max-tokens: how many each run may sample")
            }
            Matched::Tokens => {}
            Matched::Completions => {
                settings.max_completions = Some(settings.max_steps * step);
                if needs_presamples && plan.is_on_policy() {
                    let each = settings.num_presamples + usize::from(wants_extra_check(&plan));
                    let spent = (each * prompts).div_ceil(step);
                    let left = settings.max_steps.checked_sub(spent).filter(|left| *left > 0);
                    settings.max_steps = left.with_context(|| {
                        format!(
                            "objective `{}`: sampling the base {each} times a prompt costs as much as {spent} \
                             steps, all of --max-steps {}; lower --num-presamples, or --match updates",
                            configuration.label(),
                            settings.max_steps
                        )
                    })?;
                }
            }
        }
        Ok(config)
    }

    /// The base's samples that runs of a seed need, where any does; drawn into the study.
    pub(crate) fn presample(
        &self,
        session: &Session<'_>,
        train: &Dataset,
        configurations: &[Configuration],
        seed: u64,
        output: &Path,
    ) -> Result<()> {
        let presamples = Self::presamples(output, seed);
        for configuration in configurations {
            let config = self.budget(configuration, seed, train.problems.len(), &presamples)?;
            if config.settings.presamples.as_ref() != Some(&presamples) {
                continue;
            }
            let wants = |other: &Configuration| {
                self.config(other, seed).plan().is_ok_and(|plan| wants_extra_check(&plan))
            };
            session.presample(train, &config, configurations.iter().any(wants), &presamples)?;
            break;
        }
        Ok(())
    }

    fn presamples(output: &Path, seed: u64) -> PathBuf {
        output.join(format!("presamples-seed{seed}"))
    }

    /// The models of a run, each with its label and the folder of its samples: what was trained, and its variants.
    pub(crate) fn models(
        &self,
        session: &Session<'_>,
        train: &Dataset,
        (configuration, seed): (&Configuration, u64),
        held_out: Option<&HeldOutSet>,
        output: &Path,
    ) -> Result<Vec<(String, Decoder, PathBuf)>> {
        let presamples = Self::presamples(output, seed);
        let config = self.budget(configuration, seed, train.problems.len(), &presamples)?;
        let folder = Self::folder(output, configuration, seed);
        crate::system::files::writable_subfolder(&folder)?;
        let label = configuration.label();
        let tuned = self.tuned_model(session, train, (&label, &config), held_out, &folder)?;
        let mut models = vec![(label.clone(), tuned, folder.clone())];
        for variant in &self.variants {
            let model = variant.model(session, &folder)?;
            models.push((variant.label(&label), model, variant.folder(&folder)));
        }
        Ok(models)
    }

    /// The model that a run came to: trained now, continued, or read where it has ended before.
    pub(crate) fn tuned_model(
        &self,
        session: &Session<'_>,
        train: &Dataset,
        (label, config): (&str, &RlvrConfig),
        held_out: Option<&HeldOutSet>,
        folder: &Path,
    ) -> Result<Decoder> {
        let last = folder.join(FINAL);
        let is_done = ["config.json", adapter::CONFIG].iter().any(|file| last.join(file).exists());
        let decoder = if is_done {
            session.base.tuned(&last, &session.device)?
        } else {
            let label = format!("train {label} seed {}", config.seed);
            let resume = checkpoint::find(folder, "")?;
            let resume = resume.as_deref();
            let setup = RunSetup {
                label: &label,
                output: folder,
                resume,
                begin: &|| Ok(()),
                on_step: None,
                held_out: held_out.filter(|_| self.variants.contains(&Variant::Best)),
                path: self.path_points(config),
                engine: None,
                device_link: None,
                correction: ImportanceCorrection::default(),
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
    let rows = tealight_datasets::read::table(&folder.join("metrics.jsonl"))?;
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
        planned_memory: None,
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
        held_out: held_out::read(folder)?.into_iter().map(|(point, _)| point).collect(),
    })
}

/// A row of metrics.
type Row = serde_json::Map<String, Value>;
