//! The body of a server's answer to completions. Every choice in it is a sample, also one without a text.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tealight_eval::Completion;
use tealight_eval::completion::{Reading, reason};
use tealight_eval::grade::{plausible_logp, token_count};

/// One completion that a server drew.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServerSample {
    /// As evaluations see it.
    pub(super) answer: Completion,
    /// Its tokens, where the server gives them; whether the last one ends it differs from server to server.
    pub(super) token_ids: Option<Vec<u32>>,
    /// The log-probability of each, where the server gives them.
    pub(super) token_logp: Option<Vec<f64>>,
    /// The versions of the weights that its tokens were drawn from, where the server gives them.
    pub(super) versions: Vec<String>,
}

/// Most completions in a response body.
const MAX_CHOICES: usize = 1 << 16;

/// A response body.
pub(super) struct Answers {
    /// The name of the model that answered, where the server gives one.
    pub(super) model: Option<String>,
    /// The completions, also those without a text.
    pub(super) samples: Vec<ServerSample>,
    /// Finish reasons that nobody here knows.
    pub(super) unknown_endings: Vec<String>,
}

impl Answers {
    fn new(model: Option<String>, read: Vec<(ServerSample, Option<String>)>) -> Self {
        let (samples, unknown): (_, Vec<Option<String>>) = read.into_iter().unzip();
        Self { model, samples, unknown_endings: unknown.into_iter().flatten().collect() }
    }
}

/// The JSON of a response body.
pub(super) fn parse(text: &[u8]) -> Result<Value> {
    let text = str::from_utf8(text).context("not UTF-8")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    tealight_datasets::json::parse(text).context("not JSON")
}

/// The error that a server gives in a body that says nothing else: its code, where it is a number, and its words.
pub(super) fn error(body: &Value) -> Option<(Option<u16>, String)> {
    let body = if body.is_array() { &body[0] } else { body };
    let error = body.get("error").filter(|error| !error.is_null() && body["choices"].is_null())?;
    let code = [&error["code"], &error["status"], &body["code"]].into_iter().find_map(|code| {
        let number = code.as_u64().or_else(|| code.as_str()?.parse().ok());
        number.and_then(|number| u16::try_from(number).ok())
    });
    Some((code, reason(error)))
}

/// The completions in a response body.
pub(super) fn read(body: &Value) -> Result<Answers> {
    // SGLang's own: one object, or a list where several were asked for.
    let is_native = |value: &Value| value.get("meta_info").is_some();
    if is_native(body) {
        return Ok(Answers::new(None, vec![native(body)]));
    }
    if let Some(all) = body.as_array().filter(|all| all.iter().any(is_native)) {
        return Ok(Answers::new(None, all.iter().map(native).collect()));
    }
    let choices = body["choices"].as_array().context("no `choices`")?;
    ensure!(
        choices.len() <= MAX_CHOICES,
        "{} choices, above the limit of {MAX_CHOICES}",
        choices.len()
    );
    // Servers give the tokens of all choices together.
    let tokens = token_count(&body["usage"]["completion_tokens"]);
    let each = tokens / choices.len().max(1);
    let model = body["model"].as_str().map(|name| name.chars().take(200).collect());
    Ok(Answers::new(model, choices.iter().map(|choice| sample(choice, each)).collect()))
}

