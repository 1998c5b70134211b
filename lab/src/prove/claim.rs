//! What an objective is said to maximise: `E[v] - 0.1 KL(pi||a)`, with its exact gradient.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};
use candle_core::Tensor;

use super::super::claim::{constant, distinct, generator, prompts};
use super::super::exact::gradient_of;
use super::super::{Point, Table, World};
use tealight_learn::objective::{Anchor, Divergence, Plan, SampleSource, Target};

/// A sum of terms that is maximised.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Each with its coefficient; costs have negative ones.
    pub terms: Vec<(f64, Term)>,
}

/// A term of a claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Term {
    /// `E[v]`: the chance of being correct.
    Reward,
    /// `pass@k`: the chance that one of k samples is.
    Pass(u32),
    /// `distinct@k`: the expected number of distinct correct answers among k samples.
    Distinct(u32),
    /// `D(pi||q)` of whole completions, q the base, p* or p_beta of that beta.
    Apart(Divergence, Towards),
    /// `D(q||pi)`: the same with both exchanged.
    Reversed(Divergence, Towards),
}

/// The other distribution of a divergence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Towards {
    /// The base.
    Base,
    /// p*: the base given a correct answer.
    Filtered,
    /// p_beta.
    Tilted(f64),
}

impl Claim {
    /// What a plan is said to maximise: the mean reward, or what its rule is for (Pass@k, distinct answers), less its
    /// divergence of whole completions; or minus the divergence from its target, in the scale of its pseudo-rewards.
    ///
    /// # Errors
    /// A rule without a scalar that it is said to maximise.
    pub fn of_plan(plan: &Plan) -> Result<Self> {
        let mut terms = Vec::new();
        match &plan.anchor {
            Anchor::Target(matching) => {
                let towards = match matching.target {
                    Target::Filtered => Towards::Filtered,
                    Target::Tilted => Towards::Tilted(matching.beta),
                };
                let limit = matching.divergence.at_infinity();
                let is_scaled = plan.is_on_policy() && limit.is_finite();
                let scale = if is_scaled { 1.0 / limit } else { 1.0 };
                terms.push((-scale, Term::Apart(matching.divergence, towards)));
            }
            Anchor::None | Anchor::Base(_) => {
                terms.push((
                    1.0,
                    match plan.rule.as_ref().and_then(|rule| rule.row()) {
                        Some(("pkpo" | "pass-at-k", k)) => Term::Pass(k as u32),
                        Some(("unique", k)) => Term::Distinct(k as u32),
                        _ => Term::Reward,
                    },
                ));
            }
        }
        if let Anchor::Base(regulariser) = &plan.anchor {
            let towards = match regulariser.sampler {
                SampleSource::Filtered => Towards::Filtered,
                SampleSource::Policy | SampleSource::Stored => Towards::Base,
            };
            terms.push((-regulariser.beta, Term::Apart(regulariser.divergence, towards)));
        }
        Ok(Self { terms })
    }

    /// The point of the laboratory whose optimum is the claim's, where there is one.
    pub(super) fn point(&self) -> Option<Point> {
        match *self.terms.as_slice() {
            [(by, Term::Apart(divergence, towards))] if by < 0.0 => match towards {
                Towards::Filtered => Some(Point::Filtered(divergence)),
                Towards::Tilted(beta) => Some(Point::Tilted(divergence, beta)),
                Towards::Base => None,
            },
            [(1.0, Term::Reward), (by, Term::Apart(divergence, Towards::Base))]
                if by < 0.0 && divergence.equals(Divergence::ReverseKl) =>
            {
                Some(Point::Beta(-by))
            }
            _ => None,
        }
    }

    /// Refuses what has no finite value.
    pub(super) fn check(&self) -> Result<()> {
        let is_infinite = |term: &Term| match term {
            Term::Apart(divergence, Towards::Filtered) => divergence.at_infinity().is_infinite(),
            _ => false,
        };
        match self.terms.iter().find(|(by, term)| *by != 0.0 && is_infinite(term)) {
            Some((_, term)) => bail!(
                "claim `{self}`: {term} is infinite for every policy that can be incorrect; use p_beta(BETA), or a \
                 divergence that is finite there"
            ),
            None => Ok(()),
        }
    }

