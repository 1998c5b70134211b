//! Families of values: a letter runs over the integers, as of `\frac{\pi}{4} + k\pi`, or stands for any constant, as of
//! `C_1 e^x`. They are the same whatever the letter, and whichever of its values a family begins with.

use std::collections::BTreeSet;

use dashu_ratio::RBig;

use super::exact::rational;
use super::fuel::Fuel;
use super::members::Equal;
use super::numeric::approximate;
use super::scan::is_one_of;
use super::tree::{Answer, Constant, Expr, Relation};
use super::values::{same_value, signs, values, variables};

/// Letters that run over the integers.
const INDICES: &str = "k|l|m|n|j";

/// A value, and the name that it is given.
pub(super) fn form(answer: &Answer) -> Option<(Option<&Answer>, &Expr)> {
    match answer {
        Answer::Value(form) => Some((None, form)),
        other => match other.equation()? {
            (name, Answer::Value(form)) => Some((Some(name), form)),
            _ => None,
        },
    }
}

/// Whether two families are the same, whatever letter runs over their set: `k\pi` and `n\pi`.
pub(super) fn equal_family(
    (gold, k): (&Answer, Option<&String>),
    (answer, n): (&Answer, Option<&String>),
    equal: Equal,
    fuel: &mut Fuel,
) -> bool {
    if equal(gold, answer, fuel) {
        return true;
    }
    let (Some((name, a)), Some((other, b))) = (form(gold), form(answer)) else {
        return same_points((gold, k), (answer, n), equal, fuel);
    };
    let is_same_name = name.is_none() || other.is_none() || name == other;
    let index = |one: &Expr, other: &Expr, letter: Option<&String>| {
        let others = variables(other);
        let mut names = variables(one).into_iter().filter(|name| !others.contains(name));
        names.find(|name| letter.map_or_else(|| is_one_of(name, INDICES), |letter| name == letter))
    };
    match (index(a, b, k), index(b, a, n)) {
        (Some(k), Some(n)) if is_same_name => same_value(a, &b.with(&n, &Expr::Variable(k)), fuel),
        // `cx` and "`kx` for a constant k"
        // A gold answer that is one letter, without a name, may be a choice.
        (None, Some(_))
            if is_same_name
                && n.is_some()
                && !(name.is_none() && matches!(a, Expr::Variable(_))) =>
        {
            let may_be = |name: &str| is_one_of(name, CONSTANTS) || k.is_some_and(|k| k == name);
            let fixed = variables(b);
            let is_constant = |name: &str| may_be(name) && !fixed.contains(name);
            with_constants((a, &is_constant), b, fuel)
        }
        _ => false,
    }
}

/// Whether the points of two families are the same, whatever letter runs over them: `(t, -t)` and `(s, -s)`.
pub(super) fn same_points(
    (gold, k): (&Answer, Option<&String>),
    (answer, n): (&Answer, Option<&String>),
    equal: Equal,
    fuel: &mut Fuel,
) -> bool {
    fn points(answer: &Answer) -> Option<BTreeSet<String>> {
        let items = match answer {
            Answer::Tuple(_, items, _) => items,
            Answer::Chain(sides, _) => return points(sides.last()?),
            _ => return None,
        };
        Some(items.iter().filter_map(form).flat_map(|(_, value)| variables(value)).collect())
    }
    let (Some(of_gold), Some(of_answer)) = (points(gold), points(answer)) else { return false };
    // Without a set, letters that mostly are parameters.
    let only = |names: &BTreeSet<String>, is_known: bool| {
        let name = names.first().filter(|_| names.len() == 1);
        name.filter(|name| is_known || is_one_of(name, "t|s|r|u|k|\\lambda|lambda|mu")).cloned()
    };
    let Some(k) = &k.cloned().or_else(|| only(&of_gold, false)) else { return false };
    n.cloned().or_else(|| only(&of_answer, of_gold.len() != 1)).is_some_and(|ref n| {
        !of_gold.contains(n)
            && !of_answer.contains(k)
            && equal(gold, &answer.renamed(n, &Expr::Variable(k.clone())), fuel)
    })
}

