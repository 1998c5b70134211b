//! `--prompt-allocation`: a rule goes by the run's own pass rates, through checkpoints.

use std::path::Path;

use crate::support::binary::{Folder, ok, words};
use crate::support::metrics::rows;
use crate::support::processes::rewards;

fn train([prompts, problems]: [&str; 2], more: &[&str]) {
    let run = words(
        "train --objective rloo --num-generations 4 --max-completion-length 16 --learning-rate \
         1e-4",
    );
    let sizes = ["--prompts-per-step", prompts, "--max-samples", problems];
    ok(&[&run[..], &sizes, more].concat());
}

fn few(rule: &str, steps: &str, more: &[&str]) {
    let rule = ["--prompt-allocation", rule, "--max-steps", steps];
    train(["3", "12"], &[&rule, more].concat());
}

#[test]
fn an_adaptive_run_is_the_same_resumed() {
    let folder = Folder::new();
    let [whole, cut, uniform] = ["whole", "cut", "uniform"].map(|name| folder.path(name));
    few("thompson", "6", &["--output", &whole]);
    few("thompson", "3", &["--output", &cut, "--save-steps", "3"]);
    few("thompson", "6", &["--output", &cut, "--save-steps", "3", "--resume"]);
    assert_eq!(rows(Path::new(&whole)), rows(Path::new(&cut)));
    few("uniform", "6", &["--output", &uniform]);
    assert_ne!(rewards(&whole), rewards(&uniform), "the rule changes which prompts are sampled");
}

#[test]
fn pass_rates_are_logged_and_a_rule_moves_them() {
    let folder = Folder::new();
    let shares = |rule: &str| -> f64 {
        let output = folder.path(&rule.replace(':', "-"));
        let more = ["--prompt-allocation", rule, "--max-steps", "16", "--output", &output];
        train(["6", "36"], &more);
        let rows = rows(Path::new(&output));
        for row in &rows {
            let names = ["0", "0-33", "33-67", "67-100", "100"];
            let share = |name| row[format!("pass_rate/{name}")].as_f64().expect("a share");
            let sum: f64 = names.map(share).iter().sum();
            assert!((sum - 1.0).abs() < 1e-12, "every group has a pass rate");
        }
        // After every prompt was seen once.
        rows[6..].iter().map(|row| row["pass_rate/0"].as_f64().expect("a share")).sum()
    };
    let (unsolved, banded) = (shares("band:0:0"), shares("band:0.2:1"));
    assert!(unsolved > banded, "{unsolved} and {banded} steps' worth of unsolved groups");
}
