//! Equations, assignments, inequalities: what `x = 3` and `2 < x <= 5` are equal to.

use std::collections::BTreeSet;

use dashu_ratio::RBig;

use super::exact::rational;
use super::families::{same_residues, with_free_constants};
use super::fuel::Fuel;
use super::members::Equal;
use super::names::{application, is_name, letter, say_opposites};
use super::numeric::approximate;
use super::quantities::unit_beside;
use super::regions::{is_absolute, same_region};
use super::scan::{begins, is_letter, is_one_of};
use super::tree::{Answer, Expr, Relation};
use super::values::{values, variables};

/// Equations, assignments and inequalities against anything.
pub(super) fn chains(gold: &Answer, answer: &Answer, equal: Equal, fuel: &mut Fuel) -> bool {
    match (gold, answer) {
        (Answer::Chain(a, p), Answer::Chain(b, q)) => {
            let is_assignment =
                |answer: &Answer| answer.equation().is_some_and(|(name, _)| is_name(name));
            if is_assignment(gold) && is_assignment(answer) {
                // Different names for one value: `x = 3` and `n = 3` are compared by the value only
                // where the names agree or one is a word.
                let same_name = equal(&a[0], &b[0], fuel)
                    || is_same_derivative(&a[0], &b[0])
                    || is_graph(&a[0], &b[0])
                    || is_graph(&b[0], &a[0])
                    || matches!((&a[0], &b[0]), (Answer::Words(_), _) | (_, Answer::Words(_)))
                        && !say_opposites(&a[0], &b[0]);
                if same_name && equal(&a[1], &b[1], fuel) || same_function(a, b, equal, fuel) {
                    return true;
                }
            }
            // `y = 3 \cdot 4x^3 = 12x^3` is `y = 12x^3`, if both sides are.
            if is_assignment(gold) && all_equal(q) && b.len() > 2 && equal(&a[0], &b[0], fuel) {
                return b[1..].iter().all(|side| equal(&a[1], side, fuel));
            }
            // An equation or inequality that is not solved may be the question's own.
            if is_solved(a, p) && !is_solved(b, q) {
                return is_interval(b, q) && same_region(gold, answer, fuel);
            }
            relations((a, p), (b, q), equal, fuel) || same_region(gold, answer, fuel)
        }
        // `x = 3` is 3, whichever side says it; a longer chain only if all its values are the answer,
        // so that no list of guesses passes.
        (Answer::Chain(sides, relations), other) => {
            all_equal(relations) && every_value(sides, true, |side| equal(side, other, fuel))
                || same_region(gold, answer, fuel)
        }
        // `B = C` chooses neither; `A = I` may be of matrices.
        (Answer::Value(Expr::Variable(choice)), Answer::Chain(sides, _))
            if matches!(choice.as_bytes(), [b'A'..=b'E'])
                && letter(&sides[0]).is_some_and(|name| is_letter(&name) && name != *choice) =>
        {
            false
        }
        (Answer::Value(gold), Answer::Chain(sides, relations))
            if all_equal(relations) && is_renamed(gold, sides, fuel) =>
        {
            true
        }
        (other, Answer::Chain(sides, relations)) => {
            all_equal(relations) && every_value(sides, false, |side| equal(other, side, fuel))
                || !all_equal(relations) && same_region(gold, answer, fuel)
        }
        _ => false,
    }
}

/// Whether two definitions are of one function, with another letter for its variable: `f(x) = 3x`, `f(u) = 3u`; `f = 0`
/// is `f(x) = 0`.
fn same_function(a: &[Answer], b: &[Answer], equal: Equal, fuel: &mut Fuel) -> bool {
    let of_letter =
        |answer: &Answer, name: &str| *answer == Answer::Value(Expr::Variable(name.to_owned()));
    match (application(&a[0]), application(&b[0])) {
        (Some((f, x)), Some((g, u))) if f == g && x != u => {
            let (Answer::Value(own), Answer::Value(other)) = (&a[1], &b[1]) else { return false };
            renamed(other, &u, &x).is_some_and(|other| values(own, &other, fuel))
        }
        (Some((f, x)), Some((g, u)))
            if f == g && x == u && is_one_of(&f, "f|g|h|p|q|F|G|H|P|Q") =>
        {
            let (Answer::Value(own), Answer::Value(other)) = (&a[1], &b[1]) else { return false };
            with_free_constants(own, other, fuel)
        }
        (Some((f, _)), None) => of_letter(&b[0], &f) && equal(&a[1], &b[1], fuel),
        (None, Some((g, _))) => of_letter(&a[0], &g) && equal(&a[1], &b[1], fuel),
        _ => false,
    }
}

