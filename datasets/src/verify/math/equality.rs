//! Two texts, a gold answer and an answer: equal as they stand, as values, or as words.

use std::cell::Cell;

use super::alphabet::composed;
use super::amounts::abbreviation;
use super::compare::equal;
use super::exact::rational;
use super::families::same_progression;
use super::fuel::Fuel;
use super::functions::are_only_products;
use super::members::Equal;
use super::names::assignments;
use super::numerals::{plain_integer, with_point, without_separators};
use super::read::{approximated, parse, restated};
use super::scan::{
    are_digits, begins, folded, has_digits, is_digit, is_letter, is_one_of, pattern,
};
use super::spelled::spelled;
use super::spelling::{are_spellings, has_numbers_apart};
use super::tree::{Answer, Expr};
use super::wording::bare;
use super::{FUEL, Outcome, calendar, word_meanings, words};

/// Longest equation whose left side is left out, in bytes.
const MAX_EQUATION: usize = 400;

/// A gold answer and an answer, as texts and as they are read.
struct Pair<'a> {
    gold: &'a str,
    answer: &'a str,
    read_gold: Option<Answer>,
    read_answer: Option<Answer>,
    /// Whether a comparison took more work than it may cost.
    is_out: Cell<bool>,
}

/// Whether an answer is the gold one, in one way of reading both.
type Way = fn(&Pair<'_>) -> bool;

/// The ways in which an answer may be the gold one, in order, with the name of their stage: the first that holds
/// decides.
const WAYS: [(&str, Way); 8] = [
    ("value", |pair| pair.are_equal(pair.read_gold.as_ref(), pair.read_answer.as_ref())),
    ("value", |pair| {
        pair.are(pair.read_gold.as_ref(), pair.read_answer.as_ref(), same_progression)
    }),
    ("value", with_points),
    ("value", reread),
    ("value", by_right_sides),
    ("text", as_words),
    ("value", beside_letters),
    ("value", in_a_sentence),
];

/// Whether an answer's text is a gold's, and the stage that decided.
pub(super) fn compared(gold: &str, answer: &str) -> (Outcome, &'static str) {
    let whole = [composed(gold), composed(answer)];
    let gold = trimmed(whole[0].as_deref().unwrap_or(gold));
    let answer = trimmed(whole[1].as_deref().unwrap_or(answer));
    if let Some(decided) = as_written(gold, answer) {
        return decided;
    }
    let answer = rounded(answer).unwrap_or(answer);
    let (read_gold, read_answer) = (parse(gold), parse(answer));
    let pair = Pair { gold, answer, read_gold, read_answer, is_out: Cell::new(false) };
    match WAYS.iter().find(|(_, is_same)| is_same(&pair)) {
        Some((stage, _)) => (Outcome::of(!are_only_products(gold, answer)), stage),
        // The items of a sentence with formulas are no answers.
        None if word_meanings::is_sentence(gold, pair.read_gold.as_ref()) => {
            (Outcome::UnparsableGold, "parse")
        }
        // `B) 12` is read by its letter and by its value.
        None if pair.read_gold.is_none() && words::after_choice(gold).and_then(parse).is_none() => {
            // Neither is mathematics, and the texts differ: `O'Brien`, `J. K. Rowling`, `C++`.
            let is_name = word_meanings::is_name(gold);
            (if is_name { Outcome::Wrong } else { Outcome::UnparsableGold }, "parse")
        }
        None if pair.read_answer.is_none() => (Outcome::UnparsableAnswer, "parse"),
        None if pair.is_out.get() => (Outcome::OutOfWork, "value"),
        None => (Outcome::Wrong, "value"),
    }
}

impl Pair<'_> {
    /// Whether both are read, and equal.
    fn are_equal(&self, gold: Option<&Answer>, answer: Option<&Answer>) -> bool {
        self.are(gold, answer, equal)
    }

    /// Whether they are equal in another reading of either.
    fn are_reread(&self, gold: Option<&Answer>, answer: Option<&Answer>) -> bool {
        (gold.is_some() || answer.is_some())
            && self
                .are_equal(gold.or(self.read_gold.as_ref()), answer.or(self.read_answer.as_ref()))
    }

    fn are(&self, gold: Option<&Answer>, answer: Option<&Answer>, equal: Equal) -> bool {
        let (Some(gold), Some(answer)) = (gold, answer) else { return false };
        let mut fuel = Fuel::new(FUEL);
        let is_equal = equal(gold, answer, &mut fuel);
        self.is_out.set(self.is_out.get() | fuel.is_out);
        is_equal
    }
}

