//! Whether evaluations may be compared: what was asked, how it was sampled and who judged must be the same.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::grade::problems::is_equal;
use crate::number::counted;
use crate::results::{Question, Results, SetResult};

/// Settings of sampling that an evaluation's numbers depend on, as `config` in its results calls them.
pub const SAMPLING: [&str; 4] = ["max_completion_length", "top_k", "top_p", "min_p"];
/// Settings of rewards and solution classes that the numbers depend on.
const REWARDS: [&str; 3] = ["reward_weights", "correct_threshold", "classes"];
/// Settings that prompts are made by.
pub const PROMPTING: [&str; 5] =
    ["instruction", "system_prompt", "prompt_template", "few_shot", "few_shot_dataset"];

/// All keys that runs may differ in.
pub fn keys() -> Vec<&'static str> {
    [
        &["temperature", "n", "verifier", "truncated", "failed", "prompts", "golds"][..],
        &SAMPLING,
        &PROMPTING,
        &REWARDS,
    ]
    .concat()
}

/// The settings that a set's numbers depend on, by key; unknown ones are missing.
fn settings(results: &Results, set: &SetResult) -> BTreeMap<&'static str, String> {
    let mut known = BTreeMap::new();
    let mut put = |key: &'static str, value: String| {
        known.insert(key, value);
    };
    if let Some(temperature) = set.temperature {
        put("temperature", temperature.to_string());
        // Only what was sampled here says how.
        for key in SAMPLING.into_iter().chain(PROMPTING).chain(REWARDS) {
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
    // A file of completions may say it.
    for key in ["temperature"].into_iter().chain(SAMPLING) {
        if let Some(value) = results.config["file_sampling"][key].as_str() {
            put(key, value.to_owned());
        }
    }
    put("n", set.summary.samples_each());
    // Results of before there was a choice counted them as incorrect.
    let rule = results.config.get("truncated").and_then(Value::as_str);
    put("truncated", rule.unwrap_or("wrong").to_owned());
    // The rule matters where some completion has no answer.
    let rule = results.config.get("failed").and_then(Value::as_str);
    if set.summary.failed > 0 {
        put("failed", "wrong".into());
    } else if rule == Some("unjudged") && set.summary.unjudged > 0 {
        put("failed", "unjudged".into());
    }
    // Of several together, the name says nothing.
    let several = results.config.get("verifier").filter(|value| value.is_array());
    put("verifier", several.map_or_else(|| set.verifier.clone(), Value::to_string));
    known
}

/// One difference of two runs on a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Key of the setting.
    pub key: &'static str,
    /// Its value in the first run and in the second.
    pub values: [String; 2],
}

/// In which settings two evaluations of one set differ.
pub fn differences(
    first: (&Results, &SetResult),
    second: (&Results, &SetResult),
) -> Vec<Difference> {
    let (a, b) = (settings(first.0, first.1), settings(second.0, second.1));
    let mut different: Vec<Difference> = a
        .iter()
        .filter_map(|(key, value)| {
            let other = b.get(key).filter(|other| *other != value)?;
            Some(Difference { key, values: [value.clone(), other.clone()] })
        })
        .collect();
    // Where one does not say which completions were cut off, they count there and not in the other.
    let cut = |known: &BTreeMap<&str, String>, set: &SetResult| match &set.summary {
        summary if summary.truncated.is_none() => Some("unknown".to_owned()),
        summary if summary.truncated_correct > 0 && known["truncated"] == "wrong" => {
            let count = counted(summary.truncated_correct, "correct completion");
            Some(format!("incorrect, {count} included"))
        }
        _ => None,
    };
    if let (Some(one), Some(two)) = (cut(&a, first.1), cut(&b, second.1))
        && first.1.summary.truncated.is_none() != second.1.summary.truncated.is_none()
        && a["truncated"] == b["truncated"]
    {
        different.push(Difference { key: "truncated", values: [one, two] });
    }
    // Prompts and gold answers are compared where both have them, problem by problem.
    fn questions(set: &SetResult) -> impl Iterator<Item = (&str, &Question)> + Clone {
        set.problems.iter().map(|tally| tally.problem.as_str()).zip(&set.questions)
    }
    let others: BTreeMap<&str, &Question> = questions(second.1).collect();
    let pairs = questions(first.1).filter_map(|(id, one)| Some((id, one, *others.get(id)?)));
    let mut note = |key: &'static str,
                    what: &str,
                    is_other: &dyn Fn(&Question, &Question) -> bool| {
        let changed: Vec<&str> = pairs
            .clone()
            .filter(|(_, one, other)| is_other(one, other))
            .map(|(id, ..)| id)
            .collect();
        if let Some(id) = changed.first() {
            let values = [counted(changed.len(), what), format!("others, such as that of `{id}`")];
            different.push(Difference { key, values });
        }
    };
    note("prompts", "prompt", &|one, other| {
        let are_there = [one, other].iter().all(|question| !question.prompt.trim().is_empty());
        are_there && one.prompt != other.prompt
    });
    let is_math = first.1.verifier.starts_with("math");
    note("golds", "gold answer", &|one, other| {
        let are_choices = one.choice.is_some() && other.choice.is_some();
        let gold = |question: &Question| match are_choices {
            true => question.gold().trim().to_owned(),
            false => question.answer.trim().to_owned(),
        };
        let (one, other) = (gold(one), gold(other));
        one != other && !(is_math && !are_choices && is_equal(&one, &other))
    });
    different
}

/// The name of a run's model, without the address of the server that sampled.
fn model(run: &Results) -> &str {
    run.model.split(" at http").next().unwrap_or_default()
}

