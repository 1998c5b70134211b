//! The function that each objective claims to optimise, as scalars written by the textbook and differentiated
//! exactly: the other side of every gradient check. Nothing here uses the objectives' own code, but
//! for the weight that a rule of rewards gives to the chance of being correct.

use anyhow::{Result, bail};
use candle_core::{Device, Tensor};

use super::exact::gradient_of;
use super::{Class, Table, World};
use tealight_learn::objective::expression::{Expression, Operator};
use tealight_learn::objective::target::Target;
use tealight_learn::objective::{
    Anchor, Baseline, Divergence, Estimator, GroupStats, Matching, Plan, SampleSource, advantages,
};

/// The gradient that groups of `group` samples should give in expectation, with token means over
/// the length; `None` where the objective is an update rule without a scalar of its own (rules by
/// rank or rarity, choices of single tokens) or a divided pseudo-reward.
pub fn claimed_gradient(
    world: &World,
    table: &Table,
    plan: &Plan,
    group: usize,
) -> Result<Option<Vec<f64>>> {
    if plan.simko.is_some() || plan.covariance.is_some() || plan.entropy.target.is_some() {
        return Ok(None);
    }
    let length = world.length() as f64;
    let claim = match &plan.anchor {
        Anchor::Target(matching) => match target_claim(world, table, plan, matching, group)? {
            Some(claim) if plan.is_on_policy() => {
                ((claim / length)? - entropy_bonus(world, table, plan)?)?
            }
            Some(claim) => claim,
            None => return Ok(None),
        },
        Anchor::None | Anchor::Base(_) => {
            let Some(reward) = reward_claim(world, table, plan, group)? else { return Ok(None) };
            let mut total = (reward / length)?;
            if let Anchor::Base(regulariser) = &plan.anchor {
                let cost = match regulariser.estimator {
                    Estimator::Score => sequence_divergence(world, table, regulariser.divergence)?,
                    Estimator::Full => {
                        position_divergence(world, table, regulariser.divergence, false)?
                    }
                    Estimator::K2 => sequence_divergence(world, table, Divergence::ReverseKl)?,
                    Estimator::K3 => {
                        position_divergence(world, table, Divergence::ForwardKl, true)?
                    }
                    Estimator::Generator => rehearsed(world, table, regulariser.sampler, |x| {
                        generator(regulariser.divergence, x)
                    })?,
                    Estimator::Definition => return Ok(None),
                };
                let weight = regulariser.beta / length;
                total = (total + (cost * weight)?)?;
            }
            total = (total - entropy_bonus(world, table, plan)?)?;
            // A group has as many stored samples as its own: where all are in one mean, each half counts half.
            let is_joint = plan.regulariser().is_some_and(|r| r.split.is_joint_mean);
            if is_joint { (total * 0.5)? } else { total }
        }
    };
    Ok(Some(gradient_of(&claim, table)?))
}

/// The plan's bonus for the mean entropy per token; the chance of what came before a token is a constant, as losses of
/// single tokens have it.
fn entropy_bonus(world: &World, table: &Table, plan: &Plan) -> Result<Tensor> {
    let next = table.next_logp()?;
    let entropy = (next.exp()? * &next)?.sum(1)?.neg()?.reshape(table.shape())?;
    let output_prob = table.token_logp()?.detach().sum(1)?.exp()?;
    let mean = (entropy.sum(1)? * output_prob)?.sum_all()?;
    Ok((mean * (plan.entropy.bonus / world.length() as f64 / prompts(world)))?)
}

pub(super) fn prompts(world: &World) -> f64 {
    world.is_right.len() as f64
}

pub(super) fn constant(values: Vec<f64>) -> Result<Tensor> {
    let count = values.len();
    Ok(Tensor::from_vec(values, count, &Device::Cpu)?)
}

/// `-sum_x w_x p_x / X`: the chance of being correct, weighed by what the rule makes of it.
fn reward_claim(world: &World, table: &Table, plan: &Plan, group: usize) -> Result<Option<Tensor>> {
    if let Some(rule) = &plan.rule {
        if let Some(("unique", k)) = rule.row() {
            return Ok(Some((distinct(world, table, k)?.neg()? / prompts(world))?));
        }
        if rule.reads_samples() {
            return Ok(None);
        }
    }
    let q = table.distributions(world)?;
    let mut weights = Vec::new();
    for (prompt, q) in q.iter().enumerate() {
        let weight = reward_weight(plan, group, world.mass(prompt, q)) / prompts(world);
        weights
            .extend(world.is_right[prompt].iter().map(|right| if *right { weight } else { 0.0 }));
    }
    let chance = table.token_logp()?.sum(1)?.exp()?;
    Ok(Some((chance * constant(weights)?)?.sum_all()?.neg()?))
}

