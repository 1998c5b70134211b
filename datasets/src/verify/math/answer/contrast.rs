//! Contrasts and bounds in the languages that are read: "not 14, but 15", "15 statt 14", "至少6".

use std::sync::LazyLock;

use regex::Regex;

use super::super::super::tail;
use super::super::scan::head;
use super::super::text::is_choice;
use super::super::units::is_unit;
use super::{is_integer, is_value};

/// Deny what follows, as a part of the verb or behind it.
const NO_VERB: &str = "(?:^| )(?:no|non|não|не|nie|không|bukan|si)(?: |$)|n['’]|不";
/// At the beginning of what is stated: it is denied.
const NO_VALUE: &str = "^[ $(\"*]*(?:\\\\text\\{ *)?(?:(?:not|n['’]t|no es|nicht|(?:ce )?n['’]est pas|non pas|pas|niet|nie|не|bukan|não|não é|\
    không phải(?: là)?|rather than|instead of|statt|anstatt|вместо)\\b|不是|并非|\
    (?:no|non|si|không)[ $(]+-?[0-9])";
/// Leads from what is denied to what is stated.
const BUT: &str = "[,;，]? *(?:\\\\text\\{ *)?(?:\\b(?:but(?: rather)?|it is|it['’]s|sino|sondern|mais|mas(?: sim)?|e sim|bensì|ma|maar|lecz|ale|mà là|\
    melainkan|tetapi|tapi|bali(?: ni)?|а|но)\\b|而是|[，,] ?是|we (?:get|have)|获得) *\\}?";
/// Between what is stated and what it is not.
const NOT: &str = "[,;，、]? *\\(?(?:\\\\text\\{[ (]*)?(?:\\b(?:and not|not|rather than|instead of|as opposed to|y no|et non(?: pas)?|non pas|e non|e não|und nicht|\
    nicht|en niet|niet|a nie|nie|а не|не|statt|anstatt|anstelle von|au lieu de|en lugar de|en vez de|em vez de|\
    invece di|\
    вместо|in plaats van|zamiast|dan bukan|bukan|và không phải)\\b|而不是|而非|不是)";
/// A value that is denied behind it, in languages whose verb is last: "14ではなく".
const NOT_BEHIND: &str = "^[^。.\\n]{0,24}?(?:ではなくて?|じゃなくて|(?:이|가) 아니라| değil(?:dir)?\\b|['’][a-zçğıöşü]+ değil\\b)[、,]?";
/// What follows is a bound.
const BOUNDS: &str = "(?:(?:between|entre|zwischen|между|tussen|giữa|antara|介于|than|at (?:least|most)|below|above|under|over|up to|beyond|exceeds?|más de|menos de|(?:mayor|menor)(?:es)? (?:que|de|a)|al menos|\
    como (?:mínimo|máximo)|a lo sumo|plus (?:de|grande? que)|moins de|plus petite? que|(?:supérieur|\
    inférieur)e?s? (?:ou égale?s? )?à|au (?:moins|plus)|\
    più (?:di|grande di)|meno di|(?:maggiore|minore) di|almeno|al (?:massimo|più)|mais de|(?:maior|menor) (?:do )?que|\
    pelo menos|no (?:máximo|mínimo)|\
    (?:mehr|weniger|größer|kleiner|höher) als|mindestens|höchstens|(?:meer|minder|groter|kleiner) dan|minstens|\
    hoogstens|\
    (?:не )?(?:больше|меньше|более|менее)(?: чем)?|по крайней мере|(?:więcej|mniej|większa|mniejsza) niż|\
    co (?:najmniej|najwyżej)|en (?:az|fazla|çok)|\
    (?:lebih|kurang) dari|paling (?:sedikit|banyak)|setidaknya|ít nhất(?: là)?|nhiều nhất|(?:lớn|nhỏ|ít) hơn|zaidi ya|\
    angalau|大于|小于|不?超过|至少|至多|不少于|不大于|多于|少于)\
    (?:是|有|为)?|\
    (?:between|entre|zwischen|между|tra|fra|tussen|giữa|antara) [$]*[0-9][^ ]* (?:and|et|y|e|und|и|en|và|dan)|介于[0-9]+[和与到至])";
