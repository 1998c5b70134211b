//! Fronts as tables, as Markdown, as a chart and as the first part of a study's page.

use super::tables;
use super::view::{Chart, Line, Section, Table};
use crate::front::{Choice, Front, FrontLevel, Fronts, Interval, Pair, level_of};

/// One row a level and one column an objective, under a header.
pub fn rows(fronts: &Fronts) -> Vec<Vec<String>> {
    let names = fronts.fronts.iter().map(|front| front.objective.clone());
    let header = std::iter::once("pass@1 of at least".to_owned()).chain(names).collect();
    let row = |(index, level): (usize, &f64)| {
        let cells =
            fronts.fronts.iter().map(|front| front.levels.get(index).map_or("-".to_owned(), cell));
        std::iter::once(level_of(*level)).chain(cells).collect()
    };
    std::iter::once(header).chain(fronts.levels.iter().enumerate().map(row)).collect()
}

/// One row a pair of objectives, under a header: over which levels, mean difference, interval, p-values.
pub fn pair_rows(fronts: &Fronts) -> Vec<Vec<String>> {
    let header = ["pair", "levels", "mean difference", "p", "p (Holm)", "seeds"];
    let row = |pair: &Pair| {
        let p = |p: Option<f64>| p.map_or("-".to_owned(), number);
        let levels = match (pair.levels.first(), pair.levels.last()) {
            (Some(first), Some(last)) => {
                format!("{} to {}", level_of(first.level), level_of(last.level))
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

/// One row an objective and level, under a header: what each seed chose, and what it is on both splits.
pub fn choice_rows(fronts: &Fronts) -> Vec<Vec<String>> {
    let measure = fronts.measure;
    let header = [
        "pass@1 of at least".to_owned(),
        "objective".to_owned(),
        "seed".to_owned(),
        "configuration".to_owned(),
        "step".to_owned(),
        "pass@1, valid".to_owned(),
        "pass@1, test".to_owned(),
        format!("{measure}, valid"),
        format!("{measure}, test"),
    ];
    let row = |front: &Front, level: &FrontLevel, choice: &Choice| {
        vec![
            level_of(level.level),
            front.objective.clone(),
            choice.seed.map_or("-".to_owned(), |seed| seed.to_string()),
            choice.configuration.clone(),
            choice.step.to_string(),
            number(choice.valid_pass_at_1),
            number(choice.pass_at_1),
            number(choice.valid_value),
            number(choice.value),
        ]
    };
    let of_front = |front: &Front| -> Vec<Vec<String>> {
        let of_level = |level: &FrontLevel| -> Vec<Vec<String>> {
            level.chosen.iter().map(|choice| row(front, level, choice)).collect()
        };
        front.levels.iter().flat_map(of_level).collect()
    };
    std::iter::once(header.to_vec()).chain(fronts.fronts.iter().flat_map(of_front)).collect()
}

/// The verdict and both tables, for `results.md`.
pub fn markdown(fronts: &Fronts) -> String {
    let mut text = format!("{}\n", title(fronts));
    if let Some(verdict) = &fronts.verdict {
        text.push_str(&format!("\n**{}**\n", verdict.text));
    }
    for (note, table) in [(notes(fronts), rows(fronts)), (PAIRS.to_owned(), pair_rows(fronts))] {
        // A header alone is no table.
        if table.len() > 1 {
            text.push_str(&format!("\n{note}\n\n{}", tables::markdown(&table)));
        }
    }
    text
}

/// The fronts with their bands, and the base's point: the levels that every seed reaches.
pub(super) fn chart(fronts: &Fronts) -> Chart {
    let line = |front: &Front| {
        let reached = || front.levels.iter().filter_map(|at| Some((at.level, at.value?, at.band?)));
        let points = reached().map(|(x, value, _)| (x, value.value)).collect();
        let band = reached().map(|(x, _, (low, high))| (x, low, high)).collect();
        Line { band, ..Line::new(front.objective.clone(), points) }
    };
    let base = (fronts.base.pass_at_1.value, fronts.base.value.value);
    let base = Line { mark: Some(base), ..Line::new("base", vec![base]) };
    let lines = std::iter::once(base).chain(fronts.fronts.iter().map(line)).collect();
    let measure = fronts.measure.to_string();
    Chart::new(
        &format!("Front: {measure} at equal pass@1"),
        ("pass@1 of at least", &measure),
        lines,
    )
    .caption(format!(
        "Largest {measure} of each objective at each accuracy; higher is more diverse. A band contains the whole curve with \
         {:.0} % confidence; bands are drawn for the two highest models, or for the one under the pointer.",
        fronts.confidence * 100.0
    ))
}

/// Tables; of fronts that do not stand at the top of the page verdict and chart too, folded.
pub(super) fn section(fronts: &Fronts, is_on_top: bool) -> Section {
    let mut section = Section::new(title(fronts));
    if !is_on_top {
        section.is_folded = true;
        let verdict = fronts.verdict.as_ref();
        section = section.text(verdict.map(|verdict| verdict.text.clone()).unwrap_or_default());
        section = section.charts(vec![chart(fronts)]);
    }
    let choices = Table::new(choice_rows(fronts)).titled("Chosen checkpoints", CHOICES).folded();
    section
        .table(Table::new(rows(fronts)).titled("", notes(fronts)))
        .table(Table::new(pair_rows(fronts)).titled("Pairs of objectives", PAIRS).folded())
        .table(choices)
}

/// The note on the table of chosen checkpoints.
const CHOICES: &str = "The checkpoint that each seed chooses at each level, with its results on validation (valid) and \
test problems; step 0 is the base.";

/// The note on the table of pairs.
const PAIRS: &str = "First objective minus second, mean over the levels that both reach in every seed. p (Holm) is the \
p-value adjusted for all tested pairs; * marks p < .05, and - a pair that is not tested.";

fn title(fronts: &Fronts) -> String {
    format!(
        "Fronts: {} at equal pass@1, runs with equal numbers of {}",
        fronts.measure, fronts.matched
    )
}

/// How the table came to be, and what a reader must know of it.
fn notes(fronts: &Fronts) -> String {
    let mut text = format!(
        "Rows are levels of pass@1. At each level every seed chooses, of the checkpoints with at least that pass@1 on {} \
         validation problems, the one with the largest {} there; a cell is {} of the chosen checkpoints on {} test \
         problems, mean over seeds, with {:.0} % intervals over seeds and problems. Base: pass@1 {}, {} {}.",
        fronts.valid_problems,
        fronts.measure,
        fronts.measure,
        fronts.measured_problems,
        fronts.confidence * 100.0,
        number(fronts.base.pass_at_1.value),
        fronts.measure,
        number(fronts.base.value.value),
    );
    if fronts.measured_problems < fronts.test_problems {
        text.push_str(&format!(
            " The other {} test problems are left out: a checkpoint has too few correct samples of them.",
            fronts.test_problems - fronts.measured_problems
        ));
    }
    let effort = fronts.fronts.iter().map(|front| front.candidates);
    if effort.clone().min() != effort.max() {
        let each: Vec<String> = fronts
            .fronts
            .iter()
            .map(|front| format!("{} {}", front.objective, front.candidates))
            .collect();
        text.push_str(&format!(
            " Tuning effort differs. Number of checkpoints that a seed chooses from: {}.",
            each.join(", ")
        ));
    }
    let single: Vec<&str> = fronts
        .fronts
        .iter()
        .filter(|front| front.seeds == 1)
        .map(|front| front.objective.as_str())
        .collect();
    if !single.is_empty() {
        text.push_str(&format!(
            " {} had one seed: its intervals are over problems alone and do not include seed variance.",
            single.join(", ")
        ));
    }
    text
}

fn cell(level: &FrontLevel) -> String {
    let Some(value) = &level.value else {
        return match level.reached {
            0 => "not reached".to_owned(),
            reached => format!("reached in {reached} of {}", level.of),
        };
    };
    format!("{} ({} to {})", number(value.value), number(value.low), number(value.high))
}

fn signed(interval: &Interval) -> String {
    format!("{:+.3} ({:+.3} to {:+.3})", interval.value, interval.low, interval.high)
}

fn number(x: f64) -> String {
    format!("{x:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::study_of_three;
    use crate::report::view::Block;

    #[test]
    fn the_chart_has_every_objective_with_its_band_from_the_base() {
        let fronts = study_of_three();
        let chart = chart(&fronts);
        assert_eq!(chart.lines[0].name, "base");
        for front in &fronts.fronts {
            let is_reached = front.levels.iter().any(|at| at.value.is_some() && at.band.is_some());
            let line = chart.lines.iter().find(|line| line.name == front.objective);
            assert_eq!(line.is_some(), is_reached, "{}", front.objective);
            assert!(line.is_none_or(|line| line.band.len() == line.points.len()));
        }
        assert!(chart.lines.iter().filter(|line| !line.band.is_empty()).count() >= 2);
        let verdict = fronts.verdict.as_ref().unwrap().text.clone();
        let (first, other) = (section(&fronts, true), section(&fronts, false));
        assert!(matches!(first.blocks[0], Block::Table(_)) && !first.is_folded);
        assert_eq!(other.blocks[0], Block::Text(verdict));
        assert!(matches!(other.blocks[1], Block::Charts(_)) && other.is_folded);
    }

    #[test]
    fn tables_say_what_is_not_reached() {
        let mut fronts = study_of_three();
        let last = fronts.levels.len() - 1;
        let level = &mut fronts.fronts[0].levels[last];
        (level.value, level.band, level.pass_at_1, level.reached) = (None, None, None, 1);
        level.chosen.truncate(1);
        let text = markdown(&fronts);
        println!("{text}");
        assert!(text.contains("reached in 1 of 3"), "{text}");
        assert!(text.contains(&fronts.verdict.as_ref().unwrap().text));
        let columns = |line: &str| line.matches('|').count();
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with("| .")).collect();
        assert_eq!(table.len(), fronts.levels.len());
        assert!(table.iter().all(|line| columns(line) == fronts.fronts.len() + 2));
        // Unequal effort and single runs are said.
        fronts.fronts[1].candidates += 1;
        fronts.fronts[1].seeds = 1;
        let text = markdown(&fronts);
        assert!(text.contains("Tuning effort differs") && text.contains("had one seed"), "{text}");
    }
}
