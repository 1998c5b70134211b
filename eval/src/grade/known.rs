//! The problems of `--dataset`: which of them a line names, by its id or by its prompt.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;

use anyhow::{Result, bail};
use tealight_core::Prompt;
use tealight_core::display::one_spaced;
use tealight_datasets::{Dataset, Problem, choice_list, thinking};

use super::line::{Format, Line, hash};
use super::notes::Noted;
use super::sample_ids::before_number;

/// Most places of a prompt at which a question may begin: the last ones.
const MAX_STARTS: usize = 256;
/// Most questions, each the beginning of the one before, that are tried at such a place.
const MAX_SHORTER: usize = 64;
/// Bytes of a line before which a label may stand: `Question: `.
const LABEL: usize = 40;

/// The problems of a dataset.
#[derive(Default)]
pub(super) struct Known<'a> {
    pub(super) name: &'a str,
    by_id: HashMap<&'a str, &'a Problem>,
    /// By the question; none where several problems have it.
    by_question: BTreeMap<&'a str, Option<&'a Problem>>,
    /// Whether its ids are ascending numbers, as those of its rows are where it has none of its own.
    has_row_numbers: bool,
    /// Whether a record without a prompt named its problem by such a number.
    pub(super) is_by_number: bool,
    /// The largest of its ids, where all are numbers, and whether a record without a prompt named the next one.
    last: Option<u64>,
    names_next: bool,
    /// Records that a number alone names, and those of them that name no problem.
    numbers: usize,
    others: usize,
    /// What followed a question on its line, by a hash, and the first question that something else followed.
    tail: Option<u64>,
    pub(super) longer_prompt: Option<String>,
    /// The ids of problems that lines have named.
    seen: HashSet<&'a str>,
    /// Records whose prompt is that of another problem than their id's.
    pub(super) contradictions: Noted,
    /// Records whose id is that of a problem with a number behind it.
    pub(super) numbered: Noted<(String, String)>,
    /// The id under which each prompt came that shows no question of the dataset.
    prompts: HashMap<u64, String>,
}

impl<'a> Known<'a> {
    pub(super) fn new(dataset: &'a Dataset) -> Result<Self> {
        let (mut by_id, mut by_question) = (HashMap::new(), BTreeMap::new());
        for problem in &dataset.problems {
            if by_id.insert(problem.id.as_str(), problem).is_some() {
                bail!(
                    "{}: two problems have the id `{}`: ids must be unique",
                    dataset.name,
                    problem.id
                );
            }
            for question in questions(&problem.prompt, dataset.instruction_of(problem)) {
                let of_question = by_question.entry(question).or_insert(Some(problem));
                if of_question.is_some_and(|other| other.id != problem.id) {
                    *of_question = None;
                }
            }
        }
        let numbers =
            || dataset.problems.iter().map(|problem| problem.id.parse::<u64>().unwrap_or(0));
        let are_numbers = dataset.problems.iter().all(|problem| problem.id.parse::<u64>().is_ok());
        let last = numbers().max().filter(|_| are_numbers);
        let is_ascending = numbers().zip(numbers().skip(1)).all(|(a, b)| a < b);
        let has_row_numbers = numbers().next().is_some_and(|first| first > 0) && is_ascending;
        let name = dataset.name.as_str();
        Ok(Self { name, by_id, by_question, has_row_numbers, last, ..Self::default() })
    }

