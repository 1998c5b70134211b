//! The identity matrix and its multiples by their letter, `-2I`, `I_3`.

use super::fuel::Fuel;
use super::scan::folded;
use super::tree::{Answer, Expr};
use super::values::{values, variables};

/// The name of the identity matrix in an expression: `I`, `I_2`.
pub(super) fn identity_of(value: &Expr) -> Option<String> {
    let is_identity = |name: &String| *name == "I" || name.starts_with("I_[");
    let mut names = variables(value).into_iter().filter(is_identity);
    names.next().filter(|_| names.next().is_none())
}

/// Whether a matrix is a number times the identity: `\frac12 I`, `-I_2`.
pub(super) fn is_multiple_of_identity(rows: &[Vec<Answer>], value: &Expr, fuel: &mut Fuel) -> bool {
    let name = identity_of(value).unwrap_or_default();
    let side = name.strip_prefix("I_").map(|index| index.split(|c: char| !c.is_ascii_digit()));
    let mut sides = side.into_iter().flatten().filter(|digits| !digits.is_empty());
    let is_size =
        sides.next().is_none_or(|_| name.contains(&format!("digits: \"{}\"", rows.len())));
    let at = |number| value.with(&name, &Expr::integer(number));
    let zero = Expr::integer(0);
    // An empty matrix is one of nothing, and one of a single cell a number.
    is_size
        && rows.len() > 1
        && rows.iter().all(|row| row.len() == rows.len())
        && values(&zero, &at(0), fuel)
        && rows.iter().enumerate().all(|(i, row)| {
            row.iter().enumerate().all(|(j, cell)| {
                matches!(cell, Answer::Value(cell) if values(cell, &at(i64::from(i == j)), fuel))
            })
        })
}

/// Whether a matrix is what words name: the identity, or zero.
pub(super) fn is_named_matrix(rows: &[Vec<Answer>], name: &str, fuel: &mut Fuel) -> bool {
    let multiple = match folded(name).as_str() {
        "identity matrix" | "identity" => Expr::Variable("I".into()),
        "zero matrix" => Expr::integer(0),
        _ => return false,
    };
    is_multiple_of_identity(rows, &multiple, fuel)
}
