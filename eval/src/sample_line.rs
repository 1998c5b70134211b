//! A line of a samples file to its sample.

use serde::Deserialize;
use tealight_datasets::Verdict;
use tealight_datasets::verify::math::Location;

use crate::sample::Thinking;
use crate::{Sample, Truncated};

/// The keys of a line. Reading a verdict between other keys by a derived definition takes twice as long, because serde
/// first copies all keys.
#[derive(Deserialize)]
pub(crate) struct Fields {
    problem: String,
    sample: usize,
    completion: String,
    verdict: Kind,
    class: Option<String>,
    #[serde(default)]
    value: String,
    why: Option<String>,
    answer: Option<String>,
    found: Option<String>,
    #[serde(default)]
    is_too_costly: bool,
    reward: Option<f64>,
    answer_location: Option<Location>,
    is_finished: bool,
    #[serde(default)]
    is_end_unknown: bool,
    tokens: usize,
    logp: Option<f64>,
    failure: Option<String>,
    #[serde(default)]
    is_missing: bool,
    other_verdict: Option<f64>,
    thinking: Option<Thinking>,
    #[serde(default)]
    truncated: Truncated,
}

/// The names of verdicts.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Correct,
    Wrong,
    NoAnswer,
    Unparsable,
    Unjudged,
}

impl TryFrom<Fields> for Sample {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        let there =
            |found: Option<String>, key: &str| found.ok_or(format!("missing field `{key}`"));
        let Fields { class, value, why, answer, is_too_costly, .. } = fields;
        let verdict = match fields.verdict {
            Kind::Correct => Verdict::Correct { class: there(class, "class")?, value },
            Kind::Wrong => Verdict::Wrong { why, answer },
            Kind::NoAnswer => Verdict::NoAnswer,
            Kind::Unparsable => Verdict::Unparsable { found: there(fields.found, "found")? },
            Kind::Unjudged => Verdict::Unjudged { why: there(why, "why")?, is_too_costly },
        };
        Ok(Self {
            verdict,
            problem: fields.problem,
            sample: fields.sample,
            completion: fields.completion,
            reward: fields.reward,
            found: fields.answer_location,
            is_finished: fields.is_finished,
            is_end_unknown: fields.is_end_unknown,
            tokens: fields.tokens,
            logp: fields.logp,
            failure: fields.failure,
            is_missing: fields.is_missing,
            other_verdict: fields.other_verdict,
            file_verdict: None,
            thinking: fields.thinking,
            truncated: fields.truncated,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_verdict_is_read_as_it_was_written_and_needs_its_keys() {
        for (verdict, needed) in [
            (Verdict::Correct { class: "c".into(), value: "7".into() }, Some("class")),
            (Verdict::Wrong { why: Some("w".into()), answer: Some("8".into()) }, None),
            (Verdict::NoAnswer, None),
            (Verdict::Unparsable { found: "f".into() }, Some("found")),
            (Verdict::Unjudged { why: "w".into(), is_too_costly: true }, Some("why")),
        ] {
            let location = json!({"rule": "box", "start": 1, "end": 2});
            let sample = Sample {
                found: serde_json::from_value(location).unwrap(),
                thinking: Some(Thinking { starts_inside: true, is_finished: false, tokens: 2 }),
                truncated: Truncated::Judged,
                ..crate::fixtures::sample(1, "x\n\"y\"", verdict)
            };
            let line = sample.line().unwrap();
            assert_eq!(serde_json::from_slice::<Sample>(&line).unwrap(), sample);
            for key in needed.into_iter().chain(["problem", "verdict", "tokens"]) {
                let mut value: Value = serde_json::from_slice(&line).unwrap();
                value.as_object_mut().unwrap().shift_remove(key);
                let error = serde_json::from_value::<Sample>(value).unwrap_err().to_string();
                assert!(error.contains(&format!("missing field `{key}`")), "{error}");
            }
        }
    }
}
