//! A configuration of an objective: what a run of a study trains under, beside its seed and the study's settings.

use anyhow::{Result, bail};

use tealight_learn::objective::Objective;

/// One configuration of an objective: what a run trains under, beside its seed and the study's settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Configuration {
    /// The objective, shared by all its configurations.
    pub(crate) family: String,
    /// The objective with the settings of this configuration.
    pub(crate) objective: Objective,
    pub(crate) learning_rate: Option<f64>,
    /// The part of the configuration's name after the objective.
    suffix: String,
}

/// Longest name of a folder: file systems allow 255 bytes, and a seed follows.
const LONGEST_SLUG: usize = 100;

impl Configuration {
    pub(crate) fn new(objective: &Objective) -> Self {
        Self {
            family: objective.to_string(),
            objective: objective.clone(),
            learning_rate: None,
            suffix: String::new(),
        }
    }

    /// The configuration's name in results.
    pub(crate) fn label(&self) -> String {
        format!("{}{}", self.objective, self.suffix)
    }

    /// Every choice that the name stands for.
    pub(crate) fn about(&self) -> String {
        let mut words = vec![self.objective.choices()];
        words.extend(self.learning_rate.map(|rate| format!("learning-rate={rate:e}")));
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
        self.objective.plan == other.objective.plan && self.learning_rate == other.learning_rate
    }

    /// Adds one setting.
    pub(super) fn with(mut self, Setting { key, value }: &Setting) -> Result<Self> {
        if key != LEARNING_RATE {
            self.objective = self.objective.with(&[(key, value.to_owned())])?;
            return Ok(self);
        }
        let rate: f64 = value.parse().unwrap_or(f64::NAN);
        if !(rate > 0.0 && rate <= 1e30) {
            bail!("learning-rate must be a number above 0, not `{value}`");
        }
        if self.learning_rate.replace(rate).is_some() {
            bail!("`learning-rate` is set by two pairs of braces");
        }
        self.suffix.push_str(&format!("@learning-rate={value}"));
        Ok(self)
    }
}

const LEARNING_RATE: &str = "learning-rate";

/// One value between braces: a learning rate, or of a key of the objective.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) value: String,
}

impl Setting {
    pub(super) fn new(key: &str, value: &str) -> Self {
        let key = key.trim().replace('_', "-");
        let key = if key == "lr" { LEARNING_RATE.to_owned() } else { key };
        Self { key, value: value.trim().to_owned() }
    }
}
