//! Tealight's own input and samples, and files that have about the same keys: TRL's completions, OpenRLHF's, vLLM's,
//! and what people write by hand.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use tealight_core::Prompt;
use tealight_datasets::read::{IDS, VERDICTS};
use tealight_datasets::verify::math;

use super::fields::{
    first, first_golds, first_id, get, is_finished, printed_list, prompt_of, text_of, tokens,
};
use super::lists::{flatten, is_message, list_in_text, refuse_answers, refuse_collection};
use super::names::{
    CLASSES, GOLDS, ONE, ONE_ELSE, PROMPTS, SAMPLES, SEVERAL, SEVERAL_ELSE, VERDICT_LIST,
};
use super::origin::{model_of, sampling_of};
use super::{Line, MAX_ANSWERS, hash, plausible_logp, short};
use crate::Sample;
use crate::completion::{Completion, Content, Ending, Reading, last_answer, reason};
use crate::number::counted;

/// The key of lm-eval's lines that it has judged, beside those of other lines.
const FILTERED: &str = "filtered_resps";
/// What a `label` says that is a verdict on the answer beside it.
const LABELS: [&str; 8] = ["correct", "incorrect", "right", "wrong", "true", "false", "0", "1"];
/// Most words of a `solution` without a mark that is an answer, and not the working that leads to one.
const MOST_WORDS: usize = 8;
/// A sample that Tealight judged.
pub(super) fn tealight(value: &Value) -> Result<Line> {
    let Ok(sample) = Sample::deserialize(value) else { return own(value, None) };
    let thinking = sample.thinking;
    let answer = Completion {
        text: sample.completion,
        is_finished: sample.is_finished,
        is_end_unknown: sample.is_end_unknown,
        tokens: sample.tokens,
        logp: sample.logp.and_then(plausible_logp),
        failure: sample.failure,
        is_missing: sample.is_missing,
        class: None,
        other_verdict: sample.other_verdict,
        file_verdict: None,
        starts_inside: thinking.is_some_and(|thinking| thinking.starts_inside),
        thought_tokens: thinking.map_or(0, |thinking| thinking.tokens),
        is_stripped: thinking.is_some_and(|thinking| thinking.is_finished),
    };
    Ok(Line {
        id: Some(sample.problem),
        golds: first_golds(value, &["gold"]),
        is_judged: true,
        sample: Some(hash([sample.sample.to_string().as_str()])),
        answers: vec![answer],
        ..Line::default()
    })
}

/// Under which keys a record has its completions.
struct CompletionKeys {
    one: Option<&'static &'static str>,
    several: Option<&'static &'static str>,
    /// Whether it is the `solution` to a task.
    is_solution: bool,
    /// Whether it is SGLang's `text`.
    is_text: bool,
}

impl CompletionKeys {
    fn of(value: &Value, has_prompt: bool) -> Result<Self> {
        let is_there = |key: &&&str| get(value, key).is_some_and(|found| !found.is_null());
        let (mut one, mut several) = (ONE.iter().find(is_there), SEVERAL.iter().find(is_there));
        if let (Some(one), Some(several)) = (one, several) {
            bail!(
                "`{one}` beside `{several}`: name the one with the completions with --completion-key"
            );
        }
        let has_none = one.is_none() && several.is_none();
        let is_solution = has_none && get(value, "task_id").is_some();
        let is_text = get(value, "meta_info").is_some_and(Value::is_object);
        if has_none && !is_solution && !is_text && !has_other(value) {
            several = SEVERAL_ELSE.iter().find(is_there);
            // Beside a prompt, which a record of a dataset has there.
            let is_completion = |key: &&&str| is_there(key) && (**key != "text" || has_prompt);
            one = ONE_ELSE.iter().find(is_completion).filter(|_| several.is_none());
        }
        Ok(Self { one, several, is_solution, is_text })
    }
}

