//! Results as tables for the terminal.

mod study;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, LineStyle, Table, TableStyle, Width};
use tealight_eval::answer_rules;
use tealight_eval::exact::Exact;
use tealight_eval::interval::{ByK, DISTINCT_NEEDS};
use tealight_eval::number::{counted, fixed, with_noun, with_verb};
use tealight_eval::results::SetResult;
use tealight_eval::{Estimate, Level, Summary};

use tealight_system::telemetry;

pub(super) use study::{plan, study};

/// One set of an evaluation under its name.
pub(super) fn set(set: &SetResult) -> String {
    let domain = set.domain.as_deref().map(|domain| format!(", {domain} of domain"));
    let temperature = set.temperature.map(|t| format!(", temperature {t}")).unwrap_or_default();
    format!("{}{temperature}{}\n{}", set.name, domain.unwrap_or_default(), summary(&set.summary))
}

/// A row for each k, and the other measures in lines.
fn summary(summary: &Summary) -> String {
    let is_few = summary.problems < DISTINCT_NEEDS;
    let ends = if is_few { "range (few problems)" } else { "95 % interval" };
    let mut table = right_aligned(&["k", "pass@k", "95 % interval", "distinct correct", ends]);
    for (k, pass) in &summary.pass_at_k {
        let unique = &summary.unique_correct[k];
        table.add_row([
            k.to_string(),
            fixed(pass.value, 4),
            interval(pass, 4),
            fixed(unique.value, 2),
            interval(unique, 2),
        ]);
    }
    let largest = summary.pass_at_k.keys().next_back().copied().unwrap_or(summary.n);
    let more: String = lines(summary).iter().map(|line| format!("{line}\n")).collect();
    let completions = |count| with_verb(count, "completion", "are");
    let unjudged = unless_zero(summary.unjudged, |count| {
        format!("\n{} left out, which could not be judged", completions(count))
    });
    let cut = unless_zero(summary.truncated_correct, |count| {
        format!(" ({count} of them with a correct answer)")
    });
    let unknown =
        unless_zero(summary.unknown_ends, |count| format!(" (no finish reason: {count})"));
    let failed = unless_zero(summary.failed, |count| {
        let why = "without an answer (refused, filtered, failed, no text)";
        format!("\n{} counted as incorrect, {why}", completions(count))
    });
    format!(
        "{table}{}{failed}{unjudged}\n{more}{}, {} each; {}, {:.1} % without a readable answer, {}",
        by_level(summary, largest),
        counted(summary.problems, "problem"),
        with_noun(&summary.samples_each(), "sample"),
        summary.truncated.map_or("number of truncated completions unknown".into(), |s| format!(
            "{:.1} % truncated{cut}{unknown}",
            s * 100.0
        )),
        summary.no_answer * 100.0,
        summary
            .mean_length
            .map_or("lengths unknown".into(), |n| format!("{n:.1} tokens on average")),
    )
}

/// A line with the distinct correct answers among k by each definition of one answer, equal numbers once; nothing where
/// all are equal, as the table has them.
fn by_level(summary: &Summary, k: usize) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for level in Level::ALL {
        let by_k = summary.unique_by_level.get(level.name());
        let Some(value) = by_k.and_then(|by_k| by_k.get(&k)) else { continue };
        let shown = fixed(value.value, 2);
        match groups.last_mut().filter(|(known, _)| *known == shown) {
            Some((_, names)) => names.push(level.description()),
            None => groups.push((shown, vec![level.description()])),
        }
    }
    if groups.len() < 2 {
        return String::new();
    }
    let groups = groups.iter().map(|(value, names)| format!("{value} {}", names.join(" or ")));
    format!("\ndistinct correct among {k}: {}", groups.collect::<Vec<_>>().join(", "))
}

/// What is said of a count, where it is not zero.
fn unless_zero(count: usize, said: impl FnOnce(usize) -> String) -> String {
    if count == 0 { String::new() } else { said(count) }
}

