//! An advantage by its rule: `advantage=(r - mean(r)) / (std(r) + 1e-6)`.
//!
//! The rule is an expression over the samples of one group: vectors have one number per sample, scalars one per group,
//! reductions turn the first into the second. There is no loop and no state, and its size is bounded, so a stranger's
//! settings may hold one. What a rule reads of a step follows from its names. It is tried on groups of every number of
//! correct samples when it is given: what gives no finite number there is refused with the group.
//!
//! What no rule says, a function of the user's may: `advantage=python:FILE.py:FUNCTION`.

mod evaluate;
mod function;

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use tealight_core::display::one_spaced;
use tealight_divergence::expression::{Expression, similar};

use super::advantage::GroupStats;
use evaluate::{FUNCTIONS, NAMES, Scope};
use function::Function;
pub use function::PREFIX as FUNCTION;

/// A rule of a paper.
pub(super) struct Row {
    /// What `rule=` takes.
    pub(super) name: &'static str,
    /// One line for `tealight objectives`.
    pub(super) about: &'static str,
    pub(super) text: &'static str,
}

/// The rules of papers.
pub(super) const ROWS: [Row; 5] = [
    // The gradient of -sum_{j < n} (1 - p)^j / j, log p cut after n - 1 terms (MaxRL, arXiv 2602.02710).
    Row {
        name: "maxrl",
        about: "the gradient of a truncated log of the pass rate",
        text: "where(c > 0, where(correct, 1 - c/n, -c/n) / (c/n + 1e-6), 0)",
    },
    // n times PKPO's estimate (arXiv 2505.15201): k for a correct sample, else k times the Pass@(k-1) of the others,
    // less the mean of the same over the group without the sample.
    Row {
        name: "pkpo",
        about: "the unbiased gradient of Pass@k (key k)",
        text: "k * (where(correct, 1, pass_at_k(n-1, c, k-1))
            - (c - correct + (n - 1 - c + correct) * pass_at_k(n-2, c - correct, k-1)) / (n - 1))",
    },
    // A set of k has the reward R = Pass@k with deviation sqrt(R (1 - R)); a correct sample's sets all pass (arXiv
    // 2508.10751).
    Row {
        name: "pass-at-k",
        about: "the analytical advantage of Pass@k (key k)",
        text: "where((c == 0) + (n - c < k), 0,
            (1 - pass_at_k(n, c, k) - where(correct, 0, 1 - pass_at_k(n-1, c, k-1)))
            / sqrt(pass_at_k(n, c, k) * (1 - pass_at_k(n, c, k))))",
    },
    // GRPO with rewards r (1 - strength rank / n): correct answers that are likelier than others of the group earn less
    // (arXiv 2506.02355).
    Row {
        name: "unlikeliness",
        about: "smaller rewards for likely correct completions (key strength)",
        text: "(r * (1 - strength * rank/n) - mean(r * (1 - strength * rank/n)))
            / (std(r * (1 - strength * rank/n)) + 1e-6)",
    },
    // k times the distinct correct answers of the sets of k with the sample less those of the sets without it: the sums
    // are over the other classes of what k - 1 or k of the others miss less.
    Row {
        name: "unique",
        about: "the unbiased gradient of the distinct correct answers among k (key k)",
        text: "where((c == 0) + (max(class_size) == n), 0, k * (correct
            + sum(where(correct, (pass_at_k(n-1, class_size, k-1) - pass_at_k(n-1, class_size, k)) / class_size, 0))
            - where(correct, pass_at_k(n-1, class_size, k-1) - pass_at_k(n-1, class_size, k)
                + pass_at_k(n-1, class_size-1, k), 0)))",
    },
];

/// A rule of advantages, with the values of its parameters.
#[derive(Debug, Clone)]
pub struct Rule {
    /// As it was written, with single blanks.
    text: String,
    source: Source,
    values: [f64; PARAMETERS.len()],
    /// The fewest samples of a group in which it is finite.
    least: usize,
}

/// What gives the advantages.
#[derive(Debug, Clone, PartialEq)]
enum Source {
    Expression(Expression),
    Function(Arc<Function>),
}

/// Numbers that a key of the objective gives, with their defaults.
pub(super) const PARAMETERS: [(&str, f64); 3] = [("k", 4.0), ("strength", 0.25), ("power", 1.0)];

/// What a rule may name, as one line each.
pub const HELP: &str = "\
r             reward of each sample; correct: 1 or 0
logp          log-probability of each completion under the policy; logp_base under the base
length        tokens of each completion
class_size    samples of the group in the same solution class; 0 where it is incorrect
rank          by mean log-probability per token, 0 for the least likely
n, c          samples of the group; correct ones
beta          coefficient of the objective
step          number of the step, from 0; progress: 0 at the first step of the run, 1 at the last
k, strength, power   numbers that the key of that name gives
mean sum std max min mean_others count    of a vector: one number; mean_others leaves each
              sample itself out, count is of entries that are not 0, std divides by n - 1
