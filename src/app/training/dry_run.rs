//! What a run of training would do, as far as that is known without sampling.

use anyhow::{Context, Result};

use super::space::{free_memory, sizes};
use super::{TrainOptions, fine_tune, holds_base_to_log};
use tealight_core::ranks::Ranks;
use tealight_learn::rollout::Encoded;
use tealight_learn::train::memory::{Hardware, MemoryPlan};

/// Prompts that a dry run shows.
const SHOWN: usize = 2;

/// A planned run, as far as that is known without sampling.
pub struct DryRun {
    /// The resolved settings, as TOML.
    pub settings: String,
    /// The first prompts as the model sees them: tokens, text, expected answer.
    pub prompts: Vec<(usize, String, String)>,
    /// The tokens that end a completion, each with what names it.
    pub stops: Vec<String>,
    /// Completions of a step.
    pub completions: usize,
    /// Most tokens of a completion.
    pub completion_length: usize,
    /// Tokens of the longest prompt.
    pub prompt_length: usize,
    /// The memory that is planned, of a rank.
    pub memory: MemoryPlan,
    /// The memory that is free, where the system says.
    pub free_memory: Option<u64>,
    /// Whether the base is held beside the policy for the log alone.
    pub is_base_for_log: bool,
    /// Whether a trust region is asked for that cannot act, because a batch has one optimizer step.
    pub is_trust_region_inactive: bool,
}

/// Finds out what a run on `ranks` would do, without sampling and without writing anything: also in the directory of a
/// run, whose settings it shows.
pub fn dry_run(options: &TrainOptions, ranks: &Ranks) -> Result<DryRun> {
    options.check()?;
    let mut options = options.clone();
    options.model.template.set_date(None, ranks)?;
    let (mut dataset, mut held_out) = options.open()?;
    options.model.precision.check(options.rlvr.settings.lora.use_peft)?;
    let (base, device) = options.model.load_to_train()?;
    fine_tune::check_start(&options.rlvr, &base, &device)?;
    let options = &options.with_length(&mut dataset, held_out.as_mut(), &base)?;
    let settings = &options.rlvr.settings;
    let (context, length) = (base.architecture.max_positions, settings.length());
    let problems = Encoded::all(&dataset.problems, &base.tokenizer, context, length)
        .with_context(|| dataset.name.clone())?;
    let shown = problems.iter().take(SHOWN).map(|problem| {
        let text = base.tokenizer.decode_all(&problem.prompt)?;
        Ok((problem.prompt.len(), text, problem.problem.answer.clone()))
    });
    let sizes = sizes(&options.rlvr, &problems, &base)?;
    let place = Hardware::for_device(&device, base.precision);
    let memory = MemoryPlan::at(&base.architecture, sizes, &place);
    // The base is in memory already, and counted in the plan.
    let free_memory = free_memory(&place, ranks).map(|free| free + memory.base.max(memory.policy));
    Ok(DryRun {
        settings: toml::to_string(options)?,
        prompts: shown.collect::<Result<_>>()?,
        stops: base.tokenizer.stops().iter().map(ToString::to_string).collect(),
        completions: settings.prompts_per_step.min(problems.len()) * settings.num_generations,
        completion_length: length,
        prompt_length: sizes.longest - length,
        memory,
        free_memory,
        is_base_for_log: holds_base_to_log(&options.rlvr)?,
        is_trust_region_inactive: options.rlvr.plan()?.is_trust_region_inactive(),
    })
}
