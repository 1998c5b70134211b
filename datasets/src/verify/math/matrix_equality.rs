//! What a matrix or a vector is equal to beside another one: a list of its rows, a sum of multiples of the standard
//! basis, `i + 2j`, a multiple of the identity matrix, `-2I`.

use super::fuel::Fuel;
use super::members::{Equal, in_order};
use super::scan::folded;
use super::tree::{Answer, Expr, VECTOR};
use super::values::{values, variables};

/// Whether a matrix is a list of its rows, `[[1,2],[3,4]]`, or a vector.
pub(super) fn rows_and_items(
    rows: &[Vec<Answer>],
    items: &[Answer],
    equal: Equal,
    fuel: &mut Fuel,
) -> bool {
    let nested = items.iter().map(|item| match item {
        Answer::Tuple(_, cells, _) => Some(cells),
        _ => None,
    });
    if let Some(nested) = nested.collect::<Option<Vec<_>>>() {
        return nested.len() == rows.len()
            && rows.iter().zip(nested).all(|(a, b)| in_order(a, b, equal, fuel));
    }
    let is_vector = rows.len() == 1 || rows.iter().all(|row| row.len() == 1);
    is_vector && in_order(&rows.concat(), items, equal, fuel)
}

/// Whether a sum of multiples of the standard basis is a vector: `i + 2j` and `(1, 2)`.
pub(super) fn vector(items: &[Answer], value: &Expr, equal: Equal, fuel: &mut Fuel) -> bool {
    let axes = ["i", "j", "k"].map(|letter| format!("{VECTOR}{letter}"));
    let names = variables(value);
    let is_known = |name: &String| axes.iter().take(items.len()).any(|axis| axis == name);
    let has_axis = names.iter().any(is_known);
    let others = names.iter().filter(|name| name.starts_with(VECTOR)).all(is_known);
    if !has_axis || !others || items.len() > axes.len() {
        return false;
    }
    let at = |one: Option<usize>| {
        axes.iter().enumerate().fold(value.clone(), |expr, (number, axis)| {
            expr.with(axis, &Expr::integer(i64::from(one == Some(number))))
        })
    };
    let coordinate = |number| Answer::Value(at(Some(number)));
    values(&at(None), &Expr::integer(0), fuel)
        && items.iter().enumerate().all(|(number, item)| equal(item, &coordinate(number), fuel))
}

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