where(condition, a, b), choose(n, k), pass_at_k(n, c, k) = 1 - choose(n-c, k) / choose(n, k)
+ - * / ^, < <= > >= == !=, log exp sqrt abs tanh log1p expm1, max(a, b), min(a, b)";

impl Rule {
    /// Reads a text; `value` gives the parameters that it names.
    pub(super) fn parse(
        text: &str,
        mut value: impl FnMut(&'static str, f64) -> Result<f64>,
    ) -> Result<Self> {
        let explained = |error| anyhow!("`advantage`: {error:#}");
        let values = PARAMETERS.map(|(_, default)| default);
        if let Some(argument) = text.strip_prefix(FUNCTION) {
            let function = Function::parse(argument).map_err(explained)?;
            let source = Source::Function(function.into());
            return Ok(Self { text: text.into(), source, values, least: 1 });
        }
        let text = one_spaced(text);
        let source = Source::Expression(read(&text).map_err(explained)?);
        let mut rule = Self { text, source, values, least: 1 };
        for (index, (name, default)) in PARAMETERS.iter().enumerate() {
            if rule.reads(name) {
                rule.values[index] = value(name, *default)?;
                check_parameter(name, rule.values[index])?;
            }
        }
        if rule.reads("k") {
            rule.least = rule.values[0] as usize + 1;
        }
        rule.find_least().map_err(explained)?;
        Ok(rule)
    }

    /// The text as it was written, but for blanks at line ends.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Loads the function that the text names, if it names one, and tries it on groups of `group` samples.
    pub(super) fn open(&self, group: usize) -> Result<()> {
        let Source::Function(function) = &self.source else { return Ok(()) };
        function.load()?;
        self.try_every(group).map_err(|error| anyhow!("{error:#}"))
    }

    /// Whether it is a function of the user's, not a text.
    pub fn is_function(&self) -> bool {
        matches!(self.source, Source::Function(_))
    }

    /// The name of the row that has this text, and the k of it; none of a rule of the user's own.
    pub fn row(&self) -> Option<(&'static str, f64)> {
        let is_same = |text: &str| {
            let words: String = text.split_whitespace().collect();
            read(&words).is_ok_and(|known| self.source == Source::Expression(known))
        };
        let row = ROWS.iter().find(|row| is_same(row.text))?;
        Some((row.name, self.values[0]))
    }

    /// The parameters that it names, with their values.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = PARAMETERS.iter().map(|(name, _)| *name).zip(self.values);
        all.filter(|(name, _)| self.reads(name))
    }

    /// Whether the text has this name.
    pub fn reads(&self, name: &str) -> bool {
        match &self.source {
            Source::Expression(expression) => expression.names().contains(&name),
            Source::Function(function) => function.reads(name),
        }
    }

    /// Whether it reads verdicts, not rewards.
    pub(super) fn is_binary(&self) -> bool {
        NAMES.iter().any(|one| one.is_of_verdicts && self.reads(one.name))
    }

    /// Whether it has a limit of infinitely many samples.
    pub fn is_of_samples(&self) -> bool {
        let Source::Expression(expression) = &self.source else { return false };
        let calls = expression.calls();
        !NAMES.iter().any(|one| one.is_of_group && self.reads(one.name))
            && !FUNCTIONS.iter().any(|(name, _, is_of_group)| *is_of_group && calls.contains(name))
    }

    /// Whether it may change from step to step.
    pub fn reads_time(&self) -> bool {
        ["step", "progress"].iter().any(|name| self.reads(name))
    }

    /// The fewest samples of a group that it needs.
    pub fn smallest_group(&self) -> usize {
        self.least
    }

    /// The advantage of every sample.
    pub(super) fn advantages(&self, stats: &GroupStats) -> Result<Vec<f64>> {
        let scope = Scope { stats, values: &self.values };
        match &self.source {
            Source::Expression(expression) => Ok(scope.each(scope.value(expression))),
            Source::Function(function) => function.advantages(stats),
        }
    }

