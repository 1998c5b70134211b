//! The output of servers' batches. A request that failed is a completion that failed.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tealight_datasets::json;

use super::fields::first_id;
use super::{Format, Line, hash, token_count};
use crate::completion::{Completion, Content, Ending, Reading, reason};

/// A line of OpenAI's batch output, which vLLM and others write too: chat completions, completions, or responses.
pub(super) fn openai(value: &Value) -> Result<Line> {
    let mut line = request(value)?;
    // Some write the body in the response's place, or as text.
    let body = value["response"].get("body").unwrap_or(&value["response"]);
    let parsed = body.as_str().and_then(|text| json::parse(text).ok());
    let body = parsed.as_ref().unwrap_or(body);
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
    if body["choices"].as_array().is_some_and(Vec::is_empty) {
        return Ok(line);
    }
    let name = Format::Batch.name();
    if !body.is_object() {
        bail!("{name} without `choices` in its `body`");
    }
    line.push_response(body).context(name)?;
    if let [one] = line.answers.as_mut_slice() {
        let tokens =
            ["completion_tokens", "output_tokens"].iter().find_map(|key| body["usage"].get(*key));
        one.tokens = tokens.map_or(0, token_count);
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
