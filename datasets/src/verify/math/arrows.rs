//! Names that are products where only one side has them: vectors between two points, `\overrightarrow{AB}`, and `dy` of
//! a derivative.

use std::collections::BTreeSet;

use super::tree::Expr;
use super::values::variables;

/// Before the two points, in the name of a vector's variable.
const ARROW: char = '\u{21c0}';

/// The name of a vector whose points stand behind its command, and how long these are. It is no product of the points,
/// which would be the same from B to A.
pub(super) fn arrow(command: &str, rest: &str) -> Option<(String, usize)> {
    matches!(command, "vec" | "overrightarrow").then_some(())?;
    let inner = rest.split_once('}')?.0;
    let ends = inner.strip_prefix('{')?.replace(' ', "");
    let are_points = ends.len() == 2 && ends.bytes().all(|byte| byte.is_ascii_uppercase());
    are_points.then(|| (format!("{ARROW}{ends}"), inner.len() + 1))
}

/// Both with the vector from B to A as minus that from A to B; where only one has arrows, with products of the points
/// as the other. None where neither has.
pub(super) fn between_points(gold: &Expr, answer: &Expr) -> Option<(Expr, Expr)> {
    let is_arrow = |part: &Expr| matches!(part, Expr::Variable(name) if name.starts_with(ARROW));
    let are_arrows = |expr: &Expr| expr.holds(&is_arrow);
    let (in_gold, in_answer) = (are_arrows(gold), are_arrows(answer));
    (in_gold || in_answer).then_some(())?;
    let point = |c: char| Expr::Variable(c.to_string());
    let read = |name: &str| {
        let ends: Vec<char> = name.strip_prefix(ARROW)?.chars().collect();
        let [from, to] = ends[..] else { return None };
        Some(match in_gold && in_answer {
            true if from > to => Expr::negative(Expr::Variable(format!("{ARROW}{to}{from}"))),
            true => return None,
            false => Expr::Product(vec![point(from), point(to)]),
        })
    };
    let all = |expr: &Expr| {
        let named = variables(expr);
        let named = named.iter().filter_map(|name| Some((name, read(name)?)));
        named.fold(expr.clone(), |expr, (name, vector)| expr.with(name, &vector))
    };
    Some((all(gold), all(answer)))
}

/// Both with `dy` of a derivative as a product, where only one has such names and the sign stands alone as well:
/// `\frac{dP}{dt}` and `\frac{d}{dt}P`.
pub(super) fn with_signs_apart(gold: &Expr, answer: &Expr) -> Option<(Expr, Expr)> {
    let names = [variables(gold), variables(answer)];
    let joined = |names: &BTreeSet<String>| {
        names.iter().find_map(|name| Some(name.split_once(' ')?.0.to_owned()))
    };
    let sign = joined(&names[0]).xor(joined(&names[1]))?;
    names.iter().any(|names| names.contains(&sign)).then_some(())?;
    let apart = |expr: Expr, name: &String| match name.split_once(' ') {
        Some((of, letter)) if of == sign => {
            let factors = [of, letter].map(|name| Expr::Variable(name.to_owned()));
            expr.with(name, &Expr::Product(factors.into()))
        }
        _ => expr,
    };
    let all = |expr: &Expr, names: &BTreeSet<String>| names.iter().fold(expr.clone(), apart);
    Some((all(gold, &names[0]), all(answer, &names[1])))
}