/// A record with keys of their usual names; `key` is its own where it stands in an object.
pub(super) fn own(value: &Value, key: Option<&str>) -> Result<Line> {
    let is_there = |key: &&&str| get(value, key).is_some_and(|found| !found.is_null());
    let is_judged = VERDICTS.iter().chain([&FILTERED, &VERDICT_LIST]).any(|key| is_there(&key));
    let mut prompt = asked(value);
    // Beside the id of a problem, `id` is that of the record.
    let of_problem = first_id(value, &["problem_id", "question_id", "problem_idx"]);
    let mut id = of_problem.or_else(|| first_id(value, &IDS)).or_else(|| key.map(str::to_owned));
    match id {
        Some(_) => prompt = prompt.or_else(|| prompt_of(&value["problem"])),
        None => id = first_id(value, &["problem"]),
    }
    if id.is_none() && prompt.is_none() {
        refuse_collection(value)?;
        bail!(
            "no `id` and no `prompt` (nor `custom_id`, nor `resps`): which problem is this? The record has {}",
            keys_of(value)
        );
    }
    let CompletionKeys { one, several, is_solution, is_text } =
        CompletionKeys::of(value, prompt.is_some())?;
    let Golds { golds, is_answer, is_said, refusal } =
        golds_of(value, is_judged, is_solution, several.is_some());
    let mut sample: Vec<String> =
        SAMPLES.iter().filter_map(|key| text_of(get(value, key)?)).collect();
    if !sample.is_empty() {
        sample.extend(get(value, "seed").and_then(text_of));
    }
    let mut line = Line {
        id,
        golds,
        is_gold_answer: is_answer,
        is_said_answer: is_said,
        gold_refusal: refusal,
        variant: prompt.as_ref().map(|prompt| hash([prompt.plain().trim()])),
        prompt,
        context: first(value, &["context", "db_id"]),
        is_judged,
        model: model_of(value),
        sampling: sampling_of(value),
        sample: (!sample.is_empty()).then(|| hash(sample.iter().map(String::as_str))),
        ..Line::default()
    };
    let error = error_of(value);
    let other = is_solution.then_some(&"solution").or(is_text.then_some(&"text"));
    let found = one.or(several).or(other).and_then(|key| get(value, key));
    // A server's response as a client returned it, or the choices of one.
    let response = found.unwrap_or(value);
    let choices = get(response, "choices").and_then(Value::as_array);
    let choices = choices.filter(|all| all.iter().any(Value::is_object));
    match (found, error) {
        _ if choices.is_some() => {
            line.push_choices(choices.map(Vec::as_slice).unwrap_or_default());
        }
        // A request that failed has no text, whatever stands where it would be.
        (Some(found), Some(error)) if is_empty(found) => {
            line.answers = vec![Completion::failed(reason(error)); requests(found)];
        }
        (Some(found), _) => completions(&mut line, value, found, several.is_some())?,
        (None, Some(error)) => line.answers.push(Completion::failed(reason(error))),
        (None, None) if ONE.iter().chain(&SEVERAL).any(|key| get(value, key).is_some()) => {
            line.push(Reading::from_text(None, ending(Ending::reasons(value), 0)));
        }
        // A conversation that ends with the completion.
        (None, None) if ends_with_answer(&value["messages"]) => {
            let messages = value["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
            line.push(Reading::new(last_answer(messages), ending(Ending::reasons(value), 0)));
        }
        (None, None) => bail!(
            "{} has no completion (under `completion`, `response`, `output` and the like): name its key with \
             --completion-key; the record has {}",
            line.shown(),
            keys_of(value)
        ),
    }
    refuse_answers(&mut line, value);
    let is_whole =
        [one, several].into_iter().flatten().any(|key| key.starts_with("generated_text"));
    line.cut_prompts(is_whole);
    Ok(line)
}

/// Whether a value is one text or number.
fn is_single(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_)) && printed_list(value).is_none()
}

/// Whether the completion stands elsewhere than under a key of its own.
fn has_other(value: &Value) -> bool {
    get(value, "choices").is_some()
        || ends_with_answer(&value["messages"])
        || error_of(value).is_some()
}

/// The gold answers of a record.
#[derive(Default)]
struct Golds {
    golds: Vec<String>,
    /// Whether they stand under `answer`, and whether `answer` is what the completion said.
    is_answer: bool,
    is_said: bool,
    /// Why they cannot be read: the index of a choice counts from 0 or from 1, which one record does not say.
    refusal: Option<String>,
}

