//! Answers in parts, with labels or names: `(a) 3 (b) 7`, `Ann: 12, Ben: 9`.

use std::ops::Range;

use super::super::scan::{holds, is_digit, pattern, without};
use super::super::{Mode, Outcome, equality};
use super::scope::searched;
use super::{Found, Rule, all_boxes, find, is_value};

/// Labels, and the names that may stand before a colon.
const LABELS: &str =
    r"\{? *(?:\(([a-h]|i{1,3}|i?v|[1-9])\)|\b([a-h]|i{1,3}|i?v|[1-9])\)) *\}?[ :]*";
/// The same in brackets alone, where the first one has them: `3)` of `(1) (-1, 3)` is no label.
const BRACKETED: &str = r"\{? *\(([a-h]|i{1,3}|i?v|[1-9])\) *\}?[ :]*";
const NAMES: &str = r"\{? *\b([a-zA-ZÀ-ɏЀ-ӿ]{2,}) *\}? *: *\}?|\{? *\b(max|min|mean|median|mode|range|largest|smallest|greatest) *\}?[ =]*\}?|\{? *\b([a-zA-ZÀ-ɏЀ-ӿ]{2,}) *\}? *\b(?:has|have|is|are|was|gets|got|costs?)\b *\}?";
/// Between a label and its value.
const LINKS: &str = r"^(?:[ ,:=}*]|\\ |\b(?:has|have|is|are|was|gets|got|costs?)\b)*";
/// In what order labels run.
const RUNS: [&str; 3] = ["abcdefgh", "123456789", "i ii iii iv v"];

/// A text without the commands around labels.
fn bare(text: &str) -> String {
    let marks =
        ["\\textbf", "\\text", "\\mathrm", "\\qquad", "\\quad", "\\,", "\\;", "\\ ", "**", "$"];
    let text = text.replace("\\max", "max").replace("\\min", "min");
    let text = text.replace("maximum", "max").replace("minimum", "min");
    let text = text.replace('（', "(").replace('）', ")").replace('；', ";");
    marks.iter().fold(text, |text, mark| text.replace(mark, " "))
}

/// The labels and values of a gold answer in parts; none where it is no such answer.
fn of_gold(text: &str) -> Option<Vec<(String, String)>> {
    const MAX_BYTES: usize = 400;
    let may_be = text.contains([')', '）'])
        || text.contains(':') && !text.starts_with(is_digit)
        || holds(
            text,
            "max|min|mean|median|mode|range|largest|smallest|greatest| is | has | have | are | cost",
        );
    (may_be && text.len() <= MAX_BYTES).then_some(())?;
    let text = bare(text);
    let text = text.trim();
    let labels = if text.starts_with('(') { pattern!(BRACKETED) } else { pattern!(LABELS) };
    [(labels, false), (pattern!(NAMES), true)].into_iter().find_map(|(table, are_names)| {
        let found: Vec<_> = table.captures_iter(text).collect();
        let label = |at: usize| {
            (1..4).find_map(|group| found[at].get(group)).map_or("", |name| name.as_str())
        };
        let labels: Vec<String> = (0..found.len()).map(|at| label(at).to_owned()).collect();
        let in_order = |run: &&str| {
            let each: Vec<&str> = if run.contains(' ') {
                run.split(' ').collect()
            } else {
                run.split("").skip(1).collect()
            };
            each.len() >= labels.len() && labels.iter().zip(each).all(|(a, b)| a == b)
        };
        let differ = (0..labels.len()).all(|at| !labels[..at].contains(&labels[at]));
        let is_run = if are_names { differ } else { RUNS.iter().any(in_order) };
        (labels.len() > 1 && is_run && found[0].get(0)?.start() == 0).then_some(())?;
        let ends =
            found[1..].iter().filter_map(|next| Some(next.get(0)?.start())).chain([text.len()]);
        let values =
            found.iter().zip(ends).map(|(this, end)| Some(value(&text[this.get(0)?.end()..end])));
        let values: Vec<String> = values.collect::<Option<_>>()?;
        // Without a colon a name may be one of a function.
        let is_named = |at: usize| found[at].get(1).is_some() || is_value(&values[at]);
        (0..values.len())
            .all(|at| !values[at].is_empty() && (!are_names || is_named(at)))
            .then(|| labels.into_iter().zip(values).collect())
    })
}

