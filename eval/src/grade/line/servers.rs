//! The output of servers' batches. A request that failed is a completion that failed.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::fields::first_id;
use super::{Format, Line, hash, token_count};
use crate::completion::{Completion, Content, Ending, Reading, reason};

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
        line.answers.push(Completion::failed(why));
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
    line.push_choices(choices);
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
            line.push(Reading::new(Content::read(&message["content"]), ending));
        }
        Some(kind) => {
            let why = result.get("error").map_or_else(|| kind.to_owned(), reason);
            line.answers.push(Completion::failed(why));
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
    let models = [&value["response"]["body"]["model"], &value["result"]["message"]["model"]];
    Ok(Line {
        id: Some(id),
        sample: request.map(|request| hash([request])),
        model: models.into_iter().find_map(Value::as_str).map(str::to_owned),
        ..Line::default()
    })
}

/// The body of a response, with its output's items.
fn response(body: &Value, items: &[Value]) -> Reading {
    let ending = match body["incomplete_details"]["reason"].as_str() {
        Some(_) => Ending::from_reason(&body["incomplete_details"]["reason"]),
        None => Ending::from_reason(&body["status"]),
    };
    let mut content = Content::default();
    for item in items {
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                let part = Content::read(&item["content"]);
                if let Some(text) = part.text {
                    content.text.get_or_insert_default().push_str(&text);
                }
                content.refusal = content.refusal.or(part.refusal);
            }
            "reasoning" => content.has_thought = true,
            kind => content.has_call |= kind.ends_with("_call"),
        }
    }
    let mut reading = Reading::new(content, ending);
    reading.completion.tokens = token_count(&body["usage"]["output_tokens"]);
    reading
}
