//! Whether a marked answer stands: its own sentence, or what follows, may give it to somebody else, to another case,
//! or take it back.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::super::super::tail;
use super::super::hedges::{denies, expression, is_changed, is_denied};
use super::super::scan::{head, holds, is_one_of};
use super::super::text::is_choice;
use super::super::{Outcome, texts};
use super::{Found, Rule, by_marks, is_value, lenient};

/// Longest part of a sentence, and of the text behind a mark, that is looked at.
const MAX_SENTENCE: usize = 240;
const MAX_BEHIND: usize = 4000;

/// Somebody else says what follows: "Tom claims that", "according to the textbook"; of what somebody "gets" or "writes",
/// and of what is in a book, only a contrast behind it says that it is not the answer.
const ATTRIBUTED: &str = "(?:[Aa]ccording to (?:\\w+ ){0,3}?(?:PEOPLE)|\
    \\b(PEOPLE|[A-Z]\\w+|[Hh]e|[Ss]he|[Tt]hey)(?: app| key| manual)? (?:\\w+ly )?(?:would |will |might )?(?:say|says|\
    said|claim(?:s|ed)?|thinks?|thought|\
    believe[sd]?|insist(?:s|ed)?|suggest(?:s|ed)?|told (?:me|us)|guess(?:es|ed)?))END";
const OBTAINED: &str = "(?:\\b(?:PEOPLE|[A-Z]\\w+|[Hh]e|[Ss]he|[Tt]hey)(?: app)? (?:would |will |often )?(?:gets?|got|obtain(?:s|ed)?|printed|gave|gives?|writes?|wrote|answer(?:s|ed)?)|\
    \\b(?:PEOPLE)(?:['’]s (?:\\w+ )?(?:answer|result|solution|value))? (?:is|was))END";
/// From there to a value.
const UP_TO_VALUE: &str = "(?: that|:|,)?(?:[ \"“$*]*(?:(?:it|the|there|his|her|their)(?: \\w+){0,3}[ :]*)?| *[\"“]The(?: \\w+){1,3} )[ \"“$*]*$";
const PEOPLE: &str = "students?|friend|teacher|classmate|colleague|brother|sister|somebody|someone|people|book|textbook|key|manual|\
    calculator|internet|website|forum|model|assistant|him|her|them";
/// Subjects of such a verb that are nobody.
const NOBODY: &str = "We|It|This|That|Theorem|Lemma|Formula|Problem|Question|Which|What|So|Thus|Hence|Then|One|You|Now|And";
/// Agrees with what somebody else says.
const AGREED: &str =
    "^[^.\\n]{0,40}\\b(?:agree|confirm|indeed|is (?:right|correct)|are (?:right|correct))";

/// An instruction that shows the form of an answer, or a form in quotation marks.
const SHOWN: &str = "\\b(?:please|write|put|end|finish|conclude|state|give|type|respond|reply|instructions?|format|prompt)\\b\
    .*\\b(?:such as|like|in the form|format|e\\.g\\.|for example|with (?:a|the|this) (?:line|words|\
    sentence))[ :,]*(?:(?:the |final |my )*answer(?: is|:)? ?)?[$*]*$|\
    \\b(?:example|such as|like|prompt|instructions?|task|question|problem|format|form|ending|lines?|words?|sentence|phrase|template|with)\\b[^\"“”]{0,24}[ :][\"“'`]+\
    (?:(?:the |final |my )*answer(?: is|:)? ?)?[*$]*$";

/// Supposes another case, and what says that it is not the case.
const SUPPOSED: &str = "\\b(?:if|had|were|without|only if|assum(?:ing|ption)|suppos(?:e|ing)|would (?:expect|think|guess|be|have been|get|give))\\b";
const CONTRARY: &str = "(?:^|[.;,:!] *|\\n+)[)}$ *]*(?:but|however|yet|in (?:fact|reality|our case|this case)|unfortunately|here(?:, however)?),? [^.\\n]*";
/// Counterfactual: "the answer would be".
const WOULD: &str = "\\b(?:would|were|had)\\b";
/// Says that another is wrong.
const MISTAKEN: &str = "\\b(?:but|however|wrong|incorrect|mistaken?|cannot be|can['’]t be|misprint|overlook(?:s|ed)?|forgets?|forgot|yet)\\b";

