//! Numbers beyond a row of digits: marks between thousands and before decimals, as different countries write them, and
//! repeating decimals.

use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::lex::Token;
use super::parse::Parser;
use super::scan::{are_digits, pattern};
use super::spelled::scale;
use super::tree::{Answer, Expr};
use super::units::is_unit;
use super::values::variables;

impl Parser {
    /// The next member of a list, or, of `1, 2, \ldots, 6`, all members up to that behind the points.
    pub(super) fn member(&mut self, items: &mut Vec<Answer>) -> Option<()> {
        if !self.accept('…') {
            items.push(self.chain()?);
            return Some(());
        }
        self.accept_comma().then_some(())?;
        let next = self.chain()?;
        // `2, 4, \ldots, 2n`
        if matches!(&next, Answer::Value(value) if !variables(value).is_empty()) {
            items.extend([Answer::Value(Expr::Variable("…".into())), next]);
            return Some(());
        }
        let numbers: Vec<i64> = items.iter().map(whole_number).collect::<Option<_>>()?;
        let (last, end) = (*numbers.last()?, whole_number(&next)?);
        let step = numbers.iter().rev().nth(1).map_or(1, |before| last - before);
        let more = (end - last).checked_div(step).filter(|more| (1..=64).contains(more))?;
        let is_even =
            numbers.windows(2).all(|pair| pair[1] - pair[0] == step) && last + more * step == end;
        is_even.then(|| items.extend((1..=more).map(|n| Answer::integer(last + n * step))))
    }

    /// `1,000,000`; `0.\overline{3}`.
    pub(super) fn thousands_or_repeating(
        &mut self,
        value: RBig,
        decimals: Option<i32>,
        digits: &str,
    ) -> Option<Expr> {
        let mut all = digits.to_owned();
        let starts_group = !digits.contains('.') && digits.len() <= 3 && !digits.starts_with('0');
        if starts_group {
            while let Some(group) = self.next_group() {
                self.at += group.1;
                all.push_str(&group.0);
            }
        }
        // `12{,}5`: a decimal comma, where no group of thousands follows.
        if !all.contains('.')
            && let Some(part) = self.after_comma()
        {
            self.at += 4;
            all.push('.');
            all.push_str(&part);
        }
        if let Some(repeating) = self.repeating(&value, decimals, digits) {
            return Some(Expr::Number(repeating, None));
        }
        if all == digits {
            return Some(Expr::Number(value, decimals));
        }
        let places = all.split_once('.').map_or(0, |(_, part)| part.len() as i32);
        Some(Expr::Number(positional(&all, 10)?, (places > 0).then_some(places)))
    }

    /// `0.1\overline{6}`, `0.1\bar{6}`, `0.\dot{1}4\dot{2}`, `0.(3)`, `0.333...`: the exact value.
    fn repeating(&mut self, value: &RBig, decimals: Option<i32>, digits: &str) -> Option<RBig> {
        let part = digits.split_once('.').map_or("", |(_, part)| part);
        let start = self.at;
        let mark = match self.peek()? {
            Token::Name(name) => name.clone(),
            Token::Symbol('…') => {
                self.at += 1;
                let cycle = cycle(part)?;
                let before = positional(&digits[..digits.len() - cycle.len()], 10)?;
                return Some(before + tail(cycle, part.len() - cycle.len())?);
            }
            Token::Symbol('(') if decimals.is_some() => "(".into(),
            _ => return None,
        };
        self.at += 1;
        let cycle = match mark.as_str() {
            "overline" | "bar" => self.digit_group(),
            "dot" => self.digit_group().and_then(|first| {
                let Some(Token::Number { digits: between, .. }) = self.peek().cloned() else {
                    let is_pair = self.peek() == Some(&Token::Name("dot".into()));
                    self.at += usize::from(is_pair);
                    return if is_pair { Some(first + &self.digit_group()?) } else { Some(first) };
                };
                self.at += 1;
                (self.peek() == Some(&Token::Name("dot".into()))).then(|| self.at += 1)?;
                Some(first + &between + &self.digit_group()?)
            }),
            "(" => match (self.peek().cloned(), self.tokens.get(self.at + 1)) {
                (Some(Token::Number { digits, decimals: None, .. }), Some(Token::Symbol(')'))) => {
                    self.at += 2;
                    Some(digits)
                }
                _ => None,
            },
            _ => None,
        };
        let Some(cycle) = cycle else {
            self.at = start;
            return None;
        };
        Some(value.clone() + tail(&cycle, part.len())?)
    }

