//! What stands at the head of a page: what was compared, on what, when, and by which command.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Study;
use crate::number::counted;
use crate::results::Results;
use crate::transition::Aligned;

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

/// `colouring: 3 objectives x 5 seeds, model tasks (1.0M parameters)`.
pub(super) fn study(study: &Study, tasks: &[&str]) -> String {
    let own = study.reported().map(|set| set.name.split('/').next().unwrap_or(&set.name));
    let task = match tasks {
        [] => own.unwrap_or("no held-out set").to_owned(),
        tasks => tasks.join(", "),
    };
    let seeds = study.seeds().len();
    let by_seeds = if seeds > 1 { format!(" x {}", counted(seeds, "seed")) } else { String::new() };
    let size = study.parameters.map(|count| format!(" ({})", parameters(count)));
    let objectives = counted(study.objectives.len(), "objective");
    format!("{task}: {objectives}{by_seeds}, model {}{}", study.model, size.unwrap_or_default())
}

/// `tuned against base on gsm8k`, or `SmolLM2 on gsm8k`.
pub(super) fn evaluation(named: &[(String, &Results)], sets: &[Aligned<'_>]) -> String {
    let sets: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    let (base, others) =
        named.split_first().map_or(("", [].as_slice()), |(base, others)| (base.0.as_str(), others));
    let others: Vec<&str> = others.iter().map(|(name, _)| name.as_str()).collect();
    match others.is_empty() {
        true => format!("{base} on {}", sets.join(", ")),
        false => format!("{} against {base} on {}", others.join(", "), sets.join(", ")),
    }
}

fn parameters(count: u64) -> String {
    match count as f64 {
        size if size >= 1e9 => format!("{:.1}B parameters", size / 1e9),
        size => format!("{:.1}M parameters", size / 1e6),
    }
}

/// `28 November 2026, tealight study`: when the numbers of a folder were written, or this page where there are none.
pub(super) fn made(folder: &Path, command: &str) -> String {
    let written = folder.join("results.json").symlink_metadata().and_then(|file| file.modified());
    let at = written.unwrap_or_else(|_| SystemTime::now());
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("{}, tealight {command}", date(seconds / 86_400))
}

/// The date of a day since 1 January 1970, by the Gregorian calendar.
fn date(day: u64) -> String {
    // Days from 1 March of the year 0, in cycles of 400 years: leap days come last in such years.
    let (cycle, day) = ((day + 719_468) / 146_097, (day + 719_468) % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let year = 400 * cycle + year + u64::from(month >= 10);
    format!("{of_month} {} {year}", MONTHS[(month as usize + 2) % 12])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_date() {
        let dates = [0, 59, 11_016, 20_785, 47_540].map(date);
        let expected = [
            "1 January 1970",
            "1 March 1970",
            "29 February 2000",
            "28 November 2026",
            "28 February 2100",
        ];
        assert_eq!(dates, expected);
        assert_eq!(parameters(1_012_345), "1.0M parameters");
    }
}
