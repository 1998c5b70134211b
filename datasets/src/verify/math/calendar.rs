//! Dates and times of day.

use super::text::folded;
use super::tree::Answer;

/// Names of months.
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// A date with the name of its month: month, day, and year where it has one. `June 20`, `the 20th of June 2024`.
pub(super) fn date(text: &str) -> Option<(usize, u32, Option<u32>)> {
    const DAYS: [&str; 7] =
        ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    if text.len() > 80 || !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if let Some((year, rest)) = text.trim().split_once('-')
        && year.len() == 4
        && let Some((month, day)) = rest.split_once('-')
    {
        let (year, month): (u32, usize) = (year.parse().ok()?, month.parse().ok()?);
        let day = day.trim_end_matches('.').parse().ok()?;
        return ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some((
            month - 1,
            day,
            Some(year),
        ));
    }
    let text = folded(text);
    let (mut month, mut day, mut year) = (None, None, None);
    for word in text.split(' ').filter(|word| !DAYS.contains(word) && !matches!(*word, "of" | "on"))
    {
        let is_month = |name: &&str| word.len() >= 3 && name.starts_with(word);
        let digits = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end));
        if let Some(at) = MONTHS.iter().position(is_month) {
            month.replace(at).is_none().then_some(())?;
        } else {
            let number: u32 = digits.unwrap_or(word).parse().ok()?;
            let slot = if number > 31 { &mut year } else { &mut day };
            slot.replace(number).is_none().then_some(())?;
        }
    }
    Some((month?, day?, year))
}

/// Whether two texts are one date, where both are dates.
pub(super) fn same_date(gold: &str, answer: &str) -> Option<bool> {
    let ((month, day, year), (others, its_day, its_year)) = (date(gold)?, date(answer)?);
    let is_year = year.is_none() || its_year.is_none() || year == its_year;
    Some((month, day) == (others, its_day) && is_year)
}

/// A time of day, `6:30 p.m.`; without its half of the day it is a ratio until it meets one.
pub(super) fn time(text: &str) -> Option<Answer> {
    let text = text.trim().trim_start_matches("\\text{").trim_end_matches(['}', '.']);
    let Some((hours, rest)) = text.split_once(':') else { return whole_hour(text) };
    let minutes = rest.get(..2)?;
    let half: String = rest[2..].chars().filter(|c| c.is_alphabetic()).collect();
    let is_after_noon = match half.to_ascii_lowercase().trim_start_matches("text") {
        "am" => false,
        "pm" => true,
        _ => return None,
    };
    let (hours, minutes) = (hours.trim().parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(Answer::Time(hours, minutes, Some(is_after_noon)))
}

/// `6 p.m.`
fn whole_hour(text: &str) -> Option<Answer> {
    let end = text.find(|c: char| !c.is_ascii_digit()).filter(|end| (1..=2).contains(end))?;
    let half: String = text[end..].chars().filter(|c| c.is_alphabetic()).collect();
    let is_after_noon = match half.to_ascii_lowercase().trim_start_matches("text") {
        "am" => false,
        "pm" => true,
        _ => return None,
    };
    let hours = text[..end].parse().ok().filter(|hours| *hours <= 12)?;
    Some(Answer::Time(hours, 0, Some(is_after_noon)))
}
