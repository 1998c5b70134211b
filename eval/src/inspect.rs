//! An evaluation as a log of Inspect's (inspect.aisi.org.uk, `EvalLog` in JSON, version 2), which `inspect view` opens.

use chrono::DateTime;
use serde_json::{Map, Value, json};
use tealight_core::{fnv, names};
use tealight_datasets::Verdict;

use crate::export::measures;
use crate::results::{Question, Results, SetResult};
use crate::{Sample, Tally};

/// The scorer's name in the log.
const SCORER: &str = "tealight";
/// Most characters of a task's name in the name of a file.
const MAX_NAME: usize = 80;

/// Seconds since 1970 as Inspect writes a time.
fn time(seconds: u64) -> String {
    let at = DateTime::from_timestamp(seconds as i64, 0).unwrap_or_default();
    at.format("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}

/// The end of the name of a set's log: the same whenever it is written.
pub fn file_suffix(results: &Results, set: &SetResult) -> String {
    let task: String = names::file_name(&set.name).chars().take(MAX_NAME).collect();
    format!("_{}_{}.json", task.replace('_', "-"), id(results, set))
}

/// The name of a set's log that is written now, in seconds since 1970.
pub fn file_name(results: &Results, set: &SetResult, now: u64) -> String {
    format!("{}{}", time(now).replace(':', "-"), file_suffix(results, set))
}

fn id(results: &Results, set: &SetResult) -> String {
    let text = format!("{}\0{}\0{}", results.model, set.name, set.dataset);
    format!("{:016x}", fnv(text.bytes()))
}

/// The log of a set without its samples, which [`sample`] makes; written at `now`, in seconds since 1970.
pub fn header(results: &Results, set: &SetResult, now: u64) -> Value {
    let begun = now.saturating_sub(results.seconds.max(0.0) as u64);
    let id = id(results, set);
    let mut metrics = Map::new();
    for (measure, k, estimate) in measures(set) {
        let name = match k.is_empty() {
            true => measure,
            false => measure.replace("@k", &format!("@{k}")).replace("@tau", &format!("@{k}")),
        };
        let range = json!({"low": estimate.low, "high": estimate.high});
        // The log has no infinite numbers.
        if estimate.value.is_finite() {
            let metric = json!({"name": name, "value": estimate.value, "metadata": range});
            metrics.insert(name, metric);
        }
    }
    let judged: usize = set.problems.iter().map(|tally| tally.samples).sum();
    let unjudged: usize = set.problems.iter().map(|tally| tally.unjudged).sum();
    let setting = |key: &str| results.config.get(key).cloned().unwrap_or_default();
    json!({
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": id, "run_id": id, "task_id": id,
            "created": time(begun),
            "task": set.name,
            "dataset": {"name": set.dataset, "samples": set.problems.len()},
            "model": results.model,
            "model_generate_config": {
                "temperature": set.temperature, "seed": setting("seed"), "max_tokens": setting("max_completion_length"),
            },
            "config": {"epochs": set.summary.n.max(1)},
            "metadata": {"tealight": results.tealight, "settings": results.config, "verifier": set.verifier},
        },
        "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}},
        "results": {
            "total_samples": judged + unjudged,
            "completed_samples": judged + unjudged,
            "scores": [{
                "name": SCORER, "scorer": SCORER, "scored_samples": judged, "unscored_samples": unjudged,
                "metrics": metrics,
            }],
        },
        "stats": {"started_at": time(begun), "completed_at": time(now)},
    })
}

/// A sample of the log. One that could not be judged has no score.
pub fn sample(model: &str, question: &Question, tally: &Tally, sample: &Sample) -> Value {
    let user = json!({"role": "user", "content": question.prompt});
    let turns =
        question.turns.iter().map(|turn| json!({"role": turn.role, "content": turn.content}));
    let mut messages: Vec<Value> = turns.collect();
    if messages.is_empty() {
        messages.push(user);
    }
    let input = if question.turns.is_empty() { json!(question.prompt) } else { json!(messages) };
    let answer = json!({"role": "assistant", "content": sample.completion, "source": "generate", "model": model});
    messages.push(answer.clone());
    let stop = match (sample.is_end_unknown, sample.is_finished) {
        (true, _) => "unknown",
        (false, true) => "stop",
        (false, false) => "max_tokens",
    };
    let mut row = json!({
        "id": tally.problem,
        "epoch": sample.sample + 1,
        "input": input,
        "target": question.answer,
        "messages": messages,
        "output": {"model": model, "choices": [{"message": answer, "stop_reason": stop}]},
        "metadata": {"tokens": sample.tokens, "logp": sample.logp, "verdict": sample.verdict},
    });
    if sample.tokens > 0 {
        let usage = json!({"input_tokens": 0, "output_tokens": sample.tokens, "total_tokens": sample.tokens});
        row["output"]["usage"] = usage;
    }
    let (answer, why) = match &sample.verdict {
        Verdict::Correct { class, .. } => (Some(class.clone()), None),
        Verdict::Wrong { why, answer } => (answer.clone(), why.clone()),
        Verdict::NoAnswer => (None, Some("no answer was found".into())),
        Verdict::Unparsable { found } => {
            (Some(found.clone()), Some("the answer cannot be read".into()))
        }
        Verdict::Unjudged { .. } => return row,
    };
    let value = match &sample.verdict {
        Verdict::NoAnswer | Verdict::Unparsable { .. } => "N",
        _ if sample.is_correct() => "C",
        _ => "I",
    };
    row["scores"] = json!({SCORER: {"value": value, "answer": answer, "explanation": why}});
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;

    #[test]
    fn seconds_become_calendar_times() {
        for (seconds, written) in [
            (0, "1970-01-01T00:00:00+00:00"),
            (951_782_399, "2000-02-28T23:59:59+00:00"),
            (951_782_400, "2000-02-29T00:00:00+00:00"),
            (1_764_065_045, "2025-11-25T10:04:05+00:00"),
            (4_107_542_400, "2100-03-01T00:00:00+00:00"),
        ] {
            assert_eq!(time(seconds), written);
        }
    }

    #[test]
    fn a_log_counts_what_was_judged_and_names_are_files() {
        let tally =
            Tally { problem: "a".into(), samples: 2, correct: 1, unjudged: 1, ..Tally::default() };
        let set = SetResult {
            name: "../x/é:\u{1b}".into(),
            dataset: "d".into(),
            domain: None,
            verifier: "math".into(),
            temperature: Some(1.0),
            summary: Summary::new(std::slice::from_ref(&tally), &[1]).expect("a summary"),
            questions: vec![],
            problems: vec![tally.clone()],
            unusable: vec![],
            samples: None,
        };
        let results = Results {
            schema_version: crate::results::VERSION,
            tealight: "test".into(),
            model: "m".into(),
            config: json!({"seed": 3}),
            seconds: 60.0,
            sets: vec![],
        };
        let name = file_name(&results, &set, 0);
        assert!(name.starts_with("1970-01-01T00-00-00+00-00_"), "{name}");
        assert!(
            !name.contains(['/', '\\', ':', '\u{1b}']) && name.matches('_').count() == 2,
            "{name}"
        );
        let log = header(&results, &set, 90);
        assert_eq!(log["eval"]["created"], "1970-01-01T00:00:30+00:00");
        let score = &log["results"]["scores"][0];
        assert_eq!((&score["scored_samples"], &score["unscored_samples"]), (&json!(2), &json!(1)));
        assert_eq!(score["metrics"]["pass@1"]["value"], 0.5);
        let question = Question { prompt: "1 + 1?".into(), answer: "2".into(), turns: vec![] };
        let record = |verdict: Verdict, is_finished: bool| {
            let line = json!({"problem": "a", "sample": 4, "completion": "2", "verdict": "correct", "class": "2",
                "is_finished": is_finished, "tokens": 3, "logp": null});
            let read: Sample = serde_json::from_value(line).expect("a sample");
            sample("m", &question, &tally, &Sample { verdict, ..read })
        };
        let right = record(Verdict::correct("2", "2"), true);
        assert_eq!((&right["epoch"], &right["scores"][SCORER]["value"]), (&json!(5), &json!("C")));
        assert_eq!(right["messages"][1]["content"], "2");
        let cut = record(Verdict::correct("2", "2"), false);
        assert_eq!(cut["scores"][SCORER]["value"], "I");
        assert_eq!(cut["output"]["choices"][0]["stop_reason"], "max_tokens");
        assert_eq!(record(Verdict::NoAnswer, true)["scores"][SCORER]["value"], "N");
        let unjudged = record(Verdict::unjudged("no".into()), true);
        assert_eq!(unjudged.get("scores"), None);
    }
}
