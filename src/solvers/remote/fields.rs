//! The fields of a request that a server refuses, and requests without them.
//!
//! Servers of OpenAI's interface differ: some draw one completion a request, some give no log-probabilities, some
//! refuse `seed`, penalties or `max_tokens`. After a refusal that names a field, and after one before anything was
//! answered, the request is made again without it. Only fields that change nothing are left out: `top_p` 1, not .9.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use serde_json::Value;
use tealight_eval::number::counted;

use super::refusal::{self, Refusal};

/// The fields that a request can do without.
pub(super) const OPTIONAL: [&str; 20] = [
    "n",
    "logprobs",
    "seed",
    "max_tokens",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_k",
    "min_p",
    "repetition_penalty",
    "repeat_penalty",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "dry_multiplier",
    "dynatemp_range",
    "mirostat",
    "skip_special_tokens",
    "return_token_ids",
];
/// Equal refusals after which a server that has answered nothing refuses every prompt.
const MANY: usize = 32;

/// The fields that requests leave out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LeftOut {
    names: BTreeSet<&'static str>,
    /// Most completions of a request, where the server takes fewer than were asked for.
    most: Option<usize>,
    /// Whether everything optional is left out, since the server does not say which field it refuses.
    is_bare: bool,
}

/// What is known of a server's fields.
#[derive(Default)]
pub(super) struct Fields {
    left_out: Mutex<LeftOut>,
    has_answered: AtomicBool,
    refusals: Mutex<HashMap<String, usize>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fields {
    /// What requests leave out now.
    pub(super) fn left_out(&self) -> LeftOut {
        locked(&self.left_out).clone()
    }

    /// Notes that the server answered a request without these; the sentence to say where that is new.
    pub(super) fn accept(&self, accepted: &LeftOut) -> Option<String> {
        self.has_answered.store(true, Ordering::Relaxed);
        let mut known = locked(&self.left_out);
        let new: Vec<&str> = accepted.names.difference(&known.names).copied().collect();
        let is_fewer = accepted.most.is_some() && accepted.most != known.most;
        known.names.extend(&accepted.names);
        known.most = match (known.most, accepted.most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let mut notes = Vec::new();
        if !new.is_empty() {
            let names = new.join(",");
            let renamed = match new.contains(&"max_tokens") {
                true => "; the limit is sent as max_completion_tokens",
                false => "",
            };
            notes.push(format!(
                "Tealight now sends requests without {names}, which the server refuses{renamed}"
            ));
        }
        if let Some(most) = accepted.most.filter(|_| is_fewer) {
            notes.push(format!(
                "the server returns at most {} per request; Tealight sends more requests",
                counted(most, "completion")
            ));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Notes that a prompt was refused.
    pub(super) fn refuse(&self, refusal: Refusal) -> anyhow::Error {
        let mut refusals = locked(&self.refusals);
        let count = refusals.entry(refusal.words.clone()).or_default();
        *count += 1;
        if *count >= MANY && !self.has_answered() {
            return anyhow::anyhow!("the server refuses every request: {refusal}");
        }
        // As many texts as there are prompts are not kept.
        if refusals.len() > MANY * MANY {
            refusals.clear();
        }
        refusal.into()
    }

    /// Whether the server has answered a request.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }
}

impl LeftOut {
    /// Most completions of a request.
    pub(super) fn most(&self) -> usize {
        if self.names.contains("n") { 1 } else { self.most.unwrap_or(usize::MAX) }
    }

    /// Takes the fields out of a request.
    pub(super) fn apply(&self, body: &mut Value) -> Result<()> {
        for name in &self.names {
            if !is_neutral(name, &body[*name]) {
                bail!(
                    "`{name}` is set to {}, but the server refuses this field; remove the setting",
                    body[*name]
                );
            }
            let Some(fields) = body.as_object_mut() else { continue };
            let value = fields.remove(*name);
            if let ("max_tokens", Some(limit)) = (*name, value) {
                fields.insert("max_completion_tokens".into(), limit);
            }
        }
        Ok(())
    }

    /// Learns from a refusal of `body` what to leave out; whether it is to be tried again.
    pub(super) fn learn(&mut self, body: &Value, text: &str, has_answered: bool) -> bool {
        let lower = text.to_lowercase();
        if refusal::is_of_length(&lower) {
            return false;
        }
        let (named, is_of_another) = refusal::named(&lower);
        let n = body["n"].as_u64().unwrap_or(1) as usize;
        let mut is_changed = false;
        for name in named {
            if name == "n" && n > 1 {
                self.most = Some(n / 2);
                is_changed = true;
            } else if body.get(name).is_some() && is_neutral(name, &body[name]) {
                is_changed |= self.names.insert(name);
            }
        }
        // A field that the message names and the request lacks, such as `messages`, is not ours to leave out.
        if is_changed || has_answered || is_of_another || self.is_bare {
            return is_changed;
        }
        self.is_bare = true;
        // The limit of the length stays: it has a name of its own where it is refused.
        let rest = OPTIONAL.into_iter().filter(|name| *name != "max_tokens");
        let rest = rest.filter(|name| body.get(*name).is_some_and(|value| is_neutral(name, value)));
        self.names.extend(rest);
        true
    }
}

/// Whether leaving a field out changes nothing that is sampled, by a server without defaults of its own.
fn is_neutral(name: &str, value: &Value) -> bool {
    let is = |number: f64| value.as_f64().is_some_and(|value| value == number);
    match name {
        "temperature" | "top_p" => value.is_null() || is(1.0),
        "top_k" => value.is_null() || is(0.0) || is(-1.0),
        "min_p" => value.is_null() || is(0.0),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(n: usize) -> Value {
        json!({"model": "m", "messages": [], "n": n, "temperature": 1.0, "max_tokens": 9, "top_p": 0.9, "seed": 3,
            "presence_penalty": 0, "logprobs": true})
    }

    /// The request after a refusal, and most completions; none where the prompt is what is refused.
    fn after(text: &str, has_answered: bool) -> Option<(Value, usize)> {
        let mut left_out = LeftOut::default();
        let mut request = body(8);
        left_out.learn(&request, text, has_answered).then(|| {
            left_out.apply(&mut request).unwrap();
            (request, left_out.most())
        })
    }

    #[test]
    fn a_refused_field_is_left_out() {
        for (text, name) in [
            (
                r#"{"error":{"message":"logprobs is not supported with this model","param":"logprobs"}}"#,
                "logprobs",
            ),
            (r#"{"error":{"message":"unknown field `seed`"}}"#, "seed"),
            (
                r#"{"detail":[{"loc":["body","presence_penalty"],"msg":"extra fields not permitted"}]}"#,
                "presence_penalty",
            ),
            (r#"{"message":"property 'seed' is unsupported"}"#, "seed"),
            ("seed: unknown parameter", "seed"),
        ] {
            let (request, most) = after(text, true).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((request.get(name), most), (None, usize::MAX), "{text}");
            assert_eq!(
                request.as_object().unwrap().len(),
                body(8).as_object().unwrap().len() - 1,
                "{text}"
            );
        }
        let renamed =
            r#"{"error":{"message":"Use 'max_completion_tokens' instead.","param":"max_tokens"}}"#;
        let (request, _) = after(renamed, true).unwrap();
        assert_eq!(
            (request.get("max_tokens"), &request["max_completion_tokens"]),
            (None, &json!(9))
        );
        for text in [
            r#"{"error":{"message":"Only n=1 is supported","param":"n"}}"#,
            r#"{"error":{"message":"n must be at most 4"}}"#,
            r#"{"error":{"message":"Multiple candidates is not enabled for this model"}}"#,
            r#"{"error":{"message":"candidate_count must be 1"}}"#,
        ] {
            assert_eq!(after(text, true).unwrap().1, 4, "{text}");
        }
    }

    #[test]
    fn a_refused_prompt_is_no_field() {
        for text in [
            r#"{"error":{"message":"This model maximum context length is 10 tokens"}}"#,
            r#"{"error":{"message":"max_tokens is too large: 9. This model's maximum context length is 8 tokens","param":"max_tokens"}}"#,
            r#"{"error":{"message":"prompt is too long: 12 tokens > 8 maximum"}}"#,
            r#"{"error":{"message":"flagged by content_filter","param":"prompt"}}"#,
        ] {
            assert_eq!(after(text, false), None, "{text}");
        }
        // After an answer the server's fields are known to be right.
        assert_eq!(after("{\"error\":{\"message\":\"Bad Request\"}}", true), None);
        let (request, most) = after("{\"error\":{\"message\":\"Bad Request\"}}", false).unwrap();
        // What decides the samples stays.
        assert_eq!((&request["top_p"], request.get("seed"), most), (&json!(0.9), None, 1));
        assert_eq!(request["max_tokens"], 9);
        // A filter that was asked for is not left out.
        assert_eq!(after("{\"error\":{\"message\":\"top_p is not supported\"}}", true), None);
    }

    #[test]
    fn fields_that_are_left_out_are_said_once() {
        let fields = Fields::default();
        let mut left_out = fields.left_out();
        assert!(left_out.learn(&body(1), "logprobs: unknown", true));
        assert!(fields.accept(&left_out).unwrap().contains("without logprobs"));
        assert_eq!(fields.accept(&left_out), None);
        let left_out = LeftOut { names: ["top_p"].into(), ..LeftOut::default() };
        let error = left_out.apply(&mut body(1));
        assert!(error.unwrap_err().to_string().contains("`top_p` is set to 0.9"));
    }

    #[test]
    fn a_server_that_refuses_everything_ends_the_run() {
        let fields = Fields::default();
        let refuse = || {
            let words = "no such model".to_owned();
            fields.refuse(Refusal { status: 400, text: String::new(), words })
        };
        assert!((1..MANY).all(|_| refuse().is::<Refusal>()));
        assert!(refuse().to_string().contains("refuses every request: 400 no such model"));
        fields.accept(&LeftOut::default());
        assert!(refuse().is::<Refusal>());
    }
}
