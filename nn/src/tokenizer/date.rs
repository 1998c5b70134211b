//! The date that chat templates are told, and its text by Python's `strftime` formats.

use std::fmt::{self, Write};
use std::str::FromStr;
use std::time::SystemTime;

use anyhow::{Context, Error, Result, bail};
use chrono::format::{Fixed, Item, Numeric, StrftimeItems};
use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, Utc};
use serde::{Deserialize, Serialize};

/// A day of the Gregorian calendar, between the years 1 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TemplateDate(NaiveDate);

impl TemplateDate {
    /// The day that it is now in UTC.
    pub fn today() -> Self {
        Self(DateTime::<Utc>::from(SystemTime::now()).date_naive())
    }

    /// The text of the day at midnight by a format of Python's `strftime`, in English.
    pub(super) fn format(self, format: &str) -> Result<String> {
        let items = StrftimeItems::new(format).map(|item| match item {
            // Python's microseconds are chrono's nanoseconds; a naive time has no zone.
            Item::Numeric(Numeric::Nanosecond, _) => Item::Literal("000000"),
            Item::Fixed(Fixed::TimezoneOffset | Fixed::TimezoneName) => Item::Literal(""),
            other => other,
        });
        let mut text = String::new();
        // A formatter fails at an item that is an error, and at one that a naive time has no value for.
        write!(text, "{}", self.0.and_time(NaiveTime::MIN).format_with_items(items))
            .with_context(|| format!("the date format `{format}` is not supported"))?;
        Ok(text)
    }
}

impl fmt::Display for TemplateDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for TemplateDate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match NaiveDate::parse_from_str(text, "%Y-%m-%d") {
            // The parser also takes fewer digits and blanks.
            Ok(date) if (1..=9999).contains(&date.year()) && date.to_string() == text => {
                Ok(Self(date))
            }
            _ => bail!("`{text}` is not a date; write it as YYYY-MM-DD, such as 2026-07-31"),
        }
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
        assert_eq!(
            date("2024-02-29").format("%f%z%Z|%x %X|%-I%n").unwrap(),
            "000000|02/29/24 00:00:00|12\n"
        );
        assert!(date("2024-02-29").format("%Q").unwrap_err().to_string().contains("%Q"));
    }

    #[test]
    fn invalid_dates_and_formats_are_refused() {
        for wrong in
            ["2023-02-29", "2024-13-01", "0000-01-01", "24-1-1", "2024-01-01T00", "2024-0+-01", ""]
        {
            let message = wrong.parse::<TemplateDate>().unwrap_err().to_string();
            assert!(message.contains("YYYY-MM-DD"), "{wrong}: {message}");
        }
        assert!(TemplateDate::today().0.year() >= 2026);
        for day in ["0001-01-01", "9999-12-31"] {
            assert_eq!(date(day).to_string(), day);
            assert_eq!(date(day).format("%Y-%m-%d").unwrap(), day);
        }
        for format in ["%", "%-", "100%", "%Q", "%:z", "%#z", "%!", "%é", "%s%+%c%", "%-%"] {
            assert!(date("2024-02-29").format(format).is_err(), "{format}");
        }
    }
}
