//! What the words right behind a number make of it: another one or a bound, "7 over two", "7 and up", "7又二分之一".

use super::super::links::{TIGHT_AND, TIGHT_OR};
use super::super::scan::head;

/// Numbers in words; behind an operator also those of other languages.
const NUMBER: &str = "(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|\
    seven|eigh|nine)teen|\
    (?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:-[a-z]+)?|hundred)";
const ABROAD: &str = "eins?|uma?|zwei|drei|vier|fünf|neun|une?|deux|trois|quatre|cinq|neuf|uno|dos|tres|cuatro|cinco|\
    nueve|due|tre|\
    quattro|cinque|nove|dois|duas|três|quatro|een|twee|drie|vijf|negen|один|два|две|три|пять|девят[ьи]|jeden|dwa|trzy|\
    pięć|\
    dziewięciu?|bir|iki|üç|beş|dokuz|satu|dua|tiga|lima|một|hai|ba|năm|chín";
/// Operators and the like, before a number.
const OPERATORS: &str = "and|and then|plus|minus|(?:less|more|fewer) than|to|(?:up |down )?to|through|thru|until|till|\
    by|vs[.]?|versus|over|times|point|dot|comma|decimal|root|choose|\
    permute|modulo|mod|into|from|below|above|(?:squared|cubed) (?:plus|minus|times|over)|per ?cent of|(?:divided|\
    multiplied) by|in base|mal|bis|fois|sur|moins|à|por|entre|sobre|menos|más|punto|a|per|meno|più|vezes|mais|keer|\
    maal|tot|min|\
    на|до|плюс|минус|przez|razy|do|kali|kurang|nhân|mũ";
/// Words of a range, before digits.
const RANGE: &str = "through|thru|until|till|(?:up|down) to|bis|tot|à|jusqu['’]à|hasta|até|fino a|до|do|ile|sampai|đến|ถึง|إلى|and/or";
/// Words that are no unit in any sentence: operations, parts, bounds and denials.
const WORDS: &str = "(?:and|or) (?:up|above|over|below|under|beyond|counting|more|less|fewer|older|younger|higher|\
    lower|greater|\
    onwards?|change|some)(?:[^a-z]*$| [a-z]*[a-xz]\\b)|at (?:an? |the )?(?:very )?(?:most|least|best|worst|minimum|\
    maximum)\\b|to the (?:\\w+ )?(?:power|third|\\w+th)\\b|(?:raised|factorial|inverse|negated|doubled|tripled|\
    halved)\\b|\
    (?:square|cube) root|root [0-9]|(?:short|shy) of\\b|too (?:low|high|small|big|large)\\b|not (?:included|inclusive|\
    counting)|\
    (?:less|plus|minus|max|maximum|tops|half|double|twice|thrice|reciprocal|onwards?|upwards?|not|nicht|niet|non|não|\
    нет|nope|\
    false|wrong|incorrect|rejected)[^a-z0-9]*$|stimmt nicht|пи\\b|\
    (?:fakultät|faculteit|factorielle|fattoriale|fatorial|факториал|silnia|faktöriyel|faktorial|giai thừa|hoch|\
    puissance|\
    elevad[oa]|elevat[oa]|do potęgi|pangkat|üssü|üzeri|tot de macht|в (?:степени|квадрате|кубе)|do kwadratu|(?:im|zum|\
    ins) quadrat|\
    in het kwadraat|au (?:carré|cube)|al (?:cuadrado|cubo|quadrato)|ao (?:quadrado|cubo)|bình phương|geteilt|gedeeld|\
    durch|\
    divisé|dividid[oa]|diviso|fratto|умнож\\p{L}*|раздел\\p{L}*|bölü|çarpı|eksi|artı|dibagi|dikali|tambah|chia|trừ|\
    cộng|komma|virgule|\
    coma|virgola|vírgula|цел(?:ых|ая)|przecinek|virgül|koma|phẩy|und (?:ein|zwei|drei)|et (?:quart|trois)|y (?:cuarto|\
    tres)|e (?:un|um|\
    três|tre)|en (?:een|drie)|с (?:половиной|четвертью)|i (?:pół|ćwierć)|buçuk|setengah|rưỡi|(?:oder|ou|o|of|или|lub|\
    atau|veya|ya da|\
    hoặc|und|et|y|e|en|и|i) (?:mehr|weniger|plus|moins|más|menos|mais|più|meno|meer|minder|больше|более|меньше|менее|\
    więcej|mniej|lebih|kurang|daha|hơn)|höchstens|mindestens|maximal|minimal|au (?:plus|moins|maximum|minimum)|\
    como (?:máximo|\
    mínimo)|al (?:massimo|più|menos)|almeno|no (?:máximo|mínimo)|hoogstens|minstens|maximaal|не (?:более|менее|больше|\
    меньше)|\
    максимум|минимум|co naj\\p{L}*|maksymalnie|minimalnie|en (?:fazla|az|çok|adelante)|in su|para cima|aufwärts|\
    paling|ke atas|trở (?:lên|\
    xuống)|tối (?:đa|thiểu)|falsch|faux|fals[oa]|incorrecto|sbagliato|errado|fout|неверн\\p{L}*|неправильн\\p{L}*|\
    fałsz|błędn\\p{L}*|yanlış|salah|sai)(?:$|[^\\p{L}0-9])";
/// The same in scripts without blanks, some behind the word for what is counted.
const UNSPACED: &str = "[点點][零一二三四五六七八九0-9]|又[零一二三四五六七八九十0-9]|分之|分の|분의|[^0-9 .,$]{0,2} ?(?:以[上下内外后後]|未[满満]|이상|이하|미만|\
    초과|之[前后])|보다|を?超|[余多几]|倍多|\
    个半|[成割折半](?:$|です|[^\\p{L}])|より|[加减減乘除乗]|次方|次幂|阶乘|階乗|(?:左右|并)?不[對对是正成]|是?[错錯误誤]|为假|有误|[的の](?:[平立]方|阶乘|階乗|倒数|一半|\
    [0-9])|\
    의 ?(?:제곱|[0-9])|제곱(?:$|[근이입])|점 ?[영일이삼사오육칠팔구0-9]|더하기|빼기|곱하기|나누기|팩토리얼|(?:では?|じゃ)な|では?あり|は?(?:間違|誤)|[은는이가]? ?(?:틀|\
    아[니닙님])";

tables! {
    ALTERED: &format!("^(?: (?:(?:{OPERATORS}) (?:(?:{NUMBER}|{ABROAD}|(?:an? )?(?:half|third|quarter|fifth|bit)|pi|\
    пи|[exyn]|\
    infinity|itself)(?:$|[^\\p{{L}}-]))|{NUMBER}(?:$|[^a-z-])|{WORDS}|(?:{RANGE}) [$]*-?[0-9])|[ $]*(?:{UNSPACED}|\
    (?:{TIGHT_AND}|{TIGHT_OR}|[到至比の跟~～〜]|から|에서|부터|ถึง) ?[$]*[-0-9]))");
}

/// Up to where the words right behind a number make it another one, or a bound.
pub(in super::super) fn altered(after: &str) -> Option<usize> {
    let may_be = after.starts_with(' ') || !head(after, 8).is_ascii();
    Some(may_be.then(|| ALTERED.find(head(after, 40))).flatten()?.end)
}
