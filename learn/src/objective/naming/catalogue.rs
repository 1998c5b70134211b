//! The objectives for a reader: what each optimises, its keys with their defaults, its papers, and when to use it.

use std::sync::LazyLock;

use anyhow::Result;
use tealight_system::choices::names;

use super::keys::{Keys, controlled_family};
use super::preset::{self, Preset};
use crate::objective::rule::ROWS;
use crate::objective::{Baseline, Divergence, LossType, TrustRegion};

/// Objectives of one kind, and when they are the right ones.
struct Kind {
    title: &'static str,
    when: &'static str,
    presets: &'static [Preset],
}

/// The objectives to know first: of each kind those that most comparisons have.
const COMMON: [&str; 14] = [
    "divergence",
    "grpo",
    "dr-grpo",
    "dapo",
    "rloo",
    "reverse-kl",
    "kl-full",
    "kl-k3",
    "forward-kl",
    "js",
    "alpha-dpg",
    "rft",
    "pkpo",
    "unique-at-k",
];

/// The symbols of the descriptions.
pub const SYMBOLS: &str = "\
Symbols: v is the reward of a completion, pi the policy, a the base, p* the base conditioned on a correct answer, beta \
the coefficient; with r = a / pi of a sampled token, k1 = -log r, k2 = (log r)^2 / 2 and k3 = r - 1 - log r estimate \
KL(pi||a). A number such as 2402.03300 is a paper on arXiv.";

/// The kinds, in the order in which they are listed.
const KINDS: [Kind; 8] = [
    Kind {
        title: "Controlled comparison",
        when: "to compare divergences and nothing else: every member has the same advantage, average over tokens, prompts and \
               number of updates on a batch. The presets of papers differ in those too.",
        presets: preset::CONTROLLED,
    },
    Kind {
        title: "Reward alone",
        when: "when only accuracy counts, or as the baseline of a comparison: every policy that is always correct is \
               optimal, so no term retains the base's other answers.",
        presets: preset::REWARD,
    },
    Kind {
        title: "KL penalty to the base",
        when: "to trade accuracy for answers of the base, by one coefficient. The optimum of kl-reward, kl-full and \
               kl-k2 is p_beta, the base reweighted by exp(reward / beta); kl-k3 has the gradient of forward KL and another optimum.",
        presets: preset::KL_PENALTY,
    },
    Kind {
        title: "Rehearsal of the base's correct answers",
        when: "to retain the problems that the base already solves while training on the rest: a divergence on stored correct \
               answers of the base, beside rollouts. Prompts that the base never solves are not rehearsed.",
        presets: preset::REHEARSAL,
    },
    Kind {
        title: "Distribution matching",
        when: "to move the policy toward the base conditioned on a correct answer (p*) instead of toward one correct answer: \
               a larger alpha gives more accuracy and less diversity.",
        presets: preset::MATCHING,
    },
    Kind {
        title: "Supervised on the base's samples",
        when: "without rollouts, where sampling during training is too costly: supervised training on the base's stored \
               samples. Prompts that the base never solves have no gradient.",
        presets: preset::SUPERVISED,
    },
    Kind {
        title: "Pass@k and distinct correct answers",
        when: "when several answers to a problem may be given: training maximises what k samples are worth together, without \
               comparing with the base.",
        presets: preset::PASS_AT_K,
    },
    Kind {
        title: "Entropy control",
        when: "when entropy collapses early in a run: the bonus or the limit applies to all tokens, whether they lead to \
               different answers or not.",
        presets: preset::ENTROPY,
    },
];

/// The meaning of the keys, as `tealight objectives` shows it.
pub static KEYS: LazyLock<String> = LazyLock::new(|| {
    let divergences: Vec<&str> = Divergence::names().collect();
    let rules = ROWS.map(|row| format!("                   {}: {}", row.name, row.about));
    KEYS_WITHOUT_LISTS
        .replace("{DIVERGENCES}", &divergences.join(", "))
        .replace("{RULES}", &rules.join("\n"))
        .replace("{MEMBERS}", &controlled_family::names().join(", "))
        .replace("{BASELINES}", &names::<Baseline>())
        .replace("{TRUST_REGIONS}", &TrustRegion::NAMES.join(", "))
        .replace("{LOSS_TYPES}", &names::<LossType>())
        .replace("{REHEARSED}", &controlled_family::rehearsed().join(", "))
});

