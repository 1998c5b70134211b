//! LaTeX commands to tokens: styles disappear, wrappers of words become text, the others are symbols or names.

use super::alphabet::{IGNORED, STYLES, WORDS, is_function, symbol};
use super::lex::{Lexer, Token};
use super::tree::VECTOR;
use super::units::is_known;

impl Lexer<'_> {
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

    /// A character after its backslash.
    fn escaped(&mut self) -> Option<()> {
        let Some(c) = self.rest().chars().next() else { return Some(()) };
        self.at += c.len_utf8();
        match c {
            '{' => self.out.push(Token::Symbol('⦃')),
            '}' => self.out.push(Token::Symbol('⦄')),
            '%' => self.out.push(Token::Symbol('%')),
            '\\' => self.out.push(Token::Symbol('⏎')),
            '|' => self.out.push(Token::Symbol('|')),
            '$' => self.out.push(Token::Currency("dollar")),
            // `1{,}000` and `1\,000` are one number.
            ',' | '!' | ';' | ':' | ' ' | '(' | ')' | '[' | ']' | '&' | '#' | '_' | '"' | '/'
            | '-' => {
                self.join_thousands();
            }
            _ => return None,
        }
        Some(())
    }

    /// A command after its backslash.
    pub(super) fn command(&mut self) -> Option<()> {
        self.at += 1;
        let letters = self.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
        if letters == 0 {
            return self.escaped();
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
        if WORDS.contains(&name.as_str()) {
            let words = self.braced()?;
            return self.words(&words, name == "mathrm");
        }
        if let Some(vector) = self.unit_vector(&name) {
            self.out.push(Token::Name(vector));
            return Some(());
        }
        if STYLES.contains(&name.as_str()) {
            return Some(());
        }
        match name.as_str() {
            "begin" | "end" => {
                let kind = self.braced()?;
                if matches!(kind.as_str(), "cases" | "dcases" | "rcases") {
                    self.out.push(Token::Cases(name == "begin"));
                }
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
            "hspace" | "vspace" | "phantom" | "hphantom" | "label" | "tag" | "color"
            | "textcolor" | "colorbox" => {
                self.braced()?;
            }
            "approx" | "sim" | "simeq" => self.approximately(),
            "pounds" => self.out.push(Token::Currency("£")),
            "euro" => self.out.push(Token::Currency("€")),
            "pmod" | "bmod" => self.out.push(Token::Name("mod".into())),
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
    pub(super) fn approximately(&mut self) {
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
    fn words(&mut self, words: &str, is_upright: bool) -> Option<()> {
        let trimmed = words.trim_matches(|c: char| c.is_whitespace() || c == '~');
        // `\frac{\mathrm{gb}}{f}`: letters inside of a formula.
        let is_product = is_upright
            && matches!(self.out.last(), Some(Token::Symbol('{')))
            && trimmed.len() <= 3
            && trimmed.bytes().all(|byte| byte.is_ascii_lowercase())
            && !is_function(trimmed);
        if is_product {
            self.out.extend(trimmed.chars().map(|c| Token::Name(c.to_string())));
            return Some(());
        }
        // `5\text{ m}` has a unit, as has `5\text{ min}`; `\text{B}` is a letter, `\text{min}` a function.
        let is_unit = is_known(trimmed) && matches!(self.out.last(), Some(Token::Number { .. }));
        let is_math = (trimmed.chars().count() == 1 && !is_unit)
            || trimmed.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        if trimmed.is_empty() {
            return Some(());
        }
        let known = ["and", "or", "pi", "tg", "ctg"];
        if is_math || known.contains(&trimmed) || (is_function(trimmed) && !is_unit) {
            let mut inner = Lexer { text: trimmed, at: 0, out: Vec::new() };
            if inner.run().is_some() {
                self.out.append(&mut inner.out);
                return Some(());
            }
        }
        self.out.push(Token::Text(trimmed.to_owned()));
        Some(())
    }

    /// A vector of the standard basis: `\vec{i}`, `\hat{\jmath}`, `\mathbf{k}`.
    fn unit_vector(&mut self, style: &str) -> Option<String> {
        if !matches!(style, "vec" | "hat" | "mathbf" | "boldsymbol" | "bm") {
            return None;
        }
        let (start, argument) = (self.at, self.braced());
        let letter = match argument.as_deref().map(str::trim) {
            Some("i" | "\\imath" | "\\hat{i}" | "\\mathbf{i}") => "i",
            Some("j" | "\\jmath" | "\\hat{j}" | "\\mathbf{j}") => "j",
            Some("k" | "\\hat{k}" | "\\mathbf{k}") => "k",
            _ => {
                self.at = start;
                return None;
            }
        };
        Some(format!("{VECTOR}{letter}"))
    }
}
