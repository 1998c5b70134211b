//! Fronts as tables, as Markdown, as a chart and as the first part of a study's page.

use anyhow::Result;
use maud::{Markup, html};

use crate::front::{FrontLevel, Fronts, Interval};

/// One row a level and one column an objective, under a header.
pub fn rows(fronts: &Fronts) -> Vec<Vec<String>> {
    let names = fronts.fronts.iter().map(|front| front.objective.clone());
    let header = std::iter::once("pass@1 of at least".to_owned()).chain(names).collect();
    let row = |(index, level): (usize, &f64)| {
        let cells = fronts.fronts.iter().map(|front| cell(&front.levels[index]));
        std::iter::once(number(*level, 3)).chain(cells).collect()
    };
    std::iter::once(header).chain(fronts.levels.iter().enumerate().map(row)).collect()
}

/// One row a pair of objectives, under a header: over which levels, mean difference, interval, p-values.
pub fn pair_rows(fronts: &Fronts) -> Vec<Vec<String>> {
    let header = ["pair", "levels", "mean difference", "p", "p (Holm)", "seeds"];
    let row = |pair: &crate::front::Pair| {
        let p = |p: Option<f64>| p.map_or("-".to_owned(), |p| number(p, 3));
        let levels = match (pair.levels.first(), pair.levels.last()) {
            (Some(first), Some(last)) => {
                format!("{} to {}", number(first.level, 3), number(last.level, 3))
            }
            _ => "none in common".to_owned(),
        };
        vec![
            format!("{} - {}", pair.first, pair.second),
            levels,
            pair.mean.map_or("-".to_owned(), |mean| signed(&mean)),
            p(pair.p_value),
            format!("{}{}", p(pair.p_holm), if pair.is_significant { "*" } else { "" }),
            pair.seeds.to_string(),
        ]
    };
    std::iter::once(header.map(str::to_owned).to_vec())
        .chain(fronts.pairs.iter().map(row))
        .collect()
}

/// The verdict and both tables, for `results.md`.
pub fn markdown(fronts: &Fronts) -> String {
    let _ = fronts;
    String::new()
}

/// The fronts with their bands, from the base's point.
///
/// # Errors
/// Ranges that cannot be drawn.
pub fn chart(fronts: &Fronts) -> Result<String> {
    let _ = fronts;
    anyhow::bail!("the chart of fronts is being written")
}

/// Verdict, chart and tables: the first part of a study's page.
///
/// # Errors
/// A chart that cannot be drawn.
pub fn markup(fronts: &Fronts) -> Result<Markup> {
    let _ = fronts;
    Ok(html! {})
}

fn cell(level: &FrontLevel) -> String {
    let Some(value) = &level.value else {
        return match level.reached {
            0 => "not reached".to_owned(),
            reached => format!("reached in {reached} of {}", level.of),
        };
    };
    format!("{} ({} to {})", number(value.value, 3), number(value.low, 3), number(value.high, 3))
}

fn signed(interval: &Interval) -> String {
    format!("{:+.3} ({:+.3} to {:+.3})", interval.value, interval.low, interval.high)
}

fn number(x: f64, digits: usize) -> String {
    format!("{x:.digits$}")
}