    /// The problem that a line names: by its id, unless its prompt is another problem's; by its prompt where it has no
    /// id, or none of the dataset's.
    pub(super) fn find(&mut self, line: &Line) -> Result<Option<&'a Problem>> {
        let by_id = line.id.as_ref().and_then(|id| self.by_name(id));
        let text = line.prompt.as_ref().map(asked).unwrap_or_default();
        let by_prompt = self.by_prompt(text);
        let found = match (by_id, by_prompt, &line.id) {
            (_, Some(None), None) => {
                bail!(
                    "{} contains several problems with this prompt, and the record has no id: add ids",
                    self.name
                )
            }
            (Some(of_id), Some(Some(of_prompt)), Some(id)) if of_id.id != of_prompt.id => {
                let place =
                    |problem| line.prompt.as_ref().and_then(|prompt| place(prompt, problem));
                // Behind the question that was found, and not among worked examples before it.
                let is_shown = place(of_id) > place(of_prompt);
                if !is_shown {
                    self.contradictions.note(|| {
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
                        "ids in this file count from 0 (`{id}`), but the ids of {} are other numbers, such as those of \
                         rows from 1: add a column `id` to the dataset, or prompts to the records",
                        self.name
                    );
                }
                self.is_by_number |= self.has_row_numbers && line.prompt.is_none();
                let next = self
                    .last
                    .filter(|_| line.prompt.is_none())
                    .and_then(|last| last.checked_add(1));
                self.names_next |= next.is_some_and(|next| id.parse() == Ok(next));
                let is_batch = matches!(line.format, Format::Batch | Format::AnthropicBatch);
                let is_number = is_batch && line.prompt.is_none() && id.parse::<u64>().is_ok();
                self.numbers += usize::from(is_number);
                self.others += usize::from(is_number && of_id.is_none());
                if let (Some(prompt), Some(problem)) = (&line.prompt, of_id) {
                    self.check_prompt(prompt, problem)?;
                }
                of_id
            }
            (_, None, None) => None,
        };
        if let Some(problem) = found
            && let Some((which, shown, own)) = other_order(line, problem)
        {
            bail!(
                "{}: the {which} has the choice `{shown}`, and {} has `{own}`, so their letters mean different choices: \
                 grade without --dataset, with the gold letters of the prompts as \"gold\"",
                line.shown(),
                self.name
            );
        }
        self.seen.extend(found.map(|problem| problem.id.as_str()));
        Ok(found)
    }

