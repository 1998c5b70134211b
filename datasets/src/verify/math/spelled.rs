//! Numbers in words: `twenty-one`, `two hundred and five`, `minus twelve`, `three eighths`, `two and a half`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::foreign::chinese;
use super::scan::{folded, is_one_of, position};
use dashu_ratio::RBig;

/// Most words of a number.
const MAX_WORDS: usize = 16;

const SMALL: &str = "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|\
    eighteen|nineteen";
const TENS: &str = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety";
/// Parts of one, from halves on.
const PARTS: &str = "half|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|thirteenth|fourteenth|fifteenth|\
    sixteenth|seventeenth|eighteenth|nineteenth|twentieth";

/// The number that words are; a single word after it, `six apples`, is its unit.
pub(super) fn spelled(text: &str) -> Option<RBig> {
    (text.len() <= 160).then_some(())?;
    if !text.is_ascii() {
        return chinese(text.trim());
    }
    let text = text.to_lowercase().replace('-', " ");
    // "a hundred", "a dozen"
    let text = match text.trim().strip_prefix("a ") {
        Some(rest) if scale(rest.split(' ').next().unwrap_or(rest)).is_some() => {
            format!("one {rest}")
        }
        _ => text,
    };
    let is_half = text.trim() == "a half" || text.trim() == "half";
    if is_half {
        return Some(RBig::from_parts(1.into(), 2_u8.into()));
    }
    // "three and a half": `folded` leaves out articles.
    let folded = folded(&text);
    let words: Vec<&str> = folded.split(' ').filter(|word| !word.is_empty()).collect();
    (!words.is_empty() && words.len() <= MAX_WORDS).then_some(())?;
    let (is_negative, words) = match words[0] {
        "minus" | "negative" => (true, &words[1..]),
        _ => (false, &words[..]),
    };
    let value = with_part(words)?;
    Some(if is_negative { -value } else { value })
}

/// Whether a word may be a part of a number in words: `twenty-one`, `minus`, `quarters`.
pub(super) fn is_number_part(word: &str) -> bool {
    let word = word.to_lowercase();
    let is_part = |part: &str| {
        is_one_of(part, SMALL)
            || is_one_of(part, TENS)
            || is_one_of(part, "hundred|thousand|million|billion|dozen|minus|negative")
            || denominator(part).is_some()
    };
    !word.is_empty() && word.split('-').all(is_part)
}

/// A number and a fraction: `three eighths`, `two and one third`, `two and half`.
fn with_part(words: &[&str]) -> Option<RBig> {
    if let Some(and) = words.iter().rposition(|word| *word == "and") {
        let (before, after) = (&words[..and], &words[and + 1..]);
        // "one and a half hours", "one and a half million"
        let parts = part(after).map(|part| (part, 1)).or_else(|| match after {
            [part @ .., unit] if unit.chars().all(char::is_alphabetic) => {
                Some((self::part(part)?, scale(unit).unwrap_or(1)))
            }
            _ => None,
        });
        if let (Some(whole), Some((part, times))) = (integer(before), parts) {
            return Some((RBig::from(whole) + part) * RBig::from(times));
        }
    }
    if let Some(part) = part(words) {
        return Some(part);
    }
    // "half a million"
    if let [part @ .., times] = words
        && let (Some(part), Some(times)) = (self::part(part), scale(times))
    {
        return Some(part * RBig::from(times));
    }
    if let Some(whole) = integer(words) {
        return Some(RBig::from(whole));
    }
    // A unit behind the number.
    let (last, rest) = words.split_last()?;
    let is_unit = last.len() > 2
        && last.chars().all(char::is_alphabetic)
        && *last != "and"
        && integer(&[last]).is_none();
    if is_unit && !rest.is_empty() { integer(rest).map(RBig::from) } else { None }
}

/// `three eighths`, `one half`, `half`.
fn part(words: &[&str]) -> Option<RBig> {
    let (last, rest) = words.split_last()?;
    let below = denominator(last)?;
    let above = if rest.is_empty() { 1 } else { integer(rest)? };
    // "fifth" alone is a rank.
    let is_part = !rest.is_empty() || matches!(*last, "half" | "quarter");
    is_part.then(|| RBig::from_parts(above.into(), below.into()))
}

/// The rank that a word is: 21 of "twenty-first".
pub(super) fn ordinal(word: &str) -> Option<u64> {
    let (tens, last) = word.rsplit_once('-').unwrap_or(("", word));
    let more = if tens.is_empty() { 0 } else { u64::try_from(integer(&[tens])?).ok()? };
    // "one-fifth" is a part.
    (tens.is_empty() || more >= 20).then_some(())?;
    Some(match last {
        "first" => more + 1,
        "second" => more + 2,
        "thirtieth" => more + 30,
        "hundredth" => 100,
        last => more + position(last, PARTS).filter(|at| *at > 0)? as u64 + 2,
    })
}

