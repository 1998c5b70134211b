//! The columns of a file that no role is given to, for the line that says what the columns are.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use tealight_core::display::one_spaced;

use super::choice_columns::is_empty;
use super::gold_value::plain;
use super::judgement::{self, VERDICTS};
use super::known_columns::{ANSWERS, CONTEXTS, CONVERSATIONS, SOLUTIONS, list};
use super::layout::{AnswerColumn, Layout, QuestionColumns, is_filled, system_of};
use super::second_question::{asked, unasked};
use super::{LOOKED_AT, Purpose, Row, chat, names, right_choices, variables};

/// Most columns that are named.
const MOST: usize = 6;
/// Columns with the thought that comes before an answer.
const THOUGHTS: [&str; 8] =
    list("reasoning|reasoning_content|Complex_CoT|thinking|think|thought|thoughts|reasoning_trace");

/// Words of the names of columns that are no part of a question: where a row is from, what it is about, how hard it is,
/// what its answer is.
const BESIDE: &str = "id ids uid uuid idx ind index key hash md5 sha source src origin original dataset data url \
                      uri link href path file filename split subset level difficulty grade rating score scores \
                      point points type kind category categories topic subtopic subject domain field area tag tags \
                      skill skills ability lang language locale license date time timestamp year month day version \
                      model generator author creator user status name count length len size tokens rate acc \
                      accuracy reward rewards avg mean std prob votes likes rank weight seed meta metadata info \
                      extra style method format library contest competition exam round chapter section page group \
                      cluster env error class label labels answer answers ans solution solutions gold truth target \
                      targets output outcome response generations completion pred prediction result results \
                      expected reason reasoning thinking thought rationale explanation verdict verify valid passed \
                      tools kwargs correct quality step steps reference refs note finish chain is has num";
/// Words of the names of numbers that say how an answer is compared.
const TOLERANCES: &str = "tolerance tol rtol atol precision margin epsilon eps";
/// What numbers stand for in questions whose numbers have a column of their own: MAWPS.
const NUMBERS: [&str; 4] = ["N_00", "number0", "number_0", "num_0"];

/// A row, and what its question's column asks.
type Asked<'r> = (&'r Row, String);

impl Layout {
    /// The roles, in a line for the user, with the solutions that are imitated beside answers.
    pub(super) fn shown(&self, purpose: Purpose) -> String {
        let is_beside =
            matches!(self.answer, AnswerColumn::Exact(_)) && purpose == Purpose::Imitate;
        self.note()
            + &match &self.solution {
                _ if !is_beside => String::new(),
                _ if self.question.is_conversation() => ", solution = the last turn".into(),
                Some(name) => format!(", solution = `{name}`"),
                None => String::new(),
            }
    }

