//! The parsed form of an answer: expressions, and the structures around them.

use dashu_base::Sign;
use dashu_ratio::RBig;

/// Before the letter of a vector of the standard basis, in the name of its variable.
pub(super) const VECTOR: char = '\u{20d7}';

/// The name of a call of numerals that stand side by side, `5\\;7`: it has no value.
pub(super) const BESIDE: &str = "beside";

/// A mathematical expression. Depth is bounded by the parser.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    /// An exact number; its decimals where it was written with a point or an exponent, negative if its last digit
    /// stands before the point: -8 of `3.14e10`.
    Number(RBig, Option<i32>),
    /// pi, e or i.
    Constant(Constant),
    Variable(String),
    Sum(Vec<Expr>),
    Product(Vec<Expr>),
    Quotient(Box<Expr>, Box<Expr>),
    Power(Box<Expr>, Box<Expr>),
    /// Minus.
    Negative(Box<Expr>),
    PlusMinus(Box<Expr>),
    Factorial(Box<Expr>),
    /// A function of its arguments.
    Call(String, Vec<Expr>),
    Infinity,
}

/// Constants that numbers do not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Constant {
    /// 3.14159...
    Pi,
    /// 2.71828...
    E,
    /// The square root of -1.
    I,
}

/// A relation between two sides: `=`, `<`, `<=`, `>`, `>=`, `!=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Less,
    AtMost,
    More,
    AtLeast,
    Unequal,
}

impl Relation {
    pub(super) fn from_sign(sign: char) -> Option<Self> {
        use Relation::{AtLeast, AtMost, Equal, Less, More, Unequal};
        let known = [Equal, Less, AtMost, More, AtLeast, Unequal];
        "=<≤>≥≠".chars().zip(known).find(|(known, _)| *known == sign).map(|(_, relation)| relation)
    }

    /// The same with its sides exchanged.
    pub(super) fn flipped(self) -> Self {
        match self {
            Relation::Less => Relation::More,
            Relation::AtMost => Relation::AtLeast,
            Relation::More => Relation::Less,
            Relation::AtLeast => Relation::AtMost,
            other => other,
        }
    }
}

/// A mark after a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    Percent,
    Degree,
    /// A unit, by its words.
    Unit(String),
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Value(Expr),
    /// A value with a mark.
    Marked(Box<Answer>, Mark),
    /// `(a, b)` and `[a, b]`: a tuple, a point, an interval; the brackets as written.
    Tuple(char, Vec<Answer>, char),
    /// `{a, b}`, unordered.
    Set(Vec<Answer>),
    /// `a, b` without brackets.
    List(Vec<Answer>),
    Union(Vec<Answer>),
    /// A matrix, row by row.
    Matrix(Vec<Vec<Answer>>),
    /// `a < b <= c`, `x = 3`.
    Chain(Vec<Answer>, Vec<Relation>),
    /// `S \ T`.
    Without(Box<Answer>, Box<Answer>),
    /// A time of day: hours, minutes, and whether it is after noon where that is said.
    Time(u32, u32, Option<bool>),
    /// `x in S`.
    Member(Box<Answer>, Box<Answer>),
    /// `204_5`.
    Based(String, u32),
    /// `1 : 2`.
    Ratio(Vec<Answer>),
    /// `{x | x > 2}`: the real numbers for which the relations hold.
    Condition(Box<Answer>),
    /// A piecewise function: values and their conditions.
    Cases(Vec<(Answer, Answer)>),
    /// `2 (mod 5)`: a residue and its modulus.
    Congruence(Expr, Expr),
    /// An answer with the set that its letters are from, and the letter that runs over it: `2k, k in Z`.
    Qualified(Box<Answer>, char, Option<String>),
    /// Values and the signs between and before them, which are compared as they stand: `A \subset B`.
    Signs(Vec<Answer>),
    Words(String),
}

