//! What a file of completions had that its numbers do not show: filters, repeated samples, failed requests, endings
//! that nobody knows, problems without completions.

use std::collections::BTreeMap;
use tealight_core::display::shortened;

use super::GradeJob;
use super::problems::Problems;
use crate::number::{counted, with_verb};
use crate::rules::{Failed, Missing};

/// Most names of one kind that are kept.
const MAX_NAMES: usize = 8;
/// Most examples of failures.
const EXAMPLES: usize = 3;

/// Counts of what was left out or is not known.
#[derive(Default)]
pub(super) struct Notes {
    messages: Vec<String>,
    /// Lines of each other filter.
    other_filters: BTreeMap<String, usize>,
    /// Lines of further runs of lm-eval that are samples again.
    pub(super) repeated: usize,
    /// Equal lines of further runs of lm-eval, which are samples.
    pub(super) joined: usize,
    /// Records of lm-eval whose verdict is that of the first completion, and those with the mean of several.
    pub(super) first_verdicts: usize,
    pub(super) mean_verdicts: usize,
    /// Lists without a completion.
    pub(super) empty: usize,
    /// Completions whose solution class the file names.
    pub(super) classes: usize,
    /// Failed requests that another one answered.
    pub(super) answered_again: usize,
    /// Records without a gold answer, and why the first has none.
    pub(super) without_gold: Noted<anyhow::Error>,
    failures: usize,
    failure_examples: Vec<String>,
    unknown_endings: BTreeMap<String, usize>,
    /// Problems of the dataset without a completion.
    pub(super) missing: Noted,
    /// What is said of records, and of how many.
    remarks: BTreeMap<&'static str, Noted>,
}

/// How often something was met, and what is said of the first time.
pub(super) struct Noted<T = String> {
    pub(super) count: usize,
    pub(super) first: Option<T>,
}

impl<T> Noted<T> {
    pub(super) fn note(&mut self, describe: impl FnOnce() -> T) {
        self.count += 1;
        self.first.get_or_insert_with(describe);
    }
}

impl<T> Default for Noted<T> {
    fn default() -> Self {
        Self { count: 0, first: None }
    }
}

impl Notes {
    pub(super) fn say(&mut self, note: String) {
        self.messages.push(note);
    }

    pub(super) fn other_filter(&mut self, name: &str) {
        count(&mut self.other_filters, name);
    }

    pub(super) fn unknown_ending(&mut self, name: &str) {
        count(&mut self.unknown_endings, name);
    }

    pub(super) fn remark(&mut self, kind: &'static str, which: &str) {
        self.remarks.entry(kind).or_default().note(|| which.to_owned());
    }

    pub(super) fn failure(&mut self, problem: &str, why: &str) {
        self.failures += 1;
        if self.failure_examples.len() < EXAMPLES {
            self.failure_examples.push(format!("`{problem}`: {why}"));
        }
    }

    pub(super) fn has_filters(&self) -> bool {
        !self.other_filters.is_empty()
    }

    /// The other filters' names.
    pub(super) fn filters(&self) -> String {
        let names: Vec<String> =
            self.other_filters.keys().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    }

    /// A sentence for each; `filter` is the one that was read.
    pub(super) fn sentences(
        self,
        problems: &Problems<'_>,
        filter: Option<&str>,
        job: &GradeJob<'_>,
    ) -> Vec<String> {
        let mut notes = self.of_records(filter);
        notes.extend(self.of_completions(job));
        notes.extend(self.of_problems(problems, job));
        self.messages.into_iter().chain(notes).collect()
    }

    /// What was read of the records.
    fn of_records(&self, filter: Option<&str>) -> Vec<String> {
        let mut notes = Vec::new();
        if let (Some(filter), true) = (filter, self.has_filters()) {
            let left_out: usize = self.other_filters.values().sum();
            notes.push(format!(
                "lines of the filter `{filter}` are read, without {} of {} with the same completions (--filter NAME \
                 selects another filter)",
                counted(left_out, "line"),
                self.filters()
            ));
        }
        for (kind, Noted { count, first }) in &self.remarks {
            let which = first.as_deref().unwrap_or_default();
            notes.push(format!("{} {kind}: {which}", counted(*count, "record")));
        }
        if self.repeated > 0 {
            let samples = with_verb(self.repeated, "sample", "occur");
            notes.push(format!("{samples} more than once; each counts once"));
        }
        if self.joined > 0 {
            notes.push(format!(
                "{} the same in another run of lm-eval in this file and count as separate samples, because the runs \
                 are complete or differ in other lines",
                with_verb(self.joined, "line", "are")
            ));
        }
        if self.first_verdicts > 0 {
            notes.push(format!(
                "lm-eval judged the first completion alone of {}: the other completions have no verdict",
                counted(self.first_verdicts, "record")
            ));
        }
        if self.mean_verdicts > 0 {
            notes.push(format!(
                "lm-eval gives only the mean of several verdicts in {}: the number of disagreements with the verifier \
                 is a lower bound",
                counted(self.mean_verdicts, "record")
            ));
        }
        if self.answered_again > 0 {
            notes.push(format!(
                "{} repeated and answered: the answers are used",
                with_verb(self.answered_again, "failed request", "were")
            ));
        }
        if let Some(error) = &self.without_gold.first {
            notes.push(format!(
                "left out without a gold answer (--require-gold refuses such records): {}; {error:#}",
                counted(self.without_gold.count, "record"),
            ));
        }
        if self.classes > 0 {
            notes.push(format!(
                "the file gives the solution class of {}: distinct answers are counted by these classes",
                counted(self.classes, "completion")
            ));
        }
        notes
    }

