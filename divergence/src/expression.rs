//! Text to a bounded tree of arithmetic: `(t - 1)^2 / (t + 1)`, `where(r > 0, 1, mean(r))`.
//!
//! Formulas of divergences and rules of advantages are read by the same grammar; what a name or a function means is
//! theirs. Length, depth and size are bounded and nothing can loop, so a stranger's settings may hold either:
//!
//! ```text
//! comparison = sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
//! sum        = product {("+" | "-") product}
//! product    = unary {("*" | "/") unary}
//! unary      = "-" unary | power
//! power      = atom ["^" unary]
//! atom       = NUMBER | NAME | NAME "(" comparison {("," | ";") comparison} ")" | "(" comparison ")"
//! ```

use anyhow::{Result, bail};

/// Longest text, in characters.
const MAX_LENGTH: usize = 512;

/// Deepest nesting.
const MAX_DEPTH: usize = 32;

/// A parsed expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A constant.
    Number(f64),
    /// A variable.
    Name(String),
    /// `-a`.
    Negative(Box<Expression>),
    /// `a + b` and the other operations of two operands.
    Binary(Operator, Box<Expression>, Box<Expression>),
    /// `name(a, b)`.
    Call(String, Vec<Expression>),
}

/// An operation of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// `a * b`.
    Multiply,
    /// `a / b`.
    Divide,
    /// `a ^ b`.
    Power,
    /// `a < b`: 1 or 0, as all comparisons.
    Less,
    /// `a <= b`.
    AtMost,
    /// `a > b`.
    Greater,
    /// `a >= b`.
    AtLeast,
    /// `a == b`.
    Equal,
    /// `a != b`.
    Unequal,
}

/// Comparisons as they are written; those of two characters come first.
const COMPARISONS: [(&str, Operator); 6] = [
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

impl Expression {
    /// Reads a text.
    ///
    /// # Errors
    /// A text that is too long or nested too deep, or that is no expression: the message names the character.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_LENGTH {
            bail!("a formula has at most {MAX_LENGTH} characters, not {}", text.len());
        }
        if let Some(odd) = text.chars().find(|c| !c.is_ascii() || c.is_ascii_control()) {
            let meant = SIGNS.iter().find(|(signs, _)| signs.contains(odd));
            let meant = meant.map_or(String::new(), |(_, sign)| format!("; write `{sign}`"));
            bail!("a formula cannot contain {odd:?}{meant}");
        }
        let mut reader = Reader { text, at: 0, depth: 0 };
        let whole = reader.comparison()?;
        match reader.rest() {
            "" => Ok(whole),
            rest => bail!("{} does not belong there{}", reader.shown(rest), mend(rest)),
        }
    }

    /// Every name that is read as a variable, in the order of the text.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Expression::Number(_) => vec![],
            Expression::Name(name) => vec![name],
            Expression::Negative(a) => a.names(),
            Expression::Binary(_, a, b) => [a.names(), b.names()].concat(),
            Expression::Call(_, all) => all.iter().flat_map(Expression::names).collect(),
        }
    }

    /// The name of every function that is called.
    pub fn calls(&self) -> Vec<&str> {
        match self {
            Expression::Number(_) | Expression::Name(_) => vec![],
            Expression::Negative(a) => a.calls(),
            Expression::Binary(_, a, b) => [a.calls(), b.calls()].concat(),
            Expression::Call(name, all) => std::iter::once(name.as_str())
                .chain(all.iter().flat_map(Expression::calls))
                .collect(),
        }
    }
}

/// Signs of mathematics, and how a formula writes them.
const SIGNS: [(&str, &str); 8] = [
    ("\u{2212}\u{2013}", "-"),
    ("\u{b7}\u{d7}\u{22c5}", "*"),
    ("\u{f7}", "/"),
    ("\u{b2}", "^2"),
    ("\u{bd}", "0.5"),
    ("\u{221a}", "sqrt(...)"),
    ("\u{2264}", "<="),
    ("\u{2265}", ">="),
];

/// How a text that does not belong where it stands is written.
fn mend(rest: &str) -> &'static str {
    match rest.chars().next() {
        Some('\\') => "; a formula is no LaTeX: write log(t), sqrt(t), (a)/(b)",
        Some('*') => "; a power is written ^",
        Some('|') => "; write abs(...)",
        Some('=') => "; equal is written ==",
        Some('.') => "; a function stands before its argument, as in mean(r)",
        Some(c) if c.is_ascii_alphanumeric() || c == '(' => {
            "; factors need a `*` between them, and arguments brackets"
        }
        _ => "",
    }
}

