//! Runs of lm-eval in one file, whose lines have no number: is a line that occurs twice a sample of another run, or the
//! same sample again?
//!
//! A run has one line for each document, so a document that comes again begins a further run. A run with another
//! text of some document was sampled anew, and its equal lines are samples. A run without one is a run of its own
//! where it is complete and others of the file differ; lines of an incomplete one were written again by a run that was
//! resumed, and a file whose runs are all equal is one file several times. Those count once.

use std::collections::{HashMap, HashSet};

use super::line::Line;
use super::notes::some;
use crate::number::with_verb;

/// Most equal lines that are held back.
const MAX_EQUAL: usize = 1 << 17;

/// The lines of lm-eval that were read so far.
#[derive(Default)]
pub(super) struct Runs {
    /// The hashes of the lines of each document.
    texts: HashMap<u64, HashSet<u64>>,
    /// The first document of the file, with which every run begins, and those of the current run.
    first: Option<u64>,
    documents: HashSet<u64>,
    /// Whether the current run has a line that no earlier run has.
    is_new: bool,
    /// The equal lines of the current run, and of complete runs before it.
    equal: Vec<Line>,
    complete: Vec<Line>,
    /// Whether some run differs from those before it.
    differ: bool,
    /// Equal lines that count as samples, and those that count once.
    joined: usize,
    repeated: usize,
}

impl Runs {
    /// The lines that are known to be samples, now that `line` of `document` came.
    pub(super) fn add(&mut self, document: u64, text: u64, line: Line) -> Vec<Line> {
        let mut samples = Vec::new();
        let is_first = *self.first.get_or_insert(document) == document;
        if is_first && !self.documents.is_empty() || self.documents.contains(&document) {
            self.end_run(&mut samples);
        }
        self.documents.insert(document);
        let known = self.texts.entry(document).or_default();
        let (is_unknown, is_changed) = (known.is_empty(), known.insert(text));
        if is_unknown {
            // Whichever run it is of, nothing equals it.
            samples.push(line);
        } else if is_changed {
            (self.is_new, self.differ) = (true, true);
            self.joined += self.complete.len() + self.equal.len();
            samples.append(&mut self.complete);
            samples.append(&mut self.equal);
            samples.push(line);
        } else if self.is_new {
            self.joined += 1;
            samples.push(line);
        } else if self.equal.len() + self.complete.len() < MAX_EQUAL {
            self.equal.push(line);
        } else {
            self.repeated += 1;
        }
        samples
    }

    fn end_run(&mut self, samples: &mut Vec<Line>) {
        let is_complete = self.documents.len() == self.texts.len();
        match (is_complete, self.differ) {
            (true, true) => {
                self.joined += self.equal.len();
                samples.append(&mut self.equal);
            }
            (true, false) => self.complete.append(&mut self.equal),
            (false, _) => self.repeated += std::mem::take(&mut self.equal).len(),
        }
        self.documents.clear();
        self.is_new = false;
    }

    /// What is to be said of lines that occur twice.
    pub(super) fn sentences(&self) -> impl Iterator<Item = String> {
        let repeated = some(self.repeated, |count| {
            format!("{} more than once; each counts once", with_verb(count, "sample", "occur"))
        });
        let joined = some(self.joined, |count| {
            format!(
                "{} the same in another run of lm-eval in this file and count as separate samples, because the runs \
                 are complete or differ in other lines",
                with_verb(count, "line", "are")
            )
        });
        repeated.into_iter().chain(joined)
    }

    /// The last samples, since no line follows.
    pub(super) fn finish(&mut self) -> Vec<Line> {
        let mut samples = Vec::new();
        self.end_run(&mut samples);
        self.repeated += std::mem::take(&mut self.complete).len();
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many lines are samples, and how many count once.
    fn counts(runs: &[&[(u64, u64)]]) -> (usize, usize) {
        let (mut all, mut samples) = (Runs::default(), 0);
        for (document, text) in runs.concat() {
            samples += all.add(document, text, Line::default()).len();
        }
        samples += all.finish().len();
        (samples, all.repeated)
    }

    #[test]
    fn equal_lines_of_another_run_are_samples_and_those_of_the_same_count_once() {
        let (one, other) = ([(0, 7), (1, 7), (2, 7)], [(0, 7), (1, 8), (2, 7)]);
        assert_eq!(counts(&[&one]), (3, 0));
        // The same file again, and a run that was resumed or wrote its end twice.
        assert_eq!(counts(&[&one, &one]), (3, 3));
        assert_eq!(counts(&[&one, &one, &one]), (3, 6));
        assert_eq!(counts(&[&one, &[(2, 7), (3, 7)]]), (4, 1));
        assert_eq!(counts(&[&one, &[(1, 7), (2, 7)], &other]), (6, 2));
        // Some run differs: in its first, a middle or its last document, before or behind equal ones.
        for other in [[(0, 8), (1, 7), (2, 7)], other, [(0, 7), (1, 7), (2, 8)]] {
            assert_eq!(counts(&[&one, &other]), (6, 0), "{other:?}");
            assert_eq!(counts(&[&one, &one, &one, &other]), (12, 0), "{other:?}");
            assert_eq!(counts(&[&one, &other, &other, &one]), (12, 0), "{other:?}");
            assert_eq!(counts(&[&one, &other, &[(0, 7)]]), (6, 1), "{other:?}");
        }
    }
}
