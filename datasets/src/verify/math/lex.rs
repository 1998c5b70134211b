//! Plain, LaTeX and unicode mathematics to tokens. One table for each alphabet; what is only
//! decoration (spacing, style, dollars) disappears here.

use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::alphabet::{IGNORED, SHORT_WORDS, STYLES, UNITS, WORDS, fold, is_function, symbol};
use super::units::is_known;

/// Longest answer that is read, in bytes.
pub(super) const MAX_BYTES: usize = 4096;
/// Most digits of a number.
const MAX_DIGITS: usize = 2000;

/// One token of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A number; `decimals` counts the digits after its point, where it has one.
    Number { value: RBig, decimals: Option<u32>, digits: String },
    /// A letter or a named constant or function, lower-case names without the backslash.
    Name(String),
    /// Words: `\text{...}`, or a run of letters that is no mathematics.
    Text(String),
    /// An operator, a bracket or a separator.
    Symbol(char),
    /// Opens and closes a matrix.
    Matrix(bool),
    /// Stands before a matrix in bars.
    Determinant,
    /// A comma that may stand between thousands: `1,000` without a space.
    TightComma,
}

/// The tokens of an answer, `None` where it is too long or holds what no answer does.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut text = fold(text);
    // Escaped once too often: `\\\\frac` outside of a matrix, where `\\\\` ends a row.
    if text.contains("\\\\") && !text.contains("\\begin") {
        text = text.replace("\\\\", "\\");
    }
    let mut lexer = Lexer { text: &text, at: 0, out: Vec::new() };
    lexer.run()?;
    Some(lexer.out)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    out: Vec<Token>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn run(&mut self) -> Option<()> {
        while let Some(c) = self.rest().chars().next() {
            match c {
                '0'..='9' => self.number()?,
                '.' if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                    self.number()?
                }
                '\\' => self.command()?,
                'a'..='z' | 'A'..='Z' => self.letters(),
                ',' => {
                    self.at += 1;
                    // `11,\! 111` is one number.
                    let after = self.rest().trim_start();
                    let thin = after.strip_prefix("\\!").or_else(|| after.strip_prefix("\\,"));
                    if let Some(digits) = thin {
                        self.at = self.text.len() - digits.trim_start().len();
                    }
                    let is_tight = matches!(self.out.last(), Some(Token::Number { .. }))
                        && self.rest().starts_with(|c: char| c.is_ascii_digit());
                    self.out.push(if is_tight { Token::TightComma } else { Token::Symbol(',') });
                }
                '*' if self.rest().starts_with("**") => {
                    self.at += 2;
                    self.out.push(Token::Symbol('^'));
                }
                '<' | '>' | '!' if self.rest()[1..].starts_with('=') => {
                    self.at += 2;
                    self.out.push(Token::Symbol(match c {
                        '<' => '≤',
                        '>' => '≥',
                        _ => '≠',
                    }));
                }
                '.' if self.rest().starts_with("...") => {
                    self.at += 3;
                    self.out.push(Token::Symbol('…'));
                }
                '$' | '~' | '"' | '`' | '\t' | '\n' | '\r' | ' ' => self.at += 1,
                '+' | '-' | '*' | '/' | '^' | '_' | '!' | '(' | ')' | '[' | ']' | '{' | '}'
                | '|' | ';' | ':' | '=' | '<' | '>' | '%' | '&' | '\'' | '?' | '±' | '≤' | '≥'
                | '≠' | '∪' | '∩' | '∈' | '∅' | '∞' | '°' | '…' | '→' | '.' | '∖' | '⌊' | '⌋'
                | '⌈' | '⌉' | '∨' | 'ℝ' => {
                    self.at += c.len_utf8();
                    self.out.push(Token::Symbol(c));
                }
                '≈' => {
                    self.at += c.len_utf8();
                    self.approximately();
                }
                '€' | '£' | '¥' | '￥' => self.at += c.len_utf8(),
                c if c.is_alphabetic() => {
                    let end = self
                        .rest()
                        .find(|c: char| !c.is_alphanumeric())
                        .unwrap_or(self.rest().len());
                    self.out.push(Token::Text(self.rest()[..end].to_lowercase()));
                    self.at += end;
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let integer = digits(0);
        let mut end = integer;
        let mut part = 0;
        if bytes.get(integer) == Some(&b'.') {
            part = digits(integer + 1);
            // A point without digits after it ends a sentence, or is decoration: `5.`
            if part > 0 || integer > 0 {
                end = integer + 1 + part;
            }
        }
        if end > MAX_DIGITS {
            return None;
        }
        let text = format!(
            "{}{}",
            &self.rest()[..integer],
            &self.rest()[integer..end].trim_start_matches('.')
        );
        let above = IBig::from_str_radix(if text.is_empty() { "0" } else { &text }, 10).ok()?;
        let mut value = RBig::from_parts(above, UBig::from(10_u8).pow(part));
        // `0.(3)`, `0.\overline{3}`: the point counts, though no digit follows it at once.
        let is_repeating = end > integer && self.rest()[end..].starts_with(['(', '\\']);
        let mut has_point = part > 0 || is_repeating;
        // 0.\overline{3}, 0.(3) are read by the parser; e-notation here.
        let after = &self.rest()[end..];
        let mut taken = end;
        if let Some(exponent) = after.strip_prefix(['e', 'E']) {
            let sign = exponent.starts_with(['-', '+']);
            let tail = &exponent[usize::from(sign)..];
            let count = tail.bytes().take_while(u8::is_ascii_digit).count();
            let is_number = count > 0
                && count <= 3
                && !tail[count..].starts_with(|c: char| c.is_ascii_alphanumeric());
            if is_number {
                let power: usize = tail[..count].parse().ok()?;
                let scale = RBig::from(IBig::from(UBig::from(10_u8).pow(power)));
                value = if exponent.starts_with('-') { value / scale } else { value * scale };
                has_point = has_point || exponent.starts_with('-');
                taken += 1 + usize::from(sign) + count;
            }
        }
        // `0.A_{16}`: the point stands before a digit of another base.
        let next = self.rest()[end..].trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        let is_based = next.len() < self.rest().len() - end && next.starts_with('_');
        let digits = match &self.rest()[..end] {
            digits if is_based => digits.to_owned(),
            digits => digits.trim_end_matches('.').to_owned(),
        };
        self.at += taken;
        if taken == integer && integer <= 3 && is_thousand(self.rest()) {
            self.out.push(Token::Number { value, decimals: None, digits });
            self.out.push(Token::TightComma);
            self.at += 1;
            return Some(());
        }
        self.out.push(Token::Number { value, decimals: has_point.then_some(part as u32), digits });
        Some(())
    }

    /// The text of a braced argument at the cursor, which moves past it.
    fn braced(&mut self) -> Option<String> {
        let rest = self.rest().trim_start();
        self.at = self.text.len() - rest.len();
        let inner = rest.strip_prefix('{')?;
        let mut depth = 1;
        for (at, byte) in inner.bytes().enumerate() {
            depth += match byte {
                b'{' => 1,
                b'}' => -1,
                _ => 0,
            };
            if depth == 0 {
                let text = inner[..at].to_owned();
                self.at += at + 2;
                return Some(text);
            }
        }
        None
    }

    fn command(&mut self) -> Option<()> {
        self.at += 1;
        let letters = self.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
        if letters == 0 {
            let Some(c) = self.rest().chars().next() else { return Some(()) };
            self.at += c.len_utf8();
            match c {
                '{' => self.out.push(Token::Symbol('⦃')),
                '}' => self.out.push(Token::Symbol('⦄')),
                '%' => self.out.push(Token::Symbol('%')),
                '\\' => self.out.push(Token::Symbol('⏎')),
                '|' => self.out.push(Token::Symbol('|')),
                // `1{,}000` and `1\,000` are one number.
                ',' | '!' | ';' | ':' | ' ' | '$' | '(' | ')' | '[' | ']' | '&' | '#' | '_'
                | '"' | '/' | '-' => {
                    self.join_thousands();
                }
                _ => return None,
            }
            return Some(());
        }
        let name = self.rest()[..letters].to_owned();
        self.at += letters;
        if IGNORED.contains(&name.as_str()) {
            // `\left.` is an empty bracket.
            if matches!(name.as_str(), "left" | "right") && self.rest().starts_with('.') {
                self.at += 1;
            }
            return Some(());
        }
        if STYLES.contains(&name.as_str()) {
            return Some(());
        }
        if WORDS.contains(&name.as_str()) {
            let words = self.braced()?;
            return self.words(&words);
        }
        match name.as_str() {
            "begin" | "end" => {
                let kind = self.braced()?;
                if kind.contains("matrix") || kind == "array" {
                    if kind == "array" && name == "begin" && self.rest().starts_with('{') {
                        self.braced()?;
                    }
                    if kind == "vmatrix" && name == "begin" {
                        self.out.push(Token::Determinant);
                    }
                    self.out.push(Token::Matrix(name == "begin"));
                }
            }
            "dfrac" | "tfrac" | "cfrac" | "frac" => self.out.push(Token::Name("frac".into())),
            "binom" | "dbinom" | "tbinom" => self.out.push(Token::Name("binom".into())),
            "lbrace" => self.out.push(Token::Symbol('⦃')),
            "rbrace" => self.out.push(Token::Symbol('⦄')),
            "mathbb" => {
                let name = self.braced()?;
                self.out.push(match name.trim() {
                    "R" => Token::Symbol('ℝ'),
                    other => Token::Name(other.to_owned()),
                });
            }
            "hspace" | "vspace" | "phantom" | "hphantom" | "label" | "tag" => {
                self.braced()?;
            }
            "approx" => self.approximately(),
            _ if name.starts_with("quad") || name.starts_with("qquad") => {
                self.at -= name.len() - name.find("quad").map_or(0, |at| at + 4);
            }
            _ => match symbol(&name) {
                Some(symbol) => self.out.push(Token::Symbol(symbol)),
                None => self.out.push(Token::Name(name)),
            },
        }
        Some(())
    }

    /// A value after "about" approximates the one before it, and is not read unless that is only a name.
    fn approximately(&mut self) {
        if self.out.is_empty() {
            // `\approx 3.14` is all there is.
        } else if self.out.iter().all(|token| matches!(token, Token::Name(_))) {
            self.out.push(Token::Symbol('='));
        } else {
            self.at = self.text.len();
        }
    }

    /// A thin space or an escaped comma between digits joins them into one number.
    fn join_thousands(&mut self) {
        let is_three = self.rest().bytes().take_while(u8::is_ascii_digit).count() == 3;
        if matches!(self.out.last(), Some(Token::Number { .. })) && is_three {
            self.out.push(Token::TightComma);
        }
    }

    /// The inside of a `\text`: a number or letter stays mathematics, words become text.
    fn words(&mut self, words: &str) -> Option<()> {
        let trimmed = words.trim();
        // `5\text{ m}` has a unit, `\text{B}` is a letter.
        let is_unit = trimmed.len() == 1
            && is_known(trimmed)
            && matches!(self.out.last(), Some(Token::Number { .. }));
        let is_math = (trimmed.len() == 1 && !is_unit)
            || trimmed.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        if trimmed.is_empty() {
            return Some(());
        }
        let known = ["and", "or", "pi"];
        if is_math || known.contains(&trimmed) || is_function(trimmed) {
            let mut inner = Lexer { text: trimmed, at: 0, out: Vec::new() };
            if inner.run().is_some() {
                self.out.append(&mut inner.out);
                return Some(());
            }
        }
        self.out.push(Token::Text(trimmed.to_owned()));
        Some(())
    }

    /// A run of plain letters: a function, a constant, single variables, or a word.
    fn letters(&mut self) {
        let length = self.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
        let run = self.rest()[..length].to_owned();
        self.at += length;
        let lower = run.to_ascii_lowercase();
        if matches!(lower.as_str(), "and" | "or") {
            self.out.push(Token::Symbol(if lower == "or" { '∨' } else { ',' }));
            return;
        }
        // `(2,12)U(12,102)`
        let is_closed = matches!(self.out.last(), Some(Token::Symbol(')' | ']')));
        if run == "U" && is_closed && self.rest().trim_start().starts_with(['(', '[']) {
            self.out.push(Token::Symbol('∪'));
            return;
        }
        if is_function(&lower)
            || matches!(lower.as_str(), "pi" | "sqrt" | "inf" | "infinity" | "frac")
        {
            match lower.as_str() {
                "inf" | "infinity" => self.out.push(Token::Symbol('∞')),
                _ => self.out.push(Token::Name(lower)),
            }
            return;
        }
        // `5 cm` is a length, `cm` alone a product.
        let is_unit = matches!(self.out.last(), Some(Token::Number { .. }))
            && UNITS.contains(&lower.as_str());
        // Longer runs of letters are words; shorter ones products of variables, as in `xy`.
        let is_word =
            length > 2 && !(length == 3 && run.bytes().all(|b| b"abcnxyzpqrstuvw".contains(&b)));
        // Points of geometry are capitals: `NO` is a segment.
        let is_lower = run[1..].bytes().all(|b| b.is_ascii_lowercase());
        let is_short_word = length == 2 && is_lower && SHORT_WORDS.contains(&lower.as_str());
        if is_word || is_unit || is_short_word {
            self.out.push(Token::Text(run));
        } else {
            run.chars().for_each(|c| self.out.push(Token::Name(c.to_string())));
        }
    }
}

/// Whether ` 000` or `'000` follows: three digits and no further one.
fn is_thousand(rest: &str) -> bool {
    rest.strip_prefix([' ', '\''])
        .is_some_and(|rest| rest.bytes().take_while(u8::is_ascii_digit).count() == 3)
}
