//! `\boxed{7}`: the last box that is closed and holds an answer, with a unit that stands right behind it.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::super::amounts::abbreviation;
use super::super::lex::is_thousand;
use super::super::scan::{
    before_end, begins, each, has_digits, is_digit, is_one_of, past, pattern, without,
};
use super::super::spelled::{parts, scale, spelled};
use super::super::standing::{self, OR, corrects, is_unstated};
use super::super::units::is_unit;
use super::super::{Outcome, equality};
use super::formula::{self, closing};
use super::numbers::formula_at;
use super::{Found, Rule, is_integer, is_placeholder, is_value};
use super::{offset_in, part};

/// Most boxes that are one list.
const MAX_LIST: usize = 16;

/// A closed box.
struct Boxed {
    /// Where the command begins.
    start: usize,
    /// What stands in it.
    inner: Range<usize>,
    /// Index of the byte after its closing brace.
    end: usize,
}

/// The last box of a text, or the list that several adjacent ones are, and where it begins.
pub(super) fn last(text: &str) -> Option<(usize, Found<'_>)> {
    let mut boxes = closed_boxes(text);
    let is_denied = |boxed: &Boxed| {
        let (before, after) = (&text[..boxed.start], &text[boxed.end..]);
        is_unstated(before, after)
            || standing::stated("", &text[boxed.inner.clone()]).is_none()
            || standing::is_step(before, after)
    };
    let mut last = boxes.by_ref().take(MAX_LIST).find(|boxed| !is_denied(boxed))?;
    if text[..last.start].ends_with("**") && text[last.end..].starts_with("**") {
        (last.start, last.end) = (last.start - 2, last.end + 2);
    }
    let at = last.start;
    if let Some(outer) = outside(text, &last) {
        let whole = text[outer.inner.clone()].replace("\\boxed", "");
        return Some((
            outer.start,
            Found { text: whole.into(), span: outer.inner, rule: Rule::Box },
        ));
    }
    if let Some(whole) = around(text, &last) {
        return Some((at, whole));
    }
    Some((at, list(text, &last, boxes).unwrap_or_else(|| single(text, &last))))
}

/// The box around a box with another number: `\boxed{\boxed{14}\boxed{15}}`.
fn outside(text: &str, last: &Boxed) -> Option<Boxed> {
    text[last.end..].contains('}').then_some(())?;
    let mut open = Vec::new();
    let outer = formula::braces(text).find_map(|(at, brace)| {
        if brace == b'{' {
            open.push(at);
            return None;
        }
        let brace = open.pop().filter(|brace| *brace < last.start && at >= last.end)?;
        let start = before_end(text[..brace].trim_end(), "\\framebox|\\fbox|\\boxed|\\box")?.len();
        Some(Boxed { start, inner: brace + 1..at, end: at + 1 })
    })?;
    let before = text[outer.inner.start..last.start].replace(&text[last.inner.clone()], "");
    has_digits(&before).then_some(outer)
}

/// The contents of the last closed box, with the unit behind it.
pub(crate) fn last_box(text: &str) -> Option<Cow<'_, str>> {
    let last = closed_boxes(text).next()?;
    Some(with_unit(text, &last).0)
}

/// The contents of several boxes, where no text between them corrects one: the parts of an answer in parts.
pub(in super::super) fn all_boxes(text: &str) -> Option<String> {
    let mut boxes: Vec<Boxed> = closed_boxes(text).take(MAX_LIST + 1).collect();
    boxes.reverse();
    // None between boxes in each other.
    let between = |pair: &[Boxed]| text.get(pair[0].end..pair[1].start);
    let is_corrected = boxes.windows(2).any(|pair| between(pair).is_none_or(corrects));
    let mut parts: Vec<&str> = boxes.iter().map(|boxed| text[boxed.inner.clone()].trim()).collect();
    parts.dedup();
    // A box that is given once more is the one that counts.
    let differ = (1..parts.len()).all(|at| !parts[..at].contains(&parts[at]));
    ((2..=MAX_LIST).contains(&parts.len()) && differ && !is_corrected).then(|| parts.join(", "))
}

