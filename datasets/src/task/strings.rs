//! `strings`: a string of a given length that a regular expression matches as a whole.
//!
//! Statement `r6|a(b/ca)*`: six letters; `/` parts alternatives, `*` repeats a letter or a bracket any number of
//! times, none included; answer `abbbca`. An expression is read into its positions (Glushkov 1961): which letters
//! can begin a match, which can end it, which can follow which, as sets of bits.

use super::{InstanceRng, Knob, Task, graph};

/// A length and an expression.
pub(super) struct Strings {
    length: usize,
    text: String,
    /// The letter at each position.
    at: Vec<u8>,
    /// The positions that can follow each position.
    follow: Vec<u32>,
    expression: Part,
}

/// Positions that begin and end a part of an expression, and whether the part matches nothing.
#[derive(Clone, Copy)]
struct Part {
    first: u32,
    last: u32,
    is_nullable: bool,
}

/// Most letters of an expression, and its longest text.
const MAX_LETTERS: usize = 16;
const MAX_TEXT: usize = 40;

/// Reads an expression.
struct Reader<'a> {
    rest: &'a [u8],
    at: Vec<u8>,
    follow: Vec<u32>,
}

impl Reader<'_> {
    fn link(&mut self, from: u32, to: u32) {
        for (position, follow) in self.follow.iter_mut().enumerate() {
            *follow |= if (from >> position) & 1 == 1 { to } else { 0 };
        }
    }

    fn alternatives(&mut self) -> Option<Part> {
        let mut part = self.sequence()?;
        while let [b'/', rest @ ..] = self.rest {
            self.rest = rest;
            let other = self.sequence()?;
            part = Part {
                first: part.first | other.first,
                last: part.last | other.last,
                is_nullable: part.is_nullable || other.is_nullable,
            };
        }
        Some(part)
    }

    fn sequence(&mut self) -> Option<Part> {
        let mut part = self.repeated()?;
        while !matches!(self.rest, [] | [b'/' | b')', ..]) {
            let next = self.repeated()?;
            // What ends one part is followed by what begins the next; a part that matches nothing is passed over.
            self.link(part.last, next.first);
            part = Part {
                first: part.first | if part.is_nullable { next.first } else { 0 },
                last: next.last | if next.is_nullable { part.last } else { 0 },
                is_nullable: part.is_nullable && next.is_nullable,
            };
        }
        Some(part)
    }

    fn repeated(&mut self) -> Option<Part> {
        let (head, rest) = self.rest.split_first()?;
        self.rest = rest;
        let part = match head {
            b'(' => {
                let part = self.alternatives()?;
                self.rest = self.rest.strip_prefix(b")")?;
                part
            }
            b'a'..=b'c' if self.at.len() < MAX_LETTERS => {
                let only = 1 << self.at.len();
                self.at.push(*head);
                self.follow.push(0);
                Part { first: only, last: only, is_nullable: false }
            }
            _ => return None,
        };
        let Some(rest) = self.rest.strip_prefix(b"*") else { return Some(part) };
        self.rest = rest;
        self.link(part.last, part.first);
        Some(Part { is_nullable: true, ..part })
    }
}

/// A random expression of so many letters.
fn expression(draw: &mut InstanceRng, letters: usize) -> String {
    if letters == 1 {
        let letter = graph::letter(draw.below(3));
        return if draw.below(3) == 0 { format!("{letter}*") } else { letter.into() };
    }
    let left = draw.within(1, letters - 1);
    let (left, right) = (expression(draw, left), expression(draw, letters - left));
    match draw.below(5) {
        0 | 1 => format!("{left}{right}"),
        2 => format!("({left}{right})*"),
        3 => format!("({left}/{right})"),
        _ => format!("({left}/{right})*"),
    }
}

impl Task for Strings {
    const NAME: &'static str = "strings";
    const ABOUT: &'static str = "a string of the given length that the regular expression matches";
    const TAG: char = 'r';
    const KNOBS: &'static [Knob] = &[
        Knob { letter: 'n', about: "letters of the string", default: 6, range: (2, 10) },
        Knob { letter: 's', about: "letters of the expression", default: 5, range: (2, 8) },
    ];

    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self> {
        let [length, letters] = *knobs else { return None };
        Self::read(&format!("{length}|{}", expression(draw, letters)))
    }

    fn read(statement: &str) -> Option<Self> {
        let (length, text) = statement.split_once('|')?;
        let length = graph::number(length, 1, 10)?;
        let mut reader = Reader { rest: text.as_bytes(), at: Vec::new(), follow: Vec::new() };
        // Brackets nest no deeper than the text is long.
        let expression = (text.len() <= MAX_TEXT).then(|| reader.alternatives())??;
        let Reader { rest, at, follow } = reader;
        rest.is_empty().then(|| Self { length, text: text.into(), at, follow, expression })
    }

    fn statement(&self) -> String {
        format!("{}|{}", self.length, self.text)
    }

    fn letters(&self) -> Vec<u8> {
        b"abc".to_vec()
    }

    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str> {
        let (mut can_be, mut here) = (self.expression.first, 0);
        for letter in prefix {
            // All positions that the prefix can be at, at once: the automaton's subset construction.
            let is_here = |p: &usize| (can_be >> p) & 1 == 1 && self.at[*p] == *letter;
            let places: Vec<usize> = (0..self.at.len()).filter(is_here).collect();
            here = places.iter().fold(0, |set, p| set | (1 << p));
            can_be = places.iter().fold(0, |set, p| set | self.follow[*p]);
        }
        if here == 0 {
            return Err("is not matched by the expression");
        }
        match prefix.len() == self.length {
            true if here & self.expression.last == 0 => Err("ends where the expression does not"),
            is_whole => Ok(is_whole),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, strings};

    #[test]
    fn the_answers_are_what_the_regex_crate_matches() {
        for text in
            ["a(b/ca)*", "(a/b*)*c", "((ab)*/c)(a/b)", "a*b*c*", "((a/b)(b/c))*a", "(a*)*b/c"]
        {
            let pattern = regex::Regex::new(&format!("^({})$", text.replace('/', "|"))).unwrap();
            for length in 1..=6 {
                let all = strings("abc", length..=length);
                let brute: Vec<String> = all.into_iter().filter(|s| pattern.is_match(s)).collect();
                assert_eq!(answers("strings", &format!("r{length}|{text}")), brute, "{text}");
            }
        }
    }
}
