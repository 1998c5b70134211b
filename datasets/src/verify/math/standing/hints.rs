//! What a text has in it that the tables of expressions may match: beginnings of words, looked for once, so that most
//! texts need no expression.

use std::sync::LazyLock;

use super::super::scan::each;

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

/// A value is tried out.
pub(super) const TRIES: u16 = 1 << 12;

/// Beginnings of words that may do so.
const STEMS: [(u16, &str); 12] = [
    (TRIES, "try|test|guess|suppose|assume"),
    (
        DENIES,
        "possible|not|no|never|neither|rather|instead|other|any|fail|neq|isn|wasn|don|doesn|didn|hasn|can|couldn|\
     nicht|statt|anst|lieu|lugar|vez|invece|plaats|zamiast|opposed|pas|kein|nie|nao|geen|bukan|tidak|inte|\
     ikke|andere|wrong|incorrect|false|naive|tempt|first|old|initial|prev|orig|earl|if|by no|in no|under|jam|\
     nunca|ne|jest|si|el es|than|between|least|most|below|above|over|up to|beyond|exceed|short|shy|entre|\
     zwischen|tussen|antara|plus|moins|menos|menor|mayor|como|sumo|almeno|di|al|massimo|mais|maior|pelo|mehr|\
     weniger|hoogst|mindest|minst|minder|meer|lebih|kurang|paling|setid|angalau|zaidi|najm|najw|co |en|fazla|\
     sup|inf|gr|kl|tra|fra|au|at|upper|lower|bound|imposs|imposible",
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
     start|restart|try|redo|recomp|check|false|untrue|a lie|disprov|refut|rejec|invalid|nonsense|was|lied|wrong|\
    incorrect|not|too|imposs|an err|edit|update|erratum|meant|diff|other|can|viol|fail|does|contra|\
     hold|actually|sorry|on second|reali|see now|let|but|however|yet|unfort|instead|must|have to|has to|need|\
     question|problem|want|adding|correct |right |true |actual|proper |nein|non|over|under|round|\
     final|answer|verif|add|rev|apolog|or |make that|mean|closer|looking|reading|re-read|missed|swapp|typo|off|\
     on closer|on further|on reflection|see ",
    ),
    (
        FAULTS,
        "rejec|invalid|nonsense|false|untrue|a lie|disprov|refut|wrong|incorrect|not|mistake|too|imposs|an error|can|\
        viol|fail|does|contra",
    ),
];

/// Entries of tables with what they do, by their first two letters.
pub(super) struct Effects(Vec<Vec<(u16, &'static str)>>);

impl Effects {
    pub(super) fn new(rows: &[(u16, &'static str)]) -> Self {
        let mut by_start = vec![vec![]; 1 << 10];
        for (effect, table) in rows {
            each(table).for_each(|entry| by_start[start(entry.as_bytes())].push((*effect, entry)));
        }
        Self(by_start)
    }

    /// The entries that may stand at the beginning of a text.
    pub(super) fn at(&self, text: &[u8]) -> &[(u16, &'static str)] {
        if text.len() < 2 { &[] } else { &self.0[start(text)] }
    }
}

/// The first two letters of an entry, whatever their case.
fn start(text: &[u8]) -> usize {
    usize::from(text[0] & 31) << 5 | usize::from(text[1] & 31)
}

/// The entries of [`STEMS`].
static BY_START: LazyLock<Effects> = LazyLock::new(|| Effects::new(&STEMS));

/// What the words of a text may do.
pub(super) fn hints(text: &str) -> u16 {
    let is_letter = |c: char| "≠’".contains(c) || c > '\u{bf}' && c.is_alphabetic();
    let is_foreign = !text.is_ascii() && text.chars().any(is_letter);
    let mut found = if is_foreign { ABROAD } else { 0 };
    let (bytes, known) = (text.as_bytes(), &*BY_START);
    let mut before = b' ';
    for (at, &byte) in bytes.iter().enumerate() {
        let before = std::mem::replace(&mut before, byte);
        if byte.is_ascii_alphabetic() && !before.is_ascii_alphabetic() {
            for (hint, stem) in known.at(&bytes[at..]) {
                let is_it = found & hint == 0
                    && bytes
                        .get(at..at + stem.len())
                        .is_some_and(|word| word.eq_ignore_ascii_case(stem.as_bytes()));
                found |= if is_it { *hint } else { 0 };
            }
        }
        // A negation within a word or command.
        if byte == b'n' && (before == b'\\' || bytes[at..].starts_with(b"n't")) {
            found |= DENIES;
        }
    }
    found
}
