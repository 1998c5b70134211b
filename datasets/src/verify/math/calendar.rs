//! Dates and times of day.

use super::scan::{before_end, each, folded, has_digits, holds, is_one_of, pattern};
use super::spelled::{number_word, ordinal, spelled};
use super::tree::Answer;
use super::wording::bare;

const MONTHS: &str =
    "january|february|march|april|may|june|july|august|september|october|november|december";

const DAYS: &str = "monday|tuesday|wednesday|thursday|friday|saturday|sunday";

/// Month, from 0 on, day, and year.
type Date = (usize, u32, Option<u32>);

/// A date with the name of its month: month, day, and year where it has one. `June 20`, `the 20th of June 2024`.
pub(super) fn date(text: &str) -> Option<Date> {
    let may_be = |text: &str| has_digits(text) || text.contains(" of ");
    (text.len() <= 80 && may_be(text)).then_some(())?;
    let in_numbers = pattern!(
        r"^\s*(?:(?P<year>[0-9]{4})-(?P<month>[0-9]+)-(?P<day>[0-9]+)\.*|(?P<m>[0-9]+)\s*月\s*(?P<d>[0-9]+)\s*日)\s*$"
    );
    if let Some(found) = in_numbers.captures(text) {
        let number = |name: &str, other: &str| {
            found.name(name).or(found.name(other))?.as_str().parse::<u32>().ok()
        };
        let month = number("month", "m").filter(|month| (1..=12).contains(month))?;
        let day = number("day", "d").filter(|day| (1..=31).contains(day))?;
        return Some((month as usize - 1, day, number("year", "year")));
    }
    // Most texts have no month.
    let has_month = text.split(|c: char| !c.is_ascii_alphabetic()).any(|word| {
        word.len() >= 3 && each(MONTHS).any(|name| word[..3].eq_ignore_ascii_case(&name[..3]))
    });
    has_month.then_some(())?;
    let text = folded(text);
    let (mut month, mut day, mut year) = (None, None, None);
    for word in text.split(' ').filter(|word| !is_one_of(word, DAYS) && !is_one_of(word, "of|on")) {
        let is_month = |name: &str| word.len() >= 3 && name.starts_with(word);
        let digits = before_end(word, "st|nd|rd|th");
        if let Some(at) = each(MONTHS).position(is_month) {
            month.replace(at).is_none().then_some(())?;
        } else {
            let number: Option<u32> = digits.unwrap_or(word).parse().ok();
            let number = number.or_else(|| u32::try_from(ordinal(word)?).ok())?;
            let slot = if number > 31 { &mut year } else { &mut day };
            slot.replace(number).is_none().then_some(())?;
        }
    }
    Some((month?, day?, year))
}

/// The day of the week that a text is: `Wednesday`, `on Wed.`
fn weekday(text: &str) -> Option<usize> {
    (text.len() <= 20).then_some(())?;
    let lower = text.to_ascii_lowercase();
    let day = lower.strip_prefix("on ").unwrap_or(&lower).trim_end_matches('.');
    let is_short = is_one_of(day, "mon|tue|tues|wed|thu|thur|thurs|fri|sat|sun");
    each(DAYS).position(|name| name == day || is_short && name.starts_with(day))
}

/// Whether two texts are one date, where both are dates.
pub(super) fn same_date(gold: &str, answer: &str) -> Option<bool> {
    if gold.starts_with(char::is_alphabetic)
        && let (Some(day), Some(other)) = (weekday(gold), weekday(answer))
    {
        return Some(day == other);
    }
    // `1969-07-20` is no difference.
    if pattern!(r"^\s*[0-9]{4}-[0-9]{2}-[0-9]{2}\s*$").is_match(gold) {
        let day = date(gold);
        return Some(day.is_some() && day == date(answer));
    }
    let ((month, day, year), (others, its_day, its_year)) = (date(gold)?, date(answer)?);
    let is_year = year.is_none() || its_year.is_none() || year == its_year;
    Some((month, day) == (others, its_day) && is_year)
}