/// Whether `f(t) = 2t^2` is the gold `2x^2`. A gold letter alone may be a choice: `f(x) = x` is not C.
fn is_renamed(gold: &Expr, sides: &[Answer], fuel: &mut Fuel) -> bool {
    let [name, Answer::Value(value)] = sides else { return false };
    if matches!(gold, Expr::Variable(_)) {
        return false;
    }
    let (Some((_, u)), names) = (application(name), variables(gold)) else { return false };
    let Some(x) = names.first().filter(|_| names.len() == 1) else { return false };
    let x = Expr::Variable(x.clone());
    x != u && renamed(value, &u, &x).is_some_and(|value| values(gold, &value, fuel))
}

/// An expression in one letter, in another that it does not have.
fn renamed(expr: &Expr, from: &Expr, to: &Expr) -> Option<Expr> {
    let (Expr::Variable(from), Expr::Variable(to_name)) = (from, to) else { return None };
    (!variables(expr).contains(to_name)).then(|| expr.with(from, to))
}

/// Whether a relation of one variable says what it is: `x = 2`, `2 < x`, and not `2x + 3 = 7`.
fn is_solved(sides: &[Answer], relations: &[Relation]) -> bool {
    let [Answer::Value(a), Answer::Value(b)] = sides else { return false };
    let names = variables(a).union(&variables(b)).count();
    let is_alone =
        |one: &Expr, other: &Expr| matches!(one, Expr::Variable(_)) && variables(other).is_empty();
    relations.len() == 1 && names == 1 && (is_alone(a, b) || is_alone(b, a))
}

/// `-3 < x < 3` and `|x| < 3`.
fn is_interval(sides: &[Answer], relations: &[Relation]) -> bool {
    relations.len() == 2 || sides.iter().any(is_absolute)
}

fn all_equal(relations: &[Relation]) -> bool {
    relations.iter().all(|relation| *relation == Relation::Equal)
}

/// Whether all sides after a name, or after what the question asks for, are the value.
fn every_value(sides: &[Answer], is_gold: bool, is_equal: impl FnMut(&Answer) -> bool) -> bool {
    // `41 = m + n`
    if let [value @ Answer::Value(number), asked] = sides
        && variables(number).is_empty()
        && !is_name(asked)
        && is_asked(asked, is_gold)
    {
        return [value].into_iter().all(is_equal);
    }
    let start = usize::from(is_name(&sides[0]) || is_asked(&sides[0], is_gold));
    let rest = &sides[start..];
    // `240 cm = 2.4 m`: the letter is a unit beside another one.
    let has_unit = rest.iter().any(|side| matches!(side, Answer::Marked(..)));
    let is_quantity = |expr: &Expr| has_unit && unit_beside(expr).is_some();
    let is_open = |side: &Answer| match side {
        Answer::Value(expr) => !variables(expr).is_empty() && !is_quantity(expr),
        _ => false,
    };
    !rest.is_empty()
        && rest.iter().all(is_equal)
        // An equation of expressions in x is not a value: `2x + z = 1` is not 1.
        && (start == 1 || !rest.iter().any(is_open))
}

/// `f^{-1}(x)` and the y of its graph.
fn is_graph(function: &Answer, y: &Answer) -> bool {
    let is_of_x = |parts: &[Expr]| matches!(parts.last(), Some(Expr::Variable(x)) if x == "x");
    letter(y).is_some_and(|y| y == "y")
        && matches!(function, Answer::Value(Expr::Product(parts)) if is_of_x(parts) && is_name(function))
}

