//! The flexible rules, for completions without any mark: the whole text, a conclusion, the last value, a few words.

use super::super::parse::parse;
use super::super::spelled::spelled;
use super::super::text::{self, date};
use super::super::tree::Answer;
use super::clause::{remaining, stated, without_reason};
use super::scan::is_denied;
use super::{MAX_WHOLE, Rule, is_answer, is_value, offset_in};

/// Longest text that may be an answer in words.
const MAX_WORDS: usize = 80;

/// Most words of a text that is a name as a whole.
const MAX_NAME: usize = 3;

/// Most values in a row that a text may deny.
const MAX_DENIALS: usize = 4;

/// Words that say that a sentence leaves open what it says.
const OPEN: [&str; 17] = [
    "whether", "if", "not", "might", "may", "could", "perhaps", "maybe", "either", "unless",
    "unknown", "unclear", "cannot", "neither", "nor", "or", "isn't",
];

/// Words behind "is" that are no answer.
const ABOUT: [&str; 10] = [
    "answer", "correct", "final", "result", "solution", "done", "right", "it", "required", "wrong",
];

/// The answer of a text without a mark, and the rule.
pub(super) fn answer(text: &str) -> Option<(&str, Rule)> {
    let text = without_courtesy(text);
    if text.is_empty() || is_refusal(text) {
        return None;
    }
    let line = text.lines().next_back().unwrap_or(text).trim();
    if let Some(value) = labelled(line) {
        return Some((value, Rule::Phrase));
    }
    if let Some(inner) = remaining(last_sentence(line)) {
        return Some((inner, Rule::Choice));
    }
    let bare = without_reason(text);
    if bare.len() < text.len() && bare.split_whitespace().count() <= MAX_NAME && is_answer(bare) {
        return Some((bare, Rule::Words));
    }
    if date(line).is_some() {
        return Some((line, Rule::Whole));
    }
    if let Some(formula) = displayed(text) {
        return Some((formula, Rule::Formula));
    }
    // Words are a name, not a sentence.
    let is_name = || text.split_whitespace().count() <= MAX_NAME && is_answer(text);
    let is_sentence = [" is ", " are "].iter().any(|verb| text.contains(verb));
    let is_whole = || is_name() || (is_value(text) && is_answer(text) && !is_calculation(text));
    if text.len() <= MAX_WHOLE && !is_sentence && is_whole() {
        return Some((text, Rule::Whole));
    }
    if line.len() <= MAX_WHOLE {
        let letter =
            line.trim_start_matches("\\text{").trim_matches(['*', '(', ')', '.', ' ', '}', '$']);
        if matches!(letter.as_bytes(), [b'A'..=b'J']) {
            return Some((letter, Rule::Choice));
        }
        if let Some(found) = yes_or_no(last_sentence(line)) {
            return Some((found, Rule::Words));
        }
        if let Some(letter) = affirmed(last_sentence(line)) {
            return Some((letter, Rule::Choice));
        }
        if text::statements(line).is_some() && !line.bytes().any(|byte| byte.is_ascii_digit()) {
            return Some((line, Rule::Words));
        }
        if let Some(inner) = bold(line) {
            return Some((inner, Rule::Bold));
        }
        if let Some(inner) = conclusion(text) {
            return Some((inner, Rule::Conclusion));
        }
        let last = last_sentence(line);
        let tail = last
            .rfind(" is ")
            .map_or(last, |at| without_reason(last[at + 4..].trim_start_matches("the ")));
        if date(tail).is_some() || tail.len() < last.len() && text::is_choice(tail) {
            return Some((tail, Rule::Conclusion));
        }
        let is_word = tail.len() < last.len()
            && tail.starts_with(char::is_uppercase)
            && tail.chars().all(char::is_alphabetic)
            && !is_open(last)
            && !ABOUT.contains(&tail.to_lowercase().as_str());
        if is_word {
            return Some((tail, Rule::Conclusion));
        }
        if !last.contains(|c: char| c.is_ascii_digit() || c == '$' || c == '\\') {
            if let Some(word) = number_word(last) {
                return Some((word, Rule::Number));
            }
            if let Some(inner) = choice(last) {
                return Some((inner, Rule::Choice));
            }
            if let Some(found) = words(last) {
                return Some(found);
            }
        }
        // "So 42, not 18.": a remark supplies no value.
        let before = before_remark(last);
        if before.len() < last.len()
            && let Some(found) = last_value(before)
        {
            return Some(found);
        }
    }
    if let Some(found) = stated_value(text) {
        return Some(found);
    }
    (text.len() <= MAX_WORDS).then_some((text, Rule::Words))
}

