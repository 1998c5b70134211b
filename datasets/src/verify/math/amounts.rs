//! Amounts with a sign or a currency in words: `($3,200)`, `$3.2M`, `a decrease of 12\%`, `12 degrees below zero`.

use super::alphabet::NOUNS;
use super::scan::{
    are_digits, before_end, begins, each, has_digits, holds, is_digit, is_one_of, past, pattern,
    without,
};
use super::spelled::{is_number_part, number_word};
use super::units::is_unit;
use super::wording::{bare, without_article};

/// Words for a decrease, and for an increase; with "of" or "by" behind them, or behind the value.
const LESS: &str = "decrease|drop|decline|reduction|fall|loss|dip|decreased|dropped|declined|fell|reduced|down|Rückgang|\
    Abnahme|Verlust|baisse|diminution|perte|disminución|reducción|caída|pérdida|diminuição|redução|queda|perda|\
    diminuzione|riduzione|calo|perdita|снижение|уменьшение|убыток|daling|afname|spadek|strata|penurunan|kerugian";
const MORE: &str = "increase|rise|gain|growth|profit|increased|rose|grew|gained|up|Anstieg|Zunahme|Gewinn|hausse|\
    augmentation|bénéfice|aumento|incremento|ganancia|ganho|lucro|crescimento|crescita|guadagno|рост|\
    увеличение|прибыль|stijging|toename|wzrost|zysk|kenaikan|keuntungan";

/// `$6\sqrt{2}$ cm`, `5 m long`: a unit behind a formula or number, and what it measures.
pub(super) fn measured(text: &str) -> Option<String> {
    // `15 (km)`
    if text.ends_with(')')
        && let Some(found) = pattern!(r"^([0-9]+) \(([a-z]{2,})\)$").captures(text)
    {
        return Some(format!("{}\\text{{ {}}}", &found[1], &found[2]));
    }
    let bare = without_extent(text);
    let Some((formula, unit)) = bare.trim_start_matches('$').split_once('$') else {
        let (number, unit) = bare.rsplit_once(' ').filter(|_| bare.len() < text.len())?;
        return (number.ends_with(is_digit) && is_unit(unit))
            .then(|| format!("{number}\\text{{ {unit}}}"));
    };
    let unit = unit.replace('²', "^2").replace('³', "^3");
    // `5$ a day`
    let is_known = is_unit(&unit) || is_one_of(unit.trim(), NOUNS);
    (is_known && !begins(&unit, " a | an ")).then(|| format!("{formula}\\text{{ {}}}", unit.trim()))
}

/// A quantity without what it measures: "8 centimeters long", "3 hours longer".
pub(super) fn without_extent(words: &str) -> &str {
    const EXTENTS: &str = " long| tall| wide| high| deep| old| thick| away| each| left| apart| altogether| total| longer| taller| \
        wider| higher| deeper| older| heavier";
    before_end(words, EXTENTS).map_or(words, |words| words.trim_end_matches(" in"))
}

/// `a decrease of 12.5\%`, `down by 3`, `an 8\% drop`, `下降12.5%`.
pub(super) fn change(text: &str) -> Option<String> {
    (has_digits(text) && (text.contains(' ') || !text.is_ascii())).then_some(())?;
    // It begins or ends with a word.
    let mut first = without_article(text).chars();
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    let begins_so = is_word(first.next()) && is_word(first.next()) || text.starts_with('\\');
    let ends_so = text.trim_end().ends_with(|c: char| c.is_alphabetic() || c == '}');
    (begins_so || ends_so).then_some(())?;
    let text = bare(text);
    for (signs, sign) in [
        ("下降了|下降|减少了|减少|降低了|降低|亏损", "-"),
        ("增加了|增加|上升了|上升|增长了|增长", ""),
    ] {
        if let Some(rest) = past(&text, signs) {
            return has_digits(rest).then(|| format!("{sign}{rest}"));
        }
    }
    let (first, rest) = without_article(&text).split_once(' ')?;
    let sign = |word: &str| match (is_one_of(word, LESS), is_one_of(word, MORE)) {
        (true, _) => Some("-"),
        (_, true) => Some(""),
        _ => None,
    };
    let is_value = |value: &str| {
        has_digits(value)
            && value.starts_with(|c: char| c.is_ascii_digit() || "$€£¥₹\\".contains(c))
    };
    const LINKS: &str = "of |by |von |um |de |del |di |do |d'|на |в |van |met |sebesar ";
    let (sign, value) = match (sign(first), sign(rest)) {
        (Some(sign), _) => (sign, without(rest, LINKS).trim_end_matches('.')),
        (None, sign) => (sign?, first),
    };
    is_value(value).then(|| format!("{sign}{value}"))
}

