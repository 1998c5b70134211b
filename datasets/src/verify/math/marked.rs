//! Values with a mark: percent signs, degrees, units, currencies, bases.

use dashu_ratio::RBig;

use super::amounts::without_extent;
use super::languages::is_apology;
use super::lex::Token;
use super::links::is_joining;
use super::numerals::is_written;
use super::parse::Parser;
use super::scan::{holds, is_digit, is_one_of};
use super::spelled::{number_word, parts, scale};
use super::standing;
use super::tree::{Answer, Expr, Mark, times};
use super::units::{conversion, is_known, is_unit};

/// Words behind a value that begin a condition or a modulus.
static NO_UNITS: [&str; 9] =
    ["to", "if", "for", "when", "where", "whenever", "otherwise", "else", "mod"];

/// Most parts of a compound quantity: `2 hours 45 minutes 10 seconds`.
const MAX_PARTS: usize = 4;

impl Parser {
    /// A value with the mark behind it.
    pub(super) fn marked(&mut self, value: Answer) -> Option<Answer> {
        if self.accept('%') {
            // `25\%\text{ of the total}`
            if matches!(self.peek(), Some(Token::Text(word)) if word.starts_with("of")) {
                self.at += 1;
            }
            return Some(Answer::marked(value, Mark::Percent));
        }
        if self.accept('°') {
            let value = self.minutes(value)?;
            return Some(Answer::marked(value, self.degrees()));
        }
        if let Some(Token::Currency(unit)) = self.peek() {
            let unit = *unit;
            self.at += 1;
            return Some(Answer::marked(value, Mark::Unit(unit.to_owned())));
        }
        if let Some(based) = self.base_in_words(&value) {
            return Some(based);
        }
        let words = self.unit_words()?;
        if words.is_empty() {
            return Some(value);
        }
        (!is_sentence(&value, &words)).then_some(())?;
        let (value, words) = thousandths(value, without_extent(&words));
        let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
        let (value, words) = match (value, scale(&first.to_lowercase())) {
            (Answer::Value(value), Some(scale)) => {
                (Answer::Value(times(value, Expr::integer(scale))), rest.to_owned())
            }
            (value, _) => (value, words.to_owned()),
        };
        // `7 squared`
        let value = match (value, words.as_str()) {
            (Answer::Value(base), "squared" | "cubed") => {
                let power = Expr::integer(if words == "cubed" { 3 } else { 2 });
                return Some(Answer::Value(Expr::power(base, power)));
            }
            (value, _) => value,
        };
        Some(match words.to_lowercase().as_str() {
            "" => value,
            "percent" | "per cent" | "percentage" | "pct" | "percentage points"
            | "percentage point" | "pp" => Answer::marked(value, Mark::Percent),
            "degrees" | "degree" | "deg" => {
                let mark = self.degrees();
                Answer::marked(value, mark)
            }
            "basis points" | "basis point" | "bps" | "bp" => {
                Answer::marked(value, Mark::Unit("bps".into()))
            }
            "times" | "-fold" | "fold" => Answer::marked(value, Mark::Unit("times".into())),
            _ => self.compound(value, words),
        })
    }

    /// Money after the sign of its currency, which may stand once more behind it: `\$5 million`, `\$12 per hour`.
    pub(super) fn money(&mut self, value: Answer, unit: &'static str) -> Option<Answer> {
        Some(match self.marked(value)? {
            Answer::Marked(value, Mark::Unit(rest))
                if rest.starts_with("per ") || rest.starts_with('/') =>
            {
                Answer::Marked(value, Mark::Unit(format!("{unit} {rest}")))
            }
            Answer::Marked(value, _) => Answer::Marked(value, Mark::Unit(unit.to_owned())),
            value => Answer::marked(value, Mark::Unit(unit.to_owned())),
        })
    }

    /// The words behind a value, `meters per second`, `cm^2`.
    fn unit_words(&mut self) -> Option<String> {
        let mut words = String::new();
        while let Some(word) = self.unit_word(!words.is_empty()) {
            if NO_UNITS.contains(&word.trim().to_lowercase().as_str()) {
                break;
            }
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(&word);
            self.at += 1;
            // `cm^2`, `cm^{2}`, `h^{-1}`
            if self.accept('^') {
                match self.argument()? {
                    Expr::Number(power, None) => words.push_str(&format!("^{power}")),
                    Expr::Negative(power) => match *power {
                        Expr::Number(power, None) => words.push_str(&format!("^-{power}")),
                        _ => return None,
                    },
                    _ => {}
                }
            }
            // `\text{N}\cdot\text{m}`
            if self.accept('*') && self.unit_word(true).is_none() {
                self.at -= 1;
                break;
            }
            // `\text{km}/\text{h}`, `km/h`
            if self.accept('/') {
                if self.unit_word(true).is_some() {
                    words.push_str(" per");
                } else {
                    self.at -= 1;
                    break;
                }
            }
        }
        Some(words.trim().trim_end_matches('.').to_owned())
    }