/// The letter of a clause that calls it right: B of "A is wrong; B is correct".
fn affirmed(sentence: &str) -> Option<&str> {
    sentence.split([';', ',']).rev().find_map(|clause| {
        let clause = clause.trim().trim_start_matches("and ").trim_start_matches("but ");
        let (letter, rest) = clause.split_once(' ').unwrap_or((clause, ""));
        let letter = letter.trim_matches(['(', ')', '*']);
        let is_letter = matches!(letter.as_bytes(), [b'A'..=b'J']);
        let is_right = ["is correct", "is right", "is the answer", "is the correct"]
            .iter()
            .any(|words| rest.starts_with(words));
        (is_letter && is_right).then_some(letter)
    })
}

/// A text without the courtesies behind its answer: "Let me know if you have 3 more questions!"
fn without_courtesy(text: &str) -> &str {
    const COURTESIES: [&str; 14] = [
        "don't hesitate",
        "do not hesitate",
        "let me know",
        "please let me know",
        "feel free",
        "hope this",
        "i hope",
        "hope that",
        "if you have",
        "if you need",
        "is there anything",
        "would you like",
        "thank",
        "good luck",
    ];
    let mut text = text.trim();
    for _ in 0..3 {
        let end = text.trim_end_matches(['.', '!', '?', ' ', '\n', '*']);
        let start =
            [". ", "! ", "? ", "\n"].iter().filter_map(|end_of| Some(end.rfind(end_of)? + 1));
        let Some(start) = start.max() else { break };
        let last = text[start..].trim_start().to_lowercase();
        if !COURTESIES.iter().any(|begin| last.starts_with(begin)) {
            break;
        }
        text = text[..start].trim_end();
    }
    text
}

/// Whether a text refuses to answer.
fn is_refusal(text: &str) -> bool {
    const REFUSALS: [&str; 13] = [
        "i can't do that",
        "i am not able to",
        "no comment",
        "i can't help",
        "i cannot help",
        "i can't assist",
        "i cannot assist",
        "i can't answer",
        "i cannot answer",
        "i'm unable to",
        "i am unable to",
        "i'm not able to",
        "i won't",
    ];
    let lower = text.to_lowercase().replace('’', "'");
    text.len() <= MAX_WHOLE && REFUSALS.iter().any(|words| lower.contains(words))
}

/// The value of a line such as `A: 7`, `ans = 7`.
fn labelled(line: &str) -> Option<&str> {
    let (name, value) = line.split_once([':', '='])?;
    let name = name.trim_matches(['*', ' ', '.']).to_lowercase();
    let value = value.trim_matches(|c: char| c.is_whitespace() || "*.".contains(c));
    let name = name.strip_prefix("the ").unwrap_or(&name);
    let is_label = matches!(name, "a" | "ans" | "result" | "solution" | "sol" | "output");
    let is_equation = !line.contains(':');
    let value = if is_value(value) { value } else { without_reason(value) };
    let is_name = || {
        name != "a"
            && value.split_whitespace().count() <= MAX_NAME
            && !is_open(value)
            && !value.is_empty()
    };
    let is_text = || text::is_choice(value) || date(value).is_some() || is_name();
    (is_label && !is_equation && value.len() <= MAX_WHOLE && (is_value(value) || is_text()))
        .then_some(value)
}

/// The formula on lines of its own that a text ends with: `\[x > 3\]`.
fn displayed(text: &str) -> Option<&str> {
    let text = text.trim_end_matches(['.', ' ', '\n']);
    [("\\[", "\\]"), ("$$", "$$")].iter().find_map(|(open, close)| {
        let inner = text.strip_suffix(close)?;
        let start = inner.rfind(open)?;
        let inner = inner[start + open.len()..].trim().trim_end_matches('.');
        (start > 0 && is_value(inner)).then_some(inner)
    })
}

/// Yes or No of a sentence that begins with it and goes on with a reason, or that ends with it.
fn yes_or_no(sentence: &str) -> Option<&str> {
    const WORDS: [&str; 4] = ["Yes", "No", "True", "False"];
    let sentence = sentence.trim_matches(['*', ' ']);
    for word in WORDS {
        let rest = sentence.strip_prefix(word).map(|rest| rest.trim_start_matches(['*', ',', ' ']));
        let reasons = ["because", "since", "as ", "for "];
        if rest.is_some_and(|rest| reasons.iter().any(|reason| rest.starts_with(reason))) {
            return Some(&sentence[..word.len()]);
        }
    }
    let (before, last) = sentence.rsplit_once(' ')?;
    let last = last.trim_matches(['.', '*', '!']);
    let is_conclusion = before.ends_with(" so") || before.ends_with(", therefore");
    (is_conclusion && WORDS.iter().any(|word| last.eq_ignore_ascii_case(word))).then_some(last)
}