fn sample(choice: &Value, tokens: usize) -> (ServerSample, Option<String>) {
    let Reading { mut completion, unknown_ending } =
        Reading::from_choice(choice).unwrap_or_else(Reading::unread);
    let logps = logps(&choice["logprobs"]);
    let token_ids = token_ids(choice);
    completion.tokens = match (&token_ids, &logps) {
        (Some(ids), _) => ids.len(),
        (None, Some(logps)) => logps.len(),
        (None, None) => tokens,
    };
    completion.logp = logps.as_ref().map(|logps| logps.iter().sum());
    let versions = versions(choice);
    (ServerSample { answer: completion, token_ids, token_logp: logps, versions }, unknown_ending)
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
fn native(one: &Value) -> (ServerSample, Option<String>) {
    let meta = &one["meta_info"];
    let choice = json!({"text": one["text"], "finish_reason": meta["finish_reason"]});
    let Reading { mut completion, unknown_ending } =
        Reading::from_choice(&choice).unwrap_or_else(Reading::unread);
    let token = |token: &Value| {
        Some((plausible_logp(token[0].as_f64()?)?, u32::try_from(token[1].as_u64()?).ok()?))
    };
    let tokens = meta["output_token_logprobs"].as_array();
    let tokens: Option<Vec<(f64, u32)>> =
        tokens.and_then(|tokens| tokens.iter().map(token).collect());
    let (token_logp, token_ids) = tokens.map(|tokens| tokens.into_iter().unzip()).unzip();
    let token_logp: Option<Vec<f64>> = token_logp;
    let token_ids: Option<Vec<u32>> = token_ids;
    completion.tokens = token_ids.as_ref().map_or(0, Vec::len);
    completion.logp = token_logp.as_ref().map(|logp| logp.iter().sum());
    (
        ServerSample { answer: completion, token_ids, token_logp, versions: Vec::new() },
        unknown_ending,
    )
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
        let answers = read(&body).unwrap().samples;
        let fields = |index: usize| {
            let answer = &answers[index].answer;
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
        let sample = read(&body).unwrap().samples.remove(0);
        assert_eq!(sample.versions, ["3-x", "4-x"]);
        assert_eq!(prompt_logp(&body, &[5, 7]), Some(vec![-1.5]));
        // Of another token, of too few, of none.
        assert_eq!(prompt_logp(&body, &[5, 8]), None);
        assert_eq!(prompt_logp(&body, &[5, 7, 9]), None);
        assert_eq!(prompt_logp(&json!({"choices": [{}]}), &[5]), None);
    }

    #[test]
    fn every_choice_is_a_sample() {
        let body = json!({"choices": [
            {"text": "a", "finish_reason": "stop", "token_ids": [1, 2],
                "logprobs": {"token_logprobs": [-1.0, -0.5]}},
            {"message": {"content": null}, "finish_reason": "stop"},
            {"text": "b"},
            {"text": "c", "finish_reason": "content_filter"},
            {"message": {"content": "d"}, "finish_reason": "length",
                "logprobs": {"content": [{"id": 7, "logprob": -2.0}]}},
            {"message": {"content": "e"}, "finish_reason": "bored"},
        ]});
        let answers = read(&body).unwrap();
        assert_eq!(answers.unknown_endings, ["bored"]);
        let samples = answers.samples;
        let failed: Vec<_> = samples.iter().map(|one| one.answer.failure.is_some()).collect();
        assert_eq!(failed, [false, true, false, true, false, false]);
        assert_eq!((samples[0].answer.logp, samples[0].answer.tokens), (Some(-1.5), 2));
        assert_eq!(samples[4].token_ids, Some(vec![7]));
        assert!(!samples[4].answer.is_finished && samples[2].answer.is_end_unknown);
        assert!(read(&json!([])).is_err() && parse(b"{\"choices\":").is_err());
    }

    #[test]
    fn an_error_in_a_body_is_the_servers() {
        let read_error = |body: Value| error(&body);
        let words = |code, words: &str| Some((code, words.to_owned()));
        assert_eq!(
            read_error(json!({"error": {"message": "overloaded", "code": 503}})),
            words(Some(503), "overloaded")
        );
        assert_eq!(
            read_error(json!({"error": {"message": "too long", "code": "400"}})),
            words(Some(400), "too long")
        );
        assert_eq!(read_error(json!({"error": "gone"})), words(None, "gone"));
        assert_eq!(
            read_error(json!([{"error": {"message": "quota", "code": 429}}])),
            words(Some(429), "quota")
        );
        assert_eq!(read_error(json!({"choices": [], "error": {"message": "late"}})), None);
        assert_eq!(read_error(json!({"choices": []})), None);
    }
}