    /// The gradient in the table's logits.
    pub(super) fn gradient(&self, world: &World, table: &Table) -> Result<Vec<f64>> {
        let mut total: Option<Vec<f64>> = None;
        for (by, term) in &self.terms {
            let one = term.gradient(world, table)?;
            let scaled = one.into_iter().map(|x| by * x);
            total = Some(match total {
                None => scaled.collect(),
                Some(total) => total.into_iter().zip(scaled).map(|(a, b)| a + b).collect(),
            });
        }
        total.context("a claim has at least one term")
    }
}

impl Term {
    /// The gradient in the table's logits, averaged over prompts.
    pub(super) fn gradient(self, world: &World, table: &Table) -> Result<Vec<f64>> {
        gradient_of(&(self.value(world, table)? / prompts(world))?, table)
    }

    /// Its sum over prompts.
    pub(crate) fn value(self, world: &World, table: &Table) -> Result<Tensor> {
        let logp = table.token_logp()?.sum(1)?;
        let chance = logp.exp()?;
        Ok(match self {
            Term::Reward => (chance * constant(right(world))?)?.sum_all()?,
            Term::Pass(k) => {
                let outputs = world.outputs.len();
                let correct = (chance * constant(right(world))?)?;
                let validity = correct.reshape(((), outputs))?.sum(1)?;
                // 1 - (1 - p)^k of every prompt.
                (1.0 - (1.0 - validity)?.powf(f64::from(k))?)?.sum_all()?
            }
            Term::Distinct(k) => distinct(world, table, f64::from(k))?,
            // E_pi[log pi - log p]: finite too where p is below every float.
            Term::Apart(Divergence::ReverseKl, towards) => {
                (chance * (&logp - constant(towards.log(world))?)?)?.sum_all()?
            }
            Term::Apart(divergence, towards) => {
                let other = towards.distribution(world);
                let log = other.iter().map(|p| if *p > 0.0 { p.ln() } else { 0.0 }).collect();
                let inside = (generator(divergence, &(&logp - constant(log)?)?)?
                    * constant(other.clone())?)?
                .sum_all()?;
                let limit = divergence.at_infinity();
                let outside: Vec<f64> =
                    other.iter().map(|p| if *p > 0.0 { 0.0 } else { limit }).collect();
                match outside.iter().any(|one| *one != 0.0) {
                    true => (inside + (chance * constant(outside)?)?.sum_all()?)?,
                    false => inside,
                }
            }
            Term::Reversed(divergence, towards) => {
                let other = towards.distribution(world);
                if other.contains(&0.0) {
                    bail!("a divergence of p* from the policy needs `D(pi||p*)`, not its reverse");
                }
                // D_f(q || pi) = E_pi[f(q / pi)].
                let log = constant(other.iter().map(|p| p.ln()).collect())?;
                (generator(divergence, &(log - &logp)?)? * chance)?.sum_all()?
            }
        })
    }
}

impl Towards {
    fn distribution(self, world: &World) -> Vec<f64> {
        self.log(world).into_iter().map(f64::exp).collect()
    }

    fn log(self, world: &World) -> Vec<f64> {
        let of_prompt = |prompt: usize| -> Vec<f64> {
            let log = |all: &[f64]| all.iter().map(|p| p.ln()).collect();
            match self {
                Towards::Base => log(&world.base),
                Towards::Filtered => log(&world.filtered(prompt)),
                Towards::Tilted(beta) => {
                    let tilt = |right: &bool| f64::from(u8::from(*right)) / beta;
                    let rows = world.base.iter().zip(&world.is_right[prompt]);
                    let all: Vec<f64> = rows.map(|(a, right)| a.ln() + tilt(right)).collect();
                    // e^(1 / beta) overflows below beta = .0015: the largest exponent is taken out.
                    let top = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let sum = top + all.iter().map(|one| (one - top).exp()).sum::<f64>().ln();
                    all.into_iter().map(|one| one - sum).collect()
                }
            }
        };
        (0..world.is_right.len()).flat_map(of_prompt).collect()
    }
}

fn right(world: &World) -> Vec<f64> {
    world.is_right.iter().flatten().map(|right| f64::from(u8::from(*right))).collect()
}

