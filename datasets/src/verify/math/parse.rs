//! Tokens to an [`Answer`]: a recursive descent whose depth and work are bounded.

use super::lex::{Token, tokens};
use super::numerals::is_written;
use super::text::{scale, time};
use super::tree::{Answer, Expr, Mark, Relation, times};

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 48;
/// Most tokens that are read.
const MAX_TOKENS: usize = 1024;

/// The answer that a text holds, `None` where it is not mathematics.
pub(super) fn parse(text: &str) -> Option<Answer> {
    if let Some(time) = time(text) {
        return Some(time);
    }
    let tokens = tokens(text)?;
    if tokens.is_empty() || tokens.len() > MAX_TOKENS {
        return None;
    }
    let has_matrix = tokens.iter().any(|token| matches!(token, Token::Matrix(true)));
    let mut parser =
        Parser { tokens, at: 0, depth: 0, in_bars: false, has_matrix, bound: Vec::new() };
    let answer = parser.list(&[])?;
    // A sentence may end with a point.
    while parser.peek_is('.') {
        parser.at += 1;
    }
    (parser.at == parser.tokens.len()).then_some(answer)
}

/// A cursor over tokens: structures here, expressions in `expression`.
pub(super) struct Parser {
    pub(super) tokens: Vec<Token>,
    pub(super) at: usize,
    depth: usize,
    /// Between bars, a bar ends the absolute value.
    pub(super) in_bars: bool,
    /// Matrices are still to come: an item may be a sum or a product of them.
    pub(super) has_matrix: bool,
    /// The names that sums and products run over, outermost first.
    pub(super) bound: Vec<String>,
}

impl Parser {
    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn peek_is(&self, symbol: char) -> bool {
        self.peek() == Some(&Token::Symbol(symbol))
    }

    pub(super) fn accept(&mut self, symbol: char) -> bool {
        let is_there = self.peek_is(symbol);
        self.at += usize::from(is_there);
        is_there
    }

