//! The memory and disk of a run, and the remedies where there is less.

use anyhow::{Result, bail};

use crate::app::session::Session;
use tealight_core::ranks::Ranks;
use tealight_formats::pretrained::Pretrained;
use tealight_learn::rollout::Encoded;
use tealight_learn::train::checkpoint::Checkpoints;
use tealight_learn::train::memory::{Hardware, MemoryPlan, Sizes};
use tealight_learn::train::rlvr::{RlvrConfig, reads_base};
use tealight_nn::policy::Policy;
use tealight_system::machine;

impl Session<'_> {
    /// Tokens of a micro-batch: what was asked for, or as many as the memory plan has room for.
    pub(super) fn micro_batch_tokens(
        &self,
        config: &RlvrConfig,
        problems: &[Encoded<'_>],
        resolved: usize,
    ) -> Result<usize> {
        // A run goes on as it began, since sums are rounded micro-batch by micro-batch.
        if resolved > 0 {
            return Ok(resolved);
        }
        let asked = config.settings.micro_batch_tokens;
        let holds_base = self.taken.is_none();
        let sizes = Sizes { holds_base, ..sizes(config, problems, self.base)? };
        let place = Hardware::for_device(&self.device, self.base.precision);
        let plan = |sizes: Sizes| MemoryPlan::at(&self.base.architecture, sizes, &place);
        let (available, rows) = match &place {
            Hardware::Cpu(_) => (free_memory(&place, &self.ranks), sizes.rows),
            // The weights are there already. Of rows there are as many at a time as fit: see `Decoder::rows_that_fit`.
            Hardware::Gpu(..) => {
                (free_memory(&place, &self.ranks).map(|free| free + plan(sizes).base), 1)
            }
        };
        let Some(available) = available else { return Ok(asked) };
        let peak = |micro_batch: usize| {
            let micro_batch = micro_batch.max(sizes.longest).min(sizes.micro_batch);
            plan(Sizes { micro_batch, rows, ..sizes }).peak()
        };
        let mut tokens = asked;
        while peak(tokens) > available && tokens > sizes.longest {
            tokens /= 2;
        }
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        if peak(tokens) > available {
            bail!(
                "this run is planned to take {:.1} GB of memory, and {:.1} GB are free: add --gradient-checkpointing \
                 or --use-peft, or lower --max-completion-length or --max-num-seqs (--dry-run shows the parts)",
                gigabytes(peak(tokens)),
                gigabytes(available)
            );
        }
        if tokens < asked {
            tracing::info!(
                "micro-batches of {tokens} tokens: {:.1} GB of memory are free",
                gigabytes(available)
            );
        }
        Ok(tokens)
    }

    /// Warns where the disk will not hold the checkpoints and the result.
    pub(super) fn warn_of_space(&self, checkpoints: &Checkpoints<'_>, policy: &Policy) {
        let Some(free) = machine::free_space(checkpoints.output) else { return };
        let trained: usize = policy.weights().values().map(|var| var.elem_count()).sum();
        // One more while it is written, and the result.
        let num_checkpoints = checkpoints.limit.max(1) as u64 + 2;
        let need = Checkpoints::bytes(trained as u64) * num_checkpoints + trained as u64 * 4;
        if need > free {
            tracing::warn!(
                "{}: {:.1} GB are free, and {num_checkpoints} checkpoints with the result take {:.1} GB; lower \
                 --save-total-limit or make room",
                checkpoints.output.display(),
                free as f64 / 1e9,
                need as f64 / 1e9
            );
        }
    }
}

/// The bytes of memory that are free for one of `ranks`, where the system says.
pub(super) fn free_memory(place: &Hardware, ranks: &Ranks) -> Option<u64> {
    match place {
        Hardware::Cpu(_) => machine::available_memory().map(|free| free / ranks.local().1 as u64),
        Hardware::Gpu(_, device) => tealight_gpu::free_memory(device),
    }
}

/// The sizes that decide the memory of a run of `config` alone: where it reads the base nowhere, the base is not held.
pub(crate) fn sizes(
    config: &RlvrConfig,
    problems: &[Encoded<'_>],
    base: &Pretrained,
) -> Result<Sizes> {
    let settings = &config.settings;
    let length = settings.length();
    let prompt = problems.iter().map(|problem| problem.prompt.len()).max().unwrap_or(0);
    let (longest, prompts) = (prompt + length, settings.prompts_per_step.min(problems.len()));
    let step = prompts * settings.num_generations;
    // Completions of a prompt share it.
    let tokens = prompts * prompt + step * length;
    let plan = config.plan()?;
    let compares = plan.vocabulary_regulariser().is_some();
    Ok(Sizes {
        rows: settings.max_num_seqs.min(step),
        prompts,
        longest,
        completion: length,
        micro_batch: settings.micro_batch_tokens.min(tokens).max(longest),
        recomputes: settings.gradient_checkpointing,
        trained: settings.lora.parameters(&base.architecture),
        is_int8: base.precision.base_dtype.is_some(),
        rollout_dtype: base.precision.rollout_dtype,
        holds_base: reads_base(config, &plan),
        compared: if compares { step * length } else { 0 },
    })
}