impl FromStr for Claim {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let plain: String = text.split_whitespace().collect();
        let mut terms = Vec::new();
        let mut rest = plain.as_str();
        while !rest.is_empty() {
            let (sign, after) = match rest.as_bytes()[0] {
                b'+' => (1.0, &rest[1..]),
                b'-' => (-1.0, &rest[1..]),
                _ => (1.0, rest),
            };
            let digits = after.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(0);
            let size: f64 = if digits == 0 { 1.0 } else { after[..digits].parse()? };
            let after = after[digits..].trim_start_matches('*');
            // A term ends where its brackets are closed and a sign follows; `pass@4` has none.
            let mut depth = 0;
            // `forward-kl(pi||a)`: a hyphen within a name is no sign.
            let from = after.find('(').filter(|open| is_name_before(&after[..*open])).unwrap_or(0);
            let end = after[from..].char_indices().find(|(_, c)| {
                match c {
                    '(' | '[' => depth += 1,
                    ')' | ']' => depth -= 1,
                    _ => {}
                }
                depth == 0 && (*c == '+' || *c == '-')
            });
            let (word, more) = after.split_at(end.map_or(after.len(), |(at, _)| from + at));
            let term = term(word).with_context(|| format!("claim `{text}`"))?;
            terms.push((sign * size, term));
            rest = more;
        }
        if terms.is_empty() {
            bail!("a claim has at least one term, such as E[v] - 0.1 KL(pi||a)");
        }
        Ok(Self { terms })
    }
}

/// Whether what stands before a bracket is one name with hyphens.
fn is_name_before(text: &str) -> bool {
    text.parse::<Divergence>().is_ok()
}

fn term(word: &str) -> Result<Term> {
    if word == "E[v]" || word == "E[r]" {
        return Ok(Term::Reward);
    }
    for (name, of) in [("pass@", Term::Pass as fn(u32) -> Term), ("distinct@", Term::Distinct)] {
        if let Some(k) = word.strip_prefix(name) {
            let k = k.parse().ok().filter(|k| *k > 0);
            return Ok(of(k.with_context(|| format!("{name}k needs a k"))?));
        }
    }
    let explained = || {
        format!(
            "`{word}` is not E[v], pass@k, distinct@k, KL(pi||a), NAME(pi||a), D[FORMULA](pi||a), nor one to p* or p_beta(BETA)"
        )
    };
    let open = word.rfind("(pi||").or_else(|| word.find('(')).with_context(explained)?;
    let (name, inner) = (&word[..open], &word[open + 1..]);
    let inner = inner.strip_suffix(')').with_context(explained)?;
    let (left, other) = inner.split_once("||").with_context(explained)?;
    let towards = |text: &str| -> Result<Towards> {
        Ok(match text {
            "a" => Towards::Base,
            "p*" => Towards::Filtered,
            text => {
                let beta = text.strip_prefix("p_beta(").and_then(|rest| rest.strip_suffix(')'));
                let beta = beta.with_context(explained)?.parse().ok().filter(|beta| *beta > 0.0);
                Towards::Tilted(beta.context("p_beta(BETA) needs a beta above 0")?)
            }
        })
    };
    let divergence: Divergence = match name {
        "KL" => Divergence::ReverseKl,
        name => match name.strip_prefix("D[").and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => inner.parse()?,
            None => name.parse()?,
        },
    };
    match (left, other) {
        ("pi", other) => Ok(Term::Apart(divergence, towards(other)?)),
        (left, "pi") if name == "KL" => Ok(Term::Apart(Divergence::ForwardKl, towards(left)?)),
        (left, "pi") => Ok(Term::Reversed(divergence, towards(left)?)),
        _ => bail!(explained()),
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |divergence: Divergence| format!("D[{divergence}]");
        match *self {
            Term::Reward => write!(f, "E[v]"),
            Term::Pass(k) => write!(f, "pass@{k}"),
            Term::Distinct(k) => write!(f, "distinct@{k}"),
            Term::Apart(Divergence::ReverseKl, other) => write!(f, "KL(pi||{other})"),
            Term::Apart(Divergence::ForwardKl, other) => write!(f, "KL({other}||pi)"),
            Term::Apart(divergence, other) => write!(f, "{}(pi||{other})", named(divergence)),
            Term::Reversed(divergence, other) => write!(f, "{}({other}||pi)", named(divergence)),
        }
    }
}

impl fmt::Display for Towards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Towards::Base => write!(f, "a"),
            Towards::Filtered => write!(f, "p*"),
            Towards::Tilted(beta) => write!(f, "p_beta({beta})"),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (by, term)) in self.terms.iter().enumerate() {
            let sign = match (index, *by < 0.0) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            };
            let size = by.abs();
            if size == 1.0 {
                write!(f, "{sign}{term}")?;
            } else {
                write!(f, "{sign}{size} {term}")?;
            }
        }
        Ok(())
    }
}
