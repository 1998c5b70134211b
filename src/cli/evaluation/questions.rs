//! The questions that a file of samples answers, from the `results.json` of its evaluation or study.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use tealight_core::json_file;
use tealight_eval::results::{MAX_RESULTS, Question};

/// Folders between a file of samples and the results: `samples/`, or of a study a run and a model made from it.
const DEPTH: usize = 3;

/// The questions of one file, by the ids of problems.
#[derive(Default)]
pub(super) struct Questions(BTreeMap<String, Question>);

/// What is read of the results of an evaluation, or of a study, whose sets are its `datasets`.
#[derive(Deserialize)]
struct ResultsFile {
    #[serde(alias = "datasets")]
    sets: Vec<SetQuestions>,
}

#[derive(Deserialize)]
struct SetQuestions {
    questions: Vec<Question>,
    #[serde(flatten)]
    of_evaluation: Option<Counts>,
    base: Option<Counts>,
}

#[derive(Deserialize)]
struct Counts {
    problems: Vec<Id>,
    samples: Option<String>,
}

#[derive(Deserialize)]
struct Id {
    problem: String,
}

impl Questions {
    /// Those of a file; none where no results say what its problems are.
    pub(super) fn of_file(file: &Path) -> Self {
        let folders = file.ancestors().skip(1).take(DEPTH);
        folders.filter_map(|folder| Self::read(folder, file)).next().unwrap_or_default()
    }

    fn read(folder: &Path, file: &Path) -> Option<Self> {
        let path = folder.join("results.json");
        let results: ResultsFile = json_file::read_own(folder, &path, MAX_RESULTS).ok()?;
        // Every model has its samples of a set in a file of this name; those at temperature 0 have one of their own.
        let name = file.file_name()?.to_str()?.replace(".greedy.jsonl", ".jsonl");
        let mut named = results.sets.into_iter().filter_map(|set| {
            let counts = set.of_evaluation.or(set.base)?;
            let samples = Path::new(counts.samples.as_ref()?).file_name()?.to_str()?;
            (samples == name).then_some((counts.problems, set.questions))
        });
        let (ids, questions) = named.next()?;
        Some(Self(ids.into_iter().map(|id| id.problem).zip(questions).collect()))
    }

    /// Adds the prompt and the gold answer to a row that lacks them.
    pub(super) fn complete(&self, row: &mut Map<String, Value>) {
        let id = row.get("problem").and_then(Value::as_str);
        let Some(question) = id.and_then(|id| self.0.get(id)) else { return };
        row.entry("prompt").or_insert_with(|| question.prompt.clone().into());
        row.entry("gold").or_insert_with(|| question.answer.clone().into());
    }
}
