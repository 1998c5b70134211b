//! Instances of a task to problems: the stream of a split, its dataset, and solved examples for supervised training.
//!
//! An instance belongs to a split by a hash of its statement, so splits are disjoint whatever the seed and the
//! knobs, and each is the task's one distribution, given the hash.

use std::collections::BTreeSet;

use super::judge::Judge;
use super::knobs::{self, InstanceSpec, Split};
use super::{Answer, InstanceRng, Kind, MAX_TEXTS, classes};
use crate::{DataError, Dataset, Problem, Result, distinct};
use tealight_core::{Prompt, fnv};

/// Problems in a split when no limit is given.
const DEFAULT_PROBLEMS: usize = 96;
/// Draws in a row without an instance of the split, after which there is none.
const PATIENCE: usize = 5_000;
/// Repeated problems in a row after which a split has no more.
const REPEATS: usize = 2_000;

/// An endless, reproducible stream of solved problems of one split.
pub struct InstanceStream {
    kind: &'static Kind,
    split: Split,
    knobs: Vec<usize>,
    draw: InstanceRng,
}

impl InstanceStream {
    /// The stream keyed by `seed` and `number`; 0 and 0 is the one the named datasets are made from.
    pub fn new(kind: &'static Kind, wanted: &InstanceSpec, seed: u64, number: u64) -> Self {
        let hash = fnv(kind.name.bytes());
        let InstanceSpec { split, knobs, .. } = wanted;
        Self {
            kind,
            split: *split,
            knobs: knobs.clone(),
            draw: InstanceRng::new(seed ^ hash, number),
        }
    }

    /// The next problem; `None` where the knobs allow hardly any.
    ///
    /// Its solution is drawn uniformly from the classes of its answers, then from the texts of the class.
    pub fn next_problem(&mut self) -> Option<Problem> {
        let (least, most) = self.kind.answers;
        for _ in 0..PATIENCE {
            let Some(statement) = (self.kind.draw)(&self.knobs, &mut self.draw) else { continue };
            if Split::for_statement(&statement) != self.split {
                continue;
            }
            let Some(answers) = self.kind.list(&statement) else { continue };
            let classes = classes(&answers);
            if !(least..=most).contains(&classes.len()) {
                continue;
            }
            let class = classes[self.draw.below(classes.len())];
            let texts: Vec<&Answer> = answers.iter().filter(|a| a.class == class).collect();
            let text = &texts[self.draw.below(texts.len())].text;
            return Some(stated(&statement, text, classes.len() as u64));
        }
        None
    }

    /// The next `wanted` problems, no two the same; fewer where there are no more.
    pub fn distinct(&mut self, wanted: usize) -> Vec<Problem> {
        distinct(wanted, REPEATS, || self.next_problem())
    }
}

/// A problem from its parts.
fn stated(statement: &str, solution: &str, total: u64) -> Problem {
    Problem {
        solution: Some(solution.into()),
        total: Some(total),
        ..Problem::new(statement, Prompt::Text(format!("{statement}:")), statement)
    }
}

/// The dataset that follows the slash in a name.
pub(super) fn load(kind: &'static Kind, split: &str, limit: Option<usize>) -> Result<Dataset> {
    with_seed(kind, split, limit, 0)
}

/// The same with other instances: those of a seed.
///
/// # Errors
/// A name that says no split or knob, or knobs that allow no instance.
pub fn with_seed(
    kind: &'static Kind,
    split: &str,
    limit: Option<usize>,
    seed: u64,
) -> Result<Dataset> {
    let wanted = knobs::parse(kind, split)?;
    let limit = limit.unwrap_or(DEFAULT_PROBLEMS);
    let problems = InstanceStream::new(kind, &wanted, seed, 0).distinct(limit);
    if problems.is_empty() && limit > 0 {
        let (least, most) = kind.answers;
        let what =
            format!("hardly any instance with these parameters has {least} to {most} answers");
        let (name, knobs) = (kind.name, knobs::usage(kind));
        return Err(DataError::Knob { name, split: split.into(), what, knobs });
    }
    let dataset = Dataset::plain(format!("{}/{}", kind.name, wanted.name), problems, Judge(kind));
    let (answers, spellings, outputs) = (Some(kind.texts), Some(kind.texts), Some(kind.outputs));
    Ok(Dataset { answers, spellings, outputs, ..dataset })
}

/// Solved problems of split `sft`, with the default knobs.
pub(super) fn examples(kind: &'static Kind, seed: u64, step: u64, count: usize) -> Vec<Problem> {
    let knobs = kind.knobs.iter().map(|knob| knob.default).collect();
    let wanted = InstanceSpec { split: Split::Sft, knobs, name: "sft".into() };
    // Number 0 is that of the datasets.
    let mut stream = InstanceStream::new(kind, &wanted, seed, step.wrapping_add(1));
    (0..count).map_while(|_| stream.next_problem()).collect()
}

/// Every text that the verifier accepts, but for spaces around it.
pub(super) fn texts(kind: &Kind, problem: &Problem) -> Option<Vec<String>> {
    Some(kind.list(&problem.answer)?.into_iter().map(|answer| answer.text).collect())
}

/// Every text over the answers' characters that is as long as an answer, correct or not; `None` where there are more
/// than [`MAX_TEXTS`].
pub(super) fn outputs(kind: &Kind, problem: &Problem) -> Option<Vec<String>> {
    let lengths: BTreeSet<usize> =
        kind.list(&problem.answer)?.iter().map(|answer| answer.text.len()).collect();
    let letters = (kind.letters)(&problem.answer)?;
    let count = |length: &usize| letters.len().checked_pow(u32::try_from(*length).ok()?);
    let total = lengths.iter().try_fold(0_usize, |sum, length| sum.checked_add(count(length)?))?;
    if total > MAX_TEXTS {
        return None;
    }
    let mut all = Vec::with_capacity(total);
    for length in lengths {
        let mut texts = vec![String::new()];
        for _ in 0..length {
            let longer = |text: &String| -> Vec<String> {
                letters.iter().map(|letter| format!("{text}{}", char::from(*letter))).collect()
            };
            texts = texts.iter().flat_map(longer).collect();
        }
        all.extend(texts);
    }
    Some(all)
}

/// Least, median and most answers (classes) of problems.
pub fn spread(problems: &[Problem]) -> [u64; 3] {
    let mut totals: Vec<u64> = problems.iter().filter_map(|problem| problem.total).collect();
    totals.sort_unstable();
    let at = |place: usize| totals.get(place).copied().unwrap_or_default();
    [at(0), at(totals.len() / 2), at(totals.len().saturating_sub(1))]
}
