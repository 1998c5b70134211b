//! Graded and weighted rewards through the binary: what a run trains on, logs and refuses.

use std::path::Path;

use serde_json::Value;

use crate::support::binary::{Folder, ok, printed, refusal, stderr_of, stdout_of, tealight};
use crate::support::metrics::{number, rows};
use crate::support::runs::{SHORT, json};

/// A program that gives `reward` to completions with a plus sign and 0.25 to others.
fn judge(folder: &Folder, name: &str, reward: &str) -> String {
    let script = format!(
        r#"while read -r line; do n=${{line#*\"request\":}}; n=${{n%%,*}}
        case "${{line#*\"completion\":}}" in *+*) r={reward} ;; *) r=0.25 ;; esac
        echo "{{\"request\":$n,\"reward\":$r,\"class\":\"c\"}}"; done"#
    );
    format!("program:sh {}", folder.write(name, script))
}

fn train(folder: &Folder, output: &str, options: &[&str]) -> Vec<Value> {
    let output = folder.path(output);
    ok(&[&["train", "--output", &output], &SHORT[..], options].concat());
    rows(Path::new(&output))
}

#[cfg(unix)]
#[test]
fn the_weighted_mean_is_trained_on_and_each_reward_is_logged() {
    let folder = Folder::new();
    let program = judge(&folder, "judge.sh", "0.75");
    let both = ["--verifier", "countdown", "--verifier", &program, "--reward-weights", "0.8,0.2"];
    let rows = train(&folder, "graded", &[&["--objective", "rloo"], &both[..]].concat());
    assert_eq!(rows.len(), 2);
    for row in &rows {
        let parts = [("countdown", 0.8), ("sh", 0.2)];
        let mean: f64 = parts
            .iter()
            .map(|(name, weight)| weight * number(row, &format!("rewards/{name}/mean")))
            .sum();
        assert!((number(row, "reward") - mean).abs() < 1e-9, "{row}");
        assert!(number(row, "rewards/sh/mean") > 0.2 && number(row, "rewards/sh/std") >= 0.0);
        // No completion earns 1 from both.
        assert_eq!(number(row, "correct_ratio"), 0.0);
    }
    // The settings are read back as they were given, and continue the run.
    let config = folder.path("graded/config.toml");
    let shown = printed(&["train", "--config", &config, "--dry-run"]);
    assert!(shown.contains("reward_weights = [0.8, 0.2]"), "{shown}");
    let other = ["--reward-weights", "0.5,0.5", "--max-steps", "3", "--resume"];
    let output = folder.path("graded");
    let refused =
        refusal(&[&["train", "--config", &config, "--output", &output], &other[..]].concat());
    assert!(refused.contains("checkpoint") || refused.contains("settings"), "{refused}");
}

