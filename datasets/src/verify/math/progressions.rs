//! Values that a whole number runs through, `\frac{\pi}{4} + k\pi`: the same whichever of them it begins with.

use super::compare::form;
use super::fuel::Fuel;
use super::numeric::approximate;
use super::scan::is_one_of;
use super::tree::{Answer, Constant, Expr};
use super::values::{values, variables};

/// Whether both run through the same values, all integers: those of multiples of pi, or where the gold says so.
pub(super) fn same_progression(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> bool {
    let ((gold, is_whole), (answer, may_be)) = (of_integers(gold), of_integers(answer));
    let (Some((name, a)), Some((other, b))) = (form(gold), form(answer)) else { return false };
    let is_same_name = name.is_none() || other.is_none() || name == other;
    let has_pi = a.holds(&|part| *part == Expr::Constant(Constant::Pi));
    let (Some((first, step)), Some((other, its_step))) =
        (progression(a, fuel), progression(b, fuel))
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

/// An answer without the set of its letter, and whether this is all integers.
fn of_integers(answer: &Answer) -> (&Answer, Option<bool>) {
    match answer {
        Answer::Qualified(inner, set, _) => (inner, Some(*set == 'Z')),
        other => (other, None),
    }
}

/// The value at 0 and the step of an expression that is linear in its only letter, an index.
fn progression(expr: &Expr, fuel: &mut Fuel) -> Option<(Expr, Expr)> {
    let names = variables(expr);
    let name = names.first().filter(|name| names.len() == 1 && is_one_of(name, "k|l|m|n|j"))?;
    let at = |value: i64| expr.with(name, &Expr::integer(value));
    let step = |value: i64| Expr::difference(&at(value), &at(value - 1));
    (values(&step(1), &step(2), fuel) && values(&step(1), &step(5), fuel)).then(|| (at(0), step(1)))
}
