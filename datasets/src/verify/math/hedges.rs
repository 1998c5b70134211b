//! Words that deny, doubt or bound the value beside them: one table for all rules that read sentences.

use super::scan::{ends_with, entries, is_one_of, past};
use std::sync::LazyLock;

use regex::Regex;

/// Leaves open what its sentence says.
pub(super) const SENTENCE: u8 = 1;
/// Makes a value behind it none.
pub(super) const VALUE: u8 = 2;
/// Is part of no unit.
pub(super) const UNIT: u8 = 4;

/// Single words, by what they do.
const WORDS: [(u8, &[&str]); 6] = [
    (
        SENTENCE | VALUE | UNIT,
        &["not", "cannot", "isn't", "maybe", "perhaps", "unclear", "unknown", "or"],
    ),
    (SENTENCE | VALUE, &["neither", "either", "whether", "never", "unlikely", "possibly"]),
    (SENTENCE, &["if", "may", "might", "could", "unless", "nor", "can't", "nobody"]),
    (VALUE, &["hardly", "but", "except", "anything", "than", "between", "least", "most"]),
    (VALUE | UNIT, &["false"]),
    (
        UNIT,
        &[
            "never",
            "can't",
            "wrong",
            "incorrect",
            "impossible",
            "fails",
            "is",
            "are",
            "was",
            "were",
        ],
    ),
];

/// Whether a text has a word with one of those effects.
pub(super) fn has(text: &str, effects: u8) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.any(|word| {
        WORDS.iter().any(|(effect, known)| {
            effect & effects != 0 && known.iter().any(|known| word.eq_ignore_ascii_case(known))
        })
    })
}

/// Right before a value: it is not the answer.
const DENIALS: &str = "not|isn['’]?t|never|except|(?:cannot|can['’]?t|couldn['’]?t|not) be|not equal(?: to)?|neither|\
    rather than|instead of|other than|\\\\neq?|\\\\not=|≠|no es|não é|non è|nicht|n['’]est pas|не|不是|并非|不等于|不选";

/// Whoever says so states nothing of what its clause says behind it.
const DOUBTS: &str = "do(?:n['’]?t| not) (?:think|believe)|\
    (?:i(?:['’]d)?|we|would|really|highly|seriously|strongly) doubt|doubtful (?:that|if|whether)|unlikely (?:that|to)|\
    (?:false|untrue|incorrect|wrong|not true) (?:that|to (?:say|think|believe|assume))|mistake to|not the case|\
    (?:one|you|they|many|some|people|he|she) (?:might|may|could|would) (?:think|guess|believe|assume)|\
    might say|(?:one|they|many|some|people|he|she) would say|would(?:n['’]?t| not) say|some say|\
    (?:nobody|no one) (?:would )?(?:think|say|believe)s?|\
    not sure|unsure|impossible that|not convinced";

/// Right before a value or words that only name it: it is not stated.
const REFUSED: &str = "(?:i(?:['’]d)?|we|must|can|to|they|be) (?:\\w+ly )?\
    (?:rule[ds]? out|reject(?:ed)?|refused?(?: to)?)|\
    can(?:not|['’]?t) (?:possibly |ever )?(?:be|equal)|unlikely|hardly|no longer|any(?:thing|one) but|\
    every(?:thing|one) (?:except|but)|differ(?:s|ent) from|none of";

/// Words between a refusal and the value that is refused.
const NAMES: &str = "that|it|is|to|be|say|the|an?|final|correct|right|answer|value|option|choice|equals?|of|total|\
    result|solution|number|sum|[a-z]";

/// Behind a value, in other languages.
const DENIED: &str = "是错|是錯|错误|錯誤|不正确|不正確|不对|不對";

static DENIAL: LazyLock<Regex> =
    LazyLock::new(|| expression(&format!("(?:^|[^a-z0-9])(?:{DENIALS})$")));
