//! Wordings of a value that mean what others write in signs: `($3,200)`, `1h 30min`, `12 below zero`, `1 out of 4`,
//! `half a mile`, `18 remainder 2`. They are rewritten before the grammar reads them.

use std::borrow::Cow;

use super::amounts::{accounting, below_zero, change, measured, money, operation};
use super::answer::closing;
use super::names::mapping;
use super::program_output::closed;
use super::scan::{
    are_digits, before_end, begins, holds, is_one_of, parted, past, pattern, without,
};
use super::sets::relation;
use super::spelled::{number_word, scale, spelled};
use super::units::is_unit;

/// Longest text that is rewritten, in bytes.
const MAX_BYTES: usize = 160;

/// One way to write a value in words, rewritten; none where the text is not of its form.
type Rule = fn(&str) -> Option<String>;

/// The rules, one after another, each on what the ones before it have made of the text.
const RULES: [Rule; 17] = [
    mapping, measured, counted, named, change, below_zero, accounting, money, phasor, vectors,
    part_of, and_a_half, out_of, mixed, compound, directed, operation,
];

/// The text in signs, where it is a wording of a value.
pub(super) fn in_signs(text: &str) -> Option<String> {
    // `7 modulo 12`
    if let Some((residue, modulus)) = text.split_once(" modulo ") {
        return Some(format!("{residue} \\pmod{{{modulus}}}"));
    }
    // The verb at the end of a sentence.
    const VERBS: &str = "です|입니다|이다|だ";
    match before_end(text, VERBS) {
        Some(bare) => Some(by_rules(bare).unwrap_or_else(|| bare.to_owned())),
        None => by_rules(text),
    }
}

/// What the rules make of a text, one after the other.
fn by_rules(text: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_whitespace();
    if text.len() > MAX_BYTES || text.len() < 2 || text.bytes().all(is_plain) || is_formula(text) {
        return None;
    }
    // "45 kilomètres à l'heure", whose apostrophe is a mark of mathematics
    const HOURLY: &str = " à l'heure| à l’heure| all'ora| all’ora";
    let mut out = before_end(text, HOURLY).map(|quantity| format!("{quantity} per hour"));
    for rule in RULES {
        if let Some(next) = rule(out.as_deref().unwrap_or(text)) {
            out = Some(next);
        }
    }
    out
}

/// Whether a text is a formula without words, as most answers are: no rule reads one.
fn is_formula(text: &str) -> bool {
    let bytes = text.as_bytes();
    // Signs of money, of lengths and of tuples; spaces part words.
    let is_sign = |byte: u8| !byte.is_ascii() || b"~$'\",&/".contains(&byte);
    let is_word = |of: &[u8]| {
        let letters = [of[0], of[1], of[2]].map(|byte| byte.is_ascii_alphabetic());
        of[0] == b' ' && letters[1] && letters[2] || letters[0] && letters[1] && of[2] == b' '
    };
    // `Rs1200`, `US$5`, `INR5`, `Quotient3Rest2`, `demi-heure`, `1h30`
    let is_letter = |byte: u8| b"URIQqd".contains(&byte);
    // `\text`, `\mathrm`, `\angle`, and spaces.
    let is_worded = |pair: &[u8]| pair[0] == b'\\' && !b"fspcldi(){}[]%".contains(&pair[1]);
    let is_number = bytes[0].is_ascii_digit() && bytes.iter().any(u8::is_ascii_alphabetic);
    !bytes.iter().any(|byte| is_sign(*byte) || is_letter(*byte))
        && !is_number
        && !bytes.windows(3).any(is_word)
        && !bytes.windows(2).any(is_worded)
}

/// Whether a word of two letters or more follows a space, or a sign that may be none.
fn has_words(text: &str) -> bool {
    text.as_bytes().windows(3).any(|bytes| {
        let is_word = bytes[1..].iter().all(u8::is_ascii_alphabetic) || !bytes[1].is_ascii();
        b" ~{,;".contains(&bytes[0]) && is_word
    })
}

