//! Problems, and how to check answers to them. No tensors, no sampling, no training.
//!
//! A [`Dataset`] is a list of [`Problem`]s and the [`Verifier`] that judges completions of them. It comes from a
//! named source ([`SOURCES`]) or from a file (see [`read`]). To add a task whose answers can be listed, write one
//! file in [`task`]; another task is a file with a [`Source`] and a row of [`SOURCES`]; to add a way of checking,
//! write one file in [`verify`].

#![warn(missing_docs)]

pub mod choice_list;
pub mod countdown;
mod ending;
mod error;
pub mod json;
pub mod judge;
mod open;
pub mod prompting;
pub mod python_list;
pub mod read;
pub mod reward;
pub mod suite;
pub mod task;
pub mod thinking;
pub mod unpack;
mod verdict;
pub mod verify;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tealight_core::display::{one_spaced, shortened};
use tealight_core::{Message, Prompt};

pub use ending::Ending;
pub use error::{DataError, Result};
pub use open::{open, open_files};
use prompting::BOXED_CHOICE;
pub use prompting::Prompting;
use read::Purpose;
pub use reward::Rewards;
pub use verdict::{CompletionText, Grade, Grading, Verdict, Verifier};

/// One prompt with the answer it is judged by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Stable name, unique within its dataset; results and samples refer to it.
    pub id: String,
    /// The text, or the messages of a chat, that the model answers.
    pub prompt: Prompt,
    /// The verifier's reference: a number, an expression's target, an answer.
    pub answer: String,
    /// The text of the right choice, where `answer` is its letter and the order of the choices is a file's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// A worked solution, where the dataset has one: the text that `sft` imitates.
    pub solution: Option<String>,
    /// The turn that `sft` imitates, where the dataset's has more than a text: a thought, calls of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Message>,
    /// Further input of the verifier: for SQL, the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Database>,
    /// How many distinct correct answers there are, where that is known exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The columns of its row as they stand in the file, where programs and functions judge: TRL's reward functions are
    /// given them by name.
    #[serde(skip)]
    pub columns: Option<Arc<Map<String, Value>>>,
    /// Whether choices are shown below the question, and `answer` is the letter of one.
    #[serde(skip)]
    pub has_choices: bool,
}

impl Problem {
    /// A problem without a solution, a database, a number of answers or columns.
    pub fn new(id: impl Into<String>, prompt: Prompt, answer: impl Into<String>) -> Self {
        let (id, answer) = (id.into(), answer.into());
        Self {
            id,
            prompt,
            answer,
            choice: None,
            solution: None,
            reply: None,
            context: None,
            total: None,
            columns: None,
            has_choices: false,
        }
    }
}

/// The database that a problem is about. Text that is read from anywhere is the name of one, never a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Database {
    /// A file in the verifier's folder.
    File(String),
    /// The statements that make it: in tests and fuzzing.
    Script(String),
}

impl From<String> for Database {
    fn from(name: String) -> Self {
        Self::File(name)
    }
}

impl From<Database> for String {
    fn from(database: Database) -> Self {
        match database {
            Database::File(text) | Database::Script(text) => text,
        }
    }
}

/// A list of problems and how to check answers to them.
#[derive(Clone)]
pub struct Dataset {
    /// Where it came from, as it is shown to the user.
    pub name: String,
    /// The problems, in a fixed order.
    pub problems: Vec<Problem>,
    /// How completions are judged.
    pub verifier: Arc<dyn Verifier>,
    /// Columns and answer format as detected on loading, one line each, for the user.
    pub notes: Vec<String>,
    /// Problems that were left out, since nothing can be compared with their gold answer.
    pub unusable: Vec<Unusable>,
    /// Lists all correct answers to a problem, where the task can.
    pub answers: Option<List>,
    /// Lists the texts of correct answers that the task's own solutions are written in, where the task can: several may
    /// be of one class. Texts that the verifier accepts besides, such as with other spaces, are not listed.
    pub spellings: Option<List>,
    /// Lists every text that is written like an answer, correct or not, where the task can and they are few.
    pub outputs: Option<List>,
    /// The instruction that the math verifier needs after a question, where prompts are bare questions.
    pub instruction: Option<&'static str>,
    /// Whether gold answers are correct answers themselves, and not instances or specifications: known where another
    /// verifier than the dataset's own judges.
    pub has_answer_texts: bool,
}

