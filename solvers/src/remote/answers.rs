//! The body of a server's answer to completions. A choice that is not whole is that sample's failure alone.

use anyhow::{Context, Result};
use serde_json::Value;
use tealight_eval::Answer;
use tealight_eval::grade::{plausible_logp, token_count};

/// One completion that a server drew.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServerSample {
    /// As evaluations see it.
    pub(super) answer: Answer,
    /// Its tokens, where the server gives them; whether the last one ends it differs from server to server.
    pub(super) token_ids: Option<Vec<u32>>,
    /// The log-probability of each, where the server gives them.
    pub(super) token_logp: Option<Vec<f64>>,
    /// The versions of the weights that its tokens were drawn from, where the server gives them.
    pub(super) versions: Vec<String>,
}

/// A response body.
pub(super) struct Answers {
    /// The name of the model that answered, where the server gives one.
    pub(super) model: Option<String>,
    /// The completions, each with the reason where it failed.
    pub(super) samples: Vec<Result<ServerSample, String>>,
}

/// The completions in a response body.
pub(super) fn read(text: &[u8]) -> Result<Answers> {
    let body: Value = serde_json::from_slice(text).context("not JSON")?;
    // SGLang's own: one object, or a list where several were asked for.
    let is_native = |value: &Value| value.get("meta_info").is_some();
    if is_native(&body) {
        return Ok(Answers { model: None, samples: vec![native(&body)] });
    }
    if let Some(all) = body.as_array().filter(|all| all.iter().any(is_native)) {
        return Ok(Answers { model: None, samples: all.iter().map(native).collect() });
    }
    let choices = body["choices"].as_array().context("no `choices`")?;
    // Servers give the tokens of all choices together.
    let tokens = token_count(&body["usage"]["completion_tokens"]);
    let each = tokens / choices.len().max(1);
    let model = body["model"].as_str().map(|name| name.chars().take(200).collect());
    Ok(Answers { model, samples: choices.iter().map(|choice| sample(choice, each)).collect() })
}

fn sample(choice: &Value, tokens: usize) -> Result<ServerSample, String> {
    let message = &choice["message"];
    // Servers with a parser for reasoning hand thoughts out apart; where one was never finished, there is no content.
    let is_thought = |key: &&str| message[*key].as_str().is_some_and(|text| !text.is_empty());
    let has_thought = ["reasoning_content", "reasoning"].iter().any(is_thought);
    let text = message["content"].as_str().or_else(|| choice["text"].as_str());
    let is_open = has_thought && text.is_none_or(str::is_empty);
    let text = text.or(is_open.then_some("")).ok_or("a choice without text")?;
    let is_finished = match choice["finish_reason"].as_str() {
        Some("stop" | "eos" | "stop_sequence") => true,
        Some("length") => false,
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            return Err(format!("a choice that ended by `{other}`"));
        }
        None => return Err("a choice without `finish_reason`".into()),
    };
    let logps = logps(&choice["logprobs"]);
    let token_ids = token_ids(choice);
    let count = match (&token_ids, &logps) {
        (Some(ids), _) => ids.len(),
        (None, Some(logps)) => logps.len(),
        (None, None) => tokens,
    };
    let logp = logps.as_ref().map(|logps| logps.iter().sum());
    Ok(ServerSample {
        answer: Answer {
            text: text.into(),
            is_finished,
            tokens: count,
            logp,
            starts_inside: is_open,
            is_stripped: has_thought && !is_open,
            ..Answer::default()
        },
        token_ids,
        token_logp: logps,
        versions: versions(choice),
    })
}

/// The versions in vLLM's spans of tokens.
fn versions(choice: &Value) -> Vec<String> {
    let spans = choice["weight_versions"].as_array().into_iter().flatten();
    let version = |span: &Value| Some(span["version"].as_str()?.chars().take(200).collect());
    spans.filter_map(version).collect()
}

/// The log-probabilities that vLLM gives the tokens of a prompt, of each after the first.
pub(super) fn prompt_logp(body: &Value, ids: &[u32]) -> Option<Vec<f64>> {
    let tokens = body["choices"][0]["prompt_logprobs"].as_array()?;
    if tokens.len() != ids.len() {
        return None;
    }
    let logp =
        |(token, id): (&Value, &u32)| plausible_logp(token[id.to_string()]["logprob"].as_f64()?);
    tokens.iter().zip(ids).skip(1).map(logp).collect()
}