/// What stands before is a bound.
const BOUNDS_BEHIND: &str = "^[^ .。0-9]{0,2} ?(?:以上|以下|以内|未満|より(?:大きい|小さい)|이상|이하|초과|미만|보다|['’ ]?(?:d[ae]n|t[ae]n) (?:büyük|küçük|fazla|az))";
/// What follows a contrast and states no value: what the value is of.
const NOT_STATED: &str = "^ *(?:(?:it is |that )?(?:more|less|fewer|greater|larger|smaller|close to|roughly|between|\
    mayor|menor|größer|kleiner)\\b|\
    [$\\\\(]*[0-9][0-9.,/]*[$\\\\)]* (?:is an?|is the|is also|works|less|more|fewer|times)\\b|[0-9]+的)";

macro_rules! tables {
    ($($name:ident: $table:expr;)*) => {
        $(static $name: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(&format!("(?i:{})", $table)).expect("the table is of expressions")
        });)*
    };
}
tables! {
    NO_VERBS: NO_VERB;
    NO_VALUES: NO_VALUE;
    CONTRAST: BUT;
    NOTS: NOT;
    NOT_AHEAD: NOT_BEHIND;
    BOUND: &format!("(?:^|[^a-zà-ÿа-яё]){BOUNDS}[ $*(]*$|[大小多少]于(?:或等于)?$|[过多少](?:是|有)?$");
    BOUND_AHEAD: &format!("^[ $*(]*{BOUNDS}(?:[ $*(]|[0-9]|$)");
    BOUND_BEHIND: BOUNDS_BEHIND;
    NO_STATED: NOT_STATED;
}

/// What is stated behind a verb: none where it is denied, or a bound, but for what is said in contrast to it.
pub(super) fn stated<'a>(verb: &str, text: &'a str) -> Option<&'a str> {
    if verb.is_empty() && is_integer(text) {
        return Some(text);
    }
    let is_verb = !verb.is_empty() && NO_VERBS.is_match(verb);
    if !is_verb && text.is_ascii() && !text.trim().contains(' ') {
        return Some(text);
    }
    if let Some(denied) = (!text.is_ascii()).then(|| NOT_AHEAD.find(text)).flatten() {
        let rest = text[denied.end()..].trim_start();
        return (!rest.is_empty()).then_some(rest);
    }
    if is_verb || NO_VALUES.is_match(text) {
        let stated = &text[CONTRAST.find(text)?.end()..];
        let is_none =
            [&*NO_VALUES, &*NO_STATED, &*BOUND_AHEAD].iter().any(|table| table.is_match(stated));
        return (!is_none).then_some(stated);
    }
    let number =
        text.trim_start_matches([' ', '$']).trim_start_matches(|c: char| c.is_ascii_digit());
    if BOUND_AHEAD.is_match(text) || is_bound("", number) {
        return None;
    }
    let before = NOT_STEM
        .is_match(text)
        .then(|| NOTS.find(text))
        .flatten()
        .map(|found| text[..found.start()].trim_end_matches([' ', '*', '$', ',', '"']));
    let is_answer = |text: &&str| {
        let unit = text.rsplit([' ', '{']).next().unwrap_or(text);
        let is_whole = !unit.ends_with(char::is_alphabetic) || is_unit(unit);
        is_whole && is_value(text.trim_start_matches(['$', '*', ' '])) || is_choice(text)
    };
    Some(before.filter(is_answer).unwrap_or(text))
}

/// What most of [`NOT`] have in them, and what others than those in ASCII have.
static NOT_STEM: LazyLock<Regex> = LazyLock::new(|| {
    const STEMS: &str = "not|rather|instead|opposed| no | non| pas|nicht|statt|anst|lieu|lugar|vez|invece|niet|plaats|nie |zamiast|bukan";
    Regex::new(&format!("(?i-u:{STEMS})|[^\\x00-\\x7f]")).expect("the table is of expressions")
});

/// Whether the words around a value make it a bound: "less than 7".
pub(super) fn is_bound(before: &str, after: &str) -> bool {
    BOUND.is_match(tail(before, 40)) || !after.is_ascii() && BOUND_BEHIND.is_match(head(after, 40))
}
