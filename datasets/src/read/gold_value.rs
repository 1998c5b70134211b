//! The value of an answer column to the gold answer, or to the reason why nothing can be compared with it.

use std::borrow::Cow;

use serde_json::Value;
use tealight_core::display::one_spaced;

use super::json_array;
use super::no_answers::why_no_answer;
use crate::verify::math::{self, answer};
use crate::verify::short;
use crate::{judge, thinking};

/// Longest text that is an answer whatever it says, in bytes.
const SHORT: usize = 48;
/// Words from which on a text with numbers in it is a sentence.
const SENTENCE: usize = 6;

/// Why a list of answers is no gold answer.
pub(super) const SEVERAL: &str =
    "several answers: one may be enough, or all may be needed; --answer-column names another one";
/// Why code is no gold answer.
const CODE: &str = "code, not an answer";

/// What an answer column holds.
#[derive(Debug, PartialEq)]
pub(super) enum Gold {
    /// A gold answer.
    Answer(String),
    /// None: the text that stands in its place, and why it is none.
    Missing { text: String, why: &'static str },
}

/// The text of a plain value; none for lists and objects.
pub(super) fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Array(items) if items.len() == 1 => plain(&items[0]),
        _ => None,
    }
}

/// The gold answer of a column that holds answers.
pub(super) fn exact(value: &Value) -> Result<Gold, String> {
    match value {
        Value::Null => Ok(missing("null", "there is no answer")),
        Value::Array(items) => Ok(one_of(items)),
        Value::Object(fields) if fields.is_empty() => Ok(missing("{}", "there is no answer")),
        Value::Object(fields) => {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            let is_one = |name: &&&str| !matches!(fields[**name], Value::Null | Value::Object(_));
            let usual = names.iter().find(|name| ["value", "text", "answer"].contains(name));
            // Several numbers are scores, or marks of choices.
            let are_scores = fields.len() > 1 && !fields.values().any(Value::is_string);
            let one = usual.or(names.iter().find(is_one).filter(|_| !are_scores));
            let mend = match one {
                Some(one) => format!("name one of them, such as --answer-column NAME.{one}"),
                None => "write the question with --prompt-template and the answer to a column of its own".into(),
            };
            let names = names.join(", ");
            Err(format!("should hold text or a number, not an object of {names}; {mend}"))
        }
        Value::String(text) => Ok(of_text(text)),
        other => Ok(Gold::Answer(plain(other).unwrap_or_default())),
    }
}

pub(super) fn missing(text: &str, why: &'static str) -> Gold {
    Gold::Missing { text: one_line(text), why }
}

/// The beginning of a text, for a message of one line.
pub(super) fn one_line(text: &str) -> String {
    short(&one_spaced(text))
}

/// The answer of a list: its only item, or one of several that are equal.
fn one_of(items: &[Value]) -> Gold {
    let texts: Option<Vec<String>> = items.iter().map(plain).collect();
    let listed = || serde_json::to_string(items).unwrap_or_default();
    let Some(texts) = texts else {
        return missing(&listed(), "the list holds more than texts and numbers");
    };
    let Some((first, others)) = texts.split_first() else {
        return missing("[]", "there is no answer");
    };
    match others.iter().all(|other| is_same(first, other)) {
        true => of_text(first),
        false => missing(&listed(), SEVERAL),
    }
}

/// Why a text is no gold answer for the verifier of mathematics: it is a sentence, a proof or a program, or none.
pub fn why_no_gold(text: &str) -> Option<&'static str> {
    let Gold::Missing { why, .. } = of_text(text) else { return None };
    Some(why)
}

pub(super) fn has_mark(text: &str) -> bool {
    ["####", "\\box", "\\fbox"].iter().any(|mark| text.contains(mark))
}