    pub(super) fn expect(&mut self, symbol: char) -> Option<()> {
        self.accept(symbol).then_some(())
    }

    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let parsed = read(self);
        self.depth -= 1;
        parsed
    }

    /// `a, b, c`, where a comma between digits may stand for thousands.
    pub(super) fn list(&mut self, ends: &[char]) -> Option<Answer> {
        self.nested(|parser| {
            let mut items = vec![parser.chain()?];
            let mut are_all_or = true;
            loop {
                let is_or = parser.accept('∨');
                if is_or || parser.accept(',') || parser.accept(';') {
                    are_all_or &= is_or;
                    // A comma before the end: `x, ` or `a, and b`.
                    while parser.accept(',') || parser.accept('∨') {
                        are_all_or = false;
                    }
                    if parser.peek().is_none() || ends.iter().any(|end| parser.peek_is(*end)) {
                        break;
                    }
                    items.push(parser.chain()?);
                } else if parser.peek() == Some(&Token::TightComma) {
                    parser.at += 1;
                    items.push(parser.chain()?);
                } else {
                    break;
                }
            }
            if items.len() == 1 {
                return Some(items.remove(0));
            }
            // `x < 1 or x > 2` is a union, `x = 1 or x = 2` a list of values.
            let is_union = are_all_or && items.iter().all(is_inequality);
            Some(if is_union { Answer::Union(items) } else { Answer::List(items) })
        })
    }

    /// `a = b`, `a < b <= c`, `x in S`, `a : b`.
    fn chain(&mut self) -> Option<Answer> {
        let mut sides = vec![self.ratio()?];
        let mut relations = Vec::new();
        loop {
            let relation = match self.peek() {
                Some(Token::Symbol('=')) => Relation::Equal,
                Some(Token::Symbol('<')) => Relation::Less,
                Some(Token::Symbol('≤')) => Relation::AtMost,
                Some(Token::Symbol('>')) => Relation::More,
                Some(Token::Symbol('≥')) => Relation::AtLeast,
                Some(Token::Symbol('≠')) => Relation::Unequal,
                Some(Token::Symbol('∈')) if relations.is_empty() => {
                    self.at += 1;
                    let set = self.union()?;
                    return Some(Answer::Member(Box::new(sides.remove(0)), Box::new(set)));
                }
                _ => break,
            };
            self.at += 1;
            relations.push(relation);
            sides.push(self.ratio()?);
        }
        Some(if relations.is_empty() { sides.remove(0) } else { Answer::Chain(sides, relations) })
    }

    fn ratio(&mut self) -> Option<Answer> {
        let mut parts = vec![self.union()?];
        while self.accept(':') {
            parts.push(self.union()?);
        }
        Some(if parts.len() == 1 { parts.remove(0) } else { Answer::Ratio(parts) })
    }

    fn union(&mut self) -> Option<Answer> {
        let mut parts = vec![self.item()?];
        while self.accept('∪') {
            parts.push(self.item()?);
        }
        let union = if parts.len() == 1 { parts.remove(0) } else { Answer::Union(parts) };
        if self.accept('∖') {
            return Some(Answer::Without(Box::new(union), Box::new(self.item()?)));
        }
        Some(union)
    }

    /// A structure or a value, with its mark.
    fn item(&mut self) -> Option<Answer> {
        let start = self.at;
        if self.has_matrix {
            if let Some(matrix) = self.nested(Self::matrices) {
                return Some(matrix);
            }
            self.at = start;
        }
        let structure = match self.peek()? {
            Token::Symbol('ℝ') => {
                self.at += 1;
                Some(Answer::line())
            }
            Token::Symbol('⦃') => self.set(),
            Token::Symbol('∅') => {
                self.at += 1;
                Some(Answer::Set(vec![]))
            }
            Token::Symbol('(' | '[' | ']' | '⟨') => self.tuple(),
            Token::Symbol('{') => self.plain_set(),
            Token::Text(_) => {
                if let Some(based) = self.based() {
                    return Some(based);
                }
                self.at = start;
                return self.words();
            }
            _ => None,
        };
        if let Some(structure) = structure {
            return Some(structure);
        }
        self.at = start;
        if let Some(based) = self.based() {
            return Some(based);
        }
        self.at = start;
        let value = Answer::Value(self.sum()?);
        self.marked(value)
    }

    fn marked(&mut self, value: Answer) -> Option<Answer> {
        if self.accept('%') {
            return Some(Answer::Marked(Box::new(value), Mark::Percent));
        }
        if self.accept('°') {
            return Some(Answer::Marked(Box::new(value), Mark::Degree));
        }
        let mut words = String::new();
        while let Some(Token::Text(word)) = self.peek() {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(word);
            self.at += 1;
            // `cm^2`, `cm^{2}`
            if self.accept('^') {
                let power = self.argument()?;
                if let Expr::Number(power, None) = power {
                    words.push_str(&format!("^{power}"));
                }
            }
        }
        if words.is_empty() {
            return Some(value);
        }
        let words = words.trim().trim_end_matches('.').to_lowercase();
        let (first, rest) = words.split_once(' ').unwrap_or((&words, ""));
        let (value, words) = match (value, scale(first)) {
            (Answer::Value(value), Some(scale)) => {
                (Answer::Value(times(value, Expr::integer(scale))), rest.to_owned())
            }
            (value, _) => (value, words),
        };
        if words.is_empty() {
            return Some(value);
        }
        Some(match words.as_str() {
            "percent" | "per cent" | "percentage" | "pct" => {
                Answer::Marked(Box::new(value), Mark::Percent)
            }
            "degrees" | "degree" | "deg" => Answer::Marked(Box::new(value), Mark::Degree),
            _ => Answer::Marked(Box::new(value), Mark::Unit(words)),
        })
    }

    fn words(&mut self) -> Option<Answer> {
        let mut words = Vec::new();
        while let Some(token) = self.peek() {
            words.push(match token {
                Token::Text(word) => word.clone(),
                Token::Name(name) => name.clone(),
                Token::Number { digits, .. } => digits.clone(),
                Token::Symbol(symbol @ ('-' | '\'' | '(' | ')' | '.' | '?' | '!' | ':')) => {
                    symbol.to_string()
                }
                _ => break,
            });
            self.at += 1;
        }
        Some(Answer::Words(words.join(" ")))
    }

    /// `204_5`, `1011_{2}`, `1AB_{16}`, `0.0011_2`.
    fn based(&mut self) -> Option<Answer> {
        let mut all = String::new();
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
        self.expect('_')?;
        let Expr::Number(base, None) = self.argument()? else { return None };
        let base: u32 = base.numerator().try_into().ok()?;
        // A single letter with a number below it is a variable.
        let is_variable = all.len() == 1 && all.starts_with(|c: char| c.is_alphabetic());
        let bare = all.replacen('.', "", 1);
        let are_digits = (2..=36).contains(&base) && bare.chars().all(|c| c.is_digit(base));
        (are_digits && !bare.is_empty() && !is_variable).then_some(Answer::Based(all, base))
    }

    fn set(&mut self) -> Option<Answer> {
        self.expect('⦃')?;
        if self.accept('⦄') {
            return Some(Answer::Set(vec![]));
        }
        let inner = self.list(&['⦄'])?;
        self.expect('⦄')?;
        Some(Answer::Set(match inner {
            Answer::List(items) => items,
            one => vec![one],
        }))
    }

    /// `{1, 2}` without backslashes; braces around one value are a group.
    fn plain_set(&mut self) -> Option<Answer> {
        self.expect('{')?;
        let Answer::List(items) = self.list(&['}'])? else { return None };
        self.expect('}')?;
        self.peek().is_none().then_some(Answer::Set(items))
    }

    /// Brackets around a list, or around one structure; brackets around a value are part of an
    /// expression and are left to it.
    fn tuple(&mut self) -> Option<Answer> {
        let Token::Symbol(open) = self.peek()?.clone() else { return None };
        self.at += 1;
        let inner = self.list(&[')', ']', '[', '⟩'])?;
        let Token::Symbol(close @ (')' | ']' | '[' | '⟩')) = self.peek()?.clone() else {
            return None;
        };
        self.at += 1;
        let ends = match self.peek() {
            None => true,
            Some(Token::TightComma | Token::Matrix(false)) => true,
            Some(Token::Symbol(c)) => matches!(
                c,
                ',' | ';'
                    | ')'
                    | ']'
                    | '}'
                    | '⦄'
                    | '∪'
                    | '∨'
                    | '∖'
                    | '='
                    | '∈'
                    | '.'
                    | '⏎'
                    | '&'
                    | ':'
                    | '⟩'
            ),
            _ => false,
        };
        match inner {
            Answer::List(items) if ends => Some(Answer::Tuple(open, items, close)),
            structure @ (Answer::Tuple(..)
            | Answer::Set(_)
            | Answer::Chain(..)
            | Answer::Words(_)
            | Answer::Matrix(_)
            | Answer::Union(_))
                if ends =>
            {
                Some(structure)
            }
            _ => None,
        }
    }

    /// A matrix between its marks. Matrices inside of matrices are not read.
    pub(super) fn matrix(&mut self) -> Option<Vec<Vec<Answer>>> {
        if self.peek() != Some(&Token::Matrix(true)) {
            return None;
        }
        self.at += 1;
        let mut rows = vec![vec![]];
        loop {
            match self.peek()? {
                Token::Matrix(false) => {
                    self.at += 1;
                    break;
                }
                Token::Symbol('&') => self.at += 1,
                Token::Symbol('⏎') => {
                    self.at += 1;
                    rows.push(vec![]);
                }
                _ => {
                    let outer = std::mem::replace(&mut self.has_matrix, false);
                    let cell = self.nested(Self::chain);
                    self.has_matrix = outer;
                    let cell = cell?;
                    rows.last_mut()?.push(cell);
                }
            }
        }
        rows.retain(|row: &Vec<Answer>| !row.is_empty());
        Some(rows)
    }
}

fn is_inequality(answer: &Answer) -> bool {
    matches!(answer, Answer::Chain(_, relations) if relations.iter().all(|r| *r != Relation::Equal))
}
