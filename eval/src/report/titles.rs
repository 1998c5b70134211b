//! What stands at the head of a page: what was compared, on what, when, and by which command.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::DateTime;
use tealight_datasets::SOURCES;

use super::Study;
use crate::number::counted;
use crate::results::Results;
use crate::transition::Aligned;

/// `colouring: 3 objectives x 5 seeds, model tasks (1.0M parameters)`.
pub(super) fn study(study: &Study) -> String {
    // Of a generated task the split is left out; other names are paths, or repositories.
    let name = |name: &str| match name.split_once('/') {
        Some((task, _)) if SOURCES.iter().any(|source| source.name == task) => task.to_owned(),
        _ => name.to_owned(),
    };
    let task = study.reported().map(|set| name(&set.name));
    let task = task.unwrap_or_else(|| "no held-out set".to_owned());
    let seeds = study.seeds().len();
    let by_seeds = if seeds > 1 { format!(" x {}", counted(seeds, "seed")) } else { String::new() };
    let size = study.parameters.map(|count| format!(" ({})", parameters(count)));
    let objectives = counted(study.objectives.len(), "objective");
    format!("{task}: {objectives}{by_seeds}, model {}{}", study.model, size.unwrap_or_default())
}

/// `countdown: grpo, model countdown`, by the settings of a run.
pub(super) fn training(settings: &str, name: &str) -> String {
    let value = |key: &str| {
        let text = settings.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(text.trim_matches('"'))
    };
    match (value("dataset"), value("model")) {
        (Some(dataset), Some(model)) => {
            let how = value("objective").unwrap_or("supervised training");
            format!("{dataset}: {how}, model {model}")
        }
        _ => format!("Training of {name}"),
    }
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
    let at = DateTime::from_timestamp(seconds as i64, 0).unwrap_or_default();
    format!("{}, tealight {command}", at.format("%-d %B %Y"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_page_is_dated_by_its_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("results.json")).unwrap();
        for (day, date) in [
            (0, "1 January 1970"),
            (59, "1 March 1970"),
            (11_016, "29 February 2000"),
            (20_785, "28 November 2026"),
            (47_540, "28 February 2100"),
        ] {
            file.set_modified(UNIX_EPOCH + Duration::from_secs(day * 86_400)).unwrap();
            assert_eq!(made(folder.path(), "eval"), format!("{date}, tealight eval"));
        }
        assert_eq!(parameters(1_012_345), "1.0M parameters");
        let settings = "model = \"tasks\"\ndataset = \"colouring\"\nobjective = \"grpo\"\n";
        assert_eq!(training(settings, "run"), "colouring: grpo, model tasks");
        assert_eq!(training("", "run"), "Training of run");
    }
}
