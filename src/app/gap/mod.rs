//! The gap between a run and the best value of its objective, in two parts: what the model class cannot reach, and what
//! the optimisation did not. [`tealight_learn::gap`] has the computation.

mod work;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tealight_core::run_folder::{FINAL, METRICS};
use tealight_datasets::{Dataset, task};

use crate::app::directory::{self, Destination, Existing};
use crate::app::folder_settings;
use crate::app::settings::defaults;
use crate::app::training::TrainOptions;
use tealight_learn::gap::{Beta, Measures, Outputs};
use tealight_system::files::write_atomic;
use tealight_system::range::{LIMIT_OR_ZERO, above, at_least};
use tealight_system::stop::Stop;
use tealight_system::telemetry::Progress;
use work::Work;

/// Options of `tealight gap`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct GapOptions {
    /// Directory of the run.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Base of the run. Default: the model that the run records; a model that is a directory must be repeated.
    #[arg(long, help_heading = "Model")]
    pub model: Option<String>,
    /// KL coefficient of J = `E[v] - beta KL(pi || a)`. Default: that of the run's objective, which must have this
    /// form.
    #[arg(long, add = at_least(0.0).at_most(1e6), help_heading = "Objective")]
    pub beta: Option<f64>,
    /// Number of optimizer steps of the projection of p_beta on the model class. p_beta is the base reweighted by
    /// exp(v / beta), the distribution with the largest J; the projection is the policy nearest to it. 0 disables it.
    #[arg(long, default_value_t = 600, add = LIMIT_OR_ZERO, help_heading = "Optimizer")]
    pub projection_steps: usize,
    /// Learning rate of the first step of the projection; the rate falls to 0.
    #[arg(long, default_value_t = 1e-3, add = above(0.0).at_most(1e30), help_heading = "Optimizer")]
    pub projection_learning_rate: f64,
    /// Number of optimizer steps of each ascent of J with the exact gradient; 0 disables ascents.
    #[arg(long, default_value_t = 200, add = LIMIT_OR_ZERO, help_heading = "Optimizer")]
    pub ascent_steps: usize,
    /// Learning rate of the first step of an ascent; the rate falls to 0.
    #[arg(long, default_value_t = 1e-4, add = above(0.0).at_most(1e30), help_heading = "Optimizer")]
    pub ascent_learning_rate: f64,
    /// Policies that ascents start from.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "projection",
        help_heading = "Optimizer"
    )]
    pub ascent_from: Vec<AscentFrom>,
    /// Directory for gap.json and for the projection, a model that `train --initial-policy` can start from.
    #[arg(long, help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Replace an earlier result in --output: only files that Tealight wrote are removed.
    #[arg(long, help_heading = "Output")]
    pub overwrite: bool,
    /// Print JSON instead of a table.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// A policy that an ascent of J starts from, in the order of the ascents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AscentFrom {
    /// The base, as the run did: training with exact gradients in place of samples.
    Base,
    /// The run's trained policy: whether more steps would close the gap.
    Run,
    /// The projection of p_beta on the model class.
    Projection,
}

/// A policy and its exact measures.
#[derive(Debug, Clone, Serialize)]
pub struct GapRow {
    /// Name: `base`, `checkpoint-N`, `run`, `projection`, `ascent from ...`.
    pub policy: String,
    /// Measures, means over problems.
    #[serde(flatten)]
    pub measures: Measures,
    /// J of the best policy found less J of this one.
    pub optimisation_gap: f64,
}

/// The gap of a run in two parts: `gap.json`.
#[derive(Debug, Clone, Serialize)]
pub struct Gap {
    /// Directory of the run.
    pub run: String,
    /// The run's objective.
    pub objective: String,
    /// KL coefficient of J.
    pub beta: f64,
    /// Number of problems.
    pub problems: usize,
    /// Number of listed outputs, all problems together.
    pub outputs: usize,
    /// Measures of p_beta in closed form: the best of all distributions.
    pub p_beta: Measures,
    /// Name of the best policy found in the model class.
    pub best: String,
    /// J of p_beta less J of the best policy found.
    pub misspecification_gap: f64,
    /// J of the best policy found less J of the run.
    pub optimisation_gap: f64,
    /// Every policy that was measured.
    pub rows: Vec<GapRow>,
}

