//! The date that chat templates are told, and its text by Python's `strftime` formats.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};
use serde::{Deserialize, Serialize};
use tealight_system::clock::seconds_since_1970;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A day of the Gregorian calendar, between the years 1 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TemplateDate {
    year: i64,
    month: i64,
    day: i64,
}

impl TemplateDate {
    /// The day that it is now in UTC.
    pub fn today() -> Self {
        Self::from_days(seconds_since_1970() as i64 / 86_400)
    }

    /// The day that is this many days after 1970-01-01. Years begin in March here, so that leap days end them.
    fn from_days(days: i64) -> Self {
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Self { year: year + era * 400 + i64::from(month <= 2), month, day }
    }

    fn days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    fn day_of_year(self) -> i64 {
        self.days() - Self { month: 1, day: 1, ..self }.days() + 1
    }

    /// Sunday is 0.
    fn weekday(self) -> i64 {
        (self.days() + 4).rem_euclid(7)
    }

    /// The text of the day at midnight by a format of Python's `strftime`, in English.
    ///
    /// # Errors
    /// A directive that is not known here, by name.
    pub(super) fn format(self, format: &str) -> Result<String> {
        let mut text = String::new();
        let mut rest = format.chars();
        while let Some(character) = rest.next() {
            if character != '%' {
                text.push(character);
                continue;
            }
            let mut directive = rest.next().context("a date format ends with %")?;
            // As glibc has it: without leading zeros.
            let is_bare = directive == '-';
            if is_bare {
                directive = rest.next().context("a date format ends with %-")?;
            }
            let value = self.directive(directive)?;
            text.push_str(match is_bare {
                true => match value.trim_start_matches(['0', ' ']) {
                    "" => "0",
                    bare => bare,
                },
                false => &value,
            });
        }
        Ok(text)
    }

    fn directive(self, directive: char) -> Result<String> {
        let Self { year, month, day } = self;
        let month_name = MONTHS[month as usize - 1];
        let weekday = self.weekday();
        let weekday_name = WEEKDAYS[weekday as usize];
        Ok(match directive {
            'Y' => format!("{year:04}"),
            'y' => format!("{:02}", year % 100),
            'm' => format!("{month:02}"),
            'd' => format!("{day:02}"),
            'e' => format!("{day:2}"),
            'j' => format!("{:03}", self.day_of_year()),
            'B' => month_name.to_owned(),
            'b' | 'h' => month_name[..3].to_owned(),
            'A' => weekday_name.to_owned(),
            'a' => weekday_name[..3].to_owned(),
            'w' => weekday.to_string(),
            'u' => (if weekday == 0 { 7 } else { weekday }).to_string(),
            'F' => self.to_string(),
            'D' | 'x' => format!("{month:02}/{day:02}/{:02}", year % 100),
            'T' | 'X' => "00:00:00".to_owned(),
            'R' => "00:00".to_owned(),
            'H' | 'M' | 'S' => "00".to_owned(),
            'I' => "12".to_owned(),
            'p' => "AM".to_owned(),
            'f' => "000000".to_owned(),
            'c' => {
                format!("{} {} {day:2} 00:00:00 {year:04}", &weekday_name[..3], &month_name[..3])
            }
            // A naive time has no zone.
            'z' | 'Z' => String::new(),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            other => bail!("the date format %{other} is not supported"),
        })
    }
}

impl fmt::Display for TemplateDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl FromStr for TemplateDate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('-').collect();
        let number = |text: &&str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<i64>().ok(),
            false => None,
        };
        let numbers: Option<Vec<i64>> = parts.iter().map(number).collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        if let (Some([year, month, day]), [4, 2, 2]) = (numbers.as_deref(), lengths.as_slice()) {
            let date = Self { year: *year, month: *month, day: *day };
            // A day that does not exist would come back as another.
            if *year > 0 && (1..=12).contains(month) && Self::from_days(date.days()) == date {
                return Ok(date);
            }
        }
        bail!("`{text}` is not a date; write it as YYYY-MM-DD, such as 2026-07-31")
    }
}

impl TryFrom<String> for TemplateDate {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<TemplateDate> for String {
    fn from(date: TemplateDate) -> Self {
        date.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> TemplateDate {
        text.parse().unwrap()
    }

    #[test]
    fn dates_are_formatted_as_python_does() {
        // As printed by datetime(...).strftime in Python 3.11.
        for (day, format, text) in [
            ("2026-11-26", "%d %b %Y", "26 Nov 2026"),
            (
                "2026-11-26",
                "%Y-%m-%d, %A %-d %B, day %j, week day %w/%u",
                "2026-11-26, Thursday 26 November, day 330, week day 4/4",
            ),
            ("2024-02-29", "%a %e %h %y %D", "Thu 29 Feb 24 02/29/24"),
            (
                "2023-01-01",
                "%c|%p %I:%M:%S|%T%%|%-m",
                "Sun Jan  1 00:00:00 2023|AM 12:00:00|00:00:00%|1",
            ),
        ] {
            assert_eq!(date(day).format(format).unwrap(), text, "{day} {format}");
        }
        assert!(date("2024-02-29").format("%Q").unwrap_err().to_string().contains("%Q"));
        assert!(date("2024-02-29").format("100%").is_err());
    }

    #[test]
    fn days_round_trip_and_invalid_dates_are_refused() {
        for days in [-719_162, -1, 0, 59, 11_016, 20_783, 2_932_896] {
            assert_eq!(TemplateDate::from_days(days).days(), days);
        }
        assert_eq!(TemplateDate::from_days(0), date("1970-01-01"));
        for wrong in
            ["2023-02-29", "2024-13-01", "0000-01-01", "24-1-1", "2024-01-01T00", "2024-0+-01", ""]
        {
            let message = wrong.parse::<TemplateDate>().unwrap_err().to_string();
            assert!(message.contains("YYYY-MM-DD"), "{wrong}: {message}");
        }
        assert!(TemplateDate::today().days() > 20_000);
    }
}