/// What all doubts and refusals have in them.
const STEMS: &str = "think|believe|doubt|unlikely|wrong|true|false|correct|mistake|not the case|guess|assume|say|sure|\
    impossible|convinced|rule|reject|refuse|t (?:possibly |ever )?(?:be|equal)|hardly|longer|but|except|differ|none of";

static STEM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!("(?i-u:{STEMS})")).expect("the table is of expressions"));
static DOUBT: LazyLock<Regex> = LazyLock::new(|| expression(&format!("\\b(?:{DOUBTS})\\b")));
static REFUSAL: LazyLock<Regex> =
    LazyLock::new(|| expression(&format!("\\b(?:{REFUSED})(?:[^a-z0-9]+(?:(?:{NAMES})\\b)?)*$")));

/// A table as one expression, whatever the case of its letters.
fn expression(table: &str) -> Regex {
    Regex::new(&format!("(?i:{table})")).expect("the table is of expressions")
}

/// Whether the words around a value deny it: "it cannot be 7", "7 is wrong", "I doubt it is 7", "7? No".
pub(super) fn is_denied(before: &str, after: &str) -> bool {
    if before.is_empty() && after.is_empty() {
        return false;
    }
    let before = before.trim_end_matches("\\boxed{");
    let before = before.trim_end_matches([' ', '*', '$', '(', '"', '\\', '{', '}']);
    let near = super::super::tail(before, 80);
    // The last letters of all denials.
    const ENDS: &str = "ntreolfqs=≠éèе是非于选";
    let last = near.chars().next_back().unwrap_or(' ');
    last.to_lowercase().any(|c| ENDS.contains(c)) && DENIAL.is_match(near)
        || is_doubted(near)
        || is_taken_back(after)
        || is_asked(near, after)
}

/// Whether a value is in a question that is not answered with yes: "Is it 7?"
fn is_asked(before: &str, after: &str) -> bool {
    let rest = after.trim_start_matches(['*', '$', ')', '}', '"', '\\', ' ']);
    let asks = ["is ", "are ", "could ", "would ", "can "];
    let question = || {
        before
            .rsplit(['.', '\n', '?', '!', ','])
            .next()
            .unwrap_or(before)
            .trim_start()
            .to_lowercase()
    };
    rest.starts_with('?')
        && asks.iter().any(|begin| question().starts_with(begin))
        && !rest[1..].trim_start().to_lowercase().starts_with("yes")
}

/// Whether the clause that a text ends with doubts what follows: "I don't think it is".
pub(super) fn is_doubted(before: &str) -> bool {
    let near = super::super::tail(before, 80).trim_end_matches([':', ' ', '*', '$', '\\', '(']);
    let clause = near.rsplit(['.', '\n', ';', ',', '?', '!', ':']).next().unwrap_or(near);
    // What is said behind a link is stated.
    let links = [
        " but ",
        " so ",
        " hence ",
        " therefore ",
        " and ",
        " then ",
        " thus ",
        " gives ",
        " leaving ",
        " we get ",
        " we have ",
    ];
    let link = |end: usize| links.iter().any(|link| clause[end..].contains(link));
    clause.len() >= 6
        && STEM.is_match(clause)
        // "the number that it cannot be is 7"
        && (REFUSAL.find(clause).is_some_and(|found| !found.as_str().contains(" be is "))
            || DOUBT.find_iter(clause).last().is_some_and(|found| !link(found.end())))
}

/// Whether the words right behind a value deny it.
fn is_taken_back(after: &str) -> bool {
    let after = after.trim_start_matches(['*', '$', ')', '}', '"', '\\']);
    match after.bytes().next() {
        Some(b' ') => denies(after) || after.starts_with(" -") && is_revoked(after),
        Some(b'?') => {
            let next = after[1..].trim_start().chars().take(40).collect::<String>().to_lowercase();
            let next = past(&next, "that is |that's |it is ").unwrap_or(&next);
            let word = next.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(next);
            is_one_of(word, "no|nope|not|wrong|incorrect|impossible|false|too")
        }
        Some(b',' | b';') => is_revoked(after),
        Some(byte) if !byte.is_ascii() => DENIED.split('|').any(|word| after.starts_with(word)),
        _ => false,
    }
}

