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
    /// Records of lm-eval whose verdict is that of the first completion, and those with the mean of several.
    pub(super) first_verdicts: usize,
    pub(super) mean_verdicts: usize,
    /// Completions whose solution class the file names.
    pub(super) classes: usize,
    /// Failed requests, and completions without a text, that another one answered.
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

    /// A sentence of the count and the first one, where there is one.
    fn say(&self, text: impl FnOnce(usize, &T) -> String) -> Option<String> {
        self.first.as_ref().map(|first| text(self.count, first))
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

    /// Of a key that may be the question of records that have an id each.
    pub(super) fn unread_question(&mut self, key: Option<&str>) {
        let note = |key: &str| {
            let key = shortened(&key.escape_debug().to_string(), 40);
            format!(
                "every record has its own id, and the value of `{key}` repeats with its gold answer: each record counts as \
                 a problem; if `{key}` is the question, rename the key to \"prompt\""
            )
        };
        self.messages.extend(key.map(note));
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

    /// A sentence for each.
    pub(super) fn sentences(self, problems: &Problems<'_>, job: &GradeJob<'_>) -> Vec<String> {
        let (records, completions) = (self.of_records(), self.of_completions(job));
        let of_problems = self.of_problems(problems, job);
        self.messages.into_iter().chain(records).chain(completions).chain(of_problems).collect()
    }

    /// What was read of the records.
    fn of_records(&self) -> Vec<String> {
        let remarks = self.remarks.iter().filter_map(|(kind, noted)| {
            noted.say(|count, which| format!("{} {kind}: {which}", counted(count, "record")))
        });
        let first_verdicts = some(self.first_verdicts, |count| {
            format!(
                "lm-eval judged the first completion alone of {}: the other completions have no verdict",
                counted(count, "record")
            )
        });
        let mean_verdicts = some(self.mean_verdicts, |count| {
            format!(
                "lm-eval gives only the mean of several verdicts in {}: the number of disagreements with the verifier \
                 is a lower bound",
                counted(count, "record")
            )
        });
        let answered_again = some(self.answered_again, |count| {
            let completions = with_verb(count, "failed or empty completion", "were");
            format!("{completions} repeated and answered: the answers are used")
        });
        let without_gold = self.without_gold.say(|count, error| {
            format!(
                "left out without a gold answer (--require-gold refuses such records): {}; {error:#}",
                counted(count, "record"),
            )
        });
        let classes = some(self.classes, |count| {
            format!(
                "the file gives the solution class of {}: distinct answers are counted by these classes",
                counted(count, "completion")
            )
        });
        let all = [first_verdicts, mean_verdicts, answered_again, without_gold, classes];
        remarks.chain(all.into_iter().flatten()).collect()
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
        let other_golds = problems.other_golds.say(|count, example| {
            format!(
                "{} different gold answers in the file and in the dataset; the dataset's is used: {example}",
                with_verb(count, "problem", "have")
            )
        });
        let other_prompts = problems.other_prompts.say(|count, example| {
            format!(
                "{} with another prompt than an earlier record of the same document, such as `{example}`: samples of \
                 several tasks or settings count as those of one problem",
                counted(count, "record")
            )
        });
        let known = problems.dataset.as_ref();
        let contradictions = known.and_then(|known| {
            known.contradictions.say(|count, example| {
                format!(
                    "ids and prompts contradict each other in {}; the prompts are used: {example} of {} (evalscope's \
                     ids number samples)",
                    counted(count, "record"),
                    known.name
                )
            })
        });
        let [what, rule] = match job.missing {
            Missing::LeftOut => ["left out", "--missing wrong counts them as incorrect"],
            Missing::Wrong => ["incorrect", "--missing left-out excludes them"],
        };
        let missing = self.missing.say(|count, id| {
            let problems = with_verb(count, "problem", "are");
            format!("{problems} {what}, without a completion in the file, such as `{id}` ({rule})")
        });
        let numbered = known.and_then(|known| {
            known.numbered.say(|count, (id, problem)| {
                format!(
                    "the ids of {} name a problem of the dataset and the number of a sample, such as `{id}` of `{problem}`",
                    counted(count, "record")
                )
            })
        });
        let by_number = known.filter(|known| known.is_by_number).map(|_| {
            "records without prompts name problems by number, and the dataset's rows without ids are numbered from 1; a \
             file that counts from 0 would be judged by the gold answers of other problems"
                .to_owned()
        });
        let longer = known.and_then(|known| known.longer_prompt.as_ref()).map(|id| {
            format!(
                "prompts contain a question of the dataset and continue in different ways, such as that of `{id}`: \
                 they may ask something else"
            )
        });
        let of_file = [other_golds, other_prompts, contradictions, missing];
        let of_dataset = [numbered, by_number, longer];
        let all = of_file.into_iter().chain(of_dataset).flatten();
        of_ids(problems).into_iter().flatten().chain(all).collect()
    }
}

/// What tells problems apart.
fn of_ids(problems: &Problems<'_>) -> [Option<String>; 4] {
    let shared = problems.shared_ids.say(|count, (id, own)| {
        format!(
            "{} shared by several problems, which their prompts distinguish: another problem `{id}` is renamed `{own}` \
             (a key such as `lang`, `task` or `split` counts as a part of the prompt)",
            with_verb(count, "id", "are")
        )
    });
    let by_parts = problems.by_parts.say(|count, keys| {
        format!(
            "{} the prompt and the gold answer of another problem and differ in {keys}: if these keys belong to the \
             completion and not to the question, give each record the \"id\" of its problem",
            with_verb(count, "problem", "have")
        )
    });
    let by_beginning = problems.by_beginning.say(|count, shown| {
        format!(
            "{} the last question and the gold answer of another problem, after a different system prompt or other \
             examples, such as {shown}: counted as separate problems; to count them as one, give each record the \
             \"id\" of its problem",
            with_verb(count, "problem", "have")
        )
    });
    let grouped = some(problems.grouped, |count| {
        let ids = match problems.has_sample_ids {
            true => "each id comes with every prompt, so ids number the samples",
            false => "every record has its own id and prompts repeat, so ids number the records",
        };
        format!("{ids}; {} grouped by prompt", with_verb(count, "record", "are"))
    });
    [shared, by_parts, by_beginning, grouped]
}

/// That records are of several models.
pub fn several_models(models: &[String]) -> String {
    let names: Vec<String> = models.iter().map(|name| format!("`{name}`")).collect();
    format!(
        "records are of several models or training steps ({}), but a file counts as one model: split the file",
        names.join(", ")
    )
}

/// A sentence of a count, unless that is 0.
pub(super) fn some(count: usize, text: impl FnOnce(usize) -> String) -> Option<String> {
    (count > 0).then(|| text(count))
}

pub(super) fn count(names: &mut BTreeMap<String, usize>, name: &str) {
    let shown = shortened(name, 60);
    if names.len() < MAX_NAMES || names.contains_key(&shown) {
        *names.entry(shown).or_default() += 1;
    }
}
