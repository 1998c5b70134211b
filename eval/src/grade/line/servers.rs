//! The output of servers' batches. A request that failed is a completion that failed.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::ending::Ending;
use super::fields::{answer, content, first_id, reason};
use super::{Format, Line, MAX_ANSWERS, hash, token_count};
use crate::Answer;

/// A line of OpenAI's batch output, which vLLM and others write too: chat completions, completions, or responses.
pub(super) fn openai(value: &Value) -> Result<Line> {
    let (mut line, body) = (request(value)?, &value["response"]["body"]);
    let status = value["response"]["status_code"].as_u64();
    if !value["error"].is_null()
        || status.is_some_and(|status| status != 200)
        || !body["error"].is_null()
    {
        let error = [&value["error"], &body["error"]].into_iter().find(|error| !error.is_null());
        let why = error.map_or_else(|| format!("status {}", status.unwrap_or_default()), reason);
        line.answers.push(Answer::failed(why));
        return Ok(line);
    }
    if let Some(items) = body["output"].as_array() {
        line.push(response(body, items));
        return Ok(line);
    }
    let name = Format::Batch.name();
    let choices = body["choices"]
        .as_array()
        .with_context(|| format!("{name} without `choices` in its `body`"))?;
    for choice in choices.iter().take(MAX_ANSWERS + 1) {
        line.push(self::choice(choice));
    }
    if let ([one], [_]) = (line.answers.as_mut_slice(), choices.as_slice()) {
        one.tokens = token_count(&body["usage"]["completion_tokens"]);
    }
    Ok(line)
}

/// A line of Anthropic's batch output.
pub(super) fn anthropic(value: &Value) -> Result<Line> {
    let (mut line, result) = (request(value)?, &value["result"]);
    let message = &result["message"];
    match result["type"].as_str() {
        Some("succeeded") => {
            let ending = Ending::from_reason(&message["stop_reason"]);
            let why = || "no text in the message".to_owned();
            line.push(answer(content(&message["content"]), ending, why));
        }
        Some(kind) => {
            let why = result.get("error").map_or_else(|| kind.to_owned(), reason);
            line.answers.push(Answer::failed(why));
        }
        None => bail!("{} without `type` in its `result`", Format::AnthropicBatch.name()),
    }
    Ok(line)
}

/// The problem of a request, and which request it was: a file that was joined with itself has its lines twice.
fn request(value: &Value) -> Result<Line> {
    let id =
        first_id(value, &["custom_id"]).context("`custom_id` is neither a text nor a number")?;
    let ids = [&value["id"], &value["response"]["request_id"], &value["response"]["body"]["id"]];
    let request = ids.into_iter().find_map(Value::as_str);
    Ok(Line { id: Some(id), sample: request.map(|request| hash([request])), ..Line::default() })
}

/// A choice of a chat completion or of a completion.
pub(super) fn choice(choice: &Value) -> (Answer, Option<String>) {
    let message = &choice["message"];
    let ending = ["finish_reason", "stop_reason"]
        .iter()
        .map(|key| &choice[*key])
        .find(|reason| !reason.is_null());
    let ending = ending.map_or(Ending::Unknown, Ending::from_reason);
    let text = content(&message["content"]).or_else(|| choice["text"].as_str().map(str::to_owned));
    let refusal = message["refusal"].as_str().filter(|refusal| !refusal.is_empty());
    let is_thought = |key: &&str| message[*key].as_str().is_some_and(|text| !text.is_empty());
    let has_thought = ["reasoning_content", "reasoning"].iter().any(is_thought);
    let why = || match (refusal, has_thought) {
        (Some(refusal), _) => format!("refused: {}", reason(&refusal.into())),
        (None, true) => "no content: the thought did not end".into(),
        (None, false) => "no content".into(),
    };
    let is_empty = text.as_ref().is_none_or(String::is_empty);
    let (mut answer, unknown) =
        answer(text.filter(|_| !(is_empty && refusal.is_some())), ending, why);
    // Servers with a parser for reasoning hand thoughts out apart.
    (answer.starts_inside, answer.is_stripped) =
        (has_thought && is_empty, has_thought && !is_empty);
    (answer, unknown)
}

/// The body of a response, with its output's items.
fn response(body: &Value, items: &[Value]) -> (Answer, Option<String>) {
    let ending = match body["incomplete_details"]["reason"].as_str() {
        Some(_) => Ending::from_reason(&body["incomplete_details"]["reason"]),
        None => Ending::from_reason(&body["status"]),
    };
    let messages = || items.iter().filter(|item| item["type"] == "message");
    let refusal = messages()
        .flat_map(|item| item["content"].as_array().into_iter().flatten())
        .find_map(|part| part["refusal"].as_str());
    let texts: Vec<String> = messages().filter_map(|item| content(&item["content"])).collect();
    let text = (!texts.is_empty()).then(|| texts.concat());
    let (mut answer, unknown) = answer(text, ending, || match refusal {
        Some(refusal) => format!("refused: {}", reason(&refusal.into())),
        None => "no message in the output".into(),
    });
    answer.tokens = token_count(&body["usage"]["output_tokens"]);
    (answer, unknown)
}
