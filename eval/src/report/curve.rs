//! Curves as tables, as Markdown, as a chart and as the first part of a study's page.

use super::tables;
use super::view::{Chart, Line, Section, Table};
use crate::Estimate;
use crate::curve::{BandPoint, Comparison, Curve, CurvePoint, Curves, Tried, Tuning};
use crate::number;

/// One row a comparison, under a header: the range of Pass@1, the mean difference, p-values.
pub fn comparison_rows(curves: &Curves) -> Vec<Vec<String>> {
    let header = ["difference", "pass@1", "mean difference", "p", "p (Holm)", "seeds"];
    let row = |one: &Comparison| {
        let p = |p: Option<f64>| p.map_or("-".to_owned(), number);
        let range = match (one.range, &one.missing) {
            (Some((low, high)), _) => format!("{} to {}", number(low), number(high)),
            (None, Some(name)) => format!("{name} does not rise above the base"),
            (None, None) => "-".to_owned(),
        };
        vec![
            format!("{} - {}", one.first, one.second),
            range,
            one.difference.map_or("-".to_owned(), |difference| signed(&difference)),
            p(one.p_value),
            format!("{}{}", p(one.p_holm), if one.is_significant { "*" } else { "" }),
            one.seeds.to_string(),
        ]
    };
    let rows = curves.comparisons.iter().map(row);
    std::iter::once(header.map(str::to_owned).to_vec()).chain(rows).collect()
}

/// The rows of [`comparison_rows`] that compare with the reference, under their header.
pub fn reference_rows(curves: &Curves) -> Vec<Vec<String>> {
    let with_reference =
        curves.comparisons.iter().filter(|one| one.second == curves.reference).count();
    comparison_rows(curves).into_iter().take(1 + with_reference).collect()
}

/// One row a checkpoint of every curve, under a header: the means over seeds that the curves pass through.
pub fn point_rows(curves: &Curves) -> Vec<Vec<String>> {
    let with_gap = has_gap(curves);
    let row = |names: [&str; 2], step: String, scores: [f64; 2], gap: String| {
        let mut cells = [names.map(str::to_owned).to_vec(), vec![step]].concat();
        cells.extend(scores.map(number));
        cells.extend(with_gap.then_some(gap));
        cells
    };
    let measure = curves.measure.to_string();
    let mut header = ["objective", "configuration", "step", "pass@1", &measure].to_vec();
    header.extend(with_gap.then_some("gap to p_beta"));
    let base = [curves.base.pass_at_1.value, curves.base.value.value];
    let start = row(["base", ""], "0".to_owned(), base, String::new());
    let of_point = |curve: &Curve, point: &CurvePoint| {
        let gap = point.gap.map_or(String::new(), number);
        let names = [&*curve.objective, &curve.configuration];
        row(names, format!("{:.0}", point.step), [point.pass_at_1, point.value], gap)
    };
    let each = |curve| move |point| (curve, point);
    let points = curves.curves.iter().flat_map(|curve| curve.points.iter().map(each(curve)));
    let points = points.map(|(curve, point)| of_point(curve, point));
    [header.iter().map(ToString::to_string).collect(), start].into_iter().chain(points).collect()
}

/// Whether a checkpoint has a gap to p_beta.
fn has_gap(curves: &Curves) -> bool {
    curves.curves.iter().flat_map(|curve| &curve.points).any(|point| point.gap.is_some())
}

/// The verdict and both tables, for `results.md`.
pub fn markdown(curves: &Curves) -> String {
    let mut text = format!("{}\n\n**{}**\n", title(curves), curves.verdict.text);
    let tables =
        [(notes(curves), comparison_rows(curves)), (points_note(curves), point_rows(curves))];
    for (note, table) in tables {
        text.push_str(&format!("\n{note}\n\n{}", tables::markdown(&table)));
    }
    text
}

