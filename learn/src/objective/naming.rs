//! `--objective NAME[:VALUE...][:KEY=VALUE...]`: a preset and what the user changed of it.

mod catalogue;
mod keys;
mod preset;

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tealight_core::similar::nearest;

use super::plan::Plan;
use catalogue::presets;
pub use catalogue::{Description, KEYS, SYMBOLS, describe, kinds};
use keys::{Keys, canonical, settings};
use preset::Preset;

/// A named objective with its resolved plan.
///
/// ```
/// use tealight_learn::objective::Objective;
///
/// let objective: Objective = "grpo:baseline=loo:divergence=js:beta=0.2".parse()?;
/// assert_eq!(objective.name(), "grpo");
/// assert_eq!(objective.plan.regulariser().map(|penalty| penalty.beta), Some(0.2));
/// // A key that has no effect on the objective is an error.
/// assert!("rloo:epsilon=0.1".parse::<Objective>().is_err());
/// # anyhow::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    preset: &'static Preset,
    /// The user's settings after the name, canonical, in order.
    given: Vec<(String, String)>,
    /// Everything it chooses.
    pub plan: Plan,
}

impl Objective {
    /// Loads the function of advantages that the objective names, if it names one, and tries it on groups of `group`
    /// samples: for a user who named it, never for a stranger's file.
    ///
    /// # Errors
    /// A function that cannot be loaded, or fails on a group.
    pub fn open(&self, group: usize) -> Result<()> {
        self.plan.rule.as_ref().map_or(Ok(()), |rule| rule.open(group))
    }

    /// The name without what was changed.
    pub fn name(&self) -> &'static str {
        self.preset.name
    }

    /// The objective with further keys of its language, which its name then shows.
    ///
    /// # Errors
    /// A key that is not known, to which the objective itself gives another value, that has no effect on it or makes it
    /// impossible.
    pub fn with(&self, more: &[(&str, String)]) -> Result<Self> {
        let mut given = self.given.clone();
        for (key, value) in more {
            let key = canonical(key, value);
            match given.iter().find(|(known, _)| *known == key) {
                None => given.push((key, value.clone())),
                Some((_, known)) if known == value => {}
                Some((_, known)) => bail!(
                    "objective `{self}` says {key}={known}, and --{key} says {value}: leave one of them out"
                ),
            }
        }
        // Those that are written without their key stand first.
        given.sort_by_key(|(key, _)| {
            let mut positional = self.preset.positional.iter();
            positional.position(|known| known == key).unwrap_or(usize::MAX)
        });
        let plan = plan(self.preset, &given).with_context(|| format!("objective `{self}`"))?;
        // A function of advantages stays loaded.
        let rule = self.plan.rule.clone().filter(|rule| plan.rule.as_ref() == Some(rule));
        let plan = Plan { rule: rule.or(plan.rule), ..plan };
        Ok(Self { preset: self.preset, given, plan })
    }

    /// The key of the objective's own coefficient: `beta` or `weight` where its name takes one, else the first value it
    /// takes.
    pub fn coefficient(&self) -> Option<&'static str> {
        let positional = self.preset.positional;
        let is_weight = |key: &&&str| ["beta", "weight"].contains(*key);
        positional.iter().find(is_weight).or(positional.first()).copied()
    }

    /// Every name there is.
    pub fn names() -> impl Iterator<Item = &'static str> {
        presets().map(|preset| preset.name)
    }

    /// Every setting that is not left at its default, as `key=value` words: what the name stands for.
    pub fn choices(&self) -> String {
        let Ok(keys) = keys(self.preset, &self.given) else { return String::new() };
        let words: Vec<String> =
            keys.pairs().map(|(key, value)| format!("{key}={value}")).collect();
        words.join(" ")
    }
}

/// Names of losses and papers that are not here, and what to use.
const ELSEWHERE: [(&str, &str); 24] = [
    (
        "bnpo",
        "`dapo`, which divides by the tokens of the whole step in place of one device's batch",
    ),
    ("sapo", "`grpo`, which clips ratios where SAPO fades them out"),
    ("luspo", "`gspo`, which takes the ratio of a whole sequence without LUSPO's weight by length"),
    ("vespo", "`gspo`, which clips the ratio of a whole sequence where VESPO shapes it"),
    ("kl-dpg", "`alpha-dpg:0`"),
    ("gdc", "`alpha-dpg:0`"),
    ("bolt", "`match:p-beta:forward-kl:stored:beta=0.1`"),
    ("gvpo", "`kl-reward`"),
    ("raft", "`reinforce:loss-type=grpo`"),
    ("raft++", "`reinforce:loss-type=grpo:trust-region=ppo`"),
    ("ppo", "`none:trust-region=ppo:baseline=batch:num-iterations=4`, which has no critic"),
    ("dpo", "`grpo`, which needs a verifier in place of preferences"),
    ("ppo-clip", "`none:baseline=batch:num-iterations=4`"),
    ("nsr", "the objective of --config recipe:objectives/nsr"),
    ("rs-grpo", "the objective of --config recipe:objectives/rs-grpo"),
    ("ucpo", "the objective of --config recipe:objectives/ucpo"),
    ("rarity", "the objective of --config recipe:objectives/rarity"),
    ("mara", "the objective of --config recipe:objectives/mara"),
    ("darling", "the objective of --config recipe:objectives/darling"),
    ("noise-corrected", "the objective of --config recipe:objectives/noise-corrected"),
    ("frpo", "the objective of --config recipe:objectives/frpo"),
    ("set", "`unique-at-k:4` for distinct answers, `pkpo:4` for Pass@k"),
    ("coverage-at-k", "`unique-at-k:4`"),
    ("trajectory-balance", "`kl-reward`, whose optimum is the same"),
];