/// Whether a text is steps of a calculation, `6*3 = 18 and 18+6 = 24`, of which the last one is the answer; `x = 1 and
/// x = 2` is a list of two.
fn is_calculation(text: &str) -> bool {
    let is_step = |step: &str| {
        let Some((left, _)) = step.split_once('=') else { return false };
        let left = left.trim().trim_start_matches(|c: char| c.is_alphabetic()).trim_start();
        let is_number =
            left.contains(|c: char| c.is_ascii_digit()) && !left.contains(char::is_alphabetic);
        is_number && left.contains(['+', '-', '*', '/', '\u{d7}', '\u{f7}'])
    };
    text.contains(" and ") && text.split(" and ").all(is_step)
}

/// The end of the last sentence, after "is", an equals sign or a colon, if all of it is mathematics: a formula without
/// dollars, a point.
pub(super) fn conclusion(text: &str) -> Option<&str> {
    let end = text.trim_end_matches(|c: char| c.is_whitespace() || c == '*');
    let end = if end.ends_with("..") {
        end.strip_suffix("....").map_or(end, |_| &end[..end.len() - 1])
    } else {
        end.trim_end_matches(['.', ' '])
    };
    let line = end.lines().next_back()?;
    let line = line.rsplit(". ").next().unwrap_or(line);
    if line.len() > MAX_WHOLE {
        return None;
    }
    let line = before_remark(line);
    let marks = [" is ", " are ", "= ", ": "];
    let starts = marks.iter().filter_map(|mark| Some(line.rfind(mark)? + mark.len()));
    let starts: Vec<usize> = starts.collect();
    // `$\{x : x > 17\}$`: a mark inside of a formula is none.
    let is_inside = |at: usize| line[..at].matches('$').count() % 2 == 1;
    let last = *starts.iter().max()?;
    if is_inside(last) {
        return None;
    }
    // "it is y = 2x + 1": the equation as a whole.
    let first = *starts.iter().min()?;
    let whole = line[first..].trim();
    if first < last && !whole.contains('$') && is_equation(whole) {
        return Some(whole);
    }
    if is_denied(&line[..last], "") {
        return None;
    }
    let tail = line[last..].trim();
    let is_formula = |text: &str| !text.is_empty() && !text.contains('$') && is_answer(text);
    let tail = if is_formula(tail) { tail } else { stated(tail)? };
    (is_formula(tail) && is_value(tail)).then_some(tail)
}

/// The only number of a sentence, in words: "She has seven left."
fn number_word(sentence: &str) -> Option<&str> {
    let is_number = |word: &&str| *word != "one" && *word != "One" && spelled(word).is_some();
    let mut words = sentence.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    let all = words.clone().filter(is_number).count();
    let is_vague =
        is_open(sentence) || sentence.contains(['-', ',']) || sentence.contains(" than ");
    let of_several = ["hundred", "thousand", "million", "half", "third", "dozen", "and", "to"];
    let is_several = words.clone().any(|word| {
        let is_part = ["ths", "th", "rds", "quarter", "quarters", "halves"];
        of_several.contains(&word) || is_part.iter().any(|end| word.ends_with(end))
    });
    if all == 1 && !is_vague && !is_several { words.find(is_number) } else { None }
}

/// Whether a text is equations, and no calculation.
fn is_equation(text: &str) -> bool {
    let is_chain = |answer: &Answer| matches!(answer, Answer::Chain(..));
    let has_name = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    has_name
        && match parse(text) {
            Some(Answer::Chain(..)) => true,
            Some(Answer::List(items)) => items.iter().all(is_chain),
            _ => false,
        }
        && is_value(text)
}

fn last_sentence(line: &str) -> &str {
    let end = line.trim_end_matches(|c: char| c.is_whitespace() || ".!*".contains(c));
    end.rsplit(". ").next().unwrap_or(end)
}

/// A sentence up to a remark that may hold another value.
fn before_remark(line: &str) -> &str {
    const MARKS: [&str; 10] = [
        " since ",
        ", which ",
        ", not ",
        " and not ",
        ", because ",
        " because ",
        ", since ",
        ", whereas ",
        ", rather than ",
        " instead of ",
    ];
    let cut = MARKS.iter().filter_map(|mark| line.find(mark)).min();
    match cut {
        Some(at)
            if line[..at].bytes().any(|byte| byte.is_ascii_digit())
                || line[..at].contains(" is ") =>
        {
            &line[..at]
        }
        _ => line,
    }
}

