//! Completions that stand in lists, lists of lists, and texts that hold a list.

use std::collections::HashSet;

use anyhow::{Result, bail};
use serde_json::Value;
use tealight_core::names::list;
use tealight_datasets::json;

use super::fields::{get, nested, printed_list};
use super::names::{ONE, PROMPTS, SEVERAL};
use super::own::keys_of;
use super::remarks::{NUMBERS, PARALLEL, PRINTED, TURNS};
use super::words;
use super::{Line, short};
use crate::completion::{is_list_of_python, role_of};

/// Whether a value is a message of a conversation.
pub(super) fn is_message(item: &Value) -> bool {
    item.get("role").is_some() || item.get("from").is_some() || role_of(item).is_some()
}

/// The completions of a list, also of lists in it; a conversation and the parts of a text are one.
pub(super) fn flatten<'v>(found: &'v Value, all: &mut Vec<&'v Value>) {
    let is_part = |item: &Value| item.get("type").is_some_and(Value::is_string);
    // LangChain's and transformers', not Gemini's parts.
    let is_text = |item: &Value| {
        ["text", "generated_text"].iter().any(|key| item.get(key).is_some_and(Value::is_string))
            && item.get("thought").is_none()
    };
    let is_turn =
        |item: &Value| role_of(item) == Some("assistant") && item.get("tool_calls").is_none();
    let is_list = |item: &&Value| match item {
        Value::Array(items) => {
            !items.is_empty() && items.iter().all(|item| item.is_string() || item.is_array())
                || items.len() > 1 && items.iter().all(is_turn)
                || !items.is_empty()
                    && items.iter().all(is_text)
                    && !items.iter().any(|item| is_message(item) || is_part(item))
        }
        _ => false,
    };
    match found {
        // Answers without a turn of the user between them are one each.
        Value::Array(items)
            if items.len() > 1 && items.iter().all(is_turn)
                || !items.iter().any(|item| is_message(item) || is_part(item)) =>
        {
            for item in items {
                if is_list(&item) { flatten(item, all) } else { all.push(item) }
            }
        }
        one => all.push(one),
    }
}

/// The list that stands in a text, as tables have it; where a record says that it has one completion, a list of
/// several.
pub(super) fn list_in_text(line: &mut Line, found: &Value, several: bool) -> Result<Option<Value>> {
    let Some(text) = found.as_str().map(str::trim) else { return Ok(None) };
    // A tuple of Python's is a list as well.
    let tuple = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let tuple = tuple.map(|items| Value::from(format!("[{items}]")));
    if let Some(list) = printed_list(found).or_else(|| printed_list(&tuple?)) {
        let is_list = several || list.as_array().is_some_and(|items| items.len() > 1);
        if is_list && !several {
            line.remarks.push((PRINTED, line.shown()));
        }
        return Ok(is_list.then_some(list));
    }
    let is_numpy = text.starts_with("['") && (text.contains("' '") || text.contains("'\n"));
    let is_of_python = is_list_of_python(text);
    if !several && !is_numpy && !is_of_python {
        return Ok(None);
    }
    if is_of_python || ["['", "[\"", "[{", "[["].iter().any(|start| text.starts_with(start)) {
        let list =
            json::parse(text).ok().filter(|list| !list[0].is_number() && !list[0][0].is_number());
        if list.is_some() {
            return Ok(list);
        }
        if is_of_python || !text.starts_with("[[") && text.ends_with(']') {
            bail!(
                "{}: the completions are a text that looks like a list as Python or numpy prints it: write a list of JSON \
                 into the column (json.dumps(list(completions))), or JSON lines",
                line.shown()
            );
        }
    }
    Ok(None)
}

/// Refuses lists of numbers where texts are expected: ids of tokens.
pub(super) fn refuse_tokens(line: &mut Line, found: &Value, several: bool) -> Result<()> {
    let is_ids = |value: &Value| {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        !items.is_empty() && items.iter().all(Value::is_number)
    };
    let is_inside = found.as_array().is_some_and(|items| items.iter().any(is_ids));
    if is_inside || is_ids(found) && !several {
        bail!(
            "{}: the completion is a list of numbers, as ids of tokens are: give its text, or name the key of it with \
             --completion-key",
            line.shown()
        );
    }
    if is_ids(found) {
        line.remarks.push((NUMBERS, line.shown()));
    }
    Ok(())
}