/// A value without the marks and links around it.
fn value(text: &str) -> String {
    let start = pattern!(LINKS).find(text).map_or(0, |link| link.end());
    let bare =
        |text: &'_ str| text.trim_end_matches([',', ';', '.', ' ', '\n', '-', '(', '{', '}']).len();
    let text = &text[start..start + bare(&text[start..])];
    let text = text
        .strip_suffix(" and the")
        .or(text.strip_suffix(" and"))
        .map_or(text, |text| &text[..bare(text)]);
    let open = text.matches('{').count().saturating_sub(text.matches('}').count());
    format!("{text}{}", "}".repeat(open))
}

/// Where a label stands last in a text: `(a)`, `b)`, or a name as a word.
fn last_place(text: &str, label: &str) -> Option<Range<usize>> {
    let (text, label) = (text.to_ascii_lowercase(), &*label.to_ascii_lowercase());
    let is_name = label.chars().count() > 1 && !RUNS[2].contains(label);
    let is_apart = |text: Option<char>| text.is_none_or(|c| !c.is_alphanumeric());
    // `1)` of `n(n+1)` is no label beside `(1)`.
    let bracketed = format!("({label})");
    let mut places = text.rmatch_indices(&bracketed).map(|(at, _)| at);
    let first = places.find(|at| is_apart(text[..*at].chars().next_back()));
    // `(1)` of an equation is none before the line `1) 7`.
    let half = format!("{label})");
    let is_own = |line: &str| without(line.trim_start(), "part ").starts_with(&half);
    let is_label = |at: &usize| label.starts_with(is_digit) && !text[*at..].lines().any(is_own);
    if let Some(at) = first.filter(is_label) {
        return Some(at..at + bracketed.len());
    }
    text.rmatch_indices(label).find_map(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + label.len()..]);
        let end = match is_name {
            true => is_apart(after.chars().next()).then_some(at + label.len()),
            false => after.starts_with(')').then_some(at + label.len() + 1),
        };
        end.filter(|_| is_apart(before.chars().next_back())).map(|end| at..end)
    })
}

/// Whether each part of a gold answer is the part of the completion with its label, or of several without labels, the
/// one in its place; none where the gold answer is not in parts.
pub(in super::super) fn same_parts(
    gold: &str,
    answer: &Found<'_>,
    completion: &str,
    mode: Mode,
) -> Option<bool> {
    let gold = of_gold(gold)?;
    let found = &*answer.text;
    // The paragraph that an answer begins behind a phrase, which is found up to its first formula: `(1) 2；(2)
    // $\sqrt3$`.
    let begun = completion.get(answer.span.start..).filter(|_| answer.rule == Rule::Phrase);
    let paragraph = begun.and_then(|text| text.split("\n\n").next());
    let is_same = |gold: &str, answer: &str| equality::compared(gold, answer).0 == Outcome::Correct;
    let completion = searched(completion);
    // In the strict mode a part of the completion needs a mark of its own.
    let labelled = |text: &str, is_answer: bool| {
        let text = bare(text);
        let places = gold.iter().map(|(name, _)| last_place(&text, name));
        let places: Vec<_> = places.collect::<Option<_>>()?;
        Some(gold.iter().zip(&places).all(|((_, value), place)| {
            let end =
                places.iter().map(|other| other.start).filter(|start| *start >= place.end).min();
            let part = &text[place.end..end.unwrap_or(text.len())];
            is_answer && is_same(value, &self::value(part))
                || find(part, mode).is_some_and(|found| is_same(value, &found.text))
        }))
    };
    if paragraph.is_some_and(|text| labelled(text, true) == Some(true)) {
        return Some(true);
    }
    let of_text = || labelled(completion, mode == Mode::Flexible);
    if let Some(is_same) = labelled(found, true).or_else(of_text) {
        return Some(is_same);
    }
    let all: Vec<&str> = gold.iter().map(|(_, value)| value.as_str()).collect();
    let boxes = all_boxes(completion);
    let answers = boxes.as_deref().unwrap_or(found).trim();
    let tuple = answers.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
    let answers = tuple.unwrap_or(answers);
    let answers = bare(answers).replace("{ and }", ",").replace(" and ", ",");
    let answers: Vec<&str> = answers.split([',', ';']).collect();
    Some(
        all.len() == answers.len()
            && all.iter().zip(answers).all(|(gold, answer)| is_same(gold, answer)),
    )
}