/// The last bold text of a line: a value that no other number follows but in a remark, or words in a line without
/// numbers.
fn bold(line: &str) -> Option<&str> {
    let close = line.rfind("**")?;
    let open = line[..close].rfind("**")?;
    let inner = line[open + 2..close].trim();
    let inner = if inner.ends_with("..") { inner } else { inner.trim_end_matches('.') };
    let after = line[close + 2..].trim_start();
    if inner.is_empty() || inner.ends_with(':') || after.starts_with(':') {
        return None;
    }
    let has_digits = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    let outside = [&line[..open], after];
    if text::is_choice(inner) || date(inner).is_some() {
        return Some(inner);
    }
    let inner = without_reason(inner);
    if has_digits(inner) || inner.contains(['\\', '$']) {
        let is_last = !has_digits(after) || after.starts_with([',', ';', '(', '—']);
        let is_pair =
            after.starts_with(", ") && after[2..].starts_with(|c: char| !c.is_alphabetic());
        return (is_last && !is_pair && is_value(inner)).then_some(inner);
    }
    let is_open = is_open(line);
    let is_name = inner.len() <= MAX_WORDS && !outside.iter().any(|text| has_digits(text));
    (is_name && !is_open && line[..open].matches("**").count() == 0).then_some(inner)
}

/// Whether a word of a sentence leaves open what it says.
pub(super) fn is_open(sentence: &str) -> bool {
    let mut words = sentence.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.any(|word| OPEN.iter().any(|open| word.eq_ignore_ascii_case(open)))
}

/// The letter of "option C is correct", "the correct choice is (C)".
fn choice(sentence: &str) -> Option<&str> {
    // "Option D is wrong, so option B is correct."
    let links = [", so ", "; ", ", therefore ", ", thus ", ", hence ", ", but ", ", while "];
    let start = links.iter().filter_map(|link| Some(sentence.rfind(link)? + link.len())).max();
    let sentence = &sentence[start.unwrap_or(0)..];
    let is_refused =
        ["incorrect", "wrong", "false", "eliminate"].iter().any(|word| sentence.contains(word));
    if is_refused || is_open(sentence) {
        return None;
    }
    let after = |word: &str| Some(sentence.rfind(word)? + word.len());
    let at = ["ption ", "hoice ", "ption is ", "hoice is "].iter().filter_map(|word| after(word));
    let rest = sentence[at.max()?..].trim_start_matches(['(', '*', ' ']);
    let is_letter = rest.starts_with(|c: char| ('A'..='J').contains(&c))
        && !rest[1..].starts_with(|c: char| c.is_alphanumeric());
    is_letter.then(|| &rest[..1])
}

/// The words that a sentence without numbers concludes with: Evelyn of "the fastest is Evelyn", Yes of "Yes, it does".
fn words(sentence: &str) -> Option<(&str, Rule)> {
    for word in ["Yes", "No", "True", "False"] {
        let rest = sentence.trim_start_matches('*').strip_prefix(word);
        if rest.is_some_and(|rest| rest.starts_with([',', ';', ':', '—'])) {
            let start = offset_in(sentence, sentence.trim_start_matches('*'));
            return Some((&sentence[start..start + word.len()], Rule::Words));
        }
    }
    let reasons = [
        ", since ",
        ", because ",
        " because ",
        " since ",
        ", as ",
        ", although ",
        ", not ",
        " (",
        ", the ",
        ", given ",
    ];
    let cut = reasons.iter().filter_map(|reason| sentence.find(reason)).min();
    let sentence = &sentence[..cut.unwrap_or(sentence.len())];
    if is_open(sentence) {
        return None;
    }
    let starts = [" is ", " are ", " was ", " be "].iter();
    let start = starts.filter_map(|mark| Some(sentence.rfind(mark)? + mark.len())).max()?;
    let tail = sentence[start..].trim_matches(['*', ' ', ',', '.', '"']);
    let mut words = tail.split(' ');
    let is_about = words.clone().any(|word| ABOUT.contains(&word.to_lowercase().as_str()));
    let concludes = ["So ", "Therefore", "Thus", "Hence", "The ", "Answer"]
        .iter()
        .any(|begin| sentence.starts_with(begin))
        || spelled(tail).is_some();
    let is_name = words.all(|word| word.starts_with(char::is_uppercase)) || concludes;
    let is_short = !tail.is_empty() && tail.split(' ').count() <= 4;
    (is_short && is_name && !is_about).then_some((tail, Rule::Conclusion))
}