/// `0,5` and `1000,99` are decimals where commas are points.
fn with_points(pair: &Pair<'_>) -> bool {
    let is_decimal = pair.read_gold.as_ref().is_some_and(is_decimal);
    let gold = with_point(pair.gold, pair.answer.contains("{,}")).and_then(|text| parse(&text));
    let answer = with_point(pair.answer, is_decimal).and_then(|text| parse(&text));
    pair.are_reread(gold.as_ref(), answer.as_ref())
}

/// Other readings of a text that leaves a choice.
fn reread(pair: &Pair<'_>) -> bool {
    let (golds, mut answers) = (readings(pair.gold), readings(pair.answer));
    // A program's `log` is the natural one.
    if pair.answer.contains("log(") && pair.gold.contains("ln") && !pair.gold.contains("log") {
        answers.extend(parse(&pair.answer.replace("\\log", "log").replace("log(", "ln(")));
    }
    golds.iter().map(Some).chain([None]).any(|gold| {
        answers.iter().map(Some).chain([None]).any(|answer| pair.are_reread(gold, answer))
    })
}

/// `P(A) = 1/3` where the left side is no mathematics that is read; and what a gold answer rounds to.
fn by_right_sides(pair: &Pair<'_>) -> bool {
    let side = |read: &Option<Answer>, text| if read.is_none() { right_side(text) } else { None };
    let (a, b) = (side(&pair.read_gold, pair.gold), side(&pair.read_answer, pair.answer));
    let rounded = approximation(pair.gold);
    pair.are_reread(a.as_ref(), b.as_ref())
        || rounded.is_some() && pair.are_reread(rounded.as_ref(), b.as_ref())
}

/// `(C) 12`: the letter stands for the value beside it.
fn beside_letters(pair: &Pair<'_>) -> bool {
    let rest = |text| words::after_choice(text).and_then(parse);
    let (gold, answer) = (rest(pair.gold), rest(pair.answer));
    pair.are_reread(gold.as_ref(), answer.as_ref())
}

/// `\text{There are 460 students}` against a number.
fn in_a_sentence(pair: &Pair<'_>) -> bool {
    let gold = match &pair.read_gold {
        Some(Answer::Chain(sides, _)) => sides.last(),
        other => other.as_ref(),
    };
    let is_number = matches!(gold, Some(Answer::Value(Expr::Number(..))));
    // What is read as an equation was compared as one.
    let is_equation = matches!(pair.read_answer, Some(Answer::Chain(..)));
    is_number
        && !is_equation
        && pair.are_equal(gold, word_meanings::sentence_value(pair.answer).as_ref())
}

/// A text without its marks of mathematics and its last point.
fn trimmed(text: &str) -> &str {
    // `$5`: a sign without its partner is of money.
    let inner = text.trim();
    let is_money = inner.starts_with('$') && memchr::memrchr(b'$', inner.as_bytes()) == Some(0);
    let inner = text.trim_matches(|c: char| c.is_whitespace() || c == '$' && !is_money);
    let quotes = [("'", "'"), ("\"", "\""), ("“", "”"), ("‘", "’"), ("«", "»"), ("「", "」")];
    let pairs = [("\\(", "\\)"), ("\\[", "\\]")].into_iter().chain(quotes);
    let inside =
        |(open, close)| inner.strip_prefix(open)?.trim_end_matches('.').strip_suffix(close);
    let may_be = inner.starts_with(|c: char| !c.is_ascii() || "\\'\"".contains(c));
    let inner = may_be.then(|| pairs.filter_map(inside).next()).flatten().unwrap_or(inner).trim();
    // A point ends a sentence, three go on: `0.333...`
    if inner.ends_with("..") { inner } else { inner.trim_end_matches('.') }
}