/// Whether a text is a program, and no solution with one in it or with a mark: it begins with a line of code, or ends
/// with one that prints.
fn is_program(text: &str) -> bool {
    if has_mark(text) {
        return false;
    }
    let text = text.trim();
    let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inner = fenced.and_then(|rest| rest.split_once('\n')).map_or(text, |(_, inner)| inner);
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let mut lines = inner.lines().map(str::trim).filter(is_code);
    let (Some(first), last) = (lines.next(), lines.next_back()) else { return false };
    let is_header = |line: &str| {
        line.ends_with(':') && ["def ", "class "].iter().any(|word| line.starts_with(word))
    };
    let is_import = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], ["import", _] | ["import", _, "as", _] | ["from", _, "import", ..])
    };
    let prints = |line: &str| line.starts_with("print(") && line.ends_with(')');
    is_header(first) || is_import(first) || prints(last.unwrap_or(first))
}

/// The answers of a question of yes or no, beside which `unknown` is an answer too.
const TRUTHS: [&str; 4] = ["true", "false", "yes", "no"];

/// Whether a value is one of the answers of a question of yes or no.
pub(super) fn is_truth(value: &Value) -> bool {
    plain(value).is_some_and(|text| TRUTHS.contains(&text.trim().to_lowercase().as_str()))
}

/// The gold answer, where `unknown` is one.
pub(super) fn known(gold: Gold, is_unknown_answer: bool) -> Gold {
    match gold {
        Gold::Answer(text) if !is_unknown_answer && text.eq_ignore_ascii_case("unknown") => {
            missing(&text, "there is no answer")
        }
        gold => gold,
    }
}

/// Signs as web pages write them.
const ENTITIES: [(&str, &str); 5] =
    [("&lt;", "<"), ("&gt;", ">"), ("&le;", "≤"), ("&ge;", "≥"), ("&amp;", "&")];

fn of_text(text: &str) -> Gold {
    let decode = |text: String, (entity, sign): &(&str, &str)| text.replace(entity, sign);
    // A sign alone may be the answer itself.
    let has_inner = !text.trim().starts_with('&') && !text.trim().ends_with(';');
    let decoded =
        (has_inner && text.contains('&')).then(|| ENTITIES.iter().fold(text.to_owned(), decode));
    let text = decoded.as_deref().unwrap_or(text);
    let bold = text.trim().strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    let text = bold.filter(|inner| !inner.contains('*')).unwrap_or(text);
    let trimmed = text.trim();
    if let Some(why) = why_no_answer(trimmed) {
        return missing(trimmed, why);
    }
    if let Some(items) = json_array(trimmed)
        && items.iter().all(Value::is_string)
    {
        return one_of(&items);
    }
    if trimmed.starts_with("['") && trimmed.ends_with("']") && trimmed.contains("', '") {
        return missing(trimmed, "a list as Python prints it: write it as JSON");
    }
    if trimmed.starts_with('{') && serde_json::from_str::<Value>(trimmed).is_ok() {
        return missing(trimmed, "a specification for another verifier, not an answer");
    }
    let Some(text) = thinking::parts(text, false).answer else {
        return missing(text, "it ends within a thought");
    };
    if is_program(text) {
        return missing(text, CODE);
    }
    let marked = if has_mark(text) { marked(text) } else { None };
    let marked = marked.unwrap_or_else(|| math::gold(text));
    let gold = without_unit(&marked);
    if gold.is_empty() {
        return missing(text, "there is no answer");
    }
    if !is_sentence(gold) {
        return Gold::Answer(gold.into());
    }
    match answer::find(text, math::Mode::Strict) {
        Some(found) if !is_sentence(&found.text) => Gold::Answer(found.text.into_owned()),
        _ => missing(gold, "a sentence, not an answer"),
    }
}

