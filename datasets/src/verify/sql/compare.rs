//! When two results are the same: by our own strict rule, or as Spider's and BIRD's evaluations decide.

use std::collections::BTreeSet;

use super::columns;
use super::database::{Cell, QueryError, Rows};
use super::query::orders;

/// The rule by which a query's result is compared with the gold query's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compare {
    /// Columns by position, rows as often as they come, in order where the gold query orders the whole result.
    #[default]
    Strict,
    /// As BIRD's evaluation: the sets of rows, whatever their order and however often they come.
    Bird,
    /// As Spider's test-suite script: columns in any order, rows as often as they come, in order where the gold query
    /// says `order by` anywhere; two empty results are the same whatever their columns.
    Spider,
}

impl Compare {
    /// The rule's name as a verifier.
    pub fn name(self) -> &'static str {
        match self {
            Compare::Strict => "sql",
            Compare::Bird => "sql-bird",
            Compare::Spider => "sql-spider",
        }
    }

    /// How `answer` differs from the result of the query `gold`, if it does.
    pub(super) fn differs(
        self,
        gold: &str,
        wanted: &Rows,
        answer: &Rows,
    ) -> Result<Option<String>, QueryError> {
        Ok(match self {
            Compare::Strict => strict(orders(gold), wanted, answer),
            Compare::Bird => {
                let set = |rows| sorted(rows).into_iter().collect::<BTreeSet<_>>();
                (set(wanted) != set(answer)).then(|| "another set of rows".into())
            }
            Compare::Spider => spider(gold, wanted, answer)?,
        })
    }
}

fn counts(wanted: &Rows, answer: &Rows) -> Option<String> {
    if wanted.columns != answer.columns {
        return Some(format!("{} columns, not {}", answer.columns, wanted.columns));
    }
    let (all, there) = (wanted.rows.len(), answer.rows.len());
    (all != there).then(|| format!("{there} rows, not {all}"))
}

fn sorted(rows: &Rows) -> Vec<&[Cell]> {
    let mut rows: Vec<&[Cell]> = rows.rows.iter().map(Vec::as_slice).collect();
    rows.sort_unstable();
    rows
}

fn strict(is_ordered: bool, wanted: &Rows, answer: &Rows) -> Option<String> {
    if let Some(why) = counts(wanted, answer) {
        return Some(why);
    }
    if is_ordered {
        if wanted.rows == answer.rows {
            return None;
        }
        let is_permuted = sorted(wanted) == sorted(answer);
        return Some(if is_permuted { "rows in another order" } else { "other rows" }.into());
    }
    (sorted(wanted) != sorted(answer)).then(|| "other rows".into())
}

fn spider(gold: &str, wanted: &Rows, answer: &Rows) -> Result<Option<String>, QueryError> {
    if wanted.rows.is_empty() && answer.rows.is_empty() {
        return Ok(None);
    }
    if let Some(why) = counts(wanted, answer) {
        return Ok(Some(why));
    }
    let is_ordered = gold.to_lowercase().contains("order by");
    let is_same = columns::match_in_any_order(wanted, answer, is_ordered)?;
    Ok((!is_same).then(|| "other rows, in any order of columns".into()))
}
