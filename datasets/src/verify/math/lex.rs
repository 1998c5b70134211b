//! Plain, LaTeX and unicode mathematics to tokens. One table for each alphabet; what is only
//! decoration (spacing, style, dollars) disappears here.

use dashu_ratio::RBig;

use super::alphabet::{SIGNS, fold, is_function};
use super::numerals::positional;
use super::program_output::as_latex;
use super::scan::is_digit;
use super::units;

/// Longest answer that is read, in bytes.
pub(super) const MAX_BYTES: usize = 4096;
/// Most digits of a number.
const MAX_DIGITS: usize = 2000;

/// One token of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A number; `decimals` is the place of its last digit behind the point, where it has a point or an exponent.
    Number { value: RBig, decimals: Option<i32>, digits: String },
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
    /// Opens and closes the cases of a function.
    Cases(bool),
    /// The sign of a currency, by the name of its unit.
    Currency(&'static str),
    /// A comma that may stand between thousands: `1,000` without a space.
    TightComma,
}

/// The tokens of an answer, `None` where it is too long or holds what no answer does.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    (text.len() <= MAX_BYTES).then_some(())?;
    let mut text = fold(&as_latex(text));
    // Escaped once too often: `\\\\frac` outside of a matrix, where `\\\\` ends a row.
    if text.contains("\\\\") && !text.contains("\\begin") {
        text = rows_as_list(&text.replace("\\\\ ", ", ")).replace("\\\\", "\\");
    }
    // Braces that only take the space from around a mark: `14{:}30`.
    let is_braced = |part: &[u8]| part[0] == b'{' && part[2] == b'}' && b":.=-/".contains(&part[1]);
    if text.as_bytes().windows(3).any(is_braced) {
        for mark in [":", ".", "=", "-", "/"] {
            text = text.replace(&format!("{{{mark}}}"), mark);
        }
    }
    if text.contains("{\\,}") {
        text = text.replace("{\\,}", "\\,");
    }
    let mut lexer = Lexer { text: &text, at: 0, out: Vec::new(), lines: Vec::new() };
    lexer.run()?;
    Some(lexer.out)
}

/// Breaks between equations as commas: `x=1\\y=2`.
fn rows_as_list(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, part) in text.split("\\\\").enumerate() {
        let bytes = part.as_bytes();
        let is_equation = bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.get(1).is_some_and(|byte| b"= &<>_".contains(byte));
        if number > 0 {
            out.push_str(if is_equation { ", " } else { "\\\\" });
        }
        out.push_str(part);
    }
    out
}

/// A cursor over a text: plain characters here, commands in `commands`.
pub(super) struct Lexer<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) out: Vec<Token>,
    /// The environments that are open, with what their rows are.
    pub(super) lines: Vec<Rows>,
}

/// What the rows of an environment are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// Rows of a matrix.
    Matrix,
    /// Pieces of a function, or equations that all hold.
    Cases,
    /// Lines of a derivation, or equations.
    Lines,
}

/// Characters that are tokens of their own.
const SYMBOLS: &str = "+-*/^_!()[]{}|;:=<>%&'?±≤≥≠∪∩∈∅∞°….∖⌊⌋⌈⌉‖ℝ";

