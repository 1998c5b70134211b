//! The charts of `tealight lab --paper`, claim by claim.

use tealight_eval::report::view::{Chart, Line};

use crate::lab::World;
use crate::lab::fixed_mu::{FixedMu, Series};
use crate::lab::paper::{Claims, Row};
use crate::learn::objective::target::validity_of;

/// Betas whose policies are drawn output by output.
const DRAWN: [f64; 3] = [2.0, 0.25, 0.1];
/// Correct outputs that the mass bars show at most.
const OUTPUTS: usize = 16;

/// The charts of each claim.
pub(super) fn figures(claims: &Claims, world: &World) -> [Vec<Chart>; 6] {
    [
        degeneracy(claims, world),
        limit(claims),
        direction(claims),
        link(claims),
        fixed_target(claims),
        collapse(claims, world),
    ]
}

/// The paper's idea in one chart: how many correct outputs are left as beta falls, beside divergences that aim at p*.
pub(super) fn effective_along_beta(claims: &Claims) -> Chart {
    let collapse = &claims.collapse;
    let mut points: Vec<(f64, f64)> =
        collapse.along_beta().map(|(beta, row)| (beta, row.measures.effective_valid)).collect();
    points.reverse();
    let (low, high) = (points[0].0, points[points.len() - 1].0);
    let level = |name: String, value: f64| Line::new(name, vec![(low, value), (high, value)]);
    let mut lines = vec![
        level("p*".into(), collapse.effective_pstar),
        Line::new("KL penalty with this beta", points),
    ];
    lines.extend(
        collapse
            .along_alpha()
            .filter(|(alpha, _)| [0.0, 0.5, 0.9].contains(alpha))
            .map(|(_, row)| level(row.objective.clone(), row.measures.effective_valid)),
    );
    let title = format!("Effective number of correct answers, {} policies", collapse.class);
    Chart::new(&title, ("beta", "effective correct answers"), lines).log().caption(
        "Left is less penalty. The KL penalty loses correct answers as beta falls; a divergence to p* has no beta, and keeps \
         the number of its line. p* is the base given a correct answer.",
    )
}

fn degeneracy(claims: &Claims, world: &World) -> Vec<Chart> {
    let maximisers = claims.degeneracy.maximisers.iter();
    let series = maximisers.map(|one| (one.policy.clone(), one.distribution.as_slice())).collect();
    let caption = "The probability of the likeliest correct outputs under policies with the same expected reward.";
    vec![mass_bars("Maximisers of the reward", world, series).caption(caption)]
}

fn limit(claims: &Claims) -> Vec<Chart> {
    let rows = &claims.limit.rows;
    let line = |name: &str, value: &dyn Fn(usize) -> f64| {
        let points = (0..rows.len()).rev().map(|place| (rows[place].beta, value(place)));
        Line::new(name, points.collect())
    };
    let forward = vec![
        line("enumerated", &|place| rows[place].forward_kl.log10()),
        line("-log mu", &|place| rows[place].forward_kl_closed.log10()),
    ];
    let distance = vec![
        line("total variation", &|place| rows[place].distance),
        line("validity", &|place| rows[place].validity),
    ];
    vec![
        Chart::new("KL(p* || p_beta)", ("beta", "log10 of nats"), forward)
            .log()
            .caption("The distance of p_beta from p*, summed over outputs, and its closed form."),
        Chart::new("p_beta", ("beta", "probability"), distance)
            .log()
            .from_to(0.0, 1.0)
            .caption("Total variation of p_beta from p*, and the chance that p_beta is correct."),
    ]
}

fn direction(claims: &Claims) -> Vec<Chart> {
    let line = |model: &crate::lab::paper::Model| {
        Line::new(&model.policy, model.smoothed.iter().rev().copied().collect())
    };
    let lines = claims.direction.models.iter().map(line).collect();
    let caption = "KL(q || (1 - share) p* + share a): finite while the base has a share, without a bound as the share \
                   falls to 0. The slope is the chance of an incorrect output.";
    let axes = ("share of the base in p*", "KL(q || smoothed p*), nats");
    vec![Chart::new("Reverse KL to p*", axes, lines).log().caption(caption)]
}

fn link(claims: &Claims) -> Vec<Chart> {
    let mut bases: Vec<f64> = claims.link.rows.iter().map(|row| row.base_validity).collect();
    bases.dedup();
    let (mut validity, mut cost) = (Vec::new(), Vec::new());
    for base in bases {
        let rows = || claims.link.rows.iter().filter(|row| row.base_validity == base);
        // Targets rise, so that beta falls.
        let closed = rows().rev().map(|row| (row.beta, validity_of(base, row.beta))).collect();
        let summed = rows().rev().map(|row| (row.beta, row.validity)).collect();
        validity.push(Line::new(format!("closed form, A {base:.4}"), closed));
        validity.push(Line::new(format!("enumerated, A {base:.4}"), summed));
        let points = rows().map(|row| (row.validity, row.kl_cost)).collect();
        cost.push(Line::new(format!("enumerated, A {base:.4}"), points));
    }
    vec![
        Chart::new("Validity of p_beta", ("beta", "validity"), validity)
            .log()
            .from_to(0.0, 1.0)
            .caption("The validity that each beta leads to, for bases of validity A."),
        Chart::new("KL cost of validity", ("validity", "KL(p_beta || a), nats"), cost)
            .caption("The KL to the base that a validity costs; its slope is 1 / beta."),
    ]
}

