//! A name or files to a dataset that is ready to be asked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tealight_core::fnv;

use crate::read::{self, Columns, Purpose};
use crate::{DataError, Dataset, Result, SOURCES, Verifier, judge, suite, verify};

/// Opens `spec`: a named source (`countdown`, `countdown/test`), a file (JSONL, JSON, CSV or Parquet) or a folder with
/// the files of one split. Keeps the first `limit` problems where a limit is given.
///
/// ```
/// let dataset = tealight_datasets::open("countdown/test", &Default::default(), Some(3))?;
/// assert_eq!(dataset.problems.len(), 3);
/// let problem = &dataset.problems[0];
/// let solution = problem.solution.as_deref().unwrap_or_default();
/// assert!(dataset.verifier.verify(problem, solution).is_correct());
/// # Ok::<(), tealight_datasets::DataError>(())
/// ```
///
/// # Errors
/// An unknown name, an unreadable or malformed file, a missing column, or no problem at all.
pub fn open(spec: &str, columns: &Columns, limit: Option<usize>) -> Result<Dataset> {
    let (name, split) = spec.split_once('/').unwrap_or((spec, ""));
    let Some(source) = SOURCES.iter().find(|source| source.name == name) else {
        if !Path::new(spec).exists() {
            let known: Vec<_> = SOURCES.iter().map(|source| source.name).collect();
            let (spec, known) = (spec.to_owned(), known.join(", "));
            return Err(DataError::Unknown { fix: suite::instead(&spec), spec, known });
        }
        let path = Path::new(spec);
        let (files, note) = match path.is_dir() {
            true => read::files_in(path)?,
            false => (vec![path.to_owned()], None),
        };
        let mut dataset = open_files(spec, &files, columns, limit)?;
        dataset.notes.extend(note);
        return Ok(dataset);
    };
    let mut dataset = (source.load)(split, limit)?;
    dataset.judge_by(columns, |_| None)?;
    dataset.rewrite(&columns.prompting)?;
    dataset.ask(&columns.prompting, columns.purpose);
    Ok(dataset)
}

/// Opens the files of one dataset, such as the shards of a split, in their order.
///
/// # Errors
/// An unreadable or malformed file, a missing column, or no problem at all.
pub fn open_files(
    name: &str,
    files: &[PathBuf],
    columns: &Columns,
    limit: Option<usize>,
) -> Result<Dataset> {
    if files.is_empty() {
        return Err(DataError::Empty { name: name.into() });
    }
    let mut dataset = Dataset { name: name.into(), ..read::open(files, columns, limit)? };
    // The databases of SQL questions were found beside the data file.
    let verifier = dataset.verifier.clone();
    let has_own = verifier.name().starts_with("sql");
    dataset.judge_by(columns, |spec| {
        let is_the_same = verify::sql::named(spec).is_some_and(|(_, folder)| folder.is_none());
        (has_own && is_the_same).then(|| verifier.clone())
    })?;
    dataset.ask(&columns.prompting, columns.purpose);
    Ok(dataset)
}

impl Dataset {
    /// Sets the verifiers that the user names, and notes whether the dataset's own verifier accepts the gold answers as
    /// answers; `known` returns a verifier that is already open.
    fn judge_by(
        &mut self,
        columns: &Columns,
        known: impl Fn(&str) -> Option<Arc<dyn Verifier>>,
    ) -> Result<()> {
        columns.rewards.check()?;
        if !columns.rewards.verifiers.is_empty() {
            let verifier = columns.rewards.open(known)?;
            self.has_answer_texts = self.problems.first().is_some_and(|first| {
                let gold = verify::math::gold(&first.answer);
                let is_specification =
                    matches!(serde_json::from_str(&gold), Ok(Value::Array(_) | Value::Object(_)));
                !is_specification && judge::verify(&*self.verifier, first, &gold).is_correct()
            });
            self.verifier = verifier;
        }
        self.verifier = columns.rewards.classed(self.verifier.clone())?;
        self.check(columns.purpose)
    }

