//! The work of a study in order: the base, its samples for training, every run with its evaluations, the comparison.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use tealight_eval::curve::RunPath;
use tealight_eval::ledger::Scored;
use tealight_eval::report::{
    Evaluated, EvaluationFilters, Forgetting, Measured, Study, Training, Tuned, grid,
};
use tealight_eval::results::Question;
use tealight_eval::{Summary, Tally};

use super::configuration::Configuration;
use super::paths::{BasePath, PathSets};
use super::runs::{Matched, history};
use super::sets::{Model, StudySet};
use super::{Prepared, StudyOptions, curves, ledger};
use crate::app::directory;
use crate::app::session::{self, SamplingRequest, Session};
use crate::app::training::space::planned_peak;
use crate::nn::generate::SamplingParams;
use crate::nn::model::Decoder;
use crate::system::ranks::Ranks;

/// A study under way.
pub(super) struct Work<'a> {
    study: &'a Prepared,
    session: Session<'a>,
    params: SamplingParams,
    output: &'a Path,
    /// The k of curves.
    grid: Vec<usize>,
    /// Where checkpoints are evaluated, where they are.
    paths: Option<PathSets<'a>>,
}

/// A run that has ended.
struct FinishedRun {
    /// The results of its models: on each set in turn, the run's own first, then its variants.
    measured: Vec<(String, Vec<Measured>)>,
    training: Training,
    paths: Vec<RunPath>,
    /// How good its end is on the set that chooses.
    merit: f64,
    /// Its checkpoints in the ledger, where there is one.
    ledger: Vec<Scored>,
}

impl<'a> Work<'a> {
    pub(super) fn new(study: &'a Prepared, session: Session<'a>, output: &'a Path) -> Result<Self> {
        let options = &study.options;
        let params = options.sets.sampling(&options.settings, &study.base.tokenizer);
        let paths = study.held_out.as_ref();
        let paths = paths.map(|held_out| PathSets::new(study, held_out, &params)).transpose()?;
        let grid = grid(&options.k, options.n);
        Ok(Self { study, session, params, output, grid, paths })
    }

    /// Does it all; nothing is reported on other ranks than the first.
    pub(super) fn done(mut self, started: Instant) -> Result<Option<Study>> {
        let (study, options) = (self.study, &self.study.options);
        let mut datasets = self.base()?;
        let base_path = match &mut self.paths {
            Some(paths) => Some(paths.base(&self.session, self.output)?),
            None => None,
        };
        let base_ledger = self.base_ledger(&datasets)?;
        for seed in &study.seeds {
            let (train, all) = (&study.train, &study.configurations);
            options.presample(&self.session, train, all, *seed, self.output)?;
        }
        // A run is one rank's; when all are done, the first finds them as an interrupted study would.
        let ranks = self.session.ranks.clone();
        let this = Self { session: self.session.with_ranks(&Ranks::alone()), ..self };
        let of_seed = |seed: &u64| study.configurations.iter().map(|c| (c, *seed)).collect();
        let all: Vec<(&Configuration, u64)> =
            study.seeds.iter().flat_map(|seed| -> Vec<_> { of_seed(seed) }).collect();
        if ranks.size() > 1 {
            for (_, run) in all.iter().enumerate().filter(|(place, _)| ranks.is_own(*place)) {
                this.run(*run, base_path.as_ref())?;
            }
            ranks.wait()?;
            if !ranks.is_first() {
                return Ok(None);
            }
        }
        let runs: Vec<(&Configuration, FinishedRun)> = all
            .into_iter()
            .map(|run| Ok((run.0, this.run(run, base_path.as_ref())?)))
            .collect::<Result<_>>()?;
        for (_, run) in &runs {
            let seed = run.training.seed;
            for (label, measured) in &run.measured {
                for (evaluated, measured) in datasets.iter_mut().zip(measured) {
                    let measured = measured.clone();
                    evaluated.tuned.push(Tuned { objective: label.clone(), seed, measured });
                }
            }
        }
        let chosen = this.chosen(&runs);
        let named = this.named(&chosen);
        let labels: Vec<String> = named.iter().map(|(label, _)| label.clone()).collect();
        datasets.iter_mut().for_each(|set| set.contrast(&labels, &this.grid));
        // One configuration of each objective has a curve: the one that tables show.
        let of_chosen = runs.iter().filter(|(one, _)| chosen.contains(one));
        let paths: Vec<RunPath> =
            of_chosen.flat_map(|(_, run)| run.paths.iter().cloned()).collect();
        let compared = match (base_path, &this.paths) {
            (Some(base), Some(sets)) => {
                let mut paths = paths;
                paths.sort_by_key(|path| path.is_baseline);
                paths.extend(base.colder);
                curves::compared(study, (&base.answers, sets.is_exact()), &paths)
            }
            _ => curves::Compared::default(),
        };
        let mut ledger = None;
        if let (Some(set), Some(base)) = (&study.ledger, &base_ledger) {
            let all: Vec<Scored> =
                runs.iter().flat_map(|(_, run)| run.ledger.iter().cloned()).collect();
            let temperature = this.reported_set().map_or(1.0, |set| set.temperature);
            ledger = Some(ledger::report((set, temperature), base, &all, this.output)?);
        }
        let training = runs.into_iter().map(|(_, run)| run.training).collect();
        let reported = options.reported(study, (named, datasets, training), compared, started);
        Ok(Some(Study { ledger, ..reported }))
    }

