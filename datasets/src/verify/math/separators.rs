//! Marks between thousands and before decimals, as different countries write them.

use super::scan::are_digits;
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
    // `x = 2,5`, `R$ 45,00`
    let name =
        text.split_once('=').filter(|(name, _)| name.trim().chars().all(char::is_alphabetic));
    let (name, text) = name.map_or(("", text), |(name, value)| (name, value));
    let text = text.trim_matches(|c: char| "€£¥₹$R ".contains(c));
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |text| ("-", text));
    // `7,5\text{ cm}`
    let end =
        text.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '.').unwrap_or(text.len());
    let (text, unit) = text.split_at(end);
    let (whole, part) = text.split_once(',')?;
    let is_word = unit.trim().chars().all(|c| c.is_alphabetic() || c == ' ');
    (is_word || is_unit(unit.trim())).then_some(())?;
    let are_digits = |text: &str| !text.is_empty() && are_digits(text);
    let mut groups = whole.split('.');
    let first = groups.next().unwrap_or_default();
    let has_groups = whole.contains('.');
    let are_groups = (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3);
    let digits = whole.replace('.', "");
    // `2,5 millions`
    let of_decimal = of_decimal || scale(&unit.trim().split(' ').next()?.to_lowercase()).is_some();
    let is_decimal = has_groups && are_groups
        || !has_groups && (part.len() >= 2 || of_decimal) && (part.len() != 3 || whole == "0");
    (are_digits(&digits) && are_digits(part) && is_decimal).then(|| {
        format!("{name}{}{sign}{digits}.{part}{unit}", if name.is_empty() { "" } else { "=" })
    })
}
