//! What losses read of whole next-token distributions: divergences from the base's, entropies, likeliest tokens. The base
//! passes over a batch once, however often the policy does.

use std::cell::RefCell;
use std::ops::Range;

use anyhow::Result;
use candle_core::Tensor;

use super::Run;
use super::batch::Batch;
use super::gradients::PartTensors;
use crate::objective::tokens::Rows;
use crate::objective::vocabulary::Candidates;
use crate::objective::{VocabularyInputs, charge_later};
use crate::policy::{
    Base, Distributions, Forward, Sequence, Whole, by_row, token_divergence, token_logp,
};
use crate::train::step::{lengths, micro_batches};

impl Run<'_> {
    /// Log-probabilities of completions under the base, and its distributions at their tokens, row by row.
    pub(super) fn base_distributions(
        &self,
        rows: &[Sequence],
    ) -> Result<(Vec<Vec<f32>>, Vec<Distributions>)> {
        let all = RefCell::new(Vec::with_capacity(rows.len()));
        let logp = self.by_row(rows, &|part, _| {
            let said = token_logp(self.reference, part, self.config.settings.temperature)?;
            all.borrow_mut().extend(said.distributions.split(lengths(part).into_iter())?);
            Ok(by_row(&said.logp, part)?)
        })?;
        Ok((logp, all.into_inner()))
    }

    /// What is asked of the distributions of some rows; `kept` is the base's of all of them, where there is that.
    pub(super) fn asked(
        &self,
        rows: &[Sequence],
        kept: Option<Vec<&Distributions>>,
    ) -> Result<Whole<'_>> {
        let likeliest = self.plan.simko.map_or(0, |simko| simko.top);
        let compared = self.plan.regulariser().filter(|_| self.plan.compares_vocabulary());
        let Some(regulariser) = compared else { return Ok(Whole { likeliest, base: None }) };
        let distributions = match kept {
            Some(kept) => Distributions::joined(&kept)?,
            None => {
                let temperature = self.config.settings.temperature;
                token_logp(self.reference, rows, temperature)?.distributions
            }
        };
        let divergence = regulariser.divergence;
        Ok(Whole {
            likeliest,
            base: Some(Base { decoder: self.reference, distributions, divergence }),
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
        Ok(widened(values))
    }

    /// Whether the pass that trains on these groups can charge their later tokens to earlier ones: it is the only one,
    /// by what sampled them, and has every group whole.
    pub(super) fn charges_in_pass(
        &self,
        rows: &[Sequence],
        groups: &[(Range<usize>, f64)],
    ) -> bool {
        let plan = self.plan;
        let is_read_before = plan.covariance.is_some() || plan.simko.is_some();
        let drops = self.config.settings.lora.lora_dropout > 0.0;
        let passes = micro_batches(rows, self.config.settings.micro_batch_tokens);
        let is_whole = |(group, _): &(Range<usize>, f64)| {
            passes.iter().any(|pass| pass.start <= group.start && group.end <= pass.end)
        };
        plan.updates() == 1
            && self.ranks.size() == 1
            && !is_read_before
            && !drops
            && groups.iter().all(is_whole)
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
        let rows: Vec<Sequence> = places.iter().map(|place| batch.rows[*place].clone()).collect();
        let values = widened(by_row(&values.detach(), &rows)?);
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

fn widened(rows: Vec<Vec<f32>>) -> Rows {
    rows.into_iter().map(|row| row.into_iter().map(f64::from).collect()).collect()
}