/// Whether a remark takes back the value before it: ", which is wrong", "; no, 9", " - scratch that".
fn is_revoked(remark: &str) -> bool {
    let remark = remark.trim_start_matches([',', ';', ' ', '-']).to_lowercase();
    let revoking = [
        "which is wrong",
        "which is incorrect",
        "which is false",
        "which is not correct",
        "which is not right",
        "which is impossible",
        "which can't be",
        "which cannot be",
        "no,",
        "scratch that",
    ];
    revoking.iter().any(|begin| remark.starts_with(begin))
}

/// Whether what stands before is denied by the words behind it: `is wrong`, `is not correct`, `cannot be it`.
pub(super) fn denies(rest: &str) -> bool {
    let end = rest.char_indices().nth(60).map_or(rest.len(), |(at, _)| at);
    let rest = rest[..end].trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let mut words = rest.split(|c: char| !c.is_alphanumeric() && c != '\'');
    let verb = words.next().unwrap_or_default();
    let next = words.find(|word| !matches!(*word, "the" | "a" | "an" | "be")).unwrap_or_default();
    const VERBS: [&str; 12] = [
        "is", "was", "are", "has", "can", "must", "cannot", "does", "would", "should", "could",
        "were",
    ];
    const FALSE: [&str; 11] =
        entries("extraneous|not|wrong|incorrect|false|eliminated|excluded|ruled|impossible|too|my");
    const ALONE: [&str; 10] =
        entries("isn't|cannot|can't|wasn't|doesn't|eliminated|wrong|fails|错误|incorrect");
    ALONE.contains(&verb) || VERBS.contains(&verb) && FALSE.contains(&next)
}

/// Whether the words before a value make it a bound: "less than 7".
pub(super) fn is_bound(before: &str) -> bool {
    ["than", "at least", "at most"].iter().any(|word| ends_with(before, word))
}

/// Words behind "or" that say the same value again: "or about 1,300".
pub(super) const RESTATED: [&str; 7] =
    ["approximately", "about", "roughly", "equivalently", "simply", "in", "so"];

/// Words that begin the offer of another value: "7, maybe 42".
const OFFERS: [&str; 17] = entries(
    "or|maybe|perhaps|possibly|alternatively|unless|versus|vs|also|could|might|either|if not|not sure|as well as|\
    along with|followed by",
);

/// Whether a remark offers another value: "or 42", "but it could be 42", "if x > 0, otherwise 42".
pub(super) fn offers(remark: &str) -> bool {
    let words = remark.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let words = words.strip_prefix("but ").unwrap_or(&words);
    let words = words.strip_prefix("it ").unwrap_or(words);
    let is_offer = OFFERS.iter().any(|offer| {
        words
            .strip_prefix(offer)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
    });
    let mut each = words.split(|c: char| !c.is_alphanumeric());
    let has_other_case = each.any(|word| matches!(word, "otherwise" | "else"));
    let is_same = words
        .strip_prefix("or ")
        .is_some_and(|rest| RESTATED.iter().any(|word| rest.starts_with(word)));
    let has_value = words.contains(|c: char| c.is_ascii_digit() || c == '$' || c == '\\');
    has_value && !is_same && (is_offer || has_other_case)
}

/// What begins a reason or contrast behind an answer.
const REASONS: [&str; 13] = entries(
    " because | since |, as |, which |, not | and not |, whereas |, although | rather than | instead of |\
    , given |, unlike |, while ",
);

/// A text without the reason behind it: Evelyn of "Evelyn, because it fits".
pub(super) fn without_reason(text: &str) -> &str {
    let cut = REASONS.iter().filter_map(|reason| text.find(reason)).min();
    let cut = cut.filter(|at| !is_revoked(&text[*at..]));
    cut.map_or(text, |at| text[..at].trim_end_matches([',', ' ', ';', '—', '-']))
}