/// Takes back what stands before it.
const REVOKING: &str = "scratch (?:that|this)|strike (?:that|this)|disregard|ignore (?:the above|this|that|my)|take (?:that|it) back|\\b(?:withdraw|retract)\\b|\
    \\b(?:i|we)(?:['’]ve)?(?: have)?(?: just| now| also)* (?:ma[dk]e|found|find|spot(?:ted)?|notice|see) (?:an?|the|\
    my|some)(?: \\w+)? (?:mistake|error|slip)|\
    \\b(?:i|we)(?: have)? (?:forgot|miscounted|misread|misunderstood|miscalculated|misapplied|overlooked|left out|\
    double[- ]counted|mixed up|used the wrong|should have)|\
    \\boops|(?:^|[.!?\\n] *)(?:correction|my mistake|my bad|wait,? no|hm+,? no|no,? wait)|\\b(?:a|an|the) (?:sign|\
    arithmetic|calculation) (?:error|slip|mistake)|\
    \\b(?:counts?|counted) (?:\\w+ ){1,4}twice|is (?:a|only a|just a) (?:guess|placeholder)";
/// As the next that is said of the value before it.
const REVOKING_IT: &str = "^[^0-9]*?(?:^|[.!?,;:\\n] *)(?:(?:wait|hm+|no|but|however|sorry|oh|actually|and)[,.!]? )*(?:that|this|it)(?: (?:answer|result|value|number|solution|one))?\
    (?:(?:['’]s| is| was| seems| must be)(?: all| clearly)? (?:wrong|incorrect|not (?:right|correct|(?:the|a|\
    an) (?:\\w+ )?(?:answer|solution))|a mistake|mistaken|too (?:large|small|big|low|high)|\
    impossible|an error)| can(?:not|['’]t) be(?: right| correct)?| violates| fails| does(?: not|n['’]t) (?:work|\
    satisfy|fit|hold)|\
    (?: contradicts [^.]*,? so it cannot be right))(?:[^a-z ]|$| (?:because|since|as|so|and|the|all)\\b)";
/// Begins a sentence that may do so.
const DOUBTING: &str = "(?:^|[.!?)}$\\n] *|[-–—] *)(?:wait|hm+|hold on|actually|sorry|no,|i(?:['’]m| am) sorry|on second thought|\
    i (?:now )?reali[sz]e|i see now|let me (?:correct|fix|redo|reconsider))\\b|[,;] *(?:no,? )?wait\\b|(?:^|\
    [.!?\\n] *)(?:CONTRAST)\\b|\
    \\b(?:the|a) (?:correct|right|true|actual|proper) (?:\\w+ ){0,3}(?:is|was|are|should be|would be)";
const CONTRASTING: &str = "but|however|yet|unfortunately|instead";
/// Says that it stands all the same.
const AFFIRMING: &str = "\\bstands?\\b|after all|\\bis (?:indeed |also |still )?(?:correct|right|fine|ok)\\b|(?:was|were) (?:correct|right|fine)|\\bconfirm|\\bgood\\b|\
    \\bgreat\\b|✓|(?:^|[.!?\\n] *)(?:yes|right|correct|indeed)\\b|match|\\bas (?:required|wanted|desired|expected|\
    needed)|\\bholds?\\b|consistent|checks out|\
    verified|found none|\\bno (?:error|mistake)|\\bnone\\b|works";
