//! `brackets`: balanced brackets of a bounded depth, with some places given (Dyck words).
//!
//! Statement `b3|-(--)---`: eight places, at most three brackets open at once, `-` is free; answer `(())()()`.

use super::{InstanceRng, Knob, Task, graph};

/// A bound on the depth and a pattern of `(`, `)` and `-`.
pub(super) struct Brackets {
    depth: usize,
    pattern: Vec<u8>,
}

const MAX_PAIRS: usize = 8;

impl Task for Brackets {
    const NAME: &'static str = "brackets";
    const ABOUT: &'static str = "fill in balanced brackets, at most so many open at once";
    const TAG: char = 'b';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "pairs", default: 6, range: (3, MAX_PAIRS) },
        Knob { letter: 'd', about: "largest depth", default: 4, range: (2, MAX_PAIRS) },
        Knob { letter: 'f', about: "given positions", default: 4, range: (0, 6) },
    ];

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [pairs, depth, fixed] = *knobs else { return None };
        let mut pattern = vec![b'-'; 2 * pairs];
        // The first and the last place say nothing.
        for place in draw.choose(fixed, (1..2 * pairs - 1).collect())? {
            pattern[place] = if draw.coin() { b'(' } else { b')' };
        }
        Some(Self { depth: draw.within(2, depth), pattern })
    }

    fn read(statement: &str) -> Option<Self> {
        let (depth, pattern) = statement.split_once('|')?;
        let is_plain = pattern.bytes().all(|byte| b"()-".contains(&byte));
        let is_short = (1..=2 * MAX_PAIRS).contains(&pattern.len());
        let depth = graph::number(depth, 1, 9)?;
        (is_plain && is_short).then_some(Self { depth, pattern: pattern.into() })
    }

    fn statement(&self) -> String {
        format!("{}|{}", self.depth, String::from_utf8_lossy(&self.pattern))
    }

    fn letters(&self) -> Vec<u8> {
        b"()".to_vec()
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let last = prefix.len() - 1;
        if ![b'-', prefix[last]].contains(&self.pattern[last]) {
            return Err("changes a given position");
        }
        let opened = prefix.iter().filter(|byte| **byte == b'(').count();
        let Some(open) = opened.checked_sub(prefix.len() - opened) else {
            return Err("closes a bracket that is not open");
        };
        if open > self.depth {
            return Err("has too many brackets open at once");
        }
        let left = self.pattern.len() - prefix.len();
        if open > left { Err("leaves no room to close its brackets") } else { Ok(left == 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, strings};

    #[test]
    fn the_answers_are_dyck_words() {
        // Catalan numbers, and 2^(n-1) words of depth 2.
        for (pairs, count) in [(3, 5), (5, 42), (7, 429)] {
            let free = "-".repeat(2 * pairs);
            assert_eq!(answers("brackets", &format!("b9|{free}")).len(), count);
            assert_eq!(answers("brackets", &format!("b2|{free}")).len(), 1 << (pairs - 1));
        }
        let is_right = |text: &&String| {
            let mut left = (*text).clone();
            while left.contains("()") {
                left = left.replace("()", "");
            }
            left.is_empty() && &text[1..2] == "(" && &text[4..5] == ")" && !text.contains("((((")
        };
        let all = strings("()", 8..=8);
        let mut brute: Vec<String> = all.iter().filter(is_right).cloned().collect();
        brute.sort();
        // Four brackets are open only after `((((`.
        assert_eq!(answers("brackets", "b3|-(--)---"), brute);
    }
}
