//! The filter of lm-eval that each document is read under: the file's, or its own first one where the document has no
//! line of that, as in a file that joins several tasks.

use std::collections::{BTreeMap, HashMap};

use super::line::{Line, hash};
use super::notes::count;
use crate::number::{counted, with_verb};

/// Held lines from which those are dropped that are not needed any more.
const MANY_HELD: usize = 1 << 12;
/// Most lines that are held back until their document has one of the file's filter.
const MAX_HELD: usize = 1 << 17;

/// The filters that were met so far.
#[derive(Default)]
pub(super) struct Filters {
    /// The file's: the first one, or the one that the user names.
    pub(super) name: Option<String>,
    /// Lines of it.
    pub(super) lines: usize,
    /// A hash of the filter that each document is read under.
    chosen: HashMap<u64, u64>,
    /// Lines of other filters, with their documents.
    held: Vec<(u64, Line)>,
    limit: usize,
    /// Lines of other filters that are left out, and documents that are read under another one, by its name.
    left_out: BTreeMap<String, usize>,
    others: BTreeMap<String, usize>,
}

impl Filters {
    pub(super) fn new(name: Option<&str>) -> Self {
        Self { name: name.map(str::to_owned), limit: MANY_HELD, ..Self::default() }
    }

    /// The lines that are read, now that `line` of `document` came.
    pub(super) fn add(&mut self, document: u64, line: Line) -> Vec<Line> {
        let Some(filter) = &line.filter else { return vec![line] };
        let (name, own) =
            (self.name.get_or_insert_with(|| filter.clone()), hash([filter.as_str()]));
        let is_of_file = name == filter;
        self.lines += usize::from(is_of_file);
        if is_of_file {
            self.chosen.entry(document).or_insert(own);
        }
        match self.chosen.get(&document) {
            Some(chosen) if *chosen == own => return vec![line],
            Some(_) => count(&mut self.left_out, filter),
            None => self.held.push((document, line)),
        }
        if self.held.len() < self.limit {
            return Vec::new();
        }
        let (chosen, left_out) = (&self.chosen, &mut self.left_out);
        let mut held = std::mem::take(&mut self.held);
        held.retain(|(document, line)| {
            let is_left_out = chosen.contains_key(document);
            line.filter.iter().filter(|_| is_left_out).for_each(|name| count(left_out, name));
            !is_left_out
        });
        self.limit = MANY_HELD.max(2 * held.len());
        self.held = held;
        if self.held.len() < MAX_HELD { Vec::new() } else { self.release() }
    }

    /// The held lines of the first filter of each document that has none of the file's.
    pub(super) fn release(&mut self) -> Vec<Line> {
        let mut lines = Vec::new();
        for (document, line) in std::mem::take(&mut self.held) {
            let Some(filter) = &line.filter else { continue };
            let own = hash([filter.as_str()]);
            let is_first = !self.chosen.contains_key(&document);
            if *self.chosen.entry(document).or_insert(own) != own {
                count(&mut self.left_out, filter);
                continue;
            }
            if is_first {
                count(&mut self.others, filter);
            }
            lines.push(line);
        }
        lines
    }

    /// The filters of the file, where it has none of the name that the user gives.
    pub(super) fn known(&mut self) -> String {
        self.release();
        self.others.append(&mut self.left_out);
        match self.others.is_empty() {
            false => format!("the filters are {}", names(&self.others)),
            true => "only samples of lm-evaluation-harness have filters".into(),
        }
    }

    /// What is to be said of documents that were read under another filter than the file's, and of lines left out.
    pub(super) fn sentences(&self) -> impl Iterator<Item = String> {
        let filter = self.name.as_deref().unwrap_or_default();
        let sum = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
        let (others, left_out) = (sum(&self.others), sum(&self.left_out));
        let shown = |(name, count)| format!("`{name}` ({count})");
        let others = (others > 0).then(|| {
            format!(
                "{} no line of the filter `{filter}`, and another filter is used: {}",
                with_verb(others, "problem", "have"),
                self.others.iter().map(shown).collect::<Vec<_>>().join(", ")
            )
        });
        let left_out = (left_out > 0).then(|| {
            format!(
                "lines of the filter `{filter}` are read, without {} of {} with the same completions (--filter NAME \
                 selects another filter)",
                counted(left_out, "line"),
                names(&self.left_out)
            )
        });
        others.into_iter().chain(left_out)
    }
}

fn names(counts: &BTreeMap<String, usize>) -> String {
    counts.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
