//! The values that a worked solution computes: the results of its equations, in order. Two solutions that compute the
//! same values are one solution, however they are worded.

use super::scan::{head, pattern};

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

/// The number right behind an equals sign. In `48/2 = <<48/2=24>>24` the inner sign counts.
fn result_after(text: &str) -> Option<String> {
    const MAX_DIGITS: usize = 40;
    let may_be = |c: char| c.is_ascii_digit() || "-,".contains(c);
    text.trim_start_matches([' ', '\n', '$', '\\']).starts_with(may_be).then_some(())?;
    let found = pattern!(r"^[ \n$\\]*(-?)-*(,*[0-9][0-9.,]*)").captures(text)?;
    let number = head(&found[2], MAX_DIGITS).trim_end_matches(['.', ',']).replace(',', "");
    // 24.00 is 24, 007 is 7.
    let number = match number.split_once('.') {
        Some((whole, part)) if part.bytes().all(|byte| byte == b'0') => whole,
        Some(_) => number.trim_end_matches('0'),
        None => &number,
    };
    let number = number.trim_start_matches('0');
    let zero = if number.is_empty() || number.starts_with('.') { "0" } else { "" };
    Some(format!("{}{zero}{number}", &found[1]))
}

/// Whether an operation between numbers stands right before an equals sign, on its line.
fn calculates(before: &str) -> bool {
    let operation = pattern!(
        r"(?:[0-9)][^\S\n]*-|[+*/×÷·−]|\\times|\\cdot|\\div|\\frac| x )[^\n=;:]*[0-9)%}][^\S\n]*$"
    );
    operation.is_match(super::super::tail(before, 120))
}
