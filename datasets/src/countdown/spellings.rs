//! Every text of a correct answer to a Countdown problem that a solution of the task can be: trees over the numbers,
//! written with the fewest parentheses that keep them, as [`Expression`] prints. Not listed are texts with spaces or
//! with parentheses that could be left out, which the verifier accepts too.

use std::collections::BTreeSet;

use crate::verify::countdown::parse_problem;
use crate::verify::{Expression, Operator};

/// Most numbers of a problem whose answers are listed: every further one makes a hundred times as many trees.
const MAX_NUMBERS: usize = 5;
/// Most texts that are listed.
const MAX_SPELLINGS: usize = 4096;

/// A fraction in lowest terms with a denominator above 0.
type Fraction = (i128, i128);

/// A tree over some of the numbers, with its value.
#[derive(Clone)]
struct Part {
    tree: Expression,
    value: Fraction,
}

/// All texts, in order; `None` for a text that is no problem, for more than five numbers, and where there are more than
/// 4,096.
pub fn spellings(problem: &str) -> Option<Vec<String>> {
    let (numbers, target) = parse_problem(problem)?;
    if numbers.is_empty() || numbers.len() > MAX_NUMBERS {
        return None;
    }
    let all = (1_usize << numbers.len()) - 1;
    let target = (i128::from(target), 1);
    // By the set of numbers that are used, as bits.
    let mut parts: Vec<Vec<Part>> = vec![Vec::new(); all + 1];
    for (place, number) in numbers.iter().enumerate() {
        let value = (i128::from(*number), 1);
        parts[1 << place].push(Part { tree: Expression::Number(*number), value });
    }
    let mut texts = BTreeSet::new();
    if numbers.len() == 1 {
        texts.extend((numbers[0] == target.0 as u32).then(|| numbers[0].to_string()));
    }
    for used in 1..=all {
        let mut spellings = Vec::new();
        for left in (1..used).filter(|left| left & used == *left) {
            for (left, right) in
                parts[left].iter().flat_map(|l| parts[used - left].iter().map(move |r| (l, r)))
            {
                for operator in [Operator::Add, Operator::Sub, Operator::Mul, Operator::Div] {
                    let Some(value) = applied(operator, left.value, right.value) else { continue };
                    // Of all numbers only what reaches the target is made.
                    if used == all && value != target {
                        continue;
                    }
                    let sides = (Box::new(left.tree.clone()), Box::new(right.tree.clone()));
                    let tree = Expression::Binary(operator, sides.0, sides.1);
                    match used == all {
                        true => _ = texts.insert(tree.to_string()),
                        false => spellings.push(Part { tree, value }),
                    }
                }
            }
            if texts.len() > MAX_SPELLINGS {
                return None;
            }
        }
        parts[used].extend(spellings);
    }
    Some(texts.into_iter().collect())
}

/// The value; `None` for a division by zero.
fn applied(operator: Operator, (a, b): Fraction, (c, d): Fraction) -> Option<Fraction> {
    let (over, under) = match operator {
        Operator::Add => (a * d + c * b, b * d),
        Operator::Sub => (a * d - c * b, b * d),
        Operator::Mul => (a * c, b * d),
        Operator::Div if c == 0 => return None,
        Operator::Div => (a * d * c.signum(), b * c.abs()),
    };
    let common = greatest_common_divisor(over.abs(), under);
    Some((over / common, under / common))
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a.max(1) } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::countdown::{CountdownStream, Split};
    use crate::verify::countdown::Countdown;
    use crate::{Problem, Verifier};

    /// Texts over `numbers` in every order, tree and operator, by brute force.
    fn brute(numbers: &[u32]) -> Vec<Expression> {
        if let [number] = numbers {
            return vec![Expression::Number(*number)];
        }
        let mut all = Vec::new();
        for cut in 1..numbers.len() {
            let (left, right) = (brute(&numbers[..cut]), brute(&numbers[cut..]));
            for (left, right) in left.iter().flat_map(|l| right.iter().map(move |r| (l, r))) {
                for operator in [Operator::Add, Operator::Sub, Operator::Mul, Operator::Div] {
                    let sides = (Box::new(left.clone()), Box::new(right.clone()));
                    all.push(Expression::Binary(operator, sides.0, sides.1));
                }
            }
        }
        all
    }

    fn orders(numbers: &[u32]) -> Vec<Vec<u32>> {
        if numbers.is_empty() {
            return vec![Vec::new()];
        }
        let mut all = Vec::new();
        for place in 0..numbers.len() {
            let rest = [&numbers[..place], &numbers[place + 1..]].concat();
            all.extend(
                orders(&rest).into_iter().map(|order| [vec![numbers[place]], order].concat()),
            );
        }
        all
    }

    #[test]
    fn list_equals_brute_force() {
        for (id, numbers) in [
            ("2,3,3,7=24", vec![2, 3, 3, 7]),
            ("3,3,8,8=24", vec![3, 3, 8, 8]),
            ("2,4,6=12", vec![2, 4, 6]),
        ] {
            let problem = Problem::new(id, tealight_core::Prompt::Text(format!("{id}:")), id);
            let texts = orders(&numbers).into_iter().flat_map(|order| brute(&order));
            let texts: HashSet<String> = texts.map(|tree| tree.to_string()).collect();
            let right: HashSet<String> = texts
                .into_iter()
                .filter(|text| Countdown::default().verify(&problem, text).is_correct())
                .collect();
            let listed = spellings(id).unwrap();
            assert_eq!(listed.iter().cloned().collect::<HashSet<_>>(), right, "{id}");
            assert_eq!(listed.len(), right.len());
        }
        assert_eq!(spellings("3,3,8,8=24").unwrap(), ["8/(3-8/3)"]);
        assert_eq!(spellings("7=7").unwrap(), ["7"]);
        assert_eq!((spellings("1,2,3,4,5,6=7"), spellings("nonsense")), (None, None));
    }

    #[test]
    fn every_solution_of_the_task_is_listed() {
        let mut stream = CountdownStream::new(Split::Test, 3, 0);
        for _ in 0..40 {
            let problem = stream.next_problem();
            let listed = spellings(&problem.answer).unwrap();
            assert!(listed.contains(problem.solution.as_ref().unwrap()), "{}", problem.id);
            for text in &listed {
                assert!(
                    Countdown::default().verify(&problem, text).is_correct(),
                    "{} {text}",
                    problem.id
                );
            }
        }
    }
}