    /// What completions count as, and how they ended.
    fn of_completions(&self, job: &GradeJob<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        if self.failures > 0 {
            let rule = match job.rules.failed {
                Failed::Wrong => "incorrect (--failed unjudged excludes them)",
                Failed::Unjudged => "not judged (--failed wrong counts them as incorrect)",
            };
            notes.push(format!(
                "{} {rule}, because the request failed, was refused or returned no text: {}",
                with_verb(self.failures, "completion", "are"),
                self.failure_examples.join("; ")
            ));
        }
        for (name, count) in &self.unknown_endings {
            notes.push(format!(
                "the finish reason `{name}` of {} is unknown and is treated as a normal end",
                counted(*count, "completion")
            ));
        }
        notes
    }

    /// Which problems records are of.
    fn of_problems(&self, problems: &Problems<'_>, job: &GradeJob<'_>) -> Vec<String> {
        let mut notes = of_ids(problems);
        if let Some(example) = &problems.other_golds.first {
            notes.push(format!(
                "{} different gold answers in the file and in the dataset; the dataset's is used: {example}",
                with_verb(problems.other_golds.count, "problem", "have")
            ));
        }
        if let Some(example) = &problems.other_prompts.first {
            notes.push(format!(
                "{} with another prompt than an earlier record of the same document, such as `{example}`: samples of \
                 several tasks or settings count as those of one problem",
                counted(problems.other_prompts.count, "record")
            ));
        }
        if let Some(known) = &problems.dataset
            && let Some(example) = &known.contradictions.first
        {
            notes.push(format!(
                "ids and prompts contradict each other in {}; the prompts are used: {example} of {} (evalscope's \
                 ids number samples)",
                counted(known.contradictions.count, "record"),
                known.name
            ));
        }
        if self.empty > 0 {
            let lines = with_verb(self.empty, "line", "are");
            notes.push(format!("{lines} left out, with an empty list of completions"));
        }
        if let Some(id) = &self.missing.first {
            let [what, rule] = match job.missing {
                Missing::LeftOut => ["left out", "--missing wrong counts them as incorrect"],
                Missing::Wrong => ["incorrect", "--missing left-out excludes them"],
            };
            let problems = with_verb(self.missing.count, "problem", "are");
            notes.push(format!(
                "{problems} {what}, without a completion in the file, such as `{id}` ({rule})"
            ));
        }
        let Some(known) = &problems.dataset else { return notes };
        if let Some((id, problem)) = &known.numbered.first {
            notes.push(format!(
                "the ids of {} name a problem of the dataset and the number of a sample, such as `{id}` of `{problem}`",
                counted(known.numbered.count, "record")
            ));
        }
        if known.is_by_number {
            notes.push(
                "records without prompts name problems by number, and the dataset's rows without ids are numbered \
                 from 1; a file that counts from 0 would be judged by the gold answers of other problems"
                    .into(),
            );
        }
        if let Some(id) = &known.longer_prompt {
            notes.push(format!(
                "prompts contain a question of the dataset and continue in different ways, such as that of `{id}`: \
                 they may ask something else"
            ));
        }
        notes
    }
}

/// What tells problems apart.
fn of_ids(problems: &Problems<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((id, own)) = &problems.shared_ids.first {
        notes.push(format!(
            "{} shared by several problems, which their prompts distinguish: another problem `{id}` is renamed `{own}` \
             (a key such as `lang`, `task` or `split` counts as a part of the prompt)",
            with_verb(problems.shared_ids.count, "id", "are")
        ));
    }
    if let Some(keys) = &problems.by_parts.first {
        notes.push(format!(
            "{} the prompt and the gold answer of another problem and differ in {keys}: if these keys belong to the \
             completion and not to the question, give each record the \"id\" of its problem",
            with_verb(problems.by_parts.count, "problem", "have")
        ));
    }
    if problems.grouped > 0 {
        let ids = match problems.has_sample_ids {
            true => "each id comes with every prompt, so ids number the samples",
            false => "every record has its own id and prompts repeat, so ids number the records",
        };
        let records = with_verb(problems.grouped, "record", "are");
        notes.push(format!("{ids}; {records} grouped by prompt"));
    }
    notes
}

fn count(names: &mut BTreeMap<String, usize>, name: &str) {
    let shown = shortened(name, 60);
    if names.len() < MAX_NAMES || names.contains_key(&shown) {
        *names.entry(shown).or_default() += 1;
    }
}