fn fixed_target(claims: &Claims) -> Vec<Chart> {
    let fixed = &claims.fixed_target;
    let (mut shares, mut betas) = (Vec::new(), Vec::new());
    for (series, name) in [(Series::SameTarget, "same p*"), (Series::RarerAnswers, "rarer answers")]
    {
        let rows = || fixed.rows.iter().filter(|row| row.series == series);
        let line = |value: &dyn Fn(&FixedMu) -> Option<f64>| -> Vec<(f64, f64)> {
            rows().rev().filter_map(|row| Some((row.base_validity, value(row)?))).collect()
        };
        let full = line(&|row| Some(row.share(row.effective_valid[0])));
        let class = line(&|row| Some(row.share(row.effective_valid[1])));
        let own = line(&|row| Some(row.share(row.class_effective_valid?)));
        shares.push(Line::new(format!("{name}: p_beta"), full));
        shares.push(Line::new(format!("{name}: {} at that beta", fixed.class), class));
        shares.push(Line::new(format!("{name}: {} at its own beta", fixed.class), own));
        betas.push(Line::new(format!("{name}: p_beta"), line(&|row| Some(row.beta))));
        let own = line(&|row| row.class_beta);
        betas.push(Line::new(format!("{name}: {} at its own beta", fixed.class), own));
    }
    vec![
        Chart::new("Correct outputs that are kept", ("base validity A", "share of p*'s"), shares)
            .log()
            .caption(format!(
                "Effective number of correct outputs as a share of p*'s, at the beta at which p_beta has validity {}, and \
                 at the beta at which the class itself has it.",
                fixed.target
            )),
        Chart::new("beta", ("base validity A", "beta"), betas)
            .log()
            .caption("The beta that leads to the target validity: the weaker the base, the smaller."),
    ]
}

fn collapse(claims: &Claims, world: &World) -> Vec<Chart> {
    let collapse = &claims.collapse;
    let along_beta = |value: &dyn Fn(f64, &Row) -> f64| -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> =
            collapse.along_beta().map(|(beta, row)| (beta, value(beta, row))).collect();
        points.reverse();
        points
    };
    let name = format!("{}, reverse KL", collapse.class);
    let base = world.base_validity(0);
    let validity = vec![
        Line::new("p_beta", along_beta(&|beta, _| validity_of(base, beta))),
        Line::new(&name, along_beta(&|_, row| row.measures.validity)),
    ];
    let at = |row: &Row| (row.measures.validity, row.measures.effective_valid);
    let mut reverse: Vec<(f64, f64)> = collapse.along_beta().map(|(_, row)| at(row)).collect();
    reverse.sort_by(|a, b| a.0.total_cmp(&b.0));
    let aimed = collapse.along_alpha().map(|(_, row)| at(row)).collect();
    let frontier = vec![
        Line::new(&name, reverse),
        Line::new(format!("{}, divergences to p*", collapse.class), aimed),
    ];
    let pstar = world.filtered(0);
    let mut series = vec![("p*".to_owned(), pstar.as_slice())];
    let selected = collapse
        .rows
        .iter()
        .filter(|row| row.alpha == Some(0.0) || row.beta.is_some_and(|beta| DRAWN.contains(&beta)));
    series.extend(selected.map(|row| (row.objective.clone(), row.distribution.as_slice())));
    vec![
        Chart::new("Validity against beta", ("beta", "validity"), validity)
            .log()
            .from_to(0.0, 1.0)
            .caption("The chance of a correct output of the same optima."),
        Chart::new("Frontier", ("validity", "effective correct outputs"), frontier).caption(
            "Correctness against coverage: reverse KL along beta, divergences to p* along alpha. Points are optima; the \
             lines only join them.",
        ),
        mass_bars("Where the mass goes", world, series).caption(
            "The probability of the likeliest correct outputs, p* beside optima of the class.",
        ),
    ]
}

/// Bars of the probabilities that some policies give to the correct outputs of the first prompt that are likeliest
/// under p*.
fn mass_bars(title: &str, world: &World, policies: Vec<(String, &[f64])>) -> Chart {
    let target = world.filtered(0);
    let mut order: Vec<usize> = (0..target.len()).filter(|y| world.is_right[0][*y]).collect();
    order.sort_by(|a, b| target[*b].total_cmp(&target[*a]));
    order.truncate(OUTPUTS);
    let to_series = |(name, q): (String, &[f64])| (name, order.iter().map(|y| q[*y]).collect());
    let series = policies.into_iter().map(to_series).collect();
    Chart::bars(title, ("correct outputs, by p*", "probability"), series)
}