/// The last value that a text does not deny: "it is not 7" says what it is not.
fn stated_value(text: &str) -> Option<(&str, Rule)> {
    let mut rest = text;
    for _ in 0..MAX_DENIALS {
        let found = last_value(rest)?;
        let start = offset_in(rest, found.0);
        let before = rest[..start].trim_end_matches([' ', '*', '$']);
        let end = offset_in(text, found.0) + found.0.len();
        if !is_denied(before, &text[end..]) {
            return Some(with_alternative(text, before, found));
        }
        rest = before;
    }
    None
}

/// A value and the one before an "or", as one answer: "42 or 7" is neither.
fn with_alternative<'a>(
    text: &'a str,
    before: &'a str,
    (value, rule): (&'a str, Rule),
) -> (&'a str, Rule) {
    let doubts = [" maybe", " perhaps", " possibly"];
    let doubted = doubts.iter().find_map(|doubt| before.strip_suffix(doubt)).unwrap_or(before);
    let Some((first, _)) = doubted.strip_suffix(" or").and_then(last_value) else {
        return (value, rule);
    };
    let (start, end) = (offset_in(text, first), offset_in(text, value) + value.len());
    (&text[start..end], rule)
}

/// The later of the last formula and the last number outside it.
pub(super) fn last_value(text: &str) -> Option<(&str, Rule)> {
    let end = |span: &str| offset_in(text, span) + span.len();
    match (formula_in(text), last_number(text)) {
        (Some((_, formula)), Some(number)) if end(number) > end(formula) + 2 => {
            Some((number, Rule::Number))
        }
        (Some((_, formula)), _) => Some((formula, Rule::Formula)),
        (None, Some(number)) => Some((number, Rule::Number)),
        (None, None) => None,
    }
}

/// The last `$...$`, `\(...\)` or `\[...\]`.
pub(super) fn formula_in(text: &str) -> Option<(usize, &str)> {
    let dollars = || {
        let end = text.rfind('$')?;
        let start = text[..end].trim_end_matches('$').rfind('$')?;
        // Money is not a formula: `$5 and $6`.
        let inner = text[start + 1..end].trim_matches('$').trim();
        (!inner.is_empty() && !text[..start].ends_with('\\')).then_some((start, inner))
    };
    let pair = |open: &str, close: &str| {
        let end = text.rfind(close)?;
        let start = text[..end].rfind(open)?;
        Some((start, text[start + open.len()..end].trim()))
    };
    [dollars(), pair("\\(", "\\)"), pair("\\[", "\\]")]
        .into_iter()
        .flatten()
        .filter(|(_, inner)| parse(inner).is_some())
        .max_by_key(|(start, _)| *start)
}

/// The formula that a text begins with, and what follows it.
pub(super) fn formula_at(text: &str) -> Option<(&str, &str)> {
    [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")].iter().find_map(|(open, close)| {
        let (inner, rest) = text.strip_prefix(open)?.split_once(close)?;
        (!inner.trim().is_empty()).then_some((inner.trim(), rest))
    })
}

/// The first number of a text, as [`last_number`] reads it.
pub(super) fn first_number(text: &str) -> Option<&str> {
    let first = text.find(|c: char| c.is_ascii_digit())?;
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, ',' | '.' | '/');
    let rest = text[first..].find(|c: char| !is_part(c)).map_or(text.len(), |end| first + end);
    let end = first + text[first..rest].trim_end_matches([',', '.', '/']).len();
    last_number(&text[..end]).map(|number| {
        let start = offset_in(text, number);
        let is_percent = text[end..].starts_with('%');
        &text[start..end + usize::from(is_percent)]
    })
}

/// The last number in running text: sign, digits with thousands separators, decimals, `a/b`.
fn last_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut end = bytes.iter().rposition(u8::is_ascii_digit)? + 1;
    let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b',' | b'.' | b'/');
    let mut start = end - 1;
    while start > 0 && is_part(bytes[start - 1]) {
        start -= 1;
    }
    while !bytes[start].is_ascii_digit() && bytes[start] != b'.' {
        start += 1;
    }
    // A minus sign belongs to the number unless it joins it to what stands before.
    if start > 0 && bytes[start - 1] == b'-' {
        let before = start.checked_sub(2).map(|at| bytes[at]);
        if before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && byte != b')') {
            start -= 1;
        }
    }
    end += usize::from(bytes.get(end) == Some(&b'%'));
    // Part of a name, as in `A2B`, it is no number.
    let is_spaced = |c: char| c < '\u{2e80}' && !('\u{e00}'..'\u{1100}').contains(&c);
    if text[..start].ends_with(|c: char| c.is_alphabetic() && is_spaced(c) || c == '_') {
        return None;
    }
    Some(&text[start..end])
}