/// Says what the result is.
const ASSERTING: &str = "\\b(?:answer|value|result|total|number|probability|count|sum|product|area|volume|length|perimeter|remainder|solution|ratio|price|age|it|there)s?\
    (?: [\\w']+){0,6}? (?:is|are|becomes?|be|equals?|gives?)\\b|\\b(?:so|thus|hence|therefore|giving|leaving|we (?:get|pay|have))\\b";

/// What all of these have in them, but for the small words.
static STEM: LazyLock<Regex> = LazyLock::new(|| {
    const STEMS: &str = "would|were|had |claim|say|said|accord|told|thinks|thought|belie|insist|suggest|writ|wrote|such as|like|in the form|\
        format|assum|suppos|print| got | gets?| gave|answers |answered|guess|obtain| with|if |without|key|book|\
        student|friend|example|prompt|\
        question|problem|line";
    Regex::new(&format!("(?i-u:{STEMS})")).expect("the table is of expressions")
});
static BY_OTHERS: LazyLock<Regex> = LazyLock::new(|| of_people(ATTRIBUTED));
static OF_OTHERS: LazyLock<Regex> = LazyLock::new(|| of_people(OBTAINED));
static MISTAKES: LazyLock<Regex> = LazyLock::new(|| expression(MISTAKEN));
static AGREEMENT: LazyLock<Regex> = LazyLock::new(|| expression(AGREED));
static FORM: LazyLock<Regex> = LazyLock::new(|| expression(SHOWN));
static SUPPOSITION: LazyLock<Regex> = LazyLock::new(|| expression(SUPPOSED));
static COUNTERFACTUAL: LazyLock<Regex> = LazyLock::new(|| expression(WOULD));
static CONTRARIES: LazyLock<Regex> = LazyLock::new(|| expression(CONTRARY));
static REVOCATION: LazyLock<Regex> = LazyLock::new(|| expression(REVOKING));
static REVOCATION_OF_IT: LazyLock<Regex> = LazyLock::new(|| expression(REVOKING_IT));
static DOUBT: LazyLock<Regex> =
    LazyLock::new(|| expression(&DOUBTING.replace("CONTRAST", CONTRASTING)));
/// Behind `####` a contrast may begin another problem.
static OPEN_DOUBT: LazyLock<Regex> =
    LazyLock::new(|| expression(&DOUBTING.replace("CONTRAST", "\\b\\B")));
static AFFIRMATION: LazyLock<Regex> = LazyLock::new(|| expression(AFFIRMING));
static ASSERTION: LazyLock<Regex> = LazyLock::new(|| expression(ASSERTING));

/// Whether the sentence of a mark gives its value to somebody else ("Tom says the answer is 7"), to another case ("if x
/// were 3, it would be 7, but x is 2"), or shows it as a form ("end with a line such as").
fn is_foreign(before: &str, after: &str) -> bool {
    let near = tail(before, MAX_SENTENCE);
    let bytes = near.as_bytes();
    let is_end = |at: usize| match bytes[at] {
        b'\n' => true,
        b'.' | b'!' | b'?' => matches!(bytes.get(at + 1), Some(b' ' | b'"')),
        _ => false,
    };
    let sentence = &near[(0..bytes.len()).rev().find(|at| is_end(*at)).map_or(0, |at| at + 1)..];
    if !STEM.is_match(sentence) {
        return false;
    }
    let behind = head(after, MAX_SENTENCE);
    let is_said = || {
        let found = BY_OTHERS.captures(sentence);
        let is_somebody = |found: regex::Captures<'_>| {
            found.get(1).is_none_or(|subject| !is_one_of(subject.as_str(), NOBODY))
        };
        found.is_some_and(is_somebody) && !AGREEMENT.is_match(behind)
    };
    let is_supposed = || {
        let contrary = CONTRARIES.find(behind).filter(|_| SUPPOSITION.is_match(sentence));
        contrary.is_some_and(|found| {
            let text = found.as_str();
            let is_near = !behind[..found.start()].contains(". ");
            is_near && (COUNTERFACTUAL.is_match(sentence) || holds(text, " not |n't|=| so "))
        })
    };
    is_said()
        || OF_OTHERS.is_match(sentence) && MISTAKES.is_match(behind)
        || FORM.is_match(sentence)
        || is_supposed()
}

