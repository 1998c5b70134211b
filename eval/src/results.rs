//! `results.json`: the results of an evaluation, in a schema with a version (docs/results.md).

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tealight_core::choices::Choices;
use tealight_core::json_file::{self, JsonFileError};
use tealight_core::{Message, Prompt};
use tealight_datasets::{Dataset, Problem, Unusable};

use crate::classes::Level;
use crate::rules::Truncated;
use crate::sample::Thoughts;
use crate::{Summary, Tally};

/// The version of the schema that this program writes and reads.
pub const VERSION: u32 = 1;

/// Most bytes of a `results.json` that is read.
pub const MAX_RESULTS: u64 = 1 << 30;

/// Most samples of one problem.
const MAX_SAMPLES: usize = 1 << 20;
/// Largest other count of one problem.
pub(crate) const MAX_COUNT: usize = 1 << (usize::BITS - 16);

/// One evaluation: a model on one or several sets of problems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Version of the format of results.json.
    pub schema_version: u32,
    /// The program and revision that wrote it.
    pub tealight: String,
    /// The model, or where the completions came from.
    pub model: String,
    /// The resolved settings.
    pub config: Value,
    /// Wall time in seconds, sampling included.
    pub seconds: f64,
    /// The results of each set.
    pub sets: Vec<SetResult>,
}

/// One set of problems under one way of decoding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetResult {
    /// Its name: the dataset's, and the temperature's where there are several.
    pub name: String,
    /// The dataset: its name, or the whole path of its file.
    pub dataset: String,
    /// `in` or `out` of the training domain, where a suite says so.
    pub domain: Option<String>,
    /// The verifier's name.
    pub verifier: String,
    /// Sampling temperature, where it is known.
    pub temperature: Option<f64>,
    /// The numbers.
    pub summary: Summary,
    /// The prompt and the answer of each problem, for a person to read.
    pub questions: Vec<Question>,
    /// The counts of each problem, in the dataset's order.
    pub problems: Vec<Tally>,
    /// Problems that were left out, and why.
    pub unusable: Vec<Unusable>,
    /// The file of samples, relative to this one; none where they were not kept.
    pub samples: Option<String>,
}

/// A problem as a report shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The prompt as text, all messages of a chat one after the other.
    pub prompt: String,
    /// The gold answer.
    pub answer: String,
    /// The text of the right choice, where the gold answer is its letter and each file has an order of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// The messages of a prompt that is a conversation of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Message>,
}

impl Question {
    /// The question as a problem asks it.
    pub fn from_problem(problem: &Problem) -> Self {
        let turns = match &problem.prompt {
            Prompt::Chat(messages) if messages.len() > 1 => messages.messages.clone(),
            _ => Vec::new(),
        };
        let (answer, choice) = (problem.answer.clone(), problem.choice.clone());
        Self { prompt: problem.prompt.plain(), answer, choice, turns }
    }

    /// The problem that asks it, for another judge.
    pub fn to_problem(&self, id: &str) -> Problem {
        // Every field by its name: the compiler asks for the place of another one.
        let Self { prompt, answer, choice, turns } = self;
        let prompt = match turns.is_empty() {
            true => Prompt::Text(prompt.clone()),
            false => Prompt::Chat(turns.clone().into()),
        };
        Problem { choice: choice.clone(), ..Problem::new(id, prompt, answer.as_str()) }
    }

    /// What the gold answer says, whatever the order of the choices in its file.
    pub fn gold(&self) -> &str {
        self.choice.as_ref().unwrap_or(&self.answer)
    }

    /// Of each problem of a dataset.
    pub fn all(dataset: &Dataset) -> Vec<Self> {
        dataset.problems.iter().map(Self::from_problem).collect()
    }
}

impl SetResult {
    /// Whether both have the same problems, each with the same gold answer.
    fn has_problems_of(&self, other: &Self) -> bool {
        fn golds(set: &SetResult) -> HashMap<&str, &str> {
            let pairs = set.problems.iter().zip(&set.questions);
            pairs.map(|(tally, question)| (tally.problem.as_str(), question.gold())).collect()
        }
        let known = golds(self);
        !known.is_empty() && known == golds(other)
    }

    /// The file of the samples at temperature 0, relative to this one, where an evaluation drew them.
    pub fn greedy_samples(&self) -> Option<String> {
        let drew = self.problems.iter().any(|tally| tally.greedy.is_some());
        let stem = self.samples.as_ref()?.strip_suffix(".jsonl")?;
        drew.then(|| format!("{stem}.greedy.jsonl"))
    }
}

