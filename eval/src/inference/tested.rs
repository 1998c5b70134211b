//! What may be said of a difference that was tested among others: its star, its cell and its sentence, all from one
//! value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::effect::{CONFIDENCE, Effect};
use crate::number::{counted, signed};

/// A difference of two models, named by their places, and a measure of it.
type Key = (usize, usize, String);

/// Differences that are tested together: what is shown beside each other, each difference once.
#[derive(Debug, Clone)]
pub struct Family {
    /// Whether the models themselves are compared; otherwise objectives are, of which one seed says nothing.
    compares_models: bool,
    effects: BTreeMap<Key, Effect>,
}

/// The tested differences of a [`Family`].
#[derive(Debug, Clone, Default)]
pub struct TestedFamily(BTreeMap<Key, Tested>);

/// A difference with what its test and the adjustment for the others say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tested {
    /// The difference, with its interval and p-value for it alone.
    #[serde(flatten)]
    pub effect: Effect,
    /// The p-value adjusted for all tests of the family (Holm).
    pub p_holm: f64,
    /// How many tests that are.
    pub tests: usize,
    /// What follows.
    pub finding: Finding,
}

/// What a tested difference shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// A change, also among all tests of the family.
    Change,
    /// The interval excludes 0, but the adjusted p-value is not below .05.
    NotAfterAdjustment,
    /// The interval holds 0.
    None,
    /// Objectives differ by seed, and there is one.
    OneSeed,
}

impl Family {
    /// A family without tests.
    pub fn new(compares_models: bool) -> Self {
        Self { compares_models, effects: BTreeMap::new() }
    }

    /// Adds the difference of the first model from the second; one that is there already stays.
    pub fn add(&mut self, (first, second): (usize, usize), measure: &str, effect: Option<Effect>) {
        let Some(effect) = effect else { return };
        let is_known = self.effects.contains_key(&(second, first, measure.to_owned()));
        if !is_known {
            self.effects.entry((first, second, measure.to_owned())).or_insert(effect);
        }
    }

    /// Tests all.
    pub fn tested(self) -> TestedFamily {
        let p_values: Vec<f64> = self.effects.values().map(|effect| effect.p_value).collect();
        let adjusted = holm(&p_values);
        let one = |((key, effect), p_holm): ((Key, Effect), f64)| {
            (key, Tested::new(effect, p_holm, p_values.len(), self.compares_models))
        };
        TestedFamily(self.effects.into_iter().zip(adjusted).map(one).collect())
    }
}

impl TestedFamily {
    /// The difference of the first model from the second.
    pub fn get(&self, (first, second): (usize, usize), measure: &str) -> Option<Tested> {
        let at = |first, second| self.0.get(&(first, second, measure.to_owned())).copied();
        at(first, second).or_else(|| at(second, first).map(Tested::reversed))
    }

    /// What a star means in the tables of this family.
    pub fn legend(&self) -> String {
        format!("* p < .05 after Holm's adjustment for {}", counted(self.0.len(), "test"))
    }
}

impl Tested {
    fn new(effect: Effect, p_holm: f64, tests: usize, compares_models: bool) -> Self {
        let alpha = 1.0 - CONFIDENCE;
        let finding = match effect.excludes_zero() {
            _ if !compares_models && effect.seeds < 2 => Finding::OneSeed,
            false => Finding::None,
            true if p_holm < alpha => Finding::Change,
            true => Finding::NotAfterAdjustment,
        };
        Self { effect, p_holm, tests, finding }
    }

    fn reversed(self) -> Self {
        let Effect { value, low, high, .. } = self.effect;
        let effect = Effect { value: -value, low: -high, high: -low, ..self.effect };
        Self { effect, ..self }
    }

    /// A star where it is a change among all tests.
    pub fn star(&self) -> &'static str {
        if self.finding == Finding::Change { "*" } else { "" }
    }

    /// The difference with its star.
    pub fn cell(&self) -> String {
        format!("{}{}", signed(self.effect.value, 3), self.star())
    }

    /// The difference with its star and interval.
    pub fn cell_with_interval(&self) -> String {
        let [low, high] = ends(&self.effect);
        format!("{} ({low} to {high})", self.cell())
    }

    /// What became of a measure: `pass@1 rises, +0.552 (95 %: +0.094 to +0.998)`.
    pub fn sentence(&self, measure: &str) -> String {
        let moves = if self.effect.value > 0.0 { "rises" } else { "falls" };
        let word = match self.finding {
            Finding::Change | Finding::NotAfterAdjustment => moves,
            Finding::None => "does not change measurably",
            Finding::OneSeed => "is not tested with one seed",
        };
        format!("{measure} {word}, {}", self.in_words())
    }

    /// The difference with its interval, and that the adjustment for other tests decides otherwise, where it does.
    pub fn in_words(&self) -> String {
        in_words(&self.effect) + &self.adjustment()
    }

    /// That the adjustment decides otherwise than the interval; empty where it does not.
    pub fn adjustment(&self) -> String {
        match self.finding {
            Finding::NotAfterAdjustment => {
                let tests = counted(self.tests, "test");
                format!(", not significant after Holm's adjustment for {tests}")
            }
            _ => String::new(),
        }
    }
}

