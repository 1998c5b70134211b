//! The flexible rules, for completions without any mark: the whole text, a conclusion, the last value, a few words.

use std::cell::OnceCell;

use super::super::alphabet::is_function;
use super::super::calendar::date;
use super::super::foreign::foreign_number;
use super::super::languages::without_check;
use super::super::names::assignments;
use super::super::read::parse;
use super::super::scan::{
    before_end, begins, has_digits, holds, is_digit, is_letter, past, without,
};
use super::super::standing::{self, denies, is_bound, is_doubted, is_unstated, without_reason};
use super::super::tree::Answer;
use super::super::words::{self, opening};
use super::clause::{comes_to, remaining, stated};
use super::concluded::{
    behind_condition, chosen, concluded, last_step, main_clause, named, ratio, residue, solved,
    without_cause, without_solution,
};
use super::courtesy::{
    is_refusal, is_unfinished, without_choices, without_courtesy, without_program,
};
use super::endings::{are_formulas, displayed, ending};
use super::numbers::{is_label, last_value, stated_value, with_unit};
use super::remarks::before_remark;
use super::restated::{kept, without_place};
use super::sentences::{
    affirmed, choice, is_open, last_sentence, number_word, so_yes_or_no, words,
};
use super::{MAX_WHOLE, Rule, is_answer, is_value, offset_in};

/// Longest text that may be an answer in words.
const MAX_WORDS: usize = 80;

/// Most words of a text that is a name as a whole.
const MAX_NAME: usize = 3;

/// The end of a completion, as the rules look at it.
struct Ending<'a> {
    /// All of it, without courtesies.
    text: &'a str,
    /// The last line.
    line: &'a str,
    /// The last sentence of that.
    last: &'a str,
    /// The longest end of that which is mathematics, once it was looked for.
    known_end: OnceCell<Option<&'a str>>,
}

impl<'a> Ending<'a> {
    /// The longest end of the last sentence that is mathematics, looked for once.
    fn mathematics(&self) -> Option<&'a str> {
        *self.known_end.get_or_init(|| ending(self.last))
    }
}

/// What a rule finds, and the name of its kind.
type Finding<'a> = Option<(&'a str, Rule)>;

/// The rules in order: the first that finds an answer decides.
const RULES: [for<'a> fn(&Ending<'a>) -> Finding<'a>; 13] = [
    |e| Some((kept(e.text)?, Rule::Conclusion)),
    |e| Some((labelled(e.line)?, Rule::Phrase)),
    |e| Some((remaining(e.last).or_else(|| chosen(e.last))?, Rule::Choice)),
    |e| Some((assigned(e.last).or_else(|| assigned(items(e.text)))?, Rule::Conclusion)),
    |e| Some((name_with_reason(e.text)?, Rule::Words)),
    |e| date(e.line).map(|_| (e.line, Rule::Whole)),
    |e| words::after_choice(e.text).filter(|value| is_value(value)).map(|_| (e.text, Rule::Whole)),
    |e| Some((solved(e.text).or_else(|| solved(e.last))?, Rule::Conclusion)),
    |e| Some((displayed(e.text)?, Rule::Formula)),
    |e| Some((last_step(e.text)?, Rule::Conclusion)),
    |e| Some((whole(e.text)?, Rule::Whole)),
    |e| LINE_RULES.iter().find_map(|rule| (e.line.len() <= MAX_WHOLE).then(|| rule(e))?),
    |e| match last_value(e.text) {
        None => Some((e.mathematics()?, Rule::Formula)),
        Some(_) => {
            let (value, rule) = stated_value(e.text)?;
            let is_part = |whole: &&str| whole.as_bytes().as_ptr_range().contains(&value.as_ptr());
            Some((e.mathematics().filter(is_part).unwrap_or(value), rule))
        }
    },
];