/// The gold answers of a record.
fn golds_of(value: &Value, is_judged: bool, is_solution: bool, is_several: bool) -> Golds {
    let has_answer = get(value, "answer").is_some_and(|answer| !answer.is_null());
    let is_verdict = |label: &Value| match label {
        Value::Bool(_) => true,
        Value::Number(number) => matches!(number.as_u64(), Some(0 | 1)),
        Value::String(text) => LABELS.contains(&text.to_lowercase().as_str()),
        _ => false,
    };
    let is_word = |word: &&str| {
        let bare = word.trim_matches(|c: char| c.is_ascii_punctuation() && c != '\\');
        bare.chars().count() > 1 && bare.chars().all(char::is_alphabetic)
    };
    let is_prose = |text: &str| {
        math::gold(text) == text.trim()
            && text.split_whitespace().filter(is_word).count() > MOST_WORDS
    };
    let is_gold = |key: &&&str| match **key {
        // Of several completions, what they said would be a list (TRL has the gold there, beside a reward).
        "answer" => !is_judged || is_several && get(value, "answer").is_some_and(is_single),
        // Beside an answer, whether somebody found it right.
        "label" => !(has_answer && get(value, "label").is_some_and(is_verdict)),
        "solution" => {
            let text = get(value, "solution").and_then(Value::as_str);
            !is_solution && !text.is_some_and(is_prose)
        }
        _ => true,
    };
    let found = GOLDS.iter().filter(is_gold).map(|key| (*key, first_golds(value, &[key])));
    let Some((key, golds)) = found.into_iter().find(|(_, golds)| !golds.is_empty()) else {
        return Golds { is_said: is_judged && has_answer, ..Golds::default() };
    };
    let choices = get(value, "choices").and_then(Value::as_array);
    let choices = choices.filter(|all| all.len() > 1 && all.iter().all(Value::is_string));
    if let (Some(choices), Some(index)) = (choices, get(value, key).and_then(Value::as_u64))
        && index <= choices.len() as u64
        && !choices
            .iter()
            .any(|choice| choice.as_str().is_some_and(|text| text.ends_with(&golds[0])))
    {
        let why = format!(
            "the gold answer {index} under `{key}` is the place of one of the `choices`, counted from 0 or from 1: name the \
             dataset with --dataset, or the key of the letter with --gold-key"
        );
        return Golds { refusal: Some(why), ..Golds::default() };
    }
    Golds { is_answer: key == "answer" && !is_judged, golds, ..Golds::default() }
}

/// The keys of a record, the first few, as messages name them.
pub(super) fn keys_of(value: &Value) -> String {
    let keys = value.as_object().into_iter().flat_map(|map| map.keys());
    let shown: Vec<String> =
        keys.take(12).map(|key| format!("`{}`", short(key).escape_debug())).collect();
    if shown.is_empty() { "no key".into() } else { shown.join(", ") }
}

/// What a record says of a request that failed; false and an empty text say that none did.
fn error_of(value: &Value) -> Option<&Value> {
    get(value, "error").filter(|error| !error.is_null() && **error != false && **error != "")
}

/// How many completions a request that failed was to have.
fn requests(found: &Value) -> usize {
    found.as_array().map_or(1, Vec::len).clamp(1, MAX_ANSWERS)
}

/// Whether there is no text where a completion would be.
fn is_empty(found: &Value) -> bool {
    match found {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_empty),
        _ => false,
    }
}

/// What a record asks: the first of its prompts, and behind it the texts of the others that it does not contain, such
/// as the question beside an instruction.
fn asked(value: &Value) -> Option<Prompt> {
    let mut prompts = PROMPTS.iter().filter_map(|key| prompt_of(get(value, key)?));
    let mut first = prompts.find(|prompt| !prompt.plain().trim().is_empty())?;
    let words = |prompt: &Prompt| prompt.plain().split_whitespace().collect::<Vec<_>>().join(" ");
    for other in prompts {
        let (Prompt::Text(text), one, two) = (&other, words(&first), words(&other)) else {
            continue;
        };
        match &mut first {
            _ if one.contains(&two) => {}
            Prompt::Text(whole) if two.contains(&one) => *whole = text.clone(),
            Prompt::Text(whole) => *whole = format!("{whole}\n{text}"),
            Prompt::Chat(_) => {}
        }
    }
    Some(first)
}

