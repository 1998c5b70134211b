//! LaTeX commands to tokens: styles disappear, wrappers of words become text, the others are symbols or names.

use super::alphabet::{IGNORED, SIGNS, STYLES, WORDS, is_function, symbol};
use super::answer::closing;
use super::arrows::arrow;
use super::lex::{Lexer, Rows, Token};
use super::scan::{before_end, begins, has_digits, is_one_of, past, pattern};
use super::tree::VECTOR;
use super::units::{is_known, is_unit, unit_words, with_greek};

impl Lexer<'_> {
    /// The text of a braced argument at the cursor, which moves past it.
    fn braced(&mut self) -> Option<String> {
        let rest = self.rest().trim_start();
        self.at = self.text.len() - rest.len();
        let inner = rest.strip_prefix('{')?;
        let close = closing(inner)?;
        self.at += close + 2;
        Some(inner[..close].to_owned())
    }

    /// A character after its backslash.
    fn escaped(&mut self) -> Option<()> {
        let Some(c) = self.rest().chars().next() else { return Some(()) };
        self.at += c.len_utf8();
        match c {
            '{' => self.out.push(Token::Symbol('⦃')),
            '}' => self.out.push(Token::Symbol('⦄')),
            '%' => self.out.push(Token::Symbol('%')),
            '\\' => {
                let is_line = self.lines.last() == Some(&Rows::Lines);
                self.out.push(Token::Symbol(if is_line { ',' } else { '⏎' }));
            }
            '|' => self.out.push(Token::Symbol('‖')),
            '$' => self.out.push(Token::Currency("dollar")),
            // `1{,}000` and `1\,000` are one number.
            '&' => self.out.push(Token::Symbol(',')),
            ',' | '!' | ';' | ':' | ' ' | '(' | ')' | '[' | ']' | '#' | '_' | '"' | '/' | '-' => {
                self.join_thousands();
                self.between_brackets();
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
        if is_one_of(&name, IGNORED) {
            // `\left.` is an empty bracket.
            if matches!(name.as_str(), "left" | "right") && self.rest().starts_with('.') {
                self.at += 1;
            }
            return Some(());
        }
        if is_one_of(&name, WORDS) {
            // `2\mathrm i`: the next character alone.
            if !self.rest().trim_start().starts_with('{') {
                return Some(());
            }
            let words = self.braced()?;
            return self.words(&words, name == "mathrm");
        }
        if let Some(vector) = self.unit_vector(&name).or_else(|| self.between_points(&name)) {
            self.out.push(Token::Name(vector));
            return Some(());
        }
        let is_set = name == "mathbf" && begins(self.rest(), "{R}|{N}|{Z}|{Q}");
        if is_one_of(&name, STYLES) && !is_set {
            self.styled_letter();
            return Some(());
        }
        match name.as_str() {
            "begin" | "end" => {
                let kind = self.braced()?;
                match name.as_str() {
                    "begin" => self.begin(&kind)?,
                    _ => match self.lines.pop() {
                        Some(Rows::Matrix) => self.out.push(Token::Matrix(false)),
                        Some(Rows::Cases) => self.out.push(Token::Cases(false)),
                        _ => {}
                    },
                }
            }
            "num" | "numprint" | "SI" | "qty" | "si" | "unit" | "ang" => self.quantity(&name)?,
            "dfrac" | "tfrac" | "cfrac" | "frac" | "nicefrac" | "sfrac" | "xfrac" | "flatfrac"
            | "rfrac" => self.out.push(Token::Name("frac".into())),
            "binom" | "dbinom" | "tbinom" => self.out.push(Token::Name("binom".into())),
            // `\mathbf{N}` in textbooks.
            "mathbb" | "mathbf" => self.number_set()?,
            "hspace" | "vspace" | "phantom" | "hphantom" | "label" | "tag" | "color"
            | "textcolor" | "colorbox" => {
                self.braced()?;
            }
            "approx" | "sim" | "simeq" => self.approximately(),
            // Of values and relations they join a list, of statements they are signs.
            "land" | "wedge" if has_values(self.text) => self.symbol(0, ','),
            "lor" | "vee" if has_values(self.text) => self.symbol(0, '∨'),
            // Of vectors it is no product of numbers.
            "times" if is_cross(self.text) => self.symbol(0, '⨯'),
            // `\phi` and `\varphi` are one letter, where a text does not have both.
            "varepsilon" | "varphi" if !self.text.contains(&format!("\\{}", &name[3..])) => {
                self.out.push(Token::Name(name[3..].to_owned()));
            }
            "pounds" => self.out.push(Token::Currency("£")),
            "euro" => self.out.push(Token::Currency("€")),
            "pmod" | "bmod" => self.out.push(Token::Name("mod".into())),
            _ if name.starts_with("quad") || name.starts_with("qquad") => {
                self.at -= name.len() - name.find("quad").map_or(0, |at| at + 4);
                self.between_brackets();
            }
            "not" if self.rest().trim_start().starts_with('=') => {
                self.at = self.text.len() - self.rest().trim_start().len();
                self.symbol(1, '≠');
            }
            "thinspace" | "mathord" => self.join_thousands(),
            "Omega" | "mu" if self.greek_unit(name == "mu") => {}
            _ => match symbol(&name) {
                // `\Rightarrow 5`
                Some('→') if self.out.is_empty() => {}
                Some(sign) if SIGNS.contains(sign) => self.out.push(Token::Name(sign.into())),
                Some(symbol) => self.out.push(Token::Symbol(symbol)),
                None => self.out.push(Token::Name(name)),
            },
        }
        Some(())
    }

    /// A letter alone in the braces behind a style: `\mathcal{N}(0, 1)`.
    fn styled_letter(&mut self) {
        if let [b'{', letter, b'}', ..] = self.rest().as_bytes()
            && letter.is_ascii_alphabetic()
        {
            self.token(3, Token::Name(char::from(*letter).to_string()));
        }
    }

    /// A Greek letter that is a unit or its prefix behind a number: `2\text{ k}\Omega`, `4.7\,\mu F`.
    fn greek_unit(&mut self, is_prefix: bool) -> bool {
        let rest = self.rest().trim_start();
        let unit = rest.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        let words = match self.out.as_slice() {
            [.., Token::Number { .. }] if !is_prefix => "Ω".to_owned(),
            [.., Token::Number { .. }] if unit.len() <= 3 && is_known(unit) => {
                self.at = self.text.len() - rest.len() + unit.len();
                format!("μ{unit}")
            }
            [.., Token::Number { .. }, Token::Name(name) | Token::Text(name)]
                if !is_prefix && is_one_of(name, "m|k|M|G|T|mega|kilo|milli") =>
            {
                let words = format!("{name}Ω");
                self.out.pop();
                words
            }
            _ => return false,
        };
        self.out.push(Token::Text(words));
        true
    }

    /// A command of siunitx: a number, a unit, both, or an angle.
    fn quantity(&mut self, name: &str) -> Option<()> {
        if name == "ang" {
            let angle = self.braced()?;
            for (part, mark) in angle.split(';').zip(["^\\circ ", "'", "''"]) {
                self.inner(&format!("{part}{mark}"))?;
            }
            return Some(());
        }
        if !matches!(name, "si" | "unit") {
            let number = self.braced()?;
            self.inner(&number)?;
        }
        if !name.starts_with("num") {
            let unit = self.braced()?;
            self.out.push(Token::Text(unit_words(&unit)));
        }
        Some(())
    }

    /// The letter of `\mathbb`.
    fn number_set(&mut self) -> Option<()> {
        let rest = self.rest().trim_start();
        let name = match rest.chars().next() {
            Some(letter) if letter.is_ascii_alphabetic() => {
                self.at = self.text.len() - rest.len() + 1;
                letter.to_string()
            }
            _ => self.braced()?,
        };
        self.out.push(match name.trim() {
            "R" => Token::Symbol('ℝ'),
            other => Token::Name(other.to_owned()),
        });
        Some(())
    }

    /// A wide space between two points parts them: `(2, 3) \quad (3, 2)`.
    pub(super) fn between_brackets(&mut self) {
        let is_behind = matches!(self.out.last(), Some(Token::Symbol(')' | ']' | '⦄')));
        if is_behind && self.rest().trim_start().starts_with(['(', '[']) {
            self.out.push(Token::Symbol(','));
        }
    }

    /// A value after "about" approximates the one before it, and is not read unless that is only a name.
    pub(super) fn approximately(&mut self) {
        if self.out.last() == Some(&Token::Symbol('(')) {
            // `\frac{2}{3}\ (\approx 66.7\%)`
            self.out.pop();
            self.at = self.text.len();
        } else if self.out.is_empty() {
            // `\approx 3.14` is all there is.
        } else if self.out.iter().all(|token| matches!(token, Token::Name(_))) {
            let is_value = has_digits(self.rest());
            self.out.push(if is_value { Token::Symbol('=') } else { Token::Name("sim".into()) });
        } else {
            self.at = self.text.len();
        }
    }

    /// A thin space or an escaped comma between digits joins them into one number.
    fn join_thousands(&mut self) {
        let is_three = self.rest().bytes().take_while(u8::is_ascii_digit).count() == 3;
        if self.is_behind_number() && is_three {
            self.out.push(Token::TightComma);
        }
    }

    /// The inside of a `\text`: a number or letter stays mathematics, words become text.
    fn words(&mut self, words: &str, is_upright: bool) -> Option<()> {
        let words = with_greek(words);
        let trimmed = words.trim_matches(|c: char| c.is_whitespace() || c == '~');
        // `\frac{\mathrm{gb}}{f}`: letters inside of a formula.
        let is_opened = match self.out.last() {
            Some(Token::Symbol('{')) => trimmed.len() <= 3,
            // `F = \mathrm{ma}`
            Some(Token::Symbol('=')) => trimmed.len() == 2,
            _ => false,
        };
        let is_product = is_upright
            && is_opened
            && trimmed.bytes().all(|byte| byte.is_ascii_alphabetic())
            && !is_known(trimmed)
            && !is_one_of(trimmed, "no|or|if|is|in|of|to|on")
            && !is_function(trimmed);
        if is_product {
            self.out.extend(trimmed.chars().map(|c| Token::Name(c.to_string())));
            return Some(());
        }
        // `5\text{ m}` has a unit, as has `5\text{ min}`; `\text{B}` is a letter, `\text{min}` a function.
        let has_unit = is_known(trimmed)
            && matches!(
                self.out.last(),
                Some(Token::Number { .. } | Token::Symbol('}' | ')' | '°'))
            )
            || self.is_behind_part();
        let is_math = (trimmed.chars().count() == 1 && !has_unit)
            || trimmed.starts_with(|c: char| c.is_ascii_digit() || "-$€£".contains(c))
            || trimmed.starts_with("\\$");
        if trimmed.is_empty() {
            return Some(());
        }
        // `60\text{ min or }1\text{ hour}`
        if let Some(unit) = trimmed.strip_suffix(" or").filter(|unit| is_unit(unit)) {
            self.out.extend([Token::Text(unit.to_owned()), Token::Symbol('∨')]);
            return Some(());
        }
        let known = ["and", "or", "pi", "tg", "ctg"];
        if is_math || known.contains(&trimmed) || (is_function(trimmed) && !has_unit) {
            let mark = self.out.len();
            if self.inner(trimmed).is_some() {
                return Some(());
            }
            self.out.truncate(mark);
        }
        // `n \text{ is even, and } 0`
        let condition = before_end(trimmed, ", and|, or|,| and| or|;");
        if let Some(condition) = condition.filter(|words| before_end(words, "even|odd").is_some()) {
            self.out.extend([Token::Text(condition.to_owned()), Token::Symbol(',')]);
            return Some(());
        }
        // `2\sqrt{3} \text{ or approximately } 3.46`
        if restates(trimmed) && !self.out.is_empty() {
            if self.out.last() == Some(&Token::Symbol('(')) {
                self.out.pop();
            }
            self.at = self.text.len();
            return Some(());
        }
        let is_latex = trimmed.contains('\\')
            || trimmed.contains("^{")
            || (is_upright && trimmed.contains('^'));
        self.out.push(Token::Text(if is_latex { unit_words(trimmed) } else { trimmed.to_owned() }));
        Some(())
    }

    /// The tokens of a text in an argument.
    fn inner(&mut self, text: &str) -> Option<()> {
        let mut inner = Lexer { text, at: 0, out: Vec::new(), lines: Vec::new() };
        inner.run()?;
        self.out.append(&mut inner.out);
        Some(())
    }

    /// Opens an environment.
    fn begin(&mut self, kind: &str) -> Option<()> {
        let kind = kind.trim_end_matches('*');
        let mut rows = match kind {
            "cases" | "dcases" | "rcases" | "numcases" => Rows::Cases,
            "array" => Rows::Matrix,
            _ if kind.contains("matrix") => Rows::Matrix,
            _ => Rows::Lines,
        };
        if matches!(kind, "array" | "alignedat") && self.rest().starts_with('{') {
            self.braced()?;
        }
        // `\left\{\begin{array}{l}x=1\\y=2\end{array}\right.`
        if kind == "array" && self.out.last() == Some(&Token::Symbol('⦃')) {
            self.out.pop();
            rows = Rows::Cases;
        }
        if rows == Rows::Lines && self.out.last() == Some(&Token::Symbol('⦃')) {
            self.out.pop();
        }
        if kind == "vmatrix" {
            self.out.push(Token::Determinant);
        }
        match rows {
            Rows::Matrix => self.out.push(Token::Matrix(true)),
            Rows::Cases => self.out.push(Token::Cases(true)),
            Rows::Lines => {}
        }
        self.lines.push(rows);
        Some(())
    }

    fn between_points(&mut self, style: &str) -> Option<String> {
        let (vector, length) = arrow(style, self.rest())?;
        self.at += length;
        Some(vector)
    }

    /// A vector of the standard basis: `\vec{i}`, `\hat{\jmath}`, `\mathbf{k}`.
    fn unit_vector(&mut self, style: &str) -> Option<String> {
        matches!(style, "vec" | "hat" | "mathbf" | "boldsymbol" | "bm").then_some(())?;
        let (start, argument) = (self.at, self.braced());
        let argument = argument.as_deref().map(str::trim);
        let is_letter = |letter: &&str| match argument {
            Some(text) => {
                let inner = past(text, "\\hat{|\\mathbf{").and_then(|text| text.strip_suffix('}'));
                inner.unwrap_or(text.trim_start_matches('\\').trim_end_matches("math")) == *letter
            }
            // `\vec i`
            None => style == "vec" && starts_alone(self.text[start..].trim_start(), letter),
        };
        let Some(letter) = ["i", "j", "k"].into_iter().find(is_letter) else {
            self.at = start;
            return None;
        };
        if argument.is_none() {
            self.at = self.text.len() - self.text[start..].trim_start().len() + 1;
        }
        Some(format!("{VECTOR}{letter}"))
    }
}

/// Whether a text has a number that is no index, or a relation.
fn has_values(text: &str) -> bool {
    pattern!(r"(?:^|[^_{0-9]|[^_]\{)[0-9]|[=<>≤≥]|\\(?:[lg]eq?|[lg]eqslant|neq?|in|lt|gt)\b")
        .is_match(text)
}

/// Whether a text has a product of vectors: `\vec a \times \vec b`.
fn is_cross(text: &str) -> bool {
    const VECTOR: &str = r"\\(?:vec|mathbf|boldsymbol|bm|overrightarrow)\b";
    pattern!(&format!(r"{VECTOR}[^\\+=(),-]*\\times *{VECTOR}")).is_match(text)
}

/// Whether a text begins with a letter that is not the first of a word.
fn starts_alone(text: &str, letter: &str) -> bool {
    text.strip_prefix(letter).is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
}

/// Whether words say that the value before them follows once more, rounded.
fn restates(words: &str) -> bool {
    let words = words.trim_start_matches([',', ' ']);
    let words = words.strip_prefix("or ").unwrap_or(words).trim();
    matches!(words, "approximately" | "approx." | "approx" | "about" | "roughly" | "equivalently")
}
