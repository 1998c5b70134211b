//! Words that deny, doubt or bound the value beside them: one table for all rules that read sentences.

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

/// Anywhere before a value in its clause: whoever says so does not state it.
const DOUBTS: &str = "rul(?:e|ed) out|reject|can(?:not|['’]?t) (?:possibly |ever )?(?:be|equal)|\
    do(?:n['’]?t| not) (?:think|believe)|doubt|unlikely|hardly|(?:false|untrue|incorrect|wrong|not true) (?:that|to)|\
    mistake|not the case|no longer|any(?:thing|one) but|every(?:thing|one) (?:except|but)|differ(?:s|ent) from|\
    (?:might|may|could|(?:one|you|they|many|some|people|he|she) would) (?:think|guess|say|believe|assume)|\
    would(?:n['’]?t| not) say|some say|nobody|no one|refuse|none of|not sure|unsure|impossible that|not convinced";

/// Behind a value, in other languages.
const DENIED: &str = "是错|是錯|错误|錯誤|不正确|不正確|不对|不對";

static DENIAL: LazyLock<Regex> =
    LazyLock::new(|| expression(&format!("(?:^|[^a-z0-9])(?:{DENIALS})$")));
static DOUBT: LazyLock<Regex> = LazyLock::new(|| expression(DOUBTS));

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
    const ENDS: &str = "ntreolfqsNTREOS=≠éèе是非于选";
    let may_deny = near.ends_with(|c| ENDS.contains(c));
    may_deny && DENIAL.is_match(near) || is_doubted(near) || is_taken_back(after)
}

/// Whether the clause that a text ends with doubts what follows: "I don't think it is".
pub(super) fn is_doubted(before: &str) -> bool {
    let near = super::super::tail(before, 80);
    let clause = near.rsplit(['.', '\n', ';', ',', '?', '!', ':']).next().unwrap_or(near);
    let links = [" but ", " so ", " hence ", " therefore "];
    // What is said behind "but" is stated.
    let link = |end: usize| links.iter().any(|link| clause[end..].contains(link));
    clause.len() >= 6 && DOUBT.find_iter(clause).last().is_some_and(|found| !link(found.end()))
}

/// Whether the words right behind a value deny it.
fn is_taken_back(after: &str) -> bool {
    let after = after.trim_start_matches(['*', '$', ')', '}', '"', '\\']);
    match after.bytes().next() {
        Some(b' ') => denies(after),
        Some(b'?') => {
            let next = after[1..].trim_start().to_lowercase();
            ["no", "not", "wrong", "that is", "that's", "incorrect", "impossible"]
                .iter()
                .any(|begin| next.starts_with(begin))
        }
        Some(byte) if !byte.is_ascii() => DENIED.split('|').any(|word| after.starts_with(word)),
        _ => false,
    }
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
    const FALSE: [&str; 11] = [
        "extraneous",
        "not",
        "wrong",
        "incorrect",
        "false",
        "eliminated",
        "excluded",
        "ruled",
        "impossible",
        "too",
        "my",
    ];
    const ALONE: [&str; 10] = [
        "isn't",
        "cannot",
        "can't",
        "wasn't",
        "doesn't",
        "eliminated",
        "wrong",
        "fails",
        "错误",
        "incorrect",
    ];
    ALONE.contains(&verb) || VERBS.contains(&verb) && FALSE.contains(&next)
}

/// Whether the words before a value make it a bound: "less than 7".
pub(super) fn is_bound(before: &str) -> bool {
    ["than", "at least", "at most"].iter().any(|word| ends_with(before, word))
}

/// Whether `text` ends with `suffix`, whatever its case.
pub(super) fn ends_with(text: &str, suffix: &str) -> bool {
    let start = text.len().checked_sub(suffix.len());
    start.and_then(|start| text.get(start..)).is_some_and(|tail| tail.eq_ignore_ascii_case(suffix))
}

/// Words behind "or" that say the same value again: "or about 1,300".
pub(super) const RESTATED: [&str; 7] =
    ["approximately", "about", "roughly", "equivalently", "simply", "in", "so"];

/// Words that begin the offer of another value: "7, maybe 42".
const OFFERS: [&str; 17] = [
    "or",
    "maybe",
    "perhaps",
    "possibly",
    "alternatively",
    "unless",
    "versus",
    "vs",
    "also",
    "could",
    "might",
    "either",
    "if not",
    "not sure",
    "as well as",
    "along with",
    "followed by",
];

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
const REASONS: [&str; 13] = [
    " because ",
    " since ",
    ", as ",
    ", which ",
    ", not ",
    " and not ",
    ", whereas ",
    ", although ",
    " rather than ",
    " instead of ",
    ", given ",
    ", unlike ",
    ", while ",
];

/// A text without the reason behind it: Evelyn of "Evelyn, because it fits".
pub(super) fn without_reason(text: &str) -> &str {
    let cut = REASONS.iter().filter_map(|reason| text.find(reason)).min();
    cut.map_or(text, |at| text[..at].trim_end_matches([',', ' ', ';', '—', '-']))
}
