//! The settings of the page to the options of `tealight train`: what is trained here and there is the same run.

use anyhow::{Context, Result, ensure};
use clap::{Args, Command, FromArgMatches};
use serde::Deserialize;
use serde_json::{Value, json};
use tealight_learn::train::rlvr::RlvrConfig;

/// The embedded model that is trained.
pub const MODEL: &str = "tasks";
/// The problems that it is trained on.
pub const DATASET: &str = "colouring/train";
/// How many of them there are.
pub const PROBLEMS: usize = 96;
/// Most steps of a run.
pub const MAX_STEPS: usize = 1000;

/// Options of `tealight train` that the page does not change: those of `recipes/default-study.toml` with half as many
/// prompts and stored completions in a step, and nothing that is read for the log alone.
const FIXED: [(&str, i64); 7] = [
    ("prompts_per_step", 8),
    ("num_generations", 8),
    ("num_presamples", 4),
    ("rehearsal_batch_size", 32),
    ("max_completion_length", 32),
    ("max_num_seqs", 512),
    ("log_completions", 0),
];

/// The settings that the page changes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The divergence: a member of the objective `divergence`.
    pub divergence: String,
    /// Its weight; none for the member `none`.
    pub weight: Option<f64>,
    /// Step size of AdamW.
    pub learning_rate: f64,
    /// The seed of samples and of the order of prompts.
    pub seed: u64,
    /// Steps of the run.
    pub max_steps: usize,
}

impl Settings {
    /// The objective as `tealight train --objective` names it.
    pub fn objective(&self) -> String {
        let weight = self.weight.map(|weight| format!(":{weight}")).unwrap_or_default();
        format!("divergence:{}{weight}", self.divergence)
    }

    /// The options of `tealight train`, by their names in TOML, those of the model and the problems left out.
    fn options(&self) -> Vec<(&'static str, Value)> {
        let mut options = vec![
            ("objective", json!(self.objective())),
            ("learning_rate", json!(self.learning_rate)),
            ("seed", json!(self.seed)),
            ("max_steps", json!(self.max_steps)),
        ];
        options.extend(FIXED.map(|(name, value)| (name, json!(value))));
        options.push(("log_kl", json!("off")));
        options
    }

    /// The configuration of the run, with the defaults of the command line.
    ///
    /// # Errors
    /// A setting out of range, an objective that is not known.
    pub fn config(&self) -> Result<RlvrConfig> {
        ensure!((1..=MAX_STEPS).contains(&self.max_steps), "max_steps: 1 to {MAX_STEPS}");
        let is_rate = self.learning_rate > 0.0 && self.learning_rate <= 0.1;
        ensure!(is_rate, "learning_rate: a number above 0 and at most 0.1");
        let command = RlvrConfig::augment_args(Command::new("train").no_binary_name(true));
        let words = self.options().into_iter().map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("--{}={value}", name.replace('_', "-"))
        });
        let matches = command.try_get_matches_from(words).context("the settings of the page")?;
        let config = RlvrConfig::from_arg_matches(&matches)?;
        config.settings.check()?;
        Ok(config)
    }

    /// The same run as a settings file of `tealight train`.
    pub fn toml(&self) -> String {
        let mut text =
            String::from("# tealight train --config playground.toml --output runs/playground\n");
        let data = [("model", json!(MODEL)), ("dataset", json!(DATASET))];
        let count = [("max_samples", json!(PROBLEMS))];
        for (name, value) in data.into_iter().chain(count).chain(self.options()) {
            text.push_str(&format!("{name} = {value}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let (divergence, weight) = ("forward-kl".into(), Some(0.1));
        Settings { divergence, weight, learning_rate: 1e-4, seed: 3, max_steps: 60 }
    }

    #[test]
    fn the_options_are_those_of_the_command_line() {
        let config = settings().config().expect("a configuration");
        assert_eq!(config.seed, 3);
        assert_eq!(config.settings.schedule.learning_rate, 1e-4);
        assert_eq!(config.settings.prompts_per_step, 8);
        assert!(settings().toml().contains("objective = \"divergence:forward-kl:0.1\"\n"));
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let refused = |changed: Settings| changed.config().expect_err("refused").to_string();
        assert!(refused(Settings { max_steps: 0, ..settings() }).contains("max_steps"));
        assert!(refused(Settings { learning_rate: 0.0, ..settings() }).contains("learning_rate"));
        assert!(Settings { divergence: "other".into(), ..settings() }.config().is_err());
    }
}
