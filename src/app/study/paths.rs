//! Paths: the checkpoints that a study's fronts are made of, each on the set that chooses and on the set that reports.
//!
//! A path is a run from the base to its end, or a baseline that costs no training: the weights of a run averaged with
//! the base's, or the base at lower temperatures. Early stopping is a run's own path, of which a checkpoint is chosen.

use std::path::Path;

use anyhow::{Result, bail};
use tealight_eval::front::{Checkpoint, ProblemCounts, RunPath};
use tealight_eval::report::{HeldOut, Training, TrainingPoint, grid};
use tealight_eval::{Summary, Tally};

use super::configuration::Configuration;
use super::ledger::{self, LedgerSet};
use super::runs::last_weights;
use super::sets::{Model, StudySet};
use super::{Prepared, StudyOptions};
use crate::app::session::{Draw, Session};
use crate::app::training::held_out::HeldOutSet;
use crate::app::training::path::PathPoints;
use crate::learn::train::rlvr::RlvrConfig;
use crate::nn::generate::SamplingParams;
use crate::nn::model::{Decoder, weights};
use crate::nn::policy;

/// The name of the baseline that lowers the base's temperature.
const COLDER: &str = "base at lower temperatures";

/// The sets that checkpoints are evaluated on.
pub(crate) struct PathSets<'a> {
    valid: StudySet,
    /// Samples a problem of it.
    valid_n: usize,
    test: &'a StudySet,
    params: SamplingParams,
    options: &'a StudyOptions,
    seed: u64,
    /// The objective whose runs are averaged with the base.
    reference: Option<String>,
    ledger: Option<&'a LedgerSet>,
}

/// A checkpoint on both sets.
struct Evaluation {
    valid: Vec<Tally>,
    test: Vec<Tally>,
}

/// The results of the checkpoints of a run.
pub(crate) struct RunPaths {
    /// The run's own path, then those of its averages with the base.
    pub(crate) paths: Vec<RunPath>,
    /// The evaluations of its own path on the set that chooses, the base's first.
    pub(crate) held_out: Vec<HeldOut>,
    /// Pass@1 and the largest Pass@k of its end on that set, added.
    pub(crate) merit: f64,
    /// Its own path in the ledger, where there is one.
    pub(crate) ledger: Vec<ledger::Checkpoint>,
}

impl StudyOptions {
    /// The steps of a run whose weights are saved, where paths are asked for.
    pub(crate) fn path_points(&self, config: &RlvrConfig) -> Option<PathPoints> {
        let every = self.held_out.eval_steps;
        let count = || (self.settings.max_steps / every).max(1);
        (every > 0).then(|| PathPoints { steps: config.settings.max_steps, count: count() })
    }

