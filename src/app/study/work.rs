//! The work of a study in order: the base, its samples for training, every run with its evaluations, the comparison.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use tealight_eval::Summary;
use tealight_eval::curve::RunPath;
use tealight_eval::report::{Evaluated, Measured, Study, Training, Tuned, grid};
use tealight_eval::results::Question;

use super::paths::PathSet;
use super::runs::{Run, history, of_all, own_runs};
use super::sets::StudySet;
use super::{Prepared, StudyOptions, curves, tuning};
use crate::app::session::Session;
use tealight_nn::generate::SamplingParams;
use tealight_nn::model::Decoder;

/// A study under way.
pub(super) struct Work<'a> {
    study: &'a Prepared,
    session: Session<'a>,
    params: SamplingParams,
    output: &'a Path,
    /// The k of curves.
    grid: Vec<usize>,
}

/// A run that has ended.
struct FinishedRun {
    label: String,
    /// Its results on each set in turn.
    measured: Vec<Measured>,
    training: Training,
    paths: Vec<RunPath>,
}

impl<'a> Work<'a> {
    pub(super) fn new(study: &'a Prepared, session: Session<'a>, output: &'a Path) -> Result<Self> {
        let options = &study.options;
        let params = options.sets.sampling(&options.settings, &study.base.tokenizer);
        let grid = grid(&options.k, options.n);
        Ok(Self { study, session, params, output, grid })
    }

    /// Does it all; nothing is reported on other ranks than the first.
    pub(super) fn done(self, started: Instant) -> Result<Option<Study>> {
        let (study, options, session) = (self.study, &self.study.options, &self.session);
        let mut datasets = self.base()?;
        let mut paths = (options.eval_steps > 0).then(|| PathSet::of_test(study, &self.params));
        let base =
            paths.as_mut().map(|paths| paths.with_colder(session, self.output)).transpose()?;
        let (chosen, tuning) = tuning::chosen(study, session, &self.params, self.output)?;
        for seed in &study.seeds {
            options.presample(session, &study.train, &chosen, *seed, self.output)?;
        }
        let own = session.alone();
        let all = of_all(&chosen, &study.seeds);
        own_runs(&session.ranks, &all, |run| self.run(&own, run, paths.as_ref()))?;
        if !session.ranks.is_first() {
            return Ok(None);
        }
        let runs: Vec<FinishedRun> = all
            .into_iter()
            .map(|run| self.run(&own, run, paths.as_ref()))
            .collect::<Result<_>>()?;
        for run in &runs {
            for (evaluated, measured) in datasets.iter_mut().zip(&run.measured) {
                let (objective, seed) = (run.label.clone(), run.training.seed);
                evaluated.tuned.push(Tuned { objective, seed, measured: measured.clone() });
            }
        }
        let named: Vec<(String, String)> =
            chosen.iter().map(|one| (one.label(), one.about())).collect();
        let labels: Vec<String> = named.iter().map(|(label, _)| label.clone()).collect();
        datasets.iter_mut().for_each(|set| set.contrast(&labels, &self.grid));
        let compared = match (base, &paths) {
            (Some(base), Some(sets)) => {
                let of_runs = runs.iter().flat_map(|run| run.paths.iter().cloned());
                let mut paths: Vec<RunPath> = of_runs.collect();
                paths.sort_by_key(|path| path.is_baseline);
                paths.extend(base.colder);
                curves::compared(study, (&base.answers, sets.is_exact()), &paths)
            }
            _ => curves::Compared::default(),
        };
        let training = runs.into_iter().map(|run| run.training).collect();
        let reported = options.reported(study, (named, datasets, training), compared, started);
        Ok(Some(Study { tuning, ..reported }))
    }

    /// The base on every set.
    fn base(&self) -> Result<Vec<Evaluated>> {
        let folder = self.output.join("base");
        let seed = self.study.seeds[0];
        let one = |set: &StudySet| -> Result<Evaluated> {
            let base = (&self.session.base_decoder, "base");
            Ok(Evaluated {
                name: set.dataset.name.clone(),
                domain: set.domain.to_owned(),
                temperature: set.temperature,
                questions: Question::all(&set.dataset),
                base: self.measured(&self.session, set, (base, seed), &folder)?,
                tuned: Vec::new(),
                contrasts: Vec::new(),
            })
        };
        self.study.sets.iter().map(one).collect()
    }

    /// Trains and evaluates as far as that is not done.
    fn run(
        &self,
        session: &Session<'_>,
        (configuration, seed): Run<'_>,
        paths: Option<&PathSet<'_>>,
    ) -> Result<FinishedRun> {
        let (study, options) = (self.study, &self.study.options);
        let run = (configuration, seed);
        let decoder = options.tuned_model(session, &study.train, run, self.output)?;
        let (label, folder) =
            (configuration.label(), StudyOptions::folder(self.output, configuration, seed));
        let on = |set| self.measured(session, set, ((&decoder, &label), seed), &folder);
        let measured = study.sets.iter().map(on).collect::<Result<Vec<_>>>()?;
        let training = history(&label, seed, &folder)?;
        let paths = match paths {
            Some(sets) => sets.run(session, configuration, (&training, &decoder), &folder)?,
            None => Vec::new(),
        };
        Ok(FinishedRun { label, measured, training, paths })
    }

    fn measured(
        &self,
        session: &Session<'_>,
        set: &StudySet,
        (model, seed): ((&Decoder, &str), u64),
        folder: &Path,
    ) -> Result<Measured> {
        let options = &self.study.options;
        let draw = options.draw(&self.params, seed);
        let tallies = set.tallies(session, model, &draw, !options.sets.no_greedy, folder)?;
        let samples = folder.strip_prefix(self.output).unwrap_or(folder).join(set.samples_file());
        Ok(Measured {
            summary: Summary::new(&tallies, &self.grid)?,
            problems: tallies,
            samples: Some(samples.display().to_string().replace('\\', "/")),
        })
    }
}

/// Labels and what they stand for, what was found on each set, the runs.
type Results = (Vec<(String, String)>, Vec<Evaluated>, Vec<Training>);

impl StudyOptions {
    fn reported(
        &self,
        study: &Prepared,
        (objectives, datasets, training): Results,
        compared: curves::Compared,
        started: Instant,
    ) -> Study {
        let settings = &self.settings;
        Study {
            model: study.base.name.clone(),
            parameters: Some(study.base.architecture.parameters()),
            n: self.n,
            ks: self.k.clone(),
            grid: grid(&self.k, self.n),
            temperature: settings.temperature,
            filters: self.sets.filters(),
            prompts: study.train.problems.len(),
            prompts_per_step: settings.prompts_per_step,
            num_generations: settings.num_generations,
            learning_rate: settings.schedule.learning_rate,
            matched: "optimizer steps; samples of the base come on top".to_owned(),
            curves: compared.curves,
            without_curves: compared.reason,
            tuning: None,
            objectives,
            datasets,
            training,
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}