/// Names that papers and other programs have for what has another name here.
const SYNONYMS: [(&str, &str); 8] = [
    ("ln", "log"),
    ("u", "t"),
    ("ratio", "t"),
    ("reward", "r"),
    ("rewards", "r"),
    ("logp_ref", "logp_base"),
    ("ref_logp", "logp_base"),
    ("avg", "mean"),
];

/// `, did you mean ...` for a name that is like a known one, or means the same elsewhere.
pub fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    /// Jaro-Winkler similarity of a name that may be meant.
    const LEAST: f64 = 0.75;
    let known: Vec<&str> = known.into_iter().collect();
    let lower = name.to_ascii_lowercase();
    let same = SYNONYMS.iter().find(|(other, _)| *other == lower).map_or(&*lower, |(_, same)| same);
    if let Some(meant) = known.iter().find(|one| **one == same) {
        return format!(", did you mean `{meant}`?");
    }
    let scored = known.into_iter().map(|known| (strsim::jaro_winkler(name, known), known));
    match scored.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, known)) if likeness > LEAST => format!(", did you mean `{known}`?"),
        _ => String::new(),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_there = self.rest().starts_with(sign);
        if is_there {
            self.at += sign.len();
        }
        is_there
    }

    fn shown(&self, rest: &str) -> String {
        let word: String = rest.chars().take(12).collect();
        format!("`{word}` at character {} of `{}`", self.at + 1, self.text)
    }

    /// A part that is nested one deeper.
    fn nested(&mut self, part: impl FnOnce(&mut Self) -> Result<Expression>) -> Result<Expression> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            bail!("a formula is nested at most {MAX_DEPTH} deep");
        }
        let read = part(self);
        self.depth -= 1;
        read
    }

    fn comparison(&mut self) -> Result<Expression> {
        let left = self.sum()?;
        match COMPARISONS.iter().find(|(sign, _)| self.take(sign)) {
            Some((_, operator)) => Ok(binary(*operator, left, self.sum()?)),
            None => Ok(left),
        }
    }

    fn sum(&mut self) -> Result<Expression> {
        self.chain([("+", Operator::Add), ("-", Operator::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Expression> {
        self.chain([("*", Operator::Multiply), ("/", Operator::Divide)], Self::unary)
    }

    /// Operands with signs of equal rank between them, from left to right.
    fn chain(
        &mut self,
        signs: [(&str, Operator); 2],
        operand: fn(&mut Self) -> Result<Expression>,
    ) -> Result<Expression> {
        let mut left = operand(self)?;
        while let Some((_, operator)) = signs.iter().find(|(sign, _)| self.take(sign)) {
            left = binary(*operator, left, operand(self)?);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression> {
        if self.take("-") {
            return Ok(Expression::Negative(Box::new(self.nested(Self::unary)?)));
        }
        let base = self.atom()?;
        match self.take("^") {
            true => Ok(binary(Operator::Power, base, self.nested(Self::unary)?)),
            false => Ok(base),
        }
    }

    fn atom(&mut self) -> Result<Expression> {
        if self.take("(") {
            let inner = self.nested(Self::comparison)?;
            return self.close().map(|()| inner);
        }
        let rest = self.rest();
        let first = rest.chars().next();
        if first.is_some_and(|c| c.is_ascii_digit() || c == '.') {
            return self.number(rest);
        }
        let name = rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next();
        let name = name.filter(|name| !name.is_empty());
        let Some(name) = name else {
            match rest {
                "" => bail!("`{}` ends where a number or a name is needed", self.text),
                rest => {
                    bail!("{} is neither a number nor a name{}", self.shown(rest), mend(rest))
                }
            }
        };
        self.at += name.len();
        if !self.take("(") {
            return Ok(Expression::Name(name.to_owned()));
        }
        let mut arguments = vec![self.nested(Self::comparison)?];
        // In lists that commas separate, a semicolon stands for the comma.
        while self.take(",") || self.take(";") {
            arguments.push(self.nested(Self::comparison)?);
        }
        self.close().map(|()| Expression::Call(name.to_owned(), arguments))
    }

    fn close(&mut self) -> Result<()> {
        if !self.take(")") {
            let rest = self.rest();
            bail!("{}: a `)` is missing{}", self.shown(rest), mend(rest));
        }
        Ok(())
    }

    fn number(&mut self, rest: &str) -> Result<Expression> {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let mut length = rest.find(|c| !is_digit(c)).unwrap_or(rest.len());
        let exponent = rest[length..].strip_prefix(['e', 'E']);
        if let Some(exponent) = exponent {
            let digits = exponent.trim_start_matches(['+', '-']);
            let count = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            // `2e` is no number, and no product either.
            length += 1 + (exponent.len() - digits.len()) + count;
        }
        let word = &rest[..length];
        match word.parse::<f64>() {
            Ok(value) if value.is_finite() => {
                self.at += length;
                Ok(Expression::Number(value))
            }
            _ => bail!("{} is not a number", self.shown(word)),
        }
    }
}

fn binary(operator: Operator, a: Expression, b: Expression) -> Expression {
    Expression::Binary(operator, Box::new(a), Box::new(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> f64 {
        fn evaluated(one: &Expression) -> f64 {
            match one {
                Expression::Number(x) => *x,
                Expression::Negative(a) => -evaluated(a),
                Expression::Binary(operator, a, b) => match operator {
                    Operator::Add => evaluated(a) + evaluated(b),
                    Operator::Subtract => evaluated(a) - evaluated(b),
                    Operator::Multiply => evaluated(a) * evaluated(b),
                    Operator::Divide => evaluated(a) / evaluated(b),
                    Operator::Power => evaluated(a).powf(evaluated(b)),
                    Operator::Greater => f64::from(evaluated(a) > evaluated(b)),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
        evaluated(&Expression::parse(text).unwrap())
    }

    #[test]
    fn precedence_is_that_of_mathematics() {
        assert_eq!(value("1 - 2 - 3*4/2"), -7.0);
        assert_eq!(value("-2^2"), -4.0);
        assert_eq!(value("2^-1 + 2^3^2"), 512.5);
        assert_eq!(value("1.5e2 + .5e-1 > (3 - 1)"), 1.0);
        assert_eq!(value("2--3"), 5.0);
    }

    #[test]
    fn what_is_no_expression_is_refused_with_its_place() {
        for (text, reason) in [
            ("", "ends where a number"),
            ("(t-1", "a `)` is missing"),
            ("t 2", "`2` at character 3 of `t 2` does not belong there; factors need a `*`"),
            ("2(t-1)", "; factors need a `*` between them"),
            ("(t log(t))", "a `)` is missing; factors need a `*`"),
            ("t**2", "; a power is written ^"),
            ("|t-1|", "; write abs(...)"),
            ("t\\log t", "; a formula is no LaTeX"),
            ("r - r.mean()", "as in mean(r)"),
            ("r = 1", "; equal is written =="),
            ("(t\u{2212}1)\u{b2}", "cannot contain '\u{2212}'; write `-`"),
            ("t\u{b2}", "cannot contain '\u{b2}'; write `^2`"),
            ("t * )", "`)` at character 5"),
            ("1e", "is not a number"),
            ("1.2.3", "is not a number"),
            ("1e999", "is not a number"),
            ("log()", "neither a number nor a name"),
            ("t\u{e9}", "cannot contain"),
            ("a < b < c", "does not belong there"),
        ] {
            let error = Expression::parse(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(Expression::parse(&"(".repeat(40)).unwrap_err().to_string().contains("32 deep"));
        assert!(Expression::parse(&"-".repeat(400)).unwrap_err().to_string().contains("32 deep"));
        assert!(Expression::parse(&"1+".repeat(400)).unwrap_err().to_string().contains("512"));
        assert_eq!(similar("men", ["mean", "std"]), ", did you mean `mean`?");
        assert_eq!(similar("quux", ["mean", "std"]), "");
        assert_eq!(similar("R", ["r", "std"]), ", did you mean `r`?");
        assert_eq!(similar("ln", ["log", "exp"]), ", did you mean `log`?");
        assert_eq!(Expression::parse("where(r>c, n, r)").unwrap().names(), ["r", "c", "n", "r"]);
    }
}
