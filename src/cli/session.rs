//! The pieces that `train`, `eval` and `study` are made of: fine-tune once, evaluate once.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use candle_core::Device;
use serde_json::Value;
use tealight_datasets::Dataset;
use tealight_eval::{Sample, Solver, Tally, evaluate::evaluate};

use crate::generate::{Filters, LocalSampler, Noise, Sampler, SamplingParams};
use crate::lab;
use crate::model::Decoder;
use crate::objective::Plan;
use crate::policy::Policy;
use crate::presample::{self, Presamples, presample};
use crate::pretrained::Pretrained;
use crate::rollout::{Collector, Encoded};
use crate::solver::LocalSolver;
use crate::telemetry::{JsonLines, Progress, say, warn};
use crate::tokenizer::Tokenizer;
use crate::train::checkpoint::{self, State};
use crate::train::rlvr::{Material, Metrics, RlvrConfig, Run, wants_extra_check, wants_presamples};
use crate::train::{AdamW, Stop};

/// Keys the randomness of evaluations apart from that of training.
const EVALUATION: u64 = u64::MAX - 2;
/// Steps without any signal after which a run says that it learns nothing.
const DEAD_STEPS: usize = 10;

/// A base model, where it runs, and who may stop it.
pub(super) struct Session<'a> {
    pub(super) base: &'a Pretrained,
    pub(super) reference: Decoder,
    pub(super) device: Device,
    pub(super) stop: &'a Stop,
    pub(super) quiet: bool,
}

/// A run that has ended, or was interrupted after a step.
pub(super) struct FineTuned {
    pub(super) policy: Policy,
    pub(super) state: State,
    pub(super) history: Vec<Metrics>,
}