impl Dataset {
    /// A dataset of problems alone: nothing to say of columns, nothing left out.
    pub(crate) fn plain(
        name: String,
        problems: Vec<Problem>,
        verifier: impl Verifier + 'static,
    ) -> Self {
        let verifier = Arc::new(verifier);
        let (notes, unusable) = (Vec::new(), Vec::new());
        let (answers, spellings, outputs, instruction) = (None, None, None, None);
        Self {
            name,
            problems,
            verifier,
            notes,
            unusable,
            answers,
            spellings,
            outputs,
            instruction,
            has_answer_texts: false,
        }
    }
}

/// The first `wanted` different problems of a stream; fewer where it ends, or only repeats itself for `patience`
/// problems.
pub(crate) fn distinct(
    wanted: usize,
    patience: usize,
    mut next: impl FnMut() -> Option<Problem>,
) -> Vec<Problem> {
    let (mut problems, mut repeats) = (Vec::with_capacity(wanted), 0);
    let mut seen = std::collections::HashSet::new();
    while problems.len() < wanted && repeats < patience {
        let Some(problem) = next() else { break };
        if seen.insert(problem.id.clone()) {
            problems.push(problem);
            repeats = 0;
        } else {
            repeats += 1;
        }
    }
    problems
}

/// Lists all correct answers to a problem; none where it cannot.
pub type List = fn(&Problem) -> Option<Vec<String>>;

/// Most reasons for leaving problems out that are noted.
const MAX_REASONS: usize = 8;
/// Characters of a problem that are shown of it in one line.
const MAX_SHOWN: usize = 300;

/// A problem that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unusable {
    /// The problem's id.
    pub id: String,
    /// Its gold answer.
    pub answer: String,
    /// Why nothing can be compared with it.
    pub why: String,
}

impl Dataset {
    /// Writes the questions of a generated task by the template, where there is one.
    fn rewrite(&mut self, prompting: &Prompting) -> Result<()> {
        let Some(template) = &prompting.template else { return Ok(()) };
        for problem in &mut self.problems {
            let text = |text: &str| serde_json::Value::from(text);
            let columns = [
                ("id", text(&problem.id)),
                ("prompt", text(problem.prompt.plain().trim_end())),
                ("answer", text(&problem.answer)),
                ("solution", text(problem.solution.as_deref().unwrap_or_default())),
            ];
            let columns =
                columns.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let asked = template.render(&columns).map_err(|what| DataError::File {
                path: self.name.clone().into(),
                what: format!("problem `{}`: {what}", problem.id),
            })?;
            problem.prompt = Prompt::question(&asked);
        }
        Ok(())
    }

