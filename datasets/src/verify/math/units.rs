//! Units of measure: which words are one unit, and how units of one kind convert.

use dashu_ratio::RBig;

use super::text::folded;

/// A quantity, the unit's size as a fraction of the quantity's base unit, and the unit's names.
type Unit = (&'static str, (u64, u64), &'static [&'static str]);

const UNITS: &[Unit] = &[
    ("length", (1, 1000), &["mm", "millimeter", "millimetre"]),
    ("length", (1, 100), &["cm", "centimeter", "centimetre"]),
    ("length", (1, 1), &["m", "meter", "metre"]),
    ("length", (1000, 1), &["km", "kilometer", "kilometre"]),
    ("length", (254, 10_000), &["in", "inch", "inche"]),
    ("length", (3048, 10_000), &["ft", "foot", "feet"]),
    ("length", (9144, 10_000), &["yd", "yard"]),
    ("length", (1_609_344, 1000), &["mi", "mile"]),
    ("time", (1, 1), &["s", "sec", "second"]),
    ("time", (60, 1), &["min", "minute"]),
    ("time", (3600, 1), &["h", "hr", "hour"]),
    ("time", (86_400, 1), &["day"]),
    ("time", (604_800, 1), &["week"]),
    ("mass", (1, 1_000_000), &["mg", "milligram"]),
    ("mass", (1, 1000), &["g", "gram"]),
    ("mass", (1, 1), &["kg", "kilogram"]),
    ("mass", (45_359_237, 100_000_000), &["lb", "pound"]),
    ("mass", (45_359_237, 1_600_000_000), &["oz", "ounce"]),
    ("volume", (1, 1000), &["ml", "milliliter", "millilitre"]),
    ("volume", (1, 1), &["l", "liter", "litre"]),
    ("speed", (1, 1), &["mph", "mile per hour", "miles per hour"]),
    ("area", (1, 10_000), &["cm^2", "square centimeter", "square cm", "sq cm"]),
    ("area", (1, 1), &["m^2", "square meter", "square m", "sq m"]),
    ("area", (64_516, 100_000_000), &["in^2", "square inch", "square inche", "sq in"]),
    ("area", (9_290_304, 100_000_000), &["ft^2", "square foot", "square feet", "sq ft"]),
    ("room", (1, 1_000_000), &["cm^3", "cubic centimeter", "cubic cm"]),
    ("room", (1, 1), &["m^3", "cubic meter"]),
    ("dollars", (1, 1), &["dollar", "usd", "buck"]),
    ("dollars", (1, 100), &["cent"]),
    ("unit", (1, 1), &["unit", "square unit", "cubic unit", "sq unit"]),
];

/// Whether this is the name of a unit.
pub(super) fn is_known(name: &str) -> bool {
    UNITS.iter().any(|(_, _, names)| names.contains(&name))
}

/// How many of the unit `gold` one of the unit `answer` is; `None` where they do not convert. Words that
/// are no known unit must be the same words.
pub(super) fn conversion(gold: &str, answer: &str) -> Option<RBig> {
    let singular = |text: &str| {
        let text = folded(text);
        match text.strip_suffix('s') {
            Some(stem) if text.len() > 2 => stem.to_owned(),
            _ => text,
        }
    };
    let (a, b) = (singular(gold), singular(answer));
    if a == b {
        return Some(RBig::ONE);
    }
    let find = |name: &str| UNITS.iter().find(|(_, _, names)| names.contains(&name));
    let ((kind, (p, q), _), (other, (r, s), _)) = (find(&a)?, find(&b)?);
    (kind == other).then(|| RBig::from_parts((r * q).into(), (s * p).into()))
}