    /// The word of a unit at the cursor; behind another one, `km/h`, a single letter may be one.
    fn unit_word(&self, is_behind: bool) -> Option<String> {
        match self.peek()? {
            Token::Text(word) => Some(word.clone()),
            Token::Name(name) if is_behind && name.len() == 1 && is_known(name) => {
                Some(name.clone())
            }
            _ => None,
        }
    }

    /// The minutes and seconds behind degrees: `45^\circ 30'`.
    fn minutes(&mut self, degrees: Answer) -> Option<Answer> {
        let Answer::Value(mut sum) = degrees else { return Some(degrees) };
        for part in [60, 3600] {
            let start = self.at;
            let Some(Token::Number { value, .. }) = self.peek().cloned() else { break };
            self.at += 1;
            let marks = (0..2).take_while(|_| self.accept('\'')).count();
            if marks != if part == 60 { 1 } else { 2 } {
                self.at = start;
                break;
            }
            let value = Expr::Number(value / RBig::from(part), None);
            // The sign covers all of it.
            sum = match sum {
                Expr::Negative(inner) => Expr::negative(Expr::Sum(vec![*inner, value])),
                sum => Expr::Sum(vec![sum, value]),
            };
        }
        Some(Answer::Value(sum))
    }

    /// Degrees of angle or, before C and F, of temperature.
    fn degrees(&mut self) -> Mark {
        let scale = match self.peek() {
            Some(Token::Name(name)) if name == "C" => "celsius",
            Some(Token::Name(name)) if name == "F" => "fahrenheit",
            Some(Token::Text(word)) => match word.to_lowercase().trim_end_matches('.') {
                "c" | "celsius" => "celsius",
                "f" | "fahrenheit" => "fahrenheit",
                _ => return Mark::Degree,
            },
            _ => return Mark::Degree,
        };
        self.at += 1;
        Mark::Unit(scale.to_owned())
    }

    /// `2 hours 45 minutes`: further parts in smaller units are added.
    fn compound(&mut self, value: Answer, unit: String) -> Answer {
        let unit = unit.trim_end_matches(" and").to_owned();
        let mark = |value, unit| Answer::marked(value, Mark::Unit(unit));
        let mut terms = match value {
            Answer::Value(first) => vec![first],
            other => return mark(other, unit),
        };
        for _ in 1..MAX_PARTS {
            let Some(part) = self.attempt(|parser| parser.part(&unit)) else { break };
            terms.push(part);
        }
        let sum = if terms.len() == 1 { terms.remove(0) } else { Expr::Sum(terms) };
        mark(Answer::Value(sum), unit)
    }

    /// A further part of a compound quantity, in its first unit.
    fn part(&mut self, unit: &str) -> Option<Expr> {
        self.accept(',');
        let Some(Token::Number { .. }) = self.peek() else { return None };
        let value = self.power()?;
        let smaller = self.unit_words()?;
        let factor = conversion(unit, smaller.trim_end_matches(" and"))?;
        (factor < RBig::ONE).then(|| Expr::Product(vec![value, Expr::Number(factor, None)]))
    }

    /// `204 base 5`, `204 (base five)`, `204 in base 5`.
    fn base_in_words(&mut self, value: &Answer) -> Option<Answer> {
        let Answer::Value(Expr::Number(_, None)) = value else { return None };
        let before = self.tokens.get(self.at.checked_sub(1)?).cloned();
        let Some(Token::Number { digits, .. }) = before else { return None };
        self.attempt(|parser| based(digits, parser.base_word()?))
    }

