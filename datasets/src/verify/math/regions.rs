//! Sets of real numbers: intervals, unions, inequalities, the line without some points. Each becomes a
//! sorted list of pieces that do not touch, and two sets are the same when their pieces are.

use super::fuel::Fuel;
use super::names::is_name;
use super::numeric::approximate;
use super::sets::set_in_words;
use super::tree::{Answer, Expr, Relation};
use super::values::{values, variables};

/// Most pieces of a set.
const MAX_PIECES: usize = 64;

/// One end of a piece.
#[derive(Debug, Clone)]
struct End {
    value: Expr,
    is_in: bool,
    /// About where it lies: for order only.
    at: f64,
}

/// From one end to the other; a single point where both are one value.
#[derive(Debug, Clone)]
struct Piece {
    low: End,
    high: End,
}

/// Whether both are the same set of real numbers. An inequality is a set only as the gold or against
/// another inequality: as an answer to an interval it may be the question itself.
pub(super) fn same_region(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> bool {
    // `|x - 1| < 3` may be the question of `-2 < x < 4`.
    if is_relation(answer) && !is_relation(gold) && !is_solved(answer)
        || is_shifted(answer) && !is_shifted(gold)
    {
        return false;
    }
    // `y < 3` says nothing of x.
    if letter(gold).zip(letter(answer)).is_some_and(|(a, b)| a != b) {
        return false;
    }
    // `x > 0, y > 0` are two statements, and no set of numbers.
    if !is_of_one(gold) || !is_of_one(answer) {
        return false;
    }
    let (Some(a), Some(b)) = (region(gold, fuel), region(answer, fuel)) else { return false };
    let same = |a: &End, b: &End, fuel: &mut Fuel| {
        a.is_in == b.is_in
            && (a.at == b.at || (a.at - b.at).abs() < 1e-6 * a.at.abs().max(1.0))
            && values(&a.value, &b.value, fuel)
    };
    a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| same(&a.low, &b.low, fuel) && same(&a.high, &b.high, fuel))
}

/// The letter of a set of relations.
fn letter(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Value(side) => variables(side).into_iter().next(),
        Answer::Chain(sides, _) => sides.iter().find_map(letter),
        Answer::Union(parts) | Answer::List(parts) => parts.first().and_then(letter),
        Answer::Member(name, _) => letter(name),
        _ => None,
    }
}

/// Whether relations are all of one letter.
fn is_of_one(answer: &Answer) -> bool {
    let (Answer::Union(parts) | Answer::List(parts)) = answer else { return true };
    let mut letters = parts.iter().filter_map(letter);
    let first = letters.next();
    letters.all(|other| Some(other) == first)
}

/// Whether `rest` is all that `others` leave of the real line, the condition "otherwise".
pub(super) fn is_rest(rest: &Answer, others: &[Answer], fuel: &mut Fuel) -> bool {
    // Even and odd
    if let ([Answer::Congruence(a, m)], Answer::Congruence(b, n)) = (others, rest) {
        return m == n && *m == Expr::integer(2) && a != b;
    }
    let Some(own) = region(rest, fuel) else { return false };
    let mut all = vec![];
    for other in others {
        let Some(pieces) = region(other, fuel) else { return false };
        all.extend(pieces);
    }
    let is_apart = all.iter().all(|a| own.iter().all(|b| common(a, b).is_none()));
    all.extend(own);
    let is_whole = |pieces: &[Piece]| match pieces {
        [piece] => piece.low.at == f64::NEG_INFINITY && piece.high.at == f64::INFINITY,
        _ => false,
    };
    is_apart && all.len() <= MAX_PIECES && is_whole(&merged(all))
}

/// Whether a relation has the absolute value of a sum.
fn is_shifted(answer: &Answer) -> bool {
    let is_sum = |side: &Answer| center(side).is_some() && !is_absolute(side);
    matches!(answer, Answer::Chain(sides, _) if sides.iter().any(is_sum))
}

/// Whether relations say it of a letter alone, or of its size: `x \ne 0`, `0 \le x < 5`, `|x| < 3`.
fn is_solved(answer: &Answer) -> bool {
    let is_letter =
        |side: &Answer| matches!(side, Answer::Value(Expr::Variable(_))) || is_absolute(side);
    let is_number =
        |side: &Answer| matches!(side, Answer::Value(value) if variables(value).is_empty());
    match answer {
        Answer::Chain(sides, _) => {
            sides.iter().filter(|side| is_letter(side)).count() == 1
                && sides.iter().all(|side| is_letter(side) || is_number(side))
        }
        Answer::Union(parts) | Answer::List(parts) => parts.iter().all(is_solved),
        _ => false,
    }
}

