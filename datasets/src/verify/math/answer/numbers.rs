//! Formulas and numbers in running text.

use super::super::calendar::date;
use super::super::languages::{before_alternative, before_hedge, is_case, is_compared};
use super::super::scan::{
    before_end, begins, has_digits, holds, is_digit, is_one_of, past, pattern, without,
};
use super::super::spelled::scale;
use super::super::standing::{self, is_asked, is_bound, is_denied, is_unstated};
use super::super::units::{conversion, is_unit};
use super::remarks::is_range;
use super::sentences::last_sentence;
use super::{MAX_WHOLE, Rule, is_answer, offset_in, worded};

/// The later of the last formula and the last number outside it.
pub(super) fn last_value(text: &str) -> Option<(&str, Rule)> {
    if let Some(time) = last_time(text) {
        return Some((time, Rule::Number));
    }
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

/// The time of day that no number follows: `3:45 p.m.`
pub(super) fn last_time(text: &str) -> Option<&str> {
    let time = pattern!(
        r"(?:^|[^\p{Alphabetic}\p{N}.,:/$-])([0-9]{1,2}:[0-5][0-9](?:\s*(?i:am|pm|[ap]\.(?-i:m)?))?)[^0-9:]*$"
    );
    text.contains(':').then(|| time.captures(text))??.get(1).map(|time| time.as_str())
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
        .filter_map(|(start, inner)| {
            // `P(A \cup B) = \frac{1}{2}`: a left side that is not read.
            let right = || inner.rsplit_once('=').map(|(_, right)| right.trim());
            let read = [Some(inner), right()].into_iter().flatten();
            read.into_iter().find(|part| worded(part).is_some()).map(|part| (start, part))
        })
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
    let first = text.find(|c| is_digit(c) || FRACTIONS.contains(c))?;
    let is_part = |c: char| c.is_ascii_digit() || ",./".contains(c) || FRACTIONS.contains(c);
    let rest = text[first..].find(|c: char| !is_part(c)).map_or(text.len(), |end| first + end);
    let end = first + text[first..rest].trim_end_matches([',', '.', '/']).len();
    last_number(&text[..end]).map(|number| {
        let start = offset_in(text, number);
        let is_percent = text[end..].starts_with('%');
        &text[start..end + usize::from(is_percent)]
    })
}

const FRACTIONS: &str = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞";

/// The last number in running text: sign, digits with thousands separators, decimals, `a/b`, `1¾`.
fn last_number(text: &str) -> Option<&str> {
    let fraction = text.rmatch_indices(|c| FRACTIONS.contains(c)).next();
    if let Some((at, fraction)) = fraction.filter(|(at, _)| !has_digits(&text[*at..])) {
        let whole = text[..at].trim_end_matches(is_digit);
        let number = &text[whole.len()..at + fraction.len()];
        return (!whole.ends_with(char::is_alphanumeric)).then_some(number);
    }
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
    end = text.len() - without(&text[end..], "%|‰").len();
    // `\sqrt{10}`, `10^{23}`: a part of a formula that is not read.
    if start > 0
        && ["sqrt{", "}{", "^{", "^", "_{"].iter().any(|open| text[..start].ends_with(open))
    {
        return None;
    }
    // Part of a name, as in `A2B`, it is no number.
    let is_spaced = |c: char| c < '\u{2e80}' && !('\u{e00}'..'\u{1100}').contains(&c);
    if text[..start].ends_with(|c: char| c.is_alphabetic() && is_spaced(c) || c == '_') {
        return None;
    }
    Some(&text[start..end])
}

/// A number with the unit behind it, and with the same in a larger unit before it: `4 dollars and 50 cents`.
pub(super) fn with_unit<'a>(text: &'a str, value: &'a str) -> &'a str {
    const MIN_UNIT: usize = 4;
    let is_name = |word: &str| {
        word.len() >= MIN_UNIT && (is_unit(word) || is_one_of(word, "degrees|degree|radians"))
    };
    if !value.ends_with(is_digit) {
        return value;
    }
    let value = with_scale(text, value);
    let start = offset_in(text, value);
    let end = start + value.len();
    let rest = text[end..].strip_prefix(' ').unwrap_or_default();
    let unit = rest.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    if !is_name(unit) {
        return value;
    }
    let before = text[..start].trim_end_matches(' ');
    let before = before.strip_suffix(" and").unwrap_or(before);
    let larger = before
        .rsplit_once(' ')
        .filter(|(_, word)| is_name(word) && conversion(word, unit).is_some());
    let number = larger
        .and_then(|(before, _)| last_value(before).filter(|(number, _)| before.ends_with(number)));
    let start = number.map_or(start, |(number, _)| offset_in(text, number));
    &text[start..end + 1 + unit.len()]
}

/// A number with the word behind it that makes it thousands or more: `2.5 million`, `3万`.
fn with_scale<'a>(text: &'a str, value: &'a str) -> &'a str {
    let rest = text[offset_in(text, value) + value.len()..].trim_start_matches(' ');
    let word = rest.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    let first = word.chars().next().map_or(0, char::len_utf8);
    const THOUSANDS: &str =
        "千米|千克|千瓦|千卡|千焦|千赫|千帕|千伏|千牛|千欧|千升|千安|千字节|千比特|百分|百帕";
    // Of `5千人` and `5百元` the sign is one of the number, of `5千米` one of the unit.
    let is_scale = |word: &&str| match is_one_of(word, "十|百|千") {
        true => !begins(rest, THOUSANDS),
        false => scale(&word.to_lowercase()).is_some_and(|size| size >= 1000),
    };
    match [word, &word[..first]].into_iter().find(is_scale) {
        Some(word) => &text[offset_in(text, value)..offset_in(text, word) + word.len()],
        None => value,
    }
}

/// The only formula or number of a clause that begins with words, where no word makes it another.
pub(in super::super) fn only_value(clause: &str) -> Option<&str> {
    (!standing::has_word(clause, standing::VALUE)).then_some(())?;
    let start = clause.find(['$', '\\']);
    if let Some((formula, rest)) = start.and_then(|at| formula_at(&clause[at..])) {
        let before = &clause[..start.unwrap_or(0)];
        let is_only = first_number(before).is_none()
            && !is_described(before, false)
            && first_number(rest).is_none();
        return (is_only && is_answer(formula)).then_some(formula);
    }
    let (mut found, mut end): (Option<&str>, _) = (None, 0);
    let mut has_price = false;
    while let Some(number) = first_number(&clause[end..]) {
        let before = &clause[..offset_in(clause, number)];
        end = before.len() + number.len();
        let is_other = standing::is_changed(before)
            || is_bound(before, "")
            || is_property(before, &clause[end..])
            || is_described(before, found.is_some()) && !is_rate(before, &clause[end..]);
        // "53 to 56" is a range.
        if past(clause[end..].trim_start(), "to |bis |à |hasta ")
            .is_some_and(|next| next.trim_start().starts_with(is_digit))
            || is_range(&clause[end..])
        {
            return None;
        }
        // "9 eggs for $2 each"
        let is_price = begins(&clause[end..], " each| per | apiece| a piece");
        match found {
            _ if is_other => {}
            None => (found, has_price) = (Some(number), is_price),
            Some(_) if is_price => {}
            Some(_) if has_price => (found, has_price) = (Some(number), false),
            Some(_) => return None,
        }
    }
    found
}

/// Words before a number that is of something else: "the sum of the first 7 primes", "the next integer after 7".
const DESCRIBING: &str = "of|at|in|after|before|by|to|from|with|than|first|last|next|times|plus|minus|negative|on|per|within|until|mod|\
    modulo|multiplying|dividing|adding|subtracting|de|du|des|von|vom|del|della|di|do|da|van|z|из|от|en|dans|à|na|\
    nach|vor|después|après|nel|menos|moins|meno|минус|\
    without|except|near|the|these|those|all|every|remaining|other|original|whole|given|same|quite|nearly|almost|half|double|twice|that|=|-|+|*|/|×";

/// Whether a number is a speed or a price: "travels at 60 mph".
fn is_rate(before: &str, after: &str) -> bool {
    let unit = after.trim_start().split([' ', '.', ',']).next().unwrap_or_default();
    before.ends_with(" at ") && is_unit(unit)
}

/// Whether the word before a number says that it is of something else; "a total of 5" is what is asked for.
fn is_described(before: &str, is_second: bool) -> bool {
    if before.ends_with(['第', '负', '加', '减', '乘', '除', '以', '比', '到', '从', '每'])
    {
        return true;
    }
    let mut words = before.rsplit([' ', '$', '*', '(']).filter(|word| !word.is_empty());
    let last = words.next().unwrap_or_default().to_lowercase();
    let lead = words.next().unwrap_or_default();
    // "she needs 18 dollars to reach $50"
    let is_purpose =
        lead == "to" && !is_one_of(&last, "find|get|obtain|give|yield") && words.next().is_some();
    let is_counted = last == "of" && words.next().is_some_and(|word| is_one_of(word, "a|an"));
    is_second && is_purpose || is_one_of(&last, DESCRIBING) && !is_counted
}

/// Nouns whose number is no value: "step 3", "by equation (4)", "score: 1/1".
const LABELS: &str = "step|case|part|figure|fig|page|problem|question|example|equation|eq|formula|theorem|lemma|\
    section|chapter|table|exercise|copyright|version|score|grade|reward|confidence|rating|credit|marks|\
    gleichung|schritt|seite|aufgabe|équation|étape|exercice|annexe|appendix|appendices|anhang|anexo|apéndice|\
    allegato|bijlage|приложение|приложении|附录|附件|volume|kapitel|capítulo|chapitre|abbildung|tabelle|tabel|\
    tabela|tableau|figura|tabla|abschnitt|fußnote|footnote|ecuación|paso|página|ejercicio|уравнение|шаг|страница";

/// Whether a text ends with the noun that the number behind it is a label of.
pub(super) fn is_label(before: &str) -> bool {
    const NUMBERED: &str =
        "step|case|part|problem|question|example|score|grade|reward|confidence|rating|credit";
    let bare = before.trim_end_matches([' ', '(', '*', '#', '.']);
    let bare = bare.strip_suffix("reward of").map_or(bare, |_| &bare[..bare.len() - 3]);
    if bare.ends_with("onfidence is") || bare.ends_with("ifficulty is") {
        return true;
    }
    let name = bare.trim_end_matches([':', '=', ' ']);
    // `{"gold": 15}`
    let key = pattern!(
        r#"["']\w*(?:gold|expected|reference|target|truth|score|tokens|seed|index|step|(?:_|\b)id)\w*["']:$"#
    );
    if key.is_match(bare) {
        return true;
    }
    let noun = name.rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or(name).to_lowercase();
    is_one_of(&noun, if name.len() < bare.len() { NUMBERED } else { LABELS })
}

/// Words between a subject and a number that is only a part of a property: "divisible by 6", "coprime to 7".
const PROPERTIES: &str = "by|modulo|mod|than|congruent to|prime to|proportional to|close to|degree";

/// Whether the words around a number make it a property, or the label of something else: "a 2-digit number".
pub(super) fn is_property(before: &str, after: &str) -> bool {
    let bare = before.trim_end_matches([' ', '$', '*']);
    before_end(bare, PROPERTIES).is_some()
        || is_label(before)
        || after.strip_prefix('-').is_some_and(|rest| rest.starts_with(char::is_alphabetic))
        // "the 18th prime"
        || past(after, "st |nd |rd |th ").is_some_and(|rest| rest.starts_with(char::is_alphabetic))
        || begins(after, " of which| of them| of these|加|减|乘|除|的")
}

/// Whether the sentence of a value is a question: "maybe 12 or 13?"
fn is_in_question(before: &str, after: &str) -> bool {
    let is_result = before.rsplit(['.', '\n']).next().is_some_and(|words| words.contains('='));
    let end = after.find(['.', '!', '?', '\n']);
    !is_result && end.is_some_and(|end| is_asked(&after[end..]))
}

/// Most values in a row that a text may deny.
const MAX_DENIALS: usize = 4;

/// The last value that a text does not deny: "it is not 7" says what it is not.
pub(super) fn stated_value(text: &str) -> Option<(&str, Rule)> {
    let last = last_sentence(text.lines().next_back().unwrap_or(text));
    if last.len() <= MAX_WHOLE
        && !last.contains(['=', '\\', '/', ':'])
        && let Some(value) = only_value(last).filter(|value| !last.ends_with(value))
    {
        let start = offset_in(text, value);
        let (before, after) = (&text[..start], &text[start + value.len()..]);
        if has_digits(after)
            && !is_unstated(before, after)
            && !is_bound(before, after)
            && !is_asked(after)
        {
            return Some((with_unit(text, value), Rule::Number));
        }
    }
    let mut rest = text;
    // Beside what another says, what one more obtains is no statement either.
    let mut of_others = false;
    for _ in 0..MAX_DENIALS {
        let found = last_value(rest)?;
        let start = offset_in(rest, found.0);
        let before = rest[..start].trim_end_matches([' ', '*', '$']);
        let end = offset_in(text, found.0) + found.0.len();
        let is_denied = is_unstated(before, &text[end..])
            || is_bound(before, &text[end..])
            || is_label(&rest[..start])
            || is_in_question(before, &text[end..])
            || has_digits(before)
                && (before.ends_with(" the")
                    && !before.ends_with(" is the")
                    && !text[end..].starts_with(char::is_alphabetic)
                    || is_day(before, found.0))
            || is_other_case(text, before)
            || is_compared(before, &text[end..]) && has_digits(last_sentence(before))
            || of_others && standing::is_of_others(before)
            || is_denied_before(before, found.0);
        of_others |= standing::is_foreign(before, &text[end..]);
        if !is_denied {
            return Some(with_alternative(text, before, (with_unit(text, found.0), found.1)));
        }
        rest = before;
    }
    None
}

/// Whether the sentence denies the same value before: "it cannot be 9, because 9 is odd".
fn is_denied_before(before: &str, value: &str) -> bool {
    let mut same = before.rmatch_indices(value).take(MAX_DENIALS);
    same.any(|(at, _)| {
        let (lead, behind) = (&before[..at], &before[at + value.len()..]);
        let is_apart = !lead.ends_with(|c: char| c.is_ascii_digit() || c == '.')
            && !behind.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        is_apart
            && !behind.contains(['\n', '!'])
            && !behind.contains(". ")
            && is_denied(lead, behind)
    })
}

/// Whether a number is the day of the month that stands before it.
fn is_day(before: &str, number: &str) -> bool {
    let month = before.rsplit(' ').next().unwrap_or(before);
    month.starts_with(|c: char| c.is_ascii_uppercase())
        && date(&format!("{month} {number}")).is_some()
}

/// Whether a value stands in brackets that tell of another case: "(with replacement it would be 9/25)".
fn is_other_case(text: &str, before: &str) -> bool {
    let open = before.rfind('(').filter(|open| !before[*open..].contains(')'));
    let is_remark = |remark: &str| {
        let words = remark.split(' ').filter(|word| word.len() > 1).count();
        is_case(remark) || has_digits(remark) && words > 1 && !remark.contains('=')
    };
    let last = last_sentence(before);
    let is_supposed = (is_case(last) || last.starts_with("For ")) && last.contains(" would ");
    let inside = |open: usize| text[open + 1..].split(')').next().unwrap_or_default();
    let is_several = |text: &str| text.split(' ').filter(|word| has_digits(word)).count() > 1;
    let is_compared = |text: &str| holds(text, " less than | more than | fewer than | of them");
    open.is_some_and(|open| {
        let inside = inside(open);
        let is_whole = is_compared(inside) || is_several(inside) && is_remark(inside);
        (is_remark(&before[open + 1..]) || is_whole) && has_digits(&before[..open])
    }) || is_supposed && has_digits(&before[..offset_in(before, last)])
}

/// A value and the one before an "or", as one answer: "42 or 7" is neither.
fn with_alternative<'a>(
    text: &'a str,
    before: &'a str,
    (value, rule): (&'a str, Rule),
) -> (&'a str, Rule) {
    let before = before.trim_end_matches([' ', '$']);
    let guessed = before_hedge(before);
    let doubted = guessed.unwrap_or(before);
    let first =
        before_alternative(doubted).or(guessed).and_then(last_value).filter(|(first, _)| {
            // Words of other languages may be others than "or".
            let gap = &doubted[offset_in(doubted, first) + first.len()..];
            doubted.ends_with(" or")
                || !gap.trim_matches(|c: char| !c.is_alphanumeric()).contains(' ')
        });
    let Some((first, _)) = first else { return (value, rule) };
    let (start, end) = (offset_in(text, first), offset_in(text, value) + value.len());
    (&text[start..end], rule)
}
