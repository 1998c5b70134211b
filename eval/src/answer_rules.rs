//! By which rules the answers of an evaluation were found, for people.

use std::collections::BTreeMap;

use tealight_datasets::verify::math::Rule;

use crate::number::counted;
use crate::{Summary, Tally};

/// How often each rule found an answer.
pub(crate) fn counts(tallies: &[Tally]) -> BTreeMap<Rule, usize> {
    let mut rules = BTreeMap::new();
    for (rule, count) in tallies.iter().flat_map(|tally| &tally.rules) {
        *rules.entry(*rule).or_insert(0) += count;
    }
    rules
}

/// The share of each rule among the completions with an answer, in words: `answers found in 50 of 60 completions, by:
/// box 80.0 %, last number 20.0 %`, and how many could not be read; none where no verifier of mathematics judged.
pub fn describe(summary: &Summary) -> Option<String> {
    let (rules, completions) = (&summary.rules, summary.completions);
    let all: usize = rules.values().sum();
    let share = |(rule, count): (&Rule, &usize)| {
        let name = match rule {
            Rule::Hashes => "####",
            Rule::Number => "last number",
            Rule::Formula => "last formula",
            rule => rule.name(),
        };
        format!("{name} {:.1} %", 100.0 * *count as f64 / all as f64)
    };
    let shares: Vec<String> = rules.iter().map(share).collect();
    let found = format!("{all} of {}", counted(completions, "completion"));
    // Completions without a readable answer are those without any and those whose answer is no mathematics.
    let silent = (summary.no_answer * completions as f64).round() as usize;
    let unreadable = match (silent + all).saturating_sub(completions) {
        0 => String::new(),
        count => format!("; {count} of them could not be read"),
    };
    (all > 0).then(|| format!("answers found in {found}, by: {}{unreadable}", shares.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Completion, Sample, Summary, Tally};
    use tealight_core::Prompt;
    use tealight_datasets::{Problem, verify};

    #[test]
    fn the_rules_that_found_the_answers_are_counted() {
        let problem = Problem::new("sum", Prompt::Text("3 + 4".into()), "7");
        let verifier = verify::open("math").unwrap();
        let mut tally = Tally::new(&problem);
        let texts = ["\\boxed{7}", "\\boxed{8}", "#### 7", "we get 7 of them", "<think>7</think>"];
        for (number, text) in texts.into_iter().enumerate() {
            let answer =
                Completion { text: text.into(), is_finished: true, ..Completion::default() };
            let sample = Sample::judged(&problem, &*verifier, number, answer);
            if number == 0 {
                let found = sample.found.clone().unwrap();
                assert_eq!((found.rule, found.start, found.end), (Rule::Box, 7, 8));
            }
            tally.add(&sample);
        }
        let summary = Summary::new(&[tally], &[1]).unwrap();
        let expected = BTreeMap::from([(Rule::Box, 2), (Rule::Hashes, 1), (Rule::Number, 1)]);
        assert_eq!(summary.rules, expected);
        assert_eq!(
            describe(&summary).unwrap(),
            "answers found in 4 of 5 completions, by: box 50.0 %, #### 25.0 %, last number 25.0 %"
        );
        // One has no answer; if two more were silent, two of those found were no mathematics.
        let silent = Summary { no_answer: 0.6, ..summary.clone() };
        assert!(describe(&silent).unwrap().ends_with("25.0 %; 2 of them could not be read"));
        assert_eq!(describe(&Summary { rules: BTreeMap::new(), ..summary.clone() }), None);
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["rules"], serde_json::json!({"box": 2, "hashes": 1, "number": 1}));
    }

    #[test]
    fn places_count_the_thought_before_the_answer() {
        let problem = Problem::new("sum", Prompt::Text("3 + 4".into()), "7");
        let text = "<think>8</think>so \\boxed{7}";
        let answer = Completion { text: text.into(), is_finished: true, ..Completion::default() };
        let found = Sample::judged(&problem, &*verify::open("math").unwrap(), 0, answer).found;
        let found = found.unwrap();
        assert_eq!(&text[found.start..found.end], "7");
    }
}
