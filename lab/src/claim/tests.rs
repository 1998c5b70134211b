//! Every objective against its claim: what it should do by the textbook, with the baselines and divisions that it is
//! said to have, beside the expected gradient of its estimator.

use super::*;
use crate::exact::gradient_of;
use crate::prove::Claim;
use crate::sampled::{expected_in_groups, off_base};
use crate::{Class, Descent};
use tealight_learn::objective::target::validity_of;
use tealight_learn::objective::{
    Anchor, Baseline, Estimator, GroupStats, Objective, Plan, SampleSource, advantages,
};

fn world(name: &str) -> World {
    World::named(name).expect("known")
}

fn close(ours: f64, exact: f64, relative: f64, what: &str) {
    assert!((ours - exact).abs() <= relative * exact.abs(), "{what}: {ours}, not {exact}");
}

/// Forward KL on stored samples of the base and on the policy's by importance weights are two estimators of one
/// quantity: their claims are equal, by enumeration.
#[test]
fn rehearsal_and_importance_weights_estimate_one_forward_kl() {
    let ends = world("ends");
    let table = off_base(&ends, Class::Bigram).expect("memory");
    let claim = |text: &str| {
        let plan = text.parse::<Objective>().expect("possible").plan;
        claimed_gradient(&ends, &table, &plan, 2).expect("memory").expect("a claim")
    };
    let stored = claim("divergence:forward-kl:0.5");
    let weighed = claim("divergence:forward-kl:0.5:rehearsal=importance");
    let correct = claim("divergence:forward-kl:0.5:rehearsal=correct");
    let farthest =
        |other: &[f64]| stored.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(farthest(&weighed) < 1e-10, "{}", farthest(&weighed));
    assert!(farthest(&correct) > 1e-4, "the base's correct answers are another anchor");
}

/// T5: every objective's expected gradient is that of what it claims, by enumeration of all pairs.
#[test]
fn expected_gradients_equal_their_claims() {
    let ends = world("ends");
    let table = off_base(&ends, Class::Bigram).expect("memory");
    let more = [
        "f-dpg:tv",
        "f-dpg:hellinger",
        "f-dpg:forward-chi2",
        "f-dpg:alpha:0.3",
        "dph-f:sampler=stored",
        "match:p-beta:reverse-kl:beta=0.3:baseline=loo",
        "match:p-beta:js:beta=0.3:baseline=loo",
        "match:p-beta:reverse-chi2:beta=0.5",
        "match:p-star:js:filtered",
        "match:p-beta:alpha:stored:beta=0.2:alpha=0.3",
        "rloo:divergence=js:beta=0.3",
        "rloo:divergence=alpha:beta=0.2:alpha=0.4",
        "kl-full:divergence=hellinger",
        // Divergences by their formulas: rehearsal, full vocabulary, advantages, targets on either kind of samples.
        "divergence:f=(t-1)^2/(t+1)",
        "divergence:f=(t-1)*log(t):rehearsal=full",
        "rloo:divergence=f=t*log(t):beta=0.3",
        "f-dpg:f=(t-1)^2/(t+1)",
        "match:p-beta:f=t*log(t)+(t-1)^2:beta=0.5",
        "match:p-star:f=(t*log(t)-(t+1)*log((t+1)/2))/2:filtered",
        "pkpo:1",
        "pass-at-k:1",
        "alpha-dpg:0.9",
        "alpha-dpg:0.25",
        "grpo:entropy=0.1",
    ];
    let named = Objective::names().chain(more).map(str::to_owned);
    let mut checked = 0;
    for text in named.chain(Objective::members()) {
        let objective: Objective = text.parse().expect("possible");
        let mut plan = objective.plan;
        // The cut of large pseudo-rewards is a bias by intent.
        if let Anchor::Target(matching) = &mut plan.anchor {
            matching.max_reward = f64::INFINITY;
        }
        if plan.smallest_group() > 2 {
            continue;
        }
        let Some(claim) = claimed_gradient(&ends, &table, &plan, 2).expect("memory") else {
            let is_ranked = plan.rule.as_ref().is_some_and(|rule| rule.reads("rank"));
            assert!(plan.entropy.target.is_some() || is_ranked, "{text} claims nothing");
            continue;
        };
        let ours = expected_in_groups(&ends, &table, &plan, 2).expect("memory");
        assert!(claim.iter().any(|x| x.abs() > 1e-6), "{text} claims to do nothing");
        for (ours, claim) in ours.iter().zip(&claim) {
            assert!((ours - claim).abs() < 1e-8, "{text}: {ours} is not {claim}");
        }
        checked += 1;
    }
    assert!(checked > 35, "only {checked} were checked");
}

