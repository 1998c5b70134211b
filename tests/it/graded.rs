//! Graded and weighted rewards through the binary: what a run trains on, logs and refuses.
#![cfg(unix)]

use std::path::Path;

use serde_json::Value;

use crate::support::binary::{Folder, command, has, ok, printed, refusal, refused, words};
use crate::support::metrics::{number, rows};
use crate::support::runs::{SHORT, summary};

/// A program that gives the first reward to completions with a plus sign and the second to others.
fn judge(folder: &Folder, [reward, other]: [&str; 2]) -> String {
    let script = format!(
        r#"while read -r line; do n=${{line#*\"request\":}}; n=${{n%%,*}}
        case "${{line#*\"completion\":}}" in *+*) r={reward} ;; *) r={other} ;; esac
        echo "{{\"request\":$n,\"reward\":$r,\"class\":\"c\"}}"; done"#
    );
    format!("program:sh {}", folder.write("judge.sh", script))
}

/// The words of a command, with a verifier of several words in place of `JUDGE`.
pub(crate) fn with<'a>(line: &'a str, program: &'a str) -> Vec<&'a str> {
    words(line).into_iter().map(|word| if word == "JUDGE" { program } else { word }).collect()
}

#[test]
fn the_weighted_mean_is_trained_on_and_each_reward_is_logged() {
    let folder = Folder::new();
    let program = judge(&folder, ["0.75", "0.25"]);
    let output = folder.path("graded");
    let both = "--verifier countdown --verifier JUDGE --reward-weights 0.8,0.2 --objective rloo";
    ok(&with(&format!("train --output {output} {SHORT} {both}"), &program));
    let rows = rows(Path::new(&output));
    assert_eq!(rows.len(), 2);
    for row in &rows {
        let of = |name: &str| number(row, &format!("rewards/{name}/mean"));
        let mean = 0.8 * of("countdown") + 0.2 * of("sh");
        assert!((number(row, "reward") - mean).abs() < 1e-9, "{row}");
        assert!(number(row, "rewards/sh/mean") > 0.2 && number(row, "rewards/sh/std") >= 0.0);
        // No completion earns 1 from both.
        assert_eq!(number(row, "correct_ratio"), 0.0);
    }
    // The settings are read back as they were given, and continue the run.
    let config = folder.path("graded/config.toml");
    has(&printed(command!("train --config {config} --dry-run")), &["reward_weights = [0.8, 0.2]"]);
    let other = "--reward-weights 0.5,0.5 --max-steps 3 --resume";
    let error = refusal(command!("train --config {config} --output {output} {other}"));
    assert!(error.contains("checkpoint") || error.contains("settings"), "{error}");
}

#[test]
fn objectives_of_verdicts_refuse_graded_rewards_or_take_the_threshold() {
    let folder = Folder::new();
    let program = judge(&folder, ["0.75", "0.25"]);
    let both = format!("{SHORT} --verifier countdown --verifier JUDGE");
    for objective in words(
        "maxrl pkpo:2 none:advantage=where(correct,0,-1) unique-at-k:2 dph-js alpha-dpg:0.5 rft",
    ) {
        let line = format!("train --objective {objective} --dry-run {both}");
        let name = objective.split(':').next().unwrap_or_default();
        has(&refusal(&with(&line, &program)), &[name, "--correct-threshold", "rloo"]);
    }
    for objective in words("grpo dr-grpo rloo reinforce kl-full:0.1 remax gpg unlikeliness") {
        ok(&with(&format!("train --objective {objective} --dry-run {both}"), &program));
    }
    let (binary, limit) = (folder.path("binary"), "--correct-threshold 0.1 --objective maxrl");
    ok(&with(&format!("train --output {binary} {limit} {both}"), &program));
    for row in rows(Path::new(&binary)) {
        assert_eq!(row["reward"], row["correct_ratio"], "verdicts are rewards: {row}");
        assert!(number(&row, "rewards/sh/mean") < 1.0, "{row}");
    }
    // One program may grade or not: a run finds out when it does.
    let output = folder.path("late");
    let one = format!("train --objective maxrl --verifier JUDGE --output {output} {SHORT}");
    has(&refusal(&with(&one, &program)), &["--correct-threshold", "problem `"]);
}

#[test]
fn stored_samples_of_the_base_refuse_graded_rewards_or_take_the_threshold() {
    let folder = Folder::new();
    let program = judge(&folder, ["0.75", "0.25"]);
    for objective in ["match:p-beta:forward-kl:stored:beta=0.1", "rft"] {
        let output = folder.path(objective.split(':').next().unwrap_or_default());
        let line =
            format!("train --objective {objective} {SHORT} --verifier JUDGE --output {output}");
        has(&refusal(&with(&line, &program)), &["problem `", "--correct-threshold"]);
        ok(&with(&format!("{line}-limit --correct-threshold 0.2"), &program));
        assert_eq!(rows(Path::new(&format!("{output}-limit"))).len(), 2);
    }
}

#[test]
fn invalid_rewards_stop_the_run_and_name_the_verifier() {
    let folder = Folder::new();
    let rewards = ["2", "-0.5", "NaN", "1e999", "\\\"1\\\"", "null", "[1]"];
    for (index, reward) in rewards.into_iter().enumerate() {
        let output = folder.path(&format!("run{index}"));
        let program = judge(&folder, [reward, reward]);
        let line = format!("train --verifier countdown --verifier JUDGE --output {output} {SHORT}");
        has(&refusal(&with(&line, &program)), &["judge", "could not be judged"]);
    }
}

#[test]
fn the_threshold_decides_what_an_evaluation_counts() {
    let folder = Folder::new();
    let program = judge(&folder, ["0.75", "0.25"]);
    let summary = |name: &str, options: &str| -> Value {
        let output = folder.path(name);
        let few =
            "eval --max-samples 4 -n 4 -k 1 --max-completion-length 20 --no-greedy --device cpu";
        let table =
            printed(&with(&format!("{few} --output {output} --verifier {options}"), &program));
        assert_eq!(table.contains("\nmean reward 0."), options != "countdown", "{table}");
        summary(&output)
    };
    let pass = |summary: &Value| number(&summary["pass@k"]["1"], "value");
    let reward = |summary: &Value| number(&summary["mean_reward"], "value");
    let strict = summary("strict", "JUDGE");
    let half = summary("half", "JUDGE --correct-threshold 0.5");
    let low = summary("low", "JUDGE --correct-threshold 0.25");
    assert_eq!(pass(&strict), 0.0);
    assert!(pass(&half) > 0.0 && pass(&low) >= pass(&half), "{half} {low}");
    // The mean reward is the same whatever the threshold is: 0.75 or 0.25 of what ended by itself.
    assert!(reward(&strict) > 0.0 && reward(&strict) <= 0.75, "{strict}");
    assert_eq!((reward(&strict), reward(&strict)), (reward(&half), reward(&low)));
    let expected = 0.5 * pass(&half) + 0.25 * pass(&low);
    assert!((reward(&half) - expected).abs() < 1e-9, "{half} {low}");
    // Rewards of 0 and 1 have Pass@1 for their mean.
    let binary = summary("binary", "countdown");
    assert_eq!(binary["mean_reward"], Value::Null);
    let (strict, half) = (folder.path("strict"), folder.path("half"));
    refused!("compare {strict} {half}" => "correct_threshold");
}
