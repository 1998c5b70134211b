//! Paths: the checkpoints that a study's curves are made of, each on the set that reports; those of runs also on the
//! set
//! that chooses among configurations.
//!
//! A path is a run from the base to its end, or a baseline that costs no training: the weights of a run averaged with
//! the base's, or the base at lower temperatures.

use std::path::Path;

use anyhow::{Result, bail};
use tealight_eval::curve::{Answers, Checkpoint, RunPath};
use tealight_eval::report::{HeldOut, Training, grid};
use tealight_eval::{Summary, Tally};

use super::configuration::Configuration;
use super::ledger;
use super::listed_set::ListedSet;
use super::runs::{averaged_model, last_weights};
use super::sets::{Model, StudySet};
use super::{Prepared, StudyOptions, curves};
use crate::app::session::{SamplingRequest, Session};
use crate::app::training::held_out::HeldOutSet;
use crate::app::training::path::PathPoints;
use crate::learn::train::rlvr::RlvrConfig;
use crate::nn::generate::SamplingParams;
use crate::nn::model::{Decoder, averages};

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
    ledger: Option<&'a ListedSet>,
    /// The answers whose probabilities curves are made of; without them, samples.
    listed: Option<&'a ListedSet>,
}

/// A checkpoint on the set that reports.
struct Evaluation {
    answers: Vec<Answers>,
    /// Its samples, where there are some.
    sampled: Option<Vec<Tally>>,
}