    /// The columns of texts that are not used, in words for the user. Where the user names the question, verdicts and
    /// thoughts alone.
    pub(super) fn unused(&self, rows: &[Row], purpose: Purpose) -> String {
        let Some(first) = rows.first() else { return String::new() };
        let note = self.shown(purpose);
        let is_free =
            |name: &str| !["`", "."].iter().any(|end| note.contains(&format!("`{name}{end}")));
        let is_found = matches!(self.question, QuestionColumns::Found { .. });
        let is_judged = purpose == Purpose::Judge;
        let is_known = |name: &str| {
            SOLUTIONS.contains(&name) && (is_judged || self.learns(rows, name))
                || ANSWERS.contains(&name) && is_judged
        };
        let told = variables::note(rows, &self.question);
        let is_told = |name: &str| told.contains(&format!("`{name}`"));
        let names = || first.values.keys().map(String::as_str);
        let length =
            |name: &str| rows.iter().filter_map(|row| text_length(row.values.get(name)?)).max();
        let lengths: HashMap<&str, usize> =
            names().filter_map(|name| Some((name, length(name)?))).collect();
        let column = self.question.column().filter(|_| is_found).unwrap_or_default();
        let looked = rows.iter().take(LOOKED_AT);
        let looked: Vec<Asked<'_>> = looked.map(|row| (row, asked(row, column))).collect();
        let is_shown =
            |name: &str| looked.iter().all(|(row, asked)| shows(asked, row.values.get(name)));
        let mut texts: Vec<(usize, &str)> = names()
            .filter(|name| is_found && !is_known(name) && is_free(name) && !is_told(name))
            .filter_map(|name| Some((*lengths.get(name)?, name)))
            .filter(|(_, name)| !is_shown(name))
            .collect();
        texts.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        let mut said = listed("texts that are not used", texts.into_iter().map(|(_, name)| name));
        said += &self.unused_turns(rows, &looked, &|name| !is_known(name) && is_free(name));
        // The user who names the question may not know of its context.
        let is_context = |name: &str| CONTEXTS.contains(&name) || names::is_context(name);
        let is_hidden =
            |name: &&str| !is_found && is_context(name) && is_free(name) && is_filled(rows, name);
        if matches!(self.question, QuestionColumns::Named(_)) {
            said += &listed("contexts that are not shown", names().filter(is_hidden));
        }
        // What the template is told, and what a dataset notes of its rows, is named or is no question's.
        let is_beside = |name: &str| {
            let last = names::words(name).pop().unwrap_or_default();
            ["tools", "kwargs", "info", "metadata", "meta"].contains(&last.as_str())
        };
        let is_nested = |name: &&str| {
            let value = |row: &Row| row.values.get(*name).is_some_and(holds_more);
            is_found
                && !is_beside(name)
                && is_free(name)
                && !is_known(name)
                && !lengths.contains_key(name)
                && rows.iter().any(value)
        };
        said += &listed("objects and lists that are not used", names().filter(is_nested));
        let unread = names().filter(|name| is_found && is_free(name));
        said += &placeholder(unread, &looked);
        let is_other = |name: &&str| {
            let is_listed = lengths.contains_key(name) || is_nested(name) || is_told(name);
            is_found && is_free(name) && !is_known(name) && !is_listed && !is_shown(name)
        };
        let others = names().filter(is_other).filter(|name| may_be_asked(&looked, name));
        said += &listed("short columns that are not used", others);
        let is_worked = matches!(self.answer, AnswerColumn::Worked(_) | AnswerColumn::LastTurn);
        if is_worked && self.judgement.is_none() {
            let is_used = |name: &str| self.verdicts.iter().any(|verdict| verdict.column == name);
            let is_unread = |name: &&str| judgement::is_verdict(rows, name);
            let is_other = |name: &&str| {
                !VERDICTS.contains(name) && !is_used(name) && judgement::may_be_verdict(rows, name)
            };
            let unread = VERDICTS.into_iter().filter(is_unread).chain(names().filter(is_other));
            said += &listed("verdicts that are not used", unread);
        }
        let is_thought = |name: &&str| {
            rows.iter().any(|row| row.text(name).is_some_and(|text| !text.trim().is_empty()))
        };
        if purpose == Purpose::Imitate
            && let Some(thought) =
                THOUGHTS.into_iter().find(|name| is_thought(name) && is_free(name))
        {
            said += &format!(
                "; `{thought}` is not learned: to learn it, write it before the answer, between <think> and </think>"
            );
        }
        said
    }
}

