//! Answers in words: names, yes and no, choice letters, units.

/// Whether two texts are the same words: case, punctuation, articles and LaTeX decoration do not count.
/// A single choice letter equals the same letter in brackets or before its text: `C`, `(C)`, `C) 12`.
pub(super) fn same_words(gold: &str, answer: &str) -> bool {
    let (a, b) = (folded(gold), folded(answer));
    if a == b {
        return !a.is_empty();
    }
    match (choice(gold), choice(answer)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// The letter of a multiple choice, alone or before its text.
fn choice(text: &str) -> Option<char> {
    let text = text.trim().trim_start_matches('(');
    let mut letters = text.chars();
    let letter = letters.next()?.to_ascii_uppercase();
    let rest = letters.as_str().trim_start();
    let ends = rest.is_empty() || rest.starts_with([')', '.', ':']);
    (('A'..='J').contains(&letter) && ends).then_some(letter)
}

/// Lower-case words without decoration.
pub(super) fn folded(text: &str) -> String {
    let mut text = text.to_lowercase();
    for mark in [
        "\\text", "\\mathrm", "\\mathbf", "\\textbf", "\\left", "\\right", "\\!", "\\,", "\\;",
        "\\ ", "$",
    ] {
        text = text.replace(mark, " ");
    }
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric() && !matches!(c, '+' | '-' | '/' | '^' | '='))
        .filter(|word| !word.is_empty() && !matches!(*word, "the" | "a" | "an"))
        .map(str::to_owned)
        .collect();
    words.join(" ")
}

/// Units that are one unit in several spellings.
const UNITS: [&[&str]; 26] = [
    &["cm", "centimeter", "centimetre"],
    &["m", "meter", "metre"],
    &["mm", "millimeter", "millimetre"],
    &["km", "kilometer", "kilometre"],
    &["in", "inch", "inche"],
    &["ft", "foot", "feet"],
    &["yd", "yard"],
    &["mi", "mile"],
    &["s", "sec", "second"],
    &["min", "minute"],
    &["h", "hr", "hour"],
    &["kg", "kilogram"],
    &["g", "gram"],
    &["lb", "pound"],
    &["oz", "ounce"],
    &["l", "liter", "litre"],
    &["ml", "milliliter", "millilitre"],
    &["mph", "mile per hour", "miles per hour"],
    &["cm^2", "square centimeter", "square cm", "sq cm"],
    &["m^2", "square meter", "square m", "sq m"],
    &["in^2", "square inch", "square inche", "sq in"],
    &["ft^2", "square foot", "square feet", "sq ft"],
    &["cm^3", "cubic centimeter", "cubic cm"],
    &["m^3", "cubic meter"],
    &["dollar", "usd", "buck"],
    &["unit", "square unit", "cubic unit", "sq unit"],
];

/// Whether two units are one; words that are no known unit must be the same words.
pub(super) fn same_unit(a: &str, b: &str) -> bool {
    let singular = |text: &str| {
        let text = folded(text);
        match text.strip_suffix('s') {
            Some(stem) if text.len() > 2 => stem.to_owned(),
            _ => text,
        }
    };
    let (a, b) = (singular(a), singular(b));
    a == b || UNITS.iter().any(|names| names.contains(&a.as_str()) && names.contains(&b.as_str()))
}
