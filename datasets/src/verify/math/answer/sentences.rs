//! What a sentence without a mark concludes with, in words: a choice, a name, yes or no, a number.

use super::super::foreign::foreign_number;
use super::super::scan::{begins, behind_last, holds, is_letter, is_one_of, parted, pattern};
use super::super::spelled::{is_number_part, spelled};
use super::super::standing::{self, without_reason};
use super::super::units::is_unit;
use super::super::words::{opening, says};
use super::Rule;

/// Words behind "is" that are no answer.
pub(super) const ABOUT: &str = "answer|correct|final|result|solution|done|right|it|required|wrong";

/// The letter of a clause that calls it right: B of "A is wrong; B is correct".
pub(super) fn affirmed(sentence: &str) -> Option<&str> {
    let part = sentence.rsplit(';').next().unwrap_or(sentence);
    (!holds(part, "none of|None of|either |nor ")).then_some(())?;
    let praised = pattern!(
        r"^(?:and |but |Thus |So |Hence |Therefore )?[()*]*([A-J])[()*]* is (?:the )?(?:correct|right|answer|best|better|only)[* ]*(?:(?:option|choice|answer|one|because|since|as|by|here)(?:[^\p{Alphabetic}]|$)|[^\p{Alphabetic}* ]|$)"
    );
    let mut clauses = sentence.split([';', ',']).rev();
    clauses.find_map(|clause| Some(praised.captures(clause.trim())?.get(1)?.as_str()))
}

/// Yes or No of a sentence that begins with it and goes on, or that ends with it.
fn yes_or_no(sentence: &str) -> Option<&str> {
    let bare = sentence.trim_matches(['*', ' ']);
    if opening(bare).is_some() {
        return bare.split(|c: char| !c.is_alphabetic()).next();
    }
    let (before, last) = sentence.rsplit_once(' ')?;
    let last = last.trim_matches(['.', '*', '!']);
    let is_conclusion = before.ends_with(" so") || before.ends_with(", therefore");
    (is_conclusion && says(&last.to_lowercase()).is_some()).then_some(last)
}

/// Yes or No behind "so", with words alone behind it: "91 = 7 · 13, so no, it is not prime".
pub(super) fn so_yes_or_no(sentence: &str) -> Option<&str> {
    let rest = &sentence[behind_last(sentence, ", so |; so |, therefore |, hence |, thus ")?..];
    let word = rest.split([',', '.']).next()?;
    let is_bare = !rest.contains(|c: char| c.is_ascii_digit() || c == '$' || c == '\\');
    (is_bare && says(&word.to_lowercase()).is_some()).then_some(word)
}

/// The only number of a sentence, in words: "She has seven left.", "It is minus forty degrees."
pub(super) fn number_word(sentence: &str) -> Option<&str> {
    if is_open(sentence) || sentence.contains(" than ") {
        return None;
    }
    let words = sentence.split(|c: char| !c.is_alphabetic() && c != '-');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    // Words beside each other are one number; "the two" and "one of them" count nothing.
    let is_link = |word: &str| matches!(word, "and" | "a");
    let runs =
        words.chunk_by(|a, b| [a, b].iter().all(|word| is_number_part(word) || is_link(word)));
    let mut found = None;
    let mut before = "";
    for run in runs {
        let end = run.len() - run.iter().rev().take_while(|word| is_link(word)).count();
        let Some(run) = run.get(..end).filter(|run| !run.is_empty()) else { continue };
        let run = if run[0] == "and" { &run[1..] } else { run };
        let previous = std::mem::replace(&mut before, run[run.len() - 1]);
        let is_counted = match run {
            [word] => {
                is_number_part(word)
                    && !previous.eq_ignore_ascii_case("the")
                    && !word.eq_ignore_ascii_case("one")
            }
            _ => true,
        };
        if !is_counted {
            continue;
        }
        let start = super::offset_in(sentence, run[0]);
        let text = &sentence[start..super::offset_in(sentence, before) + before.len()];
        let is_half = text.eq_ignore_ascii_case("half") && start > 0;
        let is_number = spelled(text).is_some() && !is_half;
        (found.is_none() && is_number).then_some(())?;
        found = Some(text);
    }
    let found = found.or_else(|| foreign_number(sentence))?;
    let end = super::offset_in(sentence, found) + found.len();
    let unit = sentence[end..].strip_prefix(' ').and_then(|rest| rest.split(' ').next());
    let unit = unit.map(|unit| unit.trim_end_matches('.')).filter(|unit| is_unit(unit));
    let length = unit.map_or(0, |unit| unit.len() + 1);
    Some(&sentence[end - found.len()..end + length])
}