/// A time of day, `6:30 p.m.`; without its half of the day it is a ratio until it meets one.
pub(super) fn time(text: &str) -> Option<Answer> {
    (text.len() <= 80).then_some(())?;
    if let Some(time) = clock(text) {
        return Some(time);
    }
    let text = text.trim().trim_start_matches("\\text{").trim_end_matches(['}', '.']);
    // `7{:}20` and `7\!:\!20` are set as `7:20` is.
    let colon = ["{:}", "\\!:\\!"].into_iter().find(|colon| text.contains(colon));
    let plain = colon.map(|colon| text.replacen(colon, ":", 1));
    let text = plain.as_deref().unwrap_or(text);
    let clock = pattern!(r"(?s)^\s*([0-9]+)\s*(?::([0-9]{2})(.*)|([^:]*))$");
    if text.contains(['m', 'M', 'n'])
        && let Some(found) = clock.captures(text)
        && let Some(part) = part_of_day(found.get(3).or(found.get(4))?.as_str())
    {
        let minutes = found.get(2).map(|minutes| minutes.as_str());
        let most = if minutes.is_some() { 23 } else { 12 };
        let hours = found[1].parse().ok().filter(|hours| *hours <= most)?;
        let minutes = minutes.unwrap_or("0").parse().ok().filter(|minutes| *minutes < 60)?;
        return Some(Answer::Time(hours, minutes, Some(part.is_later(hours))));
    }
    time_in_words(text)
}

/// The parts of a day that words beside a time name.
#[derive(Clone, Copy)]
enum Part {
    Morning,
    Later,
    Night,
}

impl Part {
    /// Whether an hour of it is one after noon; at night the hour says so.
    fn is_later(self, hour: u32) -> bool {
        match self {
            Self::Morning => false,
            Self::Later => true,
            Self::Night => (6..=11).contains(&hour),
        }
    }
}

/// The part of a day that words are: `p.m.`, "in the morning", whatever stands between their letters.
fn part_of_day(words: &str) -> Option<Part> {
    const PARTS: [(Part, &str); 3] = [
        (
            Part::Morning,
            "上午|早上|凌晨|清晨|早晨|午前|오전|am|in the morning|in the early morning|this morning|before noon|de la mañana|\
            da manhã|du matin|del mattino|di mattina|morgens|vormittags|früh|утра|rano|'s morgens",
        ),
        (
            Part::Later,
            "下午|傍晚|晚上|中午|午后|午後|오후|pm|in the afternoon|this afternoon|in the evening|this evening|de la tarde|\
            de la noche|da tarde|da noite|du soir|de l'après-midi|del pomeriggio|della sera|di sera|nachmittags|abends|\
            дня|вечера|po południu|wieczorem",
        ),
        (Part::Night, "at night|tonight|in the night"),
    ];
    fn letters(text: &str) -> impl Iterator<Item = char> {
        text.chars().filter(|c| c.is_alphabetic()).flat_map(char::to_lowercase)
    }
    let words: String = letters(words).collect();
    let words = words.trim_start_matches("text");
    let is_it = |part: &'static str| each(part).any(|known| letters(known).eq(words.chars()));
    PARTS.into_iter().find(|(_, part)| is_it(part)).map(|(part, _)| part)
}

