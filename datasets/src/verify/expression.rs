//! Arithmetic expressions over small integers: parsing, exact evaluation, a canonical form.
//!
//! Grammar: `sum := product (('+'|'-') product)*`, `product := atom (('*'|'/') atom)*`,
//! `atom := digits | '(' sum ')'`. Canonical form: two expressions that differ only by the order of
//! operands of `+` and `*` (and by how subtractions and divisions are nested inside such a chain)
//! share it, so `3+9`, `9+3` and `(3)+9` are one answer, `3*8` and `3*2*4` are two.

use dashu_ratio::RBig;

/// Deepest nesting of parentheses that is read; deeper text is refused, never a stack overflow.
const MAX_DEPTH: usize = 32;
/// Most digits of one number that are read.
const MAX_DIGITS: usize = 9;

/// The four operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// Addition, `+`.
    Add,
    /// Subtraction, `-`.
    Sub,
    /// Multiplication, `*`.
    Mul,
    /// Division, `/`.
    Div,
}

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// A whole number.
    Number(u32),
    /// `left operator right`.
    Binary(Operator, Box<Expression>, Box<Expression>),
}

impl Expression {
    /// Reads the whole of `text`; spaces are ignored. `None` if anything is outside the grammar, a number has more than
    /// nine digits, or brackets nest deeper than 32 levels.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
        let mut parser = Parser { bytes: &bytes, at: 0, depth: 0 };
        let expression = parser.sum()?;
        (parser.at == bytes.len()).then_some(expression)
    }

    /// The exact value; `None` where something is divided by zero.
    pub fn value(&self) -> Option<RBig> {
        match self {
            Expression::Number(n) => Some(RBig::from(*n)),
            Expression::Binary(operator, left, right) => {
                let (left, right) = (left.value()?, right.value()?);
                match operator {
                    Operator::Add => Some(left + right),
                    Operator::Sub => Some(left - right),
                    Operator::Mul => Some(left * right),
                    Operator::Div if right == RBig::ZERO => None,
                    Operator::Div => Some(left / right),
                }
            }
        }
    }

    /// The numbers it uses, from left to right.
    pub fn numbers(&self) -> Vec<u32> {
        match self {
            Expression::Number(n) => vec![*n],
            Expression::Binary(_, left, right) => {
                let mut numbers = left.numbers();
                numbers.extend(right.numbers());
                numbers
            }
        }
    }

    /// The form that all spellings of the same answer share.
    pub fn canonical(&self) -> String {
        let Some(chain) = self.as_chain() else { return self.to_string() };
        let sorted = |members: &[&Expression]| {
            let mut members: Vec<String> = members.iter().map(|one| one.canonical()).collect();
            members.sort();
            members
        };
        let mut text = sorted(&chain.direct).join(chain.symbols[0]);
        for member in sorted(&chain.inverted) {
            text.push_str(chain.symbols[1]);
            text.push_str(&member);
        }
        format!("({text})")
    }

    fn as_chain(&self) -> Option<Chain<'_>> {
        let Expression::Binary(operator, ..) = self else { return None };
        let symbols = match operator {
            Operator::Add | Operator::Sub => ["+", "-"],
            Operator::Mul | Operator::Div => ["*", "/"],
        };
        let mut chain = Chain { symbols, direct: Vec::new(), inverted: Vec::new() };
        chain.collect(self, false);
        Some(chain)
    }
}

/// The operands of a chain of `+ -`, or of `* /`, however they were nested.
struct Chain<'a> {
    symbols: [&'static str; 2],
    direct: Vec<&'a Expression>,
    /// Those that are subtracted, or divided by.
    inverted: Vec<&'a Expression>,
}

impl<'a> Chain<'a> {
    fn collect(&mut self, from: &'a Expression, is_inverted: bool) {
        let (direct, inverse) = match self.symbols[0] {
            "+" => (Operator::Add, Operator::Sub),
            _ => (Operator::Mul, Operator::Div),
        };
        match from {
            Expression::Binary(operator, left, right)
                if *operator == direct || *operator == inverse =>
            {
                self.collect(left, is_inverted);
                self.collect(right, is_inverted != (*operator == inverse));
            }
            other if is_inverted => self.inverted.push(other),
            other => self.direct.push(other),
        }
    }
}

impl std::fmt::Display for Expression {
    /// Infix with the fewest parentheses that keep the tree.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Expression::Binary(operator, left, right) = self else {
            let Expression::Number(n) = self else { unreachable!("two variants") };
            return write!(f, "{n}");
        };
        let (symbol, weak_left, weak_right): (_, &[Operator], &[Operator]) = match operator {
            Operator::Add => ('+', &[], &[]),
            Operator::Sub => ('-', &[], &[Operator::Add, Operator::Sub]),
            Operator::Mul => {
                ('*', &[Operator::Add, Operator::Sub], &[Operator::Add, Operator::Sub])
            }
            Operator::Div => (
                '/',
                &[Operator::Add, Operator::Sub],
                &[Operator::Add, Operator::Sub, Operator::Mul, Operator::Div],
            ),
        };
        write_operand(f, left, weak_left)?;
        write!(f, "{symbol}")?;
        write_operand(f, right, weak_right)
    }
}

/// Writes an operand, in parentheses when its own operator is one of `weak`.
fn write_operand(
    f: &mut std::fmt::Formatter<'_>,
    operand: &Expression,
    weak: &[Operator],
) -> std::fmt::Result {
    match operand {
        Expression::Binary(operator, ..) if weak.contains(operator) => write!(f, "({operand})"),
        _ => write!(f, "{operand}"),
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn sum(&mut self) -> Option<Expression> {
        self.chain(Self::product, [(b'+', Operator::Add), (b'-', Operator::Sub)])
    }

    fn product(&mut self) -> Option<Expression> {
        self.chain(Self::atom, [(b'*', Operator::Mul), (b'/', Operator::Div)])
    }

    /// `operand (operator operand)*`, grouped to the left.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Option<Expression>,
        operators: [(u8, Operator); 2],
    ) -> Option<Expression> {
        let mut left = operand(self)?;
        while let Some(byte) = self.bytes.get(self.at) {
            let Some((_, operator)) = operators.iter().find(|(symbol, _)| symbol == byte) else {
                break;
            };
            self.at += 1;
            let right = operand(self)?;
            left = Expression::Binary(*operator, Box::new(left), Box::new(right));
        }
        Some(left)
    }

    fn atom(&mut self) -> Option<Expression> {
        if self.bytes.get(self.at) == Some(&b'(') {
            if self.depth == MAX_DEPTH {
                return None;
            }
            self.at += 1;
            self.depth += 1;
            let inner = self.sum()?;
            self.depth -= 1;
            if self.bytes.get(self.at) != Some(&b')') {
                return None;
            }
            self.at += 1;
            return Some(inner);
        }
        let rest = &self.bytes[self.at..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || digits > MAX_DIGITS {
            return None;
        }
        let number = rest[..digits].iter().fold(0, |n, byte| n * 10 + u32::from(byte - b'0'));
        self.at += digits;
        Some(Expression::Number(number))
    }
}
