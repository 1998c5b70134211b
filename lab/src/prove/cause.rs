//! Why an expected gradient is not the claimed one.

use anyhow::Result;
use candle_core::Tensor;

use super::claim::{Claim, Term};
use super::{ROUNDING, World, dot, less, norm, penalises};
use crate::Table;
use crate::claim::{generator, position_divergence, rehearsed};
use crate::exact::gradient_of;
use tealight_learn::objective::{
    Anchor, Divergence, Estimator, Plan, Regulariser, SampleSource, TrustRegion,
};

/// What a cause is looked for in.
#[derive(Clone, Copy)]
pub(super) struct Evidence<'a> {
    pub(super) world: &'a World,
    pub(super) table: &'a Table,
    pub(super) group: usize,
    pub(super) plan: &'a Plan,
    pub(super) claim: &'a Claim,
}

impl Evidence<'_> {
    /// The causes of the difference between the gradient that was found and the claim's, each a sentence.
    pub(super) fn causes(
        &self,
        found: &[f64],
        exact: &[f64],
        ours: impl Fn(&Plan) -> Result<Vec<f64>>,
    ) -> Result<Vec<String>> {
        let is_equal = |a: &[f64], b: &[f64]| norm(&less(a, b)) < ROUNDING * norm(b);
        let opposite: Vec<f64> = exact.iter().map(|one| -one).collect();
        if is_equal(found, &opposite) {
            return Ok(vec!["the sign is wrong: it is the claim's gradient times -1.".to_owned()]);
        }
        if self.plan.trust_region != TrustRegion::None {
            let open = Plan { trust_region: TrustRegion::None, ..self.plan.clone() };
            let open = ours(&open)?;
            if !is_equal(found, &open) {
                let lost = norm(&less(found, &open)) / norm(&open);
                return Ok(vec![format!(
                    "the clip of the trust region acts at ratio 1, before the policy has moved: it changes \
                     {lost:.3} of the gradient."
                )]);
            }
        }
        let mut causes = Vec::new();
        for (index, (_, term)) in self.claim.terms.iter().enumerate() {
            let Some(exchanged) = term.exchanged() else { continue };
            let mut other = self.claim.clone();
            other.terms[index].1 = exchanged;
            if let Ok(gradient) = other.gradient(self.world, self.table)
                && is_equal(found, &gradient)
            {
                causes.push(format!(
                    "it is the gradient of {other}: the divergence is the reverse of {term}, f of the inverse ratio."
                ));
            }
        }
        if causes.is_empty()
            && let Some(reward) = self.beside_correct_samples(found, &ours)?
        {
            causes.push(
                "rehearsal on correct samples divides pi by the base a and not by p*. The gradient is that of \
                 E_p*[sum_t f(pi_t / a_t)], which is not a divergence: under p*, the mean of pi / a is not 1."
                    .to_owned(),
            );
            let claim = Claim { terms: vec![(1.0, Term::Reward)] };
            causes.extend(Evidence { claim: &claim, ..*self }.of_terms(&reward)?);
        }
        if causes.is_empty()
            && let Some((by_position, name)) = self.by_position()?
            && is_equal(found, &by_position)
        {
            causes.push(name);
        }
        if causes.is_empty() {
            causes.extend(self.of_terms(found)?);
        }
        Ok(causes)
    }

    /// The gradient that the same plan has of its rewards alone, where the rest is that of the generator of every
    /// token on the base's correct samples, up to the weight of their mean.
    fn beside_correct_samples(
        &self,
        found: &[f64],
        ours: impl Fn(&Plan) -> Result<Vec<f64>>,
    ) -> Result<Option<Vec<f64>>> {
        let is_meant = |r: &&Regulariser| {
            r.sampler == SampleSource::Filtered && r.estimator == Estimator::Generator
        };
        let Some(regulariser) = self.plan.regulariser().filter(is_meant) else { return Ok(None) };
        let cost = rehearsed(self.world, self.table, regulariser.sampler, |x| {
            generator(regulariser.divergence, x)
        })?;
        let cost = gradient_of(&cost, self.table)?;
        let reward = ours(&Plan { anchor: Anchor::None, ..self.plan.clone() })?;
        let rest = less(found, &reward);
        let weight = dot(&rest, &cost) / dot(&cost, &cost);
        let expected: Vec<f64> = cost.iter().map(|one| weight * one).collect();
        let is_rehearsal = weight < 0.0 && norm(&less(&rest, &expected)) < ROUNDING * norm(found);
        Ok(is_rehearsal.then_some(reward))
    }

    /// The gradient of the mean reward less the divergence of every position's distribution, where the plan takes it
    /// so, and what to say of it.
    fn by_position(&self) -> Result<Option<(Vec<f64>, String)>> {
        let Some(regulariser) = self.plan.regulariser() else { return Ok(None) };
        let Regulariser { divergence, sampler, beta, .. } = *regulariser;
        let summed = |prefixes: &str, exact: &str| {
            format!(
                "the penalty is the sum of the divergence of every position's next token, on prefixes of {prefixes}. \
                 For {exact} KL that sum is the divergence of whole completions, for {divergence} it is not."
            )
        };
        let (cost, said) = match (regulariser.estimator, sampler) {
            (Estimator::K3, _) => (
                position_divergence(self.world, self.table, Divergence::ForwardKl, true)?,
                "the gradient of k3 in the loss is that of the per-token forward KL(a||pi) on prefixes sampled from \
                 the policy; the prefixes get no gradient."
                    .to_owned(),
            ),
            (Estimator::Full, _) => (
                position_divergence(self.world, self.table, divergence, false)?,
                summed("the policy", "reverse"),
            ),
            (Estimator::Generator, SampleSource::Stored) => {
                let f = |x: &Tensor| generator(divergence, x);
                (rehearsed(self.world, self.table, sampler, f)?, summed("the base", "forward"))
            }
            _ => return Ok(None),
        };
        Ok(Some((self.reward_less(&cost, beta)?, said)))
    }

    fn reward_less(&self, cost: &Tensor, beta: f64) -> Result<Vec<f64>> {
        let cost = gradient_of(cost, self.table)?;
        let reward = Term::Reward.gradient(self.world, self.table)?;
        Ok(reward.iter().zip(cost).map(|(reward, cost)| reward - beta * cost).collect())
    }

    /// The weights, prompt by prompt, with which the terms of the claim are in the gradient.
    fn of_terms(&self, found: &[f64]) -> Result<Vec<String>> {
        let prompts = self.world.is_right.len();
        let terms: Vec<Vec<f64>> = (self.claim.terms.iter())
            .map(|(by, term)| {
                let gradient = term.gradient(self.world, self.table)?;
                Ok(gradient.into_iter().map(|one| by * one).collect())
            })
            .collect::<Result<_>>()?;
        // Contexts of the table belong to one prompt each: its gradient falls apart into theirs.
        let cells = found.len() / prompts;
        let part = |all: &[f64], prompt: usize| all[prompt * cells..(prompt + 1) * cells].to_vec();
        let mut rows = Vec::new();
        let mut left = 0.0;
        for prompt in 0..prompts {
            let of_prompt: Vec<Vec<f64>> = terms.iter().map(|term| part(term, prompt)).collect();
            let target = part(found, prompt);
            let weights = least_squares(&of_prompt, &target);
            let mut rest = target.clone();
            for (weight, term) in weights.iter().zip(&of_prompt) {
                rest.iter_mut().zip(term).for_each(|(all, one)| *all -= weight * one);
            }
            left += dot(&rest, &rest);
            rows.push(weights);
        }
        let left = left.sqrt() / norm(found);
        let mut causes = Vec::new();
        if left > 1e-6 {
            // Weights of terms say nothing beside a part that is none of theirs.
            causes.push(format!(
                "a share of {left:.3} of the gradient is orthogonal to every term of the claim: no reweighting of \
                 the terms explains it."
            ));
            return Ok(causes);
        }
        for (index, (_, term)) in self.claim.terms.iter().enumerate() {
            let weights: Vec<f64> = rows.iter().map(|row| row[index]).collect();
            causes.extend(self.of_term(*term, &weights));
        }
        Ok(causes)
    }

    fn of_term(&self, term: Term, weights: &[f64]) -> Option<String> {
        let (least, most) = (
            weights.iter().copied().fold(f64::INFINITY, f64::min),
            weights.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        );
        let own = 1.0 - 1.0 / self.group as f64;
        let is = |weight: f64| (least - weight).abs() < 1e-6 && (most - weight).abs() < 1e-6;
        let shown: Vec<String> = weights.iter().map(|one| format!("{one:.4}")).collect();
        if is(1.0) {
            return None;
        }
        let is_divergence = matches!(term, Term::Apart(..) | Term::Reversed(..));
        Some(if is(0.0) && is_divergence && penalises(self.plan) {
            format!(
                "{term} has no gradient in expectation: its estimate is only logged, as k1 in the loss."
            )
        } else if is(own) {
            format!(
                "{term} has the weight {own:.4} = 1 - 1/{}: the baseline contains the sample itself.",
                self.group
            )
        } else if is(0.0) {
            format!("{term} has no gradient in expectation.")
        } else if most - least < 1e-6 {
            format!("{term} has the weight {:.4}, not 1.", weights[0])
        } else {
            // Of a plan whose advantage no text says, the usual cause is named too.
            let divides = self.plan.advantage().is_none_or(|rule| rule.contains("std"));
            let usual = " Usual cause: division by the group's standard deviation.";
            format!(
                "{term} has a weight that depends on the prompt's solve rate: {} instead of 1.{}",
                shown.join(", "),
                if divides { usual } else { "" }
            )
        })
    }
}

/// The weights of the columns whose sum is nearest to `target`, by the normal equations.
fn least_squares(columns: &[Vec<f64>], target: &[f64]) -> Vec<f64> {
    let count = columns.len();
    let mut rows: Vec<Vec<f64>> = (0..count)
        .map(|i| {
            let mut row: Vec<f64> = columns.iter().map(|column| dot(&columns[i], column)).collect();
            row.push(dot(&columns[i], target));
            row
        })
        .collect();
    for i in 0..count {
        let pivot = (i..count).max_by(|a, b| rows[*a][i].abs().total_cmp(&rows[*b][i].abs()));
        rows.swap(i, pivot.unwrap_or(i));
        if rows[i][i].abs() < 1e-14 {
            continue;
        }
        for j in 0..count {
            if j != i {
                let by = rows[j][i] / rows[i][i];
                let source = rows[i].clone();
                rows[j].iter_mut().zip(source).for_each(|(all, one)| *all -= by * one);
            }
        }
    }
    (0..count)
        .map(|i| if rows[i][i].abs() < 1e-14 { 0.0 } else { rows[i][count] / rows[i][i] })
        .collect()
}