/// A time of day with words of any language around it: `14:30 Uhr`, `a las 2:30 de la tarde`, `下午2时30分`.
fn clock(text: &str) -> Option<Answer> {
    let is_likely = has_digits(text) || text.contains(['半', '点', '點', '时', '時']);
    (is_likely && holds(text, ":|h|时|時|点|點|시")).then_some(())?;
    let lower = bare(text).to_lowercase();
    let clock = pattern!(
        r"(?x)^(at|around|um|gegen|a\ las?|las?|alle\ ore|alle|ore|às|à|в|o\ godzinie|godz\.?|saat|pukul|jam|om|kl\.?)?\ ?
        ([上早凌清午오下傍晚中]\S)?\ ?([0-9]{1,2}|[一二三四五六七八九十两]{1,3})\ ?
        (?:([:.h])\ ?([0-9]{2})|(uhr|[时時点點]|시)(?:\ ?(半|[0-9]{1,2})\ ?([分분]?))?)
        \ ?(uhr|uur|horas|hs?|heures|ore)?\ ?(\D*)$"
    );
    let found = clock.captures(&lower)?;
    let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
    let number = |word: &str| word.parse().ok().or_else(|| u32::try_from(number_word(word)?).ok());
    let hours = number(part(3))?;
    let parts = [part(2), part(10).trim_matches([' ', '.', ','])];
    let parts = parts.into_iter().filter(|words| !words.is_empty()).map(part_of_day);
    let half = parts.collect::<Option<Vec<_>>>()?.first().map(|part| part.is_later(hours));
    let is_plain = part(1).is_empty() && part(2).is_empty() && part(9).is_empty();
    // Plain `14:30` is a ratio as well; `8.15` is a time only with its unit, and `3点14` is a decimal.
    let is_time = match (part(4), part(6)) {
        (":", _) => !is_plain || half.is_some(),
        (".", _) => is_one_of(part(9), "uhr|uur"),
        ("h", _) | (_, "uhr") => true,
        _ => part(7).is_empty() || part(7) == "半" || !part(8).is_empty(),
    };
    let minutes = match (part(5), part(7)) {
        ("", "") => 0,
        ("", "半") => 30,
        ("", minutes) | (minutes, _) => number(minutes)?,
    };
    (is_time && hours <= 24 && minutes < 60).then_some(Answer::Time(hours, minutes, half))
}

/// `noon`, `19h30`, `half past seven`, `quarter to four in the afternoon`, `20 past 8`.
fn time_in_words(text: &str) -> Option<Answer> {
    if let Some((hours, minutes)) = text.split_once('h')
        && minutes.len() == 2
    {
        let (hours, minutes) = (hours.trim().parse().ok()?, minutes.parse().ok()?);
        return (hours < 24 && minutes < 60).then_some(Answer::Time(hours, minutes, None));
    }
    match text {
        "noon" | "Noon" => return Some(Answer::Time(12, 0, Some(true))),
        "midnight" | "Midnight" => return Some(Answer::Time(12, 0, Some(false))),
        _ => {}
    }
    let mut words = text.split(' ').take(4);
    const WORDS: &str = "past|quarter|Quarter|minutes|o'clock|o’clock";
    words.any(|word| is_one_of(word, WORDS)).then_some(())?;
    let lower = text.to_lowercase().replace('’', "'");
    let mut ends = lower.match_indices(' ').map(|(at, _)| lower.split_at(at));
    let end = ends.find_map(|(words, end)| Some((words, Some(part_of_day(end)?))));
    let (words, part) = end.unwrap_or((&lower, None));
    let number = |words: &str| u32::try_from(spelled(words)?.numerator().clone()).ok();
    let (minutes, hour) = match words.split_once(" past ").or_else(|| words.split_once(" to ")) {
        Some((minutes, hour)) => (Some(minutes), hour.trim_end_matches(" o'clock")),
        None => (None, words.strip_suffix(" o'clock")?),
    };
    let minutes = minutes.map(|words| words.trim_end_matches(" minutes").trim_start_matches("a "));
    let minutes = match minutes {
        None => 0,
        Some("half") => 30,
        Some("quarter") => 15,
        Some(words) => number(words).filter(|minutes| (1..60).contains(minutes))?,
    };
    let hour = number(hour).filter(|hour| (1..=12).contains(hour))?;
    let (hour, minutes) = match words.contains(" to ") && !words.contains(" past ") {
        true => (if hour == 1 { 12 } else { hour - 1 }, 60 - minutes),
        false => (hour, minutes),
    };
    Some(Answer::Time(hour, minutes, part.map(|part| part.is_later(hour))))
}
