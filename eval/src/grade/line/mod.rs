//! A record of a file to grade, whatever program wrote it, to a problem's id, golds, prompt and completions.
//!
//! `format` has the table of formats; docs/how-to/grade.md describes them for users.

mod choices;
mod completions;
mod each;
mod fields;
mod format;
mod golds;
mod harnesses;
mod lists;
mod names;
mod origin;
mod own;
mod parts;
mod prompts;
mod remarks;
mod servers;
mod words;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};
use tealight_core::display::shortened;
use tealight_core::{Prompt, fnv};
use tealight_datasets::json;
use tealight_datasets::read::{VERDICTS, other_kind};

use super::source::Content;
pub(super) use crate::completion::MAX_ANSWERS;
use crate::completion::{Completion, Ending, Reading, completions_of};
use fields::get;
pub(super) use format::{Format, LISTS};
use names::VERDICT_LIST;
use remarks::{LOST, NUMBERED};

/// Largest size of a log-probability, in nats: servers write -9999 for none.
const MAX_LOGP: f64 = 1e9;

/// A problem and completions of it.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) format: Format,
    /// The problem's id; without one its prompt says which it is.
    pub(super) id: Option<String>,
    /// The gold answers, each of which is right.
    pub(super) golds: Vec<String>,
    /// The keys of a record without any, as messages name them.
    pub(super) keys: String,
    /// The text of the right choice, where the gold answer is its letter and each file has an order of its own.
    pub(super) choice: Option<String>,
    pub(super) prompt: Option<Prompt>,
    /// Of a record with an id and no prompt the keys that may be the question, with a hash of each.
    pub(super) unread: Vec<(String, u64)>,
    /// The choices that it has under keys of their own, by their letters.
    pub(super) choices: Vec<(String, String)>,
    /// The name of a database.
    pub(super) context: Option<String>,
    /// Whether the line holds a verdict, so that its `answer` is what the completion said.
    pub(super) is_judged: bool,
    /// Whether its `answer` was taken for the gold answer, since it holds no verdict.
    pub(super) is_gold_answer: bool,
    /// Whether it holds a verdict, so that its `answer` is what the completion said, and no gold answer.
    pub(super) is_said_answer: bool,
    /// Why its gold answer cannot be read, where it is needed.
    pub(super) gold_refusal: Option<String>,
    /// Completions that began with their prompt, and those with turns of the assistant behind the end of the first.
    pub(super) with_prompts: usize,
    pub(super) with_turns: usize,
    /// A hash of what tells problems with one id apart.
    pub(super) variant: Option<u64>,
    /// A hash of what belongs to the question beside its prompt, and the keys of that.
    pub(super) parts: Option<u64>,
    pub(super) part_keys: String,
    /// An id that repeats where the other numbers the records.
    pub(super) group: Option<String>,
    /// How the sample was made, by the keys of the record.
    pub(super) conditions: Vec<(String, String)>,
    /// What is to be said of the record, and of which one.
    pub(super) remarks: Vec<(&'static str, String)>,
    /// A hash of what tells this sample from others of the problem: its index, its seed, the id of its request.
    pub(super) sample: Option<u64>,
    /// The model, or the step of training, that the record names.
    pub(super) model: Option<String>,
    /// The models of its completions, where it names one for each.
    pub(super) models: Vec<String>,
    /// Settings of sampling that the record names, as an evaluation calls them.
    pub(super) sampling: Vec<(&'static str, String)>,
    /// A hash of all of a line of lm-eval, which has no number.
    pub(super) run_text: Option<u64>,
    /// The filter of lm-eval that the line belongs to.
    pub(super) filter: Option<String>,
    pub(super) answers: Vec<Completion>,
    /// What is to be said of another judge's verdict that is not of each completion.
    pub(super) partial_verdict: Option<PartialVerdict>,
    /// Finish reasons that nobody here knows.
    pub(super) unknown_endings: Vec<String>,
}

/// A verdict of lm-eval on several completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartialVerdict {
    /// On the first of them.
    OfFirst,
    /// The mean of the verdicts on them.
    Mean,
    /// On an answer that a filter made of all of them, as a majority vote does.
    OfNone,
}

impl Line {
    /// A hash of its document.
    pub(super) fn document(&self) -> u64 {
        self.variant.unwrap_or_default() ^ hash([self.id.as_deref().unwrap_or_default()])
    }

    /// How messages call the problem.
    pub(super) fn shown(&self) -> String {
        match (&self.id, &self.prompt) {
            (Some(id), _) => format!("`{}`", short(id)),
            (None, Some(prompt)) => format!("the problem `{}`", short(prompt.plain().trim())),
            (None, None) => "a problem".into(),
        }
    }

    fn push(&mut self, reading: Reading) {
        self.answers.push(reading.completion);
        self.unknown_endings.extend(reading.unknown_ending);
    }

