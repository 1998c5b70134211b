//! `queens`: n queens on an n x n board, no two in a row, column or diagonal, with some given and some squares shut.
//!
//! Statement `q7|b4!c6,e7`: seven queens, one stands on b4, none on c6 and e7; answer `1357246`, the rows of the
//! queens in columns a to g.

use super::graph::{self, MAX_NODES};
use super::{InstanceRng, Knob, Task};

/// A board: squares are a column and a row, from 0.
pub(super) struct Queens {
    size: usize,
    given: Vec<(usize, usize)>,
    shut: Vec<(usize, usize)>,
}

fn written(squares: &[(usize, usize)]) -> String {
    let square = |(column, row): &(usize, usize)| format!("{}{}", graph::letter(*column), row + 1);
    squares.iter().map(square).collect::<Vec<_>>().join(",")
}

fn squares(text: &str, size: usize) -> Option<Vec<(usize, usize)>> {
    let square = |text: &str| {
        let [column, row] = text.as_bytes() else { return None };
        let row = row.checked_sub(b'1').map(usize::from).filter(|row| *row < size)?;
        Some((graph::node(*column, size)?, row))
    };
    if text.is_empty() { Some(Vec::new()) } else { text.split(',').map(square).collect() }
}

impl Task for Queens {
    const NAME: &'static str = "queens";
    const ABOUT: &'static str =
        "place queens that do not attack each other: the rows of columns a, b, c, ...";
    const TAG: char = 'q';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "queens", default: 7, range: (5, MAX_NODES) },
        Knob { letter: 'g', about: "given queens", default: 1, range: (0, 3) },
        Knob { letter: 'x', about: "blocked squares", default: 2, range: (0, 6) },
    ];

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [size, given, shut] = *knobs else { return None };
        let all = (0..size).flat_map(|column| (0..size).map(move |row| (column, row)));
        let given = draw.choose(given, all.clone().collect())?;
        let shut = draw.choose(shut, all.filter(|square| !given.contains(square)).collect())?;
        Some(Self { size, given, shut })
    }

    fn read(statement: &str) -> Option<Self> {
        let (size, rest) = statement.split_once('|')?;
        let size = graph::number(size, 1, MAX_NODES)?;
        let (given, shut) = rest.split_once('!').unwrap_or((rest, ""));
        Some(Self { size, given: squares(given, size)?, shut: squares(shut, size)? })
    }

    fn statement(&self) -> String {
        let mark = if self.shut.is_empty() { "" } else { "!" };
        format!("{}|{}{mark}{}", self.size, written(&self.given), written(&self.shut))
    }

    fn letters(&self) -> Vec<u8> {
        (b'1'..).take(self.size).collect()
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let column = prefix.len() - 1;
        let row = usize::from(prefix[column] - b'1');
        if self.given.iter().any(|(c, r)| *c == column && *r != row) {
            return Err("moves a queen that is given");
        }
        if self.shut.contains(&(column, row)) {
            return Err("places a queen on a blocked square");
        }
        for (other, letter) in prefix[..column].iter().enumerate() {
            let apart = row.abs_diff(usize::from(*letter - b'1'));
            if apart == 0 || apart == column - other {
                return Err("has two queens that attack each other");
            }
        }
        Ok(prefix.len() == self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, strings};

    #[test]
    fn the_numbers_of_answers_are_the_known_ones_and_the_answers_those_of_brute_force() {
        // OEIS A000170.
        for (size, count) in [(4, 2), (5, 10), (6, 4), (7, 40), (8, 92)] {
            assert_eq!(answers("queens", &format!("q{size}|")).len(), count);
        }
        let is_right = |text: &&String| {
            let rows: Vec<i32> = text.bytes().map(i32::from).collect();
            let pairs = (0..5).flat_map(|a| (0..a).map(move |b| (a, b)));
            let is_apart = |(a, b): (usize, usize)| {
                rows[a] != rows[b] && (rows[a] - rows[b]).abs() != (a - b) as i32
            };
            pairs.into_iter().all(is_apart) && &text[1..2] == "4" && &text[4..5] != "3"
        };
        let all = strings("12345", 5..=5);
        let brute: Vec<String> = all.iter().filter(is_right).cloned().collect();
        assert_eq!(answers("queens", "q5|b4!e3"), brute);
        assert!(!brute.is_empty());
    }
}