/// The letter of integers on one side of a bound, the last of them, and whether there is one above it.
pub(super) fn half_of_integers(answer: &Answer) -> Option<(&str, i64, bool)> {
    let Answer::Chain(sides, relations) = answer else { return None };
    let [Answer::Value(Expr::Variable(name)), Answer::Value(bound)] = sides.as_slice() else {
        return None;
    };
    let (more, is_above) = match relations[..] {
        [Relation::AtLeast] => (0, true),
        [Relation::More] => (1, true),
        [Relation::AtMost] => (0, false),
        [Relation::Less] => (-1, false),
        _ => return None,
    };
    Some((name, bound.as_integer()?.checked_add(more)?, is_above))
}

/// Whether both run through the same values, all integers: those of multiples of pi, or where the gold says so.
pub(super) fn same_progression(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> bool {
    // One congruence beside another answer was compared with it before.
    if is_congruence(gold) == is_congruence(answer) && same_residues(gold, answer, fuel) {
        return true;
    }
    let ((gold, is_whole), (answer, may_be)) = (of_integers(gold), of_integers(answer));
    let (Some((name, a)), Some((other, b))) = (form(gold), form(answer)) else { return false };
    let is_same_name = name.is_none() || other.is_none() || name == other;
    let has_pi = a.holds(&|part| *part == Expr::Constant(Constant::Pi));
    let (Some((first, step)), Some((other, its_step))) =
        (progression(a, INDICES, fuel), progression(b, INDICES, fuel))
    else {
        return false;
    };
    let difference = Expr::difference(&other, &first);
    let Some(count) = approximate(&Expr::quotient(difference, step.clone()), fuel).map(f64::round)
    else {
        return false;
    };
    let shifted =
        Expr::Sum(vec![first, Expr::Product(vec![Expr::integer(count as i64), step.clone()])]);
    let is_step = values(&step, &its_step, fuel) || values(&step, &Expr::negative(its_step), fuel);
    is_same_name
        && may_be != Some(false)
        && (is_whole == Some(true) || is_whole.is_none() && has_pi)
        && count.abs() < 1e6
        && is_step
        && values(&shifted, &other, fuel)
}

fn is_congruence(answer: &Answer) -> bool {
    matches!(answer, Answer::Congruence(..))
}

/// Whether both are the integers with the same residues: `\pm 1 \pmod 6`, `1, 5 \pmod 6` and `6k \pm 1`.
pub(super) fn same_residues(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> bool {
    const MAX_MODULUS: i64 = 100;
    // Without a modulus `2k \pm 1` may be two values, of a parameter k.
    let is_several = |answer: &Answer| match answer {
        Answer::List(items) | Answer::Set(items) => items.first().is_some_and(is_congruence),
        one => is_congruence(one),
    };
    if !is_several(gold) && !is_several(answer) {
        return false;
    }
    let Some(((m, a), (n, b))) = residues(gold, fuel).zip(residues(answer, fuel)) else {
        return false;
    };
    // Over the product of both, which is a period of either.
    let all = |step: i64, own: &BTreeSet<i64>| -> BTreeSet<i64> {
        own.iter().flat_map(|first| (*first..m * n).step_by(step as usize)).collect()
    };
    m == n && a == b || m.max(n) <= MAX_MODULUS && all(m, &a) == all(n, &b)
}

/// A modulus, and the residues that an answer allows.
fn residues(answer: &Answer, fuel: &mut Fuel) -> Option<(i64, BTreeSet<i64>)> {
    let (mut all, mut modulus) = (BTreeSet::new(), None);
    let items = match answer {
        Answer::List(items) | Answer::Set(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    for item in items {
        let (form, step) = match item {
            Answer::Congruence(residue, modulus) => (residue, Some(modulus.clone())),
            other => (form(other)?.1, None),
        };
        for form in signs(form) {
            let (first, step) = match &step {
                Some(step) => (form, step.clone()),
                None => progression(&form, "k|l|m|n|j|t|q", fuel)?,
            };
            let mut integer = |expr: &Expr| {
                let value = rational(expr, fuel).filter(RBig::is_int)?;
                i64::try_from(value.numerator().clone()).ok()
            };
            let step = integer(&step)?.checked_abs().filter(|step| *step > 1)?;
            (*modulus.get_or_insert(step) == step).then_some(())?;
            all.insert(integer(&first)?.rem_euclid(step));
        }
    }
    Some((modulus?, all))
}

/// An answer without the set of its letter, and whether this is all integers.
fn of_integers(answer: &Answer) -> (&Answer, Option<bool>) {
    match answer {
        Answer::Qualified(inner, set, _) => (inner, Some(*set == 'Z')),
        other => (other, None),
    }
}

/// The value at 0 and the step of an expression that is linear in its only letter, one of these.
fn progression(expr: &Expr, letters: &'static str, fuel: &mut Fuel) -> Option<(Expr, Expr)> {
    let names = variables(expr);
    let name = names.first().filter(|name| names.len() == 1 && is_one_of(name, letters))?;
    let at = |value: i64| expr.with(name, &Expr::integer(value));
    let step = |value: i64| Expr::difference(&at(value), &at(value - 1));
    (values(&step(1), &step(2), fuel) && values(&step(1), &step(5), fuel)).then(|| (at(0), step(1)))
}

/// Letters of constants.
const CONSTANTS: &str = "a|b|c|d|k|m|A|B|C|K|D|M|\\lambda|\\alpha|\\beta";

/// Whether two definitions of a function are the same with other letters for its constants, `ax + b` and `mx + c`; of a
/// single one only where its letter is mostly a constant's. A letter that both have is the same.
pub(super) fn with_free_constants(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> bool {
    let (of_gold, of_answer) = (variables(gold), variables(answer));
    let letters: Vec<&String> = of_answer.symmetric_difference(&of_gold).collect();
    letters.iter().all(|name| is_one_of(name, CONSTANTS))
        && (letters.len() > 2 || letters.iter().any(|name| is_one_of(name, "c|k|C|K|A|m|\\lambda")))
        && with_constants((gold, &|name| !of_answer.contains(name)), answer, fuel)
}

/// Whether two expressions differ at most in the letters of the gold's constants of integration.
pub(super) fn with_constants_of_integration(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> bool {
    has_constants(gold) && with_constants((gold, &is_constant), answer, fuel)
}

/// Whether an expression in x or t has constants of integration: `C e^{2x}`, `C_1 + C_2 t`.
fn has_constants(gold: &Expr) -> bool {
    let names = variables(gold);
    names.iter().any(|name| is_constant(name))
        && names.iter().any(|name| matches!(name.as_str(), "x" | "t" | "y"))
}

fn is_constant(name: &str) -> bool {
    name == "C" || name.starts_with("C_[") || name.starts_with("c_[")
}

/// Whether two expressions are the same with other letters for the gold's constants.
fn with_constants(
    (gold, is_constant): (&Expr, &dyn Fn(&str) -> bool),
    answer: &Expr,
    fuel: &mut Fuel,
) -> bool {
    const MAX_CONSTANTS: usize = 3;
    let (of_gold, of_answer) = (variables(gold), variables(answer));
    let (constants, others): (Vec<_>, Vec<_>) =
        of_gold.into_iter().partition(|name| is_constant(name));
    let is_other = |name: &String| others.contains(name);
    let letters: Vec<String> = of_answer.iter().filter(|name| !is_other(name)).cloned().collect();
    let are_free = letters.iter().all(|name| !matches!(name.as_str(), "x" | "y" | "z" | "t"));
    let count = constants.len();
    let are_alike = count == letters.len() && (1..=MAX_CONSTANTS).contains(&count);
    if !are_alike || !are_free || !others.iter().all(|name| of_answer.contains(name)) {
        return false;
    }
    // Letters that both have may be exchanged: by way of names that neither has.
    let apart = letters.iter().enumerate().fold(answer.clone(), |expr, (at, letter)| {
        expr.with(letter, &Expr::Variable(format!("{letter} {at}")))
    });
    let orders: &[&[usize]] = match count {
        1 => &[&[0]],
        2 => &[&[0, 1], &[1, 0]],
        _ => &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]],
    };
    orders.iter().any(|order| {
        let renamed = letters.iter().zip(*order).enumerate().fold(
            apart.clone(),
            |expr, (at, (letter, to))| {
                expr.with(&format!("{letter} {at}"), &Expr::Variable(constants[*to].clone()))
            },
        );
        values(gold, &renamed, fuel)
    })
}
