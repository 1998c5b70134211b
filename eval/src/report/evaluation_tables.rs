//! The tables of an evaluation's page: numbers with their intervals, coverage, differences.

use super::contrast;
use super::view::{Cell, Table};
use crate::inference::{Tested, TestedFamily};
use crate::interval::{DISTINCT_NEEDS, EFFECTIVE_NEEDS};
use crate::number::fixed;
use crate::transition::Aligned;
use crate::{Estimate, Summary};

fn cell(estimate: Option<&Estimate>, digits: usize) -> Cell {
    match estimate {
        None => Cell::Plain(String::new()),
        Some(e) => Cell::Hinted(
            fixed(e.value, digits),
            format!("95 %: {} to {}", fixed(e.low, 4), fixed(e.high, 4)),
        ),
    }
}

/// A number of answers in effect.
fn effective(estimate: Option<&Estimate>, digits: usize, summary: &Summary) -> Cell {
    let problems = summary.richness.as_ref().map_or(0, |richness| richness.problems);
    ranged(estimate, digits, problems < EFFECTIVE_NEEDS)
}

/// A number whose ends are no 95 % interval where there are few problems.
fn ranged(estimate: Option<&Estimate>, digits: usize, is_few: bool) -> Cell {
    match cell(estimate, digits) {
        Cell::Hinted(text, hint) if is_few => {
            Cell::Hinted(text, hint.replace("95 %:", "few problems, range:"))
        }
        other => other,
    }
}

fn header(cells: impl IntoIterator<Item = String>) -> Vec<Cell> {
    cells.into_iter().map(Cell::Plain).collect()
}

pub(super) fn numbers(set: &Aligned<'_>, names: &[&str]) -> Table {
    let shown: Vec<usize> = spread(&set.ks);
    let last = set.ks.last().copied().unwrap_or(1);
    let richness = |s: &Summary, field: fn(&crate::summary::Richness) -> Estimate| {
        s.richness.as_ref().map(field)
    };
    let is_graded = set.summaries.iter().any(|s| s.mean_reward.is_some());
    let mut titles = vec!["model".to_owned()];
    titles.extend(is_graded.then(|| "mean reward".to_owned()));
    titles.push("greedy".to_owned());
    titles.extend(shown.iter().map(|k| format!("pass@{k}")));
    titles.extend(["maj@k".to_owned(), format!("pass^{last}"), format!("distinct@{last}")]);
    titles.extend(
        ["hill 1", "chao 1", "cover@.5", "nats/token", "truncated", "no answer"].map(str::to_owned),
    );
    let row = |(name, s): (&&str, &Summary)| {
        let mut row = vec![Cell::Plain((*name).to_owned())];
        // A model whose rewards are all 0 or 1 has Pass@1 for its mean.
        let reward = s.mean_reward.as_ref().or(s.pass_at_k.get(&1));
        row.extend(is_graded.then(|| cell(reward, 3)));
        row.push(cell(s.greedy.as_ref(), 3));
        row.extend(shown.iter().map(|k| cell(s.pass_at_k.get(k), 3)));
        row.extend([
            cell(s.majority.values().next_back(), 3),
            cell(s.pass_all_k.get(&last), 3),
            ranged(s.unique_correct.get(&last), 2, s.problems < DISTINCT_NEEDS),
            effective(richness(s, |r| r.hill_1).as_ref(), 2, s),
            effective(richness(s, |r| r.chao_1).as_ref(), 1, s),
            cell(s.cover.get("0.5"), 3),
        ]);
        row.extend(header([
            s.token_entropy.map_or(String::new(), |nats| format!("{nats:.3}")),
            s.truncated.map_or("unknown".into(), |share| format!("{:.1} %", 100.0 * share)),
            format!("{:.1} %", 100.0 * s.no_answer),
        ]));
        row
    };
    let rows = names.iter().zip(&set.summaries).map(row);
    Table { rows: std::iter::once(header(titles)).chain(rows).collect(), ..Table::default() }
}

/// At most five of the k, the first and the last among them.
fn spread(ks: &[usize]) -> Vec<usize> {
    let count = ks.len().min(5);
    let mut chosen: Vec<usize> =
        (0..count).map(|i| ks[i * (ks.len() - 1) / (count - 1).max(1)]).collect();
    chosen.dedup();
    chosen
}

pub(super) fn matrix(set: &Aligned<'_>, names: &[&str], tested: &TestedFamily) -> Table {
    let (most, legend) = (set.most(), tested.legend());
    let titles = std::iter::once(String::new()).chain(names.iter().map(ToString::to_string));
    let cell = |tested: &Option<Tested>| tested.as_ref().map(Tested::cell).unwrap_or_default();
    let row = |(name, row): (&&str, Vec<Option<Tested>>)| {
        std::iter::once((*name).to_owned()).chain(row.iter().map(cell)).collect()
    };
    let rows = names.iter().zip(contrast::matrix(set, tested)).map(row);
    Table::new(std::iter::once(titles.collect()).chain(rows).collect()).titled(
        "Differences between models",
        format!(
            "Row minus column: Pass@1 below the diagonal, Pass@{most} above. Paired over problems, for these models only: seed \
             variance is not included. {legend}."
        ),
    )
}
