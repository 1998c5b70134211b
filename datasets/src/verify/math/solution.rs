//! The values that a worked solution computes: the results of its equations, in order. Two solutions that compute the
//! same values are one solution, however they are worded.

/// Most results that are kept.
const MAX_RESULTS: usize = 64;

/// The results of all equations of a completion, `24,72` for `48/2 = 24` and `48+24 = 72`; the value of its `answer`
/// where it has none, since words alone make no other solution. Dataset markers such as `<<48/2=24>>` count once with
/// the equation they repeat.
pub fn solution(completion: &str, answer: &str) -> String {
    let text = super::super::tail(completion, 64 << 10);
    let text = crate::thinking::answer(text);
    let mut results: Vec<String> = Vec::new();
    for (at, _) in text.match_indices('=').take(4 * MAX_RESULTS) {
        let Some(result) = result_after(&text[at + 1..]) else { continue };
        let is_calculated = calculates(&text[..at]);
        // The marker inside an equation repeats its result.
        if is_calculated && results.last() != Some(&result) {
            results.push(result);
        }
    }
    if results.is_empty() {
        return super::key(answer);
    }
    let rest = results.split_off(results.len().min(MAX_RESULTS));
    match rest.len() {
        0 => results.join(","),
        // The first say what it is, the hash tells it from others.
        more => format!(
            "{},... ({more} more, {:016x})",
            results.join(","),
            tealight_core::fnv(rest.join(",").bytes())
        ),
    }
}

/// The number right behind an equals sign.
fn result_after(text: &str) -> Option<String> {
    // In `48/2 = <<48/2=24>>24` the inner sign counts.
    let text = text.trim_start_matches([' ', '\n', '$', '\\']);
    let sign = if text.starts_with('-') { "-" } else { "" };
    let digits = text.trim_start_matches('-');
    let end = digits
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')
        .unwrap_or(digits.len())
        .min(40);
    let number = digits[..end].trim_end_matches(['.', ',']).replace(',', "");
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    // 24.00 is 24, 007 is 7.
    let number = match number.split_once('.') {
        Some((whole, part)) if part.bytes().all(|byte| byte == b'0') => whole.to_owned(),
        Some(_) => number.trim_end_matches('0').to_owned(),
        None => number,
    };
    let number = number.trim_start_matches('0');
    let number = if number.is_empty() || number.starts_with('.') {
        format!("0{number}")
    } else {
        number.into()
    };
    Some(format!("{sign}{number}"))
}

/// Whether an operation between numbers stands right before an equals sign, on its line.
fn calculates(before: &str) -> bool {
    let before = super::super::tail(before, 120);
    let line = before.rsplit(['\n', '=', ';', ':']).next().unwrap_or(before).trim_end();
    let ends_in_number =
        line.ends_with(|c: char| c.is_ascii_digit() || matches!(c, ')' | '%' | '}'));
    let operators = ['+', '*', '/', '×', '÷', '·', '−'];
    let has_minus = line
        .match_indices('-')
        .any(|(at, _)| line[..at].trim_end().ends_with(|c: char| c.is_ascii_digit() || c == ')'));
    let commands = ["\\times", "\\cdot", "\\div", "\\frac", " x "];
    ends_in_number
        && (line.contains(operators)
            || has_minus
            || commands.iter().any(|command| line.contains(command)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Problem, Verdict, verify};
    use tealight_core::Prompt;

    /// Without equations the answer's value is the class: a phrase more is no other solution.
    #[test]
    fn words_without_equations_are_one_solution_for_each_value() {
        let class = |verifier: &str, gold: &str, text: &str| {
            let problem = Problem::new("p", Prompt::Text("?".into()), gold);
            match verify::open(verifier).unwrap().verify(&problem, text) {
                Verdict::Correct { class, .. } => class,
                other => panic!("{text}: {other:?}"),
            }
        };
        for (gold, texts) in [
            (
                "287",
                &[
                    "The answer is 287.",
                    "the answer is 287.",
                    "#### 287",
                    "\\boxed{287}",
                    "It is 287",
                ][..],
            ),
            ("1/2", &["\\boxed{\\frac{1}{2}}", "The answer is 0.5", "so x = 0.5, \\boxed{1/2}"]),
            ("3/4", &["\\boxed{0.75}", "\\boxed{\\frac34}"]),
        ] {
            for verifier in ["math", "math:strict", "numeric"] {
                let texts = texts
                    .iter()
                    .filter(|text| verifier != "math:strict" || !text.starts_with("It"));
                let classes: std::collections::BTreeSet<String> =
                    texts.map(|text| class(verifier, gold, text)).collect();
                assert_eq!(classes.len(), 1, "{verifier}: {classes:?}");
            }
        }
        assert_eq!(class("math", "287", "The answer is 287."), "287");
        assert_ne!(
            class("math", "72", "48 + 24 = 72"),
            class("math", "72", "2 * 48 = 96 and 96 - 24 = 72")
        );
    }

    #[test]
    fn solutions_are_told_apart_by_what_they_compute() {
        let one =
            "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\nAltogether 48+24 = 72.\n#### 72";
        let same = "In May: $48 \\div 2 = 24$. So 48 + 24 = 72.00 in all.";
        let other = "Twice 48 is 48*2 = 96, and 96 - 24 = 72.";
        let computed = |text: &str| solution(text, "72");
        assert_eq!(computed(one), "24,72");
        assert_eq!(computed(same), "24,72");
        assert_eq!(computed(other), "96,72");
        assert_eq!(computed("2 - 3.5 = -1.50"), "-1.5");
        let many: String = (0..80).map(|i| format!("{i} + 1 = {}\n", i + 1)).collect();
        assert!(computed(&many).starts_with("1,2,3,") && computed(&many).contains("16 more"));
        assert_ne!(computed(&many), computed(&format!("{many}1 + 1 = 2")));
    }
}