impl Answer {
    /// The real numbers on one side of a bound: `> 2`, `≤ 0`; all that are positive or negative by their sign.
    pub(super) fn half_line(sign: char, bound: Expr) -> Option<Self> {
        let (open, close, is_above) = match sign {
            '>' | '+' => ('(', ')', true),
            '≥' => ('[', ')', true),
            '<' | '-' => ('(', ')', false),
            '≤' => ('(', ']', false),
            _ => return None,
        };
        let minus = Expr::negative(Expr::Infinity);
        let ends = if is_above { [bound, Expr::Infinity] } else { [minus, bound] };
        Some(Answer::Tuple(open, ends.map(Answer::Value).into(), close))
    }

    /// The answer with another name for a variable of its values, points and equations.
    pub(super) fn renamed(&self, from: &str, to: &Expr) -> Self {
        let all = |items: &[Answer]| items.iter().map(|item| item.renamed(from, to)).collect();
        match self {
            Answer::Value(value) => Answer::Value(value.with(from, to)),
            Answer::Tuple(open, items, close) => Answer::Tuple(*open, all(items), *close),
            Answer::List(items) => Answer::List(all(items)),
            Answer::Set(items) => Answer::Set(all(items)),
            Answer::Chain(sides, relations) => Answer::Chain(all(sides), relations.clone()),
            other => other.clone(),
        }
    }

    pub(super) fn marked(value: Answer, mark: Mark) -> Self {
        Answer::Marked(Box::new(value), mark)
    }

    /// The sides of an equation.
    pub(super) fn equation(&self) -> Option<(&Self, &Self)> {
        match self {
            Answer::Chain(sides, relations) if relations.as_slice() == [Relation::Equal] => {
                Some((&sides[0], &sides[1]))
            }
            _ => None,
        }
    }

    /// A number.
    pub(super) fn number(value: RBig) -> Self {
        Answer::Value(Expr::Number(value, None))
    }

    /// A whole number.
    pub(super) fn integer(value: i64) -> Self {
        Answer::Value(Expr::integer(value))
    }

    /// The real line.
    pub(super) fn line() -> Self {
        let minus = Expr::negative(Expr::Infinity);
        Answer::Tuple('(', vec![Answer::Value(minus), Answer::Value(Expr::Infinity)], ')')
    }
}

impl Expr {
    /// The expression with a value for a variable.
    pub(super) fn with(&self, name: &str, value: &Expr) -> Expr {
        match self {
            Expr::Variable(known) if known == name => value.clone(),
            other => other.with_children(|inner| inner.with(name, value)),
        }
    }

    /// How many parts the expression has.
    pub(super) fn size(&self) -> usize {
        1 + self.children().into_iter().map(Expr::size).sum::<usize>()
    }

    /// Whether the expression, or a part of it, is of some kind.
    pub(super) fn holds(&self, is_it: &dyn Fn(&Expr) -> bool) -> bool {
        is_it(self) || self.children().into_iter().any(|part| part.holds(is_it))
    }

    /// The parts directly below.
    pub(super) fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Sum(items) | Expr::Product(items) | Expr::Call(_, items) => {
                items.iter().collect()
            }
            Expr::Quotient(a, b) | Expr::Power(a, b) => vec![&**a, &**b],
            Expr::Negative(a) | Expr::Factorial(a) | Expr::PlusMinus(a) => vec![&**a],
            Expr::Number(..) | Expr::Constant(_) | Expr::Variable(_) | Expr::Infinity => vec![],
        }
    }

    /// The same with every part directly below replaced.
    pub(super) fn with_children(&self, replace: impl Fn(&Expr) -> Expr) -> Expr {
        let all = |items: &[Expr]| items.iter().map(&replace).collect();
        match self {
            Expr::Sum(items) => Expr::Sum(all(items)),
            Expr::Product(items) => Expr::Product(all(items)),
            Expr::Call(name, items) => Expr::Call(name.clone(), all(items)),
            Expr::Quotient(a, b) => Expr::quotient(replace(a), replace(b)),
            Expr::Power(a, b) => Expr::power(replace(a), replace(b)),
            Expr::Negative(a) => Expr::negative(replace(a)),
            Expr::Factorial(a) => Expr::Factorial(Box::new(replace(a))),
            Expr::PlusMinus(a) => Expr::PlusMinus(Box::new(replace(a))),
            Expr::Number(..) | Expr::Constant(_) | Expr::Variable(_) | Expr::Infinity => {
                self.clone()
            }
        }
    }

    pub(super) fn negative(value: Expr) -> Self {
        Expr::Negative(Box::new(value))
    }

    pub(super) fn difference(a: &Expr, b: &Expr) -> Self {
        Expr::Sum(vec![a.clone(), Expr::negative(b.clone())])
    }

    pub(super) fn quotient(above: Expr, below: Expr) -> Self {
        Expr::Quotient(Box::new(above), Box::new(below))
    }

    pub(super) fn power(base: Expr, exponent: Expr) -> Self {
        Expr::Power(Box::new(base), Box::new(exponent))
    }

    pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Self {
        Expr::Call(name.to_owned(), arguments)
    }

    /// A whole number that is written as one, with its sign.
    pub(super) fn as_integer(&self) -> Option<i64> {
        match self {
            Expr::Number(value, None) if value.is_int() => {
                i64::try_from(value.numerator().clone()).ok()
            }
            Expr::Negative(inner) if matches!(**inner, Expr::Number(..)) => {
                inner.as_integer().map(|value| -value)
            }
            _ => None,
        }
    }

    pub(super) fn integer(value: i64) -> Self {
        Expr::Number(RBig::from(value), None)
    }
}

