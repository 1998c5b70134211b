//! What a text has in it that the tables of expressions may match: beginnings of words, looked for once, so that most
//! texts need no expression.

use std::sync::LazyLock;

use regex::bytes::RegexSet;

/// Deny or bound what follows, beside those of other scripts.
pub(super) const DENIES: u16 = 1 << 0;
/// Doubt what a clause says.
pub(super) const DOUBTS: u16 = 1 << 1;
/// Suppose a case.
pub(super) const SUPPOSES: u16 = 1 << 2;
/// Make the value behind them a part of what is meant.
pub(super) const CHANGES: u16 = 1 << 4;
/// Somebody says something.
pub(super) const SAYS: u16 = 1 << 5;
/// Books and keys.
pub(super) const LISTS: u16 = 1 << 6;
/// Premises.
pub(super) const ASSUMES: u16 = 1 << 7;
/// Mistakes.
pub(super) const ERRS: u16 = 1 << 8;
/// The form of an answer, and another case.
pub(super) const SHOWS: u16 = 1 << 9;
/// Take back what stands before them.
pub(super) const WITHDRAWS: u16 = 1 << 10;
/// The same of the value that they speak of.
pub(super) const FAULTS: u16 = 1 << 11;

/// Letters beyond ASCII may do so as well.
const ABROAD: u16 = DENIES | DOUBTS | SUPPOSES | CHANGES | LISTS | ASSUMES | SHOWS;

/// Beginnings of words that may do so.
const STEMS: [(u16, &str); 11] = [
    (
        DENIES,
        "possible|not|no|never|neither|rather|instead|other|any|fail|neq|isn|wasn|don|doesn|didn|hasn|can|couldn|\
     nicht|statt|anst|lieu|lugar|vez|invece|plaats|zamiast|opposed|pas|kein|nie|nao|geen|bukan|tidak|inte|\
     ikke|andere|wrong|incorrect|false|naive|tempt|first|old|initial|prev|orig|earl|if|by no|in no|under|jam|\
     nunca|ne|jest|si|el es|than|between|least|most|below|above|over|up to|beyond|exceed|short|shy|entre|\
     zwischen|tussen|antara|plus|moins|menos|menor|mayor|como|sumo|almeno|di|al|massimo|mais|maior|pelo|mehr|\
     weniger|hoogst|mindest|minst|minder|meer|lebih|kurang|paling|setid|angalau|zaidi|najm|najw|co |en|fazla|\
     sup|inf|gr|kl|tra|fra|au|at|upper|lower|bound",
    ),
    (
        DOUBTS,
        "do|did|think|believe|doubt|unlikely|wrong|untrue|false|incorrect|mistake|not|guess|say|sure|unsure|trap|\
     tempt|erron|impossible|convinced|nicht|falsch|falso|faux|pas vrai|ne c|ne p|niet|nie|bezw|doute|dudo|dubito|\
     duvido|tidak|onj|rule|reject|refuse|can|could|must|should|may|might|would|hardly|no|any|every|differ|exclu|discard|elimin|first|initial|orig|at first|rumo|alleged|claimed|said|some",
    ),
    (SUPPOSES, "if|when|for|assuming"),
    (
        CHANGES,
        "twice|half|double|triple|thrice|squar|cube|root|near|far|third|quarter|recip|oppos|negat|multipl|minus|\
     divi|halv|doubl|add|subtr|tak|than|times|plus|of the|of this|of our|of my|answer",
    ),
    (
        SAYS,
        "claim|say|said|accord|told|think|thought|belie|insist|suggest|writ|wrote|guess|goes|has it|shout|report|\
     rumo|alleged|state|end|read|repl|answers|answered|conclud|text",
    ),
    (
        LISTS,
        "text|answer k|answer s|solution|soluc|back of|end of|web|internet|online|forum|manuel|corrig|libro|gab|\
     lehr|im|buch|podr",
    ),
    (
        ASSUMES,
        "suppose|assume|imagine|pretend|reference|gold|ground|if the|if my|unless|whether|must|have to|need to|\
         si l|wenn|falls|ob d|se a|se l|jika",
    ),
    (ERRS, "but|however|wrong|incorrect|mistake|can|misprint|overlook|forg|yet"),
    (
        SHOWS,
        "such as|like|as in|in this way|as follows|in the form|format|for example|with a |with the |with this|\
     look|if|had|were|without|only if|assum|suppos|would",
    ),
    (
        WITHDRAWS,
        "scratch|strike|disregard|ignore|take|forg|withdraw|retract|mistake|error|slip|mis|overlook|left out|\
     double|now|mixed|used|should|oops|kid|just k|correction|corrected|my|wait|hm|no|sign|arith|calc|count|\
     guess|placeholder|\
     wrong|incorrect|not|too|imposs|an err|edit|update|erratum|meant|diff|other|can|viol|fail|does|contra|\
     hold|actually|sorry|on second|reali|see now|let|but|however|yet|unfort|instead|must|have to|has to|need|\
     question|problem|want|adding|correct |right |true |actual|proper |nein|non|over|under|round|\
     final|answer|verif|check:|add|rev|apolog|or |make that|mean|closer|looking|reading|re-read|missed|swapp|typo|off|\
     on closer|on further|on reflection|see ",
    ),
    (FAULTS, "wrong|incorrect|not|mistake|too|imposs|an error|can|viol|fail|does|contra"),
];

/// The rows of [`STEMS`] as expressions, and negations within a word or command.
static ROWS: LazyLock<RegexSet> = LazyLock::new(|| {
    let rows = STEMS.map(|(_, stems)| format!("(?i-u:(?:^|[^a-z])(?:{stems}))"));
    RegexSet::new(rows.into_iter().chain([r"(?-u:n't|\\n)".into()])).expect("expressions")
});

/// What the words of a text may do.
pub(super) fn hints(text: &str) -> u16 {
    let rows = ROWS.matches(text.as_bytes());
    let known = rows.iter().map(|row| STEMS.get(row).map_or(DENIES, |(hint, _)| *hint));
    let is_letter = |c: char| "≠’".contains(c) || c > '\u{bf}' && c.is_alphabetic();
    let is_foreign = !text.is_ascii() && text.chars().any(is_letter);
    known.fold(if is_foreign { ABROAD } else { 0 }, |found, hint| found | hint)
}