    /// The problem with this id, or with what stands before the number of a sample: servers want every request to have
    /// an id of its own.
    fn by_name(&mut self, id: &str) -> Option<&'a Problem> {
        // A whole number is the same with a decimal point.
        let whole = id.strip_suffix(".0").filter(|whole| whole.parse::<u64>().is_ok());
        if let Some(problem) = self.by_id.get(id).or_else(|| self.by_id.get(whole?)) {
            return Some(problem);
        }
        let problem = self.by_id.get(before_number(id)?).filter(|_| !self.has_row_numbers)?;
        self.numbered.note(|| (id.to_owned(), problem.id.clone()));
        Some(problem)
    }

    /// The problem whose question a prompt contains, the last one where it contains several, as examples before it are;
    /// inside none where several problems have this question.
    fn by_prompt(&mut self, text: &str) -> Option<Option<&'a Problem>> {
        if let Some(found) = self.by_question.get(text.trim()) {
            return Some(*found);
        }
        let all = starts(text);
        let found = all.iter().rev().take(MAX_STARTS).filter_map(|start| {
            let (question, problem) = self.question_at(&text[*start..])?;
            Some((start + question.len(), usize::MAX - start, problem))
        });
        let (end, before_start, problem) = found.max_by_key(|(end, start, _)| (*end, *start))?;
        if is_example(&text[..usize::MAX - before_start], &text[end..]) {
            return None;
        }
        let tail = text[end..].split(['\n', '<', '[']).next().unwrap_or_default().trim();
        if let (Some(problem), false) = (problem, tail.is_empty())
            && *self.tail.get_or_insert(hash([tail])) != hash([tail])
        {
            self.longer_prompt.get_or_insert_with(|| problem.id.clone());
        }
        Some(problem)
    }

    /// The longest question that a text begins with, if it ends there.
    fn question_at(&self, text: &str) -> Option<(&'a str, Option<&'a Problem>)> {
        let mut limit = text;
        for _ in 0..MAX_SHORTER {
            let until = (Bound::Unbounded, Bound::Included(limit));
            let (question, problem) = self.by_question.range::<str, _>(until).next_back()?;
            let shared = limit.char_indices().zip(question.chars());
            let shared = shared.take_while(|((_, a), b)| a == b).last();
            let shared = shared.map_or(0, |((at, letter), _)| at + letter.len_utf8());
            if shared == question.len() && ends_there(question, &text[shared..]) {
                return Some((question, *problem));
            }
            // A shorter question is a part of what both begin with.
            let shared = if shared == question.len() {
                limit[..shared].char_indices().next_back().map_or(0, |(at, _)| at)
            } else {
                shared
            };
            limit = &limit[..shared];
        }
        None
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

    /// Refuses records that count from 1 where the dataset counts from 0: the next problem's gold would judge each.
    pub(super) fn check_count(&self) -> Result<()> {
        if self.names_next && self.by_id.contains_key("0") && !self.seen.contains("0") {
            bail!(
                "ids in this file count from 1, and those of {} from 0: give the records the ids of the dataset, or their \
                 prompts",
                self.name
            );
        }
        if self.others > 3 && 2 * self.others > self.numbers && self.last.is_some() {
            bail!(
                "{} of the {} numbers that name problems in this file name none of {}, so they seem to number requests: \
                 give the records the ids of the dataset, or their prompts",
                self.others,
                self.numbers,
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

/// Whether a question stands among worked examples: what precedes it, `Question:` or the mark of the user's turn,
/// precedes another one behind it, which the dataset lacks.
fn is_example(before: &str, behind: &str) -> bool {
    let line = before.trim_end().rsplit('\n').next().unwrap_or_default().trim_start();
    let from = line.len().saturating_sub(LABEL);
    let label =
        (from..line.len()).find(|at| line.is_char_boundary(*at)).map_or("", |at| &line[at..]);
    label.ends_with([':', '>', ']']) && label.len() > 1 && behind.contains(label)
}

/// Where a question may begin: at lines, behind a label such as `Question: `, behind the marks of a chat template.
fn starts(text: &str) -> Vec<usize> {
    let mut all = vec![0];
    let mut line = 0;
    for (at, letter) in text.char_indices() {
        let next = at + letter.len_utf8();
        match letter {
            '\n' => (line, _) = (next, all.push(next)),
            ':' if at - line <= LABEL => all.push(next),
            '>' | ']' => all.push(next),
            _ => {}
        }
    }
    let space = |start: usize| text[start..].len() - text[start..].trim_start().len();
    all.iter_mut().for_each(|start| *start += space(*start));
    all.dedup();
    all
}

/// Whether a question ends where `rest` begins: with its line, before the marks of a template, or with its sentence.
fn ends_there(question: &str, rest: &str) -> bool {
    let is_sentence = question.ends_with(['.', '?', '!']) && rest.starts_with(' ');
    let rest = rest.trim_start_matches([' ', '\t', '\r']);
    is_sentence
        || question.ends_with(['。', '？', '！'])
        || rest.is_empty()
        || rest.starts_with(['\n', '<', '['])
}

/// What a prompt asks: its text, or the last message of the user.
fn asked(prompt: &Prompt) -> &str {
    match prompt {
        Prompt::Text(text) => last_of_user(text),
        Prompt::Chat(messages) => {
            let last = messages.iter().rfind(|message| message.role == "user").or(messages.last());
            last.map_or("", |message| message.content.as_str())
        }
    }
}

/// Whether a prompt shows a problem's question.
fn shows(prompt: &Prompt, problem: &Problem) -> bool {
    place(prompt, problem).is_some()
}

/// Where the last place of a problem's question in a prompt ends, however white space stands in it.
fn place(prompt: &Prompt, problem: &Problem) -> Option<usize> {
    let shown = one_spaced(&prompt.plain());
    let end = |question: &str| {
        let question = one_spaced(question);
        shown.rfind(&question).filter(|_| !question.is_empty()).map(|at| at + question.len())
    };
    // The dataset's own prompt may have an instruction behind the question.
    let places = questions(&problem.prompt, None).into_iter().filter_map(|question| {
        let above = |mark: &str| question.split_once(mark).map(|(first, _)| first);
        let line = || above("\n").filter(|first| first.len() > 12);
        end(question).or_else(|| end(above("\n\n")?)).or_else(|| end(line()?))
    });
    places.max()
}

/// A choice that a record and a problem list by different letters, as the two show it: the record in its prompt, or
/// under keys of its own. The first word says where.
fn other_order<'l>(line: &'l Line, problem: &Problem) -> Option<(&'static str, String, String)> {
    let own = asked(&problem.prompt);
    let (above, below) = own.rsplit_once("\n\nA. ").map(|(above, _)| own.split_at(above.len()))?;
    let text = line.prompt.as_ref().map_or("", asked);
    // Examples before the question may have the same choices.
    let shown = text.rfind(above.trim()).map_or("", |at| &text[at + above.trim().len()..]);
    let own: Vec<(char, &str)> = below.lines().filter_map(choice).collect();
    let texts: Vec<&str> = own.iter().map(|(_, text)| *text).collect();
    let listed = choice_list::find(shown, &texts).map_or(Vec::new(), |listed| listed.letters);
    let shown: Vec<(char, &str)> =
        listed.into_iter().map(|(letter, which)| (letter, texts[which])).collect();
    // Of numbers and names as labels nothing is known.
    let lettered = |(label, text): &'l (String, String)| match label.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => {
            Some((char::from(letter.to_ascii_uppercase()), text.trim()))
        }
        _ => None,
    };
    let (which, shown) = match shown.is_empty() {
        true => ("record", line.choices.iter().filter_map(lettered).collect()),
        false => ("prompt", shown),
    };
    let differ = |(letter, text): (char, &str)| {
        let other = shown.iter().find(|(_, other)| *other == text)?;
        let is_here = shown.contains(&(letter, text));
        (!is_here).then(|| (which, format!("{}. {text}", other.0), format!("{letter}. {text}")))
    };
    own.into_iter().find_map(differ)
}

/// The letter and the text of a line that shows a choice: `A. blue`, `(A) blue`.
pub(super) fn choice(line: &str) -> Option<(char, &str)> {
    let line = line.trim();
    let line = line.strip_prefix('(').unwrap_or(line);
    let letter = line.chars().next().filter(char::is_ascii_uppercase)?;
    let text = line[1..].strip_prefix(['.', ')', ':'])?;
    Some((letter, text.trim()))
}

/// The last message of the user in a chat that was rendered and whose special tokens were left out, as verl writes it:
/// `system\n...\nuser\n...\nassistant\n`. Another text is that message itself.
fn last_of_user(text: &str) -> &str {
    let text = text.trim();
    let chat = text.strip_suffix("</think>").map_or(text, str::trim_end);
    let chat =
        thinking::opening(chat).map_or(chat, |mark| chat[..chat.len() - mark.len()].trim_end());
    match chat.strip_suffix("assistant") {
        Some(chat) => chat.rsplit_once("user\n").map_or(chat, |(_, message)| message).trim(),
        None => text,
    }
}

/// What is asked in a problem's prompt: its last message by the user, the same without an instruction at its end, and
/// the question above its choices.
fn questions<'p>(prompt: &'p Prompt, instruction: Option<&str>) -> Vec<&'p str> {
    let text = asked(prompt).trim();
    let bare = instruction.and_then(|instruction| text.strip_suffix(instruction)).map(str::trim);
    let above = text.split_once("\n\nA. ").map(|(above, _)| above.trim());
    std::iter::once(text).chain(bare).chain(above).filter(|text| !text.is_empty()).collect()
}
