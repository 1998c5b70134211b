//! The figures of `tealight lab --output`: what beta does, where the mass goes, the frontier. Our own
//! guess at what the papers plot.

use tealight_eval::report::view::{Chart, Line, Section, Table};

use crate::lab::World;
use crate::lab::sweep::{Optimum, Point};
use crate::learn::objective::target::validity_of;

/// Right outputs that the mass bars show at most.
const OUTPUTS: usize = 16;

/// The table and every figure that the points allow.
pub(crate) fn sections(
    world: &World,
    points: &[Point],
    rows: &[Optimum],
    table: Vec<Vec<String>>,
) -> Vec<Section> {
    let mut figures = Vec::new();
    let along_beta: Vec<(f64, &Optimum)> = points
        .iter()
        .zip(rows)
        .filter_map(|(point, row)| match point {
            // A logarithmic axis has no 0.
            Point::Beta(beta) if *beta > 0.0 => Some((*beta, row)),
            _ => None,
        })
        .collect();
    if along_beta.len() > 1 {
        figures.push(
            beta_chart(world, &along_beta, "validity", |row| row.measures.validity).caption(
                "Chance of a correct output against beta (log axis), and the closed form, which a class that can represent \
                 p_beta reaches.",
            ),
        );
        figures.push(
            beta_chart(world, &along_beta, "effective correct outputs", |row| {
                row.measures.effective_valid
            })
            .caption(
                "Effective number of correct outputs, exp H(q1), and that of p* and of every p_beta.",
            ),
        );
    }
    figures.push(
        mass_chart(world, points, rows)
            .caption("Mass of the likeliest correct outputs, p* beside the optima."),
    );
    figures.push(frontier(points, rows).caption(
        "Validity against KL(q1 || p*): the coverage that each objective gives up for correctness.",
    ));
    let text = "The base and p* first; then the optimum of each objective, found by following its exact gradient.";
    vec![Section::new("Optima").text(text).table(Table::new(table)).charts(figures)]
}

fn beta_chart(
    world: &World,
    rows: &[(f64, &Optimum)],
    y: &str,
    value: fn(&Optimum) -> f64,
) -> Chart {
    let mut points: Vec<(f64, f64)> = rows.iter().map(|(beta, row)| (*beta, value(row))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let prompts = world.is_right.len() as f64;
    let closed = |beta: f64| {
        let value_at = |prompt: usize| match y {
            "validity" => validity_of(world.solve_rate(prompt), beta),
            _ => {
                let entropy: f64 =
                    world.filtered(prompt).iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
                entropy.exp()
            }
        };
        (0..world.is_right.len()).map(value_at).sum::<f64>() / prompts
    };
    let reference = points.iter().map(|(beta, _)| (*beta, closed(*beta))).collect();
    let lines = vec![Line::new("closed form", reference), Line::new("optimum", points)];
    Chart::new(y, ("beta", y), lines).log()
}

fn mass_chart(world: &World, points: &[Point], rows: &[Optimum]) -> Chart {
    let target = world.filtered(0);
    let mut series = vec![("p*".to_owned(), target.as_slice())];
    // A few of many: the chart must stay readable.
    let step = points.len().div_ceil(5).max(1);
    for (point, row) in points.iter().zip(rows).step_by(step) {
        series.push((point.label(), row.distributions[0].as_slice()));
    }
    mass_bars("Where the mass goes", world, series)
}

/// Bars of the probabilities that some policies give to the correct outputs of the first prompt that are likeliest
/// under p*.
pub(super) fn mass_bars(title: &str, world: &World, policies: Vec<(String, &[f64])>) -> Chart {
    let target = world.filtered(0);
    let mut order: Vec<usize> = (0..target.len()).filter(|y| world.is_right[0][*y]).collect();
    order.sort_by(|a, b| target[*b].total_cmp(&target[*a]));
    order.truncate(OUTPUTS);
    let to_series = |(name, q): (String, &[f64])| (name, order.iter().map(|y| q[*y]).collect());
    let series = policies.into_iter().map(to_series).collect();
    Chart::bars(title, ("correct outputs, by p*", "probability"), series)
}

fn frontier(points: &[Point], rows: &[Optimum]) -> Chart {
    let points_where = |wanted: &dyn Fn(&Point) -> bool| -> Vec<(f64, f64)> {
        let mut at: Vec<(f64, f64)> = points
            .iter()
            .zip(rows)
            .filter(|(point, _)| wanted(point))
            .map(|(_, row)| (row.measures.validity, row.measures.kl_q1_pstar))
            .collect();
        at.sort_by(|a, b| a.0.total_cmp(&b.0));
        at
    };
    let families = [
        ("reverse KL (beta)", points_where(&|point| matches!(point, Point::Beta(_)))),
        ("divergences to p*", points_where(&|point| matches!(point, Point::Filtered(_)))),
        ("divergences to p_beta", points_where(&|point| matches!(point, Point::Tilted(..)))),
    ];
    let line = |(name, points): (&str, Vec<(f64, f64)>)| Line {
        mark: points.last().copied(),
        ..Line::new(name, points)
    };
    let lines = families.into_iter().map(line).collect();
    Chart::new("Correctness against coverage", ("validity", "KL(q1 || p*), nats"), lines)
}