/// The expected number of distinct correct outputs among k, summed over prompts: every correct output is a solution
/// class of its own.
pub(super) fn distinct(world: &World, table: &Table, k: f64) -> Result<Tensor> {
    let correct = world.is_right.iter().flatten().map(|right| f64::from(u8::from(*right)));
    let q = table.token_logp()?.sum(1)?.exp()?;
    let found = (1.0 - (1.0 - q)?.powf(k)?)?;
    Ok((found * constant(correct.collect())?)?.sum_all()?)
}

/// `E[A | right] - E[A | wrong]` of one of `group` samples, the others correct with chance `p`: with
/// rewards alone the expected gradient is this times that of `p`.
pub fn reward_weight(plan: &Plan, group: usize, p: f64) -> f64 {
    let plan = Plan { anchor: Anchor::None, ..plan.clone() };
    let advantage = |is_right: bool, others: usize| {
        let mut right = vec![false; group];
        right[0] = is_right;
        right[1..=others].fill(true);
        let stats = GroupStats {
            rewards: right.iter().map(|right| f64::from(*right)).collect(),
            classes: right.iter().map(|right| right.then_some(0)).collect(),
            policy_logp: vec![0.0; group],
            reference_logp: vec![0.0; group],
            lengths: vec![1; group],
            solve_rate: 0.5,
            beta: 0.0,
            ..GroupStats::default()
        };
        advantages(&plan, &[stats])[0][0]
    };
    let mut weight = 0.0;
    // E[A | correct] - E[A | incorrect] over the number of correct others, Binomial(group - 1, p), term by term.
    let mut chance = (1.0 - p).powi(group as i32 - 1);
    for others in 0..group {
        weight += chance * (advantage(true, others) - advantage(false, others));
        chance *= (group - 1 - others) as f64 / (others + 1) as f64 * p / (1.0 - p);
    }
    weight
}

/// `f` of a log-ratio as tensor operations, by the definition.
pub(super) fn generator(divergence: Divergence, x: &Tensor) -> Result<Tensor> {
    let u = x.exp()?;
    Ok(match divergence {
        Divergence::ForwardKl => ((&u - 1.0)? - x)?,
        Divergence::ReverseKl => (((&u * x)? - &u)? + 1.0)?,
        Divergence::Js => {
            let middle = ((&u + 1.0)? * 0.5)?.log()?;
            (((&u * x)? - ((&u + 1.0)? * middle)?)? * 0.5)?
        }
        Divergence::Alpha(a) => {
            let power = (x * a)?.exp()?;
            ((power - (u * a)?)? - (1.0 - a))?.affine(1.0 / (a * (a - 1.0)), 0.0)?
        }
        Divergence::TotalVariation => ((u - 1.0)?.abs()? * 0.5)?,
        Divergence::ForwardChiSquared => ((&u - 1.0)?.sqr()? / u)?,
        Divergence::ReverseChiSquared => (u - 1.0)?.sqr()?,
        Divergence::Hellinger => ((u.sqrt()? - 1.0)?.sqr()? * 0.5)?,
        Divergence::Formula(formula) => {
            let text = Expression::parse(formula.text())?;
            // As it is written, but for the line through its value and slope at 1, by Candle's own gradient.
            let [value, slope] = formula.facts().removed;
            let written = written(&text, &u, x)?;
            ((written - (u.affine(slope, -slope))?)? - value)?
        }
    })
}

/// An expression in `t` and `x` as tensor operations, as it is written: the other side of what a formula is made into.
fn written(text: &Expression, t: &Tensor, x: &Tensor) -> Result<Tensor> {
    let tensor = |one: &Expression| written(one, t, x);
    Ok(match text {
        Expression::Number(value) => t.affine(0.0, *value)?,
        Expression::Name(name) => {
            if name == "t" {
                t.clone()
            } else {
                x.clone()
            }
        }
        Expression::Negative(a) => tensor(a)?.neg()?,
        Expression::Binary(operator, a, b) => match (operator, tensor(a)?) {
            (Operator::Add, a) => (a + tensor(b)?)?,
            (Operator::Subtract, a) => (a - tensor(b)?)?,
            (Operator::Multiply, a) => (a * tensor(b)?)?,
            (Operator::Divide, a) => (a / tensor(b)?)?,
            (Operator::Power, a) => match **b {
                Expression::Number(power) => a.powf(power)?,
                _ => (a.log()? * tensor(b)?)?.exp()?,
            },
            _ => bail!("a divergence has no comparisons"),
        },
        Expression::Call(name, arguments) => {
            let a = tensor(&arguments[0])?;
            match name.as_str() {
                "log" => a.log()?,
                "exp" => a.exp()?,
                "sqrt" => a.sqrt()?,
                "abs" => a.abs()?,
                "tanh" => a.tanh()?,
                "log1p" => (a + 1.0)?.log()?,
                "expm1" => (a.exp()? - 1.0)?,
                "max" => a.maximum(&tensor(&arguments[1])?)?,
                "min" => a.minimum(&tensor(&arguments[1])?)?,
                other => bail!("`{other}` is not a function"),
            }
        }
    })
}