/// The answer that a text marks: 14 of a last line `#### 14`, the contents of the last box, or of several that are the
/// parts of an answer; else what is found in a completion.
fn marked(text: &str) -> Option<Cow<'_, str>> {
    let last = text.trim_end().lines().next_back().unwrap_or_default().trim_start();
    let found =
        if last.starts_with("####") { answer::find(last, math::Mode::Strict) } else { None };
    let found =
        found.or_else(|| answer::find(text, math::Mode::Strict).filter(|found| !is_heading(found)));
    let Some(found) = found else { return answer::last_box(text) };
    // The reader of completions adds what stands around a box, which a gold answer is without; equal members of a list
    // are one answer, written twice.
    let boxed = answer::last_box(text).filter(|_| found.rule != answer::Rule::Tag);
    let are_parts = |boxed: &str| {
        found.rule == answer::Rule::Box
            && found.text.strip_suffix(boxed).is_some_and(|rest| rest.ends_with(", "))
            && !is_same(boxed, &found.text)
    };
    Some(match boxed {
        Some(boxed) if !are_parts(&boxed) => boxed,
        _ => found.text,
    })
}

/// Whether one answer is the other.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    judge::same(one, other) == Some(true)
}

/// Whether a worked solution ends in the gold answer.
pub(super) fn comes_to(text: &str, gold: &str) -> bool {
    thinking::parts(text, false).answer.is_some_and(|text| is_same(gold, text))
}

/// Whether what was found is words behind the marks of a line in the middle: `#### Step 2`.
fn is_heading(found: &answer::Found<'_>) -> bool {
    found.rule == answer::Rule::Hashes && found.text.starts_with(char::is_alphabetic)
}

/// The gold answer of a worked solution: what it marks as its answer, or all of it where that is an answer.
pub(super) fn worked(text: &str) -> Gold {
    if text.trim().is_empty() {
        return missing("", "there is no solution");
    }
    let Some(text) = thinking::parts(text, false).answer else {
        return missing(text, "the solution ends within a thought");
    };
    if is_program(text) {
        return missing(text, CODE);
    }
    match marked(text) {
        Some(found) => of_text(&found),
        // A mark that holds nothing is no answer, nor is the text around it.
        None if text.trim().len() <= SHORT
            && !["####", "\\boxed"].iter().any(|mark| text.contains(mark))
            && !reasons(text) =>
        {
            of_text(text)
        }
        None => missing(text, "the solution marks no final answer"),
    }
}

/// ASDiv's `7 (nuts)` is 7.
fn without_unit(text: &str) -> &str {
    let unit = |rest: &str| {
        let inner = rest.strip_prefix('(')?.strip_suffix(')')?;
        inner.chars().all(|c| c.is_alphabetic() || c == ' ').then_some(())
    };
    match text.split_once(' ') {
        Some((number, rest))
            if number.parse::<f64>().is_ok() && unit(rest).is_some() && rest.len() > 3 =>
        {
            number
        }
        _ => text,
    }
}

/// Whether a short text is sentences that reckon: `We compute 5. So 5.`
fn reasons(text: &str) -> bool {
    let text = text.trim();
    let is_sentence = text.ends_with('.') || text.contains(". ");
    is_sentence && words(text) >= 2 && text.bytes().any(|byte| byte.is_ascii_digit())
}

/// How many words a text has, without numbers and single letters.
fn words(text: &str) -> usize {
    let is_word = |word: &&str| {
        word.len() > 1
            && word
                .trim_matches(|c: char| c.is_ascii_punctuation())
                .chars()
                .all(char::is_alphabetic)
    };
    text.split_whitespace().filter(is_word).count()
}