/// What is decided before anything is read as mathematics.
fn as_written(gold: &str, answer: &str) -> Option<(Outcome, &'static str)> {
    if !gold.is_empty() && gold == answer {
        return Some((Outcome::Correct, "text"));
    }
    let decided = |is_same, stage| Some((Outcome::of(is_same), stage));
    if let (Some(a), Some(b)) = (plain_integer(gold), plain_integer(answer)) {
        return decided(a == b, "text");
    }
    if let Some(is_same) = calendar::same_date(gold, answer) {
        return decided(is_same, "date");
    }
    // The complex numbers, a vector, an angle are no choice.
    const MEANINGS: &str = "\\mathbb|\\mathcal|\\mathscr|\\mathfrak|\\vec|\\overrightarrow|\\angle|\\measuredangle|∠|ℂ|ℍ";
    if is_letter(gold) && begins(answer.trim_start_matches(['{', '$', ' ']), MEANINGS) {
        return decided(false, "choice");
    }
    if let (Some(a), Some(b)) = (words::choice_beside(gold), words::choice_beside(answer))
        && a != b
    {
        return decided(false, "choice");
    }
    if let (Some((a, is_choice)), Some((b, is_marked))) =
        (word_meanings::choice_number(gold), word_meanings::choice_number(answer))
        && (is_choice || is_marked)
    {
        return decided(a == b, "choice");
    }
    if let Some(is_same) = word_meanings::same_rank(gold, answer) {
        return decided(is_same, "words");
    }
    if let Some(is_same) = word_meanings::same_counts(gold, answer) {
        return decided(is_same, "words");
    }
    if word_meanings::same_formula(gold, answer) == Some(true) {
        return decided(true, "words");
    }
    let is_value = || matches!(parse(gold), Some(Answer::Value(_)));
    if let Some(is_same) = words::same_signs(gold, answer, is_value) {
        return decided(is_same, "words");
    }
    let statements = is_numbered(gold).then(|| words::statements(answer)).flatten()?;
    decided(words::statements(gold) == Some(statements), "words")
}

/// Whether a gold answer is the numbers of statements, `①③④`.
fn is_numbered(gold: &str) -> bool {
    gold.starts_with(|c: char| ('①'..='⑳').contains(&c))
        && gold.chars().all(|c| ('①'..='⑳').contains(&c) || "、，, ".contains(c))
}

