//! Recorded values, in `tests/fixtures/recorded.txt`: with `TEALIGHT_BLESS=1` tests write there what they find.

use std::collections::BTreeMap;
use std::sync::Mutex;

static FILE: Mutex<()> = Mutex::new(());

/// Compares a value with the one that is recorded under `name`; `with` says under what it was found.
pub(crate) fn assert_recorded(name: &str, value: &str, with: &str) {
    let _one_at_a_time = FILE.lock();
    let path = super::root().join("tests/fixtures/recorded.txt");
    let text = std::fs::read_to_string(&path).expect("the recorded values");
    let mut values: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(' ')).collect();
    if std::env::var_os("TEALIGHT_BLESS").is_none() {
        assert_eq!(
            values.get(name),
            Some(&value),
            "{name} with {with}; TEALIGHT_BLESS=1 records it"
        );
    } else if values.insert(name, value) != Some(value) {
        let lines = values.iter().map(|(name, value)| format!("{name} {value}\n"));
        std::fs::write(path, lines.collect::<String>()).expect("written");
    }
}
