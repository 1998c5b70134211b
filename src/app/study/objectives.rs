//! `NAME[:k=v,...]@{values}`: an objective with the configurations that a study trains, on the command line and in
//! TOML.
//!
//! A value is a strength of the objective's own coefficient; `key=value` sets `learning-rate` or another key of the
//! objective, and values after it belong to the same key. Each value is a configuration; several braces multiply.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

use super::configuration::{Configuration, Setting};
use tealight_learn::objective::Objective;

/// Most configurations of an objective.
const MOST: usize = 100;

/// Objectives as one argument lists them, separated by commas outside braces.
#[derive(Debug, Clone, PartialEq)]
pub struct Objectives(Vec<ObjectiveValues>);

/// An objective and the settings that are tried of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObjectiveValues {
    objective: Objective,
    /// For each pair of braces its settings, one a configuration.
    settings: Vec<Vec<Setting>>,
}

impl Objectives {
    /// Every objective, those of several arguments after one another.
    pub(crate) fn all(lists: &[Self]) -> impl Iterator<Item = &ObjectiveValues> {
        lists.iter().flat_map(|list| &list.0)
    }
}

impl ObjectiveValues {
    /// Every configuration, in the order of the values.
    pub(crate) fn configurations(&self) -> Result<Vec<Configuration>> {
        let mut all = vec![Configuration::new(&self.objective)];
        for settings in &self.settings {
            if all.len() * settings.len() > MOST {
                bail!("`{self}`: more than {MOST} configurations of one objective");
            }
            // The product of the braces: each value with every configuration so far.
            let each = |one: &Configuration| {
                settings.iter().map(|setting| one.clone().with(setting)).collect::<Vec<_>>()
            };
            all = all
                .iter()
                .flat_map(each)
                .collect::<Result<_>>()
                .with_context(|| format!("configurations `{self}`"))?;
        }
        Ok(all)
    }
}

impl FromStr for Objectives {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut depth = 0_usize;
        let is_between = |c: char| {
            match c {
                '{' | '(' => depth += 1,
                '}' | ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        };
        // Split first: what is between borrows `depth`.
        let parts: Vec<&str> = text.split(is_between).collect();
        Ok(Self(parts.into_iter().map(|part| part.trim().parse()).collect::<Result<_>>()?))
    }
}

impl FromStr for ObjectiveValues {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, mut rest) = text.split_at(text.find('@').unwrap_or(text.len()));
        let objective: Objective = name.parse()?;
        let mut settings = Vec::new();
        while !rest.is_empty() {
            let Some((values, more)) =
                rest.strip_prefix("@{").and_then(|inside| inside.split_once('}'))
            else {
                bail!(
                    "objective `{text}`: after `@` come values in braces, as in {name}@{{0.1,0.3}} (quoted in a shell)"
                );
            };
            let one = braces(&objective, values).map_err(|error| {
                // One message: clap shows no more than the outermost.
                anyhow::anyhow!("objective `{text}`: {error:#}")
            })?;
            settings.push(one);
            rest = more;
        }
        let values = Self { objective, settings };
        values.configurations().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        Ok(values)
    }
}

/// The settings of one pair of braces.
fn braces(objective: &Objective, values: &str) -> Result<Vec<Setting>> {
    let mut key: Option<String> = None;
    let mut settings = Vec::new();
    for part in values.split(',') {
        let value = match part.split_once('=') {
            Some((own, value)) => {
                key = Some(own.to_owned());
                value
            }
            None => part,
        };
        if value.trim().is_empty() {
            bail!("a value is missing in {{{values}}}");
        }
        let key = match &key {
            Some(key) => key.as_str(),
            None => objective.coefficient().with_context(|| {
                format!(
                    "{objective} has no coefficient of its own: name what {value} sets, as in \
                     {objective}@{{learning-rate={value}}}"
                )
            })?,
        };
        settings.push(Setting::new(key, value));
    }
    Ok(settings)
}

impl fmt::Display for ObjectiveValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.objective)?;
        for settings in &self.settings {
            let mut before = self.objective.coefficient();
            let parts = settings.iter().map(|Setting { key, value }| {
                let is_known = before.replace(key) == Some(key);
                if is_known { value.clone() } else { format!("{key}={value}") }
            });
            write!(f, "@{{{}}}", parts.collect::<Vec<_>>().join(","))?;
        }
        Ok(())
    }
}

/// All objectives as one list of text.
pub(super) fn write<S: Serializer>(lists: &[Objectives], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(Objectives::all(lists).map(ToString::to_string))
}