    /// The next group of thousands and how many tokens it takes; decimals end it.
    fn next_group(&self) -> Option<(String, usize)> {
        let (skip, is_braced) =
            match (self.peek()?, self.tokens.get(self.at + 1), self.tokens.get(self.at + 2)) {
                (Token::TightComma, _, _) => (1, false),
                // `1{,}000`
                (Token::Symbol('{'), Some(Token::Symbol(',')), Some(Token::Symbol('}'))) => {
                    (3, true)
                }
                _ => return None,
            };
        let Token::Number { digits, .. } = self.tokens.get(self.at + skip)? else { return None };
        let integer = digits.split('.').next().unwrap_or_default();
        // Of a bare list, `1,234` is one number; `(1,234)` and `1,23` are not for this to join.
        (integer.len() == 3 && (is_braced || !self.in_tuple())).then(|| (digits.clone(), skip + 1))
    }

    /// The digits behind a comma in braces that is no mark of thousands.
    fn after_comma(&self) -> Option<String> {
        let [Token::Symbol('{'), Token::Symbol(','), Token::Symbol('}'), number, ..] =
            self.tokens.get(self.at..)?
        else {
            return None;
        };
        let Token::Number { digits, .. } = number else { return None };
        (!digits.contains('.')).then(|| digits.clone())
    }

    /// Whether an open bracket makes commas separators: `(1,234)` is ambiguous, `(1,000,000)` too.
    fn in_tuple(&self) -> bool {
        let mut depth = 0;
        for token in &self.tokens[..self.at] {
            match token {
                Token::Symbol('(' | '[' | '⦃') => depth += 1,
                Token::Symbol(')' | ']' | '⦄') => depth -= 1,
                _ => {}
            }
        }
        depth > 0
    }

    fn digit_group(&mut self) -> Option<String> {
        let is_braced = self.accept('{');
        let Some(Token::Number { digits, decimals: None, .. }) = self.peek().cloned() else {
            return None;
        };
        self.at += 1;
        if is_braced {
            self.expect('}')?;
        }
        Some(digits)
    }
}

/// A whole number of at most six digits.
fn whole_number(answer: &Answer) -> Option<i64> {
    let Answer::Value(value) = answer else { return None };
    value.as_integer().filter(|number| number.abs() < 1_000_000)
}

/// The value of digits in a base, a point among them; `None` where one of them is no digit of it.
pub(super) fn positional(digits: &str, base: u32) -> Option<RBig> {
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let above = IBig::from_str_radix(&format!("{whole}{part}"), base).ok()?;
    Some(RBig::from_parts(above, UBig::from(base).pow(part.len())))
}

/// Whether a number's digits are all of it: an exponent is not among them.
pub(super) fn is_written(digits: &str, value: &RBig) -> bool {
    positional(digits, 10).as_ref() == Some(value)
}

/// The sum of a repeated group of digits after `places` decimals.
fn tail(cycle: &str, places: usize) -> Option<RBig> {
    let above = IBig::from_str_radix(cycle, 10).ok()?;
    // cycle (10^-n + 10^-2n + ...) = cycle / (10^n - 1), moved right by `places`.
    let below = (UBig::from(10_u8).pow(cycle.len()) - UBig::ONE) * UBig::from(10_u8).pow(places);
    Some(RBig::from_parts(above, below))
}

/// The group of digits that decimals before an ellipsis end with twice, a single digit three times.
fn cycle(decimals: &str) -> Option<&str> {
    (1..=decimals.len() / 2).find_map(|length| {
        let times = if length == 1 { 3 } else { 2 };
        let cycle = &decimals[decimals.len() - length..];
        decimals.ends_with(&cycle.repeat(times)).then_some(cycle)
    })
}

