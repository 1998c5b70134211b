//! Answers in words: names, yes and no, choice letters, numbers and times in words.

use std::collections::BTreeSet;

use super::alphabet::is_formula;
use super::answer::REFUSED;
use super::languages::{REASONS, is_by_cases, is_no_of_noun, no_solution, polar};
use super::permutations::cycles;
use super::read::parse;
use super::scan::{
    are_digits, before_end, begins, each, folded, holds, is_digit, is_letter, is_one_of, past,
    without,
};
use super::spelling::differ_in_primes;
use super::standing::{self, corrects, denies};
use super::tree::Answer;
use super::word_meanings::{judged, same_statement};
use super::{Outcome, equality};

/// Commands around the letter of a choice.
const WRAPPERS: &str = "\\textbf{|\\text{|\\mathrm{|\\textrm{|\\mathbf{";

/// Whether two texts are the same words: case, punctuation, articles and LaTeX decoration do not count.
/// A single choice letter equals the same letter in brackets or before its text: `C`, `(C)`, `C) 12`.
pub(super) fn same_words(gold: &str, answer: &str) -> bool {
    // "a necessary condition"
    let noun = |words: &str| before_end(words, " condition|条件").unwrap_or(words).to_owned();
    let a = noun(&folded(gold));
    let cut = [", not ", ", with ", ", who "].iter().filter_map(|remark| answer.find(remark)).min();
    let cut = &answer[..cut.unwrap_or(answer.len())];
    let b = folded(cut);
    let b = noun(without(&b, "so |therefore |thus |hence |it is |it s |on |quadrant "));
    let is_it = |words: &str| {
        words == a
            || before_end(words, " function| triangle| series| sequence| true") == Some(&*a)
            || a == "neither" && words.starts_with("neither ") && words.contains(" nor ")
    };
    // `The graph is a circle`
    let is_said = || {
        b.rsplit_once(" is ").or(b.rsplit_once(" be ")).is_some_and(|(before, tail)| {
            is_it(tail) && !standing::has_word(before, standing::SENTENCE)
        })
    };
    // `甲、丙` and `甲和丙`
    let linked = |text: &str| {
        each("和|与|及|，|,").fold(folded(text), |text, link| text.replace(link, "、"))
    };
    !a.is_empty() && (is_it(&b) || is_said())
        || !gold.is_ascii() && gold.contains('、') && linked(gold) == linked(answer)
        || says(&a).is_some() && says(&a) == polar(&b)
        || same_statement(&a, &b)
        || same_choice(gold, answer)
        || same_members(gold, answer)
        || is_subject(&a, &b)
        || is_subject(&b, &a)
        || is_none(&a) && is_none(&b) && is_undefined(&a) == is_undefined(&b)
}

/// Whether both are the same words with commas between them, in any order: `red, blue` and `blue, red`.
fn same_members(gold: &str, answer: &str) -> bool {
    let members = |text: &str| -> BTreeSet<String> {
        let text = text.replace(" and ", ", ");
        text.split(',').map(folded).filter(|word| !word.is_empty()).collect()
    };
    gold.contains(',')
        && gold.len() < 400
        && members(gold).len() > 1
        && members(gold) == members(answer)
}

/// Whether an answer only says what became of the gold answer's name: `Evelyn wins`.
fn is_subject(gold: &str, answer: &str) -> bool {
    let rest =
        answer.strip_prefix(gold).and_then(|rest| rest.strip_prefix(' ')).unwrap_or_default();
    let verb = rest.split(' ').next().unwrap_or_default();
    is_one_of(verb, "wins|won|did|does|has|have|will|finishes|finished|scored|was|is")
        && gold.len() >= 3
        && !standing::has_word(rest, standing::SENTENCE)
        && !rest.split(' ').any(|word| is_one_of(word, "no|isnt|wrong|incorrect"))
        && !is_one_of(rest, "is false|is impossible|was false|was impossible")
        && rest.split(' ').count() <= 6
}