    /// Notes questions that are asked again, above all with another gold answer.
    fn note_repeats(&mut self) {
        let mut asked = HashMap::new();
        let (mut repeats, mut conflicts, mut example) = (0, 0, None);
        for problem in &self.problems {
            let question = fnv(problem.prompt.plain().bytes());
            let Some(first) = asked.insert(question, problem) else { continue };
            repeats += 1;
            let is_same = read::is_same(first.answer.trim(), problem.answer.trim());
            if !is_same && first.context == problem.context {
                conflicts += 1;
                example.get_or_insert((first, problem));
            }
        }
        let conflict = example.map(|(first, other)| {
            let [one, two] = [first, other].map(|problem| verify::short(&problem.answer));
            format!(
                "; {conflicts} of them with another gold answer, such as `{}` (`{one}`) and `{}` (`{two}`)",
                first.id, other.id
            )
        });
        if repeats > 0 {
            let verb = if repeats == 1 { "problem repeats" } else { "problems repeat" };
            let conflict = conflict.unwrap_or_default();
            self.notes.push(format!("{repeats} {verb} the question of an earlier one{conflict}"));
        }
    }

    /// Leaves out problems whose gold answer cannot be read, and refuses what is no dataset then.
    fn check(&mut self, purpose: Purpose) -> Result<()> {
        match purpose {
            Purpose::Judge => self.set_aside(),
            Purpose::Imitate => self.note_unusable(),
        }
        if let (true, Some(first)) = (self.problems.is_empty(), self.unusable.first()) {
            return Err(DataError::Unusable {
                name: self.name.clone(),
                answer: first.answer.clone(),
                why: first.why.clone(),
            });
        }
        if self.problems.is_empty() {
            return Err(DataError::Empty { name: self.name.clone() });
        }
        if purpose == Purpose::Judge {
            self.note_repeats();
        }
        let mut seen = std::collections::HashSet::new();
        match self.problems.iter().find(|problem| !seen.insert(&problem.id)) {
            Some(twice) => {
                Err(DataError::Duplicate { id: twice.id.clone(), name: self.name.clone() })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rewards;

    #[test]
    fn gold_answers_are_told_from_instances_and_specifications() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.jsonl");
        let rewards = Rewards::by(Some("program:cat".into()));
        let columns = Columns { rewards, answer: Some("answer".into()), ..Columns::default() };
        for (answer, expected) in [("\"yes\"", true), ("7", true), (r#""{\"tests\": [1]}""#, false)]
        {
            std::fs::write(&file, format!("{{\"prompt\": \"?\", \"answer\": {answer}}}\n"))
                .unwrap();
            let dataset = open(&file.display().to_string(), &columns, None).unwrap();
            assert_eq!(dataset.has_answer_texts, expected, "{answer}");
        }
    }

    #[test]
    fn repeated_questions_are_noted_with_golds_that_differ() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.jsonl");
        let row = |asked: &str, gold: &str| {
            format!("{{\"question\": \"{asked}\", \"answer\": \"{gold}\"}}\n")
        };
        for (rows, expected) in [
            ([row("1+1?", "2"), row("2+1?", "3"), row("1+2?", "3")], None),
            (
                [row("1+1?", "2"), row("1+1?", "2.0"), row("2+1?", "3")],
                Some("1 problem repeats the question of an earlier one"),
            ),
            (
                [row("1+1?", "2"), row("1+1?", "3"), row("1+1?", "3")],
                Some(
                    "2 problems repeat the question of an earlier one; 1 of them with another gold answer, such as `1` \
                     (`2`) and `2` (`3`)",
                ),
            ),
        ] {
            std::fs::write(&file, rows.concat()).unwrap();
            let dataset = open(&file.display().to_string(), &Columns::default(), None).unwrap();
            let noted = dataset.notes.iter().find(|note| note.contains("repeat"));
            assert_eq!(noted.map(String::as_str), expected);
        }
    }

    #[test]
    fn generated_golds_are_no_answers() {
        let rewards = Rewards::by(Some("program:cat".into()));
        let columns = Columns { rewards, ..Columns::default() };
        for name in ["countdown", "colouring"] {
            assert!(!open(name, &columns, Some(1)).unwrap().has_answer_texts, "{name}");
        }
    }
}