/// The product of two, flat.
pub(super) fn times(value: Expr, next: Expr) -> Expr {
    match value {
        Expr::Product(mut factors) => {
            factors.push(next);
            Expr::Product(factors)
        }
        other => Expr::Product(vec![other, next]),
    }
}

/// The cross product of two vectors: a name, whose sign their order gives; factors before the first stay.
pub(super) fn cross(a: Expr, b: &Expr) -> Expr {
    if let Expr::Product(mut factors) = a {
        let last = factors.pop().map(|vector| cross(vector, b));
        return last.into_iter().fold(Expr::Product(factors), times);
    }
    match [&a, b].map(|vector| format!("{vector:?}")) {
        [a, b] if a == b => Expr::integer(0),
        [a, b] if a > b => Expr::negative(Expr::Variable(format!("{b} ⨯ {a}"))),
        [a, b] => Expr::Variable(format!("{a} ⨯ {b}")),
    }
}

/// A quotient. A sign of derivatives or differences before a letter above and below the bar is one name with that
/// letter and cancels nothing: `\frac{dy}{dx}` is not `\frac{y}{x}`.
pub(super) fn fraction(above: Expr, below: Expr) -> Expr {
    fn joined(side: &Expr, sign: &str) -> Option<Expr> {
        let factors = match side {
            Expr::Negative(side) => return Some(Expr::negative(joined(side, sign)?)),
            Expr::Product(factors) => factors,
            _ => return None,
        };
        let name = |pair: &[Expr]| match pair {
            [Expr::Variable(d), Expr::Variable(name)] if d == sign => Some(format!("{d} {name}")),
            _ => None,
        };
        let (at, name) =
            factors.windows(2).enumerate().find_map(|(at, pair)| Some((at, name(pair)?)))?;
        let (before, after) = (factors[..at].iter(), factors[at + 2..].iter());
        let mut factors: Vec<Expr> =
            before.cloned().chain([Expr::Variable(name)]).chain(after.cloned()).collect();
        Some(if factors.len() == 1 { factors.remove(0) } else { Expr::Product(factors) })
    }
    let both = |sign: &&str| Some(Expr::quotient(joined(&above, sign)?, joined(&below, sign)?));
    let found = ["d", "partial", "Delta"].iter().find_map(both);
    found.unwrap_or_else(|| Expr::quotient(above, below))
}

/// Whether `a / b` is a fraction of two positive integers.
pub(super) fn is_proper(a: &Expr, b: &Expr) -> bool {
    let is_natural = |x: &RBig| x.is_int() && x.sign() == Sign::Positive && !x.is_zero();
    let positive = |x: &Expr| matches!(x, Expr::Number(x, None) if is_natural(x));
    positive(a) && positive(b)
}

/// Degrees as an angle in radians.
pub(super) fn radians(value: Expr) -> Expr {
    let half_turn = Expr::quotient(Expr::Constant(Constant::Pi), Expr::integer(180));
    times(value, half_turn)
}