fn preset(name: &str) -> Result<&'static Preset> {
    let known = name.replace('_', "-");
    presets().find(|preset| preset.name == known).with_context(|| {
        if let Some((_, instead)) = ELSEWHERE.iter().find(|(other, _)| *other == known) {
            return format!("objective `{known}` is not supported; use {instead}");
        }
        let shown: String = name.chars().take(64).collect();
        format!(
            "objective `{shown}` is not known{}: `tealight objectives --all` lists all",
            similar(&known.to_lowercase())
        )
    })
}

/// `, did you mean ...` with the names that begin or end so, or else the most similar one.
fn similar(name: &str) -> String {
    let (begin, end) = (format!("{name}-"), format!("-{name}"));
    let mut meant: Vec<&str> =
        Objective::names().filter(|known| known.starts_with(&begin)).collect();
    meant.extend(Objective::names().filter(|known| known.ends_with(&end)));
    if meant.is_empty() {
        meant.extend(nearest(name, Objective::names()));
    }
    match meant.as_slice() {
        [] => String::new(),
        names => format!(", did you mean `{}`", names.join("`, `")),
    }
}

fn plan(preset: &Preset, given: &[(String, String)]) -> Result<Plan> {
    keys(preset, given)?.plan()
}

/// The keys of a preset with those that are given; a member of a family is replaced by its own.
fn keys(preset: &Preset, given: &[(String, String)]) -> Result<Keys> {
    let mut keys = Keys::of_preset(preset.keys);
    given.iter().for_each(|(key, value)| keys.set(key, value));
    if preset.positional.contains(&"member") {
        keys.expand()?;
    }
    Ok(keys)
}