#[test]
fn grpo_weighs_prompts_by_the_arcsine() {
    let plan = "grpo".parse::<Objective>().expect("known").plan;
    let p = 0.3;
    // With ever more samples, A(right) - A(wrong) is one over the standard deviation.
    let exact = 1.0 / f64::sqrt(p * (1.0 - p));
    close(reward_weight(&plan, 600, p).expect("text"), exact, 2e-2, "large groups");
    close(reward_weight(&plan, 2, p).expect("text"), 0.5_f64.sqrt(), 1e-4, "pairs");
}

/// The presets of the control theory end at p_beta where a policy can represent it: right with chance
/// sigma(1 / beta + logit Z) on every prompt, with groups of samples as training draws them. GRPO's form, rewards over
/// the group's deviation and the KL not, ends far above.
#[test]
fn the_presets_of_the_control_theory_end_at_the_tilted_model() {
    // Prompts of very different validity: .1 to .7.
    let strategies = world("strategies");
    let beta = 0.5;
    let ends_at = |objective: &str| -> Vec<f64> {
        let plan = objective.parse::<Objective>().expect("possible").plan;
        let table = Table::base(&strategies, Class::Full).expect("memory");
        let descent = Descent { iterations: 1500, learning_rate: 0.05 };
        descent
            .run(&table, |table| expected_in_groups(&strategies, table, &plan, 2))
            .expect("memory");
        let q = table.distributions(&strategies).expect("memory");
        q.iter().enumerate().map(|(prompt, q)| strategies.mass(prompt, q)).collect()
    };
    for preset in ["kl-reward", "kl-full", "kl-k2", "reverse-kl"] {
        for (prompt, reached) in ends_at(&format!("{preset}:{beta}")).into_iter().enumerate() {
            let exact = validity_of(strategies.base_validity(prompt), beta);
            close(reached, exact, 1e-3, &format!("{preset}, prompt {prompt}"));
        }
    }
    // One prompt with validity .22, groups of eight, exactly: where the two forms end.
    let one =
        World::new("one", 1, &[0.22, 0.78], &[vec![0.5; 2], vec![0.5; 2]], 1, |_, y| y[0] == 0);
    let ends_at = |objective: &str| {
        let plan = objective.parse::<Objective>().expect("possible").plan;
        let table = Table::base(&one, Class::Full).expect("memory");
        let descent = Descent { iterations: 3000, learning_rate: 0.03 };
        let claim = |table: &Table| {
            Ok(claimed_gradient(&one, table, &plan, 8)?.expect("it has a scalar of its own"))
        };
        descent.run(&table, claim).expect("memory");
        one.mass(0, &table.distributions(&one).expect("memory")[0])
    };
    close(ends_at("kl-reward:0.5"), 0.676, 1e-3, "E[v] - beta KL");
    close(ends_at("grpo:divergence=reverse-kl:beta=0.5"), 0.971, 1e-3, "GRPO's form");
}