fn single<'a>(text: &'a str, boxed: &Boxed) -> Found<'a> {
    let inner = text[boxed.inner.clone()].trim();
    let stated = standing::stated("", inner).map_or(inner, str::trim);
    if stated.len() < inner.len() {
        return part(text, stated, Rule::Box);
    }
    let (text, span) = with_unit(text, boxed);
    Found { text, span, rule: Rule::Box }
}

/// A box that is a part of a formula, as in `-\boxed{5}`, `2\boxed{5}`, `\boxed{5}^2` and `\boxed{5}\text{ million}`:
/// all of it. A box in an equation, `3+\boxed{2}=5`, is a blank that is filled in.
fn around<'a>(text: &'a str, boxed: &Boxed) -> Option<Found<'a>> {
    let (before, after) = (&text[..boxed.start], &text[boxed.end..]);
    let inner = text[boxed.inner.clone()].trim();
    let line = after.lines().next().unwrap_or_default();
    // Most boxes, "is $\boxed{7}$.", need no look at what is around them.
    let begin = before.trim_end_matches([' ', '$']);
    let is_value_of =
        begin.ends_with('=') && before_end(begin, "<=|>=|!=|/=|\\not=|\\not =").is_none();
    let is_alone = (begin.is_empty() || is_value_of || begin.ends_with(" is"))
        && line.trim_start_matches(['$', '.', ' ']).is_empty();
    // "So 20 is \boxed{25}% of 80" gives the share itself.
    let is_share = |words: &str| words.starts_with("/100*") && !begin.is_empty() && !is_value_of;
    let times = multiplier(after).filter(|(_, words)| !is_share(words));
    if times.is_none() && (is_alone || line.trim_start().starts_with('=')) {
        return None;
    }
    let found = |start: usize, end: usize| {
        let (left, right) = (&text[start..boxed.start], &text[boxed.end..end]);
        let right = times.as_ref().map_or(right, |(_, words)| words);
        let is_bare =
            is_integer(inner) && !left.ends_with(is_digit) && !right.starts_with(is_digit);
        let group = if is_bare { inner.to_owned() } else { format!("({inner})") };
        let text = format!("{left}{group}{right}").replace('$', "");
        Found { text: text.into(), span: start..end, rule: Rule::Box }
    };
    let inside = formula::around(before, after);
    if let Some((left, right)) = &inside
        && times.is_none()
        && !(left.trim().is_empty() && right.trim().is_empty())
        && let whole = found(boxed.start - left.len(), boxed.end + right.len())
        && is_value(&whole.text)
    {
        return is_value(inner).then_some(whole);
    }
    let outside =
        || formula::enclosing(before, after).or_else(|| formula::operation(before, after));
    let (start, end) = match inside {
        inside if let Some((end, _)) = &times => {
            let left =
                inside.map_or(before.len() - formula::factor(before), |(left, _)| left.len());
            (boxed.start - left, boxed.end + end)
        }
        Some(_) => (boxed.start, boxed.end + suffix(inner, line)),
        None => match outside() {
            Some((start, end)) => (start, boxed.end + end),
            None => (formula::factor(before), boxed.end + suffix(inner, line)),
        },
    };
    let is_part = start < boxed.start || end > boxed.end;
    (is_part && is_value(inner)).then(|| found(start, end))
}

