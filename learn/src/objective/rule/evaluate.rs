//! The value of a rule's expression on one group.

use anyhow::{Result, bail};
use tealight_divergence::expression::{Expression, Operator, similar};

use super::{GroupStats, PARAMETERS};
use crate::objective::baseline;

/// A number of the group, or one of each sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    One(f64),
    Each(Vec<f64>),
}

/// A group, and the values of [`PARAMETERS`].
pub(super) struct Scope<'a> {
    pub(super) stats: &'a GroupStats,
    pub(super) values: &'a [f64],
}

/// Functions with the fewest and the most arguments.
const FUNCTIONS: [(&str, usize, usize); 17] = [
    ("mean", 1, 1),
    ("sum", 1, 1),
    ("std", 1, 1),
    ("count", 1, 1),
    ("mean_others", 1, 1),
    ("max", 1, 2),
    ("min", 1, 2),
    ("where", 3, 3),
    ("choose", 2, 2),
    ("pass_at_k", 3, 3),
    ("log", 1, 1),
    ("exp", 1, 1),
    ("sqrt", 1, 1),
    ("abs", 1, 1),
    ("tanh", 1, 1),
    ("log1p", 1, 1),
    ("expm1", 1, 1),
];

/// Refuses functions that are not known, and numbers of arguments that they do not take.
pub(super) fn check_calls(expression: &Expression) -> Result<()> {
    match expression {
        Expression::Number(_) | Expression::Name(_) => Ok(()),
        Expression::Negative(a) => check_calls(a),
        Expression::Binary(_, a, b) => check_calls(a).and_then(|()| check_calls(b)),
        Expression::Call(name, arguments) => {
            let Some((_, least, most)) = FUNCTIONS.iter().find(|one| one.0 == name) else {
                let known = FUNCTIONS.iter().map(|one| one.0);
                bail!("a rule has no function `{name}`{}", similar(name, known));
            };
            if !(*least..=*most).contains(&arguments.len()) {
                let takes =
                    if least == most { least.to_string() } else { format!("{least} or {most}") };
                bail!("`{name}` takes {takes} arguments, not {}", arguments.len());
            }
            arguments.iter().try_for_each(check_calls)
        }
    }
}

impl Scope<'_> {
    pub(super) fn value(&self, expression: &Expression) -> Value {
        match expression {
            Expression::Number(value) => Value::One(*value),
            Expression::Name(name) => self.named(name),
            Expression::Negative(a) => self.value(a).map(|a| -a),
            Expression::Binary(operator, a, b) => {
                let by = operation(*operator);
                self.value(a).with(self.value(b), by)
            }
            Expression::Call(name, arguments) => {
                let mut arguments = arguments.iter().map(|one| self.value(one));
                let mut next = || arguments.next().expect("calls were checked");
                let first = next();
                match name.as_str() {
                    "where" => {
                        let (yes, no) = (next(), next());
                        // A condition multiplied in would carry what is not chosen where that is infinite.
                        first.with_two(
                            yes,
                            no,
                            |is_so, yes, no| if is_so != 0.0 { yes } else { no },
                        )
                    }
                    "choose" => first.with(next(), choose),
                    "pass_at_k" => {
                        let (c, k) = (next(), next());
                        let whole = |one: f64| one.clamp(0.0, 1e6) as usize;
                        first.with_two(c, k, |n, c, k| pass_at_k(whole(n), whole(c), whole(k)))
                    }
                    "max" | "min" => {
                        let by: fn(f64, f64) -> f64 =
                            if name == "max" { f64::max } else { f64::min };
                        match arguments.next() {
                            Some(second) => first.with(second, by),
                            None => {
                                let all = self.each(first);
                                Value::One(all.into_iter().reduce(by).unwrap_or(0.0))
                            }
                        }
                    }
                    "log" => first.map(f64::ln),
                    "exp" => first.map(f64::exp),
                    "sqrt" => first.map(f64::sqrt),
                    "abs" => first.map(f64::abs),
                    "tanh" => first.map(f64::tanh),
                    "log1p" => first.map(f64::ln_1p),
                    "expm1" => first.map(f64::exp_m1),
                    reduction => self.reduced(reduction, first),
                }
            }
        }
    }

    /// A value as one number of each sample.
    pub(super) fn each(&self, value: Value) -> Vec<f64> {
        match value {
            Value::Each(all) => all,
            Value::One(one) => vec![one; self.stats.rewards.len()],
        }
    }

    fn reduced(&self, name: &str, value: Value) -> Value {
        let all = self.each(value);
        let mass = self.stats.mass.as_deref();
        // Equal numbers have exactly themselves as their mean: a group of one reward has no gradient.
        let is_even = all.iter().all(|one| *one == all[0]);
        Value::One(match name {
            "mean" if is_even => all[0],
            "mean" => baseline::mean(&all, mass),
            "std" if is_even => 0.0,
            "std" => baseline::deviation(&all, mass),
            "sum" => all.iter().sum(),
            "count" => all.iter().filter(|one| **one != 0.0).count() as f64,
            // r - (r - mean) n / (n - 1).
            _ if is_even => return Value::Each(all),
            _ => {
                let centred = baseline::less_the_others(&all, mass);
                return Value::Each(
                    all.iter().zip(centred).map(|(one, less)| one - less).collect(),
                );
            }
        })
    }

    pub(super) fn named(&self, name: &str) -> Value {
        let stats = self.stats;
        let counts = |all: &[usize]| Value::Each(all.iter().map(|one| *one as f64).collect());
        match name {
            "r" => Value::Each(stats.rewards.clone()),
            "correct" => Value::Each(stats.is_correct().into_iter().map(f64::from).collect()),
            "logp" => Value::Each(stats.policy_logp.clone()),
            "logp_base" => Value::Each(stats.reference_logp.clone()),
            "length" => counts(&stats.lengths),
            "class_size" => counts(&stats.class_sizes()),
            "rank" => counts(&stats.ranks()),
            "n" => Value::One(stats.rewards.len() as f64),
            "c" => Value::One(stats.classes.iter().flatten().count() as f64),
            "beta" => Value::One(stats.beta),
            "step" => Value::One(stats.step as f64),
            "progress" => Value::One(stats.progress),
            parameter => {
                let index = PARAMETERS.iter().position(|(known, _)| *known == parameter);
                Value::One(self.values[index.expect("names were checked")])
            }
        }
    }
}