/// A table of what people say, as one expression; the case of letters tells names.
fn of_people(table: &str) -> Regex {
    let table = table.replace("END", UP_TO_VALUE).replace("PEOPLE", PEOPLE);
    let table = table.replace("\\b", "(?-u:\\b)").replace("\\w", "[A-Za-z']");
    Regex::new(&table).expect("the table is of expressions")
}

/// Whether a text says that what stands before it is wrong, or may be.
pub(in super::super) fn corrects(text: &str) -> bool {
    !text.is_empty() && (REVOCATION.is_match(text) || OPEN_DOUBT.is_match(text))
}

/// Whether the words around a value, or those of its sentence, say that it is not the answer.
pub(super) fn is_unstated(before: &str, after: &str) -> bool {
    // "infinitely many, 3 of which are below 100"
    let is_part =
        || after.starts_with(" of ") && holds(tail(before, MAX_SENTENCE), "nfinitely many");
    is_denied(before, after) || is_changed(before) || is_part() || is_foreign(before, after)
}

/// What follows a mark from where its value is taken back: that is said, or doubted before another value is asserted.
pub(super) fn withdrawn<'a>(after: &'a str, found: &Found<'_>) -> Option<&'a str> {
    let behind = head(after, MAX_BEHIND);
    if !behind.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    let of_it = REVOCATION_OF_IT.find(behind).map(|found| found.start());
    let restated = |at: usize| {
        let sentence = behind[at..].trim_start_matches(|c: char| !c.is_alphabetic());
        let rest =
            sentence.split_once(' ').map_or("", |(_, rest)| rest).trim_start_matches(['$', '*']);
        rest.strip_prefix(&*found.text).is_some_and(denies)
    };
    let contrary = DOUBT.find(behind).map(|found| found.start()).filter(|at| restated(*at));
    let of_it = of_it.or(contrary);
    let revoked = REVOCATION.find(behind).map(|found| found.start()).into_iter().chain(of_it).min();
    let doubt = if found.rule == Rule::Hashes { &OPEN_DOUBT } else { &DOUBT };
    let doubted = doubt.find(behind).map(|found| found.start()).filter(|at| {
        let sentence = behind[*at..]
            .trim_start_matches(|c: char| !c.is_alphanumeric())
            .split_inclusive(['.', '?', '\n'])
            .next()
            .unwrap_or_default();
        let asks = sentence.ends_with('?') && holds(sentence, "ut |owever");
        !asks && !holds(sentence, " if ")
    });
    let at = revoked.into_iter().chain(doubted).min()?;
    let rest = &behind[at..];
    let last = || {
        let end = rest.trim_end().trim_end_matches(['.', '!']);
        let line = end.rsplit('\n').next().unwrap_or(end);
        line.rsplit(". ").next().unwrap_or(line)
    };
    let stated = || {
        let is_said = ASSERTION.is_match(last()) && !COUNTERFACTUAL.is_match(last());
        let stands = AFFIRMATION.is_match(last());
        let found = if is_said && !stands { lenient::answer(last()) } else { None };
        found.map(|(text, _)| text)
    };
    let marked = by_marks(rest).map(|found| found.text);
    let is_answer = |text: &Cow<'_, str>| is_value(text) || is_choice(text);
    let other = marked.or_else(|| stated().map(Cow::Borrowed)).filter(is_answer);
    let is_other = match other {
        Some(other) => texts::compared(&found.text, &other).0 != Outcome::Correct,
        None => revoked.is_some() && !AFFIRMATION.is_match(rest),
    };
    is_other.then_some(rest)
}
