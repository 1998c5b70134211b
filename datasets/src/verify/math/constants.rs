//! Constants whose letter does not matter: those of integration, `C_1 e^x`, and those that a text calls constants.

use super::fuel::Fuel;
use super::tree::Expr;
use super::values::{values, variables};

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
pub(super) fn with_constants(
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