/// The other value of `\boxed{14} or 15`, up to its end; none where it is the same again.
fn second_guess(inner: &str, other: &str) -> Option<usize> {
    let begin = other.trim_start_matches(['}', ' ']);
    let value = without(begin, "maybe |perhaps |possibly |else ").trim_start_matches(['}', ' ']);
    let word = value.split([' ', ';', '!', '?']).next().unwrap_or(value);
    let word = word.trim_end_matches(['.', ',', ':', ')', '}']);
    let (value, end) = match formula_at(value) {
        Some((formula, rest)) => (formula, other.len() - rest.len()),
        // `1 hour`
        None => {
            let start = offset_in(other, word);
            let rest = &other[start + word.len()..];
            let unit = rest.split_inclusive(' ').take(2).map(str::len).sum::<usize>();
            let unit = rest[..unit].trim_end_matches([' ', '.', ',', '$']);
            let unit = if is_unit(unit.trim()) { unit } else { "" };
            (&other[start..start + word.len() + unit.len()], start + word.len() + unit.len())
        }
    };
    let is_number = || spelled(value).is_some() || has_digits(value);
    // `\boxed{C} or D`, `\boxed{Evelyn} or Alice`
    let is_name =
        |text: &str| text.starts_with(char::is_uppercase) && text.chars().all(char::is_alphabetic);
    let is_name = || is_name(inner) && is_name(value);
    let are_same = |inner: &str| equality::compared(inner, value).0 == Outcome::Correct;
    // `\boxed{60} or 1 hour`: the same in a larger unit.
    let is_same = || {
        let last = value.rsplit(' ').next().unwrap_or(value);
        let is_larger = is_integer(inner) && is_one_of(last, "hour|hours|day|days|foot|feet");
        let names: &[_] = if is_larger { &["minutes", "hours", "inches"] } else { &[] };
        are_same(inner) || names.iter().any(|unit| are_same(&format!("{inner} {unit}")))
    };
    (other.starts_with([' ', '}', '$']) && (is_number() || is_name()) && !is_same()).then_some(end)
}

/// What makes the number in a box another one behind TeX's spaces, styles and braces: where `\,\text{million}`,
/// `\mathrm{e}3` or `\% of 40` ends, and what it says.
fn multiplier(after: &str) -> Option<(usize, String)> {
    const SKIPPED: &str = " |~|$|}|{|\\,|\\;|\\:|\\!|\\ |\\quad|\\qquad|&nbsp;|\n|\\text|\\textbf|\\textrm|\\mathrm|\\mathbf|\\rm|\\bf|\\mbox";
    let mut rest = after;
    while let Some(next) = past(rest, SKIPPED) {
        rest = next;
    }
    // `\boxed{5}-million`
    let joined = after.strip_prefix('-').filter(|word| word.starts_with(char::is_alphabetic));
    rest = joined.unwrap_or(rest);
    let lead = &after[..after.len() - rest.len()];
    let percent = past(rest, "\\%|%|percent ").map(|of| of.trim_start_matches(['$', '}', ' ']));
    if let Some(of) = percent.and_then(|of| of.strip_prefix("of ")) {
        let whole = of.trim_start_matches(['$', '\\']);
        let digits = whole.len() - whole.trim_start_matches(is_digit).len();
        let end = offset_in(after, whole) + digits;
        // "20 % of 50 students"
        let is_all = !whole[digits..].trim_start().starts_with(char::is_alphabetic);
        return (digits > 0 && is_all).then(|| (end, format!("/100*{}", &whole[..digits])));
    }
    let length = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let (word, behind) = rest.split_at(length);
    let power = behind.trim_start_matches(['}', '{', '+']);
    let digits = power.strip_prefix('-').unwrap_or(power);
    let exponent = digits.len() - digits.trim_start_matches(is_digit).len();
    if is_one_of(word, "e|E") && exponent > 0 {
        let end = offset_in(after, digits) + exponent;
        return Some((end, format!("e{}", &after[offset_in(after, power)..end])));
    }
    let is_scale = match lead.contains('\n') {
        true => {
            lead.matches('\n').count() == 1
                && is_one_of(word, "hundred|thousand|million|billion|trillion")
        }
        false => {
            scale(word).is_some()
                || parts(word).is_some()
                || is_one_of(word, "k|M") && lead.is_empty()
        }
    };
    let close = usize::from(lead.contains('{') && behind.starts_with('}'));
    let times = abbreviation(word).unwrap_or(word);
    is_scale.then(|| (offset_in(after, behind) + close, format!("\\text{{ {times}}}")))
}