    fn base_word(&mut self) -> Option<u32> {
        let has_bracket = self.accept('(');
        let mut words = Vec::new();
        while let Some(Token::Text(word)) = self.peek() {
            words.push(word.to_lowercase());
            self.at += 1;
        }
        let words = words.join(" ");
        let words = words.trim_matches(['(', ')', ' ']);
        let rest = words.strip_prefix("in ").unwrap_or(words).strip_prefix("base")?.trim();
        let base = match (rest, self.peek()) {
            ("", Some(Token::Number { digits, .. })) => {
                let base = digits.parse().ok()?;
                self.at += 1;
                base
            }
            (rest, _) => rest.parse().ok().or_else(|| u32::try_from(number_word(rest)?).ok())?,
        };
        if has_bracket {
            self.expect(')')?;
        }
        Some(base)
    }

    /// `204_5`, `(204)_5`, `1011_{2}`, `1101_{\text{two}}`, `1AB_{16}`, `0.0011_2`.
    pub(super) fn based(&mut self) -> Option<Answer> {
        let mut all = String::new();
        let has_bracket = self.accept('(');
        loop {
            match self.peek()? {
                // `1.1e5` is not read with its exponent left out.
                Token::Number { digits, value, .. } if is_written(digits, value) => {
                    all.push_str(digits);
                }
                Token::Name(name) if name.len() == 1 => all.push_str(name),
                Token::Text(name) => all.push_str(name),
                _ => break,
            }
            self.at += 1;
        }
        if has_bracket {
            self.expect(')')?;
        }
        self.expect('_')?;
        let base = self.base()?;
        // A single letter with a number below it is a variable.
        let is_variable = all.len() == 1 && all.starts_with(char::is_alphabetic);
        if is_variable { None } else { based(all, base) }
    }

    /// The base below digits, as a number or a word.
    fn base(&mut self) -> Option<u32> {
        let start = self.at;
        let is_braced = self.accept('{');
        if let Some(Token::Text(word)) = self.peek() {
            let word = word.to_lowercase();
            let word = word.trim_start_matches("base").trim();
            let base = u32::try_from(number_word(word)?).ok()?;
            self.at += 1;
            if is_braced {
                self.expect('}')?;
            }
            return Some(base);
        }
        self.at = start;
        let Expr::Number(base, None) = self.argument()? else { return None };
        base.numerator().try_into().ok()
    }
}

/// A value with the words for a part of one taken into it: `5 thousandths`.
fn thousandths(value: Answer, words: &str) -> (Answer, &str) {
    let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
    match (value, parts(first)) {
        (Answer::Value(value), Some(below)) => {
            let below = Expr::Number(RBig::from(below), None);
            (Answer::Value(Expr::quotient(value, below)), rest)
        }
        (value, _) => (value, words),
    }
}

/// Words behind a value that are no unit but say something of it: `7 is wrong`, `A triangle`, `I do not know`.
fn is_sentence(value: &Answer, words: &str) -> bool {
    let is_letter = match value {
        Answer::Value(Expr::Variable(name)) => name.starts_with(|c: char| c.is_ascii_uppercase()),
        _ => false,
    };
    let first = words.split(' ').next().unwrap_or(words);
    (is_letter && !is_unit(words))
        // "the 18th prime", "18的3倍"
        || first.len() < words.len() && is_one_of(first, "st|nd|rd|th")
        || holds(words, "的|吗|不对|不正确")
        || words.split(|c| c > '\u{e00}').skip(1).any(|part| part.starts_with(is_digit))
        || has_other_number(words)
        || is_apology(words)
        || words.rsplit(' ').next().is_some_and(|word| is_joining(word) || word == "every")
        || standing::altered(&format!(" {words}")).is_some()
        || standing::has_word(words, standing::UNIT)
        || standing::is_relative(words)
}

/// Whether a number of its own stands in the words behind a value, and none that they count: "boxes of 12".
fn has_other_number(words: &str) -> bool {
    const COUNTED: &str = "of|per|in|every|each|for|from|with|on|at|within";
    let words: Vec<&str> = words.split('(').next().unwrap_or(words).split(' ').collect();
    let is_number = |word: &str| word.trim_start_matches([',', ';']).starts_with(is_digit);
    let is_other = |pair: &[&str]| is_number(pair[1]) && !is_one_of(pair[0], COUNTED);
    words.windows(2).any(is_other) || is_number(words[0])
}

/// Digits in a base that has them.
fn based(digits: String, base: u32) -> Option<Answer> {
    let bare = digits.replacen('.', "", 1);
    let are_digits = (2..=36).contains(&base) && bare.chars().all(|c| c.is_digit(base));
    (are_digits && !bare.is_empty()).then_some(Answer::Based(digits, base))
}
