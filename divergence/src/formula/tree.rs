//! A formula as a tree in `x = log t`, simplified as it is built.
//!
//! Powers of `t` are exponentials of `x`: `t^c - 1` becomes `expm1(c x)`, `log t` becomes `x`, `log(1 + t)` becomes
//! softplus, products of powers one power, and equal terms of a sum one term. Nothing of this is needed for the value;
//! it is what keeps far values finite and saves operations.

use std::rc::Rc;

use anyhow::{Result, bail};

use crate::expression::{Expression, Operator, similar};

pub(super) type Tree = Rc<Node>;

#[derive(Debug, PartialEq)]
pub(super) enum Node {
    /// `log t`.
    X,
    /// `t^c`, c not 0.
    Power(f64),
    /// A constant and terms with their coefficients.
    Sum(f64, Vec<(f64, Tree)>),
    Product(Tree, Tree),
    Quotient(Tree, Tree),
    /// `a^c` of another base than t.
    Raise(Tree, f64),
    /// A function of one argument.
    Apply(Function, Tree),
    /// The larger of both.
    Larger(Tree, Tree),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Function {
    Exp,
    ExpM1,
    Log,
    Log1p,
    Root,
    Abs,
    /// -1, 0 or 1: of derivatives, never of texts.
    Sign,
    Tanh,
}

use Function::{Abs, Exp, ExpM1, Log, Log1p, Root, Sign, Tanh};

/// Functions of one argument as they are written.
const FUNCTIONS: [(&str, Function); 7] = [
    ("log", Log),
    ("exp", Exp),
    ("sqrt", Root),
    ("abs", Abs),
    ("tanh", Tanh),
    ("log1p", Log1p),
    ("expm1", ExpM1),
];

/// Names of variables and functions, for a reader who wrote another.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    ["t", "x", "max", "min"].into_iter().chain(FUNCTIONS.iter().map(|(name, _)| *name))
}

/// The tree of an expression in `t` and `x`.
pub(super) fn lower(expression: &Expression) -> Result<Tree> {
    Ok(match expression {
        Expression::Number(value) => constant(*value),
        Expression::Name(name) if name == "t" => power(1.0),
        Expression::Name(name) if name == "x" => Rc::new(Node::X),
        Expression::Name(name) => bail!(
            "`{name}` is not a variable: `t` is pi / anchor and `x` its logarithm{}",
            similar(name, known())
        ),
        Expression::Negative(a) => scaled(-1.0, lower(a)?),
        Expression::Binary(operator, a, b) => {
            let (a, b) = (lower(a)?, lower(b)?);
            match operator {
                Operator::Add => sum([(1.0, a), (1.0, b)]),
                Operator::Subtract => sum([(1.0, a), (-1.0, b)]),
                Operator::Multiply => product(a, b),
                Operator::Divide => quotient(a, b),
                Operator::Power => match number(&b) {
                    Some(exponent) => raise(a, exponent),
                    None => apply(Exp, product(b, apply(Log, a))),
                },
                _ => bail!("a divergence has no comparisons; `abs`, `max` and `min` have kinks"),
            }
        }
        Expression::Call(name, arguments) => {
            let arguments = arguments.iter().map(lower).collect::<Result<Vec<_>>>()?;
            let function = FUNCTIONS.iter().find(|(known, _)| known == name);
            match (name.as_str(), function, arguments.as_slice()) {
                (_, Some((_, function)), [a]) => apply(*function, a.clone()),
                ("max", _, [a, b]) => larger(a.clone(), b.clone()),
                ("min", _, [a, b]) => {
                    scaled(-1.0, larger(scaled(-1.0, a.clone()), scaled(-1.0, b.clone())))
                }
                ("max" | "min", ..) => bail!("`{name}` has two arguments"),
                (_, Some(_), _) => bail!("`{name}` has one argument"),
                _ => bail!("`{name}` is not a function{}", similar(name, known())),
            }
        }
    })
}

pub(super) fn constant(value: f64) -> Tree {
    Rc::new(Node::Sum(value, vec![]))
}

/// `t^c`.
pub(super) fn power(exponent: f64) -> Tree {
    // Exponents that were added up: 0.3 - 0.3 + 1e-17 is none.
    if exponent.abs() < 1e-15 { constant(1.0) } else { Rc::new(Node::Power(exponent)) }
}

pub(super) fn scaled(by: f64, tree: Tree) -> Tree {
    sum([(by, tree)])
}

/// The value of a constant.
pub(super) fn number(tree: &Tree) -> Option<f64> {
    match &**tree {
        Node::Sum(value, terms) if terms.is_empty() => Some(*value),
        _ => None,
    }
}