impl Value {
    fn map(self, by: impl Fn(f64) -> f64) -> Self {
        match self {
            Value::One(one) => Value::One(by(one)),
            Value::Each(all) => Value::Each(all.into_iter().map(by).collect()),
        }
    }

    fn with(self, other: Self, by: impl Fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Value::One(a), Value::One(b)) => Value::One(by(a, b)),
            (a, b) => {
                let count = a.count().max(b.count());
                Value::Each((0..count).map(|i| by(a.at(i), b.at(i))).collect())
            }
        }
    }

    fn with_two(self, b: Self, c: Self, by: impl Fn(f64, f64, f64) -> f64) -> Self {
        let count = [&self, &b, &c].map(Self::count).into_iter().max().unwrap_or(0);
        let at = |i: usize| by(self.at(i), b.at(i), c.at(i));
        match count {
            0 => Value::One(at(0)),
            count => Value::Each((0..count).map(at).collect()),
        }
    }

    /// Entries of a vector, 0 of a number.
    fn count(&self) -> usize {
        match self {
            Value::One(_) => 0,
            Value::Each(all) => all.len(),
        }
    }

    fn at(&self, index: usize) -> f64 {
        match self {
            Value::One(one) => *one,
            Value::Each(all) => all[index],
        }
    }
}

fn operation(operator: Operator) -> fn(f64, f64) -> f64 {
    fn holds(is_so: bool) -> f64 {
        f64::from(is_so)
    }
    match operator {
        Operator::Add => |a, b| a + b,
        Operator::Subtract => |a, b| a - b,
        Operator::Multiply => |a, b| a * b,
        Operator::Divide => |a, b| a / b,
        Operator::Power => f64::powf,
        Operator::Less => |a, b| holds(a < b),
        Operator::AtMost => |a, b| holds(a <= b),
        Operator::Greater => |a, b| holds(a > b),
        Operator::AtLeast => |a, b| holds(a >= b),
        Operator::Equal => |a, b| holds(a == b),
        Operator::Unequal => |a, b| holds(a != b),
    }
}

/// The number of sets of k of n; 0 where there are none.
fn choose(n: f64, k: f64) -> f64 {
    if !(0.0..=n).contains(&k) || n > 1e6 {
        return 0.0;
    }
    let k = k.min(n - k).round() as usize;
    (0..k).map(|i| (n - i as f64) / (i + 1) as f64).product::<f64>()
}

/// The chance that k of n samples, c of them correct, hold a right one; 0 at `k = 0`.
fn pass_at_k(n: usize, c: usize, k: usize) -> f64 {
    if n < c + k {
        return 1.0;
    }
    // 1 - C(n - c, k) / C(n, k) as a product: binomials overflow.
    1.0 - (n - c + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product::<f64>()
}