/// The rules for a last line that is short.
const LINE_RULES: [for<'a> fn(&Ending<'a>) -> Finding<'a>; 19] = [
    |e| Some((without_solution(e.last)?, Rule::Words)),
    |e| Some((so_yes_or_no(e.last)?, Rule::Words)),
    |e| Some((residue(e.last)?, Rule::Conclusion)),
    |e| Some((letter(e)?, Rule::Choice)),
    |e| Some((e.line.rsplit(". ").find_map(affirmed)?, Rule::Choice)),
    |e| {
        let is_plain = !has_digits(e.line);
        (is_plain && words::statements(e.line).is_some()).then_some((e.line, Rule::Words))
    },
    // "I'd go with (B), since (A) fails for n = 2."
    |e| {
        let before = without_reason(e.last);
        let is_plain = !before.contains(|c: char| c.is_ascii_digit() || c == '$' || c == '\\');
        let is_cut = is_plain && before.len() < e.last.len();
        Some((choice(before).filter(|_| is_cut)?, Rule::Choice))
    },
    |e| Some((bold(e.line)?, Rule::Bold)),
    |e| Some((e.mathematics().filter(|end| are_formulas(end))?, Rule::Formula)),
    // "Alex has 70 lollipops left after giving 20 away."
    |e| {
        let (value, rule) = last_value(main_clause(e.last)?)?;
        let (lead, behind) = e.last.split_at(offset_in(e.last, value));
        let behind = &behind[value.len()..];
        let is_stated =
            !is_unstated(lead, behind) && !is_bound(lead, behind) && !is_doubted(e.last);
        is_stated.then(|| (with_unit(e.last, value), rule))
    },
    |e| Some((concluded(e.last)?, Rule::Conclusion)),
    |e| Some((conclusion(e.text)?, Rule::Conclusion)),
    |e| Some((named(e.last)?, Rule::Conclusion)),
    |e| Some((number_word(worded(e)?)?, Rule::Number)),
    |e| Some((choice(worded(e)?)?, Rule::Choice)),
    // "Both A and C are correct."
    |e| {
        let letters = past(e.last.strip_suffix(" are correct")?, "Both |Options |Choices ")?;
        words::same_choices(letters, letters).then_some((letters, Rule::Choice))
    },
    |e| words(worded(e)?),
    // "So 42, not 18.": a remark supplies no value.
    |e| {
        let before = before_remark(e.last);
        let is_cut = before.len() < e.last.len() && !is_doubted(e.last);
        let (value, rule) = last_value(before).filter(|_| is_cut)?;
        let start = offset_in(before, value);
        let (lead, behind) = (&before[..start], &e.last[start + value.len()..]);
        (!is_unstated(lead, behind)).then_some((value, rule))
    },
    |e| Some((ratio(e.last)?, Rule::Conclusion)),
];

/// The answer of a text without a mark, and the rule.
pub(in super::super) fn answer(text: &str) -> Finding<'_> {
    let text = without_check(without_choices(without_program(without_courtesy(text))));
    let text = without_place(text);
    (!text.is_empty() && !is_refusal(text) && !is_unfinished(text)).then_some(())?;
    let line = text.lines().next_back().unwrap_or(text).trim();
    let last = last_sentence(line);
    let (text, line, last) = match behind_condition(last) {
        Some(main) => (main, main, main),
        None => (text, line, last),
    };
    let ending = Ending { text, line, last, known_end: OnceCell::new() };
    let found = RULES.iter().find_map(|rule| rule(&ending));
    // "Confidence: 100%", "Step 3.", and one case of several.
    let is_none = |(value, _): &(&str, Rule)| {
        let start = offset_in(text, value);
        let digit = value.find(is_digit);
        let last = value.rfind(is_digit).map_or(value.len(), |at| at + 1);
        let is_stated = |at| !is_doubted(&text[..start + at]) && !denies(&value[last..]);
        // "It is nearly 5."
        let is_near =
            || before_end(text[..start].trim_end_matches([' ', '$']), "nearly|almost").is_some();
        digit.is_some_and(|at| is_near() || is_label(&text[..start + at]) || !is_stated(at))
            || standing::is_one_of_cases(&text[..start], &text[start + value.len()..])
    };
    (!found.as_ref().is_some_and(is_none)).then_some(())?;
    let is_denied = |(value, _): (&str, Rule)| is_unstated(&text[..offset_in(text, value)], "");
    let is_short = || {
        let is_open = is_doubted(ending.last) || last_value(text).is_some_and(is_denied);
        text.len() <= MAX_WORDS && !is_open
    };
    // "No, they are not congruent. Their angles agree, but their areas differ."
    let first = || text.split(". ").next().filter(|first| opening(first).is_some());
    let polar = || Some((first()?.split(',').next()?, Rule::Words));
    found.or_else(|| is_short().then_some((text, Rule::Words))).or_else(polar)
}

/// A name of a few words before its reason: Evelyn of "Evelyn, because it fits".
fn name_with_reason(text: &str) -> Option<&str> {
    let bare = without_reason(text);
    let is_name =
        bare.len() < text.len() && bare.split_whitespace().count() <= MAX_NAME && bare != "the";
    (is_name && is_answer(bare)).then_some(bare)
}