/// `dy/dx` and `y'`.
fn is_same_derivative(a: &Answer, b: &Answer) -> bool {
    let quotient = |answer: &Answer| {
        let Answer::Value(Expr::Quotient(above, below)) = answer else { return None };
        let differential = |expr: &Expr| match expr {
            Expr::Variable(name) => name.strip_prefix("d ").map(str::to_owned),
            _ => None,
        };
        differential(below).and(differential(above)).map(|name| format!("{name}'"))
    };
    let primed = |answer: &Answer| match answer {
        Answer::Value(Expr::Variable(name)) => Some(name.clone()),
        // `s'(t)`
        Answer::Value(Expr::Product(factors)) => match factors.as_slice() {
            [Expr::Variable(name), Expr::Variable(_)] if name.ends_with('\'') => Some(name.clone()),
            _ => None,
        },
        _ => None,
    };
    let is_one = |a, b| quotient(a).is_some_and(|name| primed(b) == Some(name));
    is_one(a, b) || is_one(b, a)
}

/// Whether the left side of an equation is what a question may ask for: `m + n`, `f(3)`, `gcd(a, b)`. An equation in x
/// that is not solved, `2x + z = 1`, is none, and no sum of a gold answer is, which may be the equation of a line.
pub(super) fn is_asked(side: &Answer, is_gold: bool) -> bool {
    let Answer::Value(expr) = side else { return false };
    if is_application(expr) {
        return true;
    }
    let names = variables(expr);
    let terms = match expr {
        Expr::Sum(terms) => terms.as_slice(),
        other => std::slice::from_ref(other),
    };
    let has_constant = terms.iter().any(|term| variables(term).is_empty());
    let are_unknowns = names.iter().all(|name| matches!(name.as_str(), "x" | "y" | "z"));
    let is_plain = !are_unknowns || !has_coefficient(expr) || terms.iter().any(is_ten_times);
    !is_gold && names.len() >= 2 && !has_constant && is_plain
}

/// Whether a term is a digit's in the tens or hundreds: `10y`.
fn is_ten_times(term: &Expr) -> bool {
    let is_place = |factor: &Expr| [10, 100].map(Expr::integer).contains(factor);
    matches!(term, Expr::Product(factors) if factors.iter().any(is_place))
}