/// Readings of a text beside its first one: `3 and 1/4` as a mixed number, points with spaces between them, thousands
/// of other countries.
fn readings(text: &str) -> Vec<Answer> {
    const MAX_REREAD: usize = 400;
    if text.len() > MAX_REREAD {
        return vec![];
    }
    let mut others = Vec::new();
    if let Some((whole, part)) = ["\\text{ and }", "\\text{and}", " and "]
        .iter()
        .find_map(|and| text.split_once(and))
        .map(|(whole, part)| (whole.trim(), part.trim()))
    {
        let is_part = part.starts_with('\\') && part.contains("frac") || part.contains('/');
        let is_whole = whole.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
        if is_part && is_whole && !whole.is_empty() && !part.contains([',', '=']) {
            others.push(format!("{whole} {part}"));
        }
    }
    if let Some(named) = assignments(text) {
        others.push(named);
    }
    // `P(X=1) = 1/3, P(X=2) = 2/3`
    if text.matches("P(").count() > 1 {
        let name = pattern!(r"P\(([A-Z]) *= *([0-9]+)\)");
        others.push(name.replace_all(text, "P_{$2}").into_owned());
    }
    others.extend(multiples(text));
    // `\sqrt{2} \approx 1.41`: either, as one rounds the other.
    let is_number = |value: &String| has_digits(value) && parse(text).is_some();
    others.extend(approximated(text).map(|(_, value)| value.to_owned()).filter(is_number));
    // `275 cents, i.e. $2.75`: either, where both are the same.
    if let Some((value, again)) = restated(text) {
        return vec![value, again];
    }
    if text.contains('j') && text.bytes().all(|byte| b"0123456789.+-*j() ".contains(&byte)) {
        others.push(text.replace('j', "i"));
    }
    // `6,02 · 10^{-3}`
    let power = text.split_once(',').filter(|(whole, rest)| {
        let sign = rest.trim_start_matches(is_digit).trim_start();
        are_digits(whole) && sign.starts_with(['·', '×', '*', '\\']) && sign.contains("10")
    });
    others.extend(power.map(|(whole, rest)| format!("{whole}.{rest}")));
    let text = text.replace("{,}", ",");
    let text = text.as_str();
    others.extend(without_separators(text));
    // `\!= 5`, but not `!= 5`
    let spaced = text.trim_start_matches(['\\', ';', ',', '!', ' ']);
    if let Some(value) = spaced.strip_prefix('=').filter(|_| !text.starts_with('!')) {
        others.push(value.to_owned());
    }
    if text.contains("\\text{ and a") {
        others.push(text.replace("\\text{", "").replace('}', ""));
    }
    let in_words = text.starts_with("a ").then(|| spelled(text)).flatten().map(Answer::number);
    others.iter().filter_map(|text| parse(text)).chain(in_words).collect()
}

