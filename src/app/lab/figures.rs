//! The figures of `tealight lab --output`: what beta does, where the mass goes, the frontier. Our own
//! guess at what the papers plot.

use anyhow::Result;
use tealight_eval::report::chart::{Axes, Line, bars, draw};
use tealight_eval::report::sheet::Section;

use crate::lab::World;
use crate::lab::sweep::{Optimum, Point};
use crate::objective::target::validity_of;

/// Right outputs that the mass bars show at most.
const OUTPUTS: usize = 16;

/// The table and every figure that the points allow.
pub(crate) fn sections(
    world: &World,
    points: &[Point],
    rows: &[Optimum],
    table: Vec<Vec<String>>,
) -> Result<Vec<Section>> {
    let mut figures = Vec::new();
    let along_beta: Vec<(f64, &Optimum)> = points
        .iter()
        .zip(rows)
        .filter_map(|(point, row)| match point {
            // A logarithmic axis has no place for 0.
            Point::Beta(beta) if *beta > 0.0 => Some((*beta, row)),
            _ => None,
        })
        .collect();
    if along_beta.len() > 1 {
        figures.push((
            beta_chart(world, &along_beta, "validity", |row| row.measures.validity)?,
            "Chance of a right output against beta (log axis). Black: the closed form, which a class \
             that can represent p_beta reaches."
                .to_owned(),
        ));
        figures.push((
            beta_chart(world, &along_beta, "effective right outputs", |row| {
                row.measures.effective_valid
            })?,
            "Effective number of right outputs, exp H(q1). Black: that of p* and of every p_beta."
                .to_owned(),
        ));
    }
    figures.push((
        mass_chart(world, points, rows)?,
        "Mass of the likeliest right outputs, p* beside the optima.".to_owned(),
    ));
    figures.push((
        frontier(points, rows)?,
        "Validity against KL(q1 || p*): what each objective pays in coverage for being right."
            .to_owned(),
    ));
    Ok(vec![Section {
        heading: "Optima".into(),
        text: "The base and p* first; then the optimum of each objective, found by following its exact gradient.".into(),
        table,
        figures,
    }])
}

fn beta_chart(
    world: &World,
    rows: &[(f64, &Optimum)],
    y: &str,
    value: fn(&Optimum) -> f64,
) -> Result<String> {
    let mut points: Vec<(f64, f64)> = rows.iter().map(|(beta, row)| (*beta, value(row))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let prompts = world.is_right.len() as f64;
    let closed = |beta: f64| {
        let of = |prompt: usize| match y {
            "validity" => validity_of(world.solve_rate(prompt), beta),
            _ => {
                let entropy: f64 =
                    world.filtered(prompt).iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
                entropy.exp()
            }
        };
        (0..world.is_right.len()).map(of).sum::<f64>() / prompts
    };
    let reference = points.iter().map(|(beta, _)| (*beta, closed(*beta))).collect();
    let line = |name: &str, colour: usize, points: Vec<(f64, f64)>| Line {
        name: name.to_owned(),
        colour,
        is_bold: false,
        points,
        mark: None,
        band: vec![],
    };
    let axes = Axes { x: "beta", y, is_log: true, y_range: None };
    draw(&axes, &[line("closed form", 0, reference), line("optimum", 1, points)])
}

fn mass_chart(world: &World, points: &[Point], rows: &[Optimum]) -> Result<String> {
    let target = world.filtered(0);
    let mut order: Vec<usize> = (0..target.len()).filter(|y| world.is_right[0][*y]).collect();
    order.sort_by(|a, b| target[*b].total_cmp(&target[*a]));
    order.truncate(OUTPUTS);
    let of = |q: &[f64]| order.iter().map(|y| q[*y]).collect::<Vec<f64>>();
    let mut series = vec![("p*".to_owned(), of(&target))];
    // A few of many: the chart must stay readable.
    let step = points.len().div_ceil(5).max(1);
    for (point, row) in points.iter().zip(rows).step_by(step) {
        series.push((point.label(), of(&row.distributions[0])));
    }
    bars("right outputs, by p*", "probability", &series)
}

fn frontier(points: &[Point], rows: &[Optimum]) -> Result<String> {
    let of = |wanted: &dyn Fn(&Point) -> bool| -> Vec<(f64, f64)> {
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
        ("reverse KL (beta)", of(&|point| matches!(point, Point::Beta(_)))),
        ("divergences to p*", of(&|point| matches!(point, Point::Filtered(_)))),
        ("divergences to p_beta", of(&|point| matches!(point, Point::Tilted(..)))),
    ];
    let lines: Vec<Line> = families
        .into_iter()
        .enumerate()
        .filter(|(_, (_, points))| !points.is_empty())
        .map(|(index, (name, points))| Line {
            name: name.to_owned(),
            colour: index + 1,
            is_bold: false,
            mark: points.last().copied(),
            band: vec![],
            points,
        })
        .collect();
    draw(&Axes { x: "validity", y: "KL(q1 || p*), nats", is_log: false, y_range: None }, &lines)
}