    /// Takes these for the gold answers, whatever other keys seem to say of them.
    fn set_golds(&mut self, golds: Vec<String>) {
        self.golds = golds;
        (self.is_gold_answer, self.is_said_answer, self.gold_refusal) = (false, false, None);
        self.remarks.retain(|(kind, _)| *kind != remarks::TWO_GOLDS);
    }

    /// The completions of a response.
    fn push_response(&mut self, response: &Value) -> Result<()> {
        match completions_of(response).map_err(anyhow::Error::msg)? {
            Some(all) => all.into_iter().for_each(|reading| self.push(reading)),
            None => {
                let ending = Ending::reasons(response).map_or(Ending::Unknown, Ending::from_reason);
                self.push(Reading::new(completions::content(response)?, ending));
            }
        }
        Ok(())
    }
}

/// The start of a text on one line.
pub(super) fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(80).collect();
    shortened(&words.join(" "), 80)
}

/// The hash of values that tell things apart.
pub(super) fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    // No text has the byte that separates them.
    fnv(parts.into_iter().flat_map(|part| part.bytes().chain(std::iter::once(0xff))))
}

/// A count of tokens that a stranger gives; sums of such counts do not overflow.
pub fn token_count(value: &Value) -> usize {
    value.as_u64().map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX) as usize)
}

/// A log-probability that a stranger gives, unless sums of such would not be finite.
pub fn plausible_logp(logp: f64) -> Option<f64> {
    Some(logp).filter(|logp| logp.abs() <= MAX_LOGP)
}

/// The keys of a record that the user names.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keys<'a> {
    /// That of the gold answer.
    pub gold: Option<&'a str>,
    /// That of another judge's verdict on a completion, which its sample then carries.
    pub verdict: Option<&'a str>,
    /// That of the completion or the list of them.
    pub completion: Option<&'a str>,
}

/// The lines of a record: one, or those of a whole document; none of an empty record.
pub(super) fn parse(content: Content, keys: Keys<'_>) -> Result<Vec<Line>> {
    let mut has_lost = false;
    let (mut value, key) = match content {
        Content::Row(row) => (Value::Object(row), None),
        Content::Json(bytes, key) => {
            let text = std::str::from_utf8(&bytes).context("not UTF-8")?.trim();
            if text.is_empty() {
                return Ok(Vec::new());
            }
            let mut value = json::parse(text).map_err(|error| not_json(text, error))?;
            has_lost = json::restore_commands(&mut value);
            (value, key)
        }
    };
    if let Value::Object(map) = &mut value {
        golds::open_objects(map);
    }
    let mut lines = match &value {
        Value::Object(map) => match document(&value, map, keys)? {
            Some(lines) => lines,
            None => vec![line(&value, key.as_deref(), keys)?],
        },
        Value::Array(messages) => vec![harnesses::conversation(messages)?],
        _ => bail!("a record is a JSON object, not {}", short(&value.to_string())),
    };
    if has_lost && let Some(line) = lines.first_mut() {
        line.remarks.push((LOST, line.shown()));
    }
    Ok(lines)
}

fn not_json(text: &str, error: serde_json::Error) -> anyhow::Error {
    let head = text.lines().next().unwrap_or_default();
    let has_cells = head.contains(['\t', ';']) || head.contains(',') && !head.contains(", ");
    let is_table = has_cells && !text.starts_with(['{', '[', '"']);
    let hint = match () {
        () if is_table => return anyhow!("not JSON: a table's name must end in .csv or .tsv"),
        () if text.starts_with("{'") => {
            "not JSON, but an object as Python prints it: write it with json.dumps"
        }
        () if ["}{\"", "} {\""].iter().any(|mark| text.contains(*mark)) => {
            "not JSON: give one object a line"
        }
        () => "not JSON",
    };
    anyhow::Error::new(error).context(hint)
}

/// The records of a whole document that stands on one line; none where the object is a record itself.
fn document(value: &Value, map: &Map<String, Value>, keys: Keys<'_>) -> Result<Option<Vec<Line>>> {
    let (has, is_header) = (
        |key: &str| get(value, key).is_some(),
        |key: &str| get(value, key).is_some_and(Value::is_object),
    );
    let mut known = LISTS.iter().filter(|(list, beside)| list == beside || is_header(beside));
    if let Some(list) = known.find_map(|(list, _)| get(value, list)?.as_array()) {
        let one = |(number, item): (usize, &Value)| {
            let read = match item {
                Value::Array(messages) => harnesses::conversation(messages),
                item => line(item, None, keys),
            };
            read.with_context(|| format!("record {}", number + 1))
        };
        return list.iter().enumerate().map(one).collect::<Result<_>>().map(Some);
    }
    let is_number = |key: &String| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
    if !map.is_empty() && map.iter().all(|(key, value)| is_number(key) && value.is_object()) {
        let one = |(key, item): (&String, &Value)| {
            line(item, Some(key), keys).with_context(|| format!("record `{key}`"))
        };
        return map.iter().map(one).collect::<Result<_>>().map(Some);
    }
    // The first line of a log of nemo-evaluator.
    if get(value, "_type").is_some_and(|kind| kind == "meta") {
        return Ok(Some(Vec::new()));
    }
    if has("adapter_spec") && has("request_states") {
        bail!(
            "a state of HELM is not read: write one line for each completion, with \"id\" (its instance.id), \"prompt\" \
             (request.prompt), \"completion\" (a text of result.completions) and \"gold\" (the reference tagged `correct`)"
        );
    }
    if is_header("eval") && is_header("plan") {
        let status = map.get("status").and_then(Value::as_str).unwrap_or_default();
        bail!("an Inspect log without samples: its status is `{}`", short(status));
    }
    if is_header("results") && (is_header("configs") || is_header("config_general")) {
        bail!(
            "results of a harness without completions: give the file of samples (lm-eval's samples_*.jsonl, written \
             with --log_samples, or lighteval's details_*.parquet)"
        );
    }
    if has("score")
        && map
            .keys()
            .all(|key| key == "score" || key.contains(':') || key == "chars" || key == "metrics")
    {
        bail!(
            "scores of simple-evals without completions: give the conversations, {{\"convo\", \"correct_answer\"}}"
        );
    }
    if has("method") && has("url") && has("body") {
        bail!("requests of an OpenAI batch: give its output, which the completions are in");
    }
    Ok(None)
}