/// The gradient that groups of `group` samples should give in expectation, with token means over
/// the length; `None` where the objective is an update rule without a scalar of its own (rules by
/// rank or rarity, choices of single tokens) or a divided pseudo-reward.
fn claimed_gradient(
    world: &World,
    table: &Table,
    plan: &Plan,
    group: usize,
) -> Result<Option<Vec<f64>>> {
    if plan.entropy.target.is_some() {
        return Ok(None);
    }
    let length = world.length() as f64;
    let claim = match &plan.anchor {
        Anchor::Target(_) => match target_claim(world, table, plan, group)? {
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

/// `-sum_x w_x p_x / X`: the chance of being correct, weighed by what the rule makes of it.
fn reward_claim(world: &World, table: &Table, plan: &Plan, group: usize) -> Result<Option<Tensor>> {
    if let Some(rule) = &plan.rule {
        if let Some(("unique", k)) = rule.row() {
            return Ok(Some((distinct(world, table, k)?.neg()? / prompts(world))?));
        }
        let of_samples = ["logp", "logp_base", "length", "class_size", "rank"];
        if of_samples.iter().any(|name| rule.reads(name)) {
            return Ok(None);
        }
    }
    let q = table.distributions(world)?;
    let mut weights = Vec::new();
    for (prompt, q) in q.iter().enumerate() {
        let weight = reward_weight(plan, group, world.mass(prompt, q))? / prompts(world);
        weights
            .extend(world.is_right[prompt].iter().map(|right| if *right { weight } else { 0.0 }));
    }
    let chance = table.token_logp()?.sum(1)?.exp()?;
    Ok(Some((chance * constant(weights)?)?.sum_all()?.neg()?))
}

/// `E[A | right] - E[A | wrong]` of one of `group` samples, the others correct with chance `p`: with
/// rewards alone the expected gradient is this times that of `p`.
fn reward_weight(plan: &Plan, group: usize, p: f64) -> Result<f64> {
    let plan = Plan { anchor: Anchor::None, ..plan.clone() };
    let advantage = |is_right: bool, others: usize| {
        let mut right = vec![false; group];
        right[0] = is_right;
        right[1..=others].fill(true);
        let stats = GroupStats {
            rewards: right.iter().map(|right| f64::from(*right)).collect(),
            classes: right.iter().map(|right| right.then_some(0)).collect(),
            behavior_logp: vec![0.0; group],
            base_logp: vec![0.0; group],
            lengths: vec![1; group],
            normaliser: 0.5,
            beta: 0.0,
            ..GroupStats::default()
        };
        anyhow::Ok(advantages(&plan, &[stats])?[0][0])
    };
    let mut weight = 0.0;
    // E[A | correct] - E[A | incorrect] over the number of correct others, Binomial(group - 1, p), term by term.
    let mut chance = (1.0 - p).powi(group as i32 - 1);
    for others in 0..group {
        weight += chance * (advantage(true, others)? - advantage(false, others)?);
        chance *= (group - 1 - others) as f64 / (others + 1) as f64 * p / (1.0 - p);
    }
    Ok(weight)
}

/// `D_f(pi || a)` of whole outputs, averaged over prompts.
fn sequence_divergence(world: &World, table: &Table, divergence: Divergence) -> Result<Tensor> {
    let base = constant(world.base.repeat(world.is_right.len()))?;
    let ratio = (table.token_logp()?.sum(1)? - base.log()?)?;
    Ok(((generator(divergence, &ratio)? * base)?.sum_all()? / prompts(world))?)
}

/// `E_pi[sum_t D_f(pi(.|before) || a(.|before))]`; with `is_detached`, the chance of what came before is
/// a constant, as losses of single tokens have it.
fn position_divergence(
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
fn rehearsed(
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

/// What the plan is said to minimise, in the scale that its baseline leaves.
fn target_claim(world: &World, table: &Table, plan: &Plan, group: usize) -> Result<Option<Tensor>> {
    let scale = match plan.baseline {
        Baseline::None | Baseline::Loo => 1.0,
        // A group alone is a batch of one, which is valid where it has a gradient at all.
        Baseline::GroupMean | Baseline::ValidMean => 1.0 - 1.0 / group as f64,
        Baseline::GroupStd | Baseline::BatchStd | Baseline::Batch | Baseline::Greedy => {
            return Ok(None);
        }
    };
    let (by, term) = Claim::of_plan(plan)?.terms[0];
    Ok(Some((term.value(world, table)? * (-by * scale / prompts(world)))?))
}