/// `12 degrees below zero`, `12 Grad unter null`, `零下12度`.
pub(super) fn below_zero(text: &str) -> Option<String> {
    const BELOW: &str = " below zero| below 0| unter null| unter Null| bajo cero| sotto zero| sotto lo zero| abaixo de \
        zero| au-dessous de zéro| en dessous de zéro| sous zéro| ниже нуля| onder nul| poniżej zera| di bawah nol";
    const ABOVE: &str = " above zero| above 0| über null| über Null| sobre cero| sopra zero| acima de zero| au-dessus de \
        zéro| выше нуля| boven nul| powyżej zera";
    (!text.is_ascii() || text.contains(' ')).then_some(())?;
    let is_likely = holds(text, "ero|era| 0|ull|éro|нуля|nul|nol|零下|영하|氷点下");
    is_likely.then_some(())?;
    let text = bare(text);
    let degrees = |rest: &str| rest.trim_end_matches('度').trim_end_matches('도').trim().to_owned();
    if let Some(rest) = past(&text, "零下|영하|氷点下") {
        return has_digits(rest).then(|| format!("-{}", degrees(rest)));
    }
    let (sign, value) = match (before_end(&text, BELOW), before_end(&text, ABOVE)) {
        (Some(value), _) => ("-", value),
        (_, Some(value)) => ("", value),
        _ => return None,
    };
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    let number =
        if has_digits(number) { number.to_owned() } else { number_word(number)?.to_string() };
    const DEGREES: &str = "grad|degrés|graus|градус|stopni|derajat";
    let unit = begins(&unit.to_lowercase(), DEGREES);
    let rest = if unit { " degrees" } else { &value[value.find(' ').unwrap_or(value.len())..] };
    number.starts_with(is_digit).then(|| format!("{sign}{number}{rest}"))
}

/// A sum of money in brackets is negative: `(\$3,200)`, `\$(3,200)`.
pub(super) fn accounting(text: &str) -> Option<String> {
    let amount = pattern!(r"^(?:\((\\?\$|[€£¥₹])[\\$€£¥₹]*|(\\?\$|[€£¥₹])\()([0-9][^()$]*)\)$");
    let found = text.contains('(').then(|| amount.captures(text.trim())).flatten()?;
    let sign = found.get(1).or(found.get(2))?.as_str();
    Some(format!("-{sign}{}", &found[3]))
}

/// What stands behind a number for millions and the like in tables of finance.
pub(super) fn abbreviation(word: &str) -> Option<&'static str> {
    Some(match word.trim_end_matches('.') {
        "k" | "K" => "thousand",
        "m" | "M" | "mn" | "mm" | "MM" | "mln" | "Mn" | "mil" => "million",
        "b" | "B" | "bn" | "Bn" | "bln" => "billion",
        "t" | "T" | "tn" | "trn" => "trillion",
        "L" | "lac" => "lakh",
        "cr" | "Cr" => "crore",
        _ => return None,
    })
}

/// `$5`, `$3.2M`, `Rs. 1200/-`, `$2 and 75 cents`, as the grammar reads sums of money.
pub(super) fn money(text: &str) -> Option<String> {
    let is_sign = |byte: u8| byte > 127 || b"$URI".contains(&byte);
    let is_likely =
        text.bytes().any(is_sign) || text.contains(' ') && holds(text, "uro|ound|ollar|upee");
    is_likely.then_some(())?;
    let words = if text.contains('\\') { bare(text) } else { text.into() };
    if let Some(sum) = in_two_coins(&words) {
        return Some(sum);
    }
    let text = &*words;
    let sign = text.trim_start_matches(['-', '−']);
    let minus = if sign.len() < text.len() { "-" } else { "" };
    let money = pattern!(
        r"^(\\?\$|€|£|¥|₹|US ?\\?\$|R\\?\$|[₺₩₽₫₱₪฿₦₴]|(?:Rs|INR|Rp)\.?) ?([0-9][0-9,]*(?:\.[0-9]+)?)(.*)$"
    );
    begins(sign, "$|\\$|€|£|¥|₹|US|R|INR|₺|₩|₽|₫|₱|₪|฿|₦|₴").then_some(())?;
    let found = money.captures(sign)?;
    let (currency, number, rest) = (&found[1], &found[2], found[3].trim());
    let unit = match currency {
        "R$" | "R\\$" => return Some(format!("{minus}{number} reais {rest}")),
        _ if currency.ends_with('$') => "\\$",
        "€" | "£" | "¥" => currency,
        "₹" => "₹",
        _ if begins(currency, "Rs|INR") => "₹",
        // Signs that no text of mathematics has before a number otherwise.
        _ => return Some(format!("{minus}{number} {} {rest}", currency.trim_end_matches('.'))),
    };
    let rest =
        rest.trim_end_matches("/-").trim_end_matches("/=").trim_end_matches(" only").trim_end();
    // `$15/hour`, "$15 an hour"
    let of = past(rest, "/|per |an |a ").map(str::trim);
    if let Some(of) = of.filter(|of| {
        is_unit(of) || rest.starts_with('/') && of.len() > 2 && of.chars().all(char::is_alphabetic)
    }) {
        return Some(format!("{minus}{unit}{number}\\text{{ per {of}}}"));
    }
    // `$5 \text{cm}`, cut from a formula, is no money.
    if currency == "$"
        && rest.contains(['$', '\\', '=', '+', '*', '^', '(', ')', '/', '-', '<', '>'])
    {
        return None;
    }
    let cents = pattern!(r"^,?(?: and)? ([0-9]{1,2}) ?(?:cents?|¢|pence|p|paise)\.?$");
    if let Some(cents) = cents.captures(&found[3]) {
        let cents: u32 = cents[1].parse().ok()?;
        return Some(format!("{minus}{unit}{number}.{cents:02}"));
    }
    let (short, behind) = rest.split_once(' ').unwrap_or((rest, ""));
    let rest = abbreviation(short).map_or(rest.to_owned(), |word| format!("{word} {behind}"));
    Some(format!("{minus}{unit}{number} {rest}").trim_end().to_owned())
}

