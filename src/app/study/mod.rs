//! A study: the whole question at once. Evaluate the base, fine-tune it under each
//! objective from the same seeds on the same prompts with the same number of sampled completions,
//! evaluate each result, and report what became of accuracy and diversity.

mod configuration;
mod curves;
mod ledger;
mod listed_set;
mod markdown;
mod methods;
mod paths;
mod plan;
mod runs;
mod seeds;
mod sets;
pub mod tasks;
mod tuning;
mod work;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use candle_core::Device;
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::Dataset;
use tealight_eval::report::{self, Study};

use crate::app::directory::{self, Start};
use crate::app::folder_settings;
use crate::app::session::Session;
use crate::app::settings::{self, DataOptions, ModelOptions};
use crate::app::training::held_out::{HeldOutOptions, HeldOutSet};
use crate::app::{data_file, lengths, recorded_settings};
use crate::formats::pretrained::Pretrained;
use crate::learn::objective::Objective;
use crate::learn::train::rlvr::{Rewarding, Settings};
use crate::system::claim::Claim;
use crate::system::files::write_atomic;
use crate::system::process::Process;
use crate::system::range::{COUNT, LIMIT, above};
use crate::system::ranks::Ranks;
use crate::system::stop::Interrupted;
use configuration::Configuration;
pub use curves::TestMeasure;
use listed_set::ListedSet;
pub use methods::methods;
pub use plan::{Plan, dry_run, planned};
pub use runs::{Matched, Variant};
use seeds::{Seeds, distinct, read_seeds, seeds};
use sets::{SetOptions, StudySet};
use tuning::Objectives;
use work::Work;

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
    #[arg(long, conflicts_with_all = ["dataset", "test_dataset", "test_suite"], help_heading = "Data")]
    pub task: Option<String>,
    /// Generated tasks to compare the objectives on, separated by commas, with one study each and a comparison over
    /// tasks: countdown and the tasks of `tealight tasks`.
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["dataset", "test_dataset", "test_suite", "task"],
          help_heading = "Data")]
    #[serde(default)]
    pub tasks: Vec<String>,
    /// The sets that models are evaluated on.
    #[command(flatten)]
    #[serde(flatten)]
    pub sets: SetOptions,
    /// Objectives to compare, with the configurations that each is tuned over: NAME:k=v@{VALUES}, separated by commas;
    /// k=v and VALUES may be left out. VALUES are coefficients of the objective (forward-kl@{0.1,0.3,1})
    /// or settings (grpo@{learning-rate=3e-5,7e-5}, max-steps, any key of the objective); several @{...} multiply.
    #[arg(
        long,
        default_value = "grpo,kl-full,forward-kl,js",
        value_name = "OBJECTIVES",
        help_heading = "Objective"
    )]
    #[serde(serialize_with = "tuning::write", deserialize_with = "tuning::read")]
    pub objectives: Vec<Objectives>,
    /// Configuration of an objective that --objectives names without settings, such as js:2.4.
    #[arg(long, value_delimiter = ',', help_heading = "Objective")]
    pub tuned: Vec<Objective>,
    /// Accept objectives with different numbers of configurations. The objective with more of them is more likely to
    /// win by luck.
    #[arg(long, help_heading = "Objective")]
    #[serde(default)]
    pub allow_unequal_tuning: bool,
    /// Seeds, with one run of each configuration for each seed. A..B stands for all seeds from A to B, both included.
    #[arg(long, value_delimiter = ',', default_value = "0", value_parser = seeds, help_heading = "Optimizer")]
    #[serde(deserialize_with = "read_seeds")]
    pub seeds: Vec<Seeds>,
    /// Budget equalised across runs.
    #[arg(id = "match", long, value_enum, default_value_t = Matched::Completions, help_heading = "Optimizer")]
    #[serde(rename = "match")]
    pub matched: Matched,
    /// Further models to evaluate, made from each run without training: its best checkpoint (best), or its weights
    /// averaged with the base's (average).
    #[arg(long, value_enum, value_delimiter = ',', help_heading = "Objective")]
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// Baselines of the curves: the trained weights of the first objective without a divergence, averaged with the
    /// base's. Each value is the share of the trained weights in one average.
    #[arg(long, value_delimiter = ',', default_value = "0.25,0.5,0.75", add = above(0.0).below(1.0),
          help_heading = "Objective")]
    pub average_share: Vec<f64>,
    /// Baselines of the curves: the base at these shares of the sampling temperature.
    #[arg(long, value_delimiter = ',', default_value = "0.9,0.8,0.7,0.6,0.5", add = above(0.0).below(1.0),
          help_heading = "Objective")]
    pub base_temperature: Vec<f64>,
    /// Further temperatures at which every checkpoint of every objective is evaluated, as shares of the sampling
    /// temperature: shows the best checkpoint and temperature of each objective at each Pass@1.
    #[arg(long, value_delimiter = ',', value_name = "SHARES", add = above(0.0).below(1.0), help_heading = "Objective")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub temperatures: Vec<f64>,
    /// Measure whose differences from the reference objective are tested; the other is shown without tests. Choose
    /// before the study runs.
    #[arg(long, value_enum, default_value_t = TestMeasure::PassAtK, help_heading = "Objective")]
    #[serde(default)]
    pub test_measure: TestMeasure,
    /// Leave the baselines out of the curves.
    #[arg(long, help_heading = "Objective")]
    #[serde(default)]
    pub no_baselines: bool,
    /// Number of samples of each problem in evaluations.
    #[arg(short, default_value_t = 64, add = COUNT, help_heading = "Evaluation")]
    pub n: usize,
    /// Report Pass@k at these k, each at most -n. Default: 1, 8 and 32 as far as -n allows, and -n itself if it is
    /// below 32.
    #[arg(short, value_delimiter = ',', add = COUNT, help_heading = "Evaluation")]
    #[serde(default)]
    pub k: Vec<usize>,
    /// The settings of every run.
    #[command(flatten)]
    #[serde(flatten)]
    pub settings: Settings,
    /// With --eval-steps N every run is evaluated --max-steps / N times at equal distances, and curves are drawn: on
    /// the
    /// first held-out set, and on --eval-dataset, whose problems choose among the configurations of an objective.
    #[command(flatten)]
    #[serde(flatten)]
    pub held_out: HeldOutOptions,
    /// Compute the exact probability of every correct answer to the first PROBLEMS problems of the first held-out set,
    /// under the base and every checkpoint: shows which rare answers training loses, without sampling noise
    /// (docs/how-to/ledger.md). For tasks whose answers can be listed: countdown and those of `tealight tasks`.
    #[arg(long, value_name = "PROBLEMS", add = LIMIT, help_heading = "Evaluation")]
    #[serde(default)]
    pub ledger: Option<usize>,
    /// Sampled tokens per second for --plan, in place of a measurement on this machine.
    #[arg(long, add = above(0.0).at_most(1e12), help_heading = "Output")]
    #[serde(default)]
    pub plan_rate: Option<f64>,
    /// Directory for all results. Default: `study`, or `study-2` and so on if that exists.
    #[arg(long, help_heading = "Output")]
    pub output: Option<PathBuf>,
}