/// A text without the commands around its words: `1 h 30 min` of `1\text{ h }30\text{ min}`.
pub(super) fn bare(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '~', '\t', '\n']) && text.is_ascii() && !text.contains("  ") {
        return Cow::Borrowed(text.trim());
    }
    let mut out = text.to_owned();
    for mark in ["\\textbf{", "\\text{", "\\mathrm{"] {
        // A limit, since each command copies the text.
        for _ in 0..200 {
            let found = out.split_once(mark).and_then(|(a, b)| Some((a, b, closing(b)?)));
            let Some((before, inner, close)) = found else { break };
            out = format!("{before} {} {}", &inner[..close], &inner[close + 1..]);
        }
    }
    for space in ["\\,", "\\;", "\\ ", "~"].iter().filter(|space| text.contains(**space)) {
        out = out.replace(space, " ");
    }
    tealight_core::display::one_spaced(&out).into()
}

/// A text without the article that it begins with.
pub(super) fn without_article(text: &str) -> &str {
    const ARTICLES: &str =
        "a |an |the |it has |it is |it |una |un |une |uma |um |ein |eine |einen |einem |een |uno ";
    without(text, ARTICLES)
}

/// `nine grams`.
fn counted(text: &str) -> Option<String> {
    let (number, unit) = text.rsplit_once(' ')?;
    let is_words = number.bytes().all(|byte| byte.is_ascii_alphabetic() || b" -".contains(&byte));
    let value = (is_words && is_unit(unit)).then(|| number_word(number))??;
    Some(format!("{value} {unit}"))
}

/// `k is equal to 4`, `n equals 7`.
fn named(text: &str) -> Option<String> {
    const EQUALS: &str = "equals to |equals |is equal to |is equivalent to |ist gleich |gleich |est égal à |es igual a |è \
        uguale a |é igual a |равно |равен |等于";
    let text = bare(text);
    let mut letters = text.trim_start_matches('$').chars();
    let name = letters.next().filter(char::is_ascii_alphabetic)?;
    let rest = letters.as_str().trim_start_matches(['$', ' ']);
    let is_bare = || begins(rest, "greater than |less than |at least |at most ");
    let bounded = rest.strip_prefix("is ").or_else(|| is_bare().then_some(rest));
    if let Some((sign, bound)) = bounded.and_then(relation) {
        let sign = if sign == "∖" { "\\ne " } else { sign };
        let is_number = bound.starts_with(|c: char| c.is_ascii_digit() || "-\\".contains(c));
        return (is_number && !bound.contains(' ')).then(|| format!("{name} {sign} {bound}"));
    }
    let value = past(rest, EQUALS)?;
    (!value.contains(" and ") && !value.contains(','))
        .then(|| format!("{name} = {}", value.replace("negative ", "-")))
}

/// `2\angle 60^\circ`: a size and an angle.
fn phasor(text: &str) -> Option<String> {
    let (size, rest) = parted(text, "\\angle|∠")?;
    let size = size.trim_end();
    size.ends_with(|c: char| c.is_ascii_digit() || "})".contains(c)).then_some(())?;
    let braced =
        rest.trim_start().strip_prefix('{').and_then(|inner| Some((inner, closing(inner)?)));
    if let Some((inner, close)) = braced {
        return Some(format!("{size}cis({}){}", &inner[..close], &inner[close + 1..]));
    }
    let ends = ["^\\circ", "^{\\circ}", "°", "º", "^o"];
    let end = ends.iter().filter_map(|mark| Some(rest.find(mark)? + mark.len())).min();
    let end = end.or_else(|| rest.find("\\text")).unwrap_or(rest.len());
    let (angle, unit) = rest.split_at(end);
    Some(format!("{size}cis({}){unit}", angle.trim()))
}