/// Computes the gap of a run, and writes it where a directory is named.
///
/// # Errors
/// A directory that holds no finished run, an objective that is not J without `--beta`, a dataset whose outputs
/// cannot be listed.
pub fn run(options: &GapOptions, stop: &Stop) -> Result<Gap> {
    let existing = Existing::from_flag(options.overwrite);
    Destination::check(options.output.as_deref(), existing)?;
    options.check_ascents()?;
    let settings = run_settings(options)?;
    let beta = match options.beta {
        Some(beta) => beta,
        None => of_objective(&settings)?,
    };
    if !options.run.join(FINAL).is_dir() {
        bail!("{}: the run has not ended; continue it with --resume", options.run.display());
    }
    let output = options.output.as_deref();
    output.map_or(Ok(()), |output| check_output(&options.run, output, existing))?;
    let claim = output.map(|output| directory::fresh(output, existing)).transpose()?;
    let dataset = opened(&settings)?;
    let (base, device) = settings.model.load_to_train()?;
    let reference = base.decoder()?;
    let longest = settings.rlvr.settings.length();
    let temperature = settings.rlvr.settings.temperature;
    let mut progress = Progress::new("the base on all outputs", dataset.problems.len());
    let tokenizer = (&base.tokenizer as _, longest);
    let problems = Outputs::all(&dataset, tokenizer, (&reference, temperature), &mut || {
        progress.advance(String::new);
        stop.check()
    })?;
    drop(progress);
    if let Some(output) = output {
        directory::begin(claim.as_ref(), output, existing)?;
    }
    let (settings, base, beta, rows) = (&settings, &base, Beta(beta), Vec::new());
    let mut work = Work { options, settings, base, device, problems, beta, stop, rows };
    work.measure_all()?;
    let gap = work.into_gap();
    if let Some(output) = output {
        write_atomic(&output.join("gap.json"), serde_json::to_string_pretty(&gap)?.as_bytes())?;
        let what =
            if options.projection_steps > 0 { "gap.json and projection" } else { "gap.json" };
        tracing::info!("{what} in {}", output.display());
    }
    Ok(gap)
}

impl GapOptions {
    /// Refuses starts of ascents that there are not.
    fn check_ascents(&self) -> Result<()> {
        let starts_at_projection = self.ascent_from.contains(&AscentFrom::Projection);
        if self.ascent_steps == 0 && self.ascent_from != [AscentFrom::Projection] {
            bail!("--ascent-from has no effect with --ascent-steps 0: leave one of them out");
        }
        if self.ascent_steps > 0 && self.projection_steps == 0 && starts_at_projection {
            bail!(
                "with --projection-steps 0 there is no projection to ascend from: name --ascent-from base or run, or \
                 --ascent-steps 0"
            );
        }
        Ok(())
    }
}

/// Refuses an output in the run's folder or around it: what is there is the run's.
fn check_output(run: &Path, output: &Path, existing: Existing) -> Result<()> {
    directory::refuse_run(output, existing)?;
    directory::refuse_inside(output, existing, std::iter::once(run))?;
    let place = output.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    if directory::first_inside(run, std::iter::once(place)).is_some() {
        bail!("{}: lies in the run's folder; choose another --output", output.display());
    }
    Ok(())
}

/// The settings that a run recorded, with the model that the user names.
fn run_settings(options: &GapOptions) -> Result<TrainOptions> {
    let Some(text) = folder_settings::read(&options.run)? else {
        if options.run.join(METRICS).is_file() {
            bail!(
                "{}: a run of a study, whose folder has no settings of its own; gap reads runs of `tealight train`: train \
                 this objective alone",
                options.run.display()
            );
        }
        bail!("{}: no run of `tealight train` (config.toml is missing)", options.run.display());
    };
    if options.run.join("results.json").is_file() {
        bail!(
            "{}: an evaluation or a study (results.json); gap reads the directory of a run of `tealight train`",
            options.run.display()
        );
    }
    let path = options.run.join("config.toml");
    let shown = || format!("{}: not the settings of `tealight train`", path.display());
    let mut settings: TrainOptions = toml::from_str(&text).with_context(shown)?;
    let mut own: TrainOptions = defaults();
    if let Some(model) = &options.model {
        settings.model.model.clone_from(model);
        own.model.model.clone_from(model);
    }
    // Nothing else of the run is read again.
    settings.rlvr.settings.presamples = None;
    settings.rlvr.settings.initial_policy = None;
    settings.held_out = own.held_out.clone();
    settings.rlvr.settings.report_to.clone_from(&own.rlvr.settings.report_to);
    // The folder may be a stranger's: it may not name files, programs or servers.
    let flags = folder_settings::to_repeat(&own, &settings)?;
    let shown = options.run.display();
    match flags.iter().find(|flag| !flag.starts_with("--model ")) {
        Some(flag) => bail!("{shown}: gap does not support a run with {flag}"),
        None if !flags.is_empty() => {
            bail!("{shown}: the run's base is a directory; repeat it: {}", flags.join(" "))
        }
        None => {}
    }
    Ok(settings)
}

/// The coefficient of the KL in a run's objective, where that is J.
fn of_objective(settings: &TrainOptions) -> Result<f64> {
    let rlvr = &settings.rlvr;
    let beta = rlvr.plan()?.kl_coefficient();
    match beta {
        Some(beta) => Ok(beta),
        None => bail!(
            "objective `{}` is not E[v] - beta KL(pi || a); name the beta of the J to compare with: --beta",
            rlvr.objective
        ),
    }
}

/// The problems of a run, those of a task.
fn opened(settings: &TrainOptions) -> Result<Dataset> {
    let name = &settings.data.dataset;
    let first = name.split('/').next().unwrap_or_default();
    if task::find(first).is_none() {
        bail!(
            "dataset `{name}`: its outputs cannot be listed; those of some tasks can (tealight tasks), such as colouring"
        );
    }
    settings.data.open(name)
}
