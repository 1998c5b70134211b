//! Marks between thousands and before decimals, as different countries write them.

use super::scan::{are_digits, pattern};
use super::spelled::scale;
use super::units::is_unit;

/// A number without the marks between its thousands, in each way in which these may be read.
pub(super) fn without_separators(text: &str) -> Vec<String> {
    let bare = text.trim_start_matches(['-', '$', '€', '£', '¥', '₹', ' ']);
    let sign = if text.starts_with('-') { "-" } else { "" };
    let ways = [('.', ','), (',', '.'), (' ', ','), (' ', '.')].into_iter();
    ways.filter_map(|(mark, decimal)| {
        let (whole, part) = bare.split_once(decimal).unwrap_or((bare, ""));
        let has_cents = mark != ' ' && !part.is_empty() && is_group(whole, mark);
        let is_number = are_digits(part) && (are_thousands(whole, mark) || has_cents);
        let point = if part.is_empty() { "" } else { "." };
        is_number.then(|| format!("{sign}{}{point}{part}", whole.replace(mark, "")))
    })
    .collect()
}

/// Whether a mark parts one group of thousands: `1.200`.
pub(super) fn is_group(text: &str, mark: char) -> bool {
    text.split_once(mark).is_some_and(|(first, last)| {
        (1..=3).contains(&first.len()) && last.len() == 3 && are_digits(first) && are_digits(last)
    })
}

/// Whether marks part groups of thousands, at least two of them, or those of India: `12,34,567`.
fn are_thousands(text: &str, mark: char) -> bool {
    let groups: Vec<&str> = text.split(mark).collect();
    let are_digits = groups.iter().all(|group| are_digits(group));
    let (Some(first), Some(last)) = (groups.first(), groups.last()) else { return false };
    let middle = groups.get(1..groups.len().saturating_sub(1)).unwrap_or_default();
    are_digits
        && groups.len() >= if mark == ' ' { 2 } else { 3 }
        && last.len() == 3
        && (middle.iter().all(|group| group.len() == 3) && (1..=3).contains(&first.len())
            || middle.iter().all(|group| group.len() == 2) && (1..=2).contains(&first.len()))
}

/// A decimal comma as a point: digits, one comma, and digits that are no group of thousands; `1.234,5` has points
/// between thousands. One digit behind the comma may as well be a list, `1,2`, unless `of_decimal` says that the
/// other side is a decimal.
pub(super) fn with_point(text: &str, of_decimal: bool) -> Option<String> {
    // `x = 2,5`, `R$ 45,00`, `7,5\text{ cm}`
    let decimal = pattern!(
        r"^(?:([\p{Alphabetic}\s]*=))?[€£¥₹$R ]*(-?)(?:([0-9]{1,3}(?:\.[0-9]{3})+)|([0-9]+)),([0-9]+)([^0-9,.].*)?$"
    );
    let found = text.contains(',').then(|| decimal.captures(text)).flatten()?;
    let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
    let (whole, decimals) = (part(4), part(5));
    let unit = part(6).trim_end_matches(|c: char| "€£¥₹$R ".contains(c));
    let is_word = unit.trim().chars().all(|c| c.is_alphabetic() || c == ' ');
    (is_word || is_unit(unit.trim())).then_some(())?;
    // `2,5 millions`
    let of_decimal = of_decimal || scale(&unit.trim().split(' ').next()?.to_lowercase()).is_some();
    let is_decimal = whole.is_empty()
        || (decimals.len() >= 2 || of_decimal) && (decimals.len() != 3 || whole == "0");
    let digits = format!("{whole}{}", part(3).replace('.', ""));
    is_decimal.then(|| format!("{}{}{digits}.{decimals}{unit}", part(1), part(2)))
}
