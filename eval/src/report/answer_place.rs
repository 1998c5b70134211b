//! A sample to the place of its answer, as the page shows it: the rule, and the answer between a little text.

use serde_json::{Value, json};

use crate::Sample;

/// Most characters around an answer that are shown with the rule that found it.
const MAX_AROUND: usize = 40;
/// Longest answer that is shown with its rule, in characters.
const MAX_ANSWER: usize = 200;

/// The rule that found a sample's answer, and the answer with a little text before and after it; none where no rule
/// did.
pub(super) fn found(sample: &Sample) -> Option<Value> {
    let found = sample.found.as_ref()?;
    let text = sample.completion.as_str();
    // A file may say any place.
    let answer = text.get(found.start..found.end)?;
    let before: Vec<char> = text[..found.start].chars().rev().take(MAX_AROUND).collect();
    let before: String = before.into_iter().rev().collect();
    let after: String = text[found.end..].chars().take(MAX_AROUND).collect();
    let answer: String = answer.chars().take(MAX_ANSWER).collect();
    Some(json!([found.rule.name(), before, answer, after]))
}

#[cfg(test)]
mod tests {
    use tealight_datasets::Verdict;
    use tealight_datasets::verify::math::{Location, Rule};

    use super::*;
    use crate::fixtures::sample;

    #[test]
    fn the_place_of_an_answer_is_shown_with_its_rule() {
        let text = "é so \\boxed{7} apples";
        let at = |start: usize, end: usize| Sample {
            found: Some(Location { rule: Rule::Box, start, end }),
            ..sample(0, text, Verdict::correct("7", "7"))
        };
        let start = text.find('7').unwrap();
        let shown = json!(["box", "é so \\boxed{", "7", "} apples"]);
        assert_eq!(found(&at(start, start + 1)), Some(shown));
        // Places that are none: inside of a character, behind the end.
        for (start, end) in [(1, 2), (5, 900), (9, 3)] {
            assert_eq!(found(&at(start, end)), None);
        }
    }
}
