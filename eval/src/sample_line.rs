//! A line of a samples file to its sample.

use serde::Deserialize;
use tealight_datasets::Verdict;
use tealight_datasets::verify::math::Location;

use crate::sample::Thinking;
use crate::{Sample, Truncated};

/// The keys of a line. Reading a verdict between other keys through [`Sample`]'s own definition takes twice as long,
/// because serde first copies all keys.
#[derive(Deserialize)]
struct Fields {
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

impl Fields {
    /// The sample, unless its verdict lacks a key.
    fn sample(self) -> Option<Sample> {
        let verdict = match self.verdict {
            Kind::Correct => Verdict::Correct { class: self.class?, value: self.value },
            Kind::Wrong => Verdict::Wrong { why: self.why, answer: self.answer },
            Kind::NoAnswer => Verdict::NoAnswer,
            Kind::Unparsable => Verdict::Unparsable { found: self.found? },
            Kind::Unjudged => {
                Verdict::Unjudged { why: self.why?, is_too_costly: self.is_too_costly }
            }
        };
        Some(Sample {
            problem: self.problem,
            sample: self.sample,
            completion: self.completion,
            verdict,
            reward: self.reward,
            found: self.answer_location,
            is_finished: self.is_finished,
            is_end_unknown: self.is_end_unknown,
            tokens: self.tokens,
            logp: self.logp,
            failure: self.failure,
            is_missing: self.is_missing,
            other_verdict: self.other_verdict,
            file_verdict: None,
            thinking: self.thinking,
            truncated: self.truncated,
        })
    }
}

impl Sample {
    /// Reads a line of a samples file.
    ///
    /// # Errors
    /// What is wrong with the line, as serde says it of a sample.
    pub fn parse(line: &[u8]) -> serde_json::Result<Self> {
        let fields = serde_json::from_slice::<Fields>(line).ok();
        match fields.and_then(Fields::sample) {
            Some(sample) => Ok(sample),
            // A key that its verdict does not have may hold anything.
            None => serde_json::from_slice(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The two ways to read a line give one result.
    fn is_read_alike(line: &[u8]) -> bool {
        let (fast, slow) = (Sample::parse(line), serde_json::from_slice::<Sample>(line));
        match (fast, slow) {
            (Ok(fast), Ok(slow)) => assert_eq!(fast, slow),
            (Err(fast), Err(slow)) => {
                assert_eq!(fast.to_string(), slow.to_string());
                return false;
            }
            (fast, slow) => panic!("{fast:?} and {slow:?}: {}", String::from_utf8_lossy(line)),
        }
        true
    }

    #[test]
    fn lines_are_read_as_samples_are_defined() {
        let common = json!({"problem": "a", "sample": 1, "completion": "x\n\"y\"", "is_finished": true,
            "tokens": 3, "logp": null});
        let line = |more: Value| {
            let mut line = common.clone();
            line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            line
        };
        let lines = [
            json!({"verdict": "correct", "class": "c", "value": "7",
                "answer_location": {"rule": "box", "start": 1, "end": 2}}),
            json!({"verdict": "correct", "class": "c"}),
            json!({"verdict": "wrong", "why": "w", "answer": "8", "reward": 0.25, "truncated": "judged"}),
            json!({"verdict": "wrong", "found": {"rule": "box"}, "class": 3, "value": null}),
            json!({"verdict": "no_answer", "is_finished": false, "is_end_unknown": true, "failure": "f",
                "thinking": {"starts_inside": true, "is_finished": false, "tokens": 2}}),
            json!({"verdict": "unparsable", "found": "f"}),
            json!({"verdict": "unjudged", "why": "w", "is_too_costly": true, "logp": -0.1}),
        ];
        for more in lines {
            let whole = line(more);
            assert!(is_read_alike(whole.to_string().as_bytes()), "{whole}");
            // Without each key, and with each of another kind.
            for key in whole.as_object().unwrap().keys() {
                for other in [None, Some(Value::Null), Some(json!([1])), Some(json!("z"))] {
                    let mut changed = whole.clone();
                    match other {
                        None => drop(changed.as_object_mut().unwrap().shift_remove(key)),
                        Some(other) => changed[key] = other,
                    }
                    is_read_alike(changed.to_string().as_bytes());
                }
                let twice = format!("{{{}: 1, {}", json!(key), &whole.to_string()[1..]);
                is_read_alike(twice.as_bytes());
            }
            let text = whole.to_string();
            (0..text.len()).for_each(|end| assert!(!is_read_alike(&text.as_bytes()[..end])));
        }
    }
}