/// Every curve in the order of training, and the base's point.
pub(super) fn chart(curves: &Curves) -> Chart {
    let base = (curves.base.pass_at_1.value, curves.base.value.value);
    let line = |one: &Curve| {
        let checkpoints = one.points.iter().map(|point| (point.pass_at_1, point.value));
        let points = std::iter::once(base).chain(checkpoints).collect();
        let at = |point: &BandPoint| (point.pass_at_1, point.value.low, point.value.high);
        Line { band: one.band.iter().map(at).collect(), ..Line::new(one.objective.clone(), points) }
    };
    let start = Line { mark: Some(base), ..Line::new("base", vec![base]) };
    let lines = std::iter::once(start).chain(curves.curves.iter().map(line)).collect();
    let measure = curves.measure.to_string();
    Chart::new(&title(curves), ("pass@1", &measure), lines).caption(format!(
        "Each objective along training, from the base: {measure} against pass@1, mean over seeds; higher is more diverse. \
         Bands: {:.0} % interval of each point of a curve for itself.",
        curves.confidence * 100.0
    ))
}

/// Tables; of curves that do not stand at the top of the page verdict and chart too, folded.
pub(super) fn section(curves: &Curves, is_on_top: bool) -> Section {
    let mut section = Section::new(title(curves));
    if !is_on_top {
        section.is_folded = true;
        section = section.text(curves.verdict.text.clone()).charts(vec![chart(curves)]);
    }
    let points = Table::new(point_rows(curves)).titled("Checkpoints", points_note(curves)).folded();
    section
        .table(Table::new(comparison_rows(curves)).titled("Differences", notes(curves)))
        .table(points)
}

/// The note on the table of checkpoints.
fn points_note(curves: &Curves) -> String {
    let gap = match has_gap(curves) {
        true => {
            " gap to p_beta: how much larger J = E[v] - beta KL(pi || base) could be on these problems, of objectives that \
             maximise J. It is at least this large, because all incorrect outputs count as one. `tealight gap` divides the \
             gap of a run on its training problems between the model class and the optimisation."
        }
        false => "",
    };
    format!(
        "The points that the curves pass through: mean over seeds at each checkpoint. The step of a baseline is its place in \
         the row.{gap}"
    )
}

/// One row a configuration that was tried, under a header.
pub fn tuning_rows(tuning: &Tuning) -> Vec<Vec<String>> {
    let measure = tuning.measure.to_string();
    let header =
        ["objective", "configuration", "learning rate", "step", "pass@1", &measure, "chosen"];
    let row = |one: &Tried| {
        vec![
            one.objective.clone(),
            one.configuration.clone(),
            format!("{:e}", one.learning_rate),
            one.step.to_string(),
            number(one.pass_at_1),
            number(one.value),
            if one.is_chosen { "yes" } else { "" }.to_owned(),
        ]
    };
    let header = header.map(str::to_owned).to_vec();
    std::iter::once(header).chain(tuning.tried.iter().map(row)).collect()
}

/// The rule of [`tuning_rows`], with its numbers.
pub fn tuning_note(tuning: &Tuning) -> String {
    let seeds: Vec<String> = tuning.seeds.iter().map(ToString::to_string).collect();
    format!(
        "Tuning: configurations of each objective on {} of {}, seeds {}. The last checkpoint whose mean pass@1 is at least \
         {} counts; the configuration with the largest {} there is chosen, or where none reaches it the one with the largest \
         pass@1; ties go to the smaller learning rate.",
        number::counted(tuning.problems, "problem"),
        tuning.dataset,
        seeds.join(", "),
        tuning.least_pass_at_1,
        tuning.measure
    )
}

/// What is compared, as a title.
pub fn title(curves: &Curves) -> String {
    format!("Curves: {} at equal pass@1", curves.measure)
}