/// What parts of one have below them: 1000 of "thousandths".
pub(super) fn denominator(word: &str) -> Option<u64> {
    let parts = |word: &str| position(word, PARTS).map(|at| at as u64 + 2);
    match word {
        "halves" => Some(2),
        "quarter" | "quarters" => Some(4),
        "hundredth" | "hundredths" => Some(100),
        "thousandth" | "thousandths" => Some(1000),
        word => parts(word).or_else(|| parts(word.strip_suffix('s')?)),
    }
}

/// As [`denominator`], of words that are no unit or coin: 1000 of "thousandths", 2 of "halves", none of "quarters".
pub(super) fn parts(word: &str) -> Option<u64> {
    denominator(word).filter(|_| word.ends_with("ths") || matches!(word, "halves" | "thirds"))
}

/// `two hundred and five thousand twelve`.
fn integer(words: &[&str]) -> Option<i64> {
    if let [digits] = words
        && digits.len() < 16
        && let Ok(value) = digits.parse()
    {
        return Some(value);
    }
    let (mut total, mut group) = (0_i64, 0_i64);
    let mut last_scale = i64::MAX;
    // Of a group below a thousand, what the next word must be smaller than.
    let mut below = 1000;
    let mut is_any = false;
    for (number, word) in words.iter().enumerate() {
        if *word == "and" && number > 0 && number + 1 < words.len() {
            continue;
        }
        if let Some(value) = position(word, SMALL) {
            let value = value as i64;
            let limit = if value < 10 { 10 } else { 20 };
            (below >= limit && (value > 0 || words.len() == 1)).then_some(())?;
            (group, below) = (group + value, 0);
        } else if let Some(tens) = position(word, TENS) {
            (below >= 100).then_some(())?;
            (group, below) = (group + 20 + 10 * tens as i64, 10);
        } else if *word == "hundred" {
            (is_any && group > 0 && group < 100).then_some(())?;
            (group, below) = (group * 100, 100);
        } else {
            let scale = scale(word)?;
            (is_any && group > 0 && scale < last_scale).then_some(())?;
            total = total.checked_add(group.checked_mul(scale)?)?;
            (group, below, last_scale) = (0, 1000, scale);
        }
        is_any = true;
    }
    if is_any { total.checked_add(group) } else { None }
}

/// Words for large numbers, in the languages that are read.
const SCALES: &str = "10=tens|12=dozen dozens dutzend docena docenas douzaine douzaines dozzina dozzine dúzia dúzias дюжина \
    дюжины дюжин|144=gross|100=hundred hundreds|1000=thousand thousands tausend mil mille mila тысяча тысячи тысяч \
    тыс duizend tysiąc tysiące tysięcy bin ribu nghìn ngàn हज़ार हजार ألف آلاف|1000000=million millions millionen mio \
    millón millones milione milioni milhão milhões миллион миллиона миллионов млн miljoen milion miliony milionów mln \
    milyon juta triệu مليون|1000000000=billion billions milliarde milliarden mrd milliard milliards miliardo miliardi \
    bilhão bilhões миллиард миллиарда миллиардов млрд miljard miliard miliardy miliardów mld milyar miliar tỷ مليار|\
    1000000000000=trillion trillions billionen billones biljoen trilhão trilhões триллион триллиона триллионов|\
    100000=lakh lakhs lac lacs लाख|10000000=crore crores करोड़|10000=万 萬 만|100000000=亿 億 억";

/// `million` and its like as numbers.
pub(super) fn scale(word: &str) -> Option<i64> {
    static SIZES: LazyLock<HashMap<&str, i64>> = LazyLock::new(|| {
        let rows = SCALES.split('|').filter_map(|row| row.split_once('='));
        let rows = rows.filter_map(|(size, names)| Some((size.parse().ok()?, names)));
        rows.flat_map(|(size, names)| names.split(' ').map(move |name| (name, size))).collect()
    });
    let word = word.trim_end_matches('.');
    // None of ASCII has less than three letters.
    let may_be = word.len() > 2 && !word.as_bytes()[0].is_ascii_digit();
    may_be.then(|| SIZES.get(word).copied()).flatten()
}

/// A whole number in words: `five`, `twenty-one`.
pub(super) fn number_word(words: &str) -> Option<i64> {
    let value = spelled(words).filter(RBig::is_int)?;
    i64::try_from(value.numerator().clone()).ok()
}
