//! The problems of `--dataset`: which of them a line names, by its id or by its prompt.

use std::collections::{HashMap, HashSet};

use anyhow::{Result, bail};
use tealight_core::Prompt;
use tealight_datasets::{Dataset, Problem};

use super::line::{Line, hash};

/// Most lines of a prompt at which a question may begin or end.
const MAX_LINES: usize = 64;

/// The problems of a dataset.
pub(super) struct Known<'a> {
    pub(super) name: &'a str,
    by_id: HashMap<&'a str, &'a Problem>,
    /// By the hash of the question; none where several problems have it.
    by_question: HashMap<u64, Option<&'a Problem>>,
    /// Whether its ids are the numbers of its rows, since it has none of its own.
    pub(super) has_row_numbers: bool,
    /// The ids of problems that lines have named.
    seen: HashSet<&'a str>,
    /// Records whose prompt is that of another problem than their id's, and the first such.
    pub(super) contradictions: usize,
    pub(super) contradiction: Option<String>,
    /// The id under which each prompt came that shows no question of the dataset.
    prompts: HashMap<u64, String>,
}

impl<'a> Known<'a> {
    pub(super) fn new(dataset: &'a Dataset) -> Result<Self> {
        let (mut by_id, mut by_question) = (HashMap::new(), HashMap::new());
        for problem in &dataset.problems {
            if by_id.insert(problem.id.as_str(), problem).is_some() {
                bail!(
                    "{}: two problems have the id `{}`: ids must be unique",
                    dataset.name,
                    problem.id
                );
            }
            for question in questions(&problem.prompt, dataset.instruction) {
                let of_question = by_question.entry(hash([question])).or_insert(Some(problem));
                if of_question.is_some_and(|other| other.id != problem.id) {
                    *of_question = None;
                }
            }
        }
        let numbers =
            || dataset.problems.iter().map(|problem| problem.id.parse::<u64>().unwrap_or(0));
        let is_ascending = numbers().zip(numbers().skip(1)).all(|(a, b)| a < b);
        let has_row_numbers = numbers().next().is_some_and(|first| first > 0) && is_ascending;
        let (name, seen) = (dataset.name.as_str(), HashSet::new());
        Ok(Self {
            name,
            by_id,
            by_question,
            has_row_numbers,
            seen,
            contradictions: 0,
            contradiction: None,
            prompts: HashMap::new(),
        })
    }

