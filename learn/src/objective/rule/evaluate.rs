//! The value of a rule's expression on one group.

use anyhow::{Result, bail};
use tealight_divergence::expression::{Expression, Operator, similar};

use super::{GroupStats, PARAMETERS};
use crate::objective::advantage::{deviation, less_the_others, mean};

/// A number of the group, or one of each sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    One(f64),
    Each(Vec<f64>),
}

/// What a rule may name.
pub(super) struct Name {
    pub(super) name: &'static str,
    /// Whether its numbers are whole.
    pub(super) is_whole: bool,
    /// Whether it reads verdicts, in place of rewards.
    pub(super) is_of_verdicts: bool,
    /// Whether it has no limit of infinitely many samples.
    pub(super) is_of_group: bool,
    pub(super) value: fn(&GroupStats) -> Value,
}

impl Name {
    const fn new(name: &'static str, value: fn(&GroupStats) -> Value) -> Self {
        Self { name, is_whole: false, is_of_verdicts: false, is_of_group: false, value }
    }

    const fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    const fn of_verdicts(self) -> Self {
        Self { is_of_verdicts: true, ..self }
    }

    const fn of_group(self) -> Self {
        Self { is_of_group: true, ..self }
    }
}

/// What a rule may name besides [`PARAMETERS`].
pub(super) const NAMES: [Name; 12] = [
    Name::new("r", |group| Value::Each(group.rewards.clone())),
    Name::new("correct", |group| counts(verdicts(group))).whole().of_verdicts(),
    Name::new("logp", |group| Value::Each(group.behavior_logp.clone())),
    Name::new("logp_base", |group| Value::Each(group.base_logp.clone())),
    Name::new("length", |group| counts(group.lengths.iter().copied())).whole(),
    Name::new("class_size", |group| counts(class_sizes(group))).whole().of_verdicts().of_group(),
    Name::new("rank", |group| counts(ranks(group))).whole().of_group(),
    Name::new("n", |group| one(group.rewards.len())).whole().of_group(),
    Name::new("c", |group| one(verdicts(group).sum())).whole().of_verdicts().of_group(),
    Name::new("beta", |group| Value::One(group.beta)),
    Name::new("step", |group| one(group.step)).whole(),
    Name::new("progress", |group| Value::One(group.progress)),
];

fn verdicts(group: &GroupStats) -> impl Iterator<Item = usize> {
    group.classes.iter().map(|class| class.is_some().into())
}

fn one(number: usize) -> Value {
    Value::One(number as f64)
}

fn counts(all: impl IntoIterator<Item = usize>) -> Value {
    Value::Each(all.into_iter().map(|one| one as f64).collect())
}

/// A group, and the values of [`PARAMETERS`].
pub(super) struct Scope<'a> {
    pub(super) stats: &'a GroupStats,
    pub(super) values: &'a [f64],
}

/// What a function does with its arguments.
#[derive(Clone, Copy)]
pub(super) enum Builtin {
    /// Each entry by itself.
    Entry(fn(f64) -> f64),
    /// Two values entry by entry, or all entries of one.
    Fold(fn(f64, f64) -> f64),
    /// The group to one number, with its mass where samples weigh differently.
    Group(fn(&[f64], Option<&[f64]>) -> f64),
    /// Of each sample, the mean of the others.
    MeanOthers,
    /// The second value where the first is not 0, else the third.
    Where,
    /// Two or three numbers entry by entry.
    Two(fn(f64, f64) -> f64),
    Three(fn(f64, f64, f64) -> f64),
}

/// The functions of a rule, and whether they have no limit of infinitely many samples.
pub(super) const FUNCTIONS: [(&str, Builtin, bool); 17] = [
    ("mean", Builtin::Group(mean), false),
    ("sum", Builtin::Group(|all, _| all.iter().sum()), true),
    ("std", Builtin::Group(deviation), false),
    ("count", Builtin::Group(|all, _| all.iter().filter(|one| **one != 0.0).count() as f64), true),
    ("mean_others", Builtin::MeanOthers, false),
    ("max", Builtin::Fold(f64::max), false),
    ("min", Builtin::Fold(f64::min), false),
    ("where", Builtin::Where, false),
    ("choose", Builtin::Two(choose), true),
    ("pass_at_k", Builtin::Three(pass_at_k), true),
    ("log", Builtin::Entry(f64::ln), false),
    ("exp", Builtin::Entry(f64::exp), false),
    ("sqrt", Builtin::Entry(f64::sqrt), false),
    ("abs", Builtin::Entry(f64::abs), false),
    ("tanh", Builtin::Entry(f64::tanh), false),
    ("log1p", Builtin::Entry(f64::ln_1p), false),
    ("expm1", Builtin::Entry(f64::exp_m1), false),
];