/// Whether folded words say that nothing is a solution.
pub(super) fn is_none(words: &str) -> bool {
    if is_undefined(words) {
        return true;
    }
    // "The equation has no solution"
    let words = [" has ", "there is ", "there are ", "there exist ", "there exists "]
        .iter()
        .find_map(|begin| words.split_once(begin))
        .filter(|(before, _)| before.len() < 40 && !standing::has_word(before, standing::SENTENCE))
        // "x=5 has no solution"
        .filter(|(before, _)| {
            !matches!(
                before.rsplit(' ').next().unwrap_or(before).as_bytes(),
                [b'a'..=b'z', b'=', b'0'..=b'9', ..]
            )
        })
        .map_or(words, |(_, rest)| rest);
    let words = words.strip_suffix(" exist").or(words.strip_suffix(" exists")).unwrap_or(words);
    // "no such integers"
    let such = words.strip_prefix("no such ").map(|noun| noun.strip_suffix('s').unwrap_or(noun));
    let is_such = |noun: &str| !noun.contains(' ') && !is_one_of(noun, "limit|derivative|integral");
    such.is_some_and(is_such)
        || no_solution(words) == Some(0)
        || is_one_of(words, "empty set|emptyset|varnothing|none|has no solution|空集")
}

/// Whether folded words say that a value is not defined.
pub(super) fn is_undefined(words: &str) -> bool {
    let words = words.strip_prefix("limit ").unwrap_or(words);
    matches!(words, "dne" | "does not exist" | "undefined" | "not defined" | "doesn't exist")
}

/// Whether a choice letter of the gold is the answer's: `C`, `(C)`, `C) 12`.
pub(super) fn same_choice(gold: &str, answer: &str) -> bool {
    // Golds of MathQA are small letters; before a text they mark its parts: `(a) 3 (b) 5`.
    let is_alone = || gold.chars().filter(|c| c.is_alphanumeric()).count() == 1;
    let is_letter = |a: &char| matches!(a, 'A'..='J') || matches!(a, 'a'..='e') && is_alone();
    let is_same = |a: char| choice(answer).is_some_and(|b| a.eq_ignore_ascii_case(&b));
    choice(gold).filter(is_letter).is_some_and(is_same) && !is_other_text(gold, answer)
}

/// Whether the values beside two letters differ: `(B) 12` and `(B) 15`.
fn is_other_text(gold: &str, answer: &str) -> bool {
    let (Some(a), Some(b)) = (after_choice(gold), after_choice(answer)) else { return false };
    let is_value = |text| parse(text).is_some_and(|read| !matches!(read, Answer::Words(_)));
    is_value(a) && is_value(b) && equality::compared(a, b).0 == Outcome::Wrong
}

/// Whether a text is the letter of a choice, alone or before its text.
pub(super) fn is_choice(text: &str) -> bool {
    choice(text).is_some()
}

/// What is said to be the choice: B of `The correct option is B.`
fn named_choice(text: &str) -> &str {
    let mut text = text.trim();
    const WORDS: &str = "ption|hoice|nswer";
    if text.len() < 7 || !holds(text, WORDS) {
        return text;
    }
    for word in each(WORDS) {
        if let Some((before, rest)) = text.rsplit_once(word)
            && before.len() < 40
            && !standing::is_doubted(before)
            && !standing::has_word(before, standing::SENTENCE)
            && !holds(&before.to_lowercase(), REFUSED)
            // "C, answer D" is two.
            && !before.rsplit_once(' ').is_some_and(|(words, _)| names_letter(words))
        {
            text = rest.trim_start_matches([':', ',', ' ']).trim_start_matches("is ").trim();
        }
    }
    text
}

/// Whether a choice's letter, and no word of one letter, is among words.
fn names_letter(words: &str) -> bool {
    let letter = |word: &str| is_letter(word.trim_end_matches([',', '.', ':', ')']));
    words.split_whitespace().any(|word| letter(word) && !matches!(word, "A" | "I"))
}

