//! Units of measure: which words are one unit, and how units of one kind convert.

use super::scan::{bare_words, is_one_of};
use std::collections::BTreeMap;

use dashu_ratio::RBig;

/// A quantity, its power, the unit's size as a fraction of the quantity's base unit, and the unit's names.
type Unit = (&'static str, i32, (u64, u64), &'static [&'static str]);

const UNITS: &[Unit] = &[
    ("length", 1, (1, 1_000_000_000), &["nm", "нм", "nanometer", "nanometre"]),
    ("length", 1, (1, 1000), &["mm", "мм", "millimeter", "millimetre"]),
    ("length", 1, (1, 100), &["cm", "см", "centimeter", "centimetre"]),
    ("length", 1, (1, 10), &["dm", "дм", "decimeter", "decimetre"]),
    ("length", 1, (1, 1), &["m", "м", "метр", "metro", "mètre", "meter", "metre"]),
    ("length", 1, (1000, 1), &["km", "км", "kilómetro", "kilomètre", "kilometer", "kilometre"]),
    ("length", 1, (254, 10_000), &["in", "inch", "inche"]),
    ("length", 1, (3048, 10_000), &["ft", "foot", "feet"]),
    ("length", 1, (9144, 10_000), &["yd", "yard"]),
    ("length", 1, (1_609_344, 1000), &["mi", "mile"]),
    ("time", 1, (1, 1000), &["ms", "millisecond"]),
    (
        "time",
        1,
        (1, 1),
        &["s", "с", "сек", "segundo", "seconde", "sekunde", "sekunden", "sec", "second"],
    ),
    ("time", 1, (60, 1), &["min", "мин", "minuto", "minuten", "minute"]),
    ("time", 1, (3600, 1), &["h", "ч", "час", "hora", "heure", "stunde", "stunden", "hr", "hour"]),
    ("time", 1, (86_400, 1), &["day", "сут", "день", "дней"]),
    ("time", 1, (604_800, 1), &["week"]),
    ("months", 1, (1, 1), &["month"]),
    ("months", 1, (12, 1), &["year", "yr"]),
    ("mass", 1, (1, 1_000_000), &["mg", "milligram"]),
    ("mass", 1, (1, 1000), &["g", "г", "gram"]),
    ("mass", 1, (1, 1), &["kg", "кг", "kilogram", "kilo"]),
    ("mass", 1, (45_359_237, 100_000_000), &["lb", "pound"]),
    ("mass", 1, (45_359_237, 1_600_000_000), &["oz", "ounce"]),
    ("length", 3, (1, 1_000_000), &["ml", "мл", "milliliter", "millilitre"]),
    ("length", 3, (1, 100_000), &["cl", "centiliter", "centilitre"]),
    ("length", 3, (1, 10_000), &["dl", "deciliter", "decilitre"]),
    ("length", 3, (1, 1000), &["l", "л", "L", "liter", "litre"]),
    ("length", 2, (10_000, 1), &["ha", "hectare"]),
    ("dollar", 1, (1, 1), &["dollar", "usd", "buck"]),
    ("dollar", 1, (1, 100), &["cent", "¢"]),
    ("euro", 1, (1, 1), &["euro", "eur", "€"]),
    ("sterling", 1, (1, 1), &["£", "gbp", "sterling"]),
    ("ruble", 1, (1, 1), &["ruble", "rub", "₽", "руб", "рубль", "рубля", "рублей"]),
    ("yen", 1, (1, 1), &["yen", "yuan", "rmb", "¥"]),
    ("rupee", 1, (1, 1), &["rupee", "₹"]),
    ("angle", 1, (1, 1), &["radian", "rad"]),
    ("celsius", 1, (1, 1), &["celsius"]),
    ("fahrenheit", 1, (1, 1), &["fahrenheit"]),
    ("current", 1, (1, 1), &["A", "ampere", "amp"]),
    ("kelvin", 1, (1, 1), &["K", "kelvin"]),
    ("amount", 1, (1, 1), &["mol", "mole"]),
    ("unit", 1, (1, 1), &["unit"]),
];

/// Units with a name of their own, as products and quotients of others, and a factor before them.
const DERIVED: &[(&[&str], u64, &str)] = &[
    (&["mph"], 1, "mi/h"),
    (&["kph", "kmph", "kmh"], 1, "km/h"),
    (&["mps"], 1, "m/s"),
    (&["N", "newton"], 1, "kg m/s^2"),
    (&["J", "joule"], 1, "kg m^2/s^2"),
    (&["W", "watt"], 1, "kg m^2/s^3"),
    (&["Pa", "pascal"], 1, "kg/m s^2"),
    (&["Hz", "hertz"], 1, "s^-1"),
    (&["C", "coulomb"], 1, "A s"),
    (&["V", "volt"], 1, "kg m^2/s^3 A"),
    (&["Ω", "Omega", "ohm"], 1, "kg m^2/s^3 A^2"),
    (&["F", "farad"], 1, "s^4 A^2/kg m^2"),
    (&["T", "tesla"], 1, "kg/s^2 A"),
    (&["H", "henry", "henries"], 1, "kg m^2/s^2 A^2"),
    (&["Wh"], 3600, "kg m^2/s^2"),
    (&["t", "т", "tonne"], 1000, "kg"),
];

/// Prefixes of symbols and of names, and their factors.
const PREFIXES: &[(&str, &str, (u64, u64))] = &[
    ("n", "nano", (1, 1_000_000_000)),
    ("μ", "micro", (1, 1_000_000)),
    ("u", "micro", (1, 1_000_000)),
    ("m", "milli", (1, 1000)),
    ("c", "centi", (1, 100)),
    ("d", "deci", (1, 10)),
    ("k", "kilo", (1000, 1)),
    ("M", "mega", (1_000_000, 1)),
    ("G", "giga", (1_000_000_000, 1)),
];

/// Symbols that take a prefix.
const PREFIXED: &str = "m|g|s|l|L|A|K|mol|N|J|W|Pa|Hz|C|V|Ω|Omega|F|Wh";

/// Longest unit, in bytes.
const MAX_BYTES: usize = 60;

/// The dimensions of a unit, and its size in base units.
type Measure = (BTreeMap<&'static str, i32>, RBig);

/// Whether this is the name of a unit.
pub(super) fn is_known(name: &str) -> bool {
    multiply(&mut BTreeMap::new(), &mut RBig::ONE.clone(), name, 1).is_some()
}

/// Whether a text is a unit: `cm`, `square meters`, `km/h`, `miles per hour`.
pub(super) fn is_unit(text: &str) -> bool {
    measure(&bare_words(text)).is_some()
}

/// How many of the unit `gold` one of the unit `answer` is; `None` where they do not convert. Words that
/// are no known unit must be the same words.
pub(super) fn conversion(gold: &str, answer: &str) -> Option<RBig> {
    let (a, b) = (bare_words(gold), bare_words(answer));
    let is_symbol = a.len() <= 3 && b.len() <= 3;
    let is_sterling = |a: &str, b: &str| a == "£" && singular(b) == "pound";
    if singular(&a) == singular(&b)
        || (!is_symbol && singular(&a.to_lowercase()) == singular(&b.to_lowercase()))
        || is_sterling(&a, &b)
        || is_sterling(&b, &a)
    {
        return Some(RBig::ONE);
    }
    // Pages per minute, in pages per hour.
    if let (Some((things, of)), Some((others, its))) =
        (a.split_once(" per "), b.split_once(" per "))
        && measure(things).is_none()
        && singular(things) == singular(others)
    {
        return conversion(its, of);
    }
    let ((kinds, one), (others, other)) = (measure(&a)?, measure(&b)?);
    (kinds == others).then(|| other / one)
}

/// A temperature of one scale in the other, as a factor and what is added: `None` for other units.
pub(super) fn temperature(gold: &str, answer: &str) -> Option<(RBig, RBig)> {
    let scale = |unit: &str| {
        let words = bare_words(unit).to_lowercase();
        match words.trim_start_matches("degrees ").trim_start_matches("degree ") {
            "celsius" => Some(true),
            "fahrenheit" => Some(false),
            _ => None,
        }
    };
    let part = |a: i32, b: u32| RBig::from_parts(a.into(), b.into());
    match (scale(gold)?, scale(answer)?) {
        (true, false) => Some((part(5, 9), part(-160, 9))),
        (false, true) => Some((part(9, 5), part(32, 1))),
        _ => None,
    }
}

fn singular(text: &str) -> &str {
    text.strip_suffix('s').filter(|_| text.len() > 2).unwrap_or(text)
}

fn find(name: &str) -> Option<&'static Unit> {
    UNITS.iter().find(|(.., names)| names.contains(&name))
}

/// The unit that a name is a multiple of by its prefix, and the factor.
fn prefixed(name: &str) -> Option<(&str, RBig)> {
    let bare = |(symbol, word, (p, q)): &(&str, &str, (u64, u64))| {
        let rest = name.strip_prefix(symbol).filter(|rest| is_one_of(rest, PREFIXED));
        let rest = rest.or_else(|| name.strip_prefix(word).filter(|rest| rest.len() > 2))?;
        Some((rest, RBig::from_parts((*p).into(), (*q).into())))
    };
    PREFIXES.iter().find_map(bare)
}

/// The dimensions and size of a unit in folded words.
fn measure(unit: &str) -> Option<Measure> {
    if unit.is_empty() || unit.len() > MAX_BYTES {
        return None;
    }
    let text = unit.replace(" per ", "/").replace("degrees ", "").replace("degree ", "");
    let (mut kinds, mut size) = (BTreeMap::new(), RBig::ONE);
    for (number, part) in text.split('/').enumerate() {
        let sign = if number == 0 { 1 } else { -1 };
        let mut pending = 1;
        let mut has_unit = false;
        let mut last = None;
        for word in part.split([' ', '*', '·', '{', '}']).filter(|word| !word.is_empty()) {
            match word {
                "square" | "sq" => pending = 2,
                "cubic" | "cu" => pending = 3,
                "squared" | "cubed" => {
                    let more = if word == "squared" { 1 } else { 2 };
                    multiply(&mut kinds, &mut size, last?, sign * more)?;
                }
                _ => {
                    last = Some(word);
                    let (name, power) = word.split_once('^').unwrap_or((word, "1"));
                    let power =
                        power.parse::<i32>().ok().filter(|power| (1..=4).contains(&power.abs()))?;
                    has_unit = true;
                    multiply(&mut kinds, &mut size, name, sign * power * pending)?;
                    pending = 1;
                }
            }
        }
        if !has_unit {
            return None;
        }
    }
    kinds.retain(|_, power| *power != 0);
    // Square units of no length are units.
    if let Some(power) = kinds.get_mut("unit") {
        *power = 1;
    }
    Some((kinds, size))
}

/// Multiplies a measure by a power of a unit.
fn multiply(
    kinds: &mut BTreeMap<&'static str, i32>,
    size: &mut RBig,
    name: &str,
    power: i32,
) -> Option<()> {
    let derived = |name: &str| DERIVED.iter().find(|(names, ..)| names.contains(&name));
    if let Some((_, factor, derived)) = derived(name).or_else(|| derived(singular(name))) {
        let (others, one) = measure(derived)?;
        for (kind, of_kind) in others {
            *kinds.entry(kind).or_insert(0) += of_kind * power;
        }
        *size *= raised(&(one * RBig::from(*factor)), power);
        return Some(());
    }
    let Some(unit) = find(name).or_else(|| find(singular(name))) else {
        if let Some((rest, factor)) = prefixed(name) {
            *size *= raised(&factor, power);
            return multiply(kinds, size, rest, power);
        }
        // Names may begin with a capital, symbols tell `mW` from `MW`.
        let lower = name.to_lowercase();
        let is_name = name.len() > 2 && lower != name;
        return if is_name { multiply(kinds, size, &lower, power) } else { None };
    };
    let (kind, of_kind, (p, q), _) = *unit;
    *kinds.entry(kind).or_insert(0) += of_kind * power;
    *size *= raised(&RBig::from_parts(p.into(), q.into()), power);
    Some(())
}

fn raised(base: &RBig, power: i32) -> RBig {
    let size = (0..power.unsigned_abs()).fold(RBig::ONE, |product, _| product * base);
    if power < 0 { RBig::ONE / size } else { size }
}