impl Results {
    /// The rule for truncated completions.
    pub fn truncated(&self) -> Truncated {
        let rule = self.config.get("truncated").and_then(Value::as_str);
        rule.and_then(Truncated::named).unwrap_or_default()
    }

    /// Who says which correct completions of a set are the same answer.
    pub fn class_source(&self, set: &SetResult) -> String {
        let text = |key: &str| self.config.get(key).and_then(Value::as_str);
        match (self.config.get("file_classes"), text("classes")) {
            (Some(_), _) => "given by the file of completions".into(),
            (None, Some(function)) => format!("given by the function {function}"),
            (None, None) => {
                let texts = match set.verifier.as_str() {
                    "program" | "python" | "weighted" => {
                        " (the texts, where the verifier gives none)"
                    }
                    _ => "",
                };
                format!("given by the verifier {}{texts}", set.verifier)
            }
        }
    }

    /// Reads `results.json`, or the one in a directory.
    ///
    /// # Errors
    /// No such file, one that is not of this schema, another version of it.
    pub fn load(path: &Path) -> Result<Self> {
        let is_file = path.extension().is_some_and(|extension| extension == "json");
        if path.is_file() && !is_file {
            let what =
                "a file, not the directory of `eval` or `grade`; `tealight audit` compares files";
            bail!("{}: {what} of completions", path.display());
        }
        let path = if is_file { path.to_owned() } else { path.join("results.json") };
        let folder = path.parent().unwrap_or(Path::new("."));
        let results: Self = json_file::read_own(folder, &path, MAX_RESULTS)
            .map_err(|error| refusal(folder, &path, error))?;
        if results.schema_version != VERSION {
            let program = Some(results.tealight.as_str());
            return Err(other_version(&path, results.schema_version.into(), program));
        }
        results.check().with_context(|| path.display().to_string())?;
        Ok(results)
    }

    /// The set that is `other`'s here: of the same name, or else of the same file and temperature, or else the only one
    /// with the same problems, by id and gold answer.
    pub fn same_set(&self, other: &SetResult) -> Option<&SetResult> {
        let is_file = Path::new(&other.dataset).is_absolute();
        let is_same = |set: &&SetResult| {
            is_file && set.dataset == other.dataset && set.temperature == other.temperature
        };
        let named = self.sets.iter().find(|set| set.name == other.name);
        let alike = || {
            let mut alike = self.sets.iter().filter(|set| set.has_problems_of(other));
            alike.next().filter(|_| alike.next().is_none())
        };
        named.or_else(|| self.sets.iter().find(is_same)).or_else(alike)
    }

    /// Refuses counts that no evaluation comes to: sums over problems stay within their types.
    fn check(&self) -> Result<()> {
        for set in &self.sets {
            check_counts(&set.problems)?;
            check_summary(&set.summary)?;
        }
        Ok(())
    }
}

/// Why a file is not read: what it is instead of results of this version, where that can be said.
fn refusal(folder: &Path, path: &Path, error: JsonFileError) -> anyhow::Error {
    /// What all versions have.
    #[derive(Deserialize)]
    struct Head {
        schema_version: Option<Value>,
        tealight: Option<Value>,
    }
    let shown = path.display();
    let error = match error {
        JsonFileError::Json(error) => error,
        error => return anyhow::Error::new(error).context(format!("{shown}: cannot be read")),
    };
    let head = match json_file::read_own(folder, path, MAX_RESULTS) {
        Ok(head) => head,
        Err(JsonFileError::Json(error)) if error.is_data() => {
            Head { schema_version: None, tealight: None }
        }
        Err(error) => {
            let is_json = matches!(&error, JsonFileError::Json(error) if !error.is_io());
            let what = if is_json { "not JSON" } else { "cannot be read" };
            return anyhow::Error::new(error).context(format!("{shown}: {what}"));
        }
    };
    match head.schema_version.and_then(|version| version.as_u64()) {
        Some(version) if version == u64::from(VERSION) => anyhow::Error::new(error)
            .context(format!("{shown}: does not match the schema of results")),
        Some(version) => {
            other_version(path, version, head.tealight.as_ref().and_then(Value::as_str))
        }
        None => anyhow!(
            "{shown}: not the results of an evaluation (no schema_version); give the directory that `tealight eval` or \
             `tealight grade` wrote; `tealight audit` compares files of completions"
        ),
    }
}

fn other_version(path: &Path, version: u64, tealight: Option<&str>) -> anyhow::Error {
    anyhow!(
        "{}: results of schema version {version}; this program reads version {VERSION}: evaluate again, or use the \
         tealight that wrote them ({})",
        path.display(),
        tealight.unwrap_or("not recorded"),
    )
}