/// A number without the marks between its thousands, in each way in which these may be read.
pub(super) fn without_separators(text: &str) -> Vec<String> {
    let bare = text.trim_start_matches(['-', '$', '€', '£', '¥', '₹', ' ']);
    let sign = if text.starts_with('-') { "-" } else { "" };
    let ways = [('.', ','), (',', '.'), (' ', ','), (' ', '.')].into_iter();
    ways.filter_map(|(mark, decimal)| {
        let (whole, part) = bare.split_once(decimal).unwrap_or((bare, ""));
        let has_cents = mark != ' ' && !part.is_empty() && is_group(whole, mark);
        let is_number = are_digits(part) && (are_thousands(whole, mark) || has_cents);
        let point = if part.is_empty() { "" } else { "." };
        is_number.then(|| format!("{sign}{}{point}{part}", whole.replace(mark, "")))
    })
    .collect()
}

/// Whether a mark parts one group of thousands: `1.200`.
pub(super) fn is_group(text: &str, mark: char) -> bool {
    text.split_once(mark).is_some_and(|(first, last)| {
        (1..=3).contains(&first.len()) && last.len() == 3 && are_digits(first) && are_digits(last)
    })
}

/// Whether marks part groups of thousands, at least two of them, or those of India: `12,34,567`.
fn are_thousands(text: &str, mark: char) -> bool {
    let groups: Vec<&str> = text.split(mark).collect();
    let are_digits = groups.iter().all(|group| are_digits(group));
    let (Some(first), Some(last)) = (groups.first(), groups.last()) else { return false };
    let middle = groups.get(1..groups.len().saturating_sub(1)).unwrap_or_default();
    are_digits
        && groups.len() >= if mark == ' ' { 2 } else { 3 }
        && last.len() == 3
        && (middle.iter().all(|group| group.len() == 3) && (1..=3).contains(&first.len())
            || middle.iter().all(|group| group.len() == 2) && (1..=2).contains(&first.len()))
}

/// A decimal comma as a point: digits, one comma, and digits that are no group of thousands; `1.234,5` has points
/// between thousands. One digit behind the comma may as well be a list, `1,2`, unless `of_decimal` says that the
/// other side is a decimal.
pub(super) fn with_point(text: &str, of_decimal: bool) -> Option<String> {
    // `x = 2,5`, `R$ 45,00`, `7,5\text{ cm}`
    let decimal = pattern!(
        r"^(?:([\p{Alphabetic}\s]*=))?[€£¥₹$R ]*(-?)(?:([0-9]{1,3}(?:\.[0-9]{3})+)|([0-9]+)),([0-9]+)([^0-9,.].*)?$"
    );
    let found = text.contains(',').then(|| decimal.captures(text)).flatten()?;
    let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
    let (whole, decimals) = (part(4), part(5));
    let unit = part(6).trim_end_matches(|c: char| "€£¥₹$R ".contains(c));
    let is_word = unit.trim().chars().all(|c| c.is_alphabetic() || c == ' ');
    (is_word || is_unit(unit.trim())).then_some(())?;
    // `2,5 millions`
    let of_decimal = of_decimal || scale(&unit.trim().split(' ').next()?.to_lowercase()).is_some();
    let is_decimal = whole.is_empty()
        || (decimals.len() >= 2 || of_decimal) && (decimals.len() != 3 || whole == "0");
    let digits = format!("{whole}{}", part(3).replace('.', ""));
    is_decimal.then(|| format!("{}{}{digits}.{decimals}{unit}", part(1), part(2)))
}

/// The sign and digits of a plain integer, without leading zeros.
pub(super) fn plain_integer(text: &str) -> Option<(bool, &str)> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    (!digits.is_empty() && are_digits(digits)).then_some(())?;
    let digits = digits.trim_start_matches('0');
    Some((is_negative && !digits.is_empty(), digits))
}