/// Objectives from a file: text as on the command line, or a list of it.
pub(super) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Objectives>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry {
        One(String),
        List(Vec<String>),
    }
    let texts = match Entry::deserialize(deserializer)? {
        Entry::One(text) => vec![text],
        Entry::List(texts) => texts,
    };
    let all: Result<Vec<Objectives>> = texts.iter().map(|text| text.parse()).collect();
    all.map_err(|error| D::Error::custom(format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<String> {
        let Objectives(all) = text.parse().unwrap_or_else(|error| panic!("{text}: {error:#}"));
        let each = |values: &ObjectiveValues| values.configurations().unwrap();
        all.iter().flat_map(each).map(|one| one.label()).collect()
    }

    #[test]
    fn values_are_configurations_and_braces_multiply() {
        assert_eq!(labels("grpo,js"), ["grpo", "js"]);
        assert_eq!(labels("forward-kl@{0.1,0.3}, js"), ["forward-kl:0.1", "forward-kl:0.3", "js"]);
        assert_eq!(
            labels("grpo@{learning-rate=3e-5,7e-5,epsilon=0.1}"),
            ["grpo@learning-rate=3e-5", "grpo@learning-rate=7e-5", "grpo:epsilon=0.1"]
        );
        assert_eq!(
            labels("js:sampler=stored@{1,2}@{lr=1e-5,2e-5}"),
            [
                "js:1:sampler=stored@learning-rate=1e-5",
                "js:1:sampler=stored@learning-rate=2e-5",
                "js:2:sampler=stored@learning-rate=1e-5",
                "js:2:sampler=stored@learning-rate=2e-5",
            ]
        );
        // The strength of `dph-alpha` is its beta, whatever its alpha; that of alpha-dpg is alpha.
        assert_eq!(labels("dph-alpha:0.3@{0.1}"), ["dph-alpha:0.3:0.1"]);
        assert_eq!(labels("alpha-dpg@{0,0.5}"), ["alpha-dpg:0", "alpha-dpg:0.5"]);
        assert_eq!(labels("grpo@{epsilon=0.1,0.3}"), ["grpo:epsilon=0.1", "grpo:epsilon=0.3"]);
        let Objectives(all) = "grpo@{learning-rate=3e-5,7e-5}".parse().unwrap();
        let one = &all[0].configurations().unwrap()[1];
        assert_eq!((one.family.as_str(), one.learning_rate), ("grpo", Some(7e-5)));
        assert_eq!(one.slug(), "grpo-learning-rate-7e-5");
        // Formulas have commas, and signs that no folder may have.
        let configurations = |text: &str| -> Vec<Configuration> {
            text.parse::<Objectives>()
                .unwrap()
                .0
                .iter()
                .flat_map(|one| one.configurations().unwrap())
                .collect()
        };
        let formulas =
            configurations("divergence:f=max(t-1,0)+(t-1)^2/t:0.1,divergence:f=(t-1)^2*2");
        let slugs: Vec<String> = formulas.iter().map(Configuration::slug).collect();
        assert_eq!(slugs[1], "divergence-f-_28t-1_29_5e2_2a2");
        assert!(slugs.len() == 2 && slugs[0] != slugs[1], "{slugs:?}");
        let long = format!("divergence:f={}(t-1)^2", "0*t+".repeat(100));
        let long = configurations(&long).remove(0).slug();
        assert!(long.len() < 120 && long.starts_with("divergence-f-0_2at"), "{long}");
    }

    #[test]
    fn printed_configurations_read_back_equal() {
        for text in [
            "grpo",
            "forward-kl@{0.1,0.3}",
            "grpo@{learning-rate=3e-5,7e-5,epsilon=0.1}",
            "js:sampler=stored@{1,2}@{learning-rate=1e-5}",
        ] {
            assert_eq!(text.parse::<ObjectiveValues>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn files_have_text_or_a_list_of_it() {
        #[derive(Deserialize)]
        struct File {
            #[serde(deserialize_with = "read")]
            objectives: Vec<Objectives>,
        }
        for text in ["objectives = [\"js@{1,2}\", \"grpo\"]", "objectives = \"js@{1,2},grpo\""] {
            let file: File = toml::from_str(text).unwrap();
            let names: Vec<String> =
                Objectives::all(&file.objectives).map(ToString::to_string).collect();
            assert_eq!(names, ["js@{1,2}", "grpo"]);
        }
    }
}