    /// The problem that a line names: by its id, unless its prompt is another problem's; by its prompt where it has no
    /// id, or none of the dataset's.
    ///
    /// # Errors
    /// Ids that count from 0 or number samples, where no prompt says which problems they are; a prompt of several
    /// problems.
    pub(super) fn find(&mut self, line: &Line) -> Result<Option<&'a Problem>> {
        let by_id = line.id.as_ref().and_then(|id| self.by_id.get(id.as_str()).copied());
        let by_prompt = line.prompt.as_ref().and_then(|prompt| self.by_prompt(prompt));
        let found = match (by_id, by_prompt, &line.id) {
            (_, Some(None), None) => {
                bail!(
                    "{} contains several problems with this prompt, and the record has no id: add ids",
                    self.name
                )
            }
            (Some(of_id), Some(Some(of_prompt)), Some(id)) if of_id.id != of_prompt.id => {
                let is_shown = line.prompt.as_ref().is_some_and(|prompt| shows(prompt, of_id));
                if !is_shown {
                    self.contradictions += 1;
                    self.contradiction.get_or_insert_with(|| {
                        format!("a record with the id `{id}` has the prompt of `{}`", of_prompt.id)
                    });
                }
                Some(if is_shown { of_id } else { of_prompt })
            }
            (_, Some(Some(of_prompt)), _) => Some(of_prompt),
            (of_id, _, Some(id)) => {
                // Lines that count from 0 would be judged by the next problem's gold answer, without a word.
                let is_shifted =
                    self.has_row_numbers && (id == "0" || line.format.counts_from_zero());
                if is_shifted && id.parse::<u64>().is_ok() {
                    bail!(
                        "ids in this file count from 0 (`{id}`), but {} has no ids, so its problems are named by \
                         row number from 1: add a column `id` to the dataset",
                        self.name
                    );
                }
                if let (Some(prompt), Some(problem)) = (&line.prompt, of_id) {
                    self.check_prompt(prompt, problem)?;
                }
                of_id
            }
            (_, None, None) => None,
        };
        self.seen.extend(found.map(|problem| problem.id.as_str()));
        Ok(found)
    }

    /// The problem whose question a prompt is, or ends with, or begins with; inside none where several have it.
    fn by_prompt(&self, prompt: &Prompt) -> Option<Option<&'a Problem>> {
        let find = |text: &str| self.by_question.get(&hash([text.trim()])).copied();
        questions(prompt, None).into_iter().find_map(|text| {
            let breaks = || text.match_indices('\n').map(|(at, _)| at).take(MAX_LINES);
            let ends = breaks().map(|at| &text[at + 1..]);
            let starts = breaks().map(|at| &text[..at]);
            // An instruction may follow on the same line.
            let sentences = text.match_indices(['.', '?', '!']).map(|(at, _)| at + 1);
            let sentences = sentences.filter(|at| text[*at..].starts_with(' ')).take(MAX_LINES);
            let starts = starts.chain(sentences.map(|at| &text[..at]));
            let parts = std::iter::once(text).chain(ends).chain(starts);
            let labels = |part: &'_ str| part.split_once(": ").and_then(|(_, rest)| find(rest));
            parts.clone().find_map(find).or_else(|| parts.clone().find_map(labels))
        })
    }

    /// Refuses a prompt that comes under two ids and shows the question of neither: ids then number samples.
    fn check_prompt(&mut self, prompt: &Prompt, problem: &Problem) -> Result<()> {
        let text = prompt.plain();
        if text.trim().is_empty() || shows(prompt, problem) {
            return Ok(());
        }
        let first = self.prompts.entry(hash([text.trim()])).or_insert_with(|| problem.id.clone());
        if *first != problem.id {
            bail!(
                "the ids `{first}` and `{}` have the same prompt, which contains no question of {}: ids in this \
                 file seem to number samples (repeats). Give each sample the id of its problem (for evalscope, \
                 grade the files of reviews, which contain it)",
                problem.id,
                self.name
            );
        }
        Ok(())
    }

    /// The problems that no line named, by their ids.
    pub(super) fn missing(&self) -> Vec<&'a Problem> {
        let is_missing = |problem: &&Problem| !self.seen.contains(problem.id.as_str());
        let mut missing: Vec<&Problem> = self.by_id.values().copied().filter(is_missing).collect();
        missing.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        missing
    }
}

/// Whether a prompt shows a problem's question, however white space stands in it.
fn shows(prompt: &Prompt, problem: &Problem) -> bool {
    let folded = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = folded(&prompt.plain());
    let is_shown = |question: &str| !question.is_empty() && shown.contains(&folded(question));
    questions(&problem.prompt, None).into_iter().any(|question| {
        // The dataset's own prompt may have an instruction behind the question.
        is_shown(question)
            || question.split_once("\n\n").is_some_and(|(first, _)| is_shown(first))
            || question
                .split_once('\n')
                .is_some_and(|(first, _)| first.len() > 12 && is_shown(first))
    })
}

/// The last message of the user in a chat that was rendered and whose special tokens were left out, as verl writes it:
/// `system\n...\nuser\n...\nassistant\n`. Another text is that message itself.
fn last_of_user(text: &str) -> &str {
    let text = text.trim();
    let chat = text.strip_suffix("</think>").map_or(text, str::trim_end);
    let chat = chat.strip_suffix("<think>").map_or(chat, str::trim_end);
    match chat.strip_suffix("assistant") {
        Some(chat) => chat.rsplit_once("user\n").map_or(chat, |(_, message)| message).trim(),
        None => text,
    }
}

/// What is asked in a prompt: all of its last message by the user, and that without an instruction at its end.
fn questions<'p>(prompt: &'p Prompt, instruction: Option<&str>) -> Vec<&'p str> {
    let text = match prompt {
        Prompt::Text(text) => last_of_user(text),
        Prompt::Chat(messages) => {
            let last = messages.iter().rfind(|message| message.role == "user").or(messages.last());
            last.map_or("", |message| message.content.as_str())
        }
    };
    let text = text.trim();
    let bare = instruction.and_then(|instruction| text.strip_suffix(instruction)).map(str::trim);
    std::iter::once(text).chain(bare).filter(|text| !text.is_empty()).collect()
}