/// A function of a number or of names: `f(3)`, `gcd(a, b)`, `max f`, `sin theta`.
fn is_application(expr: &Expr) -> bool {
    let is_unknown = |name: &str| matches!(name, "x" | "y" | "z" | "t");
    match expr {
        Expr::Call(name, arguments) => match name.as_str() {
            "max" | "min" | "gcd" | "lcm" | "sum" | "prod" => true,
            "sin" | "cos" | "tan" | "cot" => {
                arguments.iter().all(|one| variables(one).iter().all(|name| !is_unknown(name)))
            }
            _ => false,
        },
        // `AB^2`, `r^2`: what is asked for may be a square.
        Expr::Power(base, exponent) => {
            matches!(&**base, Expr::Variable(name) if !is_unknown(name))
                && matches!(**exponent, Expr::Number(..))
        }
        Expr::Product(factors) => match factors.as_slice() {
            // `\int_0^1 x^2 dx`, `\lim_{x \to 0} x`
            [first, ..] if variables(first).iter().any(|name| begins(name, "int_|lim_|iint_")) => {
                true
            }
            [Expr::Variable(function), argument] => {
                !is_unknown(function)
                    && (matches!(
                        argument,
                        Expr::Number(..) | Expr::Negative(_) | Expr::Quotient(..)
                    ) && variables(argument).is_empty()
                        || is_application(argument))
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether a number other than an exponent stands in an expression.
fn has_coefficient(expr: &Expr) -> bool {
    match expr {
        Expr::Number(..) => true,
        Expr::Power(base, _) => has_coefficient(base),
        other => other.children().into_iter().any(has_coefficient),
    }
}

/// Congruences against each other, against `n = 5k + 2`, and a gold number against the residue.
pub(super) fn congruences(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> bool {
    let mut divides = |modulus: &Expr, difference: Expr| {
        let quotient = Expr::quotient(difference, modulus.clone());
        rational(&quotient, fuel).is_some_and(|value| value.is_int())
    };
    let minus = Expr::difference;
    match (gold, answer) {
        (Answer::Congruence(a, m), Answer::Congruence(b, n)) => {
            let is_same = divides(m, minus(a, b));
            (is_same || values(a, b, fuel)) && values(m, n, fuel)
        }
        (Answer::Congruence(residue, modulus), other)
        | (other, Answer::Congruence(residue, modulus)) => {
            if same_residues(gold, answer, fuel) {
                return true;
            }
            let form = other.equation().map_or(other, |(_, value)| value);
            let Answer::Value(form) = form else { return false };
            if !variables(form).is_empty() || !matches!(gold, Answer::Value(_)) {
                return false;
            }
            // `23 \bmod 10` is left to work out.
            let number =
                |expr: &Expr, fuel: &mut Fuel| rational(expr, fuel).filter(|value| value.is_int());
            match number(residue, fuel).zip(number(modulus, fuel)) {
                Some((residue, modulus)) if residue >= modulus && modulus > RBig::ZERO => {
                    let quotient = RBig::from((residue.clone() / modulus.clone()).floor());
                    number(form, fuel) == Some(residue - quotient * modulus)
                }
                _ => values(form, residue, fuel),
            }
        }
        _ => false,
    }
}

/// The chain with < and <= only.
fn ascending(sides: &[Answer], relations: &[Relation]) -> (Vec<Answer>, Vec<Relation>) {
    let is_descending = relations.iter().any(|r| matches!(r, Relation::More | Relation::AtLeast))
        && !relations.iter().any(|r| matches!(r, Relation::Less | Relation::AtMost));
    if !is_descending {
        return (sides.to_vec(), relations.to_vec());
    }
    (
        sides.iter().rev().cloned().collect(),
        relations.iter().rev().map(|one| one.flipped()).collect(),
    )
}

fn relations(
    (a, p): (&[Answer], &[Relation]),
    (b, q): (&[Answer], &[Relation]),
    equal: Equal,
    fuel: &mut Fuel,
) -> bool {
    let ((a, p), (b, q)) = (ascending(a, p), ascending(b, q));
    if p != q {
        return false;
    }
    if a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| equal(a, b, fuel)) {
        return true;
    }
    let [relation] = p.as_slice() else { return false };
    let difference = |sides: &[Answer]| match sides {
        [Answer::Value(a), Answer::Value(b)] => Some(Expr::difference(a, b)),
        _ => None,
    };
    let (Some(a), Some(b)) = (difference(&a), difference(&b)) else { return false };
    proportional(&a, &b, *relation, fuel)
}

/// Whether one side minus the other is the same up to a constant factor: any but 0 for equations, a
/// positive one for inequalities. The factor is taken at one point and must hold at others.
fn proportional(a: &Expr, b: &Expr, relation: Relation, fuel: &mut Fuel) -> bool {
    let names: BTreeSet<String> = variables(a).union(&variables(b)).cloned().collect();
    if variables(a) != variables(b) || names.is_empty() {
        return false;
    }
    let at = |expr: &Expr| at_point(expr, &names);
    let (Some(x), Some(y)) = (approximate(&at(a), fuel), approximate(&at(b), fuel)) else {
        return false;
    };
    if x == 0.0
        || y == 0.0
        || (relation != Relation::Equal && relation != Relation::Unequal && (x < 0.0) != (y < 0.0))
    {
        return false;
    }
    // a(z) b(first) = b(z) a(first), exactly.
    let left = Expr::Product(vec![a.clone(), at(b)]);
    let right = Expr::Product(vec![b.clone(), at(a)]);
    values(&left, &right, fuel)
}

/// An expression at a rational point, always the same for these names.
pub(super) fn at_point(expr: &Expr, names: &BTreeSet<String>) -> Expr {
    names.iter().enumerate().fold(expr.clone(), |expr, (index, name)| {
        let seed = 1_103 + 7_919 * index as u64;
        let value = RBig::from_parts((300 + seed % 2_700).into(), 1_000_u32.into());
        expr.with(name, &Expr::Number(value, None))
    })
}