impl Layout {
    /// Chats that end with another turn of the assistant than what `sft` learns, in words for the user.
    pub(super) fn unlearned_chats(&self, rows: &[Row], of: Purpose) -> String {
        let is_found = matches!(self.question, QuestionColumns::Found { .. });
        let used = [self.question.column(), self.answer.column()];
        let is_other = |row: &Row, name: &str| {
            let value = row.values.get(name).filter(|value| chat::ends_with_answer(value));
            let turn = value.and_then(|value| chat::messages(value).ok()?.pop());
            let learned = self.learned_text(row).unwrap_or_default();
            // Turns that are not asked are named otherwise.
            let asks = || asked(row, self.question.column().unwrap_or_default());
            unasked(row, name, asks).is_empty()
                && turn.is_some_and(|turn| !learned.contains(&one_spaced(&turn.content)))
        };
        let is_unlearned = |name: &&str| {
            !used.contains(&Some(*name))
                && rows.iter().take(LOOKED_AT).any(|row| is_other(row, name))
        };
        let is_asked = of == Purpose::Imitate && is_found;
        let chats = CONVERSATIONS.into_iter().filter(|_| is_asked).filter(is_unlearned);
        listed("chats that are not learned (--prompt-column learns one)", chats)
    }

    /// The worked text that is learned of a row, with one blank between its words.
    fn learned_text(&self, row: &Row) -> Option<String> {
        match &self.answer {
            AnswerColumn::Worked(column) => row.text(column).map(one_spaced),
            _ => self.text_beside(row).map(|(text, _)| one_spaced(&text)),
        }
    }

    /// Whether what is learned has the texts of a column.
    fn learns(&self, rows: &[Row], name: &str) -> bool {
        let has = |row: &Row, text: &str| {
            self.learned_text(row).is_some_and(|learned| learned.contains(&one_spaced(text)))
        };
        rows.iter().take(LOOKED_AT).all(|row| row.text(name).is_none_or(|text| has(row, text)))
    }

    /// System messages and turns of chats that are not read, in words for the user.
    fn unused_turns(
        &self,
        rows: &[Row],
        looked: &[Asked<'_>],
        is_other: &dyn Fn(&str) -> bool,
    ) -> String {
        let QuestionColumns::Found { question, system, .. } = &self.question else {
            return String::new();
        };
        let told = |row: &Row| system.as_deref().and_then(|name| system_of(row, name));
        let all = |(row, asked): &Asked<'_>| format!("{asked} {}", told(row).unwrap_or_default());
        let columns = || rows.first().into_iter().flat_map(|row| &row.values);
        let chats = columns().filter(|(name, _)| is_other(name)).filter_map(|(name, _)| {
            let lost = looked.iter().flat_map(|row| unasked(row.0, name, || all(row)));
            let roles: Vec<&str> = lost.collect::<BTreeSet<_>>().into_iter().collect();
            (!roles.is_empty()).then(|| format!("{name} ({})", roles.join(", ")))
        });
        let inner = columns().filter_map(|(name, value)| {
            let inner = value.as_object()?.keys().find(|inner| names::is_system(inner))?;
            Some(format!("{name}.{inner}"))
        });
        let is_untold = |row: &Asked<'_>, name: &str| {
            system_of(row.0, name).is_some_and(|text| !all(row).contains(&one_spaced(&text)))
        };
        let inner = inner.filter(|name| looked.iter().any(|row| is_untold(row, name)));
        let names: Vec<String> = chats.chain(inner).collect();
        let said = listed("turns that are not used", names.iter().map(String::as_str));
        // The chat's own system turn comes first.
        let is_hidden = |row: &&Row| {
            let own = |text: String| unasked(row, question, || one_spaced(&text));
            told(row).is_some_and(|text| own(text).contains(&"system"))
        };
        match (system, rows.iter().filter(is_hidden).count()) {
            (Some(system), hidden @ 1..) => format!(
                "{said}; `{system}` is not used in {hidden} of {} rows, whose chats have a system turn",
                rows.len()
            ),
            _ => said,
        }
    }
}

/// What is said of questions with the name of a column in braces, or with what MAWPS has for numbers.
fn placeholder<'a>(names: impl Iterator<Item = &'a str>, looked: &[Asked<'_>]) -> String {
    let signs = names.flat_map(|name| [format!("{{{name}}}"), format!("{{ {name} }}")]);
    let mut signs = signs.chain(NUMBERS.map(String::from));
    let found = signs.find(|sign| looked.iter().any(|(_, asked)| has_sign(asked, sign)));
    found.map_or(String::new(), |sign| {
        format!(
            "; the questions hold `{sign}` in place of a value: write them with --prompt-template"
        )
    })
}

