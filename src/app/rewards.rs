//! The rewards of completions: one verifier, or several with weights, and the reward of a correct completion.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::suite::{self, SuiteSet};
use tealight_datasets::{Dataset, Rewards, Verifier, verify};

use crate::app::directory::as_argument;
use crate::app::folder_settings;
use tealight_system::one_or_many;
use tealight_system::range::above;

static VERIFIER_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "Verifier of completions. Default: the dataset's verifier. Repeat the option for several verifiers: the \
         reward is the weighted mean of their rewards.\n{}",
        verify::help().trim_end()
    )
});

/// Which verifiers reward completions, and how.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
pub struct RewardOptions {
    /// Verifier of completions: math, exact, numeric, regex:PATTERN, python:FILE.py:FUNCTION, program:COMMAND,
    /// sql:FOLDER, ... Default: the dataset's verifier. Repeat the option for several verifiers: the reward is the
    /// weighted mean of their rewards.
    #[arg(long, long_help = VERIFIER_HELP.as_str(), help_heading = "Data")]
    #[serde(default, with = "one_or_many")]
    pub verifier: Vec<String>,
    /// Weight of each --verifier, in the same order, such as 0.8,0.2. Weights are divided by their sum, so the reward
    /// stays between 0 and 1. Default: equal weights.
    #[arg(long, value_delimiter = ',', add = above(0.0).at_most(1e6), help_heading = "Data")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reward_weights: Vec<f64>,
    /// Smallest reward of a correct completion, for verifiers with graded rewards. Decides Pass@k, logged verdicts, and
    /// the rewards of objectives that need binary ones. Default: 1.
    #[arg(long, add = above(0.0).at_most(1.0), help_heading = "Data")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correct_threshold: Option<f64>,
    /// Function that names the solution class of a correct completion, FUNCTION(completion), which may also take gold,
    /// prompt, messages and id by name: correct completions of one class count as one answer. Default: the verifier's
    /// classes.
    #[arg(long, value_name = "python:FILE.py:FUNCTION", help_heading = "Data")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<String>,
}

impl RewardOptions {
    /// Where the prompts ask for a box and no verifier was chosen, only marked answers count in training.
    pub(crate) fn judge_for_training(&self, dataset: &mut Dataset) {
        if self.verifier.is_empty() && dataset.judge_strictly() {
            tracing::info!(
                "  the prompts ask for a box: rewards are by `math:strict`, which reads boxes, tags, #### and \"the answer \
                 is\"; --verifier math also accepts the last number of a completion"
            );
        }
    }

    /// The sets of a suite, which may be a stranger's file: a set may name a verifier that is built in, and another one
    /// only where these options name it too.
    pub(crate) fn open_suite(&self, spec: &str) -> Result<Vec<SuiteSet>> {
        let sets = suite::open(spec)?;
        let mut named = sets.iter().filter_map(|set| set.verifier.as_ref());
        let is_refused =
            |name: &&String| !folder_settings::is_built_in(name) && !self.verifier.contains(name);
        if let Some(name) = named.find(is_refused) {
            bail!(
                "{spec}: the verifier of a set is not built in, and the suite may be somebody else's: if you mean it, \
                 repeat it: --verifier {}",
                as_argument(Path::new(name))
            );
        }
        Ok(sets)
    }

    /// The same as `tealight-datasets` reads it.
    pub(crate) fn rewards(&self) -> Rewards {
        Rewards {
            verifiers: self.verifier.clone(),
            weights: self.reward_weights.clone(),
            threshold: self.correct_threshold,
            classes: self.classes.clone(),
        }
    }
}

/// What checks a dataset's answers, as messages name it: a verifier, or several.
pub(crate) fn checkers(verifier: &dyn Verifier) -> String {
    match verifier.grading().names {
        one if one.is_empty() => verifier.name().to_owned(),
        several => several.join("` and `"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::settings::{DataOptions, defaults};
    use serde_json::json;

    #[test]
    fn one_verifier_is_written_as_text_and_several_as_a_list() {
        let with_verifiers = |verifier: &[&str]| RewardOptions {
            verifier: verifier.iter().map(|spec| (*spec).to_owned()).collect(),
            ..RewardOptions::default()
        };
        for (options, written) in [
            (with_verifiers(&[]), json!({"verifier": null})),
            (with_verifiers(&["math"]), json!({"verifier": "math"})),
            (with_verifiers(&["math", "exact"]), json!({"verifier": ["math", "exact"]})),
        ] {
            assert_eq!(serde_json::to_value(&options).expect("written"), written);
            let read: RewardOptions = serde_json::from_value(written).expect("read");
            assert_eq!(read.rewards(), options.rewards());
            let table = toml::Table::try_from(&options).expect("as TOML");
            assert_eq!(table.contains_key("verifier"), !options.verifier.is_empty());
        }
        for wrong in [json!({"verifier": 3}), json!({"verifier": [3]})] {
            assert!(serde_json::from_value::<RewardOptions>(wrong).is_err());
        }
    }

    #[test]
    fn a_suite_starts_no_program_that_the_command_line_does_not_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.toml").display().to_string();
        for (verifier, is_built_in) in [
            ("math:strict", true),
            ("regex:(a)", true),
            ("colouring", true),
            ("program:touch x", false),
            ("python:a.py:f", false),
            ("sql:/etc", false),
            ("PROGRAM:x", false),
        ] {
            let text = format!("[[set]]\ndataset = \"countdown\"\nverifier = \"{verifier}\"\n");
            std::fs::write(&path, text).expect("written");
            let opened = RewardOptions::default().open_suite(&path);
            assert_eq!(opened.is_ok(), is_built_in, "{verifier}");
            if let Err(error) = opened {
                assert!(error.to_string().contains("repeat it: --verifier"), "{error}");
            }
            let repeated =
                RewardOptions { verifier: vec![verifier.into()], ..RewardOptions::default() };
            assert_eq!(repeated.open_suite(&path).expect("repeated").len(), 1);
        }
    }

    #[test]
    fn training_on_prompts_that_ask_for_a_box_rewards_marked_answers_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let plain = json!({"question": "6 times 7?", "answer": "42"});
        let boxed = json!({"question": "6 times 7? Put it in \\boxed{}.", "answer": "42"});
        for (rows, instruction, verifier, name) in [
            // The usual instruction of questions asks for a box.
            (vec![&plain], None, None, "math:strict"),
            (vec![&boxed, &boxed], Some(""), None, "math:strict"),
            (vec![&boxed], None, Some("math"), "math"),
            (vec![&boxed], None, Some("numeric"), "numeric"),
            (vec![&boxed, &plain], Some(""), None, "math"),
            (vec![&plain], Some(""), None, "math"),
        ] {
            let path = folder.path().join("rows.jsonl");
            let lines: Vec<String> = rows.iter().map(|row| row.to_string()).collect();
            std::fs::write(&path, lines.join("\n")).expect("written");
            let mut options: DataOptions = defaults();
            options.dataset = path.display().to_string();
            options.prompts.instruction = instruction.map(str::to_owned);
            options.rewards.verifier = verifier.map(str::to_owned).into_iter().collect();
            let trained = options.open_for_training().expect("a dataset");
            assert_eq!(trained.verifier.name(), name, "{lines:?} {instruction:?} {verifier:?}");
            // Evaluation reads any completion, whatever the prompt asks.
            let evaluated = options.open(&options.dataset).expect("a dataset");
            assert_eq!(evaluated.verifier.name(), verifier.unwrap_or("math"));
        }
    }
}