/// Sums of vectors written as tuples, `(1,2,3) + t(1,0,-1)`, with their vectors as columns.
fn vectors(text: &str) -> Option<String> {
    let is_likely =
        text.contains(['+', '-']) && text.contains(',') && text.contains(['(', '⟨', 'l']);
    (is_likely && !holds(text, "\\begin|\\cup|\\in |\\text|<|>|[|\\le |\\ge |\\infty|∞|∪|\\{"))
        .then_some(())?;
    let plain = text.replace("\\left", "").replace("\\right", "").replace("\\langle", "(");
    let plain = plain.replace("angle", ")").replace('⟨', "(").replace('⟩', ")");
    // What is left of `\rangle` where `\right` was taken off, or not.
    let plain = plain.replace("\\r)", ")");
    // `(x, y, z) = (1, 3, 0) + t(2, -1, 4)`
    let plain = pattern!(r"^\((?:[a-z], ?)+[a-z]\) ?= ?").replace(&plain, "");
    let plain = &*plain;
    let mut out = String::new();
    let (mut rest, mut sizes, mut outside) = (plain, vec![], String::new());
    while let Some(open) = rest.find('(') {
        let (inner, behind) = closed(&rest[open + 1..])?;
        let cells: Vec<&str> = inner.split(',').collect();
        out.push_str(&rest[..open]);
        outside.push_str(&rest[..open]);
        outside.push('#');
        match cells.len() {
            1 => out.push_str(&format!("({})", cells[0])),
            size => {
                sizes.push(size);
                out.push_str(&format!("\\begin{{pmatrix}}{}\\end{{pmatrix}}", cells.join("\\\\")));
            }
        }
        rest = behind;
    }
    outside.push_str(rest);
    let are_same = sizes.len() > 1 && sizes.iter().all(|size| *size == sizes[0]);
    let outside = outside.replace(' ', "");
    let is_sum = outside.contains("#+") || outside.contains("#-");
    (are_same && is_sum && !outside.contains(',')).then(|| out + rest)
}

/// `half a mile`, `three quarters of an hour`, `a third of the cake`; with a unit, `eine halbe Stunde`, `media hora`.
fn part_of(text: &str) -> Option<String> {
    let may_be = !text.is_ascii() || text.contains([' ', '-', '\'']);
    let is_words = || text.chars().all(|c| c.is_alphanumeric() || " -'’/.".contains(c));
    (may_be && is_words()).then_some(())?;
    // `半小时`, `一个半小时`
    if let Some((whole, unit)) =
        text.split_once('半').filter(|(_, unit)| is_unit(without(unit, "个")))
    {
        let unit = without(unit, "个");
        let whole = whole.trim_end_matches('个');
        let number =
            if whole.is_empty() { 0 } else { number_word(whole).or_else(|| whole.parse().ok())? };
        let above = number.checked_mul(2)?.checked_add(1)?;
        return Some(format!("{above}/2 {unit}"));
    }
    const HALVES: &str = "media |medio |meia |meio |halbe |halber |halbes |halben |halve |demi-|demi |mezza |mezzo |mezz'|\
        mezz’|pół |setengah ";
    const MORE: &str =
        "anderthalb |eineinhalb |anderhalf |anderhalve |полтора |полторы |półtorej |półtora ";
    let lower = text.to_lowercase();
    if let Some(unit) = past(without_article(&lower), HALVES).filter(|unit| is_unit(unit)) {
        return Some(format!("1/2 {unit}"));
    }
    if let Some(unit) = past(&lower, MORE).filter(|unit| is_unit(unit)) {
        return Some(format!("3/2 {unit}"));
    }
    let is_part = holds(&lower, "half|quarter|third|fifth|th of|ths of|/|.");
    is_part.then_some(())?;
    let words: Vec<&str> = lower.split(' ').collect();
    let link = words.iter().skip(1).position(|word| is_one_of(word, "of|a|an|the|one"))? + 1;
    let noun = words[link..].iter().skip_while(|word| is_one_of(word, "of|a|an|the|one"));
    let noun: Vec<&str> = noun.copied().collect();
    let count = words.len() - link - noun.len();
    let is_noun = (1..=3).contains(&noun.len())
        && noun.iter().all(|word| word.chars().all(char::is_alphabetic))
        && scale(noun[0]).is_none()
        && words[link + count - 1] != "of";
    is_noun.then_some(())?;
    Some(format!("{} {}", fraction(&words[..link].join(" "))?, noun.join(" ")))
}

/// A part of one in words, `three quarters`, as a fraction.
fn fraction(words: &str) -> Option<String> {
    let words = words.strip_prefix("a ").map_or(words.into(), |rest| format!("one {rest}"));
    let value = spelled(&words).filter(|value| !value.is_int())?;
    Some(format!("{}/{}", value.numerator(), value.denominator()))
}

