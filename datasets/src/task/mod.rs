//! Tasks whose correct answers can be listed: seeds to instances, texts to verdicts, without a download.
//!
//! A task is a type of instances that implements [`Task`]: how one is drawn, written and read back, and which texts
//! are answers. Answers are strings over a few characters, told apart by their prefixes: [`Task::step`] says of a
//! prefix whether it is an answer, may become one, or cannot. The same function judges a completion, character by
//! character, and lists every answer, depth first; tests hold it to a brute force that is written independently.
//!
//! Shared code does the rest once: splits and streams ([`instances`]), names with knobs ([`knobs`]), the verifier
//! ([`judge`]). To add a task, write one file here and add one row to [`TASKS`].

mod brackets;
mod change;
mod colouring;
mod graph;
mod instance_rng;
pub mod instances;
pub mod judge;
pub mod knobs;
mod operators;
mod orders;
mod paths;
mod queens;
pub mod reasoning_gym;
mod sat;
mod strings;
mod subset;
mod sudoku;
#[cfg(test)]
mod tests;
mod zebra;

use std::collections::BTreeSet;

use crate::{List, Source};

pub use instance_rng::InstanceRng;
pub use knobs::Knob;

/// Every task.
pub const TASKS: [&Kind; 12] = [
    kind_of::<colouring::Colouring>(),
    kind_of::<orders::Orders>(),
    kind_of::<subset::Subset>(),
    kind_of::<queens::Queens>(),
    kind_of::<sat::Sat>(),
    kind_of::<paths::Paths>(),
    kind_of::<brackets::Brackets>(),
    kind_of::<change::Change>(),
    kind_of::<strings::Strings>(),
    kind_of::<operators::Operators>(),
    kind_of::<sudoku::Sudoku>(),
    kind_of::<zebra::Zebra>(),
];

/// Longest statement that is read, and longest completion that is judged, in bytes.
pub const MAX_BYTES: usize = 96;
/// Most texts that are listed of an instance.
pub const MAX_TEXTS: usize = 4096;
/// Most prefixes that a listing looks at.
const MAX_STEPS: usize = 500_000;

/// An instance of a task.
///
/// With the default knobs a statement has at most 48 characters and an answer at most 24, and 300 different instances
/// can be drawn of every split: tests of all tasks ask for it.
pub trait Task: Sized {
    /// The name on the command line.
    const NAME: &'static str;
    /// One line: the question, and the form of an answer.
    const ABOUT: &'static str;
    /// First character of every statement, another one for every task, so that one model can learn all of them.
    const TAG: char;
    /// The parameters of its difficulty, with defaults.
    const KNOBS: &'static [Knob];
    /// Least and most answers (classes) of an instance that is drawn.
    const ANSWERS: (usize, usize) = (2, 64);

    /// Draws an instance with these values of [`Task::KNOBS`]; `None` where this draw made none. Shared code draws
    /// again, also where the instance has too few answers or too many.
    fn draw(knobs: &[usize], draw: &mut InstanceRng) -> Option<Self>;

    /// Reads a statement without its tag; `None` for any other text, and for instances beyond the task's limits.
    fn read(statement: &str) -> Option<Self>;

    /// The statement without its tag.
    fn statement(&self) -> String;

    /// The characters that answers are made of, in the order of the list of answers.
    fn letters(&self) -> Vec<u8>;

    /// Judges a prefix (never empty, made of [`Task::letters`], no prefix of it an answer): `Ok(true)` for an answer,
    /// `Ok(false)` for the beginning of one; the error says why no answer begins so.
    fn step(&self, prefix: &[u8]) -> Result<bool, &'static str>;

    /// Canonical form of an answer: two answers of one class are one solution.
    fn class(answer: &str) -> String {
        answer.to_owned()
    }
}

/// A task as shared code sees it: a row of [`TASKS`].
pub struct Kind {
    /// The name on the command line.
    pub name: &'static str,
    /// One line: the question, and the form of an answer.
    pub about: &'static str,
    /// First character of every statement.
    pub tag: char,
    /// The parameters of its difficulty.
    pub knobs: &'static [Knob],
    /// Least and most answers (classes) of an instance that is drawn.
    pub answers: (usize, usize),
    /// The named dataset.
    pub source: Source,
    /// Every text that is an answer to a problem.
    pub texts: List,
    /// Every text over the characters of a problem's answers that is as long as one.
    pub outputs: List,
    /// The characters of answers; `None` where the statement cannot be read.
    letters: fn(&str) -> Option<Vec<u8>>,
    /// A statement drawn with these values of the knobs.
    draw: fn(&[usize], &mut InstanceRng) -> Option<String>,
    /// Judges a text; `None` where the statement cannot be read.
    check: fn(&str, &str) -> Option<Checked>,
    /// Every answer with its class.
    list: fn(&str) -> Option<Vec<Answer>>,
}

