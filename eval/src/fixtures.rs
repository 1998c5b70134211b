//! Counts, results and samples of tests.

use serde_json::json;
use tealight_datasets::Verdict;

use crate::results::{Question, Results, SetResult, VERSION};
use crate::{Sample, Summary, Tally, Truncated};

pub(crate) fn tally(problem: &str, samples: usize, correct: usize) -> Tally {
    Tally { problem: problem.into(), samples, correct, ..Tally::default() }
}

pub(crate) fn question(prompt: &str, answer: &str) -> Question {
    Question { prompt: prompt.into(), answer: answer.into(), choice: None, turns: Vec::new() }
}

pub(crate) fn set(name: &str, problems: Vec<Tally>, ks: &[usize]) -> SetResult {
    SetResult {
        name: name.into(),
        dataset: name.into(),
        domain: None,
        verifier: "math".into(),
        temperature: None,
        summary: Summary::new(&problems, ks).unwrap(),
        questions: Vec::new(),
        problems,
        unusable: Vec::new(),
        samples: None,
    }
}

pub(crate) fn results(model: &str, set: SetResult) -> Results {
    Results {
        schema_version: VERSION,
        tealight: String::new(),
        model: model.into(),
        config: json!({}),
        seconds: 0.0,
        sets: vec![set],
    }
}

/// A finished sample of problem `a`.
pub(crate) fn sample(number: usize, text: &str, verdict: Verdict) -> Sample {
    Sample {
        problem: "a".into(),
        sample: number,
        completion: text.into(),
        verdict,
        reward: None,
        found: None,
        is_finished: true,
        is_end_unknown: false,
        tokens: 3,
        logp: None,
        failure: None,
        is_missing: false,
        other_verdict: None,
        file_verdict: None,
        thinking: None,
        truncated: Truncated::default(),
    }
}
