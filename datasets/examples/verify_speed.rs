//! How fast and how strict the math verifier is on a dataset: worked solutions against their own gold
//! answers, and against the next problem's.
//!
//! `cargo run --release -p tealight-datasets --example verify_speed FILE.jsonl GOLD_FIELD SOLUTION_FIELD`

use tealight_datasets::verify::math::{Mode, Outcome, check};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&arguments[1]).expect("readable");
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let field =
        |row: &serde_json::Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let pairs: Vec<(String, String)> =
        rows.iter().map(|row| (field(row, &arguments[2]), field(row, &arguments[3]))).collect();
    let started = std::time::Instant::now();
    let mut wrong = 0;
    for (gold, solution) in &pairs {
        let found = check(gold, solution, Mode::Flexible);
        if found.outcome != Outcome::Correct {
            wrong += 1;
            if wrong <= 25 {
                eprintln!(
                    "{:?} {gold:?} {:?}",
                    found.outcome,
                    found.found.map(|found| found.text.into_owned())
                );
            }
        }
    }
    let rate = pairs.len() as f64 / started.elapsed().as_secs_f64();
    eprintln!("right: {wrong} of {} refused; {rate:.0} pairs/s", pairs.len());
    let started = std::time::Instant::now();
    let mut accepted = 0;
    for index in 0..pairs.len() {
        let gold = &pairs[(index + 1) % pairs.len()].0;
        let found = check(gold, &pairs[index].1, Mode::Flexible);
        if found.outcome == Outcome::Correct && *gold != pairs[index].0 {
            accepted += 1;
            if accepted <= 25 {
                eprintln!(
                    "accepted {gold:?} {:?}",
                    found.found.map(|found| found.text.into_owned())
                );
            }
        }
    }
    let rate = pairs.len() as f64 / started.elapsed().as_secs_f64();
    eprintln!("shifted: {accepted} accepted whose text differs; {rate:.0} pairs/s");
}
