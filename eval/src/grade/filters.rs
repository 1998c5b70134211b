//! The filter of lm-eval that each document is read under: the file's, or its own first one where the document has no
//! line of that, as in a file that joins several tasks.

use std::collections::{BTreeMap, HashMap};

use super::line::{Line, hash};
use super::notes::Notes;
use crate::number::counted;

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
    /// Documents that are read under another filter, by its name.
    others: BTreeMap<String, usize>,
}

impl Filters {
    pub(super) fn new(name: Option<&str>) -> Self {
        Self { name: name.map(str::to_owned), limit: MANY_HELD, ..Self::default() }
    }

    /// The lines that are read, now that `line` of `document` came.
    pub(super) fn add(&mut self, document: u64, line: Line, notes: &mut Notes) -> Vec<Line> {
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
            Some(_) => notes.other_filter(filter),
            None => self.held.push((document, line)),
        }
        if self.held.len() < self.limit {
            return Vec::new();
        }
        let (chosen, mut held) = (&self.chosen, std::mem::take(&mut self.held));
        held.retain(|(document, line)| {
            let is_left_out = chosen.contains_key(document);
            line.filter.iter().filter(|_| is_left_out).for_each(|name| notes.other_filter(name));
            !is_left_out
        });
        self.limit = MANY_HELD.max(2 * held.len());
        self.held = held;
        if self.held.len() < MAX_HELD { Vec::new() } else { self.release(notes) }
    }

    /// The held lines of the first filter of each document that has none of the file's.
    pub(super) fn release(&mut self, notes: &mut Notes) -> Vec<Line> {
        let mut lines = Vec::new();
        for (document, line) in std::mem::take(&mut self.held) {
            let Some(filter) = &line.filter else { continue };
            let own = hash([filter.as_str()]);
            let is_first = !self.chosen.contains_key(&document);
            if *self.chosen.entry(document).or_insert(own) != own {
                notes.other_filter(filter);
                continue;
            }
            if is_first {
                *self.others.entry(filter.clone()).or_default() += 1;
            }
            lines.push(line);
        }
        lines
    }

    /// Other filters of lines that were not left out.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.held.iter().filter_map(|(_, line)| line.filter.as_ref()).chain(self.others.keys())
    }

    /// What is to be said of documents that were read under another filter than the file's.
    pub(super) fn sentence(&self) -> Option<String> {
        let count = self.others.values().sum::<usize>();
        let names: Vec<String> =
            self.others.iter().map(|(name, count)| format!("`{name}` ({count})")).collect();
        (count > 0).then(|| {
            format!(
                "{} without a line of the filter `{}` are read under their own first filter: {}",
                counted(count, "problem"),
                self.name.as_deref().unwrap_or_default(),
                names.join(", ")
            )
        })
    }
}