/// A difference with its interval.
pub fn in_words(effect: &Effect) -> String {
    let [low, high] = ends(effect);
    format!("{} (95 %: {low} to {high})", signed(effect.value, 3))
}

/// The ends of the interval; where it excludes 0, neither is rounded to 0.
fn ends(effect: &Effect) -> [String; 2] {
    let digits = |end: f64| {
        let is_lost = effect.excludes_zero() && end.abs() < 5e-4;
        // One digit that is not 0; a dozen are enough for any number that was estimated.
        if is_lost { (-end.abs().log10()).ceil().clamp(3.0, 12.0) as usize } else { 3 }
    };
    [effect.low, effect.high].map(|end| signed(end, digits(end)))
}

/// P-values adjusted for there being several (Holm 1979): one below .05 is wrong in all of the table with chance
/// .05 at most.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut most = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        // The i-th smallest of m times m - i + 1, never below one before it: adjusted values keep the order.
        most = most.max(p_values[index] * (p_values.len() - rank) as f64).min(1.0);
        adjusted[index] = most;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_is_bonferroni_step_by_step() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.6, 0.9]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn one_seed_is_not_tested_unless_models_are_compared() {
        let sure = Effect { value: 0.1, low: 0.09, high: 0.11, p_value: 1e-9, seeds: 1 };
        let tested = |effect, compares_models| {
            let mut family = Family::new(compares_models);
            family.add((1, 0), "pass@1", Some(effect));
            family.add((1, 0), "pass@8", None);
            family.tested().get((1, 0), "pass@1").unwrap()
        };
        assert_eq!(tested(sure, false).cell(), "+0.100");
        assert_eq!(tested(sure, true).cell_with_interval(), "+0.100* (+0.090 to +0.110)");
        assert_eq!(tested(Effect { seeds: 3, ..sure }, false).cell(), "+0.100*");
        let text = tested(sure, false).sentence("pass@1");
        assert_eq!(text, "pass@1 is not tested with one seed, +0.100 (95 %: +0.090 to +0.110)");
    }

    #[test]
    fn a_difference_is_tested_once_from_either_side() {
        let sure = Effect { value: 0.1, low: 2e-5, high: 0.2, p_value: 0.04, seeds: 1 };
        let mut family = Family::new(true);
        family.add((1, 0), "pass@1", Some(sure));
        family.add((0, 1), "pass@1", Some(sure));
        family.add((2, 0), "pass@1", Some(Effect { p_value: 0.03, ..sure }));
        let tested = family.tested();
        assert_eq!(tested.0.len(), 2);
        assert_eq!(tested.get((0, 1), "pass@1").unwrap().cell(), "-0.100");
        assert_eq!(
            tested.get((1, 0), "pass@1").unwrap().sentence("pass@1"),
            "pass@1 rises, +0.100 (95 %: +0.00002 to +0.200), not significant after Holm's adjustment for 2 tests"
        );
        assert_eq!(tested.legend(), "* p < .05 after Holm's adjustment for 2 tests");
    }

    #[test]
    fn sentences_and_stars_say_what_intervals_say() {
        let (fewer, more) = ("pass@1 falls, ", "pass@1 rises, ");
        let (none, one_seed) = ("does not change measurably", "is not tested with one seed");
        let adjusted = "not significant after Holm's adjustment for 4 tests";
        for (effect, compares_models, words, cell) in [
            ([0.2, 0.1, 0.3, 1e-3], true, more, "+0.200* (+0.100 to +0.300)"),
            ([-0.2, -0.3, -1e-6, 1e-3], true, fewer, "-0.200* (-0.300 to -0.000001)"),
            ([0.2, 0.1, 0.3, 0.02], true, adjusted, "+0.200 (+0.100 to +0.300)"),
            ([0.0, -0.1, 0.1, 1.0], true, none, "+0.000 (-0.100 to +0.100)"),
            ([0.1, 0.0, 0.2, 0.05], true, none, "+0.100 (+0.000 to +0.200)"),
            ([0.2, 0.1, 0.3, 1e-3], false, one_seed, "+0.200 (+0.100 to +0.300)"),
        ] {
            let [value, low, high, p_value] = effect;
            let effect = Effect { value, low, high, p_value, seeds: 1 };
            let tested = Tested::new(effect, (4.0 * p_value).min(1.0), 4, compares_models);
            assert!(tested.sentence("pass@1").contains(words), "{}", tested.sentence("pass@1"));
            assert_eq!(tested.cell_with_interval(), cell);
        }
    }
}
