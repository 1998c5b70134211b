//! The differences of a study's models that are tested together, as tables and as sentences.

use super::tables::{matched, matched_title};
use super::{Evaluated, Study};
use crate::inference::{Family, Tested, TestedFamily};

/// The changes of the base on one set of problems under each objective.
pub struct Differences<'a> {
    study: &'a Study,
    evaluated: &'a Evaluated,
    tested: TestedFamily,
}

const MATCHED: &str = "matched";

impl<'a> Differences<'a> {
    /// All that the tables of one set show, tested together.
    pub fn new(study: &'a Study, evaluated: &'a Evaluated) -> Self {
        let mut all = Self { study, evaluated, tested: TestedFamily::default() };
        let mut family = Family::new(false);
        for (index, (_, contrast)) in evaluated.contrasts.iter().enumerate() {
            let at = |k: usize| contrast.pass.iter().find(|(at, _)| *at == k).map(|(_, e)| *e);
            let pair = (index + 1, 0);
            for k in all.ks() {
                family.add(pair, &pass(k), at(k));
            }
            family.add(pair, MATCHED, matched(contrast).map(|matched| matched.change));
        }
        all.tested = family.tested();
        all
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
        let header = [
            "change from base".to_owned(),
            pass(first),
            pass(last),
            matched_title(self.evaluated),
            "base overtakes at k".into(),
        ];
        let mut rows = vec![header.to_vec()];
        for (index, (label, contrast)) in self.evaluated.contrasts.iter().enumerate() {
            let cell = |measure: &str| -> String {
                let tested = self.tested.get((index + 1, 0), measure);
                tested.as_ref().map(Tested::cell_with_interval).unwrap_or_default()
            };
            let mut row = vec![label.clone()];
            row.extend([&pass(first), &pass(last), MATCHED].map(cell));
            row.push(contrast.crossing.cell());
            rows.push(row);
        }
        rows
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
