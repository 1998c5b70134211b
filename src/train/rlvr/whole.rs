//! What losses read of whole next-token distributions: divergences from the base's, entropies, likeliest tokens. The
//! base passes over a batch once, however often the policy does.

use std::cell::RefCell;
use std::ops::Range;

use anyhow::Result;
use candle_core::Tensor;

use super::Run;
use super::batch::Batch;
use super::gradients::{PartTensors, at};
use super::kl::BaseSays;
use crate::objective::tokens::{Rows, SimKo, quantile};
use crate::objective::vocabulary::Candidates;
use crate::objective::{VocabularyInputs, charge_later};
use crate::policy::{
    Base, Distributions, Forward, Sequence, Whole, by_row, token_divergence, token_logp,
};
use crate::train::step::{lengths, micro_batches};

impl Run<'_> {
    /// Log-probabilities of completions under the base, and its distributions at their tokens.
    pub(super) fn base_distributions(&self, rows: &[Sequence]) -> Result<BaseSays> {
        let all = RefCell::new(Vec::with_capacity(rows.len()));
        let logp = self.by_row(rows, &|part, _| {
            let said = token_logp(self.base()?, part, self.config.settings.temperature)?;
            all.borrow_mut().extend(said.distributions.split(lengths(part).into_iter())?);
            Ok(by_row(&said.logp, part)?)
        })?;
        Ok(BaseSays { logp, distributions: Some(all.into_inner()) })
    }

    /// What is asked of the distributions of some rows; `kept` is the base's of all of them, where there is that.
    pub(super) fn asked(
        &self,
        rows: &[Sequence],
        kept: Option<Vec<&Distributions>>,
    ) -> Result<Whole<'_>> {
        let likeliest = self.plan.simko.map_or(0, |simko| simko.top);
        let Some(regulariser) = self.plan.vocabulary_regulariser() else {
            return Ok(Whole { likeliest, base: None });
        };
        let distributions = match kept {
            Some(kept) => Distributions::joined(&kept)?,
            None => {
                let temperature = self.config.settings.temperature;
                token_logp(self.base()?, rows, temperature)?.distributions
            }
        };
        let divergence = regulariser.divergence;
        Ok(Whole {
            likeliest,
            base: Some(Base { decoder: self.base()?, distributions, divergence }),
        })
    }

    /// How far the policy's distributions are from the base's at every token.
    pub(super) fn position_divergences(
        &self,
        rows: &[Sequence],
        kept: Option<&[Distributions]>,
    ) -> Result<Rows> {
        let values = self.by_row(rows, &|part, range| {
            let asked = self.asked(part, kept.map(|kept| kept[range].iter().collect()))?;
            let Some(base) = &asked.base else { return Ok(vec![]) };
            let temperature = self.config.settings.temperature;
            let found = token_divergence(self.policy.decoder(), part, temperature, base)?;
            Ok(by_row(&found, part)?)
        })?;
        Ok(widened(&values))
    }

    /// Entropies of the distributions that tokens are from.
    pub(super) fn entropies(&self, rows: &[Sequence]) -> Result<Rows> {
        let temperature = self.config.settings.temperature;
        let values = self.by_row(rows, &|part, _| {
            Ok(by_row(&token_logp(self.policy.decoder(), part, temperature)?.entropy, part)?)
        })?;
        Ok(widened(&values))
    }

    /// Whether what a pass that trains finds is what the policy that sampled would say.
    fn passes_as_sampled(&self) -> bool {
        let drops = self.config.settings.lora.lora_dropout > 0.0;
        self.plan.updates() == 1 && self.ranks.size() == 1 && !drops
    }

    /// Whether that is so and one pass has all of a step's rows.
    pub(super) fn is_one_pass(&self, rows: &[Sequence]) -> bool {
        let tokens = self.config.settings.micro_batch_tokens;
        self.passes_as_sampled() && micro_batches(rows, tokens).len() == 1
    }

    /// Whether that is so and every group stands whole in a pass, which can charge its later tokens to earlier ones.
    pub(super) fn charges_in_pass(
        &self,
        rows: &[Sequence],
        groups: &[(Range<usize>, f64)],
    ) -> bool {
        let is_read_before = self.plan.covariance.is_some() || self.plan.simko.is_some();
        let passes = micro_batches(rows, self.config.settings.micro_batch_tokens);
        let is_whole = |(group, _): &(Range<usize>, f64)| {
            passes.iter().any(|pass| pass.start <= group.start && group.end <= pass.end)
        };
        self.passes_as_sampled() && !is_read_before && groups.iter().all(is_whole)
    }

    /// Shares the tokens of a batch's only pass, where SimKO does and nothing did before.
    pub(super) fn share_passed(&self, batch: &mut Batch, forward: &Forward) -> Result<()> {
        let Some(simko) = self.plan.simko.filter(|_| batch.simko.is_none()) else { return Ok(()) };
        let entropy = widened(&by_row(&forward.entropy().detach(), &batch.rows)?);
        batch.simko = Some(shares(simko, &entropy, &batch.advantage, &batch.is_correct));
        Ok(())
    }

    /// Charges the later tokens of the groups that a pass went over to earlier ones.
    pub(super) fn charge_passed(
        &self,
        batch: &mut Batch,
        places: &[usize],
        forward: &Forward,
    ) -> Result<()> {
        let Some(values) = forward.divergence().filter(|_| !batch.uncharged.is_empty()) else {
            return Ok(());
        };
        let values = widened(&by_row(&values.detach(), &at(&batch.rows, places))?);
        for (group, beta) in std::mem::take(&mut batch.uncharged) {
            match places.iter().position(|place| *place == group.start) {
                None => batch.uncharged.push((group, beta)),
                Some(first) => {
                    let values = &values[first..first + group.len()];
                    charge_later(values, beta, &mut batch.advantage[group], None);
                }
            }
        }
        Ok(())
    }

    /// What whole distributions add to the loss of a pass.
    pub(super) fn vocabulary_loss(
        &self,
        forward: &Forward,
        tensors: &PartTensors,
        entropy_bonus: f64,
    ) -> Result<Option<Tensor>> {
        if !self.plan.reads_vocabulary(entropy_bonus) {
            return Ok(None);
        }
        let is_top = forward.is_likeliest()?;
        let simko = match (&tensors.simko, forward.likeliest(), &is_top) {
            (Some((lift, press)), Some(likeliest), Some(is_top)) => {
                Some(Candidates { token: forward.logp(), likeliest, is_top, lift, press })
            }
            _ => None,
        };
        Ok(Some(self.plan.vocabulary_loss(&VocabularyInputs {
            entropy: forward.entropy(),
            divergence: forward.divergence(),
            weight: &tensors.weight,
            charge: &tensors.charge,
            entropy_bonus,
            simko,
        })?))
    }
}

/// What SimKO's uncertain tokens move: toward the candidates, where their completion is right, and against the top one,
/// where it is wrong.
pub(super) fn shares(
    simko: SimKo,
    entropy: &Rows,
    advantage: &Rows,
    is_correct: &[bool],
) -> (Rows, Rows) {
    let limit = quantile(entropy, simko.quantile);
    let share = |wanted: bool, factor: f64| -> Rows {
        let row = |((advantage, entropy), right): ((&Vec<f64>, &Vec<f64>), &bool)| {
            let one = |(advantage, entropy): (&f64, &f64)| {
                if *right == wanted && *entropy > limit { advantage * factor } else { 0.0 }
            };
            advantage.iter().zip(entropy).map(one).collect()
        };
        advantage.iter().zip(entropy).zip(is_correct).map(row).collect()
    };
    (share(true, simko.mix), share(false, simko.penalty - 1.0))
}

/// The same numbers in f64.
pub(super) fn widened(rows: &[Vec<f32>]) -> Rows {
    rows.iter().map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect()
}