    /// Refuses baselines that mean nothing.
    pub(super) fn check_baselines(&self) -> Result<()> {
        let is_between = |share: &f64| *share > 0.0 && *share < 1.0;
        if let Some(share) = self.average_share.iter().find(|share| !is_between(share)) {
            bail!("--average-share must be between 0, the base, and 1, the run: not {share}");
        }
        if let Some(factor) = self.base_temperature.iter().find(|factor| !is_between(factor)) {
            bail!("--base-temperature is a share of the temperature between 0 and 1: not {factor}");
        }
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

impl<'a> PathSets<'a> {
    /// The sets, where `held_out` is given: the first held-out set is the one that reports.
    pub(crate) fn new(
        study: &'a Prepared,
        held_out: &HeldOutSet,
        params: &SamplingParams,
    ) -> Result<Self> {
        let Some(test) = study.sets.iter().find(|set| set.domain != "train") else {
            bail!("a study needs a held-out set");
        };
        let (dataset, options) = (held_out.dataset().clone(), &study.options);
        Ok(Self {
            valid: StudySet::new(dataset, "valid", test.temperature, false),
            valid_n: options.held_out.eval_num_samples.max(options.largest()),
            test,
            params: params.clone(),
            options,
            seed: study.seeds[0],
            reference: options.reference(&study.configurations),
            ledger: study.ledger.as_ref(),
        })
    }

    fn evaluate(
        &self,
        session: &Session<'_>,
        model: &Model<'_>,
        temperature: f64,
        folders: (&Path, &Path),
    ) -> Result<Evaluation> {
        let draw = |n: usize| Draw {
            n,
            params: &self.params,
            seed: self.seed,
            max_num_seqs: self.options.settings.max_num_seqs,
        };
        let (of_valid, of_test) = (draw(self.valid_n), draw(self.options.n));
        let valid = self.valid.sampled(session, model, (&of_valid, temperature), folders.0)?;
        let test = self.test.sampled(session, model, (&of_test, temperature), folders.1)?;
        Ok(Evaluation { valid, test })
    }

    /// The base, where every path begins, and its path at lower temperatures.
    pub(crate) fn base(
        &self,
        session: &Session<'_>,
        output: &Path,
    ) -> Result<(Checkpoint, HeldOut, Vec<RunPath>)> {
        let load = || Ok(session.reference.clone());
        let at = |factor: f64, name: String, folder: &Path| {
            let model = Model { name, load: &load };
            self.evaluate(session, &model, factor * self.test.temperature, (folder, folder))
        };
        let folder = output.join("base");
        let base = at(1.0, "base".into(), &folder)?;
        let mut colder = Vec::new();
        for factor in &self.options.base_temperature {
            let temperature = factor * self.test.temperature;
            let name = format!("base at temperature {temperature}");
            let evaluation = at(*factor, name, &folder.join(format!("temperature-{temperature}")))?;
            colder.push(RunPath {
                objective: COLDER.into(),
                configuration: format!("temperature {temperature}"),
                seed: None,
                checkpoints: vec![evaluation.checkpoint(0, 0)],
            });
        }
        Ok((base.checkpoint(0, 0), self.held_out(0, &base)?, colder))
    }

    /// The path of a run that has ended, evaluated as far as that is not done; weights on the way are removed then.
    pub(crate) fn run(
        &self,
        session: &Session<'_>,
        (configuration, config): (&Configuration, &RlvrConfig),
        (training, last): (&Training, &Decoder),
        folder: &Path,
    ) -> Result<RunPaths> {
        let label = configuration.label();
        let Some(points) = self.options.path_points(config) else { bail!("{label} has no path") };
        let (mut checkpoints, mut held_out, mut merit) = (Vec::new(), Vec::new(), 0.0);
        let mut in_ledger = Vec::new();
        for step in points.reached(training.steps) {
            let is_last = step == training.steps;
            let own_folder = PathPoints::folder(folder, step);
            let load = || match is_last {
                true => Ok(last.clone()),
                false => session.base.tuned(&PathPoints::model(folder, step), &session.device),
            };
            let name = format!("{label} seed {} step {step}", config.seed);
            let model = Model { name, load: &load };
            // The end has been evaluated on the test set already.
            let of_test = if is_last { folder } else { own_folder.as_path() };
            let evaluation =
                self.evaluate(session, &model, self.test.temperature, (&own_folder, of_test))?;
            let cost = training.points.iter().find(|point| point.step == step);
            let (updates, tokens) = cost.map_or((0, 0), |cost| (cost.updates, cost.tokens));
            checkpoints.push(evaluation.checkpoint(updates, tokens));
            let of_valid = self.held_out(step, &evaluation)?;
            merit = self.merit(&of_valid);
            held_out.push(of_valid);
            if let Some(ledger) = self.ledger {
                let (sampled, logp) = (
                    ledger.sampled(&evaluation.test),
                    ledger.scored(session, &model, &own_folder)?,
                );
                in_ledger.push(ledger::Checkpoint { step, updates, sampled, logp });
            }
            PathPoints::discard(folder, step)?;
        }
        let mut paths = vec![RunPath {
            objective: configuration.family.clone(),
            configuration: label.clone(),
            seed: Some(config.seed),
            checkpoints,
        }];
        let end = training.points.last();
        paths.extend(self.averages(session, (configuration, config.seed), end, folder)?);
        Ok(RunPaths { paths, held_out, merit, ledger: in_ledger })
    }

    /// The weights of the run's end averaged with the base's, a path for each share.
    fn averages(
        &self,
        session: &Session<'_>,
        (configuration, seed): (&Configuration, u64),
        end: Option<&TrainingPoint>,
        folder: &Path,
    ) -> Result<Vec<RunPath>> {
        let label = configuration.label();
        let (updates, tokens) = end.map_or((0, 0), |end| (end.updates, end.tokens));
        let mut paths = Vec::new();
        let shares = &self.options.average_share;
        for share in shares.iter().filter(|_| self.is_averaged(configuration)) {
            let load = || {
                let last = last_weights(session, folder)?;
                let mean = weights::between(&session.base.merged()?, &last, *share)?;
                Ok(policy::frozen_decoder(&session.base.architecture, &mean)?)
            };
            let name = format!("{label} seed {seed} averaged, share {share}");
            let model = Model { name, load: &load };
            let folder_of_share = folder.join(format!("average-{share}"));
            let evaluation = self.evaluate(
                session,
                &model,
                self.test.temperature,
                (&folder_of_share, &folder_of_share),
            )?;
            paths.push(RunPath {
                objective: averaged(&configuration.family),
                configuration: format!("{label}, share {share}"),
                seed: Some(seed),
                checkpoints: vec![evaluation.checkpoint(updates, tokens)],
            });
        }
        Ok(paths)
    }

    fn is_averaged(&self, configuration: &Configuration) -> bool {
        self.reference.as_ref() == Some(&configuration.family)
    }

    fn held_out(&self, step: usize, evaluation: &Evaluation) -> Result<HeldOut> {
        let n = self.valid_n;
        let ks = [self.options.k.as_slice(), &[n]].concat();
        let summary = Summary::new(&evaluation.valid, &grid(&ks, n))?;
        Ok(HeldOut::new(step, &summary, n))
    }

    fn merit(&self, point: &HeldOut) -> f64 {
        let at = |k: usize| point.pass_at_k.iter().find(|(at, _)| *at == k).map_or(0.0, |x| x.1);
        at(1) + at(self.options.largest())
    }
}

/// The name of the baseline that averages an objective's weights with the base's.
pub(crate) fn averaged(family: &str) -> String {
    format!("{family} averaged with the base")
}

impl Evaluation {
    fn checkpoint(&self, updates: usize, tokens: usize) -> Checkpoint {
        let counts = |tallies: &[Tally]| tallies.iter().map(ProblemCounts::from).collect();
        Checkpoint {
            step: updates as u64,
            generated_tokens: tokens as u64,
            valid: counts(&self.valid),
            test: counts(&self.test),
        }
    }
}