impl<'a> Lexer<'a> {
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn run(&mut self) -> Option<()> {
        while let Some(c) = self.rest().chars().next() {
            match c {
                '0'..='9' => self.number()?,
                '.' if self.rest()[1..].starts_with(is_digit) => self.number()?,
                // `.\overline{12}` has no digit before its point.
                '.' if self.rest()[1..].starts_with("\\overline") => {
                    self.at += 1;
                    let (value, digits) = (RBig::ZERO, "0.".into());
                    self.out.push(Token::Number { value, decimals: Some(0), digits });
                }
                '\\' => self.command()?,
                'a'..='z' | 'A'..='Z' => self.letters(),
                ',' => self.comma(),
                '*' if self.rest().starts_with("**") => self.symbol(2, '^'),
                // `6!=720` is a factorial, `x != 5` a relation.
                '!' if self.is_factorial() => self.symbol(1, '!'),
                '<' if self.rest()[1..].starts_with('=') => self.symbol(2, '≤'),
                '>' if self.rest()[1..].starts_with('=') => self.symbol(2, '≥'),
                '!' if self.rest()[1..].starts_with('=') => self.symbol(2, '≠'),
                '.' if self.rest().starts_with("...") => self.symbol(3, '…'),
                '~' if self.rest().starts_with("~ ") && self.text[..self.at].ends_with(' ') => {
                    self.at += 1;
                    self.approximately();
                }
                '&' if self.lines.last() == Some(&Rows::Lines) => self.at += 1,
                '~' if is_thousand(&self.rest()[1..], "") && self.is_behind_number() => {
                    self.token(1, Token::TightComma);
                }
                '$' | '~' | '"' | '`' | '\t' | '\n' | '\r' | ' ' => self.at += 1,
                '✓' | '✔' | '✅' | '∎' | '■' | '□' | '∠' | '\u{fe0f}' => {
                    self.at += c.len_utf8()
                }
                c if SYMBOLS.contains(c) => self.symbol(c.len_utf8(), c),
                c if SIGNS.contains(c) && (c != '→' || !self.out.is_empty()) => {
                    self.token(c.len_utf8(), Token::Name(c.into()));
                }
                '≈' => {
                    self.at += c.len_utf8();
                    self.approximately();
                }
                '€' | '£' | '¥' | '￥' | '¢' | '₹' => {
                    self.token(c.len_utf8(), Token::Currency(currency(c)));
                }
                '₺' | '₩' | '₽' | '₫' | '₱' | '₪' | '฿' | '₦' | '₴' | '‰' => {
                    self.token(c.len_utf8(), Token::Text(c.to_string()));
                }
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

    /// A token of so many bytes.
    pub(super) fn token(&mut self, bytes: usize, token: Token) {
        self.at += bytes;
        self.out.push(token);
    }

    pub(super) fn symbol(&mut self, bytes: usize, symbol: char) {
        self.token(bytes, Token::Symbol(symbol));
    }

    /// A comma, which may part thousands.
    fn comma(&mut self) {
        self.at += 1;
        // `11,\! 111` is one number.
        let after = self.rest().trim_start();
        let thin = after.strip_prefix("\\!").or_else(|| after.strip_prefix("\\,"));
        if let Some(digits) = thin {
            self.at = self.text.len() - digits.trim_start().len();
        }
        let is_tight = self.is_behind_number() && self.rest().starts_with(is_digit);
        self.out.push(if is_tight { Token::TightComma } else { Token::Symbol(',') });
    }

    fn number(&mut self) -> Option<()> {
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let integer = digits(0);
        let mut end = integer;
        let mut part = 0;
        let mut exponent = 0;
        // `0..100` is a range and no product.
        if bytes[integer..].starts_with(b"..")
            && bytes.get(integer + 2).is_some_and(u8::is_ascii_digit)
        {
            return None;
        }
        if bytes.get(integer) == Some(&b'.') {
            part = digits(integer + 1);
            // A point without digits after it ends a sentence, or is decoration: `5.`
            if part > 0 || integer > 0 {
                end = integer + 1 + part;
            }
        }
        (end <= MAX_DIGITS).then_some(())?;
        let mut value = positional(&self.rest()[..end], 10)?;
        // `0.(3)`, `0.\overline{3}`: the point counts, though no digit follows it at once.
        let is_repeating = end > integer && self.rest()[end..].starts_with(['(', '\\']);
        let mut has_point = part > 0 || is_repeating;
        // 0.\overline{3}, 0.(3) are read by the parser; e-notation here.
        let after = &self.rest()[end..];
        let mut taken = end;
        if let Some(power) = after.strip_prefix(['e', 'E']) {
            let sign = power.starts_with(['-', '+']);
            let tail = &power[usize::from(sign)..];
            let count = tail.bytes().take_while(u8::is_ascii_digit).count();
            let is_number = count > 0
                && count <= 3
                && !tail[count..].starts_with(|c: char| c.is_ascii_alphanumeric());
            if is_number {
                exponent = power[..usize::from(sign) + count].parse().ok()?;
                value *= RBig::from(10).pow(exponent as isize);
                has_point = has_point || exponent < 0;
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
        // `\log_2 100`
        let is_lowered = self.out.last() == Some(&Token::Symbol('_'));
        if taken == integer && integer <= 3 && !is_lowered && is_thousand(self.rest(), " '") {
            self.out.push(Token::Number { value, decimals: None, digits });
            self.out.push(Token::TightComma);
            self.at += 1;
            return Some(());
        }
        let decimals = has_point.then_some(part as i32 - exponent);
        self.out.push(Token::Number { value, decimals, digits });
        Some(())
    }

    /// Whether no word follows, but the end, a mark or a number.
    pub(super) fn is_last(&self) -> bool {
        let next = self.rest().trim_start().chars().next();
        next.is_none_or(|c| c.is_ascii_digit() || ".,;)}$".contains(c))
    }

    pub(super) fn is_behind_number(&self) -> bool {
        // `\frac12 mgh` has no number but a fraction.
        let is_fraction = |digits: &str| match self.out.as_slice() {
            [.., Token::Name(name), _] => name == "frac" && digits.len() == 2,
            _ => false,
        };
        matches!(self.out.last(), Some(Token::Number { digits, .. }) if !is_fraction(digits))
    }

    /// Whether pi stands before, or a fraction in brackets as `¾` is read.
    pub(super) fn is_behind_part(&self) -> bool {
        match self.out.as_slice() {
            [
                ..,
                Token::Symbol('('),
                Token::Number { .. },
                Token::Symbol('/'),
                _,
                Token::Symbol(')'),
            ] => true,
            [.., Token::Name(name)] => name == "pi",
            _ => false,
        }
    }

    /// Whether an exclamation mark right behind a number or bracket is a factorial and not half of `!=`.
    fn is_factorial(&self) -> bool {
        self.rest().starts_with("!=")
            && self.text[..self.at].ends_with(|c: char| c.is_ascii_digit() || c == ')' || c == '}')
    }

    /// A run of plain letters: a function, a constant, single variables, or a word.
    fn letters(&mut self) {
        let length = self.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
        // `dólares`
        let whole = self.rest().find(|c: char| !c.is_alphabetic()).unwrap_or(self.rest().len());
        if whole > length {
            self.token(whole, Token::Text(self.rest()[..whole].to_lowercase()));
            return;
        }
        let is_number = self.is_behind_number();
        // `2.7 g/cm^3`
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '/' || c == '^';
        let unit = if is_number { self.rest().split(|c| !is_part(c)).next() } else { None };
        let unit = unit.unwrap_or_default();
        let mut letters =
            unit.split('/').map(|part| part.bytes().take_while(u8::is_ascii_alphabetic).count());
        if is_number && unit.contains('/') && letters.any(|count| count > 1) && units::is_unit(unit)
        {
            self.token(unit.len(), Token::Text(unit.replace('/', " per ")));
            return;
        }
        let run = self.rest()[..length].to_owned();
        self.at += length;
        let lower = run.to_ascii_lowercase();
        if let Some(token) = self.known(&run, &lower) {
            self.out.push(token);
            return;
        }
        if self.money(&run) {
            return;
        }
        if self.is_text(&run) {
            self.out.push(Token::Text(run));
        } else {
            run.chars().for_each(|c| self.out.push(Token::Name(c.to_string())));
        }
    }

    /// The token that a run of letters is by its name and what stands around it.
    fn known(&self, run: &str, lower: &str) -> Option<Token> {
        let next = self.rest().trim_start();
        let first = next.chars().next();
        let is_number = self.is_behind_number();
        let is_last = self.is_last();
        let is_between = is_number && first.is_some_and(|c| c.is_ascii_digit());
        let is_closed = matches!(self.out.last(), Some(Token::Symbol(')' | ']')));
        let name = || Token::Name(lower.to_owned());
        let is_apart = !self.out.is_empty() && next.len() < self.rest().len() || self.text == run;
        Some(match lower {
            "and" => Token::Symbol(','),
            "or" => Token::Symbol('∨'),
            "und" | "et" if is_apart => Token::Symbol(','),
            "oder" | "ou" if is_apart => Token::Symbol('∨'),
            // `(2,12)U(12,102)`
            "u" if run == "U" && is_closed && next.starts_with(['(', '[']) => Token::Symbol('∪'),
            // As SymPy prints the imaginary unit and e: `3 - 4*I`, `E**16`.
            "i" if run == "I" && self.out.last() == Some(&Token::Symbol('*')) => name(),
            "e" if run == "E" && self.rest().starts_with("**") => name(),
            "inf" | "infinity" => Token::Symbol('∞'),
            "oo" if run == "oo" => Token::Symbol('∞'),
            // `4.5 x 10^4`, "2 over 3", "18 a day"
            "x" if is_between => Token::Symbol('*'),
            "over" if is_between && run == "over" => Token::Symbol('/'),
            "a" | "an"
                if is_number && next.chars().take_while(|c| c.is_alphabetic()).count() > 1 =>
            {
                Token::Text("per".into())
            }
            // `5 min` is a duration, `5 min(2, 3)` a product.
            "min" | "sec" if is_last && is_number => Token::Text(lower.to_owned()),
            "pi" | "sqrt" | "frac" => name(),
            "tg" | "ctg" if self.text.trim() == run => name(),
            _ if is_function(lower) => name(),
            _ => return None,
        })
    }
}

/// The name of a currency's unit.
fn currency(sign: char) -> &'static str {
    match sign {
        '€' => "€",
        '£' => "£",
        '¢' => "¢",
        '₹' => "₹",
        _ => "¥",
    }
}

/// Whether ` 000` or `'000` follows: three digits and no further one.
pub(super) fn is_thousand(rest: &str, marks: &str) -> bool {
    let rest = if marks.is_empty() { Some(rest) } else { rest.strip_prefix(|c| marks.contains(c)) };
    rest.is_some_and(|rest| rest.bytes().take_while(u8::is_ascii_digit).count() == 3)
}