/// Refuses the pieces of a stream: many short texts, few with a number and none with a box, of which some, and not all,
/// begin or end with a blank, and some go on within a word or a sentence.
pub(super) fn refuse_pieces(line: &Line, items: &[&Value]) -> Result<()> {
    /// Fewest pieces, and most bytes of one on average.
    const LEAST: (usize, usize) = (5, 20);
    /// Least bytes of all if pieces go on within words alone, as answers may begin with small letters.
    const LEAST_OF_WORDS: usize = 60;
    let Some(texts) = items.iter().map(|item| item.as_str()).collect::<Option<Vec<&str>>>() else {
        return Ok(());
    };
    let count = |is: &dyn Fn(&str) -> bool| texts.iter().filter(|text| is(text)).count();
    let all = texts.len();
    let is_joint = |text: &str| text.starts_with(' ') || text.ends_with(' ');
    let bytes = texts.iter().map(|text| text.len()).sum::<usize>();
    let goes_on = |text: &&str| {
        text.starts_with(['.', ',', ';', ':', '!', '?', ')', '}'])
            || bytes > LEAST_OF_WORDS && text.starts_with(char::is_lowercase)
    };
    let has_box = |text: &&str| text.contains("\\boxed{") && text.contains('}');
    let different = texts.iter().collect::<HashSet<_>>().len();
    if all >= LEAST.0
        && bytes < LEAST.1 * all
        && texts.iter().skip(1).any(goes_on)
        && !texts.iter().any(has_box)
        && (2 * different > all || all > 26)
        && (all.div_ceil(8)..all).contains(&count(&is_joint))
        && 2 * count(&|text| text.contains(|c: char| c.is_ascii_digit())) < all
    {
        bail!(
            "{}: the {all} texts of its completion seem to be pieces of a stream: write the pieces of each completion as \
             one text (or name the list with --completion-key if each is a completion)",
            line.shown()
        );
    }
    Ok(())
}

/// Notes conversations in which the user speaks between two turns of the assistant.
pub(super) fn note_turns(line: &mut Line, items: &[&Value]) {
    let has_turns = |item: &&Value| {
        let messages = item.as_array().map(Vec::as_slice).unwrap_or_default();
        let answer = |message: &Value| role_of(message) == Some("assistant");
        let first = messages.iter().position(answer);
        let last = messages.iter().rposition(answer);
        let between = first.zip(last).map_or(&[][..], |(first, last)| &messages[first..last]);
        between.iter().any(|message| role_of(message) == Some("user"))
    };
    if items.iter().any(has_turns) {
        line.remarks.push((TURNS, line.shown()));
    }
}

/// What a key is called without the number at its end, and that number: `response.1`, `completion_2`; what
/// `response_1_finish_reason` says of `response_1`.
fn numbered_name(key: &str) -> Option<(&str, u64)> {
    let is_joint = |letter: char| "_.- #".contains(letter);
    if !key.ends_with(|last: char| last.is_ascii_digit()) {
        let at = key.find(|letter: char| letter.is_ascii_digit())?;
        let rest = key[at..].trim_start_matches(|c: char| c.is_ascii_digit());
        let number = key[at..key.len() - rest.len()].parse().ok()?;
        let is_completion = ONE.contains(&key[..at].trim_end_matches(is_joint));
        return is_completion.then(|| (rest.trim_start_matches(is_joint), number));
    }
    let bare = key.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = key[bare.len()..].parse().ok()?;
    Some((bare.trim_end_matches(is_joint), number))
}

/// A record with numbered keys of completions, such as `completion_1`, as one with a list of them; and so its other
/// keys that speak of each completion. The one without a number is the first.
pub(super) fn joined(value: &Value, key: Option<&str>) -> Option<(Value, String)> {
    /// Keys that speak of each completion.
    const OF_EACH: [&str; 9] = list(
        "finish_reason|stop_reason|is_truncated|truncated|finished|class|is_correct|model|model_name",
    );
    let map = value.as_object()?;
    if !map.keys().any(|key| key.ends_with(|last: char| last.is_ascii_digit())) {
        return None;
    }
    let is_of = |name: &str, key: &str| numbered_name(key).is_some_and(|(bare, _)| bare == name);
    let has = |name: &&str| map.keys().any(|key| is_of(name, key));
    let name = ONE.into_iter().chain(["pred", "model_output"]).chain(key).find(has)?;
    let is_text = |value: &Value| !value.is_array() && !value.is_object();
    let mut joined = map.clone();
    for name in std::iter::once(name).chain(OF_EACH) {
        let mut family: Vec<(Option<u64>, &String)> = map
            .keys()
            .filter(|key| *key == name || is_of(name, key))
            .map(|key| (numbered_name(key).filter(|_| key != name).map(|(_, number)| number), key))
            .collect();
        if family.len() < 2 || !family.iter().all(|(_, key)| is_text(&map[*key])) {
            continue;
        }
        family.sort_unstable();
        // Numbers that are answers; a list of numbers would be ids of tokens.
        let item = |(_, key): &(Option<u64>, &String)| match &map[*key] {
            Value::Number(number) => Value::from(number.to_string()),
            other => other.clone(),
        };
        let list: Vec<Value> = family.iter().map(item).collect();
        family.iter().for_each(|(_, key)| _ = joined.remove(*key));
        joined.insert(name.to_owned(), Value::Array(list));
    }
    let example = map.keys().find(|key| is_of(name, key)).cloned().unwrap_or_default();
    (joined.len() < map.len()).then(|| (Value::Object(joined), example))
}