fn is_relation(answer: &Answer) -> bool {
    match answer {
        Answer::Chain(..) | Answer::Member(..) => true,
        Answer::Union(parts) | Answer::List(parts) => parts.iter().any(is_relation),
        _ => false,
    }
}

fn region(answer: &Answer, fuel: &mut Fuel) -> Option<Vec<Piece>> {
    let pieces = match answer {
        Answer::Tuple(open, ends, close) => {
            let [Answer::Value(low), Answer::Value(high)] = ends.as_slice() else { return None };
            let low = end(low, *open == '[', fuel)?;
            let high = end(high, *close == ']', fuel)?;
            let is_whole = low.at < high.at || (low.at == high.at && low.is_in && high.is_in);
            is_whole.then(|| vec![Piece { low, high }])?
        }
        Answer::Union(parts) => {
            let mut all = vec![];
            for part in parts {
                all.extend(region(part, fuel)?);
            }
            all
        }
        Answer::Set(points) => self::points(points, fuel)?,
        Answer::Member(_, set) => region(set, fuel)?,
        Answer::Words(words) => match set_in_words(words)? {
            Answer::Value(_) => return None,
            set => region(&set, fuel)?,
        },
        Answer::Without(whole, rest) => {
            region(rest, fuel)?.iter().fold(region(whole, fuel)?, |pieces, rest| {
                pieces.into_iter().flat_map(|piece| without(&piece, rest)).collect()
            })
        }
        Answer::Condition(inner) => region(inner, fuel)?,
        Answer::Chain(sides, relations) => inequality(sides, relations, fuel)?,
        // `x > 1, x < 2`: all of them hold.
        Answer::List(parts) if parts.iter().all(|part| matches!(part, Answer::Chain(..))) => {
            let mut pieces = vec![whole_line()];
            for part in parts {
                let next = region(part, fuel)?;
                pieces = pieces
                    .iter()
                    .flat_map(|a| next.iter().filter_map(|b| common(a, b)))
                    .take(MAX_PIECES)
                    .collect();
            }
            pieces
        }
        _ => return None,
    };
    (pieces.len() <= MAX_PIECES).then(|| merged(pieces))
}

fn end(value: &Expr, is_in: bool, fuel: &mut Fuel) -> Option<End> {
    let at = match value {
        Expr::Infinity => f64::INFINITY,
        Expr::Negative(inner) if **inner == Expr::Infinity => f64::NEG_INFINITY,
        other => approximate(other, fuel)?,
    };
    Some(End { value: value.clone(), is_in: is_in && at.is_finite(), at })
}

fn points(items: &[Answer], fuel: &mut Fuel) -> Option<Vec<Piece>> {
    let point = |item: &Answer| {
        let Answer::Value(value) = item else { return None };
        let end = end(value, true, fuel)?;
        end.at.is_finite().then(|| Piece { low: end.clone(), high: end })
    };
    items.iter().map(point).collect()
}

/// The real line.
fn whole_line() -> Piece {
    let high = End { value: Expr::Infinity, is_in: false, at: f64::INFINITY };
    let minus = Expr::negative(Expr::Infinity);
    Piece { low: End { value: minus, at: f64::NEG_INFINITY, ..high.clone() }, high }
}

/// What is left of a piece without another.
fn without(piece: &Piece, rest: &Piece) -> Vec<Piece> {
    let beside = |end: &End| End { is_in: !end.is_in && end.at.is_finite(), ..end.clone() };
    let left = Piece { high: beside(&rest.low), ..whole_line() };
    let right = Piece { low: beside(&rest.high), ..whole_line() };
    [left, right].iter().filter_map(|side| common(piece, side)).collect()
}

/// The common part of two pieces.
fn common(a: &Piece, b: &Piece) -> Option<Piece> {
    let inner = |a: &End, b: &End, is_low: bool| {
        if a.at == b.at {
            return End { is_in: a.is_in && b.is_in, ..a.clone() };
        }
        if (a.at > b.at) == is_low { a.clone() } else { b.clone() }
    };
    let (low, high) = (inner(&a.low, &b.low, true), inner(&a.high, &b.high, false));
    let is_there = low.at < high.at || (low.at == high.at && low.is_in && high.is_in);
    is_there.then_some(Piece { low, high })
}