/// The record of a rollout of the library `verifiers`, whose `answer` is the gold one although it is judged.
pub(super) fn verifiers(value: &Value) -> Result<Line> {
    let mut line = own(value, None)?;
    line.set_golds(first_golds(value, &["answer", "info.answer", "info.ground_truth"]));
    Ok(line)
}

/// The completions in `found`, a list of them where the record says `several`; else one, or a list.
fn completions(line: &mut Line, value: &Value, found: &Value, several: bool) -> Result<()> {
    let count = tokens(&value["tokens"])?;
    let printed = if several { list_in_text(line, found)? } else { None };
    let mut items = Vec::new();
    flatten(printed.as_ref().unwrap_or(found), &mut items);
    let reasons = Ending::reasons(value);
    if let Some(Value::Array(reasons)) = reasons
        && reasons.len() != items.len()
    {
        bail!(
            "{} has {} and {}: give one for each",
            line.shown(),
            counted(items.len(), "completion"),
            counted(reasons.len(), "finish reason")
        );
    }
    // One class of several completions is the topic of their problem.
    let has_classes = items.len() == 1
        || !CLASSES.iter().filter_map(|key| get(value, key)).any(|class| !class.is_array());
    for (index, item) in items.into_iter().take(MAX_ANSWERS + 1).enumerate() {
        let own = ending(Ending::reasons(item), 0);
        let ending = if own == Ending::Unknown { ending(reasons, index) } else { own };
        let mut reading = Reading::new(content(item)?, ending);
        let one = &mut reading.completion;
        if let Some(is_finished) = is_finished(value, index) {
            (one.is_finished, one.is_end_unknown) = (one.is_finished && is_finished, false);
        }
        one.tokens = count;
        let logp = [(item, "logp"), (item, "cumulative_logprob"), (value, "logp")];
        let logp = logp.into_iter().find_map(|(object, key)| number(get(object, key)?));
        one.logp = logp.and_then(plausible_logp);
        one.class = class(item, 0).or_else(|| class(value, index).filter(|_| has_classes));
        line.push(reading);
    }
    Ok(())
}

/// The solution class of a record, or of the completion of this index where it lists them.
fn class(value: &Value, index: usize) -> Option<String> {
    CLASSES.iter().find_map(|key| match get(value, key)? {
        Value::Array(classes) => text_of(classes.get(index)?),
        one => text_of(one),
    })
}

/// A number, also one whose digits stand as a text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// The ending by a finish reason, or by that of the completion of this index where these are several.
fn ending(reasons: Option<&Value>, index: usize) -> Ending {
    match reasons {
        Some(Value::Array(items)) => items.get(index).map_or(Ending::Unknown, Ending::from_reason),
        Some(reason) => Ending::from_reason(reason),
        None => Ending::Unknown,
    }
}

/// Whether a conversation ends with a turn of the assistant.
fn ends_with_answer(messages: &Value) -> bool {
    let last = messages.as_array().and_then(|messages| messages.last());
    let role = last.and_then(|last| first(last, &["role", "from"]));
    role.is_some_and(|role| matches!(role.as_str(), "assistant" | "gpt"))
}

/// What a completion holds: a text, a number, a conversation, parts, or an object with one of them.
fn content(item: &Value) -> Result<Content> {
    Ok(match item {
        Value::Array(messages) if messages.iter().any(is_message) => last_answer(messages),
        Value::Null | Value::Array(_) => Content::read(item),
        Value::Object(map) => {
            let keys = ["content", "text", "completion", "output", "generated_text"];
            let message = map.get("message").unwrap_or(item);
            let name = keys.iter().find(|key| message.get(**key).is_some());
            let name =
                name.context("a completion that is an object without `content` or `text`")?;
            let content = match *name {
                "content" => Content::of_message(message),
                other => Content::read(&message[other]),
            };
            if content == Content::default() && !message[*name].is_null() {
                bail!("a completion whose `{name}` is no text");
            }
            content
        }
        other => {
            let text = text_of(other).context("a completion that is no text")?;
            Content { text: Some(text), ..Content::default() }
        }
    })
}