/// An answer that was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Canonical form.
    pub class: String,
    /// The answer as a completion would write it.
    pub text: String,
}

/// A task's judgement of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// An answer of this class.
    Answer(String),
    /// Not an answer, and why.
    Wrong(&'static str),
    /// It holds this character, which no answer does.
    Foreign(char),
}

impl Kind {
    /// Every answer to a statement, in a fixed order; `None` for a text that is no statement of the task, and where
    /// there are more than [`MAX_TEXTS`].
    pub fn list(&self, statement: &str) -> Option<Vec<Answer>> {
        (self.list)(statement)
    }

    /// How many classes of answers a statement has, where they can be listed.
    pub fn total(&self, statement: &str) -> Option<u64> {
        Some(classes(&self.list(statement)?).len() as u64)
    }
}

/// The classes of listed answers, in order.
fn classes(answers: &[Answer]) -> Vec<&str> {
    let classes: BTreeSet<&str> = answers.iter().map(|answer| &*answer.class).collect();
    classes.into_iter().collect()
}

/// The task called `name`.
pub fn find(name: &str) -> Option<&'static Kind> {
    TASKS.into_iter().find(|kind| kind.name == name)
}

/// The task that a text is a statement of.
pub(crate) fn of_statement(text: &str) -> Option<&'static Kind> {
    TASKS.into_iter().find(|kind| (kind.check)(text, "").is_some())
}

const fn kind_of<T: Task>() -> &'static Kind {
    const {
        &Kind {
            name: T::NAME,
            about: T::ABOUT,
            tag: T::TAG,
            knobs: T::KNOBS,
            answers: T::ANSWERS,
            source: Source {
                name: T::NAME,
                load: |split, limit| instances::load(kind_of::<T>(), split, limit),
                examples: |seed, step, count| {
                    instances::examples(kind_of::<T>(), seed, step, count)
                },
            },
            texts: |problem| instances::texts(kind_of::<T>(), problem),
            outputs: |problem| instances::outputs(kind_of::<T>(), problem),
            letters: |statement| read::<T>(statement).map(|instance| instance.letters()),
            draw: |knobs, draw| {
                T::draw(knobs, draw).map(|instance| format!("{}{}", T::TAG, instance.statement()))
            },
            check: |statement, text| read::<T>(statement).map(|instance| check(&instance, text)),
            list: |statement| list(&read::<T>(statement)?),
        }
    }
}

fn read<T: Task>(statement: &str) -> Option<T> {
    if statement.len() > MAX_BYTES {
        return None;
    }
    T::read(statement.strip_prefix(T::TAG)?)
}

/// Judges a text of at most [`MAX_BYTES`].
fn check<T: Task>(instance: &T, text: &str) -> Checked {
    let letters = instance.letters();
    let is_foreign = |c: &char| !u8::try_from(*c).is_ok_and(|byte| letters.contains(&byte));
    if let Some(foreign) = text.chars().find(is_foreign) {
        return Checked::Foreign(foreign);
    }
    for end in 1..=text.len() {
        match instance.step(&text.as_bytes()[..end]) {
            Ok(true) if end == text.len() => return Checked::Answer(T::class(text)),
            Ok(true) => return Checked::Wrong("goes on after an answer"),
            Ok(false) => {}
            Err(why) => return Checked::Wrong(why),
        }
    }
    Checked::Wrong("ends before it is an answer")
}

/// A search for every answer, depth first.
struct Search<'a, T> {
    instance: &'a T,
    letters: Vec<u8>,
    prefix: Vec<u8>,
    answers: Vec<Answer>,
    steps: usize,
}

fn list<T: Task>(instance: &T) -> Option<Vec<Answer>> {
    let letters = instance.letters();
    let mut search =
        Search { instance, letters, prefix: Vec::new(), answers: Vec::new(), steps: 0 };
    search.extend()?;
    Some(search.answers)
}

impl<T: Task> Search<'_, T> {
    /// Adds the answers that begin with the prefix; `None` beyond the limits.
    fn extend(&mut self) -> Option<()> {
        if self.prefix.len() == MAX_BYTES {
            return None;
        }
        for index in 0..self.letters.len() {
            self.steps += 1;
            if self.steps > MAX_STEPS || self.answers.len() > MAX_TEXTS {
                return None;
            }
            self.prefix.push(self.letters[index]);
            match self.instance.step(&self.prefix) {
                Ok(true) => {
                    let text = String::from_utf8_lossy(&self.prefix).into_owned();
                    self.answers.push(Answer { class: T::class(&text), text });
                }
                Ok(false) => self.extend()?,
                Err(_) => {}
            }
            self.prefix.pop();
        }
        (self.answers.len() <= MAX_TEXTS).then_some(())
    }
}