/// `54k`, `3.2M`, `1.35x`: a number with a letter that may be a factor or stand for a multiple.
fn multiples(text: &str) -> Option<String> {
    text.starts_with(is_digit).then_some(())?;
    let text = bare(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')?;
    let (number, letters) = text.split_at(end);
    let letters = letters.trim_start();
    // `3x` may be a term, `1.35x` is how many times as much.
    if is_one_of(letters, "x|X|×|\\times") && number.contains('.') && !number.starts_with('0') {
        return Some(number.to_owned());
    }
    let (letters, unit) = letters.split_once(' ').unwrap_or((letters, ""));
    let scale = (letters != "m").then(|| abbreviation(letters)).flatten()?;
    unit.chars().all(char::is_alphabetic).then(|| format!("{number} {scale} {unit}"))
}

/// Whether a gold answer is one that an answer can be compared with.
pub(super) fn is_readable(gold: &str) -> bool {
    let gold = gold.trim_matches(|c: char| c.is_whitespace() || c == '$');
    let read = parse(gold);
    read.is_some() && !word_meanings::is_sentence(gold, read.as_ref())
        || calendar::date(gold).is_some()
        || is_numbered(gold)
        || word_meanings::same_judgement(gold, gold).is_some()
        || word_meanings::same_rank(gold, gold).is_some()
        || !readings(gold).is_empty()
        || words::after_choice(gold).and_then(parse).is_some()
        || right_side(gold).is_some()
        || word_meanings::is_name(gold)
}

/// Whether both are the same text, the same letters of choices, or the same words.
fn as_words(pair: &Pair<'_>) -> bool {
    let (gold, answer) = (pair.gold, pair.answer);
    let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    // Two values that differ are not words, whatever their letters.
    let are_values =
        pair.read_gold.as_ref().zip(pair.read_answer.as_ref()).is_some_and(|(a, b)| {
            let is_math = |answer: &Answer| !matches!(answer, Answer::Words(_));
            is_math(a) && is_math(b)
        });
    let are_numbers = has_numbers_apart(gold) || has_numbers_apart(answer);
    let is_unread = pair.read_gold.is_none() || pair.read_answer.is_none();
    (bare(gold) == bare(answer) && (!are_numbers || gold == answer))
        || is_unread && are_spellings(gold, answer)
        || words::same_choice(gold, answer)
        || words::same_choices(gold, answer)
        || (!are_values
            && words::same_words(gold, answer)
            && (!has_digits(gold) || pair.read_gold.is_none() && folded(gold) == folded(answer)))
}

/// The right side of an equation whose left side is only a name: `P(X = 2) = 5`, `\overline{AB} = 5`.
fn right_side(text: &str) -> Option<Answer> {
    (text.len() <= MAX_EQUATION).then_some(())?;
    // In brackets anything may stand: `P(X \ge 1)`.
    let (mut depth, mut outside) = (0_i32, String::new());
    let equals = text.char_indices().find(|(_, c)| {
        depth += i32::from(matches!(c, '(' | '[' | '{'));
        if depth == 0 && *c != '=' {
            outside.push(*c);
        }
        depth -= i32::from(matches!(c, ')' | ']' | '}'));
        depth == 0 && *c == '='
    });
    let equals = equals?.0;
    let (name, value) = (text[..equals].trim(), &text[equals + 1..]);
    let is_list = outside.contains([',', ';', '<', '>', '!', '≤', '≥', '≠']);
    let words = outside.split(|c: char| !c.is_ascii_alphabetic());
    let mut words = words.filter(|word| !word.is_empty());
    let is_hedged =
        words.any(|word| is_one_of(word, "or|and|not|if|when|such|le|ge|leq|geq|lt|gt|ne|neq"));
    let is_name = name.starts_with(|c: char| !c.is_ascii_digit() && c != '-')
        && outside.contains(|c: char| c.is_ascii_alphabetic());
    (!is_list && !is_hedged && is_name).then_some(())?;
    // A chain of unequal values is a list of guesses: `= 5 = 7` is compared as `x = 5 = 7`.
    parse(&format!("x = {value}"))
}

/// What a gold answer says that it rounds to: 0.982 of `\sin 79^\circ \approx 0.982`.
fn approximation(gold: &str) -> Option<Answer> {
    let sides = gold.rsplit_once("\\approx").or_else(|| gold.rsplit_once('≈'));
    let (before, value) = sides?;
    (!before.trim().is_empty() && has_digits(value)).then(|| parse(value)).flatten()
}

/// What a sum or product of numbers is said to come to: 156 of `56 + 99 ≈ 156`. None of what is no short decimal, as
/// `\sqrt{2}`, `\frac{22}{7}` and a multiple of pi, which the answer then is, however it was rounded.
fn rounded(answer: &str) -> Option<&str> {
    let (exact, value) = approximated(answer)?;
    let is_calculation = match &exact {
        Expr::Negative(inner) => !matches!(**inner, Expr::Number(..) | Expr::Quotient(..)),
        Expr::Number(..) | Expr::Quotient(..) => false,
        _ => true,
    };
    let below = is_calculation.then(|| rational(&exact, &mut Fuel::new(FUEL))).flatten()?;
    let mut below = below.denominator().clone();
    for prime in [2_u8, 5] {
        while (&below % prime) == 0 {
            below /= prime;
        }
    }
    (below.is_one() && parse(value).is_some()).then_some(value)
}

/// Whether a value is a number that was written with a point, or a fraction.
fn is_decimal(value: &Answer) -> bool {
    match value {
        Answer::Marked(value, _) => is_decimal(value),
        Answer::Chain(sides, _) => sides.last().is_some_and(is_decimal),
        Answer::Value(Expr::Number(_, decimals)) => decimals.is_some(),
        Answer::Value(Expr::Negative(value)) => is_decimal(&Answer::Value((**value).clone())),
        Answer::Value(Expr::Quotient(..)) => true,
        _ => false,
    }
}