/// `4 Euro und 50 Cent`, `3 pounds and 50 pence`.
fn in_two_coins(text: &str) -> Option<String> {
    let coins = pattern!(
        r"^([0-9]+) ?([Ee]uros?|€|pounds?|dollars?|рубл[а-я]+|rupees?)(?:,| and| und| et| y| e| con)* ([0-9]{1,2}) ?(?:[Cc]ents?|centimes?|céntimos|centesimi|pence|p|копе[а-я]+|paise)$"
    );
    let is_likely = text.starts_with(is_digit) && holds(text, "uro|€|ound|ollar|рубл|upee");
    let found = is_likely.then(|| coins.captures(text)).flatten()?;
    let cents: u32 = found[3].parse().ok()?;
    Some(format!("{}.{cents:02} {}", &found[1], &found[2]))
}

/// Operations in words: `7 over two`, `7 to the power of 2`, `7 point five`, `x squared plus 1`, `3 root 2`.
pub(super) fn operation(text: &str) -> Option<String> {
    // Where a sign opens a group, its operand closes it.
    const OPERATIONS: &str = "raised to the power of=^{|to the power of=^{|to the=^{|divided by=/|over=/|multiplied \
        by=*|times=*|plus=+|the negative of=-|negative of=-|negative=-|minus=-|point=.|squared=^2|cubed=^3|\
        factorial=!|the square root of=\\sqrt{|square root of=\\sqrt{|square root=\\sqrt{|the cube root of=\\sqrt[3]{|\
        cube root of=\\sqrt[3]{|root of=\\sqrt{|root=\\sqrt{";
    const MAX_BYTES: usize = 80;
    const WORDS: &str = "over |divided|multiplied|times |to the |plus |minus |negative|point |squared|cubed|factorial|root ";
    let may_be = text.len() <= MAX_BYTES && text.contains(' ') && !text.contains('|');
    (may_be && holds(text, WORDS)).then_some(())?;
    let operations = each(OPERATIONS).filter_map(|operation| operation.split_once('='));
    let marked = operations.fold(format!(" {} ", bare(text)), |text, (words, sign)| {
        text.replace(&format!(" {words} "), &format!(" |{sign}| "))
    });
    let operand = |words: &str| match words {
        "" => Some(String::new()),
        "pi" => Some("\\pi ".to_owned()),
        word if are_digits(&word.replace('/', "")) || is_one_of(word, "x|y|z|n|m|k|t|r") => {
            Some(word.to_owned())
        }
        words if words.split(' ').all(is_number_part) => Some(number_word(words)?.to_string()),
        word => before_end(word, "th|st|nd|rd").filter(|rank| are_digits(rank)).map(str::to_owned),
    };
    let mut out = String::new();
    for (at, part) in marked.split('|').enumerate() {
        let is_sign = at % 2 == 1;
        let close = if !is_sign && out.ends_with('{') { "}" } else { "" };
        out.push_str(&if is_sign { part.to_owned() } else { operand(part.trim())? + close });
    }
    (marked.contains('|') && !out.starts_with('.')).then_some(out)
}
