//! A study: the whole question at once. Evaluate the base, choose one configuration of each objective (`tuning`),
//! fine-tune the base under each from the same seeds on the same prompts with the same number of optimizer steps,
//! evaluate the checkpoints, and report what became of accuracy and diversity.

mod configuration;
mod curves;
mod listed_set;
mod markdown;
mod objectives;
mod paths;
mod plan;
mod runs;
mod seeds;
mod sets;
mod tuning;
mod work;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};
use candle_core::Device;
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::Dataset;
use tealight_eval::curve::LEAST_PROBLEMS;
use tealight_eval::number::counted;
use tealight_eval::report::{self, Study};

use crate::app::directory::{self, Start};
use crate::app::folder_settings;
use crate::app::session::{SamplingRequest, Session};
use crate::app::settings::{self, DataOptions, ModelOptions};
use crate::app::{lengths, recorded_settings};
use configuration::Configuration;
use listed_set::ListedSet;
use objectives::Objectives;
pub use plan::{Plan, dry_run, planned};
use seeds::{Seeds, distinct, seeds};
use sets::{SetOptions, StudySet};
use tealight_core::ranks::Ranks;
use tealight_formats::pretrained::Pretrained;
use tealight_learn::train::rlvr::{Rewarding, Settings};
use tealight_nn::generate::SamplingParams;
use tealight_system::claim::Claim;
use tealight_system::files::write_atomic;
use tealight_system::process::Process;
use tealight_system::range::{COUNT, LIMIT, LIMIT_OR_ZERO, above};
use tealight_system::stop::Interrupted;
use tuning::TuningSet;
use work::Work;

/// Problems of `--eval-dataset` that are used.
const MAX_SAMPLES: usize = 64;

/// Options of `tealight study`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct StudyOptions {
    /// Which model, and where it runs.
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelOptions,
    /// Which problems.
    #[command(flatten)]
    #[serde(flatten)]
    pub data: DataOptions,
    /// Generated task to train and test on (TASK/train, TASK/test): countdown or a task of `tealight tasks`.
    #[arg(long, conflicts_with_all = ["dataset", "test_dataset"], help_heading = "Data")]
    pub task: Option<String>,
    /// The sets that models are evaluated on.
    #[command(flatten)]
    #[serde(flatten)]
    pub sets: SetOptions,
    /// Objectives to compare, separated by commas: NAME:k=v, and the values that each is tuned over, as
    /// NAME:k=v@{VALUES}. VALUES are coefficients of the objective (forward-kl@{0.1,0.3,1}), values of another key
    /// (grpo@{entropy=0,0.03}) or learning rates (grpo@{learning-rate=3e-5,7e-5}); several @{...} multiply.
    #[arg(
        long,
        default_value = "grpo,kl-full,forward-kl,js",
        value_name = "OBJECTIVES",
        help_heading = "Objective"
    )]
    #[serde(serialize_with = "objectives::write", deserialize_with = "objectives::read")]
    pub objectives: Vec<Objectives>,
    /// Seeds, with one run of each objective for each seed. A..B stands for all seeds from A to B, both included.
    #[arg(long, value_delimiter = ',', default_value = "0", value_parser = seeds, help_heading = "Optimizer")]
    pub seeds: Vec<Seeds>,
    /// Seeds of the tuning runs, disjoint from --seeds.
    #[arg(long, value_delimiter = ',', default_value = "100,101", value_parser = seeds, help_heading = "Optimizer")]
    pub tuning_seeds: Vec<Seeds>,
    /// Mean Pass@1 on --eval-dataset that a configuration must reach. Of those that do, the one with the most distinct
    /// correct answers is chosen; if none does, the one with the largest Pass@1.
    #[arg(long, add = above(0.0).below(1.0), help_heading = "Objective")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning_pass_at_1: Option<f64>,
    /// Baselines of the curves: the trained weights of the first objective without a divergence, averaged with the
    /// base's. Each value is the share of the trained weights in one average.
    #[arg(long, value_delimiter = ',', default_value = "0.25,0.5,0.75", add = above(0.0).below(1.0),
          help_heading = "Objective")]
    pub average_share: Vec<f64>,
    /// Baselines of the curves: the base at these shares of the sampling temperature.
    #[arg(long, value_delimiter = ',', default_value = "0.9,0.8,0.7,0.6,0.5", add = above(0.0).below(1.0),
          help_heading = "Objective")]
    pub base_temperature: Vec<f64>,
    /// Leave the baselines out of the curves.
    #[arg(long, help_heading = "Objective")]
    pub no_baselines: bool,
    /// Number of samples of each problem in evaluations.
    #[arg(short, default_value_t = 64, add = COUNT, help_heading = "Evaluation")]
    pub n: usize,
    /// Report Pass@k at these k, each at most -n. Default: 1, 8 and 32 as far as -n allows, and -n itself if it is
    /// below 32.
    #[arg(short, value_delimiter = ',', add = COUNT, help_heading = "Evaluation")]
    pub k: Vec<usize>,
    /// The settings of every run.
    #[command(flatten)]
    #[serde(flatten)]
    pub settings: Settings,
    /// Steps between evaluated checkpoints, the points of the curves: every run has --max-steps / N, evaluated on the
    /// first held-out set. 0 disables curves.
    #[arg(long, default_value_t = 0, add = LIMIT_OR_ZERO, value_name = "N", help_heading = "Evaluation")]
    pub eval_steps: usize,
    /// Validation problems, on which tuning chooses the configuration of each objective. Default: the split `valid` of
    /// a generated task.
    #[arg(long, help_heading = "Evaluation")]
    pub eval_dataset: Option<String>,
    /// Number of problems of --eval-dataset to use, from the start.
    #[arg(long, default_value_t = MAX_SAMPLES, add = LIMIT, help_heading = "Evaluation")]
    pub eval_max_samples: usize,
    /// Directory for all results. Default: `study`, or `study-2` and so on if that exists.
    #[arg(long, help_heading = "Output")]
    pub output: Option<PathBuf>,
}

