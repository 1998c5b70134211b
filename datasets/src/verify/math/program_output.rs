//! Answers as programs print them, rewritten as LaTeX: `Rational(1, 2)`, `[1 2; 3 4]`, `0xff`.

use std::borrow::Cow;

use super::scan::{are_digits, holds, is_digit, pattern, without};

/// Calls by name, and what they stand for: `@1` and `@2` are arguments, `@@` is all of them.
const CALLS: &str = "Rational=\\frac{@1}{@2}|Fraction=\\frac{@1}{@2}|Matrix=@@|array=@@|FiniteSet=\\{@@\\}|\
    Interval=[@1,@2]|Interval.open=(@1,@2)|Interval.Lopen=(@1,@2]|Interval.Ropen=[@1,@2)|binomial=\\binom{@1}{@2}|\
    comb=\\binom{@1}{@2}|nCr=\\binom{@1}{@2}|nPr=P(@1,@2)|factorial=(@1)!|Abs=abs(@1)";

/// Spellings that are read as others: `100\,{}^{\circ}\mathrm{C}`.
const REPLACED: [(&str, &str); 3] =
    [("{}^{\\circ}", "^{\\circ}"), ("{}^\\circ", "^\\circ"), ("m\\angle ", "\\angle ")];

/// Most calls of one answer.
const MAX_CALLS: usize = 16;

/// Longest answer that a program printed, in bytes.
const MAX_BYTES: usize = 400;

/// The text with what programs print as LaTeX.
pub(super) fn as_latex(text: &str) -> Cow<'_, str> {
    // Most answers have none of these.
    let is_likely = text.contains(['\\', '(', '{', '[', '_', '\'']) || text.contains("root ");
    let is_coded = text.trim_start().starts_with('0') && text.contains(['x', 'b', 'o']);
    if text.len() > MAX_BYTES || !is_likely && !is_coded {
        return Cow::Borrowed(text);
    }
    let mut out = match holds(text, "bf{|text{|rm{|line{") {
        // `4.5\mathrm{e}3`
        true if holds(text, "{e}|{E}") => {
            let power = pattern!(r"(\d)\\(?:mathrm|text)\{[eE]\}\{?([-+]?\d+)\}?");
            power.replace_all(text, "${1}e$2")
        }
        // `\mathbf{1}0`
        true => {
            const STYLED: &str = r"\\(?:mathbf|text|textbf|mathrm|underline)\{(\d+)\}";
            let styled = pattern!(&format!(r"{STYLED}{STYLED}|{STYLED}(\d)|(\d){STYLED}"));
            styled.replace_all(text, "$1$2$3$4$5$6")
        }
        false => Cow::Borrowed(text),
    };
    for (printed, latex) in REPLACED {
        if out.contains(printed) {
            out = Cow::Owned(out.replace(printed, latex));
        }
    }
    // `x \equiv 10 \equiv 3`
    if out.contains("\\equiv")
        && let [left, middle, right] = out.split("\\equiv").collect::<Vec<_>>()[..]
        && !middle.contains("mod")
    {
        out = Cow::Owned(format!("{left}\\equiv{right}"));
    }
    // `\frac{d}{dx}f(x)`
    if out.contains("{d}{d") {
        let derivative = pattern!(r"\\d?frac\{d\}\{d([a-z])\} ?([a-zA-Z])\(([a-z])\)");
        out = Cow::Owned(derivative.replace_all(&out, "$2'($3)").into_owned());
    }
    for _ in 0..MAX_CALLS {
        match without_call(&out) {
            Some(next) if next.len() <= MAX_BYTES => out = Cow::Owned(next),
            _ => break,
        }
    }
    let other = || digits(&out).or_else(|| unit_fraction(&out));
    match bracketed(&out).or_else(other) {
        Some(next) => Cow::Owned(next),
        None => out,
    }
}

