//! Whether evaluations may be compared: what was asked, how it was sampled and who judged must be the same.

use std::collections::BTreeMap;

use serde_json::Value;
use tealight_datasets::fnv;

use crate::results::{Results, SetResult};

/// Settings of an evaluation that its numbers depend on, as `config` in its results calls them.
const RECORDED: [&str; 10] = [
    "max_completion_length",
    "top_k",
    "top_p",
    "min_p",
    "instruction",
    "system_prompt",
    "prompt_template",
    "few_shot",
    "few_shot_dataset",
    "few_shot_seed",
];
/// Settings that prompts are made by.
pub const PROMPTING: [&str; 6] = [
    "instruction",
    "system_prompt",
    "prompt_template",
    "few_shot",
    "few_shot_dataset",
    "few_shot_seed",
];
/// All keys that runs may differ in.
pub const KEYS: [&str; 14] = [
    "temperature",
    "n",
    "verifier",
    "prompts",
    "max_completion_length",
    "top_k",
    "top_p",
    "min_p",
    "instruction",
    "system_prompt",
    "prompt_template",
    "few_shot",
    "few_shot_dataset",
    "few_shot_seed",
];

/// What a set's numbers depend on, by key; what is not known is not there.
fn settings(results: &Results, set: &SetResult) -> BTreeMap<&'static str, String> {
    let mut known = BTreeMap::new();
    let mut put = |key: &'static str, value: String| {
        known.insert(key, value);
    };
    if let Some(temperature) = set.temperature {
        put("temperature", temperature.to_string());
        // Only what was sampled here says how.
        for key in RECORDED {
            let value = results.config.get(key).filter(|value| !value.is_null());
            put(
                key,
                value.map_or("none".into(), |value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                }),
            );
        }
    }
    put("n", set.summary.n.to_string());
    put("verifier", set.verifier.clone());
    known
}

/// One difference of two runs on a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The setting.
    pub key: &'static str,
    /// What it is in the first run and in the second.
    pub values: [String; 2],
}

/// In which settings two evaluations of one set differ.
pub fn differences(
    first: (&Results, &SetResult),
    second: (&Results, &SetResult),
) -> Vec<Difference> {
    let (a, b) = (settings(first.0, first.1), settings(second.0, second.1));
    let mut found: Vec<Difference> = a
        .iter()
        .filter_map(|(key, value)| {
            let other = b.get(key).filter(|other| *other != value)?;
            Some(Difference { key, values: [value.clone(), other.clone()] })
        })
        .collect();
    // Prompts are compared where both have them, problem by problem.
    let prompts = |set: &SetResult| -> BTreeMap<String, u64> {
        let pairs = set.problems.iter().zip(&set.questions);
        let said = pairs.filter(|(_, question)| !question.prompt.trim().is_empty());
        said.map(|(tally, question)| (tally.problem.clone(), fnv(question.prompt.bytes())))
            .collect()
    };
    let (a, b) = (prompts(first.1), prompts(second.1));
    let other = |(id, hash): &(&String, &u64)| b.get(*id).is_some_and(|other| other != *hash);
    let changed: Vec<&String> = a.iter().filter(other).map(|(id, _)| id).collect();
    if let Some(id) = changed.first() {
        let values =
            [format!("{} prompts", changed.len()), format!("others, such as that of `{id}`")];
        found.push(Difference { key: "prompts", values });
    }
    found
}

/// Whether two evaluations of a set found the same, sample by sample as far as that is counted.
pub fn are_identical(first: &SetResult, second: &SetResult) -> bool {
    first.problems == second.problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Question;
    use crate::{Summary, Tally};

    fn run(temperature: f64, prompt: &str, config: Value) -> Results {
        let problems =
            vec![Tally { problem: "a".into(), samples: 4, correct: 2, ..Tally::default() }];
        let set = SetResult {
            name: "s".into(),
            dataset: "s".into(),
            domain: None,
            verifier: "math".into(),
            temperature: Some(temperature),
            summary: Summary::new(&problems, &[1]).unwrap(),
            questions: vec![Question { prompt: prompt.into(), answer: "1".into() }],
            problems,
            unusable: vec![],
            samples: None,
        };
        let (tealight, model) = (String::new(), "m".to_owned());
        Results { schema_version: 1, tealight, model, config, seconds: 0.0, sets: vec![set] }
    }

    #[test]
    fn every_difference_is_listed() {
        let a = run(1.0, "p", serde_json::json!({"top_k": 0, "instruction": null}));
        let b = run(0.7, "q", serde_json::json!({"top_k": 5, "instruction": "x"}));
        let keys = |a: &Results, b: &Results| -> Vec<&str> {
            differences((a, &a.sets[0]), (b, &b.sets[0])).iter().map(|d| d.key).collect()
        };
        assert_eq!(keys(&a, &b), ["instruction", "temperature", "top_k", "prompts"]);
        assert_eq!(keys(&a, &a), Vec::<&str>::new());
        assert!(are_identical(&a.sets[0], &b.sets[0]));
        // What was not sampled here does not say how it was.
        let mut graded = run(1.0, "", Value::Null);
        graded.sets[0].temperature = None;
        assert_eq!(keys(&a, &graded), Vec::<&str>::new());
        for key in keys(&a, &b) {
            assert!(KEYS.contains(&key));
        }
    }
}