/// A completion in SGLang's own form: `[log-probability, token, text]` for every token.
fn native(one: &Value) -> Result<ServerSample, String> {
    let meta = &one["meta_info"];
    let is_finished = match meta["finish_reason"]["type"].as_str() {
        Some("stop") => true,
        Some("length") => false,
        Some(other) => return Err(format!("a completion that ended by `{other}`")),
        None => return Err("a completion that does not say how it ended".into()),
    };
    let tokens = meta["output_token_logprobs"].as_array().ok_or("no `output_token_logprobs`")?;
    let token = |token: &Value| {
        Some((plausible_logp(token[0].as_f64()?)?, u32::try_from(token[1].as_u64()?).ok()?))
    };
    let tokens: Option<Vec<(f64, u32)>> = tokens.iter().map(token).collect();
    let (logp, ids): (Vec<f64>, Vec<u32>) =
        tokens.ok_or("a token without its log-probability")?.into_iter().unzip();
    Ok(ServerSample {
        answer: Answer {
            text: one["text"].as_str().unwrap_or_default().to_owned(),
            is_finished,
            tokens: ids.len(),
            logp: Some(logp.iter().sum()),
            ..Answer::default()
        },
        token_ids: Some(ids),
        token_logp: Some(logp),
        versions: Vec::new(),
    })
}

/// The log-probability of each token, in the form of chat or of plain completions.
fn logps(value: &Value) -> Option<Vec<f64>> {
    if let Some(content) = value["content"].as_array() {
        return content.iter().map(|token| plausible_logp(token["logprob"].as_f64()?)).collect();
    }
    let logps = value["token_logprobs"].as_array()?.iter();
    logps.map(|logp| plausible_logp(logp.as_f64()?)).collect()
}

/// The tokens: vLLM's own field, or llama.cpp's among the log-probabilities.
fn token_ids(choice: &Value) -> Option<Vec<u32>> {
    let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
    if let Some(ids) = choice["token_ids"].as_array() {
        return ids.iter().map(id).collect();
    }
    let content = choice["logprobs"]["content"].as_array()?;
    content.iter().map(|token| id(&token["id"])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn stripped_thoughts_are_detected() {
        let body = json!({"choices": [
            {"message": {"content": "4", "reasoning_content": "2 + 2"}, "finish_reason": "stop"},
            {"message": {"content": null, "reasoning_content": "2 +"}, "finish_reason": "length"},
            {"message": {"content": "4", "reasoning_content": null}, "finish_reason": "stop"},
        ]});
        let answers = read(body.to_string().as_bytes()).unwrap().samples;
        let fields = |index: usize| {
            let answer = &answers[index].as_ref().unwrap().answer;
            (answer.text.as_str(), answer.is_stripped, answer.starts_inside)
        };
        assert_eq!(
            [fields(0), fields(1), fields(2)],
            [("4", true, false), ("", false, true), ("4", false, false)]
        );
    }

    #[test]
    fn versions_and_log_probabilities_of_a_prompt_are_read_as_vllm_writes_them() {
        let body = json!({"choices": [{"text": "a", "finish_reason": "stop",
            "weight_versions": [{"version": "3-x", "start": 0, "end": 2}, {"version": "4-x", "start": 2, "end": 3}],
            "prompt_logprobs": [null, {"7": {"logprob": -1.5, "rank": 2, "decoded_token": "b"}}]}]});
        let sample = read(body.to_string().as_bytes()).unwrap().samples.remove(0).unwrap();
        assert_eq!(sample.versions, ["3-x", "4-x"]);
        assert_eq!(prompt_logp(&body, &[5, 7]), Some(vec![-1.5]));
        // Of another token, of too few, of none.
        assert_eq!(prompt_logp(&body, &[5, 8]), None);
        assert_eq!(prompt_logp(&body, &[5, 7, 9]), None);
        assert_eq!(prompt_logp(&json!({"choices": [{}]}), &[5]), None);
    }

    #[test]
    fn a_broken_choice_fails_alone() {
        let body = json!({"choices": [
            {"text": "a", "finish_reason": "stop", "token_ids": [1, 2],
                "logprobs": {"token_logprobs": [-1.0, -0.5]}},
            {"message": {"content": null}, "finish_reason": "stop"},
            {"text": "b"},
            {"text": "c", "finish_reason": "content_filter"},
            {"message": {"content": "d"}, "finish_reason": "length",
                "logprobs": {"content": [{"id": 7, "logprob": -2.0}]}},
        ]});
        let answers = read(body.to_string().as_bytes()).unwrap().samples;
        let ok: Vec<_> = answers.iter().map(Result::is_ok).collect();
        assert_eq!(ok, [true, false, false, false, true]);
        let first = answers[0].as_ref().unwrap();
        assert_eq!((first.answer.logp, first.answer.tokens), (Some(-1.5), 2));
        assert_eq!(answers[4].as_ref().unwrap().token_ids, Some(vec![7]));
        assert!(!answers[4].as_ref().unwrap().answer.is_finished);
        assert!(read(b"[]").is_err() && read(b"{\"choices\":").is_err());
    }
}