/// The base, where every path begins.
pub(crate) struct BasePath {
    /// At the temperature of evaluations, then at those of --temperatures.
    pub(crate) answers: Vec<Vec<Answers>>,
    /// Its evaluation on the set that chooses.
    pub(crate) held_out: HeldOut,
    /// The base at lower temperatures.
    pub(crate) colder: Option<RunPath>,
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
        if let Some(factor) = self.temperatures.iter().find(|factor| !is_between(factor)) {
            bail!("--temperatures are shares of the temperature between 0 and 1: not {factor}");
        }
        if !self.temperatures.is_empty() && self.held_out.eval_steps == 0 {
            bail!(
                "--temperatures needs --eval-steps and --eval-dataset, which evaluate checkpoints"
            );
        }
        let all = [
            ("--average-share", &self.average_share),
            ("--base-temperature", &self.base_temperature),
            ("--temperatures", &self.temperatures),
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
            valid: StudySet::new(dataset, "valid", test.temperature, false)
                .counting(test.truncated),
            valid_n: options.held_out.eval_num_samples.max(options.largest()),
            test,
            params: params.clone(),
            options,
            seed: study.seeds[0],
            reference: options.reference(&study.configurations),
            ledger: study.ledger.as_ref(),
            listed: study.listed.as_ref(),
        })
    }

    /// Whether curves are made of probabilities.
    pub(crate) fn is_exact(&self) -> bool {
        self.listed.is_some()
    }

    fn draw(&self, n: usize) -> SamplingRequest<'_> {
        SamplingRequest {
            n,
            params: &self.params,
            seed: self.seed,
            max_num_seqs: self.options.settings.max_num_seqs,
        }
    }

    /// A model on the set that reports.
    fn evaluate(
        &self,
        session: &Session<'_>,
        model: &Model<'_>,
        temperature: f64,
        folder: &Path,
    ) -> Result<Evaluation> {
        // A ledger compares its probabilities with samples.
        let sampled = match self.listed.is_none() || self.ledger.is_some() {
            true => {
                let draw = self.draw(self.options.n);
                Some(self.test.sampled(session, model, (&draw, temperature), folder)?)
            }
            false => None,
        };
        let answers = match (self.listed, &sampled) {
            (Some(listed), _) => {
                let at = (temperature, folder);
                session.ranks.first(|| listed.scored(session, model, at).map(drop))?;
                let problems = listed.problems(&listed.scored(session, model, at)?);
                problems.into_iter().map(Answers::Listed).collect()
            }
            (None, sampled) => {
                let to_answers = |tally: &Tally| Answers::Sampled(tally.into());
                sampled.iter().flatten().map(to_answers).collect()
            }
        };
        Ok(Evaluation { answers, sampled })
    }

    /// A model on the set that reports at each further temperature.
    fn colder(
        &self,
        session: &Session<'_>,
        model: &Model<'_>,
        folder: &Path,
    ) -> Result<Vec<Vec<Answers>>> {
        let at = |factor: &f64| {
            let temperature = factor * self.test.temperature;
            let folder = folder.join(format!("temperature-{temperature}"));
            Ok(self.evaluate(session, model, temperature, &folder)?.answers)
        };
        self.options.temperatures.iter().map(at).collect()
    }

    /// A model on the set that chooses.
    fn valid(&self, session: &Session<'_>, model: &Model<'_>, folder: &Path) -> Result<Vec<Tally>> {
        let draw = self.draw(self.valid_n);
        self.valid.sampled(session, model, (&draw, self.test.temperature), folder)
    }

    /// Falls back to samples where the base's find more correct answers than are listed.
    fn settle(&mut self, session: &Session<'_>, model: &Model<'_>, folder: &Path) -> Result<()> {
        let Some(listed) = self.listed else { return Ok(()) };
        let at = (self.test.temperature, folder);
        session.ranks.first(|| listed.scored(session, model, at).map(drop))?;
        let problems = listed.problems(&listed.scored(session, model, at)?);
        let draw = self.draw(self.options.n);
        let sampled = self.test.sampled(session, model, (&draw, self.test.temperature), folder)?;
        if !curves::is_whole(&problems, &sampled) {
            tracing::warn!(
                "curves are estimated from samples: the base's samples on {} have more correct answers than the listed \
                 ones, so it spells some otherwise",
                listed.dataset
            );
            self.listed = None;
        }
        Ok(())
    }

    /// The base, where every path begins, and its path at lower temperatures.
    pub(crate) fn base(&mut self, session: &Session<'_>, output: &Path) -> Result<BasePath> {
        let load = || Ok(session.reference.clone());
        let folder = output.join("base");
        let base = Model { name: "base".into(), load: &load };
        self.settle(session, &base, &folder)?;
        let warm = self.evaluate(session, &base, self.test.temperature, &folder)?.answers;
        let answers = [vec![warm], self.colder(session, &base, &folder)?].concat();
        let valid = self.valid(session, &base, &folder)?;
        let mut factors = self.options.base_temperature.clone();
        factors.sort_by(|a, b| b.total_cmp(a));
        let mut colder = Vec::new();
        for (place, factor) in factors.iter().enumerate() {
            let temperature = factor * self.test.temperature;
            let model = Model { name: format!("base at temperature {temperature}"), load: &load };
            let folder = folder.join(format!("temperature-{temperature}"));
            let problems = self.evaluate(session, &model, temperature, &folder)?.answers;
            colder.push(Checkpoint { step: place as u64 + 1, problems, colder: Vec::new() });
        }
        let names: Vec<String> = factors.iter().map(ToString::to_string).collect();
        let colder = RunPath {
            objective: COLDER.into(),
            configuration: format!("temperatures {}", names.join(", ")),
            seed: None,
            is_baseline: true,
            checkpoints: colder,
        };
        let colder = Some(colder).filter(|path| !path.checkpoints.is_empty());
        Ok(BasePath { answers, held_out: self.held_out(0, &valid)?, colder })
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
            // The end has been sampled on the test set already.
            let of_test = if is_last { folder } else { own_folder.as_path() };
            let evaluation = self.evaluate(session, &model, self.test.temperature, of_test)?;
            let cost = training.points.iter().find(|point| point.step == step);
            let updates = cost.map_or(0, |cost| cost.updates);
            checkpoints.push(Checkpoint {
                step: updates as u64,
                problems: evaluation.answers,
                colder: self.colder(session, &model, &own_folder)?,
            });
            let of_valid = self.held_out(step, &self.valid(session, &model, &own_folder)?)?;
            merit = self.merit(&of_valid);
            held_out.push(of_valid);
            if let Some(ledger) = self.ledger {
                let at = (self.test.temperature, own_folder.as_path());
                let logp = ledger.scored(session, &model, at)?;
                let sampled = evaluation.sampled.as_ref();
                let sampled = sampled.and_then(|tallies| ledger::sampled(ledger, tallies));
                in_ledger.push(ledger::Checkpoint { step, updates, sampled, logp });
            }
            PathPoints::discard(folder, step)?;
        }
        let mut paths = vec![RunPath {
            objective: configuration.family.clone(),
            configuration: label.clone(),
            seed: Some(config.seed),
            is_baseline: false,
            checkpoints,
        }];
        paths.extend(self.averages(session, &paths[0], folder)?);
        Ok(RunPaths { paths, held_out, merit, ledger: in_ledger })
    }

    /// The weights of the run's end averaged with the base's: a path by the share of the run, which ends at the run's
    /// own
    /// end; none of a run that is not averaged.
    fn averages(
        &self,
        session: &Session<'_>,
        run: &RunPath,
        folder: &Path,
    ) -> Result<Option<RunPath>> {
        let mut shares = self.options.average_share.clone();
        shares.sort_by(f64::total_cmp);
        let Some(end) = run.checkpoints.last().filter(|_| self.is_averaged(run)) else {
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
            let at = self.evaluate(session, &model, self.test.temperature, &folder)?;
            checkpoints.push(at.answers);
        }
        checkpoints.push(end.problems.clone());
        let point =
            |(place, problems)| Checkpoint { step: place as u64 + 1, problems, colder: Vec::new() };
        Ok(Some(RunPath {
            objective: averaged(&run.objective),
            configuration: run.configuration.clone(),
            seed: run.seed,
            is_baseline: true,
            checkpoints: checkpoints.into_iter().enumerate().map(point).collect(),
        }))
    }

    fn is_averaged(&self, run: &RunPath) -> bool {
        self.reference.as_ref() == Some(&run.objective) && !self.options.average_share.is_empty()
    }

    fn held_out(&self, step: usize, valid: &[Tally]) -> Result<HeldOut> {
        let n = self.valid_n;
        let ks = [self.options.k.as_slice(), &[n]].concat();
        Ok(HeldOut::new(step, &Summary::new(valid, &grid(&ks, n))?, n))
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
