//! Whether two results are the same in some order of the columns of one: a search, of bounded work.
//!
//! Rows are compared from the first column on. Rows that agree in the columns so far have one number, so that a further
//! column is a pass over the rows, whatever they hold. Columns of equal values are tried once.

use std::cell::Cell as Counter;
use std::collections::{HashMap, HashSet};

use super::database::{Cell, QueryError, Rows};

/// Most values that are looked at: some seconds at the very most. Results without a choice of columns need each value
/// twice.
const MAX_WORK: usize = 1 << 25;

/// Whether some order of the columns of `answer`, which has as many rows and columns as `wanted`, gives its rows.
pub(super) fn match_in_any_order(
    wanted: &Rows,
    answer: &Rows,
    is_ordered: bool,
) -> Result<bool, QueryError> {
    let mut numbers = HashMap::new();
    let [wanted, answer] = [wanted, answer].map(|rows| columns(rows, &mut numbers));
    let search = Search { wanted, answer, is_ordered, work: Counter::new(0) };
    let rows = search.wanted.first().map_or(0, Vec::len);
    search.assign(&mut Vec::new(), [&vec![0; rows], &vec![0; rows]])
}

/// The columns of a result, with a number for each value.
fn columns<'a>(rows: &'a Rows, numbers: &mut HashMap<&'a Cell, u32>) -> Vec<Vec<u32>> {
    let mut number = |cell: &'a Cell| {
        let next = numbers.len() as u32;
        *numbers.entry(cell).or_insert(next)
    };
    let column = |index: usize| rows.rows.iter().map(|row| number(&row[index])).collect();
    (0..rows.columns).map(column).collect()
}

struct Search {
    wanted: Vec<Vec<u32>>,
    answer: Vec<Vec<u32>>,
    is_ordered: bool,
    /// Values that were looked at.
    work: Counter<usize>,
}

impl Search {
    /// Extends an assignment of columns of the answer to the first wanted ones, which fits so far; `rows` has the
    /// numbers of the rows of both by these columns.
    fn assign(&self, chosen: &mut Vec<usize>, rows: [&Vec<u32>; 2]) -> Result<bool, QueryError> {
        let Some(column) = self.wanted.get(chosen.len()) else { return Ok(true) };
        self.work.update(|work| work + column.len());
        let mut numbers = HashMap::new();
        let wanted: Vec<u32> = rows[0]
            .iter()
            .zip(column)
            .map(|pair| {
                let next = numbers.len() as u32;
                *numbers.entry(pair).or_insert(next)
            })
            .collect();
        let mut counts = vec![0usize; numbers.len()];
        wanted.iter().for_each(|row| counts[*row as usize] += 1);
        let mut tried: HashSet<Vec<u32>> = HashSet::new();
        for index in 0..self.answer.len() {
            if chosen.contains(&index) || tried.contains(&self.answer[index]) {
                continue;
            }
            let other = &self.answer[index];
            self.work.update(|work| work + other.len());
            if self.work.get() > MAX_WORK {
                let why = format!("matching its columns takes more than {MAX_WORK} comparisons");
                return Err(QueryError::TooCostly(why));
            }
            // None where a row is none of the wanted ones.
            let found = rows[1].iter().zip(other).map(|pair| numbers.get(&pair).copied());
            let found: Option<Vec<u32>> = found.collect();
            let Some(found) = found.filter(|found| self.fits(&wanted, &counts, found)) else {
                continue;
            };
            tried.insert(other.clone());
            chosen.push(index);
            if self.assign(chosen, [&wanted, &found])? {
                return Ok(true);
            }
            chosen.pop();
        }
        Ok(false)
    }

    /// Whether rows are the wanted ones as far as columns are assigned, each of which occurs `counts` times.
    fn fits(&self, wanted: &[u32], counts: &[usize], found: &[u32]) -> bool {
        if self.is_ordered {
            return wanted == found;
        }
        let mut left = counts.to_vec();
        found.iter().for_each(|row| left[*row as usize] = left[*row as usize].wrapping_sub(1));
        left.iter().all(|count| *count == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: Vec<Vec<usize>>) -> Rows {
        let row = |row: Vec<usize>| row.iter().map(|x| Cell::Number(x.to_string())).collect();
        Rows { columns: values[0].len(), rows: values.into_iter().map(row).collect() }
    }

    /// All orders of the numbers below `count`.
    fn orders(count: usize) -> Vec<Vec<usize>> {
        if count == 0 {
            return vec![Vec::new()];
        }
        let shorter = orders(count - 1);
        let with = |order: &Vec<usize>, at: usize| {
            let mut order = order.clone();
            order.insert(at, count - 1);
            order
        };
        shorter.iter().flat_map(|order| (0..count).map(|at| with(order, at))).collect()
    }

    #[test]
    fn search_equals_trying_every_order() {
        let mut numbers = (0..).map(|x: u64| {
            (x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407) >> 33) as usize
        });
        let (mut same, mut all) = (0, 0);
        for round in 0..400 {
            let columns = 1 + round % 4;
            let mut table = || -> Vec<Vec<usize>> {
                (0..3)
                    .map(|_| (0..columns).map(|_| numbers.next().unwrap() % 2).collect())
                    .collect()
            };
            let (wanted, answer) = (table(), table());
            for is_ordered in [false, true] {
                let normal = |mut rows: Vec<Vec<usize>>| {
                    if !is_ordered {
                        rows.sort();
                    }
                    rows
                };
                let by_order = |order: &Vec<usize>| -> Vec<Vec<usize>> {
                    answer.iter().map(|row| order.iter().map(|at| row[*at]).collect()).collect()
                };
                let expected = orders(columns)
                    .iter()
                    .any(|order| normal(by_order(order)) == normal(wanted.clone()));
                let (wanted, answer) = (rows(wanted.clone()), rows(answer.clone()));
                let found = match_in_any_order(&wanted, &answer, is_ordered).unwrap();
                assert_eq!(found, expected, "{wanted:?} {answer:?} {is_ordered}");
                (same, all) = (same + usize::from(found), all + 1);
            }
        }
        assert!(same > 40 && all - same > 40, "{same} of {all}");
    }

    #[test]
    fn columns_that_look_alike_take_bounded_work() {
        let alike = || vec![vec![7; 40]; 3];
        let mut last = alike();
        last[0][39] = 1;
        assert!(!match_in_any_order(&rows(alike()), &rows(last), false).unwrap());
        assert!(match_in_any_order(&rows(alike()), &rows(alike()), false).unwrap());
        // Columns of the same values in different rows, of which no order fits: n! assignments.
        let table = |shift: usize| {
            let cell = |row: usize, column: usize| usize::from((row + column * shift) % 97 < 48);
            rows((0..97).map(|row| (0..40).map(|column| cell(row, column)).collect()).collect())
        };
        let started = std::time::Instant::now();
        let found = match_in_any_order(&table(1), &table(3), false);
        assert!(!matches!(found, Ok(true)), "{found:?}");
        assert!(started.elapsed().as_secs() < 60);
    }
}
