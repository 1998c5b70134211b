//! Forgetting: what training on one domain does to others, averaged over the sets outside the training domain.

use super::tables::runs;
use super::{Evaluated, Forgetting, Forgotten, Study};
use crate::Tally;
use crate::inference::{Effect, Family, Tested, average};
use crate::measure::pass_at_k::tally_pass_at_k;

impl Forgetting {
    /// Of a study with such sets, at the first of its temperatures.
    pub fn from_study(study: &Study) -> Option<Self> {
        let temperature = study.datasets.iter().find(|set| set.domain == "out")?.temperature;
        let is_wanted = |set: &&Evaluated| set.domain == "out" && set.temperature == temperature;
        let sets: Vec<&Evaluated> = study.datasets.iter().filter(is_wanted).collect();
        let change = |label: &str, k: usize| {
            let tables: Vec<_> =
                sets.iter().map(|set| changes(&set.base.problems, &runs(set, label), k)).collect();
            (k, average(&tables, 1.0).within(-1.0, 1.0))
        };
        let row = |label: &&str| Forgotten {
            objective: label.to_string(),
            pass: study.ks.iter().map(|k| change(label, *k)).collect(),
        };
        Some(Self {
            sets: sets.iter().map(|set| set.name.clone()).collect(),
            temperature,
            models: study.labels().iter().map(row).collect(),
        })
    }

    /// The title of its table.
    pub fn title(&self) -> String {
        let sets = self.sets.join(", ");
        format!("Forgetting: change from base out of domain, mean of {sets}, with 95 % intervals")
    }

    /// A row a model, the header first; stars are Holm's over the table.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let titles = self.models.first().into_iter().flat_map(|one| &one.pass);
        let titles = titles.map(|(k, _)| format!("pass@{k}"));
        let mut rows = vec![std::iter::once("change from base".to_owned()).chain(titles).collect()];
        let mut family = Family::new(false);
        for (index, one) in self.models.iter().enumerate() {
            for (k, effect) in &one.pass {
                family.add((index + 1, 0), &k.to_string(), Some(*effect));
            }
        }
        let tested = family.tested();
        for (index, one) in self.models.iter().enumerate() {
            let cell = |(k, _): &(usize, Effect)| {
                let tested = tested.get((index + 1, 0), &k.to_string());
                tested.as_ref().map(Tested::cell_with_interval).unwrap_or_default()
            };
            let values = one.pass.iter().map(cell);
            rows.push(std::iter::once(one.objective.clone()).chain(values).collect());
        }
        rows
    }
}

/// Pass@k of runs minus the base's, a row a run, on the problems that all of them were judged on.
fn changes(base: &[Tally], runs: &[&[Tally]], k: usize) -> Vec<Vec<f64>> {
    let is_judged = |i: &usize| {
        base[*i].samples > 0 && runs.iter().all(|run| run.get(*i).is_some_and(|t| t.samples > 0))
    };
    let judged: Vec<usize> = (0..base.len()).filter(is_judged).collect();
    let row = |run: &&[Tally]| {
        judged
            .iter()
            .map(|i| tally_pass_at_k(&run[*i], k) - tally_pass_at_k(&base[*i], k))
            .collect()
    };
    runs.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Draws;

    fn tally(samples: usize, correct: usize) -> Tally {
        Tally { samples, correct, ..Tally::default() }
    }

    #[test]
    fn sets_and_their_problems_have_equal_weights() {
        let base = [tally(4, 2), tally(4, 4)];
        let runs = [[tally(4, 1), tally(4, 4)], [tally(4, 2), tally(4, 2)]];
        let runs: Vec<&[Tally]> = runs.iter().map(|run| run.as_slice()).collect();
        let small = changes(&base, &runs, 1);
        assert_eq!(small, [[-0.25, 0.0], [0.0, -0.5]]);
        // A problem that a run was not judged on is left out of all.
        let unjudged = [tally(4, 1), tally(0, 0)];
        assert_eq!(changes(&base, &[&unjudged[..]], 1), [[-0.25]]);
        // A set of 2 problems with a mean of -.1875 and one of 4 with +.5.
        let large = vec![vec![0.5; 4]; 2];
        let mean = average(&[small, large], 1.0).value;
        assert!((mean - (0.5 - 0.1875) / 2.0).abs() < 1e-12, "{mean}");
        // Four problems that nobody changed are no proof that no problem changes.
        let still = average(&[vec![vec![0.0; 4]; 2]], 1.0).within(-1.0, 1.0);
        assert!(still.value == 0.0 && still.high > 0.5 && still.low == -still.high, "{still:?}");
    }

    /// Two sets outside the domain, of `problems` and four times as many; a run changes log-odds by `effect` and by
    /// something of its seed's.
    fn simulate(draws: &mut Draws, (seeds, problems): (usize, usize), effect: f64) -> Effect {
        let moves: Vec<f64> = (0..seeds).map(|_| effect + 0.25 * draws.normal()).collect();
        let mut set = |count: usize, mean: f64| -> Vec<Vec<f64>> {
            let odds: Vec<f64> = (0..count).map(|_| mean + 1.5 * draws.normal()).collect();
            let mut solved = |odds: f64| {
                let p = 1.0 / (1.0 + (-(odds + 0.5 * draws.normal())).exp());
                tally(32, draws.binomial(32, p))
            };
            let base: Vec<Tally> = odds.iter().map(|odds| solved(*odds)).collect();
            let runs: Vec<Vec<Tally>> = moves
                .iter()
                .map(|moved| odds.iter().map(|odds| solved(odds + moved)).collect())
                .collect();
            changes(&base, &runs.iter().map(Vec::as_slice).collect::<Vec<_>>(), 1)
        };
        average(&[set(problems, 0.5), set(4 * problems, -2.0)], 1.0).within(-1.0, 1.0)
    }

    #[test]
    fn forgetting_intervals_cover_95_percent() {
        for effect in [0.0, -0.6] {
            let mut draws = Draws::new(31);
            let truth = simulate(&mut draws, (400, 800), effect).value;
            for seeds in [2, 3, 5] {
                let (mut covered, mut wrong, studies) = (0, 0, 1500);
                for _ in 0..studies {
                    let estimate = simulate(&mut draws, (seeds, 20), effect);
                    covered += i32::from(estimate.low <= truth && truth <= estimate.high);
                    wrong += i32::from(estimate.p_value < 0.05);
                }
                let share = |count: i32| f64::from(count) / f64::from(studies);
                let (covered, wrong) = (share(covered), share(wrong));
                println!(
                    "forgetting {effect}, {seeds} seeds: covered {covered:.3}, p < .05 in {wrong:.3}"
                );
                assert!(covered >= 0.93, "{effect}, {seeds} seeds: {covered}");
                assert!(effect != 0.0 || wrong < 0.07, "{seeds} seeds: {wrong}");
            }
        }
    }
}
