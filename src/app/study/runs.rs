//! The runs of a study: what each may spend, what it came to, and what its metrics say of its course.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tealight_datasets::Dataset;
use tealight_eval::report::{Training, TrainingPoint};

use super::StudyOptions;
use crate::adapter;
use crate::app::session::Session;
use crate::app::training::fine_tune::Place;
use crate::app::training::held_out::{self, BEST, HeldOutSet};
use crate::model::Decoder;
use crate::model::weights;
use crate::objective::{ImportanceCorrection, Objective};
use crate::policy;
use crate::pretrained::Pretrained;
use crate::train::checkpoint;
use crate::train::rlvr::{RlvrConfig, wants_extra_check, wants_presamples};

/// In what every run of a study is given as much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matched {
    /// Sampled completions, those of the base included: one that samples the base first trains for fewer steps.
    Completions,
    /// Sampled tokens, likewise, up to --max-tokens.
    Tokens,
    /// Optimizer steps, --max-steps of them: fewer rounds of rollouts where batches are split; what the base's samples
    /// cost comes on top.
    Updates,
}

/// A model made of a run without further training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Its best model by --eval-steps: early stopping.
    Best,
    /// The mean of its weights and the base's.
    Average,
}

impl Variant {
    /// What the variant of an objective is called.
    pub(crate) fn label(self, objective: &Objective) -> String {
        match self {
            Variant::Best => format!("{objective} +best"),
            Variant::Average => format!("{objective} +average"),
        }
    }

    /// Where its samples go, in the folder of its run.
    pub(crate) fn folder(self, run: &Path) -> PathBuf {
        run.join(match self {
            Variant::Best => "evaluated-best",
            Variant::Average => "evaluated-average",
        })
    }

    /// What it is, in words.
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
                let last = folder.join("final").display().to_string();
                let last = Pretrained::load(&last, base.precision, &session.device)?;
                let mean = weights::mean(&[base.merged()?, last.merged()?])?;
                Ok(policy::frozen_decoder(&base.architecture, &mean)?)
            }
        }
    }
}

impl StudyOptions {
    /// The objectives, bare names replaced by what they stand for; each can run on every seed. Settings that apply to
    /// an objective are part of what it is called.
    pub(crate) fn resolved_objectives(&self) -> Result<Vec<Objective>> {
        let mut resolved: Vec<Objective> = Vec::new();
        for objective in &self.objectives {
            let tuned = self.tuned.iter().find(|tuned| tuned.name() == objective.name());
            let chosen = tuned.filter(|_| objective.is_bare()).unwrap_or(objective);
            let config = self.config(chosen, 0);
            config.plan()?;
            let chosen = config.resolved()?;
            // Two that train alike are one, whatever they are called.
            if let Some(same) = resolved.iter().find(|known| known.plan == chosen.plan) {
                bail!("objectives `{same}` and `{chosen}` train the same: leave one of them out");
            }
            resolved.push(chosen);
        }
        Ok(resolved)
    }

    pub(crate) fn config(&self, objective: &Objective, seed: u64) -> RlvrConfig {
        RlvrConfig { objective: objective.clone(), seed, settings: self.settings.clone() }
    }

    /// The settings of one run, within its budget.
    pub(crate) fn budget(
        &self,
        objective: &Objective,
        seed: u64,
        prompts: usize,
        presamples: &Path,
    ) -> Result<RlvrConfig> {
        let mut config = self.config(objective, seed);
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
                            "objective `{objective}`: sampling the base {each} times a prompt costs as much as {spent} \
                             steps, all of --max-steps {}; lower --num-presamples, or --match updates",
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
        objectives: &[Objective],
        seed: u64,
        output: &Path,
    ) -> Result<()> {
        let presamples = Self::presamples(output, seed);
        for objective in objectives {
            let config = self.budget(objective, seed, train.problems.len(), &presamples)?;
            if config.settings.presamples.as_ref() != Some(&presamples) {
                continue;
            }
            let wants = |other: &Objective| {
                self.config(other, seed).plan().is_ok_and(|plan| wants_extra_check(&plan))
            };
            session.presample(train, &config, objectives.iter().any(wants), &presamples)?;
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
        objective: &Objective,
        seed: u64,
        held_out: Option<&HeldOutSet>,
        output: &Path,
    ) -> Result<Vec<(String, Decoder, PathBuf)>> {
        let presamples = Self::presamples(output, seed);
        let config = self.budget(objective, seed, train.problems.len(), &presamples)?;
        let folder = Self::folder(output, objective, seed);
        crate::files::writable_subfolder(&folder)?;
        let tuned = self.tuned_model(session, train, &config, held_out, &folder)?;
        let mut models = vec![(objective.to_string(), tuned, folder.clone())];
        for variant in &self.variants {
            let model = variant.model(session, &folder)?;
            models.push((variant.label(objective), model, variant.folder(&folder)));
        }
        Ok(models)
    }

    /// The model that a run came to: trained now, continued, or read where it has ended before.
    pub(crate) fn tuned_model(
        &self,
        session: &Session<'_>,
        train: &Dataset,
        config: &RlvrConfig,
        held_out: Option<&HeldOutSet>,
        folder: &Path,
    ) -> Result<Decoder> {
        let last = folder.join("final");
        let is_done = ["config.json", adapter::CONFIG].iter().any(|file| last.join(file).exists());
        let decoder = if is_done {
            session.base.tuned(&last, &session.device)?
        } else {
            let label = format!("train {} seed {}", config.objective, config.seed);
            let resume = checkpoint::find(folder, "")?;
            let resume = resume.as_deref();
            let place = Place {
                label: &label,
                output: folder,
                resume,
                on_step: None,
                held_out,
                engine: None,
                correction: ImportanceCorrection::default(),
            };
            let tuned = session.fine_tune(train, config, &place)?;
            session.stop.check()?;
            session.save(&tuned, &last)?;
            tuned.policy.decoder().clone()
        };
        // What the run could go on from; now there is its result.
        checkpoint::discard(folder)?;
        Ok(decoder)
    }

    /// The folder of a run.
    pub(crate) fn folder(output: &Path, objective: &Objective, seed: u64) -> PathBuf {
        output.join(format!("{}-seed{seed}", objective.slug()))
    }
}

/// What a run's metrics say of its course.
pub(crate) fn history(objective: &Objective, seed: u64, folder: &Path) -> Result<Training> {
    let rows = tealight_datasets::read::table(&folder.join("metrics.jsonl"))?;
    let number = |row: &Row, name: &str| row.get(name).and_then(Value::as_f64);
    let count =
        |name: &str| rows.last().and_then(|row| row.get(name)?.as_u64()).unwrap_or(0) as usize;
    Ok(Training {
        objective: objective.to_string(),
        seed,
        steps: count("step"),
        updates: count("num_updates"),
        completions: count("num_completions"),
        tokens: count("num_tokens"),
        gradients: count("num_gradients"),
        rehearsed: count("num_rehearsed"),
        seconds: rows.iter().filter_map(|row| number(row, "step_time")).sum(),
        points: rows
            .iter()
            .map(|row| TrainingPoint {
                step: row.get("step").and_then(Value::as_u64).unwrap_or(0) as usize,
                reward: number(row, "reward"),
                entropy: number(row, "entropy"),
                kl: number(row, "kl"),
            })
            .collect(),
        held_out: held_out::read(folder)?.into_iter().map(|(found, _)| found).collect(),
    })
}

/// A row of metrics.
type Row = serde_json::Map<String, Value>;
