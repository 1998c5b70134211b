//! `sudoku`: a 4 x 4 Sudoku with one answer, a control: there is nothing to be diverse about.
//!
//! Statement `u1--2,--3-,4---,--1-`: rows, `-` is empty; answer `1342...`, the sixteen digits row by row, each of 1
//! to 4 once in every row, column and 2 x 2 block.

use super::{InstanceRng, Knob, Task};

/// The cells row by row, `-` where empty.
pub(super) struct Sudoku {
    cells: Vec<u8>,
}

const CELLS: usize = 16;

/// Whether two different cells share a row, a column or a block.
fn sees(a: usize, b: usize) -> bool {
    let block = |cell: usize| (cell / 8, cell % 4 / 2);
    a / 4 == b / 4 || a % 4 == b % 4 || block(a) == block(b)
}

impl Sudoku {
    /// Whether the last digit stands twice in its row, column or block.
    fn clashes(prefix: &[u8]) -> bool {
        let last = prefix.len() - 1;
        (0..last).any(|cell| sees(cell, last) && prefix[cell] == prefix[last])
    }
}

impl Task for Sudoku {
    const NAME: &'static str = "sudoku";
    const ABOUT: &'static str = "fill a 4 x 4 Sudoku, row by row; a control with one answer";
    const TAG: char = 'u';
    const KNOBS: &'static [Knob] =
        &[Knob { letter: 'e', about: "empty cells", default: 8, range: (1, 12) }];
    const ANSWERS: (usize, usize) = (1, 1);

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [empty] = *knobs else { return None };
        let grids = super::list(&Self { cells: vec![b'-'; CELLS] })?;
        let mut cells = grids[draw.below(grids.len())].text.clone().into_bytes();
        for cell in draw.choose(empty, (0..CELLS).collect())? {
            cells[cell] = b'-';
        }
        Some(Self { cells })
    }

    fn read(statement: &str) -> Option<Self> {
        let rows: Vec<&str> = statement.split(',').collect();
        let is_plain = rows.len() == 4 && rows.iter().all(|row| row.len() == 4);
        let cells = rows.concat().into_bytes();
        (is_plain && cells.iter().all(|cell| b"-1234".contains(cell))).then_some(Self { cells })
    }

    fn statement(&self) -> String {
        let rows: Vec<_> = self.cells.chunks(4).map(String::from_utf8_lossy).collect();
        rows.join(",")
    }

    fn letters(&self) -> Vec<u8> {
        b"1234".to_vec()
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let last = prefix.len() - 1;
        if ![b'-', prefix[last]].contains(&self.cells[last]) {
            return Err("changes a cell that is given");
        }
        match Self::clashes(prefix) {
            true => Err("has a digit twice in a row, column or block"),
            false => Ok(prefix.len() == CELLS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, strings};

    #[test]
    fn the_answers_are_all_grids_that_keep_what_is_given() {
        // All grids: 288.
        assert_eq!(answers("sudoku", "u----,----,----,----").len(), 288);
        // By brute force over rows of four different digits.
        let rows = strings("1234", 4..=4);
        let is_full = |text: &str| "1234".chars().all(|digit| text.contains(digit));
        let rows: Vec<String> = rows.into_iter().filter(|row| is_full(row)).collect();
        let mut brute = Vec::new();
        for (a, b) in rows.iter().flat_map(|a| rows.iter().map(move |b| (a, b))) {
            for (c, d) in rows.iter().flat_map(|c| rows.iter().map(move |d| (c, d))) {
                let column = |at: usize| [a, b, c, d].map(|row| &row[at..=at]).concat();
                let block = |x: &str, y: &str, at: usize| [&x[at..at + 2], &y[at..at + 2]].concat();
                let blocks = [block(a, b, 0), block(a, b, 2), block(c, d, 0), block(c, d, 2)];
                let is_given = a.starts_with("12") && b.ends_with('1') && d.starts_with('4');
                if is_given
                    && (0..4).all(|at| is_full(&column(at)))
                    && blocks.iter().all(|b| is_full(b))
                {
                    brute.push([a.as_str(), b, c, d].concat());
                }
            }
        }
        brute.sort();
        assert_eq!(answers("sudoku", "u12--,---1,----,4---"), brute);
        assert!(!brute.is_empty());
    }
}
