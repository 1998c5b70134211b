//! A configuration of an objective: what a run of a study trains under, beside its seed and the study's settings.

use anyhow::{Result, bail};

use crate::learn::objective::Objective;

/// One configuration of an objective: what a run trains under, beside its seed and the study's settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Configuration {
    /// The objective, shared by all its configurations.
    pub(crate) family: String,
    /// The objective with the settings of this configuration.
    pub(crate) objective: Objective,
    pub(crate) learning_rate: Option<f64>,
    pub(crate) max_steps: Option<usize>,
    /// The part of the configuration's name after the objective.
    suffix: String,
}

/// Longest name of a folder: file systems allow 255 bytes, and a seed follows.
const LONGEST_SLUG: usize = 100;

impl Configuration {
    /// An objective as it is.
    pub(crate) fn new(objective: &Objective) -> Self {
        Self {
            family: objective.to_string(),
            objective: objective.clone(),
            learning_rate: None,
            max_steps: None,
            suffix: String::new(),
        }
    }

    /// The configuration's name in results.
    pub(crate) fn label(&self) -> String {
        format!("{}{}", self.objective, self.suffix)
    }

    /// Every choice that the name stands for.
    pub(crate) fn about(&self) -> String {
        let mut words = vec![self.objective.resolved()];
        words.extend(self.learning_rate.map(|rate| format!("learning-rate={rate:e}")));
        words.extend(self.max_steps.map(|steps| format!("max-steps={steps}")));
        words.join(" ")
    }

    /// A name for folders: the label with characters that every file system allows.
    pub(crate) fn slug(&self) -> String {
        let mut slug = String::new();
        for sign in self.label().chars() {
            match sign {
                ':' | '=' | '@' => slug.push('-'),
                sign if sign.is_ascii_alphanumeric() || "._-".contains(sign) => slug.push(sign),
                // Formulas have slashes and brackets: two of them must not have one folder.
                sign => slug.push_str(&format!("_{:x}", u32::from(sign))),
            }
        }
        if slug.len() > LONGEST_SLUG {
            // The same on every machine and version.
            let hash = tealight_core::fnv(slug.bytes());
            slug.truncate(LONGEST_SLUG - 20);
            slug.push_str(&format!("-{hash:016x}"));
        }
        slug
    }

    /// Whether two runs would train alike.
    pub(crate) fn is_same_run(&self, other: &Self) -> bool {
        self.objective.plan == other.objective.plan
            && self.learning_rate == other.learning_rate
            && self.max_steps == other.max_steps
    }

    /// Adds one setting.
    pub(super) fn with(mut self, setting: &Setting) -> Result<Self> {
        match setting {
            Setting::LearningRate { value, text } => {
                if self.learning_rate.replace(*value).is_some() {
                    bail!("`learning-rate` is set by two pairs of braces");
                }
                self.suffix.push_str(&format!("@learning-rate={text}"));
            }
            Setting::MaxSteps(steps) => {
                if self.max_steps.replace(*steps).is_some() {
                    bail!("`max-steps` is set by two pairs of braces");
                }
                self.suffix.push_str(&format!("@max-steps={steps}"));
            }
            Setting::Key { key, value } => {
                self.objective = self.objective.with_key(key, value)?;
            }
        }
        Ok(self)
    }
}

/// A setting made from one value between braces.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Setting {
    LearningRate {
        value: f64,
        text: String,
    },
    MaxSteps(usize),
    /// A key of the objective.
    Key {
        key: String,
        value: String,
    },
}

impl Setting {
    pub(super) fn new(key: &str, value: &str) -> Result<Self> {
        let value = value.trim();
        match key.trim().replace('_', "-").as_str() {
            "learning-rate" | "lr" => {
                let rate: f64 = value.parse().unwrap_or(f64::NAN);
                if !(rate > 0.0 && rate <= 1e30) {
                    bail!("learning-rate must be a number above 0, not `{value}`");
                }
                Ok(Self::LearningRate { value: rate, text: value.to_owned() })
            }
            "max-steps" => match value.parse() {
                Ok(steps @ 1..=1_000_000_000_000) => Ok(Self::MaxSteps(steps)),
                _ => bail!("max-steps must be a whole number from 1, not `{value}`"),
            },
            key => Ok(Self::Key { key: key.to_owned(), value: value.to_owned() }),
        }
    }

    pub(super) fn key(&self) -> &str {
        match self {
            Self::LearningRate { .. } => "learning-rate",
            Self::MaxSteps(_) => "max-steps",
            Self::Key { key, .. } => key,
        }
    }

    pub(super) fn value(&self) -> String {
        match self {
            Self::LearningRate { text, .. } => text.clone(),
            Self::MaxSteps(steps) => steps.to_string(),
            Self::Key { value, .. } => value.clone(),
        }
    }
}
