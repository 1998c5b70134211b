//! `operators`: put `+`, `-`, `*` or nothing between digits so that the result is a target.
//!
//! Statement `i15|12345`; answers `1+23-4-5` and `1-2*3+4*5`: products first, digits with nothing between them are one
//! number. Every digit is used, in the order given, which Countdown leaves free.

use super::{InstanceRng, Knob, Task, graph};

/// Digits of 1 to 9 and a target.
pub(super) struct Operators {
    target: usize,
    digits: Vec<u8>,
}

/// Most digits: every further one makes four times as many expressions.
const MAX_DIGITS: usize = 7;

/// The value of an expression over `+ - *` without brackets; products of at most seven digits fit.
fn value(expression: &str) -> Option<i64> {
    let product = |text: &str| {
        text.split('*').map(|number| number.parse::<i64>().ok()).product::<Option<i64>>()
    };
    let (mut sum, mut begin, mut sign) = (0, 0, 1);
    for (at, operator) in expression.match_indices(['+', '-']) {
        sum += sign * product(&expression[begin..at])?;
        (begin, sign) = (at + 1, if operator == "+" { 1 } else { -1 });
    }
    Some(sum + sign * product(&expression[begin..])?)
}

impl Task for Operators {
    const NAME: &'static str = "operators";
    const ABOUT: &'static str =
        "put +, -, * or nothing between the digits so that the result is the target";
    const TAG: char = 'i';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "digits", default: 6, range: (3, MAX_DIGITS) },
        Knob { letter: 'm', about: "largest target", default: 30, range: (9, 99) },
    ];

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [count, largest] = *knobs else { return None };
        let digits = (0..count).map(|_| b'1' + draw.below(9) as u8).collect();
        Some(Self { target: draw.within(1, largest), digits })
    }

    fn read(statement: &str) -> Option<Self> {
        let (target, digits) = statement.split_once('|')?;
        let is_plain = digits.bytes().all(|digit| (b'1'..=b'9').contains(&digit));
        let is_short = (1..=MAX_DIGITS).contains(&digits.len());
        let target = graph::number(target, 0, 9999)?;
        (is_plain && is_short).then_some(Self { target, digits: digits.into() })
    }

    fn statement(&self) -> String {
        format!("{}|{}", self.target, String::from_utf8_lossy(&self.digits))
    }

    fn letters(&self) -> Vec<u8> {
        b"*+-123456789".to_vec()
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let is_operator = |byte: &u8| b"*+-".contains(byte);
        let used = prefix.iter().filter(|byte| !is_operator(byte)).count();
        let given = self.digits.iter().take(used);
        if used > self.digits.len() || !prefix.iter().filter(|byte| !is_operator(byte)).eq(given) {
            return Err("uses other digits, or another order");
        }
        if is_operator(&prefix[0]) || prefix.windows(2).any(|pair| pair.iter().all(is_operator)) {
            return Err("has an operator without a number before it");
        }
        if used < self.digits.len() {
            return Ok(false);
        }
        let reached = std::str::from_utf8(prefix).ok().and_then(value);
        match reached == Some(self.target as i64) {
            true => Ok(true),
            false => Err("comes to another number"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::super::tests::{answers, strings};
    use super::value;
    use crate::verify::Expression;

    #[test]
    fn the_answers_are_all_ways_to_reach_the_target() {
        // Values by the parser of Countdown, digits by a filter over all strings.
        let has_digits =
            |text: &String| text.chars().filter(char::is_ascii_digit).eq("2346".chars());
        let mut by_value: HashMap<String, BTreeSet<String>> = HashMap::new();
        for text in strings("*+-2346", 4..=7).into_iter().filter(has_digits) {
            if let Some(value) = Expression::parse(&text).and_then(|tree| tree.value()) {
                by_value.entry(value.to_string()).or_default().insert(text);
            }
        }
        for target in 0..=99 {
            let brute = by_value.remove(&target.to_string()).unwrap_or_default();
            let listed = answers("operators", &format!("i{target}|2346"));
            assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), brute, "{target}");
        }
        for (text, expected) in [("12*3-4", 32), ("1-2*3*4+5", -18), ("9", 9), ("1-2-3", -4)] {
            assert_eq!(value(text), Some(expected));
        }
        assert_eq!(value("1+"), None);
    }
}
