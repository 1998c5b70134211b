//! The differences of a study's models that are tested together, as tables and as sentences.

use super::tables::{has_retained, matched, matched_title, retained, runs};
use super::{Evaluated, Study};
use crate::Tally;
use crate::inference::{Effect, Family, Tested, TestedFamily, crossed};
use crate::measure::pass_at_k::tally_pass_at_k;

/// The differences of the models of one set of problems: each from the base, and the trained ones from each other.
pub struct Differences<'a> {
    study: &'a Study,
    evaluated: &'a Evaluated,
    /// The base and every model beside it.
    names: Vec<&'a str>,
    tested: TestedFamily,
}

const MATCHED: &str = "matched";
const RETAINED: &str = "retained";

impl<'a> Differences<'a> {
    /// All that the tables of one set show, tested together.
    pub fn new(study: &'a Study, evaluated: &'a Evaluated) -> Self {
        let labels = evaluated.contrasts.iter().map(|(label, _)| label.as_str());
        let mut names: Vec<&str> = std::iter::once("base").chain(labels).collect();
        for name in study.labels() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut all = Self { study, evaluated, names, tested: TestedFamily::default() };
        let mut family = Family::new(false);
        for (index, (_, contrast)) in evaluated.contrasts.iter().enumerate() {
            let at = |k: usize| contrast.pass.iter().find(|(at, _)| *at == k).map(|(_, e)| *e);
            let pair = (index + 1, 0);
            for k in all.ks() {
                family.add(pair, &pass(k), at(k));
            }
            family.add(pair, MATCHED, matched(contrast).map(|matched| matched.measures[0].3));
            family.add(pair, RETAINED, retained(study, contrast).map(|(keep, _)| keep.excess));
        }
        let places = 0..all.names.len();
        for (row, column) in places.flat_map(|row| (0..row).map(move |column| (row, column))) {
            let [first, second] = [row, column].map(|at| runs(evaluated, all.names[at]));
            for k in [1, study.largest()] {
                family.add((row, column), &pass(k), Some(difference(&first, &second, k)));
            }
        }
        all.tested = family.tested();
        all
    }

    /// Whether they are of this very set of problems.
    pub(super) fn is_of(&self, set: &Evaluated) -> bool {
        std::ptr::eq(self.evaluated, set)
    }

    /// What the intervals are over, and what a star means.
    pub fn legend(&self) -> String {
        match self.study.seeds().len() {
            1 => {
                "one seed: runs are compared and not objectives, and nothing is starred".to_owned()
            }
            _ => format!("over seeds and problems; {}", self.tested.legend()),
        }
    }

    /// The smallest and the largest k.
    fn ks(&self) -> [usize; 2] {
        [self.study.ks.iter().min().copied().unwrap_or(1), self.study.largest()]
    }

    /// The change of the base under each objective, with 95 % intervals that stay inside the measure's range. The
    /// header first.
    pub fn to_base(&self) -> Vec<Vec<String>> {
        let [first, last] = self.ks();
        let retained = match has_retained(self.study, self.evaluated) {
            true => format!("retained@{last} minus resampling noise"),
            false => "retained (needs a second draw of the base)".into(),
        };
        let header = [
            "change from base".to_owned(),
            pass(first),
            pass(last),
            matched_title(self.evaluated),
            retained,
            "base overtakes at k".into(),
        ];
        let mut rows = vec![header.to_vec()];
        for (index, (label, contrast)) in self.evaluated.contrasts.iter().enumerate() {
            let cell = |measure: &str| -> String {
                let tested = self.tested.get((index + 1, 0), measure);
                tested.as_ref().map(Tested::cell_with_interval).unwrap_or_default()
            };
            let mut row = vec![label.clone()];
            row.extend([&pass(first), &pass(last), MATCHED, RETAINED].map(cell));
            row.push(contrast.crossing.cell());
            rows.push(row);
        }
        rows
    }

    /// Every trained model against every other as rows of cells, names first: row minus column, Pass@1 below the
    /// diagonal and the largest Pass@k above it. Seeds and problems both vary.
    pub fn pairs(&self) -> Vec<Vec<String>> {
        let names = || self.names.iter().map(ToString::to_string);
        let header = std::iter::once(String::new()).chain(names()).collect();
        let cell = |row: usize, column: usize| {
            let k = if row > column { 1 } else { self.study.largest() };
            let tested = self.tested.get((row, column), &pass(k));
            tested.as_ref().map(Tested::cell).unwrap_or_default()
        };
        let row = |(row, name): (usize, String)| {
            let cells = (0..self.names.len()).map(|column| cell(row, column));
            std::iter::once(name).chain(cells).collect()
        };
        std::iter::once(header).chain(names().enumerate().map(row)).collect()
    }

    /// What became of the base under each objective, a sentence each.
    pub fn verdicts(&self) -> Vec<String> {
        let [first, last] = self.ks();
        let sentence =
            |(index, (label, contrast)): (usize, &(String, crate::contrast::Contrast))| {
                let phrase = |measure: &str, name: &str| {
                    let tested = self.tested.get((index + 1, 0), measure);
                    tested.map(|tested| tested.sentence(name))
                };
                let (one, most) = (pass(first), pass(last));
                let mut phrases: Vec<String> = phrase(&one, &one).into_iter().collect();
                phrases.extend(phrase(&most, &most).filter(|_| last > first));
                phrases
                    .extend(phrase(MATCHED, "the number of distinct answers among 4 correct ones"));
                format!("{label}: {}; {}.", phrases.join("; "), contrast.crossing)
            };
        self.evaluated.contrasts.iter().enumerate().map(sentence).collect()
    }
}

fn pass(k: usize) -> String {
    format!("pass@{k}")
}

/// The difference of Pass@k of two models, seed by seed; one that has a single run, the base, stands against every
/// seed of the other.
fn difference(first: &[&[Tally]], second: &[&[Tally]], k: usize) -> Effect {
    let count = first.len().max(second.len());
    let nth = |runs: &[&[Tally]], seed: usize| -> Vec<f64> {
        let run = runs.get(seed).or(runs.last()).copied().unwrap_or_default();
        run.iter().map(|tally| tally_pass_at_k(tally, k)).collect()
    };
    let row = |seed: usize| -> Vec<f64> {
        nth(first, seed).iter().zip(nth(second, seed)).map(|(a, b)| a - b).collect()
    };
    crossed(&(0..count).map(row).collect::<Vec<_>>(), 1.0).within(-1.0, 1.0)
}