/// A study whose settings go together, with everything that it begins from.
struct Prepared {
    options: StudyOptions,
    configurations: Vec<Configuration>,
    seeds: Vec<u64>,
    train: Dataset,
    sets: Vec<StudySet>,
    held_out: Option<HeldOutSet>,
    ledger: Option<ListedSet>,
    /// The answers whose probabilities curves are made of.
    listed: Option<ListedSet>,
    base: Pretrained,
    device: Device,
}

/// Evaluates the base, fine-tunes it under every configuration from every seed, evaluates the results, and writes
/// results and report to the study's folder. Ranks divide the base's samples and the runs; the first alone reports.
pub fn run(options: &StudyOptions, start: &Start, process: &Process) -> Result<Option<Finished>> {
    let (mut checked, configurations) = options.checked()?;
    let (output, claim) = checked.take_output(start, &process.ranks)?;
    let recorded = Some(output.as_path()).filter(|_| matches!(start, Start::Resume(_)));
    checked.model.template = checked.model.template.dated(recorded, &process.ranks)?;
    let done = in_folder(checked, configurations, (output.clone(), claim.as_ref(), start), process);
    if let Err(error) = &done {
        say_how_to_continue(error, options, &output, &process.ranks);
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

/// After an interruption: the command that goes on.
fn say_how_to_continue(
    error: &anyhow::Error,
    options: &StudyOptions,
    output: &Path,
    ranks: &Ranks,
) {
    if error.is::<Interrupted>() && ranks.is_first() {
        // Settings that were recorded can be shown too.
        let flags =
            folder_settings::to_continue(&settings::defaults(), options).unwrap_or_default();
        let (config, output) = (output.join("config.toml"), directory::as_argument(output));
        let config = directory::as_argument(&config);
        tracing::info!(
            "continue with: tealight study --config {config} --output {output} --resume{flags}"
        );
    }
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
        if distinct(&options.seeds).is_empty() {
            bail!("a study needs at least one seed");
        }
        if options.variants.contains(&Variant::Best) && options.held_out.eval_steps == 0 {
            bail!(
                "--variants best needs --eval-steps and --eval-dataset, which the best model is chosen by"
            );
        }
        let configurations = options.configurations()?;
        if configurations.is_empty() {
            bail!("a study needs at least one objective");
        }
        Ok((options, configurations))
    }

    /// The study's folder, for this process alone.
    fn take_output(&self, start: &Start, ranks: &Ranks) -> Result<(PathBuf, Option<Claim>)> {
        let mut claim = None;
        let output = ranks.first(|| {
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
            settings::record_config(self, output)
        })
    }

    /// The largest k of the tables.
    fn largest(&self) -> usize {
        self.k.iter().max().copied().unwrap_or(self.n)
    }
}

impl Prepared {
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
        let temperature = options.settings.temperature;
        let sets = options.sets.open(&options.data, (&train, taken), temperature, &filter)?;
        let truncated = options.settings.truncated;
        let sets: Vec<StudySet> = sets.into_iter().map(|set| set.counting(truncated)).collect();
        let reported = sets.iter().find(|set| set.domain != "train");
        let as_reported = |set: HeldOutSet| match reported {
            Some(reported) => set.decoded_with(reported.temperature, options.sets.filters()),
            None => set,
        };
        let mut held_out = options.held_out.open(&options.data, truncated)?.map(as_reported);
        if let Some(held_out) = held_out.as_mut().and_then(HeldOutSet::dataset_mut) {
            filter(held_out)?;
        }
        if let Some(held_out) = &held_out {
            for other in std::iter::once(&train).chain(sets.iter().map(|set| &*set.dataset)) {
                data_file::refuse_overlap(other, held_out.dataset(), "--eval-dataset")?;
            }
        }
        for configuration in &configurations {
            options.budget(configuration, seeds[0], train.problems.len(), Path::new(""))?;
        }
        let chosen_on = held_out.iter().flat_map(|set| &set.dataset().problems);
        let problems = sets.iter().flat_map(|set| &set.dataset.problems);
        let problems = problems.chain(&train.problems).chain(chosen_on);
        let asked = options.settings.max_completion_length;
        let longest = lengths::completion_length(asked, problems, base.tokenizer_and_context())?;
        options.settings.max_completion_length = Some(longest);
        let Some(set) = sets.iter().find(|set| set.domain != "train") else {
            bail!("a study needs a held-out set");
        };
        let ledger = options.ledger.map(|count| {
            let listed = ListedSet::new(set, (count, "ledger"), &base.tokenizer, longest);
            listed.context("--ledger")
        });
        let ledger = ledger.transpose()?;
        let listed =
            held_out.as_ref().and_then(|_| curves::listed(&options, set, &base.tokenizer, longest));
        Ok(Self {
            options,
            configurations,
            seeds,
            train,
            sets,
            held_out,
            ledger,
            listed,
            base,
            device,
        })
    }
}
