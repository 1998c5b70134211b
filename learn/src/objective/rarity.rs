//! Rules that look at how often a sample's solution class, or its final answer, occurs: in its group and in the run.

use super::baseline::less_the_others;
use super::group_stats::GroupStats;

/// Bonuses for rare final answers (outcome-based exploration, arXiv 2509.06941).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exploration {
    /// Bonus of an answer that the run has not seen on the prompt; it falls with the root of how often it has.
    pub bonus: f64,
    /// Penalty of a sample whose answer all others of its group have.
    pub repeats: f64,
}

/// Divides the advantage of correct samples by the size of their solution class in the group, to a power.
pub(super) fn weigh_by_class(stats: &GroupStats, power: f64, advantages: &mut [f64]) {
    for (advantage, class) in advantages.iter_mut().zip(&stats.classes) {
        if class.is_some() {
            let members = stats.classes.iter().filter(|other| *other == class).count();
            *advantage *= (members as f64).powf(-power);
        }
    }
}

impl Exploration {
    /// Adds the gradients of `bonus E[min(1, 1 / sqrt N)]` and of `-repeats / 2` times the chance that two samples of a
    /// prompt have the same final answer. Each sample is compared with what the others give without it.
    pub(super) fn add(self, stats: &GroupStats, advantages: &mut [f64]) {
        let mass = stats.mass.as_deref();
        let earned = less_the_others(&bonuses(stats), mass).into_iter().zip(excesses(stats));
        for (advantage, (earned, excess)) in advantages.iter_mut().zip(earned) {
            *advantage += self.bonus * earned - self.repeats * excess;
        }
    }
}

/// `min(1, 1 / sqrt N)` of every sample's final answer; 0 where it has none.
fn bonuses(stats: &GroupStats) -> Vec<f64> {
    let bonus = |(index, outcome): (usize, &Option<usize>)| match outcome {
        None => 0.0,
        Some(_) => 1.0 / (stats.seen.get(index).copied().unwrap_or(0).max(1) as f64).sqrt(),
    };
    stats.outcomes.iter().enumerate().map(bonus).collect()
}

/// For every sample the share of the others that have its final answer, less the share of pairs of these others that
/// have the same.
fn excesses(stats: &GroupStats) -> Vec<f64> {
    let outcomes = &stats.outcomes;
    let weight = |index: usize| stats.mass.as_ref().map_or(1.0, |mass| mass[index]);
    let alike = |index: usize| -> f64 {
        let same = |other: &usize| {
            let is_other = stats.mass.is_some() || *other != index;
            is_other && outcomes[index].is_some() && outcomes[*other] == outcomes[index]
        };
        (0..outcomes.len()).filter(same).map(weight).sum()
    };
    // -repeats / 2 grad P(same) = -repeats E[share of others alike grad log pi]: either of a pair can be the sample.
    let alike: Vec<f64> = (0..outcomes.len()).map(alike).collect();
    let all: f64 = alike.iter().enumerate().map(|(index, alike)| weight(index) * alike).sum();
    if stats.mass.is_some() {
        return alike.iter().map(|alike| alike - all).collect();
    }
    let others = outcomes.len() as f64 - 1.0;
    // Of ordered pairs, those with the sample itself are twice as many as it has others alike.
    let pair_share = |alike: f64| match others > 1.0 {
        true => (all - 2.0 * alike) / (others * (others - 1.0)),
        false => 0.0,
    };
    alike.iter().map(|alike| alike / others.max(1.0) - pair_share(*alike)).collect()
}
