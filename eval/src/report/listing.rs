//! Counts and questions to the list of problems of a page.

use serde::Serialize;
use serde::ser::Serializer;

use super::samples::Sampled;
use crate::results::Question;
use crate::{Level, Tally};

/// Longest prompt that is shown, in characters.
const MAX_PROMPT: usize = 4_000;

/// What a page lists: the models, and the sets with their problems.
#[derive(Serialize)]
pub(super) struct Listing<'a> {
    pub(super) models: &'a [String],
    pub(super) sets: &'a [ListedSet<'a>],
}

#[derive(Serialize)]
pub(super) struct ListedSet<'a> {
    name: &'a str,
    split: &'a str,
    problems: Vec<ListedProblem<'a>>,
}

/// A problem as the list needs it.
struct ListedProblem<'a> {
    id: &'a str,
    question: Option<&'a Question>,
    /// Of each model the samples that are correct, all of them, those that were truncated, those without a readable
    /// answer, those that could not be judged, and the distinct correct answers.
    counts: Vec<[usize; 6]>,
}

impl Serialize for ListedProblem<'_> {
    /// Id, prompt, gold answer, counts, and the messages of a prompt that has several.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Every field by its name: the compiler asks whether a page shows another one.
        let (prompt, answer, turns) = self.question.map_or(("", "", &[][..]), |question| {
            let Question { prompt, answer, turns, choice: _ } = question;
            (start(prompt, MAX_PROMPT), answer.as_str(), &turns[..])
        });
        let turns: Vec<[&str; 2]> = turns
            .iter()
            .map(|turn| [turn.role.as_str(), start(&turn.content, MAX_PROMPT)])
            .collect();
        match turns.is_empty() {
            true => (self.id, prompt, answer, &self.counts).serialize(serializer),
            false => (self.id, prompt, answer, &self.counts, turns).serialize(serializer),
        }
    }
}

/// The problems of a set, in order.
pub(super) fn list<'a>(set: &'a Sampled<'_>) -> ListedSet<'a> {
    let first = set.counts.first().copied().unwrap_or_default();
    let one = |(at, tally): (usize, &'a Tally)| {
        let of_model = |counts: &&[Tally]| {
            counts.get(at).map_or([0; 6], |tally| {
                let distinct = tally.classes.at(Level::Solution).distinct();
                let Tally { correct, samples, truncated, no_answer, unjudged, .. } = *tally;
                [correct, samples, truncated, no_answer, unjudged, distinct]
            })
        };
        let counts = set.counts.iter().map(of_model).collect();
        ListedProblem { id: &tally.problem, question: set.questions.get(at), counts }
    };
    let problems = first.iter().enumerate().map(one).collect();
    ListedSet { name: &set.name, split: set.split, problems }
}

/// The first characters of a text.
pub(super) fn start(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}