const KEYS_WITHOUT_LISTS: &str = "\
Keys, for any objective as NAME:key=value:...
  target         max-reward, p-star (the base conditioned on correctness), or p-beta (the base
                 tilted by v/beta)
  divergence     none, or an f-divergence (js at its true scale, half of DPH's):
                 {DIVERGENCES}, alpha;
                 or its generator as a formula in t = pi / anchor and x = log t, such as
                 f=(t-1)^2/(t+1), with + - * / ^, log exp sqrt abs max min tanh log1p expm1
  alpha          0 is forward KL, 1 is reverse KL (alpha-DPG's convention; DPH-RL's
                 alpha is 1 minus this one)
  member         of the controlled family `divergence`:
                 {MEMBERS}, or a formula such as f=(t-1)^2/(t+1)
  weight         coefficient of the member's divergence from the base, or the alpha of
                 alpha-dpg
  rehearsal      samples that {REHEARSED} and formulas of `divergence` are
                 estimated on: stored (the base's), correct (the base's correct ones),
                 importance (the policy's, with importance weights), full (the policy's,
                 over the vocabulary)
  beta           coefficient of the regulariser (DPH-RL's eta), or temperature
                 of p-beta
  sampler        policy, stored (the base's samples), filtered (the base's correct samples)
  estimator      on policy samples: score (in the advantage; the default), full (over the
                 vocabulary), k2, k3; on the base's samples: generator, definition
  pef-threshold  share of correct samples from which a prompt is rehearsed (D_pef)
  pef-samples    number of pre-samples, from the first, that the share is of; 0: all
  extra-check    true: rehearse a prompt only if one further sample is correct
  explore        prompts with rollouts: all, or rest, those not rehearsed (D_exp)
  drop-unsolved  true: no rollouts of prompts that the base never solved
  rehearsal-samples  stored completions of a prompt: all, or one (as DPH-RL)
  rehearsal-mean  own: averaged apart from the rollouts; joint: in one mean with
                 the rollouts (as DPH-RL), so that batch sizes scale the coefficient
  partition      fixed (from pre-samples); online, cumulative (biased in small
                 groups)
  max-reward     truncation of the pseudo-reward of a target
  rule           how the rewards of a group become advantages
                   plain: the reward minus the baseline
{RULES}
  advantage      a rule of your own, such as (r-mean(r))/(std(r)+1e-4), or a function of your
                 own, python:FILE.py:FUNCTION, in place of rule and baseline:
                 docs/how-to/objective.md
  baseline       {BASELINES}
                 (batch is whitening)
  trust-region   {TRUST_REGIONS} (with epsilon, epsilon-high, dual-clip)
  loss-type      {LOSS_TYPES}
  num-iterations passes over each batch
  steps-per-generation  mini-batches, each with its own update, of a batch
  entropy        weight of an entropy bonus; target-entropy adapts it
  dynamic-sampling  true or false
  overlong-buffer   share of the longest completion over which the reward falls
  mask-truncated    true: truncated completions are left out of the loss, not incorrect";

/// Meanings of keys that [`KEYS`] explains with others.
const FURTHER: [(&str, &str); 6] = [
    ("epsilon", "importance ratios are clipped from below at 1 - epsilon"),
    (
        "epsilon-high",
        "importance ratios are clipped from above at 1 + epsilon-high; cispo truncates its weights there",
    ),
    (
        "dual-clip",
        "with a negative advantage, importance ratios are clipped from above at this value",
    ),
    ("k", "number of samples whose Pass@k, or other function of a set, is maximised"),
    (
        "strength",
        "largest reduction of the reward, for the most likely correct completion of a group",
    ),
    ("target-entropy", "entropy per token, in nats, at which the bonus keeps the policy"),
];

/// An objective for a reader: what it optimises, its keys and its papers.
pub struct Description {
    /// What `--objective` takes.
    pub name: &'static str,
    /// The name with the values that may follow it.
    pub usage: String,
    /// The quantity that it optimises.
    pub about: &'static str,
    /// Whether it is one of those to know first.
    pub is_common: bool,
    /// Title of its kind.
    pub kind: &'static str,
    /// When objectives of this kind are the right ones.
    pub when: &'static str,
    /// Its keys, each with its value and what it means.
    pub keys: Vec<(String, String, String)>,
    /// Addresses of its papers.
    pub papers: Vec<String>,
}

impl Description {
    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|(known, ..)| known == key).map(|(_, value, _)| value.as_str())
    }
}

/// Every preset, kind by kind.
pub(super) fn presets() -> impl Iterator<Item = &'static Preset> {
    KINDS.iter().flat_map(|kind| kind.presets)
}

/// The objectives by kind: its title, when to use it, the descriptions.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str, Vec<Description>)> {
    KINDS.iter().map(|kind| {
        let described = kind.presets.iter().map(|preset| described(preset, &[], kind));
        (kind.title, kind.when, described.collect())
    })
}

/// The objective of that name.
pub fn describe(name: &str) -> Result<Description> {
    // Values may follow, as in `pkpo:4`: the name says which objective it is.
    let preset = super::preset(name.split(':').next().unwrap_or(name))?;
    let has_it = |kind: &&Kind| kind.presets.iter().any(|one| one.name == preset.name);
    // What cannot be resolved is described without its values.
    let given = name.parse::<super::Objective>().map(|objective| objective.given);
    let kind = KINDS.iter().find(has_it).unwrap_or(&KINDS[0]);
    Ok(described(preset, &given.unwrap_or_default(), kind))
}

