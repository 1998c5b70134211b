//! The policies of a run to rows of measures, and the two gaps between them.

use std::path::Path;

use anyhow::Result;
use candle_core::Device;

use super::{AscentFrom, Gap, GapOptions, GapRow};
use crate::app::training::TrainOptions;
use crate::app::training::fine_tune::new_adapter;
use tealight_core::run_folder::{self, FINAL};
use tealight_formats::adapter::Adapter;
use tealight_formats::pretrained::Pretrained;
use tealight_learn::gap::{Aim, Beta, Climb, Measures, Outputs};
use tealight_learn::listed;
use tealight_learn::train::checkpoint;
use tealight_nn::model::Decoder;
use tealight_nn::policy::Policy;
use tealight_system::stop::Stop;
use tealight_system::telemetry::Progress;

/// The name of the run's trained policy.
const RUN: &str = "run";

/// The policies that are measured, on all outputs of the run's problems.
pub(super) struct Work<'a> {
    pub(super) options: &'a GapOptions,
    pub(super) settings: &'a TrainOptions,
    pub(super) base: &'a Pretrained,
    pub(super) device: Device,
    pub(super) problems: Vec<Outputs>,
    pub(super) beta: Beta,
    pub(super) stop: &'a Stop,
    pub(super) rows: Vec<(String, Measures)>,
}

/// A trainable policy of the run's model class.
struct Movable {
    policy: Policy,
    adapter: Option<Adapter>,
}

impl Work<'_> {
    /// The base, the run along its checkpoints, the projection, the ascents.
    pub(super) fn measure_all(&mut self) -> Result<()> {
        let of_base: Vec<Vec<f64>> =
            self.problems.iter().map(|outputs| outputs.base.clone()).collect();
        let of_base = Measures::new(&self.problems, &of_base, self.beta);
        self.rows.push(("base".into(), of_base));
        let options = self.options;
        for (step, folder) in checkpoint::all(&options.run).into_iter().rev() {
            let decoder = self.base.tuned(&folder, &self.device)?;
            self.measure(&run_folder::checkpoint(step), &decoder)?;
        }
        let trained = options.run.join(FINAL);
        let decoder = self.base.tuned(&trained, &self.device)?;
        self.measure(RUN, &decoder)?;
        let projection = self.movable(None)?;
        let (steps, rate) = (options.projection_steps, options.projection_learning_rate);
        if steps > 0 {
            self.climb(&projection, Aim::Projection, (steps, rate))?;
            let reached = self.measure("projection", projection.policy.decoder())?.objective;
            self.save(&projection, "projection")?;
            if reached < of_base.objective {
                tracing::warn!(
                    "J of the projection is below the base's: use more --projection-steps, or another \
                     --projection-learning-rate"
                );
            }
        }
        if options.ascent_steps == 0 {
            return Ok(());
        }
        let mut from = options.ascent_from.clone();
        // The ascent of the projection moves it, so that it comes last.
        from.sort();
        from.dedup();
        let mut projection = Some(projection);
        for from in from {
            let (name, start) = match from {
                AscentFrom::Base => ("base", Some(self.movable(None)?)),
                AscentFrom::Run => ("run", Some(self.movable(Some(&trained))?)),
                AscentFrom::Projection => ("projection", projection.take()),
            };
            let Some(start) = start else { continue };
            let ascent = (options.ascent_steps, options.ascent_learning_rate);
            self.climb(&start, Aim::Objective, ascent)?;
            self.measure(&format!("ascent from {name}"), start.policy.decoder())?;
            self.save(&start, &format!("ascent-from-{name}"))?;
        }
        Ok(())
    }

    /// A policy of the run's class: all weights, or an adapter of the run's rank on the base; at the base, or at what
    /// was saved in a folder.
    fn movable(&self, folder: Option<&Path>) -> Result<Movable> {
        let rlvr = &self.settings.rlvr;
        let adapter = new_adapter(&rlvr.settings.lora, self.base, rlvr.seed, &self.device)?;
        let policy = self.base.policy(adapter.as_ref())?;
        if let Some(folder) = folder {
            policy.restore(&self.base.trained_weights(
                adapter.is_some(),
                folder,
                &self.device,
            )?)?;
        }
        Ok(Movable { policy, adapter })
    }

    /// Writes a policy to a folder of the output, where there is one.
    fn save(&self, movable: &Movable, name: &str) -> Result<()> {
        let Some(output) = &self.options.output else { return Ok(()) };
        let folder = output.join(name);
        tealight_system::files::writable_subfolder(&folder)?;
        self.base.save_trained(movable.adapter.as_ref(), &movable.policy.tensors(), &folder)
    }

    fn climb(&self, movable: &Movable, aim: Aim, (steps, rate): (usize, f64)) -> Result<()> {
        let temperature = self.settings.rlvr.settings.temperature;
        let climb = Climb { aim, beta: self.beta, temperature, steps, learning_rate: rate };
        let label = match aim {
            Aim::Projection => "projection of p_beta",
            Aim::Objective => "ascent of J",
        };
        let mut progress = Progress::new(label, steps);
        climb.run(&movable.policy, &self.problems, &mut || {
            progress.advance(String::new);
            self.stop.check()
        })
    }

    fn measure(&mut self, name: &str, decoder: &Decoder) -> Result<Measures> {
        let temperature = self.settings.rlvr.settings.temperature;
        let of_problem = |outputs: &Outputs| {
            listed::logp(decoder, &outputs.rows, temperature, &mut || self.stop.check())
        };
        let logp: Vec<Vec<f64>> = self.problems.iter().map(of_problem).collect::<Result<_>>()?;
        let measures = Measures::new(&self.problems, &logp, self.beta);
        self.rows.push((name.to_owned(), measures));
        Ok(measures)
    }

    /// The best policy is the one with the largest J of all that were measured, the run's own included: both gaps are
    /// at least 0.
    pub(super) fn into_gap(self) -> Gap {
        let p_beta = Measures::of_optimum(&self.problems, self.beta);
        let best = self.rows.iter().max_by(|a, b| a.1.objective.total_cmp(&b.1.objective));
        let (best, top) =
            best.map(|(name, measures)| (name.clone(), measures.objective)).unwrap_or_default();
        let row = |(policy, measures): (String, Measures)| GapRow {
            policy,
            measures,
            optimisation_gap: top - measures.objective,
        };
        let rows: Vec<GapRow> = self.rows.into_iter().map(row).collect();
        let of_run = rows.iter().find(|row| row.policy == RUN);
        Gap {
            run: self.options.run.display().to_string(),
            objective: self.settings.rlvr.objective.to_string(),
            beta: self.beta.0,
            problems: self.problems.len(),
            outputs: self.problems.iter().map(|outputs| outputs.rows.len()).sum(),
            p_beta,
            best,
            misspecification_gap: p_beta.objective - top,
            optimisation_gap: of_run.map_or(f64::NAN, |row| row.optimisation_gap),
            rows,
        }
    }
}
