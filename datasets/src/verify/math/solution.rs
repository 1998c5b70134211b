//! The values that a worked solution computes: the results of its equations, in order. Two solutions that compute the
//! same values are one solution, however they are worded.

use super::scan::is_digit;

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
    if !number.starts_with(is_digit) {
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
