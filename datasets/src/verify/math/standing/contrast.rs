//! What the words beside a value make of it in the languages that are read: another one or a bound. "not 14, but 15",
//! "15 statt 14", "至少6", "7 over two", "7又二分之一".

use std::ops::Range;

use super::super::super::tail;
use super::super::answer::{is_integer, is_value};
use super::super::links::{TIGHT_AND, TIGHT_OR};
use super::super::scan::{begins, head, is_digit, lowered, without};
use super::super::units::is_unit;
use super::super::words::is_choice;

tables! {
    /// Denies what follows, as a part of the verb or behind it.
    NO_VERB: "(?:^| )(?:no|non|não|не|nie|không|bukan|si|siy?o)(?: |$)|n['’]|不";
    /// At the beginning of what is stated: it is denied.
    NO_VALUE: "^[ $(\"*]*(?:\\\\text\\{ *)?(?:(?:definitely|certainly|clearly) )?(?:(?:not|n['’]t|no es|nicht|(?:ce )?n['’]est pas|non pas|pas|niet|nie|не|\
    bukan|não|não é|không phải(?: là)?|rather than|instead of|statt|anstatt|вместо)\\b|不是|并非|(?:no|non|si|không)[ \
    $(]+-?[0-9])";
    /// Leads to values of which any may be it; words before it are the answer.
    ANY_OF: "^((?:[ $(\"*,]|\\\\text\\{)*[^0-9.;$]{3,30}?[ ,(]+)(?:including|e\\.g\\.|such as|among (?:them|\
    others))[^a-z].*?[0-9]|^((?:[ $(\"*,]|\\\\text\\{)*)(?:including|e\\.g\\.|\
    such as|among (?:them|others)|for (?:example|instance)|one of|any of|some of|z\\.\\s?b\\.|zum beispiel|\
    por ejemplo|par exemple|per esempio|\
    por exemplo|например|例如|比如)[^a-z].*?[0-9]";
    /// Leads from what is denied to what is stated.
    BUT: "[,;，]? *(?:\\\\text\\{ *)?(?:\\b(?:but(?: rather)?|it is|it['’]s|sino|sondern|mais|mas(?: sim)?|e sim|bensì|\
    ma|maar|lecz|ale|tylko|mà là|melainkan|tetapi|tapi|bali(?: ni)?|а|но)\\b|而是|[，,] ?是|we (?:get|have)|获得) *\\}?";
    /// Between what is stated and what it is not.
    NOT: "[,;，、]? *\\(?(?:\\\\text\\{[ (]*)?(?:\\b(?:and not|not|rather than|instead of|as opposed to|y no|et non(?: \
    pas)?|non pas|e non|e não|und nicht|nicht|en niet|niet|a nie|nie|а не|не|statt|anstatt|anstelle von|au lieu de|en \
    lugar de|en vez de|em vez de|invece di|вместо|in plaats van|zamiast|dan bukan|bukan|siy?o|si|và không phải)\\b|\
    而不是|而非|不是)";
    /// A value that is denied behind it, in languages whose verb is last: "14ではなく".
    NOT_BEHIND: "^[^。.\n]{0,24}?(?:ではな[くい]て?|では?あり(?:ません|[え得]ない|[え得]ません)|の?はずがない|にはならない|じゃな[くい]て?|でない|[이가은는] 아[니닙][^ .]*|일 수 없[^ .]*| (?:değil(?:dir)?|olamaz)\\b|['’][a-zçğıöşü]+ (?:değil|olamaz)\\b| नहीं[^।]*)[、,]?";
    /// What stands before is a bound.
    BOUND_BEHIND: "^[^ .。0-9]{0,2} ?(?:以上|以下|以内|未満|より(?:大きい|小さい)|이상|이하|초과|미만|보다|['’ ]?(?:d[ae]n|t[ae]n) (?:büyük|küçük|fazla|az))";
    /// What follows a contrast and states no value: what the value is of.
    NOT_STATED: "^ *(?:(?:it is |that )?(?:more|less|fewer|greater|larger|smaller|close to|roughly|between|mayor|\
    menor|größer|kleiner)\\b|[$\\\\(]*[0-9][0-9.,/]*[$\\\\)]* (?:is an?|is the|is also|works|less|more|fewer|\
    times)\\b|[0-9]+的)";
    /// What stands before a value makes it a bound.
    BOUND: &format!("(?:^|[^a-zà-ÿа-яё]){BOUNDS}[ $*(]*$|(?:upper|lower) bound (?:is|of|=)[ $*(]*$|[大小多少]于(?:或等于)?$|[过多少](?:是|有)?$");
    BOUND_AHEAD: &format!("^[ $*(]*{BOUNDS}(?:[ $*(]|[0-9]|$)");
    /// Bounds that may be what a question asks for: "he needs at least 8".
    LEAST: "(?:at (?:least|most)|up to|al menos|como (?:mínimo|máximo)|a lo sumo|au (?:moins|plus)|almeno|al (?:massimo|più)|pelo menos|\
    no (?:máximo|mínimo)|mindestens|höchstens|minstens|hoogstens|по крайней мере|co (?:najmniej|najwyżej)|en (?:az|\
    fazla|çok)|\
    between|entre|zwischen|между|tussen|paling (?:sedikit|banyak)|setidaknya|ít nhất|nhiều nhất|angalau|至少|至多|不少于|不超过|\\b(?:no|nobody|none)\\b[^.,;]{0,30} (?:more|fewer|less|longer) than)(?:是|有|为| là)?[ $*(]*$";
    /// Behind a value: another one may be the answer as well, with a share of the probability or without.
    HEDGED: "^ (?:with (?:an? )?|\\()(?:(?:about |roughly )?[0-9.]+ ?\\\\?%(?:\\)| [a-z]+)|(?:probability|confidence|\
    likelihood)[^.,]*?[0-9.]+)[^.\\n]*?\\b(?:or|and|otherwise|while|but)(?: it is| it['’]s)? [$]?[0-9]|^[$*]* (?:is|\
    are) (?:also|equally|just as|still) (?:possible|likely|plausible|probable)|^[^.,;0-9\\n]{0,12}[.,;] ?(?:(?:but|\
    though|although|however|and|yet),? )?(?:[$]?-?[0-9][0-9./]*[$]? (?:(?:is|are) (?:also|equally|just as|still) \
    (?:possible|likely|plausible|probable|valid|correct)|(?:would|might|may|could|can) (?:also|equally|just as well)|\
    can(?:no|['’])t be (?:ruled out|excluded))|(?:it|this|the answer) (?:may|might|could|can) (?:also |well |equally \
    )+be [$]?[0-9])";
    /// States a bound of the answer itself.
    LEAST_ANSWER: "(?:answer|value|result) (?:is|must be|should be) (?:at (?:least|most)|up to)[ $*(]*$";
}