/// `an hour and a half`, `two miles and a quarter`, `una hora y media`.
fn and_a_half(text: &str) -> Option<String> {
    const LINKS: &str = " and | y | e | et | und | и ";
    const HALF: &str = "a half|half|one half|one-half|media|medio|mezza|mezzo|meia|meio|demi|demie|ein halb|ein halbes|половиной";
    let may_link =
        |pair: &[u8]| pair[0] == b' ' && (b"ayeuAYEU".contains(&pair[1]) || pair[1] > 127);
    text.as_bytes().windows(2).any(may_link).then_some(())?;
    let lower = text.to_lowercase();
    let (before, part) = parted(&lower, LINKS)?;
    // `an hour and 30 minutes`
    if let (Some(unit), Some((number, smaller))) =
        (past(before, "an |a |one |una |une |eine |un'"), part.split_once(' '))
        && is_unit(unit)
        && is_unit(smaller)
        && are_digits(number)
    {
        return Some(format!("1 {unit} {part}"));
    }
    let part = match is_one_of(part, HALF) {
        true => "1/2".to_owned(),
        false => fraction(part).filter(|_| part.contains(' '))?,
    };
    let before = before
        .strip_prefix("un'")
        .or(before.strip_prefix("un’"))
        .map_or(before.to_owned(), |rest| format!("a {rest}"));
    let (number, noun) = before.split_once(' ')?;
    let is_one = is_one_of(number, "a|an|one|una|un|une|uma|um|ein|eine");
    let number = if is_one { 1 } else { number.parse().ok().or_else(|| number_word(number))? };
    let is_noun =
        noun.chars().all(char::is_alphabetic) && spelled(noun).is_none() && scale(noun).is_none();
    is_noun.then(|| format!("{number} {part} {noun}"))
}

/// `1 out of 4`, `one in six`, `2 von 5`, `1 de cada 4`: a part of all.
fn out_of(text: &str) -> Option<String> {
    const LINKS: &str = " out of every | out of each | out of | in every | in | von | de cada | em cada | sur | su | из |\
        uit de | uit | op de | dari ";
    (text.len() <= 60 && (has_words(text) || !text.is_ascii())).then_some(())?;
    let text = bare(text);
    if let Some((below, above)) = text.split_once("分の").or_else(|| text.split_once("분의")) {
        let is_number = |text: &str| are_digits(text.trim()) && !text.is_empty();
        return (is_number(above) && is_number(below))
            .then(|| format!("{}/{}", above.trim(), below.trim()));
    }
    (text.len() <= 40).then_some(())?;
    // `five to four`
    if let Some((first, second)) = text.split_once(" to ") {
        let (first, second) = (number_word(first)?, number_word(second)?);
        return Some(format!("{first}:{second}"));
    }
    let (above, below) = parted(&text, LINKS)?;
    // "28 snacks in thirty uses"
    let is_plain = are_digits(above) && are_digits(below) || !text.contains(" in ");
    let number = |text: &str| {
        text.replace(',', "").parse::<i64>().ok().or_else(|| number_word(&text.to_lowercase()))
    };
    let (above, below) = (number(above)?, number(below)?);
    let is_part = above > 0 && above < below && (is_plain || above == 1);
    is_part.then(|| format!("{above}/{below}"))
}

/// `5 & 1/4 miles` and `3-1/2 cups`; without a unit `3-1/2` is a difference.
fn mixed(text: &str) -> Option<String> {
    text.contains('/').then_some(())?;
    let text = bare(text);
    let joined =
        pattern!(r"^(-?[0-9]+) ?(?:\\?&|and|und|et|y|e) ?([0-9]+)/([0-9]+)((?: [^0-9+*/=()-]+)?)$");
    let tight = pattern!(r"^([0-9]+)-([0-9]+)/([0-9]+)( ?[^0-9+*/=()-]+)$");
    let found = joined.captures(&text).or_else(|| tight.captures(&text))?;
    let number = |at: usize| found[at].parse::<u64>().ok();
    (number(2)? < number(3)?)
        .then(|| format!("{} {}/{}{}", &found[1], &found[2], &found[3], &found[4]))
}

