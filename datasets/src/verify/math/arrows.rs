//! Vectors between two points, `\overrightarrow{AB}`.

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