/// `a < x <= b`, `x > a`, `x != a`, for a name x.
fn inequality(sides: &[Answer], relations: &[Relation], fuel: &mut Fuel) -> Option<Vec<Piece>> {
    let mut pieces = vec![whole_line()];
    for (pair, relation) in sides.windows(2).zip(relations) {
        let (side, value, relation) = match (&pair[0], &pair[1]) {
            (side, Answer::Value(value)) if is_name(side) || center(side).is_some() => {
                (side, value, *relation)
            }
            (Answer::Value(value), side) => (side, value, relation.flipped()),
            _ => return None,
        };
        let half = match center(side) {
            Some(at) => within(value, relation, &at, fuel)?,
            None if is_name(side) => beside(value, relation, fuel)?,
            None => return None,
        };
        pieces = pieces.iter().flat_map(|a| half.iter().filter_map(|b| common(a, b))).collect();
    }
    (!relations.is_empty()).then_some(pieces)
}

/// Where a number has a relation to `value`.
fn beside(value: &Expr, relation: Relation, fuel: &mut Fuel) -> Option<Vec<Piece>> {
    let point = end(value, true, fuel)?;
    let open = End { is_in: false, ..point.clone() };
    let whole = whole_line();
    Some(match relation {
        Relation::Less => vec![Piece { high: open, ..whole }],
        Relation::AtMost => vec![Piece { high: point, ..whole }],
        Relation::More => vec![Piece { low: open, ..whole }],
        Relation::AtLeast => vec![Piece { low: point, ..whole }],
        Relation::Unequal => without(&whole, &Piece { low: point.clone(), high: point }),
        Relation::Equal => return None,
    })
}

/// Where the distance from `centre` is less or more than `bound`, which is positive.
fn within(bound: &Expr, relation: Relation, centre: &Expr, fuel: &mut Fuel) -> Option<Vec<Piece>> {
    let is_in = matches!(relation, Relation::AtMost | Relation::AtLeast);
    let high = end(bound, is_in, fuel).filter(|end| end.at > 0.0 && end.at.is_finite())?;
    let by = end(centre, is_in, fuel).filter(|end| end.at.is_finite())?;
    let moved = |value: Expr, at: f64| End {
        value: Expr::Sum(vec![centre.clone(), value]),
        at: by.at + at,
        is_in,
    };
    let low = moved(Expr::negative(bound.clone()), -high.at);
    let high = moved(bound.clone(), high.at);
    let whole = whole_line();
    match relation {
        Relation::Less | Relation::AtMost => Some(vec![Piece { low, high }]),
        Relation::More | Relation::AtLeast => {
            Some(vec![Piece { low: whole.low, high: low }, Piece { low: high, high: whole.high }])
        }
        Relation::Equal | Relation::Unequal => None,
    }
}

/// Sorted, with pieces that overlap or touch made one.
fn merged(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces
        .sort_by(|a, b| a.low.at.total_cmp(&b.low.at).then_with(|| b.low.is_in.cmp(&a.low.is_in)));
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        match out.last_mut() {
            Some(last)
                if piece.low.at < last.high.at
                    || piece.low.at == last.high.at && (piece.low.is_in || last.high.is_in) =>
            {
                let (end, known) = (&piece.high, &last.high);
                if end.at > known.at || end.at == known.at && end.is_in {
                    last.high = piece.high;
                }
            }
            _ => out.push(piece),
        }
    }
    out
}

/// Where the absolute value of a variable, or of it and a number, is zero: 1 for `|x - 1|`.
fn center(side: &Answer) -> Option<Expr> {
    let Answer::Value(Expr::Call(name, arguments)) = side else { return None };
    let by = match arguments.as_slice() {
        [Expr::Variable(_)] if name == "abs" => return Some(Expr::integer(0)),
        [Expr::Sum(terms)] if name == "abs" => match terms.as_slice() {
            [Expr::Variable(_), by] if variables(by).is_empty() => by,
            _ => return None,
        },
        _ => return None,
    };
    Some(match by {
        Expr::Negative(by) => (**by).clone(),
        by => Expr::negative(by.clone()),
    })
}

/// The absolute value of a variable.
pub(super) fn is_absolute(side: &Answer) -> bool {
    matches!(side, Answer::Value(Expr::Call(name, arguments))
        if name == "abs" && matches!(arguments.as_slice(), [Expr::Variable(_)]))
}