/// A study whose settings go together, with everything that it begins from.
struct Prepared {
    options: StudyOptions,
    /// All that are tried: one of an objective that is not tuned.
    configurations: Vec<Configuration>,
    seeds: Vec<u64>,
    train: Dataset,
    sets: Vec<StudySet>,
    /// The answers to the first held-out set whose probabilities curves are made of.
    listed: Option<ListedSet>,
    /// What chooses among the configurations of an objective, where one has several.
    tuning: Option<TuningSet>,
    base: Pretrained,
    device: Device,
}

/// Evaluates the base, fine-tunes it under every configuration from every seed, evaluates the results, and writes
/// results and report to the study's folder. Ranks divide the base's samples and the runs; the first alone reports.
pub fn run(options: &StudyOptions, start: &Start, process: &Process) -> Result<Option<Finished>> {
    let (mut checked, configurations) = options.checked()?;
    let (output, claim) = checked.take_output(start, &process.ranks)?;
    let recorded = Some(output.as_path()).filter(|_| matches!(start, Start::Resume(_)));
    checked.model.template.set_date(recorded, &process.ranks)?;
    let done = in_folder(checked, configurations, (output.clone(), claim.as_ref(), start), process);
    if done.as_ref().is_err_and(|error| error.is::<Interrupted>()) && process.ranks.is_first() {
        folder_settings::say_how_to_continue("study", options, &output);
    }
    done
}

/// A study whose folder is taken.
fn in_folder(
    options: StudyOptions,
    configurations: Vec<Configuration>,
    (output, claim, start): (PathBuf, Option<&Claim>, &Start),
    Process { stop, ranks }: &Process,
) -> Result<Option<Finished>> {
    let started = Instant::now();
    let study = Prepared::open(options, configurations, ranks)?;
    let options = &study.options;
    options.begin_in(&output, (claim, start), ranks)?;
    stop.saves();
    let session = Session::new(&study.base, study.device.clone(), stop)?.with_ranks(ranks);
    let Some(study) = Work::new(&study, session, &output)?.done(started)? else { return Ok(None) };
    write_atomic(&output.join("results.json"), serde_json::to_string(&study)?.as_bytes())?;
    write_atomic(&output.join("results.md"), markdown::markdown(&study).as_bytes())?;
    report::write_study(&study, &output)?;
    Ok(Some(Finished { study, output }))
}

/// A study that is done.
pub struct Finished {
    /// The results: `results.json`.
    pub study: Study,
    /// Its folder.
    pub output: PathBuf,
}

impl StudyOptions {
    /// The settings with what follows from them, and every configuration; refuses those that do not go together.
    fn checked(&self) -> Result<(Self, Vec<Configuration>)> {
        let mut options = self.clone();
        options.k = settings::estimable(&options.k, &[1, 8, 32], options.n)?;
        options.settings.check()?;
        if options.settings.initial_policy.is_some() {
            bail!(
                "--initial-policy is for train: every run of a study starts at --model, and so do its curves"
            );
        }
        options.check_baselines()?;
        if options.no_baselines {
            options.average_share.clear();
            options.base_temperature.clear();
        }
        seeds::refuse_repeated(&options.seeds, "--seeds")?;
        seeds::refuse_repeated(&options.tuning_seeds, "--tuning-seeds")?;
        if distinct(&options.seeds).is_empty() {
            bail!("a study needs at least one seed");
        }
        let configurations = options.configurations()?;
        if configurations.is_empty() {
            bail!("a study needs at least one objective");
        }
        for configuration in &configurations {
            configuration.objective.open(options.settings.num_generations)?;
        }
        options.check_tuning(&configurations)?;
        Ok((options, configurations))
    }