/// The letter of a multiple choice, alone or before its text; none where another one follows: `A) or B)`.
fn choice(text: &str) -> Option<char> {
    let text = standing::without_reason(named_choice(text));
    let wrapped = past(text, WRAPPERS);
    let text = wrapped.unwrap_or(text).trim_start_matches('(');
    let mut letters = text.chars();
    let letter = letters.next()?;
    let rest = letters.as_str();
    // `E - the pump`, `E (the pump)`
    let is_text = begins(rest, " - | – | \\text{ (| \\text{(");
    let rest = rest.trim_start();
    let ends = is_text
        || rest.is_empty()
        || rest.starts_with([')', '.', ':']) && !rest.starts_with(")^")
        || (wrapped.is_some() && rest.starts_with('}'));
    let is_letter = |c: char| ('A'..='J').contains(&c.to_ascii_uppercase());
    (is_letter(letter)
        && ends
        && !names_choice(letter, rest)
        && !denies(rest.trim_start_matches("\\text"))
        && !(rest.len() > 6 && corrects(rest)))
    .then_some(letter)
}

/// Whether a text behind a choice's letter goes on to name another choice: `(B)`, `or B`, a list of all of them.
fn names_choice(letter: char, text: &str) -> bool {
    let following = (letter as u8 + 1) as char;
    let is_link = |word: &str| ["or", "and"].iter().any(|link| word.eq_ignore_ascii_case(link));
    let mut is_linked = false;
    text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).any(
        |word| {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            let is_letter = is_letter(bare);
            // `A. 3 B. 4`: the next letter with a point.
            let is_next = word.starts_with(following) && word.ends_with('.');
            let is_marked = is_letter && (word.contains([')', ':']) || is_next);
            let was_linked = std::mem::replace(&mut is_linked, is_link(word));
            is_marked || (is_letter && was_linked)
        },
    )
}

/// Numbered statements, `①③④`; with words before them only in an answer, which may be a sentence.
pub(super) fn statements(text: &str) -> Option<BTreeSet<char>> {
    let is_circled = |c: char| ('①'..='⑳').contains(&c);
    let is_between = |c: char| c.is_whitespace() || "、，,和与及$".contains(c);
    let end = text.rfind(is_circled)?;
    let text = text[..end + '①'.len_utf8()].replace(" and ", " , ");
    let end = text.rfind(is_circled)?;
    let run = text[..end].rfind(|c: char| !is_circled(c) && !is_between(c));
    let run = &text[run.map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8))..];
    Some(run.chars().filter(|c| is_circled(*c)).collect())
}

/// Whether texts that could be read as a product or difference, and are none, are the same: words, ranges, cycles.
pub(super) fn same_signs(gold: &str, answer: &str, is_value: impl Fn() -> bool) -> Option<bool> {
    if differ_in_primes(gold, answer) {
        return Some(false);
    }
    let (a, b) = (cycles(gold), cycles(answer));
    if are_anagrams(gold, answer) || b.is_some() && (a.is_some() || is_value()) {
        return Some(a.is_some() && a == b);
    }
    is_range(answer).then(|| plain_dashes(gold) == plain_dashes(answer))
}

/// Digits with marks between them that are a range or a telephone number, `3-5`, and not a difference that is left to
/// work out, `10-4`, `3 - 5`.
fn is_range(text: &str) -> bool {
    if !text.starts_with(is_digit) {
        return false;
    }
    let text = plain_dashes(text);
    let groups: Vec<&str> = text.split('-').collect();
    let are_digits =
        groups.iter().all(|group| !group.is_empty() && group.len() < 12 && are_digits(group));
    let number = |group: &str| group.parse::<u64>().unwrap_or_default();
    are_digits
        && match groups.as_slice() {
            [first, last] => number(first) < number(last),
            [_, rest @ ..] => rest.len() > 1 && groups.iter().any(|group| group.len() > 2),
            [] => false,
        }
}

fn plain_dashes(text: &str) -> String {
    text.replace(['–', '—', '‐', '‑'], "-")
}

