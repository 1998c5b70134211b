//! Pass@k with 95 % intervals over problems, from a file of verdicts: a JSON object a line, such as
//! `{"problem": "a", "is_correct": true}`.
//!
//! `cargo run --release -p tealight-eval --example pass_at_k [FILE.jsonl]`

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use tealight_eval::interval;
use tealight_eval::pass_at_k::pass_at_k;

#[derive(Deserialize)]
struct Verdict {
    problem: String,
    is_correct: bool,
}

fn main() -> Result<()> {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/verdicts.jsonl");
    let file = std::env::args().nth(1).unwrap_or_else(|| sample.into());
    let text = std::fs::read_to_string(&file).with_context(|| file.clone())?;

    // Samples and correct samples of each problem.
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let verdict: Verdict =
            serde_json::from_str(line).with_context(|| format!("{file}:{}", number + 1))?;
        let (samples, correct) = counts.entry(verdict.problem).or_default();
        *samples += 1;
        *correct += usize::from(verdict.is_correct);
    }

    let fewest = counts.values().map(|(samples, _)| *samples).min().context("no verdict")?;
    for k in [1, 2, 4, 8, 16, 32, 64].into_iter().filter(|k| *k <= fewest) {
        // Unbiased: the chance that one of k samples, drawn from all of a problem's without replacement, is correct.
        let of_problems: Vec<f64> =
            counts.values().map(|(samples, correct)| pass_at_k(*samples, *correct, k)).collect();
        let pass = interval::share(&of_problems);
        println!("pass@{k:<3} {:.3} ({:.3} to {:.3})", pass.value, pass.low, pass.high);
    }
    Ok(())
}