/// What follows is a bound.
const BOUNDS: &str = "(?:(?:short of|shy of|between|entre|zwischen|между|tussen|giữa|antara|介于|than|at (?:least|most)|\
    below|above|under|over|up to|beyond|exceed(?:s|ed|ing)?|más de|menos de|(?:mayor|menor)(?:es)? (?:que|de|a)|al \
    menos|como (?:mínimo|máximo)|a lo sumo|plus (?:de|grande? que)|moins de|plus petite? que|(?:supérieur|\
    inférieur)e?s? (?:ou égale?s? )?à|au (?:moins|plus)|più (?:di|grande di)|meno di|(?:maggiore|minore) di|almeno|al \
    (?:massimo|più)|mais de|(?:maior|menor) (?:do )?que|pelo menos|no (?:máximo|mínimo)|(?:mehr|weniger|größer|\
    kleiner|höher) als|mindestens|höchstens|(?:meer|minder|groter|kleiner) dan|minstens|hoogstens|(?:не )?(?:больше|\
    меньше|более|менее)(?: чем)?|по крайней мере|(?:więcej|mniej|większa|mniejsza) niż|co (?:najmniej|najwyżej)|en \
    (?:az|fazla|çok)|(?:lebih|kurang) dari|paling (?:sedikit|banyak)|setidaknya|ít nhất(?: là)?|nhiều nhất|(?:lớn|nhỏ|\
    ít) hơn|zaidi ya|angalau|大于|小于|不?超过|至少|至多|不少于|不大于|多于|少于)(?:是|有|为)?|(?:between|entre|zwischen|между|tra|fra|tussen|\
    giữa|antara) [$]*[0-9][^ ]* (?:and|et|y|e|und|и|en|và|dan)|介于[0-9]+[和与到至])";