/// How an evaluation is drawn.
pub(super) struct Draw<'a> {
    pub(super) n: usize,
    pub(super) params: &'a SamplingParams,
    pub(super) seed: u64,
    pub(super) max_num_seqs: usize,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        base: &'a Pretrained,
        device: Device,
        stop: &'a Stop,
        quiet: bool,
    ) -> Result<Self> {
        let reference = base.decoder()?;
        Ok(Self { base, reference, device, stop, quiet })
    }

    /// Fine-tunes a copy of the base and leaves metrics, checkpoints and the settings in `output`.
    pub(super) fn fine_tune(
        &self,
        dataset: &Dataset,
        config: &RlvrConfig,
        label: &str,
        output: &Path,
        resume: Option<&Path>,
    ) -> Result<FineTuned> {
        config.settings.check()?;
        let plan = config.plan()?;
        tealight_eval::self_check::self_check()?;
        lab::self_check(&plan, &config.objective.to_string())?;
        say(
            self.quiet,
            format!("objective {}: {}", config.objective, config.resolved_objective()?),
        );
        let tokenizer = &self.base.tokenizer;
        let context = self.base.architecture.max_positions;
        let room = config.settings.max_completion_length;
        let problems = Encoded::all(&dataset.problems, tokenizer, context, room)?;
        let settings = serde_json::to_value(config)?;
        let mut policy = Policy::new(&self.base.architecture, &self.base.weights)?;
        if config.settings.gradient_checkpointing {
            policy = policy.recomputing()?;
        }
        let mut optimizer = AdamW::new(config.settings.adamw, policy.weights())?;
        let mut state = State::default();
        if let Some(path) = resume {
            state = self.restore(path, &settings, &policy, &mut optimizer)?;
            say(self.quiet, format!("resumed from {}", path.display()));
        }
        let presamples = self.presamples(dataset, &problems, config, &plan, output)?;
        let material = Material::new(config, &plan, problems.len(), presamples.as_ref())?;
        material.notes.iter().for_each(|note| say(self.quiet, format!("  {note}")));
        // A resumed run has counted them already, even one that was stopped before its first step.
        if resume.is_none()
            && let Some(presamples) = &presamples
        {
            state.num_tokens += presamples.tokens();
            state.num_completions += presamples.completions();
        }
        let mut journal = Journal {
            lines: JsonLines::continue_after(&output.join("metrics.jsonl"), state.global_step)?,
            progress: Progress::new(
                label,
                config.settings.max_steps - state.global_step.min(config.settings.max_steps),
                self.quiet,
            ),
            history: Vec::new(),
            dead_steps: 0,
            warned_of_truncation: false,
        };
        let run = Run {
            config,
            plan: &plan,
            policy: &policy,
            reference: &self.reference,
            problems: &problems,
            material: &material,
            tokenizer,
            verifier: &*dataset.verifier,
        };
        let save = |state: &State, optimizer: &AdamW| {
            checkpoint::save(output, self.base, &policy.tensors(), optimizer, state, &settings)
        };
        let state =
            run.train(state, &mut optimizer, self.stop, &mut |metrics, state, optimizer| {
                journal.record(metrics)?;
                let is_due = config.settings.save_steps > 0
                    && state.global_step.is_multiple_of(config.settings.save_steps);
                if is_due && run.goes_on(state) {
                    save(state, optimizer)?;
                }
                Ok(())
            })?;
        let history = std::mem::take(&mut journal.history);
        drop(journal);
        if run.goes_on(&state) {
            let path = save(&state, &optimizer)?;
            say(
                false,
                format!("stopped after step {}; saved {}", state.global_step, path.display()),
            );
        }
        Ok(FineTuned { policy, state, history })
    }

    fn restore(
        &self,
        path: &Path,
        settings: &Value,
        policy: &Policy,
        optimizer: &mut AdamW,
    ) -> Result<State> {
        let restored = checkpoint::load(path, self.base, settings, &self.device)?;
        for (name, var) in policy.weights() {
            var.set(&restored.weights[name])?;
        }
        optimizer.restore(restored.state.optimizer_steps, &restored.moments)?;
        Ok(restored.state)
    }

    /// The base's samples, where the plan needs them: those of `--presamples`, or drawn into the run.
    fn presamples(
        &self,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        config: &RlvrConfig,
        plan: &Plan,
        output: &Path,
    ) -> Result<Option<Presamples>> {
        if !wants_presamples(config, plan) {
            return Ok(None);
        }
        let settings = &config.settings;
        let request = self.request(dataset, config, wants_extra_check(plan));
        if let Some(directory) = &settings.presamples {
            return Ok(Some(presample::load(directory, problems, &request)?));
        }
        let directory = output.join("presamples");
        Ok(Some(self.draw_presamples(
            dataset,
            problems,
            &request,
            settings.max_num_seqs,
            &directory,
        )?))
    }

    /// Samples the base for runs of `config` into `directory`.
    pub(super) fn presample(
        &self,
        dataset: &Dataset,
        config: &RlvrConfig,
        extra_check: bool,
        directory: &Path,
    ) -> Result<Presamples> {
        let settings = &config.settings;
        let context = self.base.architecture.max_positions;
        let room = settings.max_completion_length;
        let problems = Encoded::all(&dataset.problems, &self.base.tokenizer, context, room)?;
        let request = self.request(dataset, config, extra_check);
        self.draw_presamples(dataset, &problems, &request, settings.max_num_seqs, directory)
    }

    fn request(
        &self,
        dataset: &Dataset,
        config: &RlvrConfig,
        extra_check: bool,
    ) -> presample::Request {
        presample::Request {
            model: self.base.name.clone(),
            dataset: dataset.name.clone(),
            num_presamples: config.settings.num_presamples,
            extra_check,
            temperature: config.settings.temperature,
            max_completion_length: config.settings.max_completion_length,
            seed: config.seed,
            dtype: self.base.dtype,
        }
    }

    /// Samples the base into `directory`, or continues what is there.
    pub(super) fn draw_presamples(
        &self,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        request: &presample::Request,
        max_num_seqs: usize,
        directory: &Path,
    ) -> Result<Presamples> {
        let sampler = LocalSampler { decoder: &self.reference, max_rows: max_num_seqs };
        self.draw_presamples_from(&sampler, dataset, problems, request, directory)
    }

    /// The same from any sampler.
    pub(super) fn draw_presamples_from(
        &self,
        sampler: &dyn Sampler,
        dataset: &Dataset,
        problems: &[Encoded<'_>],
        request: &presample::Request,
        directory: &Path,
    ) -> Result<Presamples> {
        let params = SamplingParams {
            temperature: request.temperature,
            filters: Filters::default(),
            max_new_tokens: request.max_completion_length,
            eos: self.eos().to_vec(),
        };
        let collector = Collector::new(sampler, &self.base.tokenizer, &*dataset.verifier, &params);
        let mut progress = Progress::new("sampling the base", problems.len(), self.quiet);
        presample(&collector, problems, request, directory, &mut || {
            progress.advance(String::new);
            self.stop.check()
        })
    }

    /// Draws and judges samples of `decoder`; they go to `samples` as they come. With `known`, samples
    /// of an earlier, interrupted call, the file is continued.
    pub(super) fn evaluate(
        &self,
        decoder: &Decoder,
        dataset: &Dataset,
        draw: &Draw<'_>,
        label: &str,
        samples: &Path,
        known: Option<&mut HashMap<String, Vec<Sample>>>,
    ) -> Result<Vec<Tally>> {
        let solver = LocalSolver {
            sampler: LocalSampler { decoder, max_rows: draw.max_num_seqs },
            tokenizer: &self.base.tokenizer,
            params: draw.params.clone(),
            noise: Noise { seed: draw.seed, step: EVALUATION },
        };
        let progress = Evaluating { label, quiet: self.quiet, stop: self.stop };
        progress.run(dataset, &solver, draw.n, samples, known)
    }

    /// Writes a fine-tuned model in Hub layout.
    pub(super) fn save(&self, tuned: &FineTuned, directory: &Path) -> Result<()> {
        self.base.save(&tuned.policy.tensors(), directory)
    }

    /// The tokens that end a completion.
    pub(super) fn eos(&self) -> &[u32] {
        self.base.tokenizer.eos()
    }
}