    /// The base on every set, and a second draw of it by random numbers of its own.
    fn base(&self) -> Result<Vec<Evaluated>> {
        let folder = self.output.join("base");
        let draw = self.draw();
        let again = SamplingRequest { seed: session::seed_of_second_draw(draw.seed), ..draw };
        let one = |set: &StudySet| -> Result<Evaluated> {
            let base = (&self.session.reference, "base");
            let second = (&self.session.reference, "base, second draw");
            let second_draw = self.output.join(directory::SECOND_DRAW);
            Ok(Evaluated {
                name: set.dataset.name.clone(),
                domain: set.domain.to_owned(),
                temperature: set.temperature,
                questions: Question::all(&set.dataset),
                base: self.measured(set, base, &folder)?,
                second: Some(set.tallies(&self.session, second, &again, false, &second_draw)?),
                tuned: Vec::new(),
                contrasts: Vec::new(),
            })
        };
        self.study.sets.iter().map(one).collect()
    }

    /// Trains and evaluates as far as that is not done.
    fn run(
        &self,
        (configuration, seed): (&Configuration, u64),
        base: Option<&BasePath>,
    ) -> Result<FinishedRun> {
        let (study, options) = (self.study, &self.study.options);
        let (session, held_out) = (&self.session, study.held_out.as_ref());
        let run = (configuration, seed);
        let models = options.models(session, &study.train, run, held_out, self.output)?;
        let all = |(label, decoder, folder): &(String, Decoder, PathBuf)| {
            let on = |set| self.measured(set, (decoder, label), folder);
            Ok((label.clone(), study.sets.iter().map(on).collect::<Result<Vec<_>>>()?))
        };
        let measured = models.iter().map(all).collect::<Result<Vec<_>>>()?;
        let folder = StudyOptions::folder(self.output, configuration, seed);
        let mut training = history(&configuration.label(), seed, &folder)?;
        let config = options.budget(configuration, seed, study.train.problems.len(), &folder)?;
        if session.device.is_cpu() {
            training.planned_memory = Some(planned_peak(&config, &study.train, session.base)?);
        }
        let (mut paths, mut merit, mut in_ledger) = (Vec::new(), 0.0, Vec::new());
        if let (Some(sets), Some(base)) = (&self.paths, base) {
            let end = (&training, &models[0].1);
            let path = sets.run(session, (configuration, &config), end, &folder)?;
            training.held_out = [vec![base.held_out.clone()], path.held_out].concat();
            (paths, merit, in_ledger) = (path.paths, path.merit, path.ledger);
        } else if let Some(ledger) = &study.ledger {
            let (step, updates) = (training.steps, training.updates);
            let load = || Ok(models[0].1.clone());
            let name = format!("{} seed {seed}", configuration.label());
            let at = (self.reported_set().map_or(1.0, |set| set.temperature), folder.as_path());
            let logp = ledger.scored(session, &Model { name, load: &load }, at)?;
            let sampled = self.sampled(&measured[0].1);
            in_ledger.push(ledger::Checkpoint { step, updates, sampled, logp });
        }
        let label = configuration.label();
        let ledger = in_ledger.into_iter().map(|one| one.into_scored(&label, Some(seed))).collect();
        Ok(FinishedRun { measured, training, paths, merit, ledger })
    }