/// Numbers with their units and no space between: `1h30min`, `5'6"`; and `18 remainder 2`, `18 R 2` as a pair.
fn compound(text: &str) -> Option<String> {
    // All of these have two numbers.
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty()).count();
    (numbers > 1).then_some(())?;
    let first = text.find(|c: char| !c.is_ascii_digit())?;
    (first > 0 || begins(text, "quotient|Quotient|商")).then_some(())?;
    let has_units = |c: char| c.is_alphabetic() || "'\"’′″”".contains(c);
    (!text.contains('+') && text.contains(has_units)).then_some(())?;
    let text = bare(text).replace(['’', '′'], "'").replace(['″', '”'], "\"");
    let forms = [
        (
            pattern!(
                r"^([0-9]+) ?h(?:rs?|ours?)?\.?,?(?: and)? ?([0-9]+) ?m(?:ins?|n|inutes?)?\.?$"
            ),
            "$1 hours $2 minutes",
        ),
        (
            pattern!(
                r"^([0-9]+) ?h(?:rs?|ours?)?\.?,?(?: and)? ?([0-9]+) ?m(?:ins?|n|inutes?)?\.?,?(?: and)? ?([0-9]+) ?s(?:ecs?|econds?)?\.?$"
            ),
            "$1 hours $2 minutes $3 seconds",
        ),
        (
            pattern!(r"^([0-9]+) ?m(?:ins?|n)?\.? ?([0-9]+) ?s(?:ecs?)?\.?$"),
            "$1 minutes $2 seconds",
        ),
        (
            pattern!(
                r#"^([0-9]+)(?:'|[ -]?(?:ft|foot|feet)\.?)[ -]?((?:[0-9]|0[0-9]|1[01])(?:\.[0-9]+)?) ?(?:"|''|in\.?)?$"#
            ),
            "$1 feet $2 inches",
        ),
    ];
    if let Some((found, words)) =
        forms.iter().find_map(|(form, words)| Some((form.captures(&text)?, words)))
    {
        let mut out = String::new();
        found.expand(words, &mut out);
        return Some(out);
    }
    // `1 hora y 5 minutos`, `1小时35分钟`
    let two = pattern!(
        r"^([0-9.]+) ?([^0-9 ]+?)(?: (?:y|e|et|und|и|en|and|i|con))?,? ?([0-9.]+) ?([^0-9 ]+)$"
    );
    if let Some(found) =
        two.captures(&text).filter(|found| is_unit(&found[2]) && is_unit(&found[4]))
    {
        return Some(format!(
            "{}\\text{{ {} }}{}\\text{{ {}}}",
            &found[1], &found[2], &found[3], &found[4]
        ));
    }
    let rest = pattern!(
        r"^([0-9][0-9,]*),?(?: ?R\.? ?| r\.? | ?(?:and )?(?:with )?(?:an? )?(?:remainder|rem\.|Rest|reste|resto|остаток|余数|余り|余|あまり|나머지)(?: of| is|:| =)? ?)([0-9]+)$"
    );
    let quotient = pattern!(
        r"^(?:[Qq]uotient|商)(?: is|:| =|是|为)? ?([0-9]+),?(?: and)?(?: the)? ?(?:remainder|余数|余)(?: is|:| =|是|为)? ?([0-9]+)$"
    );
    let found = rest.captures(&text).or_else(|| quotient.captures(&text))?;
    Some(format!("({}, {})", found[1].replace(',', ""), &found[2]))
}

/// A quantity with its direction, which becomes the last word of the unit: `5 m/s, to the east`.
fn directed(text: &str) -> Option<String> {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '-').then_some(())?;
    let likely = "orth|outh|ast|est|ard|eft|ight|up|down";
    let is_word = text.trim_end().ends_with(|c: char| c.is_alphabetic() || c == '}');
    (is_word && holds(text, likely)).then_some(())?;
    let text = bare(text);
    let way = pattern!(
        r"^(-?[0-9.,]+(?: ?(?:×|\\times|x|\*) ?10\^\{?-?[0-9]+\}?)?) ?([A-Za-zμΩ/^[0-9]. {}²³⁻¹-]*?),? (?:(?:to(?:wards)? the |due |in the )?((?:north|south)?[ -]?(?:east|west)|north|south)(?:wards?|bound)?(?: direction)?|(up|down|for|back)wards?|to the (left|right))$"
    );
    let found = way.captures(&text)?;
    let side = found.get(5).map(|side| format!("{}ward", side.as_str()));
    let direction =
        (3..=4).find_map(|at| found.get(at)).map(|way| way.as_str().replace([' ', '-'], ""));
    let direction = direction.or(side)?;
    Some(format!("{}\\text{{ {} {direction}}}", &found[1], found[2].trim()))
}