/// A tree as a factor and the rest.
fn factored(tree: &Tree) -> (f64, Tree) {
    match &**tree {
        Node::Sum(constant, terms) if *constant == 0.0 && terms.len() == 1 => {
            (terms[0].0, terms[0].1.clone())
        }
        _ => (1.0, tree.clone()),
    }
}

fn is_positive(tree: &Tree) -> bool {
    match &**tree {
        Node::Power(_) | Node::Apply(Exp, _) => true,
        Node::Sum(constant, terms) => {
            *constant >= 0.0
                && (*constant > 0.0 || !terms.is_empty())
                && terms.iter().all(|(by, term)| *by > 0.0 && is_positive(term))
        }
        Node::Product(a, b) | Node::Quotient(a, b) => is_positive(a) && is_positive(b),
        Node::Raise(a, _) | Node::Apply(Root, a) => is_positive(a),
        _ => false,
    }
}

/// The sum of trees with their coefficients; equal ones are one term.
pub(super) fn sum(parts: impl IntoIterator<Item = (f64, Tree)>) -> Tree {
    let mut constant = 0.0;
    let mut terms: Vec<(f64, Tree)> = Vec::new();
    let mut add = |by: f64, tree: &Tree| match terms.iter_mut().find(|(_, known)| known == tree) {
        Some((known, _)) => *known += by,
        None => terms.push((by, tree.clone())),
    };
    for (by, part) in parts {
        match &*part {
            Node::Sum(more, inner) => {
                constant += by * more;
                inner.iter().for_each(|(factor, tree)| add(by * factor, tree));
            }
            _ => add(by, &part),
        }
    }
    terms.retain(|(by, _)| *by != 0.0);
    match terms.as_slice() {
        [(by, only)] if constant == 0.0 && *by == 1.0 => only.clone(),
        _ => Rc::new(Node::Sum(constant, terms)),
    }
}

pub(super) fn product(a: Tree, b: Tree) -> Tree {
    if let Some(by) = number(&a) {
        return scaled(by, b);
    }
    if let Some(by) = number(&b) {
        return scaled(by, a);
    }
    let ((by_a, a), (by_b, b)) = (factored(&a), factored(&b));
    let plain = match (&*a, &*b) {
        (Node::Power(p), Node::Power(q)) => power(p + q),
        (Node::Power(p), _) => with_power(b, *p),
        (_, Node::Power(q)) => with_power(a, *q),
        (_, Node::Quotient(top, bottom)) if *bottom == a => top.clone(),
        (Node::Quotient(top, bottom), _) if *bottom == b => top.clone(),
        _ if a == b => raise(a, 2.0),
        _ => Rc::new(Node::Product(a, b)),
    };
    scaled(by_a * by_b, plain)
}

/// `a t^c`, where a is no power: beside a power that it has already.
fn with_power(a: Tree, exponent: f64) -> Tree {
    match &*a {
        Node::Product(inner, last) => match &**last {
            Node::Power(known) => product(inner.clone(), power(known + exponent)),
            _ => Rc::new(Node::Product(a.clone(), power(exponent))),
        },
        Node::Quotient(top, bottom) => {
            quotient(product(top.clone(), power(exponent)), bottom.clone())
        }
        _ => Rc::new(Node::Product(a.clone(), power(exponent))),
    }
}

/// `a t^c` with the power inside of sums, where it cancels others.
pub(super) fn times_power(a: &Tree, exponent: f64) -> Tree {
    match &**a {
        Node::Sum(constant, terms) => {
            let terms = terms.iter().map(|(by, term)| (*by, times_power(term, exponent)));
            sum(terms.chain([(*constant, power(exponent))]))
        }
        _ => product(a.clone(), power(exponent)),
    }
}

pub(super) fn quotient(a: Tree, b: Tree) -> Tree {
    if let Some(by) = number(&b) {
        return scaled(1.0 / by, a);
    }
    if number(&a) == Some(0.0) {
        return a;
    }
    if a == b {
        return constant(1.0);
    }
    let ((by_a, a), (by_b, b)) = (factored(&a), factored(&b));
    let plain = match (&*a, &*b) {
        (_, Node::Power(exponent)) => product(a, power(-exponent)),
        (Node::Raise(base, exponent), _) if *base == b => raise(base.clone(), exponent - 1.0),
        _ => Rc::new(Node::Quotient(a, b)),
    };
    scaled(by_a / by_b, plain)
}