/// Whether two texts are the same letters in another order, `\text{cat}` and `act`, which are no factors as in `xyz`.
fn are_anagrams(gold: &str, answer: &str) -> bool {
    let letters = |text: &str| {
        let bare = text.strip_prefix("\\text{").and_then(|text| text.strip_suffix('}'));
        bare.unwrap_or(text).trim().as_bytes().to_vec()
    };
    let (mut a, mut b) = (letters(gold), letters(answer));
    let is_other = (3..40).contains(&a.len())
        && a.len() == b.len()
        && a != b
        && a.iter().all(u8::is_ascii_alphabetic);
    a.sort_unstable();
    b.sort_unstable();
    let are_factors =
        || a[0].is_ascii_lowercase() && a.windows(2).all(|pair| pair[1] == pair[0] + 1);
    is_other && a == b && !are_factors() && !is_formula(gold.trim())
}

/// Whether the letters of several choices are the answer's, in any order: `AC`, `A, C`, `A and C`.
pub(super) fn same_choices(gold: &str, answer: &str) -> bool {
    // `BCA` is an order, and no choices.
    let letters: Vec<char> = gold.chars().filter(char::is_ascii_uppercase).collect();
    letters.is_sorted() && choices(gold).is_some_and(|a| choices(answer).is_some_and(|b| a == b))
}

/// The different letters of several choices.
fn choices(text: &str) -> Option<BTreeSet<char>> {
    const MAX_BYTES: usize = 80;
    (text.len() <= MAX_BYTES).then_some(())?;
    const LINKS: &str = "\\text|\\mathrm|and| und | et | y | e | и | و|和|与|及|、|と|와|과";
    let bare = each(LINKS).fold(text.to_owned(), |text, link| text.replace(link, " "));
    let mut letters = BTreeSet::new();
    for c in bare.chars().filter(|c| !c.is_whitespace() && !"(){},;&$.".contains(*c)) {
        let is_new = ('A'..='J').contains(&c) && letters.insert(c);
        is_new.then_some(())?;
    }
    (letters.len() >= 2).then_some(letters)
}

/// The text after a choice letter: 12 of `(C) 12` and of `\textbf{(C) }12`.
pub(super) fn after_choice(text: &str) -> Option<&str> {
    let text = named_choice(text);
    let wrapped = past(text, WRAPPERS);
    let inner = wrapped.unwrap_or(text).trim_start();
    let rest = inner.trim_start_matches('(').strip_prefix(|c: char| ('A'..='J').contains(&c))?;
    let is_mark = |c: char| c == ')' || ".:".contains(c) && !inner.starts_with('(');
    let rest = rest.strip_prefix(is_mark)?;
    let is_space = |c: char| " \\~:.;,\u{a0}".contains(c);
    let rest = rest.trim_start_matches(is_space);
    let rest = if wrapped.is_some() { rest.strip_prefix('}')? } else { rest };
    let rest = rest.trim_start_matches(is_space).trim_end_matches(['.', ' ']);
    let is_letter = is_letter(rest.trim_matches(|c: char| !c.is_alphanumeric()));
    (!rest.is_empty() && !is_letter).then_some(rest)
}

/// The choice letter that a value stands beside: C of `(C) 12`.
pub(super) fn choice_beside(text: &str) -> Option<char> {
    let rest = after_choice(text)?;
    let lead = &text[..super::answer::offset_in(text, rest)];
    lead.chars().rfind(char::is_ascii_uppercase)
}

/// Yes or no, of a word.
pub(super) fn says(word: &str) -> Option<bool> {
    match word {
        "yes" | "true" | "not false" => Some(true),
        "no" | "false" | "not true" => Some(false),
        _ => None,
    }
}

/// Whether a gold answer says that there is not enough information, and the sentence says so.
pub(super) fn says_unknown(gold: &str, sentence: &str) -> bool {
    let says = |text: &str| holds(&text.to_lowercase(), "not enough information");
    gold.len() <= 80 && says(gold) && says(sentence) && !holds(sentence, "n't|false|wrong")
}