    /// The base's lines of the ledger, which the first rank computes.
    fn base_ledger(&self, datasets: &[Evaluated]) -> Result<Option<Scored>> {
        let Some(ledger) = &self.study.ledger else { return Ok(None) };
        let load = || Ok(self.session.reference.clone());
        let model = Model { name: "base".into(), load: &load };
        let folder = self.output.join("base");
        let at = (self.reported_set().map_or(1.0, |set| set.temperature), folder.as_path());
        self.session.ranks.first(|| ledger.scored(&self.session, &model, at).map(drop))?;
        let logp = ledger.scored(&self.session, &model, at)?;
        let measured: Vec<Measured> = datasets.iter().map(|set| set.base.clone()).collect();
        let sampled = self.sampled(&measured);
        let base = ledger::Checkpoint { step: 0, updates: 0, sampled, logp };
        Ok(Some(base.into_scored("base", None)))
    }

    /// Pass@1 on the ledger's problems of a model whose counts on every set are given.
    fn sampled(&self, measured: &[Measured]) -> Option<f64> {
        let ledger = self.study.ledger.as_ref()?;
        let place = self.study.sets.iter().position(|set| set.domain != "train")?;
        ledger::sampled(ledger, &measured.get(place)?.problems)
    }

    /// The first held-out set.
    fn reported_set(&self) -> Option<&StudySet> {
        self.study.sets.iter().find(|set| set.domain != "train")
    }

    /// How every model is sampled: by the same random numbers.
    fn draw(&self) -> SamplingRequest<'_> {
        let options = &self.study.options;
        SamplingRequest {
            n: options.n,
            params: &self.params,
            seed: self.study.seeds[0],
            max_num_seqs: options.settings.max_num_seqs,
        }
    }

    fn measured(&self, set: &StudySet, model: (&Decoder, &str), folder: &Path) -> Result<Measured> {
        let options = &self.study.options.sets;
        let mut tallies: Vec<Tally> =
            set.tallies(&self.session, model, &self.draw(), !options.no_greedy, folder)?;
        if options.base_perplexity {
            set.score_under_base(&self.session, folder, &mut tallies)?;
        }
        let samples = folder.strip_prefix(self.output).unwrap_or(folder).join(set.samples_file());
        Ok(Measured {
            summary: Summary::new(&tallies, &self.grid)?,
            problems: tallies,
            samples: Some(samples.display().to_string().replace('\\', "/")),
        })
    }

    /// Of each objective the configuration whose ends are best on the set that chooses; all where there is none.
    fn chosen(&self, runs: &[(&Configuration, FinishedRun)]) -> Vec<&'a Configuration> {
        let merit = |one: &Configuration| -> f64 {
            let merits = runs.iter().filter(|(other, _)| *other == one);
            merits.map(|(_, run)| run.merit).sum()
        };
        let all = &self.study.configurations;
        let is_best = |(index, one): &(usize, &Configuration)| {
            let others = all.iter().enumerate().filter(|(_, o)| o.family == one.family);
            let mut before = others.map(|(other, c)| (other, merit(c)));
            let best = merit(one);
            before.all(|(other, merit)| best > merit || (best == merit && *index <= other))
        };
        let shown = all.iter().enumerate().filter(|one| self.paths.is_none() || is_best(one));
        shown.map(|(_, one)| one).collect()
    }

    /// Every label of the tables with its meaning.
    fn named(&self, chosen: &[&Configuration]) -> Vec<(String, String)> {
        let options = &self.study.options;
        let metric = &options.held_out.metric_for_best_model;
        let labels = |one: &&Configuration| {
            let label = one.label();
            let run = (label.clone(), one.about());
            let variants = options.variants.iter().map(|v| (v.label(&label), v.about(metric)));
            std::iter::once(run).chain(variants).collect::<Vec<_>>()
        };
        chosen.iter().flat_map(labels).collect()
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
        let mut study = Study {
            model: study.base.name.clone(),
            parameters: Some(study.base.architecture.parameters()),
            n: self.n,
            ks: self.k.clone(),
            grid: grid(&self.k, self.n),
            temperature: settings.temperature,
            filters: EvaluationFilters {
                top_p: self.sets.eval_top_p,
                top_k: self.sets.eval_top_k,
                min_p: self.sets.eval_min_p,
            },
            prompts: study.train.problems.len(),
            prompts_per_step: settings.prompts_per_step,
            num_generations: settings.num_generations,
            learning_rate: settings.schedule.learning_rate,
            matched: match self.matched {
                Matched::Completions => "sampled completions, the base's included",
                Matched::Tokens => "sampled tokens, the base's included",
                Matched::Updates => "optimizer steps; samples of the base come on top",
            }
            .to_owned(),
            curves: compared.curves,
            choices: compared.choices,
            without_curves: compared.reason,
            ledger: None,
            objectives,
            datasets,
            training,
            seconds: started.elapsed().as_secs_f64(),
            forgetting: None,
        };
        study.forgetting = Forgetting::from_study(&study);
        study
    }
}