    /// The study's folder, for this process alone.
    fn take_output(&self, start: &Start, ranks: &Ranks) -> Result<(PathBuf, Option<Claim>)> {
        let mut claim = None;
        let output = ranks.first(|| {
            self.settings.report_to.iter().try_for_each(|target| target.check())?;
            let output = match (&self.output, start) {
                (Some(output), _) => output.clone(),
                (None, Start::Resume(_)) => PathBuf::from("study"),
                (None, _) => directory::next_free(Path::new("study")),
            };
            claim = Some(match start {
                Start::Resume(_) => Claim::take(&output)?,
                Start::New | Start::Replace => directory::fresh(&output, start.existing())?,
            });
            Ok(output)
        })?;
        Ok((output, claim))
    }

    /// Refuses a resumed study of other settings, removes what is replaced, and records the settings: once all that the
    /// study begins from has been read.
    fn begin_in(
        &self,
        output: &Path,
        (claim, start): (Option<&Claim>, &Start),
        ranks: &Ranks,
    ) -> Result<()> {
        ranks.first(|| {
            if matches!(start, Start::Resume(_)) {
                recorded_settings::refuse_other_settings(self, output)?;
            }
            directory::begin(claim, output, start.existing())?;
            let text = recorded_settings::record_config(self, output)?;
            folder_settings::remember(self, output, &text)
        })
    }

    /// How the runs of a seed are sampled: by random numbers that they share, so that they compare well, and that other
    /// seeds do not, so that a mean over seeds has less noise. The base has those of the first seed.
    fn draw<'p>(&self, params: &'p SamplingParams, seed: u64) -> SamplingRequest<'p> {
        SamplingRequest { n: self.n, params, seed, max_num_seqs: self.settings.max_num_seqs }
    }

    /// The largest k of the tables.
    fn largest(&self) -> usize {
        self.k.iter().max().copied().unwrap_or(self.n)
    }
}

impl Prepared {
    /// The first held-out set, which curves and reports are of.
    fn test(&self) -> &StudySet {
        self.sets
            .first()
            .expect("a study without a held-out set is refused when its sets are opened")
    }

    /// Opens data and model, and refuses what they do not allow.
    fn open(
        mut options: StudyOptions,
        configurations: Vec<Configuration>,
        ranks: &Ranks,
    ) -> Result<Self> {
        let seeds = distinct(&options.seeds);
        let mut train = options.data.open(&options.data.dataset)?;
        for configuration in &configurations {
            let config = options.config(configuration, 0);
            Rewarding::new(&config, &config.plan()?, train.verifier.grading())?;
        }
        options.model.precision.check(options.settings.lora.use_peft)?;
        options.model.refuse_rollout_dtype()?;
        let (base, device) = options.model.load_on(ranks, ModelOptions::load_to_train)?;
        let requested = options.settings.max_completion_length;
        let filter = |dataset: &mut Dataset| {
            options.data.filter(dataset, requested, base.tokenizer_and_context())
        };
        filter(&mut train)?;
        let taken = options.sets.hold_out(&options.data.dataset, &mut train)?;
        // What is held out is evaluated as every test set is.
        options.data.rewards.judge_for_training(&mut train);
        let sampled = (options.settings.temperature, options.settings.truncated);
        let sets = options.sets.open(&options.data, (&train, taken), sampled, &filter)?;
        let test = &sets[0];
        let problems = test.dataset.problems.len();
        if options.eval_steps > 0 && problems < LEAST_PROBLEMS {
            tracing::warn!(
                "{}: {} held out, and curves need {LEAST_PROBLEMS}: there will be none",
                test.dataset.name,
                counted(problems, "problem")
            );
        }
        let is_tuned = !tuning::tuned(&configurations).is_empty();
        let valid = is_tuned.then(|| options.open_valid((&train, &sets), test, &filter));
        let valid = valid.transpose()?;
        let datasets = sets.iter().chain(&valid).map(|set| &*set.dataset).chain([&train]);
        let asked = options.settings.max_completion_length;
        let longest = lengths::completion_length(asked, datasets, base.tokenizer_and_context())?;
        options.settings.max_completion_length = Some(longest);
        let listed = |set: &StudySet| curves::listed(&options, set, &base.tokenizer, longest);
        let of_test = (options.eval_steps > 0).then(|| listed(test)).flatten();
        let tuning = valid.map(|set| TuningSet { listed: listed(&set), set });
        Ok(Self {
            options,
            configurations,
            seeds,
            train,
            sets,
            listed: of_test,
            tuning,
            base,
            device,
        })
    }
}