/// An evaluation under way, whoever samples.
pub(super) struct Evaluating<'a> {
    pub(super) label: &'a str,
    pub(super) quiet: bool,
    pub(super) stop: &'a Stop,
}

impl Evaluating<'_> {
    /// Draws `n` samples a problem, but for the problems in `known`, and appends them to a file.
    pub(super) fn run(
        &self,
        dataset: &Dataset,
        solver: &dyn Solver,
        n: usize,
        samples: &Path,
        known: Option<&mut HashMap<String, Vec<Sample>>>,
    ) -> Result<Vec<Tally>> {
        let mut nothing = HashMap::new();
        let (mut lines, known) = match known {
            Some(known) => (JsonLines::append(samples)?, known),
            None => (JsonLines::create(samples)?, &mut nothing),
        };
        let open = dataset.problems.len() - known.len();
        let mut progress = Progress::new(self.label, open, self.quiet);
        let (mut right, mut all) = (0, 0);
        evaluate(dataset, solver, n, known, &mut |batch| {
            // One write a problem: what a crash leaves is whole problems and at most one broken one.
            lines.write_all(batch)?;
            right += batch.iter().filter(|sample| sample.is_correct()).count();
            all += batch.len();
            progress.advance(|| format!("pass@1 {:.3}", right as f64 / all as f64));
            self.stop.check()
        })
    }
}

/// Where the metrics of a run go, and what they warn of.
struct Journal {
    lines: JsonLines,
    progress: Progress,
    history: Vec<Metrics>,
    dead_steps: usize,
    warned_of_truncation: bool,
}

impl Journal {
    fn record(&mut self, metrics: &Metrics) -> Result<()> {
        self.lines.write(metrics)?;
        self.progress.advance(|| {
            if metrics.reward.is_nan() {
                return format!("loss {:.3}", metrics.loss);
            }
            let kl = metrics.kl.map_or(String::new(), |kl| format!(" kl {kl:.2}"));
            format!("reward {:.3} entropy {:.2}{kl}", metrics.reward, metrics.entropy)
        });
        self.history.push(metrics.clone());
        self.dead_steps = if metrics.frac_reward_zero_std == 1.0 { self.dead_steps + 1 } else { 0 };
        if self.dead_steps == DEAD_STEPS {
            let which = if metrics.reward > 0.5 { "right" } else { "wrong" };
            warn(format!(
                "{DEAD_STEPS} steps in a row taught nothing: every completion of a group was {which}; \
                 check a few samples with `tealight eval`, raise --num-generations, or choose {} problems",
                if metrics.reward > 0.5 { "harder" } else { "easier" },
            ));
        }
        if metrics.clipped_ratio > 0.5 && !self.warned_of_truncation {
            self.warned_of_truncation = true;
            warn(format!(
                "step {}: {:.0} % of completions were cut off and earn nothing; raise --max-completion-length",
                metrics.step,
                metrics.clipped_ratio * 100.0,
            ));
        }
        Ok(())
    }
}