pub(in super::super) fn last_sentence(line: &str) -> &str {
    let end = line.trim_end_matches(|c: char| c.is_whitespace() || ".!*".contains(c));
    let mut ends = end.rmatch_indices('.').map(|(at, _)| at);
    let is_end = |at: &usize| {
        let before = &end[..*at];
        end[at + 1..].starts_with(' ') && !before.ends_with("i.e") && !before.ends_with("e.g")
    };
    &end[ends.find(is_end).map_or(0, |at| at + 2)..]
}

/// Whether a word of a sentence leaves open what it says.
pub(super) fn is_open(sentence: &str) -> bool {
    standing::has_word(sentence, standing::SENTENCE)
}

/// Says of a choice that it is not chosen: "D is wrong", "I wouldn't pick D".
pub(in super::super) const REFUSED: &str = "incorrect|wrong|false|worst|fails|exclude|eliminate|n't go|n't choose|n't pick|n't select|\
    falsch|nicht|mauvais|fausse|falsa|errad|sbagliat|неверн|неправильн|błędn|yanlış|salah|onjuist|fout|错|不正|誤|틀린";

/// The letter of "option C is correct", "the correct choice is (C)".
pub(super) fn choice(sentence: &str) -> Option<&str> {
    const NAMED: &str = "orrect option is |orrect choice is |ight option is |y choice: ";
    let named = parted(sentence, NAMED).and_then(|(_, rest)| first_letter(rest));
    if named.is_some() {
        return named;
    }
    let sentence = without_reason(sentence);
    // "Option D is wrong, so option B is correct."
    const LINKS: &str = ", so |; |, therefore |, thus |, hence |, but |, while ";
    let sentence = &sentence[behind_last(sentence, LINKS).unwrap_or(0)..];
    if holds(&sentence.to_lowercase(), REFUSED) || is_open(sentence) {
        return None;
    }
    const WORDS: &str = "ption |hoice |tatement |raph |igure |etter |ption is |hoice is |choose |pick |select |go with ";
    first_letter(&sentence[behind_last(sentence, WORDS)?..])
}

/// The letter of a choice that a text begins with.
fn first_letter(text: &str) -> Option<&str> {
    let text = text.trim_start_matches(['(', '*', ' ']);
    let letter = text.get(..1).filter(|letter| is_letter(letter))?;
    (!text[1..].starts_with(char::is_alphanumeric)).then_some(letter)
}

/// The words that a sentence without numbers concludes with: Evelyn of "the fastest is Evelyn", Yes of "Yes, it does".
pub(super) fn words(sentence: &str) -> Option<(&str, Rule)> {
    if let Some(word) = yes_or_no(sentence) {
        return Some((word, Rule::Words));
    }
    // "It is not red but blue."
    if let Some((_, tail)) = sentence.split_once(" but ").filter(|(no, _)| no.contains(" not "))
        && tail.split(' ').count() == 1
    {
        return Some((tail, Rule::Conclusion));
    }
    let sentence = without_reason(sentence);
    let cut = [" (", ", the "].iter().filter_map(|mark| sentence.find(mark)).min();
    let sentence = &sentence[..cut.unwrap_or(sentence.len())];
    (!is_open(sentence)).then_some(())?;
    let start = behind_last(sentence, " is | are | was | be ")?;
    let tail = sentence[start..].trim_matches(['*', ' ', ',', '.', '"']);
    let mut words = tail.split(' ');
    let is_about = words.clone().any(|word| is_one_of(&word.to_lowercase(), ABOUT));
    let concludes =
        begins(sentence, "So |Therefore|Thus|Hence|The |Answer") || spelled(tail).is_some();
    let is_name = words.all(|word| word.starts_with(char::is_uppercase)) || concludes;
    let is_short = !tail.is_empty() && tail.split(' ').count() <= 4;
    (is_short && is_name && !is_about).then_some((tail, Rule::Conclusion))
}