/// The verdict that a record brings itself, with its key, where it says yes or no.
fn own_verdict(value: &Value, format: Format) -> Option<(&str, &Value)> {
    let at = |key| Some((key, fields::nested(value, key)?));
    match format {
        Format::LmEval => at(value["metrics"][0].as_str()?),
        Format::Own => {
            let is_list =
                get(value, VERDICT_LIST).and_then(|all| all.is_array().then_some(VERDICT_LIST));
            let is_truth = |value: &Value| {
                value.is_boolean()
                    || value.as_f64().is_some_and(|number| number == 0.0 || number == 1.0)
            };
            at(VERDICTS
                .into_iter()
                .find(|key| get(value, key).is_some_and(is_truth))
                .or(is_list)?)
        }
        // Correct or incorrect.
        Format::Inspect => {
            let scores = value["scores"].as_object()?.iter();
            let mut scores = scores.map(|(name, score)| (name.as_str(), &score["value"]));
            scores.find(|(_, value)| **value == "C" || **value == "I")
        }
        _ => None,
    }
}

/// Reads a record; `key` is its own where it stands in an object.
fn line(value: &Value, key: Option<&str>, keys: Keys<'_>) -> Result<Line> {
    let joined = lists::joined(value, keys.completion);
    let value = joined.as_ref().map_or(value, |(joined, _)| joined);
    let renamed = keys.completion.map(|name| lists::with_completion(value, name)).transpose()?;
    let value = renamed.as_ref().unwrap_or(value);
    let mut line = match keys.completion {
        Some(_) => own::own(value, key)?,
        None => Format::read(value, key)?,
    };
    if !line.format.is_own() {
        each::Each::of_harness(value, line.answers.len())
            .with_context(|| line.shown())?
            .end(&mut line.answers);
        line.sample = line.sample.or_else(|| own::sample_of(value));
        line.model = origin::model_of(value).or(line.model);
    }
    if let Some((_, name)) = &joined {
        line.remarks.push((NUMBERED, format!("`{}` of {}", short(name), line.shown())));
    }
    line.with_turns = line.answers.iter().filter(|answer| prompts::has_turns(&answer.text)).count();
    let format = line.format;
    let document = value["doc"].as_object().filter(|_| format == Format::LmEval);
    if let (Some(why), None) = (document.and_then(other_kind), keys.gold) {
        let why = why.split(';').next().unwrap_or_default();
        bail!("{}: {why} (name its verifier with --verifier, and --gold-key)", format.name());
    }
    if let Some(gold_key) = keys.gold {
        line.set_golds(fields::first_golds(value, &[gold_key]));
        if line.golds.is_empty() {
            line.is_judged = false;
            line.keys = format!("no `{}`, but {}", short(gold_key), own::keys_of(value));
        }
    }
    let named = keys.verdict.and_then(|key| Some((key, fields::nested(value, key)?)));
    let of_file = own_verdict(value, format).filter(|_| keys.verdict.is_none());
    if let Some((key, found)) = named.or(of_file) {
        let verdicts = match fields::verdicts(found, line.answers.len()) {
            none if none.is_empty() && format == Format::LmEval => {
                harnesses::lm_eval_verdicts(value, found, key, &mut line)
            }
            each => each,
        };
        let answers = line.answers.iter_mut().zip(verdicts);
        match keys.verdict {
            Some(_) => answers.for_each(|(answer, verdict)| answer.other_verdict = verdict),
            None => {
                answers.for_each(|(answer, verdict)| answer.file_verdict = verdict);
                line.partial_verdict = None;
            }
        }
    }
    if line.answers.len() > MAX_ANSWERS {
        bail!(
            "{} has more than {MAX_ANSWERS} completions on one line: give them on several lines with this id",
            line.shown()
        );
    }
    Ok(line)
}