/// Refuses a batch in columns, in one record: a different prompt for each completion.
pub(super) fn refuse_columns(value: &Value, completions: usize) -> Result<()> {
    let is_prompt = |(key, value): &(&String, &Value)| {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let name = key.strip_suffix('s').unwrap_or(key);
        items.len() == completions
            && (PROMPTS.contains(&name) || ["problem", "origin_prompt"].contains(&name))
            && items.iter().all(|item| item.is_string() || item.is_array())
            && items.iter().any(|item| *item != items[0])
    };
    let mut entries = value.as_object().filter(|_| completions > 1).into_iter().flatten();
    match entries.find(is_prompt) {
        None => Ok(()),
        Some((key, _)) => bail!(
            "`{}` is a list with a different prompt for each of the {completions} completions (a batch in columns): \
             write one record for each problem",
            short(key)
        ),
    }
}

/// Refuses an `answer` that is a list with one for each completion: what they said, unless the user names it.
pub(super) fn refuse_answers(line: &mut Line, value: &Value) -> Result<()> {
    refuse_columns(value, line.answers.len())?;
    let golds = &line.golds;
    if golds.len() > 1
        && golds.len() == line.answers.len()
        && golds.iter().any(|one| *one != golds[0])
    {
        line.remarks.push((PARALLEL, line.shown()));
    }
    let answer = get(value, "answer").filter(|_| line.is_gold_answer);
    let printed = answer.and_then(printed_list);
    let Some(each) = printed.as_ref().or(answer).and_then(Value::as_array) else { return Ok(()) };
    let differ = each.iter().any(|one| *one != each[0]);
    if each.len() == line.answers.len() && each.len() > 1 && differ {
        line.golds.clear();
        line.gold_refusal = Some(format!(
            "`answer` is a list with one for each of the {} completions, which seems to be what they said: name the key of \
             the gold answer with --gold-key (--gold-key answer if each of them is right), or the dataset with --dataset",
            each.len()
        ));
    }
    Ok(())
}

/// A record whose completion, or list of them, stands under the key that the user names.
pub(super) fn with_completion(value: &Value, name: &str) -> Result<Value> {
    let Some(found) = nested(value, name).cloned() else {
        bail!("no key `{}` (--completion-key): the record has {}", short(name), keys_of(value));
    };
    let mut map = value.as_object().cloned().unwrap_or_default();
    let is_completion = |key: &str| {
        ONE.contains(&key) || SEVERAL.contains(&key) || key == name || words::is_written(key)
    };
    map.retain(|key, _| !is_completion(key));
    let is_list = found.is_array() || printed_list(&found).is_some();
    map.insert(if is_list { SEVERAL[0] } else { ONE[0] }.to_owned(), found);
    Ok(Value::Object(map))
}

/// Refuses a document whose entries are columns, or records by their ids.
pub(super) fn refuse_collection(value: &Value) -> Result<()> {
    let Some(map) = value.as_object().filter(|map| map.len() > 1) else { return Ok(()) };
    let is_record =
        |item: &Value| item.as_object().is_some_and(|record| record.len() > 1) && !is_message(item);
    let are_records = |list: &Value| list.as_array().is_some_and(|list| list.iter().any(is_record));
    if let Some((key, _)) = map.iter().find(|(_, list)| are_records(list)) {
        bail!(
            "the records of this file stand under `{}`: give them alone, jq -c '.[{}][]' FILE > records.jsonl",
            short(key),
            Value::from(key.as_str())
        );
    }
    if map.get("columns").is_some_and(Value::is_array)
        && map.get("data").is_some_and(Value::is_array)
    {
        bail!(
            "a table of `columns` and `data`, as pandas and W&B write it: give one object a record"
        );
    }
    let is_number = |key: &String| key.bytes().all(|byte| byte.is_ascii_digit());
    let is_column = |entry: &Value| match entry {
        Value::Array(_) => true,
        Value::Object(rows) => !rows.is_empty() && rows.keys().all(is_number),
        _ => false,
    };
    if map.values().all(is_column) {
        bail!(
            "a table by its columns ({}), as pandas' to_json writes it, or lists by the ids of problems: give one object \
             a record, to_json(FILE, orient=\"records\", lines=True)",
            keys_of(value)
        );
    }
    if map.contains_key("request") && map.contains_key("response") {
        bail!(
            "a request beside its response: give each record an \"id\" or a \"prompt\" beside its \"response\""
        );
    }
    if map.values().all(Value::is_object) || map.values().all(Value::is_array) {
        bail!(
            "records by their ids ({}): give a list of objects, or JSON lines, each with its \"id\"",
            keys_of(value)
        );
    }
    Ok(())
}
