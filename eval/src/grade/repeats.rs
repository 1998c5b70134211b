//! Samples that come again: by a number that the file gives them, or as all texts of a problem in their order.

use std::collections::BTreeMap;

use tealight_core::fnv;

use super::judge::Task;
use crate::number::{counted, with_verb};

/// Most samples that are held back until it is known what their numbers mean.
const MAX_HELD: usize = 1 << 16;
/// Most texts of a problem that are compared with each other.
const MAX_TEXTS: usize = 1 << 12;
/// Samples with another text under a number that came before, which are no accident.
const LEAST_CHANGED: usize = 4;
/// Problems that repeat all their texts, and are no accident.
const LEAST: usize = 3;

/// What a number of a sample that comes again in its problem means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Meaning {
    #[default]
    Unknown,
    /// The same sample again, of which the first one counts.
    Repeated,
    /// Nothing: it numbers no samples.
    Nothing,
}

/// Samples whose number came before in their problem, and the texts of those without a number.
#[derive(Default)]
pub(super) struct Repeats {
    held: Vec<Task>,
    meaning: Meaning,
    /// Samples with a number, those whose number came before, and those of these with another text.
    pub(super) numbered: usize,
    repeated: usize,
    changed: usize,
    /// Problems of the file.
    pub(super) problems: usize,
    /// Hashes of the texts of each problem, in the order of the file.
    texts: Vec<Vec<u32>>,
}

impl Repeats {
    /// Takes a sample whose number came before; those that are to be counted, if that is known now.
    pub(super) fn add(&mut self, task: Task, is_changed: bool) -> Vec<Task> {
        self.repeated += 1;
        self.changed += usize::from(is_changed);
        match self.meaning {
            Meaning::Nothing => vec![task],
            Meaning::Repeated => Vec::new(),
            Meaning::Unknown => {
                self.held.push(task);
                if self.held.len() < MAX_HELD { Vec::new() } else { self.release() }
            }
        }
    }

    /// The held samples, if their numbers mean nothing: a good part of those that come again have other texts, and they
    /// are more than what a run that was resumed wrote twice; a small part, of numbers that come three times and more,
    /// or that are one in each problem.
    pub(super) fn release(&mut self) -> Vec<Task> {
        let Self { numbered, repeated, changed, problems, .. } = *self;
        let is_many = 4 * changed >= repeated && 8 * repeated >= numbered;
        let is_often = 20 * changed >= repeated && 3 * repeated >= 2 * numbered;
        let is_constant =
            numbered - repeated == problems && 8 * repeated >= numbered && 20 * changed >= repeated;
        let is_nothing = changed >= LEAST_CHANGED && (is_many || is_often)
            || changed > 0 && is_constant && problems > 1;
        self.meaning = if is_nothing { Meaning::Nothing } else { Meaning::Repeated };
        let held = std::mem::take(&mut self.held);
        if is_nothing { held } else { Vec::new() }
    }

    /// Whether numbers identify no samples, once that is known.
    pub(super) fn means_nothing(&self) -> bool {
        self.meaning == Meaning::Nothing
    }

    /// Notes the text of a sample without a number.
    pub(super) fn text(&mut self, problem: usize, text: &str) {
        if self.texts.len() <= problem {
            self.texts.resize(problem + 1, Vec::new());
        }
        let texts = &mut self.texts[problem];
        if texts.len() <= MAX_TEXTS {
            texts.push(fnv(text.bytes()) as u32);
        }
    }

    /// What is to be said of numbers that came again, and of problems all of whose texts did.
    pub(super) fn sentences(&self) -> Vec<String> {
        let Self { repeated, changed, .. } = self;
        let numbers = match self.meaning {
            _ if *repeated == 0 => None,
            Meaning::Nothing => Some(format!(
                "{} have the number or request of another sample of their problem, many of them with another text: \
                 the number does not identify samples, and all are counted",
                counted(*repeated, "sample")
            )),
            _ => {
                let changed = match changed {
                    0 => String::new(),
                    count => format!("; {count} with another text, of which the first is used"),
                };
                let samples = with_verb(*repeated, "sample", "occur");
                Some(format!("{samples} more than once; each counts once{changed}"))
            }
        };
        // By the number of texts: a run that was resumed wrote some problems twice.
        let mut by_count = BTreeMap::<usize, [usize; 2]>::new();
        for texts in &self.texts {
            if let Some(is_double) = is_double(texts) {
                let [all, double] = by_count.entry(texts.len()).or_default();
                (*all, *double) = (*all + 1, *double + usize::from(is_double));
            }
        }
        let groups =
            by_count.values().filter(|[all, double]| *double >= LEAST && 2 * double > *all);
        let double: usize = groups.map(|[_, double]| double).sum();
        let copies = (double > 0).then(|| {
            format!(
                "the file seems to hold a run twice: {double} of {} repeat all their texts in the same order, and each \
                 copy counts; leave the copies out, or number the samples (\"sample\")",
                counted(self.texts.len(), "problem")
            )
        });
        numbers.into_iter().chain(copies).collect()
    }
}

/// Whether texts are a list twice or three times over; none of equal texts and of too few, which do not say.
fn is_double(texts: &[u32]) -> Option<bool> {
    let is_known =
        (4..=MAX_TEXTS).contains(&texts.len()) && texts.iter().any(|one| *one != texts[0]);
    let is_copied = |times: usize| {
        let each = texts.len() / times;
        texts.len().is_multiple_of(times) && texts.chunks(each).all(|copy| *copy == texts[..each])
    };
    is_known.then(|| [2, 3].into_iter().any(is_copied))
}