impl FromStr for Objective {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = settings(text).into_iter();
        let preset = preset(parts.next().unwrap_or_default())?;
        let mut positional = preset.positional.iter();
        let mut given: Vec<(String, String)> = Vec::new();
        for part in parts {
            let is_given = |name: &str| given.iter().any(|(key, _)| key == name);
            let (key, value) = match part.split_once('=') {
                // A formula stands where the divergence does: for the member, or the key.
                Some(("f", _)) if preset.positional.contains(&"member") => ("member".into(), part),
                Some(("f", _)) => ("divergence".into(), part),
                Some((key, value)) => (canonical(key, value), value),
                None => match positional.find(|name| !is_given(name)) {
                    Some(key) => ((*key).to_owned(), part),
                    None => bail!("objective `{text}`: `{part}` needs a name, as in KEY={part}"),
                },
            };
            if given.iter().any(|(known, _)| *known == key) {
                bail!("objective `{text}`: `{key}` is given twice");
            }
            given.push((key, value.to_owned()));
        }
        // One message: clap shows no more than the outermost.
        let plan =
            plan(preset, &given).map_err(|error| anyhow!("objective `{text}`: {error:#}"))?;
        Ok(Self { preset, given, plan })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.preset.name)?;
        let mut positional = self.preset.positional.iter();
        let mut is_plain = true;
        for (key, value) in &self.given {
            is_plain = is_plain && positional.next() == Some(&key.as_str());
            if is_plain || (value.starts_with("f=") && ["member", "divergence"].contains(&&**key)) {
                write!(f, ":{value}")?;
            } else {
                write!(f, ":{key}={value}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for Objective {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Objective {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error: anyhow::Error| D::Error::custom(format!("{error:#}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::{Divergence, Estimator, LossType, SampleSource, TrustRegion};
    use clap::ValueEnum;

    #[test]
    fn names_that_are_not_here_say_what_to_use() {
        for (name, instead) in ELSEWHERE {
            let message = format!("{:#}", name.parse::<Objective>().unwrap_err());
            assert!(message.contains(&format!("use {instead}")), "{message}");
            // What is the value of a key by now is named as such.
            let region = TrustRegion::NAMES.contains(&name).then_some("trust-region");
            let average = LossType::from_str(name, true).ok().map(|_| "loss-type");
            for key in region.into_iter().chain(average) {
                assert!(instead.contains(&format!("{key}={name}")), "{name}: {instead}");
            }
            if let Some(objective) = instead.strip_prefix('`') {
                let objective = objective.split('`').next().unwrap();
                assert!(objective.parse::<Objective>().is_ok(), "{objective}");
            }
        }
    }

    #[test]
    fn every_preset_is_a_plan_and_is_printed_back() {
        for name in Objective::names() {
            let objective: Objective =
                name.parse().unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert_eq!(objective.to_string(), name);
        }
        for text in [
            "reverse-kl:0.1",
            "dph-js:2",
            "dph-alpha:0.3:0.05",
            "alpha-dpg:0.5:partition=online",
            "f-dpg:alpha:0.25",
            "match:p-beta:js:stored:beta=0.2",
            "grpo:baseline=loo",
        ] {
            assert_eq!(text.parse::<Objective>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn values_reach_the_plan() {
        let parse = |text: &str| text.parse::<Objective>().unwrap().plan;
        let dph = parse("dph_js:0.4:definition").regulariser().unwrap().clone();
        assert_eq!(
            (dph.beta, dph.estimator, dph.sampler),
            (0.4, Estimator::Definition, SampleSource::Filtered)
        );
        // JS is half of each KL to the mean: the paper's .2, at twice JS, is .2 of one of them here too.
        let plan = parse("dph-js:0.4:definition");
        assert_eq!(plan.rehearsal_loss().unwrap().1, 0.2);
        assert!((plan.token_loss().unwrap().1 - 0.02).abs() < 1e-15);
        assert_eq!(parse("alpha-dpg:0").matching().unwrap().divergence, Divergence::ForwardKl);
        assert_eq!(parse("dph-f:eta=0.3"), parse("dph-f:0.3"));
        assert!(parse("rft").needs_presamples() && !parse("rft").is_on_policy());
        // A rule of one's own takes the place of the preset's baseline.
        let own: Objective = "grpo:advantage=r-mean_others(r)".parse().unwrap();
        assert!(!own.choices().contains("baseline"), "{}", own.choices());
        let more = [("loss-type", "dr_grpo".to_owned())];
        let objective: Objective = "grpo".parse().unwrap();
        let changed = objective.with(&more).unwrap();
        assert_eq!(
            (&changed.plan, changed.to_string().as_str()),
            (&parse("grpo:loss-type=dr_grpo"), "grpo:loss-type=dr_grpo")
        );
        // The same once more changes nothing; another value of the same key is a contradiction.
        assert_eq!(changed.with(&more).unwrap(), changed);
        let other = [("loss-type", "dapo".to_owned())];
        let message = changed.with(&other).unwrap_err().to_string();
        assert!(message.contains("leave one of them out"), "{message}");
        let beta = [("beta", "0.2".to_owned())];
        let message = format!("{:#}", objective.with(&beta).unwrap_err());
        assert!(message.contains("no KL penalty; with one: kl-k3"), "{message}");
        let js: Objective = "js:sampler=stored".parse().unwrap();
        assert_eq!(js.with(&beta).unwrap().to_string(), "js:0.2:sampler=stored");
    }

    #[test]
    fn impossible_objectives_are_refused_with_the_reason() {
        for (text, reason) in [
            ("gpro", "did you mean `grpo`:"),
            ("dphjs", "did you mean `dph-js`:"),
            ("kl", "did you mean `kl-reward`, `kl-full`,"),
            ("quite-another", "is not known: `tealight objectives --all` lists all"),
            ("none:1", "needs a name"),
            ("js:x", "not a number"),
            ("js:0", "above 0"),
            ("js:-1", "above 0"),
            ("js:inf", "not between"),
            ("js:nan", "not between"),
            ("alpha-dpg:-1", "below 0"),
            ("alpha-dpg:1", "infinite"),
            ("alpha-dpg:1.5", "infinite"),
            ("f-dpg:reverse-kl", "p-beta"),
            ("f-dpg:reverse-chi2", "infinite"),
            ("match:p-beta:js", "beta"),
            ("match:p-beta:js:filtered:beta=0.1", "lack"),
            ("rft:baseline=loo", "rollouts"),
            ("rft:trust-region=ppo", "rollouts"),
            ("kl-k3:divergence=js", "reverse-kl"),
            ("kl-k3:estimator=k1", "expected gradient"),
            ("dph-f:estimator=definition", "js alone"),
            ("dph-f:sampler=policy:estimator=generator", "samples of the base"),
            ("dph-f:estimator=full", "generator or definition"),
            ("rloo:num-iterations=2", "off-policy"),
            ("maxrl:baseline=loo", "own baseline"),
            ("unique-at-k:4:overlong-buffer=0.2", "no rewards"),
            ("unique-at-k:0", "at least 1"),
            ("rloo:epsilon=0.1", "no effect"),
            ("rloo:beta=0.1", "with one: kl-k3"),
            ("grpo:epsilon=2", "below 1"),
            ("grpo:baseline=loo:baseline=loo", "twice"),
            ("alpha-dpg:rule=maxrl", "plain"),
            ("f-dpg:divergence=none", "needs a `divergence`"),
        ] {
            let error = text.parse::<Objective>().expect_err(text);
            let message = format!("{error:#}");
            assert!(message.contains(reason), "{text}: {message}");
        }
        // As TRL's configurations say it.
        assert!("grpo:beta=0.0".parse::<Objective>().is_ok());
    }
}
