//! The gold answers of a record, and what its other keys say against them.

use serde_json::{Map, Value};
use tealight_core::Prompt;
use tealight_core::names::list;
use tealight_datasets::read::VERDICTS;
use tealight_datasets::verify::math;
use tealight_datasets::{json, python_list};

use super::super::problems::compared;
use super::choices::letter_of;
use super::fields::{first_golds, get, golds, printed_list};
use super::names::{GOLDS, SURE_GOLDS};
use super::short;
use super::words::{self, Kind};

/// What a `label` says that is a verdict on the answer beside it.
const LABELS: [&str; 8] = ["correct", "incorrect", "right", "wrong", "true", "false", "0", "1"];
/// Objects of what else is known of a record.
const INNER: [&str; 10] = list(
    "metadata|meta|extra_info|extra_env_info|verification_info|reward_spec|info|doc|example|data",
);
/// Most words of a `solution` without a mark that is an answer, and not the working that leads to one.
const MOST_WORDS: usize = 8;

/// The gold answers of a record.
#[derive(Default)]
pub(super) struct Golds {
    pub(super) golds: Vec<String>,
    /// Whether they stand under `answer`, and whether `answer` is what the completion said.
    pub(super) is_answer: bool,
    pub(super) is_said: bool,
    /// Why they cannot be read: the index of a choice counts from 0 or from 1, which one record does not say.
    pub(super) refusal: Option<String>,
    /// Another key with another gold answer.
    pub(super) conflict: Option<String>,
    /// What may be the gold answer where there is none.
    pub(super) hint: &'static str,
}

/// What one record says of itself that its gold answer depends on.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) prompt: Option<&'a Prompt>,
    /// The choices under keys of their own, by their letters.
    pub(super) choices: Option<&'a [(String, String)]>,
    /// Whether somebody judged it.
    pub(super) is_judged: bool,
    /// Whether its `solution` is the completion, and whether it has several completions.
    pub(super) is_solution: bool,
    pub(super) is_several: bool,
}

/// Whether a text is the working that leads to an answer, without a mark.
fn is_prose(text: &str) -> bool {
    let is_word = |word: &&str| {
        let bare = word.trim_matches(|c: char| c.is_ascii_punctuation() && c != '\\');
        bare.chars().count() > 1 && bare.chars().all(char::is_alphabetic)
    };
    math::gold(text) == text.trim() && text.split_whitespace().filter(is_word).count() > MOST_WORDS
}

/// Whether two lists have an answer in common; none where that is not known.
fn share(one: &[String], other: &[String]) -> Option<bool> {
    let mut all = one.iter().flat_map(|one| other.iter().map(|other| compared(one, other)));
    let known: Vec<Option<bool>> = all.by_ref().take(64).collect();
    if known.contains(&Some(true)) {
        Some(true)
    } else {
        known.contains(&Some(false)).then_some(false)
    }
}

/// Whether a value is one text or number.
fn is_single(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_)) && printed_list(value).is_none()
}

/// Whether a label says whether an answer is right.
fn is_verdict(label: &Value) -> bool {
    match label {
        Value::Bool(_) => true,
        Value::Number(number) => matches!(number.as_u64(), Some(0 | 1)),
        Value::String(text) => LABELS.contains(&text.to_lowercase().as_str()),
        _ => false,
    }
}

/// Reads the objects that stand in texts, as JSON or as Python prints them, where known keys have objects.
pub(super) fn open_objects(record: &mut Map<String, Value>) {
    let is_one = |key: &str| INNER.contains(&key) || matches!(key, "reward_model" | "env_extras");
    for (_, found) in record.iter_mut().filter(|(key, _)| is_one(key)) {
        let text = found.as_str().filter(|text| text.starts_with('{'));
        let read = |text: &str| json::parse(text).ok().or_else(|| python_list::value(text));
        if let Some(object) = text.and_then(read).filter(Value::is_object) {
            *found = object;
        }
    }
}

/// The gold answers of a record that has none under a key that says so: the `labels` of ms-swift, beside its `response`
/// and `messages`, or a hint.
fn unsure(value: &Value) -> Golds {
    let is_swift = ["response", "messages"].iter().all(|key| get(value, key).is_some());
    let labels = get(value, "labels").filter(|labels| is_swift && is_single(labels));
    if let Some(labels) = labels.filter(|labels| !is_verdict(labels)) {
        return Golds { golds: golds(labels), ..Golds::default() };
    }
    let mut maybe = worded(value, Kind::MaybeGold);
    let is_there = maybe.any(|(name, _)| name.to_lowercase().starts_with("final"));
    let hint = " (--gold-key final_answer if that is no answer of the model)";
    Golds { hint: if is_there { hint } else { "" }, ..Golds::default() }
}

