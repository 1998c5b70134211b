//! The picture of fronts: the base's point, a curve with its band for each objective, the legend beside them.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::chart::{PALETTE, label_font};
use crate::front::{Front, Fronts};

/// Width and height, the legend included.
const SIZE: (u32, u32) = (820, 400);
/// Width of the legend.
const LEGEND: u32 = 230;
/// Letters that fit into it.
const LETTERS: usize = 28;

/// What is drawn of a front: the levels that every seed reaches, with value and band.
struct Curve {
    name: String,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
    band: Vec<(f64, f64, f64)>,
}

/// Draws the fronts.
///
/// # Errors
/// Ranges that cannot be drawn.
pub(super) fn draw(fronts: &Fronts) -> Result<String> {
    let mut svg = String::new();
    plot(&mut svg, fronts).map_err(|error| anyhow!("fronts cannot be drawn: {error}"))?;
    // It scales with the page; its size in pixels is only its shape.
    let fixed = format!("width=\"{}\" height=\"{}\" ", SIZE.0, SIZE.1);
    Ok(svg.replacen(&fixed, "", 1))
}

fn curve((index, front): (usize, &Front)) -> Curve {
    let reached = || front.levels.iter().filter_map(|at| Some((at.level, at.value?, at.band?)));
    let points: Vec<(f64, f64)> = reached().map(|(x, value, _)| (x, value.value)).collect();
    let name = match points.is_empty() {
        true => format!("{} (not reached)", front.objective),
        false => front.objective.clone(),
    };
    Curve {
        name,
        // Black is the base's.
        colour: PALETTE[1 + index % (PALETTE.len() - 1)],
        band: reached().map(|(x, _, (low, high))| (x, low, high)).collect(),
        points,
    }
}

fn plot(svg: &mut String, fronts: &Fronts) -> Result<(), Box<dyn std::error::Error>> {
    let curves: Vec<Curve> = fronts.fronts.iter().enumerate().map(curve).collect();
    let base = (fronts.base.pass_at_1.value, fronts.base.value.value);
    let ((left, right), (low, high)) = ranges(&curves, base, fronts.measure.most());
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let y = fronts.measure.to_string();
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .margin_right(LEGEND)
        .x_label_area_size(42)
        .y_label_area_size(56)
        .build_cartesian_2d(left..right, low..high)?;
    let decimals = |span: f64| if span < 0.1 { 3 } else { 2 };
    chart
        .configure_mesh()
        .x_desc("pass@1 of at least")
        .y_desc(y.as_str())
        .x_labels(8)
        .y_labels(8)
        .x_label_formatter(&|x| format!("{x:.*}", decimals(right - left)))
        .y_label_formatter(&|y| format!("{y:.*}", decimals(high - low)))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.08))
        .axis_style(BLACK.mix(0.4))
        .label_style(label_font())
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    for curve in curves.iter().filter(|curve| curve.band.len() > 1) {
        let above = curve.band.iter().map(|(x, _, high)| (*x, *high));
        let below = curve.band.iter().rev().map(|(x, low, _)| (*x, *low));
        let outline: Vec<(f64, f64)> = above.chain(below).collect();
        chart.draw_series([Polygon::new(outline, curve.colour.mix(0.07))])?;
        let edge = |of: fn(&(f64, f64, f64)) -> (f64, f64)| {
            LineSeries::new(curve.band.iter().map(of), curve.colour.mix(0.45).stroke_width(1))
        };
        chart.draw_series(edge(|at| (at.0, at.1)))?;
        chart.draw_series(edge(|at| (at.0, at.2)))?;
    }
    for curve in &curves {
        let points = curve.points.iter().copied();
        chart.draw_series(LineSeries::new(points.clone(), curve.colour.stroke_width(2)))?;
        chart.draw_series(points.map(|at| Circle::new(at, 3, curve.colour.filled())))?;
    }
    chart.draw_series([Circle::new(base, 6, PALETTE[0].filled())])?;
    let entries = std::iter::once(("base", PALETTE[0], true))
        .chain(curves.iter().map(|curve| (curve.name.as_str(), curve.colour, false)));
    for (row, (name, colour, is_point)) in entries.enumerate() {
        let (x, y) = ((SIZE.0 - LEGEND + 14) as i32, 24 + 20 * row as i32);
        if is_point {
            root.draw(&Circle::new((x + 9, y), 6, colour.filled()))?;
        } else {
            root.draw(&PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)))?;
        }
        root.draw(&Text::new(shortened(name), (x + 26, y - 7), label_font()))?;
    }
    root.present()?;
    Ok(())
}

/// What the axes show: the base, every curve, and the bands as far as twice the curves' own range.
fn ranges(curves: &[Curve], base: (f64, f64), most: f64) -> ((f64, f64), (f64, f64)) {
    let points = || curves.iter().flat_map(|curve| &curve.points).chain([&base]);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let low = points().map(of).fold(f64::INFINITY, f64::min);
        (low, points().map(of).fold(f64::NEG_INFINITY, f64::max))
    };
    let (left, right) = range(|point| point.0);
    let (low, high) = range(|point| point.1);
    let room = (high - low).max(0.02 * most);
    let bands = || curves.iter().flat_map(|curve| &curve.band);
    let lowest = bands().map(|band| band.1).fold(low, f64::min).max(low - room);
    let highest = bands().map(|band| band.2).fold(high, f64::max).min(high + room);
    let margin = ((right - left) * 0.04).max(0.005);
    let rise = (highest - lowest).max(0.01) * 0.04;
    ((left - margin, right + margin), (lowest - rise, highest + rise))
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    name.chars().take(LETTERS - 1).chain(['\u{2026}']).collect()
}