/// Measures besides Pass@k and distinct answers, a line each.
fn lines(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(reward) = &summary.mean_reward {
        lines.push(format!("mean reward {:.4} ({})", reward.value, interval(reward, 4)));
    }
    if let Some(greedy) = &summary.greedy {
        lines.push(format!("greedy pass@1 {:.4} ({})", greedy.value, interval(greedy, 4)));
    }
    if let Some((k, majority)) = summary.majority.iter().next_back() {
        // Without a sign of its own, which an estimate of zero may have.
        let value = majority.value.abs();
        lines.push(format!("maj@{k} {value:.4} ({})", interval(majority, 4)));
    }
    if let Some((k, coverage)) = summary.coverage.iter().next_back() {
        lines.push(format!("coverage@{k} {:.4} of all correct answers", coverage.value));
    }
    if let Some(richness) = &summary.richness {
        lines.push(format!(
            "effective number of distinct correct solutions of a solved problem: {:.2} by entropy (Hill number 1), {:.2} by how \
             often two agree (Hill number 2); at least {:.1} with those not sampled (Chao1), {:.1} % chance of a new \
             one; over {}",
            richness.hill_1.value,
            richness.hill_2.value,
            richness.chao_1.value,
            100.0 * richness.unseen.value,
            richness.basis(summary.problems),
        ));
    }
    lines.extend(summary.thinking.map(|thinking| thinking.to_string()));
    lines.extend(answer_rules::describe(summary));
    lines.extend(summary.exact.iter().flat_map(exact));
    lines
}

fn interval(e: &Estimate, digits: usize) -> String {
    format!("{} to {}", fixed(e.low, digits), fixed(e.high, digits))
}

/// Measures from the probabilities of listed answers.
fn exact(exact: &Exact) -> Vec<String> {
    let at = |k: &usize| {
        let value = |by_k: &ByK| by_k.get(k).map_or(f64::NAN, |estimate| estimate.value);
        format!(
            "exact, k = {k}: pass {:.4}, distinct correct {:.3}, coverage {:.4}",
            value(&exact.pass_at_k),
            value(&exact.unique_correct),
            value(&exact.coverage)
        )
    };
    let mut lines = vec![format!(
        "exact, from the probabilities of {} to {}: Hill number 1 {:.2}, Hill number 2 {:.2}",
        counted(exact.answers, "listed answer"),
        counted(exact.problems, "problem"),
        exact.hill_1.value,
        exact.hill_2.value
    )];
    lines.extend(exact.pass_at_k.keys().map(at));
    lines
}

/// Spaces that a table puts around a cell.
const PADDING: usize = 2;

/// Spaces between columns: those around a cell and the separator.
const GAP: usize = PADDING + 1;

/// Rows under their header, the first row. On a terminal columns that do not fit beside the others follow as a further
/// table, with the first column repeated, as R and pandas print wide frames; in a file a table is whole.
pub(super) fn plain(rows: &[Vec<String>]) -> String {
    within(rows, telemetry::width().unwrap_or(usize::MAX))
}

fn within(rows: &[Vec<String>], most: usize) -> String {
    let Some(header) = rows.first() else { return String::new() };
    let widths: Vec<usize> = (0..header.len()).map(|column| column_width(rows, column)).collect();
    let label = widths.first().map_or(0, |width| width + GAP);
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut used = most;
    for (column, width) in widths.iter().enumerate().skip(1) {
        if blocks.is_empty() || used + width + GAP > most {
            blocks.push(vec![0]);
            used = label;
        }
        used += width + GAP;
        blocks.last_mut().expect("a block was begun").push(column);
    }
    if blocks.is_empty() {
        blocks.push(vec![0]);
    }
    let blocks = blocks.iter().map(|columns| block(rows, columns, &widths));
    blocks.collect::<Vec<_>>().join("\n\n")
}