/// The gold answers of a record: those of the first of the known keys, or of one whose words say it.
pub(super) fn golds_of(value: &Value, about: About<'_>) -> Golds {
    let has_answer = get(value, "answer").is_some_and(|answer| !answer.is_null());
    let is_gold = |key: &&&str| match **key {
        // Of several completions, what they said would be a list (TRL has the gold there, beside a reward).
        "answer" => {
            !about.is_judged || about.is_several && get(value, "answer").is_some_and(is_single)
        }
        // Beside an answer, whether somebody found it right.
        "label" => !(has_answer && get(value, "label").is_some_and(is_verdict)),
        "solution" => {
            let text = get(value, "solution").and_then(Value::as_str);
            !about.is_solution && !text.is_some_and(is_prose)
        }
        _ => true,
    };
    let known = |keys: &'static [&'static str]| {
        let found = keys.iter().filter(is_gold).map(|key| (*key, first_golds(value, &[key])));
        found.filter(|(_, golds)| !golds.is_empty())
    };
    let rest: Vec<(&str, Vec<String>)> = known(&GOLDS[SURE_GOLDS..]).collect();
    let mut found: Vec<(&str, Vec<String>)> = known(&GOLDS[..SURE_GOLDS]).collect();
    found.extend(worded(value, Kind::Gold).filter(|(_, golds)| match rest.first() {
        // Beside another answer, a text of which nothing is known is none.
        Some((_, of_rest)) => !is_prose(&golds[0]) && share(golds, of_rest) == Some(false),
        None => true,
    }));
    found.extend(rest);
    if found.is_empty() {
        return Golds { is_said: about.is_judged && has_answer, ..unsure(value) };
    }
    let (key, mut golds) = found.remove(0);
    let is_answer = key == "answer" && !about.is_judged;
    let is_solution = key == "solution";
    let maybe = (is_answer || is_solution).then(|| worded(value, Kind::MaybeGold));
    let label = is_answer.then(|| label_like(value, &golds[0])).flatten();
    let maybe = maybe.into_iter().flatten().chain(label);
    let maybe = maybe.filter(|(name, _)| *name != "key" || get(value, "id").is_some());
    let mut maybe = maybe.peekable();
    // A dataset's solution with the answer that it leads to.
    if let Some((name, other)) = maybe.peek()
        && is_solution
        && name.to_lowercase().starts_with("final")
        && golds.iter().all(|gold| gold.split_whitespace().nth(2).is_some())
        && share(other, &golds) != Some(false)
    {
        golds.clone_from(other);
    }
    let refusal = maybe.filter(|(_, other)| share(other, &golds) == Some(false)).map(|(name, other)| {
        format!(
            "`{key}` (`{}`) and `{}` (`{}`) differ: either may be the gold answer or the model's own answer; name the key \
             of the gold answer with --gold-key",
            short(&golds[0]),
            short(name),
            short(&other[0])
        )
    });
    let label = verdict_label(value, key, &golds[0]);
    if let Some(why) = refusal.chain(choice_index(about, key, &golds)).chain(label).next() {
        return Golds { refusal: Some(why), ..Golds::default() };
    }
    // Beside a sure key `answer` is what the completion said, and `label` whether that is right.
    let is_sure = GOLDS[..SURE_GOLDS].contains(&key);
    let is_against = |(other, them): &&(&str, Vec<String>)| {
        *other != "label" && !(is_sure && *other == "answer") && share(them, &golds) != Some(true)
    };
    let conflict = found.iter().find(is_against).map(|(other, them)| {
        format!(
            "`{}` is `{}`, and `{}` is `{}`",
            short(key),
            short(&golds[0]),
            short(other),
            short(&them[0])
        )
    });
    if let [gold] = golds.as_slice()
        && let Some(letter) = letter_of(gold, about)
    {
        golds.push(letter);
    }
    Golds { is_answer, golds, conflict, ..Golds::default() }
}

/// Why a `label` is no gold answer that may be a verdict.
fn verdict_label(value: &Value, key: &str, gold: &str) -> Option<String> {
    let is_verdict = key == "label" && get(value, "label").is_some_and(is_verdict);
    is_verdict.then(|| {
        format!(
            "`label` (`{}`) is a verdict on the completion or a class: name the gold answer's key with --gold-key (--gold-key \
             label if it is the gold answer), or the dataset with --dataset",
            short(gold)
        )
    })
}

/// A `label` that may be the gold answer beside `answer`: another number or letter, and no verdict.
fn label_like(value: &Value, answer: &str) -> Option<(&'static str, Vec<String>)> {
    let is_number = |text: &str| text.trim().parse::<f64>().is_ok();
    let is_letter = |text: &str| matches!(text.trim().as_bytes(), [b'A'..=b'Z']);
    let is_like =
        |one: &String| is_number(one) && is_number(answer) || is_letter(one) && is_letter(answer);
    let label = get(value, "label").filter(|label| !is_verdict(label)).map(golds)?;
    label.iter().any(is_like).then_some(("label", label))
}

/// The gold answers under keys that are of this kind by their words, and none of the known ones, also in an object of
/// what else is known of the record.
fn worded(value: &Value, kind: Kind) -> impl Iterator<Item = (&str, Vec<String>)> {
    let is_new = |name: &str| !GOLDS.contains(&name) && !VERDICTS.contains(&name);
    let entries = value.as_object().into_iter().flatten();
    let entries = entries.filter(move |(name, _)| is_new(name));
    let inner = INNER.iter().filter_map(|key| get(value, key)?.as_object()).flatten();
    let is_value = |value: &Value| !value.is_boolean() && !value.is_object();
    let is_of_kind = move |name: &str| words::kind(name) == kind;
    entries
        .chain(inner.filter(|(name, _)| !VERDICTS.contains(&name.as_str())))
        .filter(move |(name, value)| is_value(value) && is_of_kind(name))
        .map(|(name, value)| (name.as_str(), golds(value)))
        .filter(|(_, golds)| !golds.is_empty())
}

/// Why a gold answer cannot be read that is an index into the choices: a number that none of them has.
fn choice_index(about: About<'_>, key: &str, golds: &[String]) -> Option<String> {
    let [gold] = golds else { return None };
    let index: usize = gold.parse().ok()?;
    let all = about.choices.filter(|all| all.len() > 1)?;
    let is_number =
        |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == gold);
    let is_choice = |(label, text): &(String, String)| label == gold || is_number(text);
    (index <= all.len() && !all.iter().any(is_choice)).then(|| {
        format!(
            "the gold answer {index} under `{}` is an index into the record's choices, and the record does not say whether \
             indices start at 0 or at 1: name the dataset with --dataset, or the key of the letter with --gold-key",
            short(key)
        )
    })
}