/// With the values that are `given`, and beside them those of the preset.
fn described(preset: &'static Preset, given: &[(String, String)], kind: &Kind) -> Description {
    let positional: String =
        preset.positional.iter().map(|key| format!("[:{}]", key.to_uppercase())).collect();
    let own = Keys::of_preset(preset.keys);
    let mut set = Keys::of_preset(preset.keys);
    given.iter().for_each(|(key, value)| set.set(key, value));
    let shown = |key: &str, value: &str| {
        let default = own.pairs().find(|(known, _)| *known == key).map(|(_, value)| value);
        match default.filter(|default| *default != value) {
            Some(default) => format!("{value} (default: {default})"),
            None => value.to_owned(),
        }
    };
    let mut all: Vec<(String, String, String)> =
        set.pairs().map(|(key, value)| (key.to_owned(), shown(key, value), meaning(key))).collect();
    let is_set = |key: &&&str| set.pairs().any(|(known, _)| known == **key);
    let free = preset.positional.iter().filter(|key| !is_set(key));
    all.extend(free.map(|key| ((*key).to_owned(), "not set".to_owned(), meaning(key))));
    Description {
        name: preset.name,
        usage: format!("{}{positional}", preset.name),
        about: preset.about,
        is_common: COMMON.contains(&preset.name),
        kind: kind.title,
        when: kind.when,
        keys: all,
        papers: papers(preset.about),
    }
}

/// Blanks before a line of [`KEYS`] that has one of a key's values; those before other lines are fewer, and those
/// before the rest of such a line more.
const BEFORE_VALUE: usize = 19;

/// The meaning of a key, on one line, and below it each value that has a line of its own.
fn meaning(key: &str) -> String {
    if let Some((_, text)) = FURTHER.iter().find(|(known, _)| *known == key) {
        return (*text).to_owned();
    }
    let mut lines = KEYS.lines().skip_while(|line| {
        let words = line.strip_prefix("  ").filter(|line| !line.starts_with(' '));
        words.and_then(|line| line.split_whitespace().next()) != Some(key)
    });
    let first = lines.next().map(|line| line.trim_start()[key.len()..].trim().to_owned());
    let mut text = first.unwrap_or_default();
    for line in lines.take_while(|line| line.starts_with("    ")) {
        let words = line.trim_start();
        text.push(if line.len() - words.len() == BEFORE_VALUE { '\n' } else { ' ' });
        text.push_str(words);
    }
    text.trim_start().to_owned()
}

/// The papers that a description names: arXiv's numbers, four digits, a point and five.
fn papers(about: &str) -> Vec<String> {
    let is_number = |word: &&str| {
        let parts = word.split_once('.').map(|(a, b)| (a.len(), b.len()));
        parts == Some((4, 5)) && word.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let words = about.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    words.filter(is_number).map(|number| format!("https://arxiv.org/abs/{number}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Objective;

    #[test]
    fn every_objective_is_described_once_and_every_key_explained() {
        let all: Vec<Description> = kinds().flat_map(|(_, _, described)| described).collect();
        for preset in presets() {
            let matches: Vec<_> = all.iter().filter(|one| one.name == preset.name).collect();
            assert_eq!(matches.len(), 1, "{}", preset.name);
            for (key, value, meaning) in &matches[0].keys {
                assert!(!meaning.is_empty() && !value.is_empty(), "{}: {key}", preset.name);
            }
            assert_eq!(describe(preset.name).unwrap().kind, matches[0].kind);
        }
        let js = describe("dph_js").unwrap();
        assert_eq!((js.usage.as_str(), js.kind), ("dph-js[:BETA][:ESTIMATOR]", KINDS[3].title));
        let beta = js.keys.iter().find(|(key, ..)| key == "beta").unwrap();
        assert_eq!(beta.1, "0.4");
        assert!(beta.2.contains("coefficient of the regulariser"), "{}", beta.2);
        // Every rule that is read is explained on a line of its own, and no other.
        let rules = describe("maxrl").unwrap().keys;
        let rule = &rules.iter().find(|(key, ..)| key == "rule").unwrap().2;
        let shown: Vec<&str> =
            rule.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        assert_eq!(rule.lines().count(), 1 + shown.len(), "{rule}");
        let error = "none:rule=nothing".parse::<Objective>().unwrap_err();
        let error = format!("{error:#}");
        let (_, read) = error.split_once("is not one of ").unwrap();
        assert_eq!(shown.join(", "), read);
        assert_eq!(describe("dapo").unwrap().papers, ["https://arxiv.org/abs/2503.14476"]);
        assert!(describe("nothing").is_err());
        assert_eq!(all.iter().filter(|one| one.is_common).count(), COMMON.len());
    }
}