/// Width of a column whose header breaks between words where the cells below are narrower; labels do not break.
fn column_width(rows: &[Vec<String>], column: usize) -> usize {
    let cell = |row: &Vec<String>| row.get(column).map_or(0, |text| text.chars().count());
    if column == 0 {
        return rows.iter().map(cell).max().unwrap_or(0);
    }
    let words = rows[0][column].split(' ').map(|word| word.chars().count()).max();
    rows[1..].iter().map(cell).max().max(words).unwrap_or(0)
}

/// Some columns of a table.
fn block(rows: &[Vec<String>], columns: &[usize], widths: &[usize]) -> String {
    let to_cells = |row: &Vec<String>| -> Vec<String> {
        columns.iter().map(|&column| row.get(column).cloned().unwrap_or_default()).collect()
    };
    let mut table = right_aligned(&to_cells(&rows[0]));
    rows[1..].iter().for_each(|row| {
        table.add_row(to_cells(row));
    });
    for (column, &index) in table.column_iter_mut().zip(columns) {
        let width = u16::try_from(widths[index] + PADDING).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
    table.to_string()
}

/// A line below the header and nothing else.
const STYLE: TableStyle = NOTHING.header_separator(LineStyle::none().fill('─').junction('─'));

/// A table whose first column is text and whose others are numbers.
fn right_aligned(header: &[impl ToString]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(header.iter().map(ToString::to_string));
    for (index, column) in table.column_iter_mut().enumerate() {
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use tealight_core::Prompt;
    use tealight_datasets::{Problem, verify};
    use tealight_eval::{Completion, Sample, Tally};

    use super::*;

    /// The summary of completions of one problem, with all of them for k.
    fn summary_of(texts: &[&str]) -> Summary {
        let problem = Problem::new("p", Prompt::question("?"), "7");
        let verifier = verify::open("math").expect("a verifier");
        let mut tally = Tally::new(&problem);
        for (number, text) in texts.iter().enumerate() {
            let answer =
                Completion { text: (*text).to_owned(), is_finished: true, ..Completion::default() };
            tally.add(&Sample::judged(&problem, &*verifier, number, answer));
        }
        Summary::new(&[tally], &[texts.len()]).expect("a summary")
    }

    #[test]
    fn equal_distinct_counts_are_printed_once() {
        let text = summary(&summary_of(&["7", "7"]));
        assert!(!text.contains("distinct correct among"), "{text}");
        let text = summary(&summary_of(&["it is  7", "it is 7", "it is 7", "it is 7"]));
        assert!(text.contains("among 4: 2.00 exact texts, 1.00 texts ignoring"), "{text}");
        assert_eq!(text.matches("1.00 texts").count(), 1, "{text}");
        let rest = "1.00 texts ignoring white space or solutions or final answers";
        assert!(text.contains(rest), "{text}");
        assert!(text.contains("(Chao1)") && text.contains("(Hill number 1)"), "{text}");
    }

    #[test]
    fn wide_tables_continue_below_with_their_first_column() {
        let header = std::iter::once("objective".to_string())
            .chain((0..9).map(|column| format!("a header of several words {column}")));
        let row = std::iter::once("grpo@learning-rate=2.5e-5".to_string())
            .chain((0..9).map(|column| format!(".846 (.734 to .{column}31)")));
        let rows = [header.collect(), row.collect()];
        // What is no terminal has the table whole.
        assert_eq!(plain(&rows).matches("grpo@learning-rate=2.5e-5").count(), 1);
        let text = within(&rows, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.matches("grpo@learning-rate=2.5e-5").count() > 1, "{text}");
        for column in 0..9 {
            let cell = format!(".846 (.734 to .{column}31)");
            assert_eq!(text.matches(&cell).count(), 1, "{text}");
        }
        let narrow = [vec!["a".into(), "b".into()], vec!["1".into(), "2".into()]];
        assert_eq!(plain(&narrow).lines().count(), 3);
        assert_eq!(plain(&[]), "");
    }
}