/// How much of what follows a box at once goes on as its formula.
fn suffix(inner: &str, line: &str) -> usize {
    let whole = line.len();
    let word = line.trim_start_matches([' ', '~', '$', ',', '\\', ';']);
    let word =
        word.strip_prefix("text{").or(word.strip_prefix("mathrm{")).unwrap_or(word).trim_start();
    if let Some(other) = past(word, OR).or_else(|| word.strip_prefix('o'))
        && let Some(end) = second_guess(inner, other)
    {
        return offset_in(line, other) + end;
    }
    // `\boxed{18},000`, `\boxed{7}.5`
    let digits = line.strip_prefix([',', '.']).filter(|rest| rest.starts_with(is_digit));
    if let Some(digits) = digits.filter(|digits| line.starts_with('.') || is_thousand(digits, "")) {
        return 1 + digits.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(digits.len());
    }
    // `\boxed{8}x` is no 8.
    let is_letter = line.starts_with(['x', 'y', 'z', 'n', 'k', 'i'])
        && !line[1..].starts_with(char::is_alphanumeric)
        // `\boxed{5}x faster`, `\boxed{8}i.e.`
        && !line[1..].trim_start_matches([' ', '.']).starts_with(char::is_alphabetic);
    if is_letter || line.starts_with("\\pi") || line.starts_with("\\sqrt{") {
        return line.find([' ', '$', '.', ',', ')']).unwrap_or(line.len());
    }
    if let Some(power) = line.strip_prefix('^') {
        if power.trim_start_matches(['{', ' ']).starts_with(['\\', '°']) {
            return 0;
        }
        let braced = power.strip_prefix('{').and_then(closing).map(|close| close + 2);
        return 1 + braced.unwrap_or_else(|| power.chars().next().map_or(0, char::len_utf8));
    }
    if line.starts_with(is_digit) || line.starts_with("\\%") {
        return line.find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len());
    }
    const OPERATORS: &str =
        "\\cdot|\\times|\\div|+|*|/|-|×|÷|·|times |plus |minus |divided by |multiplied by ";
    // With spaces an operator is one of the formula only where the formula ends with it, `$\boxed{40} - 8$`, or goes on
    // behind its marks: `$\boxed{18}$ × 2 = 36`.
    let spaced = without(line, "$|\\)").trim_start_matches(' ');
    let is_spaced = spaced.len() < line.len();
    let Some(operator) = each(OPERATORS).find(|op| spaced.starts_with(op)) else { return 0 };
    let line = spaced;
    let before = whole - line.len();
    let operand = line[operator.len()..].trim_start_matches(' ');
    let start = line.len() - operand.len();
    let end = operand.find(['$', ' ', ',', '.', ';', ':', ')']).unwrap_or(operand.len());
    let is_operand = operand.starts_with(|c: char| match operator {
        "-" => c.is_ascii_digit(),
        _ => c.is_alphanumeric() || c == '\\',
    });
    // A number or letter at the end of the line: `\boxed{7} + 3`, `\boxed{7} + 2i.`
    let letter = operand[..end].trim_start_matches(is_digit);
    let is_closing = letter.len() < 2
        && letter.bytes().all(|byte| byte.is_ascii_lowercase())
        && operand[end..].trim_end_matches(['.', ' ']).is_empty();
    let is_last =
        || begins(&operand[end..], "$|\\)|\\]| =") || operator.ends_with(' ') || is_closing;
    let is_part = is_operand && !operand[..end].contains(['=', 'b']) && (!is_spaced || is_last());
    if is_part { before + start + end } else { 0 }
}

/// A box's contents with the percent sign, degrees or unit right behind it: `\boxed{1.45}\text{ cm}`.
fn with_unit<'a>(text: &'a str, boxed: &Boxed) -> (Cow<'a, str>, Range<usize>) {
    let raw = &text[boxed.inner.clone()];
    let inner = raw.trim();
    let start = offset_in(text, inner);
    let bare = (Cow::Borrowed(inner), start..start + inner.len());
    let Some(unit) = unit_behind(&text[boxed.end..]) else { return bare };
    let end = offset_in(text, unit) + unit.len();
    (Cow::Owned(format!("{inner}{unit}")), start..end)
}