/// What is stated behind a verb: none where it is denied, or a bound, but for what is said in contrast to it.
pub(in super::super) fn stated<'a>(verb: &str, text: &'a str) -> Option<&'a str> {
    if verb.is_empty() && is_integer(text) {
        return Some(text);
    }
    let is_verb = !verb.is_empty() && NO_VERB.is_match(verb);
    if !is_verb && text.is_ascii() && !text.trim().contains(' ') {
        return Some(text);
    }
    if let Some(found) = ANY_OF.expression().captures(&lowered(text)) {
        let start = found.get(1).or(found.get(2)).map_or(0, |words| words.end());
        let words = without(&text[..start], "\\text{").trim_matches([' ', ',', '(', '$']);
        // The words that leave it open are an answer that equals none.
        let hedge = text[start..].trim_end_matches(|c: char| !c.is_alphabetic());
        let hedge = &hedge[..hedge.find(is_digit).unwrap_or(hedge.len())];
        return Some(if words.contains(char::is_alphabetic) { words } else { hedge.trim() });
    }
    if let Some(denied) = (!text.is_ascii()).then(|| NOT_BEHIND.find(text)).flatten() {
        let rest = text[denied.end..].trim_start();
        return (rest.contains(char::is_alphanumeric) && !rest.starts_with(['.', '。']))
            .then_some(rest);
    }
    if is_verb || NO_VALUE.is_match(text) {
        let Some(contrast) = BUT.find(text) else {
            // `\\boxed{\\text{not possible}}`: words for something that is not.
            let is_name = text.starts_with("\\text") && !is_value(text);
            return (!is_verb && is_name && text.is_ascii()).then_some(text);
        };
        let stated = &text[contrast.end..];
        let is_none =
            [&*NO_VALUE, &*NOT_STATED, &*BOUND_AHEAD].iter().any(|table| table.is_match(stated));
        return (!is_none).then_some(stated);
    }
    let number = text.trim_start_matches([' ', '$']).trim_start_matches(is_digit);
    if BOUND_AHEAD.is_match(text) || is_bound("", number) {
        return None;
    }
    // "7 не подходит" states no contrast.
    let is_contrast = |found: &Range<usize>| {
        let (word, behind) = (text[found.clone()].trim(), text[found.end..].trim_start());
        let is_verdict = behind.trim_end_matches('}').is_empty()
            || begins(
                behind,
                "correct|right|true|valid|possible|included|inclusive|более|менее|больше|меньше",
            );
        !is_verdict
            // `a \not\equiv b`
            && !text[..found.start].ends_with('\\')
            && (!word.starts_with(char::is_alphabetic)
                || word.is_ascii() && !behind.starts_with(char::is_lowercase)
                || !behind.starts_with(char::is_alphabetic))
    };
    let before = NOT.find(text).filter(is_contrast);
    let before =
        before.map(|found| text[..found.start].trim_end_matches([' ', '*', '$', ',', '"']));
    let is_answer = |text: &&str| {
        let unit = text.rsplit([' ', '{']).next().unwrap_or(text);
        let is_whole = !unit.ends_with(char::is_alphabetic) || is_unit(unit);
        is_whole && is_value(text.trim_start_matches(['$', '*', ' '])) || is_choice(text)
    };
    Some(before.filter(is_answer).unwrap_or(text))
}

/// Whether the words around a value make it a bound: "less than 7".
pub(in super::super) fn is_bound(before: &str, after: &str) -> bool {
    BOUND.is_match(tail(before, 40).trim_end_matches("\\boxed{"))
        || !after.is_ascii() && BOUND_BEHIND.is_match(head(after, 40))
}