/// Yes or no, where an answer begins with it and goes on: "No, it does not converge", "Ja, denn 9 + 16 = 25".
pub(super) fn opening(text: &str) -> Option<bool> {
    let text = text.trim_start_matches("\\text{").trim_start_matches('*').trim_end_matches('}');
    let (word, rest) = text.split_at(text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len()));
    let first = polar(&word.to_lowercase())?;
    let folded = folded(text);
    // "Yes, no counterexample exists."
    let is_of_noun = || is_no_of_noun(rest.trim_start_matches([',', '.', ';', ' ', '*']));
    let mut words = folded.split(' ').skip(1);
    let is_plain = words.all(|word| {
        says(word).is_none_or(|other| other == first || word == "no" && is_of_noun())
            && !is_one_of(
                word,
                "maybe|perhaps|possibly|or|but|if|unless|except|wait|only|actually|sometimes|если|иначе|но|aber|wenn|sonst|\
                si|sinon|mais|pero|ma|se|mas|senão|ale|jeśli|ama|eğer|tapi|jika|maar|als",
            )
    });
    let is_plain = is_plain && !(first && folded.ends_with(" not"));
    let is_none = !first && is_none(&folded);
    let rest = rest.trim_start_matches(['*', ' ', '}']);
    let is_apart =
        rest.starts_with([',', ';', ':', '.', '—', '–', '-', '(', '，', '：', '；', '。', '!']);
    let goes_on = rest.contains(char::is_alphanumeric) && is_apart || begins(rest, REASONS);
    (is_plain && (goes_on || is_none) && !super::answer::is_refusal(text)).then_some(first)
}

/// Yes or no, where the last sentence of a text begins with it or ends with it: "Yes, 3 divides 6.", "so no".
pub(super) fn polarity(text: &str) -> Option<bool> {
    let end = text.trim_end_matches(|c: char| c.is_whitespace() || ".!*。".contains(c));
    let end = super::super::tail(end, 400);
    let last = end.rsplit(['\n', '.', '!', '?']).find(|part| part.contains(char::is_alphabetic))?;
    let words: Vec<String> = [end, last]
        .iter()
        .flat_map(|part| [part.split_whitespace().next(), part.split_whitespace().next_back()])
        .flatten()
        .map(folded)
        .collect();
    const YES: &str = "correct|right";
    const NO: &str = "incorrect|not really|not at all|certainly not|definitely not|not true|it is not true|untrue|wrong";
    let whole = folded(end);
    if is_one_of(&whole, YES) || is_one_of(&whole, NO) {
        return Some(is_one_of(&whole, YES));
    }
    if let Some(is_so) = judged(&folded(last)) {
        return Some(is_so);
    }
    // The last sentence first, and the end of it before its beginning.
    let clause = last.rsplit(',').next().unwrap_or(last);
    let bare = folded(last);
    let is_alone = says(without(&bare, "it is |so |therefore |hence ")).is_some();
    let is_both = is_by_cases(end)
        || !is_alone && holds(&whole, "yes and no|yes or no|no doubt|not true|not false")
        || clause.contains(' ')
            // "If n is odd then yes."
            && !clause.rsplit_once(' ').is_some_and(|(before, _)| before.ends_with(" then"))
            && standing::has_word(clause, standing::SENTENCE)
            && says(&folded(clause.split(' ').find(|word| !word.is_empty()).unwrap_or_default()))
                .is_none();
    let is_determiner = |text| is_no_of_noun(text) && !is_none(&folded(text));
    let is_word = |at: &&usize| **at == 3 || !is_determiner(if **at == 0 { end } else { last });
    let begin = [2, 3, 0].iter().filter(is_word).find_map(|at| polar(words.get(*at)?));
    let earlier = || polarity(is_determiner(last).then_some(end.strip_suffix(last)?)?);
    begin.or_else(|| opening(last.trim_start())).or_else(earlier).filter(|_| !is_both)
}