    /// The instruction that the verifier needs after a problem's question, where any does.
    pub fn instruction_of(&self, problem: &Problem) -> Option<&'static str> {
        self.instruction.map(|usual| if problem.has_choices { BOXED_CHOICE } else { usual })
    }

    /// Puts the problems as `prompting` says, and notes what is asked beside the question.
    /// A solution that is imitated is asked for a box only where it has one.
    fn ask(&mut self, prompting: &Prompting, purpose: Purpose) {
        let asks_for_a_box = self.verifier.asks_for_a_box();
        let usual = |problem: &Problem| self.instruction_of(problem).filter(|_| asks_for_a_box);
        let is_followed = |problem: &Problem| {
            let solution = problem.solution.as_deref().unwrap_or_default();
            purpose == Purpose::Judge || solution.contains("\\boxed")
        };
        let instruction = |problem| usual(problem).filter(|_| is_followed(problem));
        let asked = |problem| prompting.apply(problem, instruction(problem));
        let asked: Vec<Prompt> = self.problems.iter().map(asked).collect();
        let usual = self.problems.iter().find_map(instruction);
        for (problem, prompt) in self.problems.iter_mut().zip(asked) {
            problem.prompt = prompt;
        }
        self.notes.extend(prompting.described(usual));
    }

    /// Has the flexible verifier of mathematics accept marked answers only, where every prompt asks for a box: a policy
    /// would learn that any text with the right number at its end is correct. Whether the verifier was changed.
    pub fn judge_strictly(&mut self) -> bool {
        let asks_for_a_box = |problem: &Problem| problem.prompt.plain().contains("\\boxed");
        let is_flexible = self.verifier.name() == "math";
        let is_changed =
            is_flexible && !self.problems.is_empty() && self.problems.iter().all(asks_for_a_box);
        if is_changed {
            self.verifier = Arc::new(verify::math::Math { mode: verify::math::Mode::Strict });
        }
        is_changed
    }

    /// Leaves out, and notes, the problems whose gold answer the verifier cannot read.
    fn set_aside(&mut self) {
        let verifier = self.verifier.clone();
        let (usable, refused): (Vec<_>, Vec<_>) = std::mem::take(&mut self.problems)
            .into_iter()
            .map(|problem| (judge::refuse_gold(&*verifier, &problem.answer), problem))
            .partition(|(why, _)| why.is_none());
        self.problems = usable.into_iter().map(|(_, problem)| problem).collect();
        self.unusable.extend(refused.into_iter().map(|(why, problem)| Unusable {
            id: problem.id,
            answer: problem.answer,
            why: why.unwrap_or_default(),
        }));
        self.note_unusable();
    }

    /// Notes the problems that were left out, by reason.
    fn note_unusable(&mut self) {
        let mut by_reason: Vec<(&str, usize, &Unusable)> = Vec::new();
        for unusable in &self.unusable {
            let has_capacity = by_reason.len() < MAX_REASONS;
            match by_reason.iter_mut().find(|(why, ..)| *why == unusable.why) {
                Some((_, count, _)) => *count += 1,
                None if has_capacity => {
                    by_reason.push((&unusable.why, 1, unusable));
                }
                None => {}
            }
        }
        let all = self.unusable.len();
        let named: usize = by_reason.iter().map(|(_, count, _)| count).sum();
        let notes = by_reason.iter().map(|(why, count, first)| {
            let shown = verify::short(&first.answer);
            format!(
                "{count} of {} problems left out: {why}; the first is `{}` with `{shown}`",
                all + self.problems.len(),
                first.id
            )
        });
        let mut notes: Vec<String> = notes.collect();
        if all > named {
            notes.push(format!("left out for other reasons: {}", all - named));
        }
        self.notes.extend(notes);
    }

    /// The first problem in a line for the user: what is asked, by roles where there are several turns, and the gold
    /// answer.
    pub fn first_problem(&self) -> Option<String> {
        let first = self.problems.first()?;
        let asked = match &first.prompt {
            Prompt::Chat(turns) if turns.len() > 1 => {
                let turns = turns.iter().map(|turn| format!("[{}] {}", turn.role, turn.content));
                turns.collect::<Vec<String>>().join(" ")
            }
            prompt => prompt.plain(),
        };
        let line = |text: &str| shortened(&one_spaced(text), MAX_SHOWN);
        Some(format!("first problem: `{}`, gold answer `{}`", line(&asked), line(&first.answer)))
    }
}

/// A named dataset that needs no file: its name on the command line and how to make it.
#[derive(Clone, Copy)]
pub struct Source {
    /// The name that `--dataset` takes; splits follow a slash (`countdown/test`).
    pub name: &'static str,
    /// Makes `limit` problems of `split`.
    pub load: fn(split: &str, limit: Option<usize>) -> Result<Dataset>,
    /// Makes `count` solved problems of the `sft` split, others for every seed and step: an endless
    /// supply for supervised training.
    pub examples: fn(seed: u64, step: u64, count: usize) -> Vec<Problem>,
}

/// Every named source: those with a file of their own here, and the tasks of [`task::TASKS`].
pub const SOURCES: &[Source] = &ALL;

const ALL: [Source; 1 + task::TASKS.len()] = {
    let mut all = [countdown::SOURCE; 1 + task::TASKS.len()];
    let mut place = 0;
    while place < task::TASKS.len() {
        all[1 + place] = task::TASKS[place].source;
        place += 1;
    }
    all
};
