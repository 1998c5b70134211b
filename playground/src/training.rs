//! One run: the loop of `tealight train`, a step at a time.

use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use candle_core::Tensor;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tealight_core::ranks::Ranks;
use tealight_datasets::Dataset;
use tealight_learn::objective::Plan;
use tealight_learn::presample::{self, PresampleSpec, Presamples};
use tealight_learn::rollout::{Collector, Encoded};
use tealight_learn::train::AdamW;
use tealight_learn::train::checkpoint::State;
use tealight_learn::train::rlvr::{
    self, End, Rewarding, RlvrConfig, Run, Sampling, TrainingData, wants_extra_check,
};
use tealight_nn::device::Precision;
use tealight_nn::generate::LocalSampler;
use tealight_nn::model::Decoder;
use tealight_nn::policy::{Policy, frozen_decoder};
use tealight_nn::tokenizer::HubTokenizer;
use tealight_system::stop::Stop;

use crate::base::Base;
use crate::measure::TestSet;
use crate::settings::{DATASET, MODEL, PROBLEMS, Settings};

/// A run, between two steps.
pub struct Training {
    /// The problems that the policy is measured on.
    pub test: TestSet,
    config: RlvrConfig,
    plan: Plan,
    rewarding: Rewarding,
    dataset: Dataset,
    /// The prompt of each problem as token ids, and whether it opens a thought.
    prompts: Vec<(Vec<u32>, bool)>,
    tokenizer: HubTokenizer,
    reference: Decoder,
    policy: Policy,
    data: TrainingData,
    optimizer: AdamW,
    state: State,
}

impl Training {
    /// Before the first step.
    ///
    /// # Errors
    /// Settings that are not valid.
    pub fn new(settings: &Settings) -> Result<Self> {
        let config = settings.config()?;
        let plan = config.plan()?;
        let dataset = tealight_datasets::open(DATASET, &Default::default(), Some(PROBLEMS))?;
        let rewarding = Rewarding::new(&config, &plan, dataset.verifier.grading())?;
        let base = Base::embedded()?;
        let reference = frozen_decoder(&base.architecture, &base.weights)?;
        let policy = Policy::new(&base.architecture, &base.weights)?;
        let policy = policy.sharing_buffers_with(&reference);
        let (tokenizer, length) = (base.tokenizer, config.settings.length());
        let context = base.architecture.max_positions;
        let problems = Encoded::all(&dataset.problems, &tokenizer, context, length)?;
        let presamples = match plan.needs_presamples() {
            true => Some(draw(&reference, (&config, &plan), &dataset, &problems, &tokenizer)?),
            false => None,
        };
        let data = TrainingData::new(&plan, problems.len(), presamples.as_ref())?;
        let mut state = State::default();
        if let Some(presamples) = &presamples {
            state.num_tokens += presamples.tokens();
            state.num_completions += presamples.completions();
        }
        let prompts = problems.into_iter().map(|one| (one.prompt, one.opens_thought)).collect();
        let optimizer = AdamW::new(config.settings.adamw, policy.weights())?;
        let test = TestSet::new(&tokenizer, length)?;
        Ok(Self {
            test,
            config,
            plan,
            rewarding,
            dataset,
            prompts,
            tokenizer,
            reference,
            policy,
            data,
            optimizer,
            state,
        })
    }

    /// Does one step; its row of metrics, as `metrics.jsonl` has it.
    ///
    /// # Errors
    /// The last step is done; a failed check; a gradient that is not finite again and again.
    pub fn step(&mut self) -> Result<Value> {
        let problems = self.dataset.problems.iter().zip(&self.prompts);
        let encoded = |(problem, (prompt, opens_thought)): (_, &(Vec<u32>, bool))| Encoded {
            problem,
            prompt: prompt.clone(),
            opens_thought: *opens_thought,
        };
        let problems: Vec<Encoded<'_>> = problems.map(encoded).collect();
        let run = Run {
            config: &self.config,
            plan: &self.plan,
            policy: &self.policy,
            reference: Some(&self.reference),
            problems: &problems,
            data: &self.data,
            tokenizer: &self.tokenizer,
            verifier: &*self.dataset.verifier,
            rewarding: &self.rewarding,
            sampling: Sampling::default(),
            ranks: &Ranks::alone(),
            device_link: None,
        };
        let mut row = None;
        let stop = Stop::default();
        let end = rlvr::train(&run, &mut self.state, &mut self.optimizer, &stop, &mut |step| {
            row = Some(serde_json::to_value(step.metrics)?);
            // One step, and no other.
            stop.cell().store(1, Ordering::SeqCst);
            Ok(())
        })?;
        match end {
            End::GaveUp(reason) => bail!("{reason}"),
            _ => row.context("the run has done its last step"),
        }
    }

    /// Steps done.
    pub fn steps(&self) -> usize {
        self.state.global_step
    }

    /// Whether the last step is done.
    pub fn is_done(&self) -> bool {
        self.state.global_step >= self.config.settings.max_steps
    }

    /// The model as it is now.
    pub fn decoder(&self) -> &Decoder {
        self.policy.decoder()
    }

    /// The temperature of samples.
    pub fn temperature(&self) -> f64 {
        self.config.settings.temperature
    }

    /// The SHA-256 of all weights: their names and values, in f32 and in the order of their names.
    ///
    /// # Errors
    /// A tensor that cannot be read.
    pub fn weights_hash(&self) -> Result<String> {
        let mut hash = Sha256::new();
        for (name, tensor) in &self.policy.tensors() {
            hash.update(name.as_bytes());
            values(tensor)?.iter().for_each(|value| hash.update(value.to_le_bytes()));
        }
        Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

fn values(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.flatten_all()?.to_vec1()?)
}

/// The completions of the base that an objective trains on, as `tealight train` draws them.
fn draw(
    reference: &Decoder,
    (config, plan): (&RlvrConfig, &Plan),
    dataset: &Dataset,
    problems: &[Encoded<'_>],
    tokenizer: &HubTokenizer,
) -> Result<Presamples> {
    let settings = &config.settings;
    let request = PresampleSpec {
        model: MODEL.into(),
        dataset: dataset.name.clone(),
        num_presamples: settings.num_presamples,
        extra_check: wants_extra_check(plan),
        temperature: settings.temperature,
        max_completion_length: settings.length(),
        seed: config.seed,
        precision: Precision::default(),
    };
    let sampler = LocalSampler { decoder: reference, max_rows: settings.max_num_seqs };
    let params = settings.sampling(tokenizer);
    let collector = Collector::new(&sampler, tokenizer, &*dataset.verifier, &params);
    presample::draw(&collector, problems, &request)
}