/// Refuses numbers of a summary that no evaluation comes to.
pub(crate) fn check_summary(summary: &Summary) -> Result<()> {
    let ks = summary.pass_at_k.keys().chain(summary.unique_correct.keys());
    let counts = [Some(&summary.n), summary.most.as_ref(), Some(&summary.problems)];
    let counts = counts.into_iter().flatten().chain(summary.rules.values());
    if ks.chain(counts).any(|count| *count > MAX_COUNT) {
        bail!("the counts of a summary are impossible: the file is damaged or was edited");
    }
    Ok(())
}

/// Refuses counts of the problems of a set that no evaluation comes to.
pub(crate) fn check_counts(problems: &[Tally]) -> Result<()> {
    // Sums over many problems stay within their types too.
    let most = MAX_COUNT.min((MAX_COUNT << 8) / problems.len().max(1));
    problems.iter().try_for_each(|tally| check_tally(tally, most))
}

fn check_tally(tally: &Tally, most: usize) -> Result<()> {
    // Every field by its name: the compiler asks for the bound of another one.
    #[rustfmt::skip]
    let Tally {
        problem, samples, correct, reward, classes, wrong, truncated, end_of_turn, truncated_correct, failed,
        unknown_ends, no_answer, rules, unjudged, tokens, unknown_lengths, thoughts, logp: (_, with_logp),
        greedy: _, total: _, kl_pstar: _,
    } = tally;
    let Thoughts { count: thoughts, finished, tokens: thought_tokens } = thoughts;
    let sum = |counts: Vec<usize>| counts.into_iter().fold(0, usize::saturating_add);
    let went_on = &end_of_turn.as_ref().map_or(0, |(count, _)| *count);
    let (by_rule, wrong) = (sum(rules.values().copied().collect()), sum(wrong.multiplicities()));
    let counts = [samples, unjudged, tokens, thought_tokens, with_logp, &by_rule];
    let of_samples = [correct, &wrong, truncated, went_on, failed, no_answer, thoughts];
    // A chance of a problem is a product of as many factors.
    if *samples > MAX_SAMPLES {
        bail!(
            "problem `{problem}` has {samples} samples; at most {MAX_SAMPLES} of a problem are read"
        );
    }
    let is_whole = counts.iter().all(|count| **count <= most)
        && of_samples.iter().chain(&[unknown_ends, unknown_lengths]).all(|count| *count <= samples)
        && Level::ALL.iter().all(|level| sum(classes.at(*level).multiplicities()) <= *correct)
        && truncated_correct <= truncated
        && finished <= thoughts
        && reward.is_none_or(|sum| (0.0..=*samples as f64 + 1e-6).contains(&sum));
    if !is_whole {
        bail!(
            "the counts of problem `{problem}` are impossible: the file is damaged or was edited"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_refused_by_their_kind() {
        let folder = tempfile::tempdir().unwrap();
        let message = || format!("{:#}", Results::load(folder.path()).unwrap_err());
        assert!(message().contains("results.json: cannot be read"), "{}", message());
        for (text, why) in [
            ("{\"schema_version\": 1, ", "results.json: not JSON: EOF"),
            (
                "{\"schema_version\": 1, \"tealight\": \"t\"}",
                "results.json: does not match the schema of results: missing field",
            ),
            (
                "{\"schema_version\": 7, \"tealight\": \"t 2\"}",
                "version 7; this program reads version 1",
            ),
            ("{\"schema_version\": 7, \"tealight\": \"t 2\"}", "that wrote them (t 2)"),
            ("{\"schema_version\": \"1\"}", "no schema_version"),
            ("{}", "not the results of an evaluation (no schema_version)"),
            ("[1]", "not the results of an evaluation (no schema_version)"),
            ("{\"schema_version\": 1} x", "results.json: not JSON: trailing characters"),
        ] {
            std::fs::write(folder.path().join("results.json"), text).unwrap();
            assert!(message().contains(why), "{text}: {}", message());
        }
        let lines = folder.path().join("a.jsonl");
        std::fs::write(&lines, "{}\n{}\n").unwrap();
        assert!(
            Results::load(&lines).unwrap_err().to_string().contains("`tealight audit` compares")
        );
        let sparse = std::fs::File::create(folder.path().join("results.json")).unwrap();
        sparse.set_len(MAX_RESULTS + 1).unwrap();
        assert!(message().contains("larger than 1073741824 bytes"), "{}", message());
    }
}
