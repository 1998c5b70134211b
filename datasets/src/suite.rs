//! Suites: the sets that belong to one evaluation, in and out of the training domain, as a TOML file.
//!
//! ```toml
//! [[set]]
//! dataset = "countdown/test"     # what --dataset takes
//! domain = "in"                  # in or out
//! name = "held out"              # optional, as are prompt_column, answer_column, verifier
//! ```

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::read::Columns;
use crate::{DataError, Result, Rewards};
use tealight_core::names::FORMATS;
use tealight_core::regular;
use tealight_core::similar::nearest;

/// Most bytes of a suite's file.
const MAX_FILE: u64 = 1 << 20;

/// A set of problems as a suite's file describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteSet {
    /// The dataset, as `--dataset` takes it.
    pub dataset: String,
    /// The set's name in results; the dataset's otherwise.
    pub name: Option<String>,
    /// Whether models are trained on its like: `in` or `out`.
    pub domain: Option<Domain>,
    /// Column with the question.
    pub prompt_column: Option<String>,
    /// Column with the gold answer; none where the reader finds it.
    pub answer_column: Option<String>,
    /// The verifier of completions.
    pub verifier: Option<String>,
}

/// Whether a set is like what models are trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// The set is in-domain.
    In,
    /// The set is out of domain.
    Out,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    set: Vec<SuiteSet>,
}

/// The suites that come with the program, by name.
pub const SUITES: [(&str, &str); 6] = [
    ("countdown", include_str!("../suites/countdown.toml")),
    ("tasks", include_str!("../suites/tasks.toml")),
    ("gsm8k", include_str!("../suites/gsm8k.toml")),
    ("math500", include_str!("../suites/math500.toml")),
    ("aime", include_str!("../suites/aime.toml")),
    ("amc", include_str!("../suites/amc.toml")),
];

/// The sets of a suite: one that comes with the program, or a TOML file.
///
/// # Errors
/// Neither, no regular file, one of more than 1 MiB, a malformed file, a suite without a set.
pub fn open(spec: &str) -> Result<Vec<SuiteSet>> {
    let path = Path::new(spec);
    let refused = |what: String| DataError::File { path: path.into(), what };
    let text = match SUITES.iter().find(|(name, _)| *name == spec) {
        Some((_, text)) => (*text).to_owned(),
        None if path.exists() => {
            let bytes = regular::read_limited(path, MAX_FILE)
                .map_err(|source| DataError::Io { path: path.into(), source })?;
            String::from_utf8(bytes).map_err(|_| refused("not UTF-8".into()))?
        }
        None => {
            return Err(refused(match nearest(spec, names()) {
                Some(meant) => format!("no such suite; did you mean `{meant}`?"),
                None => format!(
                    "no such suite: it is no file, and the suites that come with the program are {}",
                    names().collect::<Vec<_>>().join(", ")
                ),
            }));
        }
    };
    let file: File = toml::from_str(&text).map_err(|error| refused(error.message().into()))?;
    if file.set.is_empty() {
        return Err(refused("holds no [[set]]".into()));
    }
    Ok(file.set)
}

/// The option or dataset to give instead of a name that is a suite's.
pub fn instead_of(name: &str) -> Option<String> {
    SUITES.iter().find(|(suite, _)| *suite == name)?;
    let sets = open(name).ok()?;
    let sets: Vec<&str> = sets.iter().map(|set| set.dataset.as_str()).collect();
    Some(format!(
        "`{name}` is a suite: give --suite {name} to eval, or its dataset, {}",
        sets.join(", ")
    ))
}

/// The dataset to give instead of one that does not exist.
pub(crate) fn instead(spec: &str) -> String {
    let (name, _) = spec.split_once('/').unwrap_or((spec, ""));
    if let Some(fix) = instead_of(name) {
        return fix;
    }
    if spec.contains(',') {
        return "Name one dataset: `eval` takes several, separated by commas, and `sft` several TASK/sft".into();
    }
    let known = crate::SOURCES.iter().map(|source| source.name).chain(names());
    // What has an extension was meant as a file.
    match nearest(name, known.filter(|_| Path::new(spec).extension().is_none())) {
        Some(meant) => format!("Did you mean `{meant}`?"),
        None => {
            format!("Give the path of a {FORMATS} file, or a dataset on the Hub, OWNER/NAME:SPLIT")
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|(name, _)| *name)
}

impl SuiteSet {
    /// A set that is only a dataset.
    pub fn new(dataset: &str) -> Self {
        Self { dataset: dataset.into(), ..Self::default() }
    }

    /// How its file is read.
    pub fn columns(&self) -> Columns {
        Columns {
            prompt: self.prompt_column.clone(),
            answer: self.answer_column.clone(),
            rewards: Rewards::by(self.verifier.clone()),
            ..Columns::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_is_well_formed_and_generated_sets_open() {
        for (name, _) in SUITES {
            for set in open(name).unwrap() {
                if !set.dataset.starts_with("hub:") {
                    crate::open(&set.dataset, &set.columns(), Some(3)).expect(&set.dataset);
                }
            }
        }
    }

    #[test]
    fn a_missing_dataset_gets_the_advice_that_fits_it() {
        for (spec, advice) in [
            ("colouring/tests", "Did you mean `colouring`?"),
            ("countdwn/test", "Did you mean `countdown`?"),
            ("gsm8k/test", "`gsm8k` is a suite"),
            ("countdown.jsonl", "Give the path"),
            ("order.json", "Give the path"),
        ] {
            assert!(instead(spec).contains(advice), "{spec}: {}", instead(spec));
        }
    }

    #[test]
    fn a_bad_suite_is_refused() {
        assert!(open("nothing").unwrap_err().to_string().contains("countdown, tasks"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.toml");
        std::fs::write(&path, "[[set]]\ndataset = \"x\"\ndomian = \"in\"\n").unwrap();
        let message = open(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(message.contains("s.toml") && message.contains("domian"), "{message}");
        std::fs::write(&path, " ".repeat(MAX_FILE as usize + 1)).unwrap();
        let message = open(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(message.contains("larger than 1048576 bytes"), "{message}");
        let message = open(folder.path().to_str().unwrap()).unwrap_err().to_string();
        assert!(message.contains(regular::NOT_REGULAR), "{message}");
    }
}