/// A text that is nothing but an answer.
fn whole(text: &str) -> Option<&str> {
    // Words are a name, not a sentence.
    let is_name = || {
        text.split_whitespace().count() <= MAX_NAME
            && is_answer(text)
            && foreign_number(text).is_none_or(|number| number.len() + 2 > text.len())
    };
    let is_list = text.starts_with("1. ") && text.contains("\n2. ");
    let is_sentence = is_list || holds(text, " is | are | has | have | needs ");
    let is_whole = || {
        let first = text.split(' ').next().unwrap_or(text);
        is_name() || is_value(text) && is_answer(text) && !is_prose(text) && !is_open(first)
    };
    (text.len() <= MAX_WHOLE && !is_sentence && is_whole()).then_some(text)
}

/// The letter that the last line is, where the line before is none: a list of all options chooses none.
fn letter<'a>(ending: &Ending<'a>) -> Option<&'a str> {
    let before = ending.text[..offset_in(ending.text, ending.line)].trim_end();
    let other =
        before.lines().next_back().unwrap_or_default().trim_matches(['*', '(', ')', '.', ' ']);
    (!is_letter(other)).then_some(())?;
    let letter =
        ending.line.trim_start_matches("\\text{").trim_matches(['*', '(', ')', '.', ' ', '}', '$']);
    is_letter(letter).then_some(letter)
}

/// The last sentence, where it is words alone.
fn worded<'a>(ending: &Ending<'a>) -> Option<&'a str> {
    let has_value = ending.last.contains(|c: char| c.is_ascii_digit() || c == '$' || c == '\\');
    let is_polar = || begins(ending.last, "No, |Yes, ");
    (!has_value && (is_polar() || !is_doubted(ending.last))).then_some(ending.last)
}

/// Whether a text is a sentence whose short words could be read as products of letters: `Au total, il y en a 42`.
fn is_prose(text: &str) -> bool {
    let is_word =
        |word: &&str| word.len() > 1 && word.chars().all(char::is_alphabetic) && !is_function(word);
    let is_sentence = text.contains(',') || text.starts_with(char::is_alphabetic);
    is_sentence
        && text.split([' ', ',', '.']).filter(is_word).count()
            > if text.contains(',') { 2 } else { 4 }
        && parse(text).is_some_and(|answer| !matches!(answer, Answer::Words(_)))
}

/// The list of lines that a text ends with: `- a = 1` and `- b = 4`.
fn items(text: &str) -> &str {
    let is_item = |line: &&str| begins(line, "- |* |$") || line.is_empty();
    let lines = text.rsplit('\n').take_while(is_item).filter(|line| !line.is_empty());
    lines.last().map_or("", |first| &text[offset_in(text, first)..])
}

/// The values with names that a line ends with: `Therefore $s = 9$ and $r = 3$.`
fn assigned(line: &str) -> Option<&str> {
    const MAX_WORDS_BEFORE: usize = 12;
    let line = line.trim_end_matches(['.', '*', '。']);
    let line = before_end(line, "となる|である|です").unwrap_or(line).trim_end();
    let starts = line.match_indices([' ', '、', '，', '得']).map(|(at, mark)| at + mark.len());
    let is_sentence = line.len() <= MAX_WHOLE && line.contains([',', ';', ' ', '、', '，']);
    let mut rests = [0].into_iter().chain(starts.take(MAX_WORDS_BEFORE)).map(|at| &line[at..]);
    // `x=2, y=1 or x=1, y=2` is a list.
    let is_list = |rest: &str| line[..offset_in(line, rest)].contains('=');
    let is_word = |word: &str| word.len() > 4 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_prose = |rest: &str| rest.split(' ').filter(|word| is_word(word)).count() > 2;
    rests.find(|rest| {
        is_sentence && !is_list(rest) && !is_prose(rest) && assignments(rest).is_some()
    })
}

