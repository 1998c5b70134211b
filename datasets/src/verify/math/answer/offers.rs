//! Remarks that offer a second answer: whoever gives two has given none.

/// Words behind "or" that say the same value again: "or about 1,300".
pub(super) const RESTATED: [&str; 7] =
    ["approximately", "about", "roughly", "equivalently", "simply", "in", "so"];

/// Words that begin the offer of another value: "7, maybe 42".
const OFFERS: [&str; 17] = [
    "or",
    "maybe",
    "perhaps",
    "possibly",
    "alternatively",
    "unless",
    "versus",
    "vs",
    "also",
    "could",
    "might",
    "either",
    "if not",
    "not sure",
    "as well as",
    "along with",
    "followed by",
];

/// Whether a remark offers another value: "or 42", "but it could be 42", "if x > 0, otherwise 42".
pub(super) fn offers(remark: &str) -> bool {
    let words = remark.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let words = words.strip_prefix("but ").unwrap_or(&words);
    let words = words.strip_prefix("it ").unwrap_or(words);
    let is_offer = OFFERS.iter().any(|offer| {
        words
            .strip_prefix(offer)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
    });
    let mut each = words.split(|c: char| !c.is_alphanumeric());
    let has_other_case = each.any(|word| matches!(word, "otherwise" | "else"));
    let is_same = words
        .strip_prefix("or ")
        .is_some_and(|rest| RESTATED.iter().any(|word| rest.starts_with(word)));
    let has_value = words.contains(|c: char| c.is_ascii_digit() || c == '$' || c == '\\');
    has_value && !is_same && (is_offer || has_other_case)
}