/// `D_f(pi || a)` of whole outputs, averaged over prompts.
fn sequence_divergence(world: &World, table: &Table, divergence: Divergence) -> Result<Tensor> {
    let base = constant(world.base.repeat(world.is_right.len()))?;
    let ratio = (table.token_logp()?.sum(1)? - base.log()?)?;
    Ok(((generator(divergence, &ratio)? * base)?.sum_all()? / prompts(world))?)
}

/// `E_pi[sum_t D_f(pi(.|before) || a(.|before))]`; with `is_detached`, the chance of what came before is
/// a constant, as losses of single tokens have it.
pub(super) fn position_divergence(
    world: &World,
    table: &Table,
    divergence: Divergence,
    is_detached: bool,
) -> Result<Tensor> {
    let base = Table::base(world, Class::Full)?.next_logp()?.detach();
    let ratio = (table.next_logp()? - &base)?;
    let cost = (generator(divergence, &ratio)? * base.exp()?)?.sum(1)?.reshape(table.shape())?;
    let chance = table.token_logp()?.sum(1)?.exp()?;
    // Differentiated through the chance of the prefix it is the sequence objective; without it that of single tokens.
    let chance = if is_detached { chance.detach() } else { chance };
    Ok(((cost.sum(1)? * chance)?.sum_all()? / prompts(world))?)
}

/// The sum over tokens of a function of the log-ratio, on the base's samples.
pub(super) fn rehearsed(
    world: &World,
    table: &Table,
    sampler: SampleSource,
    f: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let base = Table::base(world, Class::Full)?.token_logp()?.detach();
    let mut stored = Vec::new();
    for prompt in 0..world.is_right.len() {
        stored.extend(match sampler {
            SampleSource::Filtered => world.filtered(prompt),
            _ => world.base.clone(),
        });
    }
    let cost = f(&(table.token_logp()? - base)?)?.sum(1)?;
    Ok(((cost * constant(stored)?)?.sum_all()? / prompts(world))?)
}

/// `D_f(pi || target)`, the mass outside the target's support included; on policy, over `f'(inf)`.
fn target_claim(
    world: &World,
    table: &Table,
    plan: &Plan,
    matching: &Matching,
    group: usize,
) -> Result<Option<Tensor>> {
    let Matching { target, divergence, beta, .. } = matching;
    // A baseline's change of the scale.
    let scale = match plan.baseline {
        Baseline::None | Baseline::Loo => 1.0,
        // A group alone is a batch of one, which is valid where it has a gradient at all.
        Baseline::GroupMean | Baseline::ValidMean => 1.0 - 1.0 / group as f64,
        Baseline::GroupStd | Baseline::BatchStd | Baseline::Batch | Baseline::Greedy => {
            return Ok(None);
        }
    };
    let limit = divergence.at_infinity();
    let chance = table.token_logp()?.sum(1)?.exp()?;
    let (mut log_target, mut inside, mut outside) = (Vec::new(), Vec::new(), Vec::new());
    for (prompt, is_right) in world.is_right.iter().enumerate() {
        let validity = world.solve_rate(prompt);
        for (a, right) in world.base.iter().zip(is_right) {
            let p = match target {
                Target::Filtered => a * f64::from(*right) / validity,
                Target::Tilted => {
                    let tilt = |right: bool| if right { (1.0 / beta).exp() } else { 1.0 };
                    a * tilt(*right) / (validity * tilt(true) + (1.0 - validity))
                }
            };
            log_target.push(if p > 0.0 { p.ln() } else { 0.0 });
            inside.push(p);
            outside.push(if p > 0.0 { 0.0 } else { limit });
        }
    }
    let ratio = (chance.log()? - constant(log_target)?)?;
    // D_f(pi || p) = sum_{p > 0} p f(pi / p) + f'(inf) pi(p = 0). An output outside the support has weight 0 inside;
    // its ratio only has to be a number.
    let value = (generator(*divergence, &ratio)? * constant(inside)?)?.sum_all()?;
    let value = (value + (chance * constant(outside)?)?.sum_all()?)?;
    let per = if plan.is_on_policy() && limit.is_finite() { scale / limit } else { scale };
    Ok(Some((value * (per / prompts(world)))?))
}