/// How the table came to be, and what a reader must know of it.
pub fn notes(curves: &Curves) -> String {
    let source = match curves.is_exact {
        true => "exact, from the probability of every correct answer",
        false => "estimated from samples",
    };
    let tests = match curves.is_tested {
        true => format!(
            "Trained objectives are tested against {}; p (Holm) is adjusted for these tests, and * marks p < .05. All other \
             differences are descriptive.",
            curves.reference
        ),
        false => "All differences are descriptive: none is tested.".to_owned(),
    };
    format!(
        "First curve minus second, mean over the range of pass@1 that both reach, from a quarter of the way above the base \
         on. Scores are {source}, on {} held-out problems; {:.0} % intervals over seeds and problems. {tests}{}",
        curves.problems,
        curves.confidence * 100.0,
        single(curves)
    )
}

/// Which objectives had one seed.
fn single(curves: &Curves) -> String {
    let all = curves.curves.iter().filter(|one| one.seeds == 1);
    let names: Vec<&str> = all.map(|one| one.objective.as_str()).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            " {} had one seed: its intervals are over problems alone and do not include seed variance.",
            names.join(", ")
        ),
    }
}

fn signed(interval: &Estimate) -> String {
    let Estimate { value, low, high } = *interval;
    let [value, low, high] = [value, low, high].map(|x| number::signed(x, 3));
    format!("{value} ({low} to {high})")
}

fn number(x: f64) -> String {
    number::fixed(x, 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::study_of_three;
    use crate::report::view::Block;

    #[test]
    fn the_chart_has_every_curve_from_the_base_in_the_order_of_training() {
        let curves = study_of_three();
        let chart = chart(&curves);
        assert_eq!(chart.lines[0].name, "base");
        let base = chart.lines[0].points[0];
        for (line, curve) in chart.lines[1..].iter().zip(&curves.curves) {
            assert_eq!((line.name.as_str(), line.points[0]), (curve.objective.as_str(), base));
            assert_eq!(line.points.len(), curve.points.len() + 1);
            assert!(line.band.len() > 5, "{}", line.name);
            assert!(line.band.windows(2).all(|at| at[0].0 < at[1].0), "{:?}", line.band);
        }
        let verdict = curves.verdict.text.clone();
        let (first, other) = (section(&curves, true), section(&curves, false));
        assert!(matches!(first.blocks[0], Block::Table(_)) && !first.is_folded);
        assert_eq!(other.blocks[0], Block::Text(verdict));
        assert!(matches!(other.blocks[1], Block::Charts(_)) && other.is_folded);
    }

    #[test]
    fn tables_mark_what_was_not_tested() {
        let mut curves = study_of_three();
        let rows = comparison_rows(&curves);
        assert_eq!((rows.len(), reference_rows(&curves).len()), (4, 3));
        assert!(rows[1][4].ends_with('*') && rows[3][3..5] == ["-", "-"], "{rows:?}");
        let text = markdown(&curves);
        assert!(
            text.contains(&curves.verdict.text) && text.contains("exact, from the probability")
        );
        assert_eq!(point_rows(&curves).len(), 2 + 3 * 4);
        // A gap has a column where some objective has one.
        assert_eq!((point_rows(&curves)[0].len(), text.contains("gap to p_beta")), (5, false));
        curves.curves[1].points[0].gap = Some(0.125);
        let rows = point_rows(&curves);
        assert_eq!((&*rows[0][5], &*rows[1][5], &*rows[2][5]), ("gap to p_beta", "", ""));
        assert_eq!(rows[2 + 4][5], "0.125");
        assert!(markdown(&curves).contains("tealight gap"));
        // What is not compared says why; single seeds are said.
        curves.comparisons[0].range = None;
        curves.comparisons[0].missing = Some("js".into());
        curves.curves[1].seeds = 1;
        let text = markdown(&curves);
        assert!(text.contains("js does not rise above the base"), "{text}");
        assert!(text.contains("js had one seed"), "{text}");
    }
}
