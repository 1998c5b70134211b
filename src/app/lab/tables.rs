//! The tables of `tealight lab --sampled` and `--table`.

use anyhow::{Result, bail};
use serde::Serialize;

use super::{LabOptions, Printed, TableKind, collapse, number};
use crate::lab::claim::claimed_gradient;
use crate::lab::mismatch::corrections;
use crate::lab::sampled::{Draws, estimate, needs_larger_groups, off_base};
use crate::lab::tables::{kl_estimators, online_z};
use crate::lab::{Class, Descent, World};

/// The estimators of real runs at one policy: bias and noise beside what they claim.
pub(crate) fn estimators(options: &LabOptions, world: &World, class: Class) -> Result<Printed> {
    if options.num_generations < 2 || options.groups < 2 {
        bail!("--num-generations and --groups must be at least 2");
    }
    let table = off_base(world, class)?;
    let norm = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>().sqrt();
    let header = [
        "objective",
        "|claim|",
        "bias / claim",
        "its noise",
        "largest z",
        "noise of a group / claim",
    ];
    let (mut cells, mut json) = (vec![header.map(str::to_owned).to_vec()], vec![]);
    for objective in &options.objectives {
        let plan = &objective.plan;
        if plan.annealing.has_ends() {
            bail!(
                "objective `{objective}`: a schedule belongs to a run; the lab looks at one policy"
            );
        }
        if needs_larger_groups(plan) && options.num_generations < 5 {
            bail!("objective `{objective}` needs more --num-generations");
        }
        let draws =
            Draws { group: options.num_generations, groups: options.groups, seed: options.seed };
        let estimated = estimate(world, &table, plan, draws)?;
        let claim = claimed_gradient(world, &table, plan, options.num_generations)?;
        let (mut row, mut value) =
            (vec![objective.to_string()], serde_json::json!({"objective": objective}));
        match &claim {
            Some(claim) => {
                let apart: Vec<f64> =
                    estimated.mean.iter().zip(claim).map(|(a, b)| a - b).collect();
                let z = apart
                    .iter()
                    .zip(&estimated.error)
                    .filter(|(_, e)| **e > 0.0)
                    .map(|(d, e)| (d / e).abs());
                let (z, size) = (z.fold(0.0, f64::max), norm(claim));
                let numbers = [
                    ("claim", size),
                    ("bias", norm(&apart) / size),
                    ("bias_noise", norm(&estimated.error) / size),
                    ("largest_z", z),
                    ("noise", estimated.noise / size),
                ];
                numbers.iter().for_each(|(name, x)| value[*name] = (*x).into());
                row.extend(numbers.iter().map(|(_, x)| number(*x)));
            }
            None => {
                row.extend(["none".into(), String::new(), String::new(), String::new()]);
                row.push(number(estimated.noise / norm(&estimated.mean)));
                value["noise"] = (estimated.noise / norm(&estimated.mean)).into();
            }
        }
        cells.push(row);
        json.push(value);
    }
    let note = format!(
        "{} groups of {} in {}, {class:?}, at a policy off the base. bias is the distance of the mean \
         gradient from what the objective claims, its noise what chance alone would give; objectives \
         without a scalar of their own have no claim.",
        options.groups, options.num_generations, world.name
    );
    Ok(Printed { cells, json, note })
}

/// One of the tables: where a collapse comes from, what a falling beta does, or the field's traps.
pub(crate) fn table(
    options: &LabOptions,
    world: &World,
    class: Class,
    kind: TableKind,
) -> Result<Printed> {
    if world.is_right.len() > 1 && kind != TableKind::Decompose {
        bail!("this table needs a world of one prompt: ends or dyck");
    }
    match kind {
        TableKind::Decompose => collapse::decomposition(options, world),
        TableKind::FixedMu => collapse::at_fixed_mu(options, world),
        TableKind::KlEstimators => kl_table(world, class),
        TableKind::EngineMismatch => mismatch_table(world, class),
        TableKind::OnlineZ => online_z_table(options, world, class),
    }
}

/// A header, a row of cells for each of `rows`, and the rows as JSON.
fn printed<const N: usize, R: Serialize>(
    header: [&str; N],
    rows: &[R],
    cells: impl Fn(&R) -> Vec<String>,
    note: &str,
) -> Result<Printed> {
    let header = header.map(str::to_owned).to_vec();
    Ok(Printed {
        cells: std::iter::once(header).chain(rows.iter().map(cells)).collect(),
        json: rows.iter().map(serde_json::to_value).collect::<std::result::Result<_, _>>()?,
        note: note.to_owned(),
    })
}

fn kl_table(world: &World, class: Class) -> Result<Printed> {
    let header = [
        "estimator",
        "value",
        "KL(q||a)",
        "|gradient|",
        "off reverse KL's",
        "off forward KL's",
        "noise",
    ];
    printed(
        header,
        &kl_estimators(world, class)?,
        |row| {
            let values = [
                row.value,
                row.reverse_kl,
                row.gradient,
                row.off_reverse,
                row.off_forward,
                row.noise,
            ];
            [vec![row.estimator.to_owned()], values.map(number).to_vec()].concat()
        },
        "Exact, at a policy off the base, whole outputs as samples: k1 in the loss has no \
         gradient, k2 has reverse KL's, k3 forward KL's. Distances and noise are shares of \
         the gradient they are compared with (noise: of reverse KL's, one sample).",
    )
}

fn mismatch_table(world: &World, class: Class) -> Result<Printed> {
    let header = [
        "samples of",
        "correction",
        "nats a token",
        "effective samples",
        "masked",
        "bias / gradient",
        "cosine",
    ];
    printed(
        header,
        &corrections(world, class)?,
        |row| {
            let values = [row.difference, row.effective, row.masked, row.bias, row.cosine];
            let names = vec![row.engine.to_owned(), row.correction.clone()];
            [names, values.map(number).to_vec()].concat()
        },
        "Exact, at a policy off the base: the gradient of expected reward by another engine's \
         samples, as --importance-correction weighs them, beside that of the policy's own. The bias is \
         of an infinite batch; how noisy a finite one is, the effective samples say.",
    )
}

fn online_z_table(options: &LabOptions, world: &World, class: Class) -> Result<Printed> {
    let groups = [Some(2), Some(4), Some(16), Some(64), None];
    let descent =
        Descent { iterations: options.iterations.min(2500), learning_rate: options.learning_rate };
    printed(
        ["alpha", "samples for Z", "validity", "N_eff"],
        &online_z(world, class, &[0.0, 0.25, 0.5], &groups, descent, options.seed)?,
        |row| {
            vec![
                row.alpha.to_string(),
                row.group.map_or("fixed".to_owned(), |group| group.to_string()),
                number(row.validity),
                number(row.effective_valid),
            ]
        },
        "Where alpha-DPG settles when Z is estimated from the group itself, 2048 samples a \
         step: with few samples it forgets most correct outputs. With the fixed Z it reaches \
         the exact optimum.",
    )
}