fn unit_behind(rest: &str) -> Option<&str> {
    // `$\boxed{12}$%`
    let unit = pattern!(
        r"^(?:[ ~]|\\[,;! ])*\$?(\\?%|\^(?:\\circ|\{\\circ\}|°)|°|\\(?:text|mathrm|textrm|mbox|rm)\{([^}]{0,39})\}(?:\^(?:[23]|\{[23]\}))?)"
    );
    let found = unit.captures(rest)?;
    let is_known = |words: &str| is_unit(words.trim_matches([' ', '~', '.']));
    let mark = found.get(1).filter(|_| found.get(2).is_none_or(|words| is_known(words.as_str())));
    mark.map(|mark| mark.as_str())
}

/// Closed boxes, from the last to the first; `\boxed{}` and `\boxed{answer}` hold none.
fn closed_boxes(text: &str) -> impl Iterator<Item = Boxed> {
    // A box that does not close is looked at once: what comes before it ends there. So the scan stays linear.
    let (mut limit, mut next) = (text.len(), text.len());
    let places: Vec<usize> = memmem::find_iter(text.as_bytes(), "box").collect();
    places.into_iter().rev().filter_map(move |at| {
        let start = before_end(&text[..at], "\\frame|\\f|\\")?.len();
        (at < limit).then_some(())?;
        let tail = without(&text[at + 3..limit], "ed").trim_start();
        let until = std::mem::replace(&mut next, start);
        let Some(inner) = tail.strip_prefix('{') else {
            // `\boxed5`, up to the next box.
            let from = offset_in(text, tail);
            let number = tail.get(..until.checked_sub(from)?)?;
            let end = from + number.find([' ', '$', '\n', '.']).unwrap_or(number.len());
            let is_number = number.starts_with(|c: char| c.is_ascii_digit() || c == '-');
            return is_number.then_some(Boxed { start, inner: from..end, end });
        };
        let Some(close) = closing(inner) else {
            limit = start;
            return None;
        };
        let from = offset_in(text, inner);
        let boxed = Boxed { start, inner: from..from + close, end: from + close + 1 };
        (!is_placeholder(inner[..close].trim())).then_some(boxed)
    })
}

/// Boxes that follow each other closely, or with "and", "or" or a comma between, as a list; `None` for a single one. So
/// a model that boxes two guesses has given neither.
fn list<'a>(text: &'a str, last: &Boxed, rest: impl Iterator<Item = Boxed>) -> Option<Found<'a>> {
    let content = |boxed: &Boxed| text[boxed.inner.clone()].trim();
    let mut parts = vec![content(last)];
    let mut span = last.inner.clone();
    let mut next = last.start;
    for boxed in rest.take(MAX_LIST - 1) {
        let gap = text.get(boxed.end..next)?.trim_start_matches([' ', '}']);
        if !links(gap) {
            break;
        }
        if !parts.contains(&content(&boxed)) {
            parts.push(content(&boxed));
        }
        (next, span.start) = (boxed.start, boxed.inner.start);
    }
    parts.reverse();
    (parts.len() > 1).then(|| Found { text: parts.join(", ").into(), span, rule: Rule::Box })
}

/// Whether the text between two boxes makes them one list: nothing but signs, "and", "or" and names
/// with an equals sign, or an "and" right before the second. `\boxed{4}, no wait: \boxed{5}` is one answer after
/// another.
fn links(gap: &str) -> bool {
    if gap.len() >= 70 || standing::is_crossed(gap) {
        return false;
    }
    let are_known = gap.split(|c: char| !c.is_ascii_alphabetic()).all(|word| {
        word.len() <= 1 || matches!(word, "and" | "or" | "text" | "quad" | "qquad" | "mathrm")
    });
    let joins = gap.contains([',', ';']) || gap.contains("and") || gap.contains("or");
    let end = gap.trim_end_matches([' ', '}', '$']);
    const LINKS: &str = " and| or|lternatively,|also be|maybe|perhaps|possibly|might be|could be";
    let is_and = each(LINKS).any(|link| end.ends_with(link));
    is_and || (are_known && (joins || (gap.len() < 10 && !gap.contains('='))))
}