pub(super) fn raise(a: Tree, exponent: f64) -> Tree {
    if exponent == 0.0 {
        return constant(1.0);
    }
    if exponent == 1.0 {
        return a;
    }
    if let Some(value) = number(&a) {
        return constant(libm::pow(value, exponent));
    }
    let (by, inner) = factored(&a);
    if by > 0.0 && by != 1.0 {
        return scaled(libm::pow(by, exponent), raise(inner, exponent));
    }
    match &*a {
        Node::Power(known) => power(known * exponent),
        Node::Raise(base, known) if is_positive(base) => raise(base.clone(), known * exponent),
        _ if exponent == 0.5 => Rc::new(Node::Apply(Root, a)),
        _ => Rc::new(Node::Raise(a, exponent)),
    }
}

pub(super) fn apply(function: Function, a: Tree) -> Tree {
    if let Some(value) = number(&a) {
        return constant(on_number(function, value));
    }
    match function {
        Exp => exp(a),
        Log => log(a),
        Root => raise(a, 0.5),
        ExpM1 => match exp(a.clone()) {
            grown if matches!(*grown, Node::Apply(..)) => Rc::new(Node::Apply(ExpM1, a)),
            grown => sum([(1.0, grown), (-1.0, constant(1.0))]),
        },
        Log1p => {
            let above = sum([(1.0, a.clone()), (1.0, constant(1.0))]);
            match (&*a, &*above) {
                (Node::Power(_), _) | (_, Node::Power(_)) => log(above),
                _ => Rc::new(Node::Apply(Log1p, a)),
            }
        }
        Abs | Sign => {
            let (by, inner) = factored(&a);
            match function {
                Abs if is_positive(&inner) => scaled(by.abs(), inner),
                Abs => scaled(by.abs(), Rc::new(Node::Apply(Abs, inner))),
                _ if is_positive(&inner) => constant(by.signum()),
                _ => scaled(by.signum(), Rc::new(Node::Apply(Sign, inner))),
            }
        }
        Tanh => Rc::new(Node::Apply(Tanh, a)),
    }
}

fn exp(a: Tree) -> Tree {
    match &*a {
        Node::X => power(1.0),
        Node::Apply(Log, inner) => inner.clone(),
        Node::Sum(constant, terms) => match terms.as_slice() {
            [(by, only)] if **only == Node::X => scaled(libm::exp(*constant), power(*by)),
            _ => Rc::new(Node::Apply(Exp, a)),
        },
        _ => Rc::new(Node::Apply(Exp, a)),
    }
}

fn log(a: Tree) -> Tree {
    let (by, inner) = factored(&a);
    if by > 0.0 && by != 1.0 {
        return sum([(1.0, constant(libm::log(by))), (1.0, log(inner))]);
    }
    match &*a {
        Node::Power(exponent) => scaled(*exponent, Rc::new(Node::X)),
        Node::Product(one, other) if is_positive(one) && is_positive(other) => {
            sum([(1.0, log(one.clone())), (1.0, log(other.clone()))])
        }
        Node::Quotient(one, other) if is_positive(one) && is_positive(other) => {
            sum([(1.0, log(one.clone())), (-1.0, log(other.clone()))])
        }
        Node::Raise(base, exponent) if is_positive(base) => scaled(*exponent, log(base.clone())),
        Node::Apply(Root, base) => scaled(0.5, log(base.clone())),
        Node::Apply(Exp, inner) => inner.clone(),
        // k (1 + t^c): log k and a softplus.
        Node::Sum(k, terms) if *k > 0.0 && *k != 1.0 && terms.len() == 1 && terms[0].0 == *k => {
            let inner = sum([(1.0, constant(1.0)), (1.0, terms[0].1.clone())]);
            sum([(1.0, constant(libm::log(*k))), (1.0, log(inner))])
        }
        _ => Rc::new(Node::Apply(Log, a)),
    }
}

fn on_number(function: Function, value: f64) -> f64 {
    match function {
        Exp => libm::exp(value),
        ExpM1 => libm::expm1(value),
        Log => libm::log(value),
        Log1p => libm::log1p(value),
        Root => value.sqrt(),
        Abs => value.abs(),
        Sign if value == 0.0 => 0.0,
        Sign => value.signum(),
        Tanh => libm::tanh(value),
    }
}

pub(super) fn larger(a: Tree, b: Tree) -> Tree {
    match (number(&a), number(&b)) {
        (Some(a), Some(b)) => constant(a.max(b)),
        _ if a == b => a,
        _ => Rc::new(Node::Larger(a, b)),
    }
}
