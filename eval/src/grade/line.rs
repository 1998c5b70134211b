//! A line of a file to grade.
//!
//! Four forms are read. Tealight's input: `{"id", "completion" or "completions", "gold"}`, where `problem`, `answer` and
//! `target` are also understood, and with a dataset the gold may be left out. Tealight's samples: `{"problem", "sample",
//! "completion", "verdict"}`, with the gold from a dataset: the `answer` of a line with a verdict is the completion's.
//! lm-evaluation-harness's samples: `{"doc_id", "target", "resps"}`. OpenAI's batch output:
//! `{"custom_id", "response": {"body": {"choices"}}}`, with the gold from a dataset.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::{Answer, Sample};

/// Largest size of a log-probability, in nats: servers write -9999 for none.
const MAX_LOGP: f64 = 1e9;

/// Most completions of a line: the shortest take a hundred times their text in memory.
pub(super) const MAX_ANSWERS: usize = 1 << 20;

pub(super) struct Line {
    /// The problem's.
    pub(super) id: String,
    pub(super) gold: Option<String>,
    pub(super) prompt: Option<String>,
    /// The name of a database.
    pub(super) context: Option<String>,
    /// Whether the line holds a verdict, so that its `answer` is what the completion said.
    pub(super) is_judged: bool,
    /// Which sample of the problem a line of Tealight's own is.
    pub(super) sample: Option<usize>,
    pub(super) answers: Vec<Answer>,
}

/// A line of any of the forms; none for an empty one.
pub(super) fn parse(line: &[u8]) -> Result<Option<Line>> {
    let text = std::str::from_utf8(line).context("not UTF-8")?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(text).context("not JSON")?;
    let line = if let Ok(sample) = Sample::deserialize(&value) {
        ours(sample, first(&value, &["gold"]))
    } else if value.get("custom_id").is_some() {
        batch(&value)?
    } else if value.get("resps").is_some() {
        harness(&value)?
    } else {
        own(&value)?
    };
    if line.answers.is_empty() {
        bail!("`{}` has no completion", line.id);
    }
    if line.answers.len() > MAX_ANSWERS {
        bail!(
            "`{}` has more than {MAX_ANSWERS} completions on one line: give them on several lines with this id",
            line.id
        );
    }
    Ok(Some(line))
}

/// A text or a number as text.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A count of tokens that a stranger gives; sums of such counts do not overflow.
pub fn token_count(value: &Value) -> usize {
    value.as_u64().map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX) as usize)
}

/// A log-probability that a stranger gives, unless sums of such would not be finite.
pub fn plausible_logp(logp: f64) -> Option<f64> {
    Some(logp).filter(|logp| logp.abs() <= MAX_LOGP)
}

fn first(value: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| text_of(value.get(*name)?))
}

fn ours(sample: Sample, gold: Option<String>) -> Line {
    let thinking = sample.thinking;
    let answer = Answer {
        text: sample.completion,
        is_finished: sample.is_finished,
        is_end_unknown: sample.is_end_unknown,
        tokens: sample.tokens,
        logp: sample.logp.and_then(plausible_logp),
        failure: sample.failure,
        starts_inside: thinking.is_some_and(|thinking| thinking.starts_inside),
        thought_tokens: thinking.map_or(0, |thinking| thinking.tokens),
        is_stripped: thinking.is_some_and(|thinking| thinking.is_finished),
    };
    let answers = vec![answer];
    Line {
        id: sample.problem,
        gold,
        prompt: None,
        context: None,
        is_judged: true,
        sample: Some(sample.sample),
        answers,
    }
}

/// Keys of lines that somebody has judged already.
const VERDICTS: [&str; 7] =
    ["verdict", "correct", "is_correct", "exact_match", "score", "reward", "filtered_resps"];

fn own(value: &Value) -> Result<Line> {
    let id = first(value, &["id", "problem", "prompt_id", "problem_id"])
        .context("no `id` (nor `custom_id`, nor `resps`): which problem is this?")?;
    let reason = value.get("finish_reason").and_then(Value::as_str).map(|reason| reason == "stop");
    let said = value.get("is_finished").and_then(Value::as_bool);
    let is_finished = reason.unwrap_or(true) && said.unwrap_or(true);
    let is_judged =
        VERDICTS.iter().any(|key| value.get(*key).is_some_and(|found| !found.is_null()));
    // The answer of a judged line is the completion's own, right or wrong.
    let gold: &[&str] = match is_judged {
        true => &["gold", "target", "ground_truth"],
        false => &["gold", "answer", "target", "ground_truth"],
    };
    let answer = |text: &str| Answer {
        text: text.into(),
        is_finished,
        is_end_unknown: reason.is_none() && said.is_none(),
        tokens: token_count(&value["tokens"]),
        logp: value["logp"].as_f64().and_then(plausible_logp),
        ..Answer::default()
    };
    let mut answers = Vec::new();
    if let Some(text) = first(value, &["completion", "response", "output", "generated_text"]) {
        answers.push(answer(&text));
    }
    for name in ["completions", "responses", "outputs"] {
        for item in value.get(name).and_then(Value::as_array).into_iter().flatten() {
            let text = item.as_str().context("a completion that is no text")?;
            if answers.len() <= MAX_ANSWERS {
                answers.push(answer(text));
            }
        }
    }
    Ok(Line {
        id,
        gold: first(value, gold),
        prompt: first(value, &["prompt", "question"]),
        context: first(value, &["context", "db_id"]),
        is_judged,
        sample: None,
        answers,
    })
}

fn harness(value: &Value) -> Result<Line> {
    let id = first(value, &["doc_id"]).context("`resps` without `doc_id`")?;
    let mut texts: Vec<&Value> = Vec::new();
    for item in value["resps"].as_array().context("`resps` is no list")? {
        match item {
            Value::Array(items) => texts.extend(items),
            other => texts.push(other),
        }
    }
    let answers = texts.into_iter().take(MAX_ANSWERS + 1).map(|text| {
        let text = text.as_str().context("a response that is no text")?;
        let (is_finished, is_end_unknown) = (true, true);
        Ok(Answer { text: text.into(), is_finished, is_end_unknown, ..Answer::default() })
    });
    Ok(Line {
        id,
        gold: first(value, &["target"]),
        prompt: text_of(&value["arguments"]["gen_args_0"]["arg_0"]),
        context: None,
        is_judged: false,
        sample: None,
        answers: answers.collect::<Result<_>>()?,
    })
}

fn batch(value: &Value) -> Result<Line> {
    let id = first(value, &["custom_id"]).context("`custom_id` is no text")?;
    let status = value["response"]["status_code"].as_u64();
    if !value["error"].is_null() || status.is_some_and(|status| status != 200) {
        bail!("`{id}` failed in its batch ({}); leave the line out", value["error"]);
    }
    let choices = value["response"]["body"]["choices"].as_array().context("no choices")?;
    let answers = choices.iter().take(MAX_ANSWERS + 1).map(|choice| {
        let text = choice["message"]["content"].as_str().or_else(|| choice["text"].as_str());
        Ok(Answer {
            text: text.context("a choice without text")?.into(),
            is_finished: choice["finish_reason"].as_str().is_none_or(|reason| reason == "stop"),
            is_end_unknown: !choice["finish_reason"].is_string(),
            ..Answer::default()
        })
    });
    let answers = answers.collect::<Result<_>>()?;
    Ok(Line {
        id,
        gold: None,
        prompt: None,
        context: None,
        is_judged: false,
        sample: None,
        answers,
    })
}
