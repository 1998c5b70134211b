//! The base is held beside the policy only where something reads it, and leaves no trace in a run where nothing does.

use std::path::Path;

use serde_json::Value;

use crate::support::binary::{Folder, command, printed, stderr_of};
use crate::support::metrics::rows;
use crate::support::processes::weights;
use crate::support::runs::{SMALL, trained};

/// Trains for as long as `more` says, and returns what was said, the final weights, and metrics without times and KL.
fn run(output: &str, more: &str) -> (String, Vec<u8>, Vec<Value>) {
    let done = trained(output, &format!("--max-samples 8 --save-steps 2 {more}"));
    let rows = rows(Path::new(output)).into_iter().map(|mut row| {
        let fields = row.as_object_mut().expect("an object");
        fields.retain(|name, _| !name.contains("time") && !name.starts_with("kl"));
        row
    });
    (stderr_of(&done), weights(output), rows.collect())
}

#[test]
fn a_run_that_does_not_hold_the_base_has_the_bits_of_one_that_does() {
    let folder = Folder::new();
    // Rewards alone; the base's samples beside rollouts, stored before training; those samples alone.
    let stored = "--num-presamples 4";
    let rehearsing = "dph-f:0.3:pef-threshold=0.25:extra-check=false";
    for (objective, more) in [("grpo", ""), (rehearsing, stored), ("rft", stored)] {
        let at = |name: &str| folder.path(&format!("{}-{name}", &objective[..3]));
        let with = |steps: usize, kl: &str| {
            format!("--objective {objective} --max-steps {steps} --log-kl {kl} {more}")
        };
        let with_base = run(&at("held"), &with(4, "all"));
        let alone = run(&at("alone"), &with(4, "off"));
        // Of supervised objectives no KL is logged, so that nothing ever reads the base.
        let holds_base = |stderr: &str| !stderr.contains("only one copy of the weights");
        assert_eq!(holds_base(&with_base.0), objective != "rft", "{}", with_base.0);
        assert!(!holds_base(&alone.0), "{}", alone.0);
        assert!(with_base.1 == alone.1, "{objective}: the same final weights");
        assert_eq!(with_base.2, alone.2, "{objective}: the same metrics");
        assert_eq!(alone.2.len(), 4);
        if objective.starts_with("dph") {
            // Stopped halfway and continued.
            let output = at("continued");
            run(&output, &with(2, "off"));
            let continued = run(&output, &(with(4, "off") + " --resume"));
            assert!(continued.1 == alone.1 && continued.2 == alone.2, "{objective}: continued");
        }
    }
}

/// Megabytes of a part of the memory plan of a dry run.
fn planned(objective: &str, kl: &str, part: &str) -> (f64, String) {
    let text = dry_run(&format!("--objective {objective} --log-kl {kl}"));
    (megabytes(&text, part), text)
}

fn dry_run(more: &str) -> String {
    printed(command!("train --dry-run {SMALL} {more}"))
}

/// Megabytes of a part of a plan.
pub(crate) fn megabytes(text: &str, part: &str) -> f64 {
    let line = text.lines().find(|line| line.trim_start().starts_with(part));
    let line = line.unwrap_or_else(|| panic!("no {part} in {text}"));
    line.split_whitespace().rev().nth(1).expect("a number").parse().expect("a number")
}

#[test]
fn the_plan_counts_rollouts_in_8_bits_beside_the_gradients() {
    let parts = ["rollout: packed", "rollout: keys", "rollout: idle gradients", "step: gradients"];
    let sizes = |text: &str| parts.map(|part| megabytes(text, part));
    let usual = sizes(&dry_run(""));
    let rounded = dry_run("--rollout-dtype int8");
    let [packed, cache, idle, gradients] = sizes(&rounded);
    // Packed in float32, weights are where gradients are in turn; in 8 bits they are beside them.
    assert!(usual[2] < usual[3] / 2.0 && idle == gradients, "{usual:?} {rounded}");
    assert!((0.2..0.4).contains(&(packed / usual[0])), "{usual:?} {rounded}");
    let lasting = ["weights of the base", "weights of the policy", "moments", "activations"];
    let lasting: f64 = lasting.map(|part| megabytes(&rounded, part)).iter().sum();
    let peak = megabytes(&rounded, "at most");
    assert!((peak - lasting - packed - cache - idle).abs() < 1.0, "{rounded}");
}

#[test]
fn the_plan_counts_keys_and_values_of_bfloat16_where_they_are_rounded() {
    let cache = |more: &str| megabytes(&dry_run(more), "rollout: keys");
    let single = cache("");
    let halves = ["--dtype bfloat16", "--rollout-dtype bfloat16"].map(cache);
    // Logits stay float32.
    assert!(
        halves[0] == halves[1] && (0.5..0.99).contains(&(halves[0] / single)),
        "{halves:?} {single}"
    );
    // The base in 8 bits has no matrix of bfloat16.
    assert_eq!(cache("--base-dtype int8 --use-peft --dtype bfloat16"), single);
    assert_eq!(cache("--base-dtype int8 --use-peft"), single);
}

#[test]
fn the_plan_counts_the_base_where_it_is_held() {
    let base = planned("grpo", "estimate", "weights of the base");
    assert!(base.0 > 0.0 && base.1.contains("only --log-kl needs the base"), "{}", base.1);
    let none = planned("grpo", "off", "weights of the base");
    assert!(none.0 == 0.0 && none.1.contains("only one copy of the weights"), "{}", none.1);
    let read = planned("kl-reward:0.1", "off", "weights of the base");
    assert!(read.0 == base.0 && !read.1.contains("only --log-kl needs the base"), "{}", read.1);
    let [all, less] = ["estimate", "off"].map(|kl| planned("grpo", kl, "at most").0);
    assert!((all - less - base.0).abs() < 0.11, "{all} {less} {}", base.0);
}