impl Builtin {
    fn named(name: &str) -> Option<Self> {
        FUNCTIONS.iter().find(|one| one.0 == name).map(|one| one.1)
    }

    /// The fewest and the most arguments.
    fn arguments(self) -> (usize, usize) {
        match self {
            Self::Entry(_) | Self::Group(_) | Self::MeanOthers => (1, 1),
            Self::Fold(_) => (1, 2),
            Self::Two(_) => (2, 2),
            Self::Where | Self::Three(_) => (3, 3),
        }
    }
}

/// Refuses functions that are not known, and numbers of arguments that they do not take.
pub(super) fn check_calls(expression: &Expression) -> Result<()> {
    match expression {
        Expression::Number(_) | Expression::Name(_) => Ok(()),
        Expression::Negative(a) => check_calls(a),
        Expression::Binary(_, a, b) => check_calls(a).and_then(|()| check_calls(b)),
        Expression::Call(name, arguments) => {
            let Some(function) = Builtin::named(name) else {
                let known = FUNCTIONS.iter().map(|one| one.0);
                bail!("a rule has no function `{name}`{}", similar(name, known));
            };
            let (least, most) = function.arguments();
            if !(least..=most).contains(&arguments.len()) {
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
                match Builtin::named(name).expect("calls were checked") {
                    Builtin::Entry(by) => first.map(by),
                    Builtin::Group(by) => {
                        Value::One(by(&self.each(first), self.stats.mass.as_deref()))
                    }
                    Builtin::MeanOthers => self.mean_others(first),
                    Builtin::Two(by) => first.with(next(), by),
                    Builtin::Three(by) => {
                        let (second, third) = (next(), next());
                        first.with_two(second, third, by)
                    }
                    Builtin::Where => {
                        let (yes, no) = (next(), next());
                        // A condition multiplied in would carry what is not chosen where that is infinite.
                        let chosen = |is_so, yes, no| if is_so != 0.0 { yes } else { no };
                        first.with_two(yes, no, chosen)
                    }
                    Builtin::Fold(by) => match arguments.next() {
                        Some(second) => first.with(second, by),
                        None => Value::One(self.each(first).into_iter().reduce(by).unwrap_or(0.0)),
                    },
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

    /// `r - (r - mean) n / (n - 1)`.
    fn mean_others(&self, value: Value) -> Value {
        let all = self.each(value);
        let centred = less_the_others(&all, self.stats.mass.as_deref());
        Value::Each(all.iter().zip(centred).map(|(one, less)| one - less).collect())
    }

    fn named(&self, name: &str) -> Value {
        if let Some(known) = NAMES.iter().find(|known| known.name == name) {
            return (known.value)(self.stats);
        }
        let index = PARAMETERS.iter().position(|(known, _)| *known == name);
        Value::One(self.values[index.expect("names were checked")])
    }
}

/// How many samples of the group are in each one's solution class; 0 where it is incorrect.
fn class_sizes(stats: &GroupStats) -> Vec<usize> {
    let size = |class: &Option<usize>| match class {
        Some(_) => stats.classes.iter().filter(|other| *other == class).count(),
        None => 0,
    };
    stats.classes.iter().map(size).collect()
}

/// The place of each by mean log-probability, 0 for the least likely.
fn ranks(stats: &GroupStats) -> Vec<usize> {
    let mut order: Vec<usize> = (0..stats.rewards.len()).collect();
    order.sort_by(|a, b| mean_logp(stats, *a).total_cmp(&mean_logp(stats, *b)));
    let mut ranks = vec![0; order.len()];
    order.into_iter().enumerate().for_each(|(rank, index)| ranks[index] = rank);
    ranks
}

/// The mean log-probability of a sample's tokens.
pub(super) fn mean_logp(stats: &GroupStats, index: usize) -> f64 {
    stats.behavior_logp[index] / stats.lengths[index].max(1) as f64
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
fn pass_at_k(n: f64, c: f64, k: f64) -> f64 {
    let [n, c, k] = [n, c, k].map(|one| one.clamp(0.0, 1e6) as usize);
    if n < c + k {
        return 1.0;
    }
    // 1 - C(n - c, k) / C(n, k) as a product: binomials overflow.
    1.0 - (n - c + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product::<f64>()
}