/// Whether what stands behind a value makes it one guess of several: "5 with 60% confidence, or 6", "5, but 6 is also
/// possible".
pub(super) fn is_hedged(after: &str) -> bool {
    HEDGED.is_match(head(after, 120))
}

/// Whether the words before a mark make its value a bound: "no greater than". At least or at most so much may be what is
/// asked for.
pub(super) fn is_bound_of_mark(before: &str, after: &str) -> bool {
    let near = tail(before, 60).trim_end_matches("\\boxed{");
    // Of "between 12 and 13" both may be in the box.
    let is_first = || begins(after.trim_start_matches('$'), " and | et | y | e | und | и | en ");
    BOUND.is_match(near) && (!LEAST.is_match(near) || LEAST_ANSWER.is_match(near) || is_first())
}

/// Numbers in words; behind an operator also those of other languages.
const NUMBER: &str = "(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|\
    seven|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:-[a-z]+)?|hundred)";
const ABROAD: &str = "eins?|uma?|zwei|drei|vier|fünf|neun|une?|deux|trois|quatre|cinq|neuf|uno|dos|tres|cuatro|cinco|\
    nueve|due|tre|quattro|cinque|nove|dois|duas|três|quatro|een|twee|drie|vijf|negen|один|два|две|три|пять|девят[ьи]|\
    jeden|dwa|trzy|pięć|dziewięciu?|bir|iki|üç|beş|dokuz|satu|dua|tiga|lima|một|hai|ba|năm|chín";
/// Operators and the like, before a number.
const OPERATORS: &str = "and|and then|plus|minus|(?:less|more|fewer) than|to|(?:up |down )?to|through|thru|until|till|\
    by|vs[.]?|versus|over|times|point|dot|comma|decimal|root|choose|permute|modulo|mod|into|from|below|above|\
    (?:squared|cubed) (?:plus|minus|times|over)|per ?cent of|(?:divided|multiplied) by|in base|mal|bis|fois|sur|moins|\
    à|por|entre|sobre|menos|más|punto|a|per|meno|più|vezes|mais|keer|maal|tot|min|на|до|плюс|минус|przez|razy|do|kali|\
    kurang|nhân|mũ";
/// Words of a range, before digits.
const RANGE: &str = "through|thru|until|till|(?:up|down) to|bis|tot|à|jusqu['’]à|hasta|até|fino a|до|do|ile|sampai|đến|ถึง|إلى|and/or";
/// Words that are no unit in any sentence: operations, parts, bounds and denials.
const WORDS: &str = "only (?:if|when)\\b|(?:per|by|for (?:every|each)) [$]?[0-9]{1,3}(?:$|[^0-9])|in [0-9]{1,3}(?:$|[^a-z0-9 ])|(?:and|or) (?:up|above|over|below|under|beyond|counting|more|less|fewer|older|younger|higher|\
    lower|greater|onwards?|change|some)(?:[^a-z]*$| [a-z]*[a-xz]\\b)|at (?:an? |the )?(?:very )?(?:most|least|best|\
    worst|minimum|maximum)\\b|to the (?:\\w+ )?(?:power|third|\\w+th)\\b|(?:raised|factorial|inverse|negated|doubled|\
    tripled|halved)\\b|(?:square|cube) root|root [0-9]|(?:short|shy) of\\b|too (?:low|high|small|big|large)\\b|not \
    (?:included|inclusive|counting)|(?:less|plus|minus|max|maximum|tops|half|double|twice|thrice|reciprocal|onwards?|\
    upwards?|not|nicht|niet|non|não|нет|nope|false|wrong|incorrect|rejected)[^a-z0-9]*$|stimmt nicht|пи\\b|\
    (?:fakultät|faculteit|factorielle|fattoriale|fatorial|факториал|silnia|faktöriyel|faktorial|giai thừa|hoch|\
    puissance|elevad[oa]|elevat[oa]|do potęgi|pangkat|üssü|üzeri|tot de macht|в (?:степени|квадрате|кубе)|do kwadratu|\
    (?:im|zum|ins) quadrat|in het kwadraat|au (?:carré|cube)|al (?:cuadrado|cubo|quadrato)|ao (?:quadrado|cubo)|bình \
    phương|geteilt|gedeeld|durch|divisé|dividid[oa]|diviso|fratto|умнож\\p{L}*|раздел\\p{L}*|bölü|çarpı|eksi|artı|\
    dibagi|dikali|tambah|chia|trừ|cộng|komma|virgule|coma|virgola|vírgula|цел(?:ых|ая)|przecinek|virgül|koma|phẩy|und \
    (?:ein|zwei|drei)|et (?:quart|trois)|y (?:cuarto|tres)|e (?:un|um|três|tre)|en (?:een|drie)|с (?:половиной|\
    четвертью)|i (?:pół|ćwierć)|buçuk|setengah|rưỡi|(?:oder|ou|o|of|или|lub|atau|veya|ya da|hoặc|und|et|y|e|en|и|i) \
    (?:mehr|weniger|plus|moins|más|menos|mais|più|meno|meer|minder|больше|более|меньше|менее|więcej|mniej|lebih|\
    kurang|daha|hơn)|höchstens|mindestens|maximal|minimal|au (?:plus|moins|maximum|minimum)|como (?:máximo|mínimo)|al \
    (?:massimo|più|menos)|almeno|no (?:máximo|mínimo)|hoogstens|minstens|maximaal|не (?:более|менее|больше|меньше)|\
    максимум|минимум|co naj\\p{L}*|maksymalnie|minimalnie|en (?:fazla|az|çok|adelante)|in su|para cima|aufwärts|\
    paling|ke atas|trở (?:lên|xuống)|tối (?:đa|thiểu)|falsch|faux|fals[oa]|incorrecto|sbagliato|errado|fout|\
    неверн\\p{L}*|неправильн\\p{L}*|fałsz|błędn\\p{L}*|yanlış|salah|sai)(?:$|[^\\p{L}0-9])";
