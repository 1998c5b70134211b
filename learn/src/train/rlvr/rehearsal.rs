//! The base's stored completions to their part of an update's gradient.

use anyhow::Result;
use candle_core::Tensor;

use super::run::Run;
use super::training_data::Rehearsal;
use super::update_stats::{StoredStats, Update, scalar};
use crate::objective::{
    Completions, Matching, Normaliser, Offsets, Plan, StoredInputs, StoredWeight,
};
use crate::train::micro_batches::{DropoutCounter, column, lengths};
use crate::train::order;
use crate::train::rank_shares;
use tealight_nn::policy::{GradAccumulator, Sequence};

/// Keys the randomness of rehearsal apart from that of prompts.
const REHEARSAL_SEED: u64 = 0x7265_6865_6172_7365;

/// The stored completions of an update.
pub(super) struct RehearsalBatch<'a> {
    pub(super) items: Vec<&'a Rehearsal>,
    pub(super) sequences: Vec<&'a Sequence>,
    pub(super) tokens: usize,
}

impl<'a> RehearsalBatch<'a> {
    /// Prompts in turn, whatever each has stored, and of each prompt its completions in turn, so that prompts count
    /// alike.
    pub(super) fn for_update(run: &'a Run<'_>, step: usize, update: Update) -> Self {
        let all = &run.data.rehearsal;
        let most = run.config.settings.rehearsal_batch_size.min(all.len());
        let Update { number, count, .. } = update;
        // Ends are rounded, not sizes: the updates of a step together have each of `most` completions once.
        let part = most * number / count..most * (number + 1) / count;
        let range = step * most + part.start..step * most + part.end;
        let seed = run.config.seed ^ REHEARSAL_SEED;
        let chosen = order::in_turn(&run.data.stored_prompts, range, seed);
        let items: Vec<&Rehearsal> = chosen.into_iter().map(|index| &all[index]).collect();
        let sequences: Vec<&Sequence> = items.iter().map(|item| &item.sequence).collect();
        let tokens = sequences.iter().map(|row| row.completion.len()).sum();
        Self { items, sequences, tokens }
    }
}

/// Adds the gradient of stored completions times `coefficient`: of every token, averaged as the objective averages
/// tokens, where they are rehearsed, and of whole samples where they stand for a target.
pub(super) fn add_stored(
    run: &Run<'_>,
    batch: &RehearsalBatch<'_>,
    coefficient: f64,
    updates: usize,
    dropout_counter: &mut DropoutCounter,
    grads: &mut GradAccumulator,
) -> Result<StoredStats> {
    let (settings, device) = (&run.config.settings, run.device());
    let RehearsalBatch { items, sequences, tokens } = batch;
    let mut stats = StoredStats { count: items.len(), ..StoredStats::default() };
    let rank_passes = rank_shares::rank_passes(
        sequences,
        settings.micro_batch_tokens,
        run.ranks,
        dropout_counter,
    );
    for (range, pass) in rank_passes {
        let (part, part_sequences) = (&items[range.clone()], &sequences[range]);
        let forward = run.policy.forward(part_sequences, settings.temperature, pass)?;
        let base_logp: Vec<f32> = part.iter().flat_map(|item| &item.logp).copied().collect();
        let base_logp = Tensor::from_slice(&base_logp, base_logp.len(), device)?;
        let lengths = lengths(part_sequences);
        let completions = Completions::new(lengths.clone(), device)?;
        let inputs = |weight| StoredInputs {
            completions: &completions,
            policy_logp: forward.logp(),
            base_logp: &base_logp,
            weight,
        };
        let loss = match run.plan.matching() {
            None => {
                let length = settings.length();
                let weight = token_weights(run.plan, batch, &lengths, length);
                run.plan.stored_loss(&inputs(StoredWeight::Tokens(&column(&weight, device)?)))?
            }
            Some(matching) => {
                let (weight, log_weight) = sample_weights(run, matching, part, items.len());
                let (weight, log_weight) =
                    (&column(&weight, device)?, &column(&log_weight, device)?);
                run.plan.stored_loss(&inputs(StoredWeight::Samples { weight, log_weight }))?
            }
        };
        // Samples of a target count whole, rehearsed completions token by token.
        let divisor = if run.plan.matching().is_some() { items.len() } else { tokens * updates };
        stats.logp += scalar(&forward.logp().detach().sum_all()?)? / (tokens * updates) as f64;
        stats.clamped += loss.cut / divisor as f64;
        stats.value += scalar(&loss.total)?;
        run.policy.backward(forward, &(loss.total * coefficient)?, grads)?;
    }
    Ok(stats)
}

/// The weight of every token of some completions of a batch.
fn token_weights(
    plan: &Plan,
    batch: &RehearsalBatch<'_>,
    lengths: &[usize],
    max_completion_length: usize,
) -> Vec<f64> {
    let normaliser = Normaliser {
        tokens: batch.tokens.max(1),
        sequences: batch.sequences.len().max(1),
        max_completion_length,
    };
    let weight = |length: &usize| plan.loss_type.weight(*length, &normaliser);
    let weights: Vec<f64> = lengths.iter().map(weight).collect();
    Offsets::new(lengths.iter().copied()).spread(&weights)
}

/// The weights of samples of a target among `count`, and their `log(p / a)`.
fn sample_weights(
    run: &Run<'_>,
    matching: &Matching,
    items: &[&Rehearsal],
    count: usize,
) -> (Vec<f64>, Vec<f64>) {
    let weigh = |item: &&Rehearsal| {
        let validity = run.data.solve_rate[item.problem];
        let beta = run.plan.beta();
        let log_weight = matching.target.log_weight(item.is_correct, validity, beta);
        let (weight, log_weight) = matching.weigh(log_weight);
        // The mean over the step's samples of (p / a) times the loss: E_a[(p / a) ..] = E_p[..].
        (weight / count as f64, log_weight)
    };
    items.iter().map(weigh).unzip()
}