/// Whether a text is a sentence about numbers, which no answer would equal.
fn is_sentence(text: &str) -> bool {
    let words = words(text);
    words >= SENTENCE && text.bytes().any(|byte| byte.is_ascii_digit()) && !text.contains('\\')
        || text.len() > 8 * SHORT && words >= 2 * SENTENCE
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(value: &Value) -> String {
        match exact(value).unwrap() {
            Gold::Answer(answer) => answer,
            Gold::Missing { text, why } => panic!("`{text}`: {why}"),
        }
    }

    #[test]
    fn answers_are_found_in_every_form() {
        for (value, expected) in [
            (json!("14"), "14"),
            (json!(14), "14"),
            (json!(0.1), "0.1"),
            (json!(true), "true"),
            (json!(["14"]), "14"),
            (json!(["14", "14.0"]), "14"),
            (json!("[\"\\\\frac{1}{2}\"]"), "\\frac{1}{2}"),
            (json!("9-4=<<9-4=5>>5\n#### 5"), "5"),
            (json!("We get $\\boxed{32}$."), "32"),
            (json!("7 (nuts)"), "7"),
            (json!("Na"), "Na"),
            (json!("**5**"), "5"),
            (json!("x &lt; 5 &amp; y &ge; 2"), "x < 5 & y ≥ 2"),
            (json!("[1, 2]"), "[1, 2]"),
            (json!("f(x) (even)"), "f(x) (even)"),
            (json!("Adding both of the numbers gives 14. The answer is 14."), "14"),
        ] {
            assert_eq!(answer(&value), expected, "{value}");
        }
    }

    #[test]
    fn values_that_are_no_answer_are_refused_with_a_reason() {
        for (value, reason) in [
            (json!(null), "no answer"),
            (json!("  "), "no answer"),
            (json!([]), "no answer"),
            (json!("None"), "no answer"),
            (json!("N/A"), "no answer"),
            (json!("NA"), "no answer"),
            (json!({}), "no answer"),
            (json!("['2', '3']"), "as Python prints it"),
            (json!("proof"), "a proof"),
            (json!("NotFound"), "found no answer"),
            (json!(["2", "-2"]), "several answers"),
            (json!("{\"func_name\": \"verify\", \"N\": 3}"), "another verifier"),
            (json!("Adding 6 and 8 gives 14 apples in total."), "a sentence"),
            (json!([{"a": 1}]), "more than texts"),
        ] {
            match exact(&value).unwrap() {
                Gold::Missing { why, .. } => assert!(why.contains(reason), "{value}: {why}"),
                found => panic!("{value}: {found:?}"),
            }
        }
        let message = exact(&json!({"value": "14", "aliases": []})).unwrap_err();
        assert!(message.contains("--answer-column NAME."), "{message}");
    }

    #[test]
    fn a_worked_solution_has_the_answer_that_it_marks() {
        for (text, expected) in [
            ("6+8=14.\n#### 14\nThe answer is: 14", Some("14")),
            ("6+8=14, so \\boxed{14}", Some("14")),
            ("#### Step 1\n6+8=14.\n#### Step 2\nSo $x=\\boxed{14}$.", Some("14")),
            ("#### Final Answer\n\n\\boxed{14}", Some("14")),
            ("#### Answer\n14", Some("14")),
            ("6+8.\n#### **Answer:** 14", Some("14")),
            ("Answer: 14\n\n#### Verification\nFine.", Some("14")),
            ("#### Step 1\nIt is so.", None),
            ("<think>\nTry \\boxed{1}? no.\n</think>\n\nThe answer is 14.", Some("14")),
            ("<think>so \\boxed{1}", None),
            ("The roots are $\\boxed{3}$ and $\\boxed{4}$.", Some("3, 4")),
            ("It is $\\boxed{x+11}$, or $\\boxed{11+x}$.", Some("11+x")),
            ("The answer is positive, because it is $\\boxed{3}$.", Some("3")),
            ("It is $\\boxed{3}$. But this was only a guess.", Some("3")),
            ("The term is $\\boxed{-15}x^3$.", Some("-15")),
            ("So $x \\in \\boxed{[3, \\infty)}$.", Some("[3, \\infty)")),
            ("It is $\\boxed{108\\,\\text{m}}$.", Some("108\\,\\text{m}")),
            ("Adding gives 14. The answer is 14.", Some("14")),
            ("14", Some("14")),
            ("so \\boxed{} and 5", None),
            ("$7$", Some("$7$")),
            ("Write them as $2a+1$ and $2b+1$. Then the sum is even, as for 3 and 5.", None),
            ("", None),
        ] {
            let found = match worked(text) {
                Gold::Answer(answer) => Some(answer),
                Gold::Missing { .. } => None,
            };
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