/// The text without its last known call.
fn without_call(text: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphabetic() || c == '.';
    let mut end = text.len();
    while let Some(open) = text[..end].rfind('(') {
        end = open;
        let start = text[..open].trim_end_matches(is_name).len();
        let run = &text[start..open];
        if run.len() < 3 || text[..start].ends_with('\\') {
            continue;
        }
        let name = without(run, "np.|numpy.|sp.|sympy.|math.|S.");
        let is_union = name == "Union";
        let call = CALLS.split('|').find_map(|call| call.strip_prefix(name)?.strip_prefix('='));
        let Some(form) = call.or(is_union.then_some("@@")) else { continue };
        let (inner, rest) = closed(&text[open + 1..])?;
        let parts = arguments(inner);
        let joined = if is_union { parts.join("\\cup ") } else { inner.to_owned() };
        let count = 1 + usize::from(form.contains("@2"));
        if !form.contains("@@") && parts.len() != count {
            continue;
        }
        let second = parts.get(1).copied().unwrap_or_default();
        let form = form.replace("@@", &joined).replace("@1", parts[0]).replace("@2", second);
        return Some(format!("{}{form}{rest}", &text[..start]));
    }
    None
}

/// What stands before the bracket that closes, and behind it.
pub(super) fn closed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    let end = text.bytes().position(|byte| {
        depth += i32::from(byte == b'(') - i32::from(byte == b')');
        depth == 0
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// The parts between the commas outside brackets.
fn arguments(text: &str) -> Vec<&str> {
    let mut depth = 0;
    text.split(|c: char| {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        c == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

/// `[1 2; 3 4]`, `[4\ 5\ 6]^T`, `{{1,2},{3,4}}`, `(4,5,6)'`.
fn bracketed(text: &str) -> Option<String> {
    let text = text.trim();
    if text.ends_with(")'") || text.ends_with("]'") {
        return text.starts_with(['(', '[']).then(|| format!("{}^T", &text[..text.len() - 1]));
    }
    if text == "{}" {
        return Some("\\{\\}".into());
    }
    if text.starts_with("{{") && text.ends_with("}}") && text.contains("},") {
        return Some(text.replace('{', "[").replace('}', "]"));
    }
    let (inner, rest) = text.strip_prefix('[')?.split_once(']')?;
    let is_part = |c: char| c.is_ascii_digit() || " .-/;\\,".contains(c);
    let is_list = inner.contains(',') && !inner.contains(';');
    if !inner.contains(' ') || is_list || !inner.chars().all(is_part) {
        return None;
    }
    let inner = inner.replace(['\\', ','], " ");
    let rows: Vec<Vec<&str>> =
        inner.split(';').map(|row| row.split_whitespace().collect()).collect();
    let joined: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
    match rows.as_slice() {
        [row] => (row.len() > 2).then(|| format!("[{}]{rest}", joined[0])),
        _ => Some(format!("[[{}]]{rest}", joined.join("],["))),
    }
}

/// `0b1011`, `0xFF`, `1_234_567`.
fn digits(text: &str) -> Option<String> {
    let text = text.trim();
    text.starts_with(is_digit).then_some(())?;
    for (mark, base) in [("0b", 2), ("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(mark) {
            let are_digits = !digits.is_empty() && digits.chars().all(|c| c.is_digit(base));
            return are_digits.then(|| format!("{digits}_{{{base}}}"));
        }
    }
    let (first, rest) = text.split_once('_')?;
    let are_groups = rest.split('_').all(|group| group.len() == 3 && are_digits(group));
    (are_groups && (1..=3).contains(&first.len()) && are_digits(first))
        .then(|| text.replace('_', ""))
}

/// `64\,\frac{\text{ft}}{\text{s}}` as `64\,\text{ft/s}`.
fn unit_fraction(text: &str) -> Option<String> {
    const UNIT: &str = r"\{\\(?:text|mathrm)\{ *([^}]*[^} ]) *\}(?:\^(?:([23])|\{([23])\}))?\}";
    text.contains("frac{\\").then_some(())?;
    let found = pattern!(&format!(r"(?s)^(.*?)\\[dt]?frac{UNIT}{UNIT}(.*)$")).captures(text)?;
    let unit = |at: usize| {
        let power = found.get(at + 1).or(found.get(at + 2));
        format!(
            "{}{}",
            &found[at],
            power.map_or(String::new(), |power| format!("^{}", power.as_str()))
        )
    };
    Some(format!("{}\\text{{{}/{}}}{}", &found[1], unit(2), unit(5), &found[8]))
}