/// Whether `second` is a second draw of the first run's model whose samples are independent of those of all `runs`: as
/// that one was sampled, with a seed that no run has.
pub fn check_second_draw(
    (name, second): (&str, &Results),
    runs: &[(String, &Results)],
) -> Result<(), String> {
    let Some(((base_name, base), _)) = runs.split_first() else { return Ok(()) };
    let is_sampled = |run: &Results| run.sets.iter().all(|set| set.temperature.is_some());
    if is_sampled(base) && is_sampled(second) && model(base) != model(second) {
        return Err(format!(
            "--second-draw {name} holds samples of {}, the base {base_name} of {}: evaluate the base again, with another \
             --seed",
            second.model, base.model
        ));
    }
    for (set, other) in shared(base, second) {
        if let Some(difference) = differences((base, set), (second, other)).first() {
            let [a, b] = &difference.values;
            return Err(format!(
                "--second-draw {name}: {} of {} is {b} there and {a} in the base {base_name}; a second draw is sampled as \
                 the first was, but for its --seed",
                difference.key, set.name
            ));
        }
    }
    let seed = |run: &Results| run.config.get("seed").and_then(Value::as_u64);
    for (run_name, run) in runs {
        let same_seed = seed(second).is_some() && seed(second) == seed(run);
        let same_counts = run.sets.iter().any(|set| {
            let other = second.same_set(set);
            other.is_some_and(|other| set.problems.len() > 1 && are_identical(set, other))
        });
        if same_seed || same_counts {
            let what = if same_seed { "the seed" } else { "the samples" };
            return Err(format!(
                "--second-draw {name} has {what} of {run_name}: evaluate the base again with a --seed that no run was \
                 evaluated with"
            ));
        }
    }
    Ok(())
}

/// Says of runs that found the same, sample by sample, that they did.
pub fn identical(runs: &[(String, &Results)]) -> Vec<String> {
    let mut notes = Vec::new();
    for (i, (first, a)) in runs.iter().enumerate() {
        for (second, b) in &runs[i + 1..] {
            let mut sets = shared(a, b).peekable();
            if sets.peek().is_some() && sets.all(|(a, b)| are_identical(a, b)) {
                notes.push(format!("{first} and {second} are identical, problem by problem"));
            }
        }
    }
    notes
}

/// The sets that both have.
pub fn shared<'a>(
    first: &'a Results,
    second: &'a Results,
) -> impl Iterator<Item = (&'a SetResult, &'a SetResult)> {
    first.sets.iter().filter_map(|set| Some((set, second.same_set(set)?)))
}

/// Whether two evaluations of a set found the same, sample by sample as far as that is counted.
fn are_identical(first: &SetResult, second: &SetResult) -> bool {
    first.problems == second.problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn run(temperature: f64, prompt: &str, config: Value) -> Results {
        let set = SetResult {
            temperature: Some(temperature),
            questions: vec![fixtures::question(prompt, "1")],
            ..fixtures::set("s", vec![fixtures::tally("a", 4, 2)], &[1])
        };
        Results { config, ..fixtures::results("m", set) }
    }

    #[test]
    fn a_second_draw_is_of_the_base_and_independent() {
        let with = |model: &str, temperature: f64, seed: u64| {
            let config = serde_json::json!({"seed": seed});
            Results { model: model.into(), ..run(temperature, "p", config) }
        };
        let (base, tuned) = (with("base", 1.0, 0), with("tuned", 1.0, 0));
        let check = |second: Results, tuned: &Results| {
            let runs = [("base".to_owned(), &base), ("tuned".to_owned(), tuned)];
            check_second_draw(("again", &second), &runs)
        };
        assert_eq!(check(with("base", 1.0, 1), &tuned), Ok(()));
        let refused = |second, word: &str| {
            let why = check(second, &tuned).unwrap_err();
            assert!(why.contains(word) && why.contains("--second-draw again"), "{why}");
        };
        refused(with("other", 1.0, 1), "samples of other");
        refused(with("base", 0.7, 1), "temperature");
        refused(with("base", 1.0, 0), "the seed of base");
        // Nor may it share its random numbers with a run.
        let why = check(with("base", 1.0, 5), &with("tuned", 1.0, 5)).unwrap_err();
        assert!(why.contains("the seed of tuned"), "{why}");
        // A copy of the base's samples, whatever seed is written beside them.
        let several = |mut results: Results| {
            let problems = &mut results.sets[0].problems;
            problems.push(problems[0].clone());
            results
        };
        let runs = (several(with("base", 1.0, 0)), several(with("base", 1.0, 9)));
        let why =
            check_second_draw(("again", &runs.1), &[("base".to_owned(), &runs.0)]).unwrap_err();
        assert!(why.contains("the samples of base"), "{why}");
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
        // One file says which completions were cut off, and one does not.
        let (mut known, mut unknown) = (a.clone(), a.clone());
        known.sets[0].summary.truncated = Some(0.5);
        unknown.sets[0].summary.truncated = None;
        assert_eq!(keys(&known, &unknown), Vec::<&str>::new());
        known.sets[0].summary.truncated_correct = 2;
        assert_eq!(
            [keys(&known, &unknown), keys(&unknown, &known)],
            [["truncated"], ["truncated"]]
        );
        // Graded files do not record how their samples were drawn.
        let mut graded = run(1.0, "", Value::Null);
        graded.sets[0].temperature = None;
        assert_eq!(keys(&a, &graded), Vec::<&str>::new());
        for key in keys(&a, &b) {
            assert!(super::keys().contains(&key));
        }
    }
}