#[cfg(unix)]
#[test]
fn objectives_of_verdicts_refuse_graded_rewards_or_take_the_threshold() {
    let folder = Folder::new();
    let program = judge(&folder, "judge.sh", "0.75");
    let both = ["--verifier", "countdown", "--verifier", &program];
    for objective in [
        "maxrl",
        "pkpo:2",
        "none:advantage=where(correct,0,-1)",
        "unique-at-k:2",
        "dph-js",
        "alpha-dpg:0.5",
        "rft",
    ] {
        let arguments =
            [&["train", "--objective", objective, "--dry-run"], &SHORT[..], &both].concat();
        let error = refusal(&arguments);
        let words =
            [objective.split(':').next().unwrap_or_default(), "--correct-threshold", "rloo"];
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    for objective in
        ["grpo", "dr-grpo", "rloo", "reinforce", "kl-full:0.1", "remax", "gpg", "unlikeliness"]
    {
        let arguments =
            [&["train", "--objective", objective, "--dry-run"], &SHORT[..], &both].concat();
        assert!(tealight(&arguments).status.success(), "{objective}");
    }
    let limit = ["--correct-threshold", "0.1", "--objective", "maxrl"];
    for row in train(&folder, "binary", &[&limit[..], &both].concat()) {
        assert_eq!(row["reward"], row["correct_ratio"], "verdicts are rewards: {row}");
        assert!(number(&row, "rewards/sh/mean") < 1.0, "{row}");
    }
    // One program may grade or not: a run finds out when it does.
    let output = folder.path("late");
    let one = ["train", "--objective", "maxrl", "--verifier", &program, "--output", &output];
    let error = refusal(&[&one[..], &SHORT].concat());
    assert!(error.contains("--correct-threshold") && error.contains("problem `"), "{error}");
}

#[cfg(unix)]
#[test]
fn stored_samples_of_the_base_refuse_graded_rewards_or_take_the_threshold() {
    let folder = Folder::new();
    let program = judge(&folder, "judge.sh", "0.75");
    let by = ["--verifier", &program];
    for objective in ["match:p-beta:forward-kl:stored:beta=0.1", "rft"] {
        let name = objective.split(':').next().unwrap_or_default();
        let output = folder.path(name);
        let run = ["train", "--objective", objective, "--output", &output];
        let error = refusal(&[&run[..], &SHORT, &by].concat());
        assert!(error.contains("problem `") && error.contains("--correct-threshold"), "{error}");
        let rows = train(
            &folder,
            &format!("{name}-limit"),
            &[&["--objective", objective, "--correct-threshold", "0.2"], &by[..]].concat(),
        );
        assert_eq!(rows.len(), 2);
    }
}

#[cfg(unix)]
#[test]
fn invalid_rewards_stop_the_run_and_name_the_verifier() {
    let folder = Folder::new();
    for (index, reward) in
        ["2", "-0.5", "NaN", "1e999", "\\\"1\\\"", "null", "[1]"].into_iter().enumerate()
    {
        let program = judge(&folder, &format!("judge{index}.sh"), reward).replace("0.25", reward);
        let script = folder.path(&format!("judge{index}.sh"));
        let text = std::fs::read_to_string(&script)
            .expect("a script")
            .replace("r=0.25", &format!("r={reward}"));
        std::fs::write(&script, text).expect("written");
        let output = folder.path(&format!("run{index}"));
        let options =
            ["train", "--verifier", "countdown", "--verifier", &program, "--output", &output];
        let error = refusal(&[&options[..], &SHORT].concat());
        assert!(
            error.contains("judge") && error.contains("could not be judged"),
            "{reward}: {error}"
        );
    }
}

#[cfg(unix)]
#[test]
fn the_threshold_decides_what_an_evaluation_counts() {
    let folder = Folder::new();
    let program = judge(&folder, "judge.sh", "0.75");
    let summary = |name: &str, options: &[&str]| -> Value {
        let output = folder.path(name);
        let fixed =
            ["eval", "--max-samples", "4", "-n", "4", "-k", "1", "--max-completion-length", "20"];
        let fixed = [&fixed[..], &["--no-greedy", "--device", "cpu", "--output", &output]].concat();
        let done = tealight(&[&fixed[..], options].concat());
        let table = stdout_of(&done);
        let is_graded = !options.contains(&"countdown");
        assert_eq!(table.contains("\nmean reward 0."), is_graded, "{table}{}", stderr_of(&done));
        json(format!("{output}/results.json"))["sets"][0]["summary"].clone()
    };
    let pass = |summary: &Value| number(&summary["pass@k"]["1"], "value");
    let reward = |summary: &Value| number(&summary["mean_reward"], "value");
    let strict = summary("strict", &["--verifier", &program]);
    let half = summary("half", &["--verifier", &program, "--correct-threshold", "0.5"]);
    let low = summary("low", &["--verifier", &program, "--correct-threshold", "0.25"]);
    assert_eq!(pass(&strict), 0.0);
    assert!(pass(&half) > 0.0 && pass(&low) >= pass(&half), "{half} {low}");
    // The mean reward is the same whatever the threshold is: 0.75 or 0.25 of what ended by itself.
    assert!(reward(&strict) > 0.0 && reward(&strict) <= 0.75, "{strict}");
    assert_eq!((reward(&strict), reward(&strict)), (reward(&half), reward(&low)));
    let expected = 0.5 * pass(&half) + 0.25 * pass(&low);
    assert!((reward(&half) - expected).abs() < 1e-9, "{half} {low}");
    // Rewards of 0 and 1 have Pass@1 for their mean.
    let binary = summary("binary", &["--verifier", "countdown"]);
    assert_eq!(binary["mean_reward"], Value::Null);
    let (strict, half) = (folder.path("strict"), folder.path("half"));
    let done = tealight(&["compare", &strict, &half]);
    assert!(
        !done.status.success() && stderr_of(&done).contains("correct_threshold"),
        "{}",
        stderr_of(&done)
    );
}