/// The same in scripts without blanks, some behind the word for what is counted.
const UNSPACED: &str = "[点點][零一二三四五六七八九0-9]|又[零一二三四五六七八九十0-9]|分之|分の|분의|[^0-9 .,$]{0,2} ?(?:以[上下内外后後]|未[满満]|이상|이하|미만|\
    초과|之[前后])|보다|を?超|[余多几]|倍多|个半|[成割折半](?:$|です|[^\\p{L}])|より|[加减減乘除乗]|次方|次幂|阶乘|階乗|(?:左右|并)?不[對对是正成]|是?[错錯误誤]|为假|有误|\
    [的の](?:[平立]方|阶乘|階乗|倒数|一半|半分|[两兩二三四五六七八九十]倍|[0-9])|의 ?(?:제곱|[0-9])|제곱(?:$|[근이입])|점 ?[영일이삼사오육칠팔구0-9]|\
    ผิด|ไม่ถูก|ไม่ใช่(?:[^0-9]*$|ครับ|ค่ะ)|더하기|빼기|곱하기|나누기|팩토리얼|(?:では?|じゃ)な|\
    では?あり|は?(?:間違|誤)|[은는이가]? ?(?:틀|아[니닙님])";

tables! {
    ALTERED: &format!("^(?: ?ish\\b|\\+(?:$|[.,;*<)]| [a-z])| (?:(?:{OPERATORS}) (?:(?:{NUMBER}|{ABROAD}|(?:an? )?(?:half|third|quarter|fifth|bit)|pi|\
    пи|[exyn]|infinity|itself)(?:$|[^\\p{{L}}-]))|{NUMBER}(?:$|[^a-z-])|{WORDS}|(?:{RANGE}) [$]*-?[0-9])|[ \
    $]*(?:{UNSPACED}|(?:{TIGHT_AND}|{TIGHT_OR}|[到至比の跟~～〜]|から|에서|부터|ถึง) ?[$]*[-0-9]))");
}

/// Up to where the words right behind a number make it another one, or a bound.
pub(in super::super) fn altered(after: &str) -> Option<usize> {
    let may_be = after.starts_with([' ', '+', 'i']) || !head(after, 8).is_ascii();
    Some(may_be.then(|| ALTERED.find(head(after, 40))).flatten()?.end)
}