/// The value of a line such as `A: 7`, `ans = 7`.
fn labelled(line: &str) -> Option<&str> {
    let (name, value) = line.split_once([':', '='])?;
    let name = name.trim_matches(['*', ' ', '.']).to_lowercase();
    // "The result: x is 6"
    let value = value.trim_start();
    let value = value.get(1..).and_then(|rest| rest.strip_prefix(" is ")).unwrap_or(value);
    let value = value.trim_matches([' ', '*']);
    let value = if value.ends_with("..") { value } else { value.trim_end_matches('.') };
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
    let is_text = || {
        words::is_choice(value)
            || date(value).is_some()
            || is_name()
            || assignments(value).is_some()
    };
    (is_label && !is_equation && value.len() <= MAX_WHOLE && (is_value(value) || is_text()))
        .then_some(value)
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
    (line.len() <= MAX_WHOLE).then_some(())?;
    if let Some(total) = comes_to(line) {
        return Some(total);
    }
    let line = without_cause(before_remark(line));
    let marks = [" is ", " are ", "= ", ": "];
    let starts = marks.iter().filter_map(|mark| Some(line.rfind(mark)? + mark.len()));
    let starts: Vec<usize> = starts.collect();
    // `$\{x : x > 17\}$`: a mark inside of a formula is none.
    let is_inside = |at: usize| line[..at].matches('$').count() % 2 == 1;
    let last = *starts.iter().max()?;
    (!is_inside(last)).then_some(())?;
    // "it is y = 2x + 1": the equation as a whole.
    let first = *starts.iter().min()?;
    let whole = line[first..].trim();
    let whole = without(whole, "thus |therefore |then |hence |so |also |donc |quindi |logo ");
    let word = whole.split(' ').next().unwrap_or(whole);
    if first < last && !whole.contains('$') && !is_open(word) && is_equation(whole) {
        return Some(whole);
    }
    let tail = line[last..].trim();
    let is_formula = |text: &str| !text.is_empty() && !text.contains('$') && is_answer(text);
    // "The number is a perfect square, 25"
    let noun = tail.rsplit_once(", ").filter(|(noun, value)| {
        begins(noun, "a |an |the ") && !has_digits(noun) && is_value(value)
    });
    let tail = noun.map_or(tail, |(_, value)| value);
    let tail = if is_formula(tail) { tail } else { stated(tail)? };
    let start = offset_in(line, tail);
    let (before, after) = (&line[..start], &line[start + tail.len()..]);
    // "The largest power that fits is 25, and we obtain $(431)_5$"
    let behind = &text[offset_in(text, tail) + tail.len()..];
    let is_denied = is_unstated(before, behind) || is_bound(before, after) || after.contains('$');
    (is_formula(tail) && is_value(tail) && !is_denied).then_some(tail)
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

/// The last bold text of a line: a value that no other number follows but in a remark, or words in a line without
/// numbers.
fn bold(line: &str) -> Option<&str> {
    let close = line.rfind("**")?;
    let open = line[..close].rfind("**")?;
    let inner = line[open + 2..close].trim();
    let inner = if inner.ends_with("..") { inner } else { inner.trim_end_matches('.') };
    let after = line[close + 2..].trim_start();
    (!inner.is_empty() && !inner.ends_with(':') && !after.starts_with(':')).then_some(())?;
    let outside = [&line[..open], after];
    if words::is_choice(inner) || date(inner).is_some() {
        return Some(inner);
    }
    let inner = without_reason(inner);
    if has_digits(inner) || inner.contains(['\\', '$']) {
        let mut clauses = after.splitn(2, [',', ';', '(', '—']);
        let (unit, remark) = (clauses.next().unwrap_or_default(), clauses.next());
        let is_remark = remark.is_some_and(|text| begins(text, " i.e.| that is"));
        let is_aside = || {
            main_clause(&line.replace("**", ""))
                .is_some_and(|main| main.len() < line[..close].len())
        };
        let is_last =
            !has_digits(after) || unit.is_empty() || is_remark && !has_digits(unit) || is_aside();
        let is_pair =
            after.starts_with(", ") && after[2..].starts_with(|c: char| !c.is_alphabetic());
        return (is_last && !is_pair && is_value(inner)).then_some(inner);
    }
    let is_open = is_open(line);
    // "so the curve is an **ellipse**"
    const VERBS: &str = " is| is a| is an| is the| be| was|'s|'s a|'s an|’s a|’s an";
    let noun = after.split("with ").next().unwrap_or(after).trim_matches(['.', ' ']);
    let is_said = noun.chars().all(char::is_alphabetic)
        && before_end(line[..open].trim_end(), VERBS).is_some();
    let is_name =
        inner.len() <= MAX_WORDS && (is_said || !outside.iter().any(|text| has_digits(text)));
    (is_name && !is_open && line[..open].matches("**").count() == 0).then_some(inner)
}