/// Whether what is asked has the text or the number of a value already.
fn shows(asked: &str, value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) if text.len() > 3 => asked.contains(&one_spaced(text)),
        Some(value) => plain(value).is_some_and(|text| {
            asked.split(|c: char| !c.is_alphanumeric()).any(|word| word == text.trim())
        }),
    }
}

/// Whether a text has a placeholder, and no braces of LaTeX: `\\frac{a}{b}`.
fn has_sign(text: &str, sign: &str) -> bool {
    text.match_indices(sign).any(|(at, _)| {
        let before = text[..at].trim_end_matches('{').chars().next_back();
        before.is_none_or(|c| !c.is_alphabetic() && !matches!(c, '}' | ']' | '^' | '_' | '\\'))
    })
}

/// Whether a question may need the value of a column: another one in other rows, by a name that says nothing else.
fn may_be_asked(rows: &[Asked<'_>], name: &str) -> bool {
    let words = names::words(name);
    let is_beside = |word: &String| names::is_in(BESIDE, word);
    let values =
        || rows.iter().filter_map(|(row, _)| row.values.get(name)).filter(|it| !is_empty(it));
    let Some(first) = values().next() else { return false };
    let is_fraction = first.as_f64().is_some_and(|number| number.fract() != 0.0);
    let is_tolerance = words.iter().any(|word| names::is_in(TOLERANCES, word));
    let is_flag = first.is_boolean() || is_fraction && !is_tolerance || chat::is_chat(first);
    (right_choices::of_wrong(name).is_some() || !words.iter().any(is_beside))
        && !VERDICTS.contains(&name)
        && !is_flag
        && (rows.len() == 1 || values().count() < rows.len() || values().any(|it| it != first))
}

/// Columns behind what is said of them; nothing where there are none.
fn listed<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let shown = names[..names.len().min(MOST)].join(", ");
    match names.len().saturating_sub(MOST) {
        _ if names.is_empty() => String::new(),
        0 => format!("; {what}: {shown}"),
        more => format!("; {what}: {shown} and {more} more"),
    }
}

/// Whether an object or a list may say something of the question: it has texts of several words, or numbers.
fn holds_more(value: &Value) -> bool {
    let is_list = |value: &Value| match value {
        Value::Array(items) => items.len() > 1 || items.iter().any(holds_more),
        other => holds_more(other),
    };
    match value {
        Value::Array(_) if chat::is_chat(value) => false,
        Value::Array(items) => {
            items.len() > 1 && items.iter().all(Value::is_number) || items.iter().any(is_list)
        }
        Value::Object(fields) => {
            let is_text = |value: &Value| text_length(value).is_some() || holds_more(value);
            fields.values().any(is_text)
        }
        _ => false,
    }
}

/// The length of a text of several words, or of a list of texts; none of other values.
fn text_length(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => text.trim().contains(char::is_whitespace).then_some(text.len()),
        // A chat is the question in another form.
        Value::Array(_) if chat::is_chat(value) => None,
        Value::Array(items) => {
            // Once for each item: two calls a level would take 2^depth steps.
            let inner: Vec<Option<usize>> = items.iter().map(text_length).collect();
            let length =
                |(item, inner): (&Value, &Option<usize>)| item.as_str().map(str::len).or(*inner);
            let lengths: Vec<usize> = items.iter().zip(&inner).filter_map(length).collect();
            // A word alone in its list is a tag.
            let is_text = lengths.len() > 1 || inner.iter().any(Option::is_some);
            is_text.then_some(lengths.iter().sum()).filter(|sum| *sum > 0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_lists_are_measured_once() {
        let nested = (0..100).fold(Value::from("two words"), |inner, _| vec![inner].into());
        assert_eq!(text_length(&nested), Some(9));
    }
}