    /// Finds the smallest group from which on it is finite: one that divides by the number of pairs of others needs
    /// three samples. The work is bounded, since settings of strangers hold rules.
    fn find_least(&mut self) -> Result<()> {
        /// Samples of a group beyond which nothing is tried.
        const MOST: usize = 4096;
        /// Sizes of the smallest group that are tried.
        const TRIES: usize = 4;
        let first = self.least;
        let mut refusal = Ok(());
        for least in first..first + TRIES {
            self.least = least;
            let sizes = [least, least + 1, least + 2, 2 * least + 5];
            let sizes = sizes.into_iter().filter(|n| *n <= MOST);
            let tried = sizes.into_iter().try_for_each(|n| self.try_every(n));
            match tried {
                Ok(()) => return Ok(()),
                // A group of one sample is no example.
                Err(error) if least <= first.max(2) => refusal = Err(error),
                Err(_) => {}
            }
        }
        refusal
    }

    /// Tries groups of `n` samples with every number of correct ones, of large groups with some, and one with graded
    /// rewards.
    fn try_every(&self, n: usize) -> Result<()> {
        /// Samples of a group up to which every number of correct ones is tried.
        const EVERY: usize = 64;
        let k = self.smallest_group() - 1;
        let some = [0, 1, k, k + 1, n / 2, n - k - 1, n - k, n - 1, n];
        let counts: Vec<usize> = if n <= EVERY { (0..=n).collect() } else { some.into() };
        for c in counts {
            let is_correct = |i: usize| i % n < c;
            let group = trial(n, is_correct, |i| f64::from(u8::from(is_correct(i))));
            self.try_group(&group, &format!("{n} samples, {c} of them correct"))?;
        }
        let graded = trial(n, |i| i > 0, |i| i as f64 / n as f64);
        self.try_group(&graded, &format!("{n} samples with graded rewards"))?;
        // e^1000 is infinite: a rule of the log-probability of a token is not one of that of a completion.
        let long =
            |less: f64| graded.behavior_logp.iter().map(|logp| 500.0 * logp - less).collect();
        let long = GroupStats {
            behavior_logp: long(0.0),
            base_logp: long(5.0),
            lengths: graded.lengths.iter().map(|length| 500 * length).collect(),
            ..graded
        };
        self.try_group(&long, &format!("{n} long samples"))
    }

    /// Tries it at the first step, one on the way and the last, if it reads which one it is.
    fn try_group(&self, group: &GroupStats, what: &str) -> Result<()> {
        let moments = [(0, 0.0), (1, 0.5), (2, 1.0)];
        for (step, progress) in &moments[..if self.reads_time() { 3 } else { 1 }] {
            let group = GroupStats { step: *step, progress: *progress, ..group.clone() };
            let advantages = self.advantages(&group)?;
            if let Some(odd) = advantages.iter().find(|one| !one.is_finite()) {
                let at = if self.reads_time() {
                    format!(" at step {step}, progress {progress}")
                } else {
                    String::new()
                };
                bail!(
                    "`{}` gives {odd} in a group of {what}{at}; add a small number to a divisor that may be 0, or use \
                     where(...)",
                    self.text()
                );
            }
        }
        Ok(())
    }
}

fn check_parameter(name: &str, value: f64) -> Result<()> {
    match name {
        "k" if value < 1.0 || value.fract() != 0.0 => {
            bail!("`k` must be a whole number of at least 1")
        }
        "power" if value < 0.0 => bail!("`power` must be at least 0"),
        _ => Ok(()),
    }
}

/// A group for a trial: correct samples share classes in pairs.
fn trial(
    n: usize,
    is_correct: impl Fn(usize) -> bool,
    reward: impl Fn(usize) -> f64,
) -> GroupStats {
    GroupStats {
        rewards: (0..n).map(reward).collect(),
        classes: (0..n).map(|i| is_correct(i).then_some(i / 2)).collect(),
        behavior_logp: (0..n).map(|i| -5.0 - (i as f64 * 1.7) % 3.0).collect(),
        base_logp: (0..n).map(|i| -5.5 - (i as f64 * 1.3) % 2.0).collect(),
        lengths: (0..n).map(|i| 3 + i % 4).collect(),
        normaliser: 0.5,
        beta: 0.1,
        ..GroupStats::default()
    }
}

/// The expression of a text, with its names and calls checked.
fn read(text: &str) -> Result<Expression> {
    let expression = Expression::parse(text)?;
    for name in expression.names() {
        let parameters = PARAMETERS.iter().map(|(name, _)| *name);
        let known = || NAMES.iter().map(|one| one.name).chain(parameters.clone());
        if !known().any(|known| known == name) {
            bail!("a rule does not know `{name}`{}", similar(name, known()));
        }
    }
    evaluate::check_calls(&expression)?;
    Ok(expression)
}

/// Equal expressions with equal values, whatever the blanks.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        (&self.source, self.values) == (&other.source, other.values)
    }
}

#[cfg(test)]
mod tests;
