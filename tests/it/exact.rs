//! `eval --exact`: what probabilities of listed answers say, beside what samples estimate.

use serde_json::Value;

use crate::support::binary::{Folder, command, ok};
use crate::support::embedded;
use crate::support::runs;

/// Samples of a problem.
const SAMPLES: f64 = 128.0;

/// The sampled Pass@k and distinct answers are the exact ones within their noise.
#[test]
fn samples_agree_with_probabilities() {
    let folder = Folder::new();
    let output = folder.path("eval");
    ok(command!(
        "eval --dataset countdown/test --max-samples 12 -n 128 -k 1,4,8 --exact --no-greedy --quiet --device cpu \
         --output {output}"
    ));
    let sampled = &runs::summary(&output);
    let exact = &sampled["exact"];
    assert_eq!((&exact["problems"], &sampled["problems"]), (&12.into(), &12.into()));
    let at = |summary: &Value, name: &str, k: &str| {
        summary[name][k]["value"].as_f64().unwrap_or_else(|| panic!("no {name} {k}"))
    };
    // The largest standard deviation of a problem's estimate, times the root of n.
    let measures = [
        ("pass@k", "1", 0.5),
        ("pass@k", "8", 1.5),
        ("unique_correct@k", "4", 3.0),
        ("unique_correct@k", "8", 6.0),
    ];
    for (name, k, spread) in measures {
        let (estimate, known) = (at(sampled, name, k), at(exact, name, k));
        let error = spread / (SAMPLES * 12.0).sqrt();
        println!("{name} {k}: sampled {estimate:.4}, exact {known:.4}");
        // Correct answers that are not listed make the exact value smaller, never larger.
        assert!(known < estimate + 4.0 * error, "{name} {k}: {known} {estimate}");
        let unlisted = 0.05 * known.max(1.0);
        assert!(known > estimate - 4.0 * error - unlisted, "{name} {k}: {known} {estimate}");
    }
    // Countdown's problems do not say how many answers they have: coverage is of the listed ones.
    assert!(sampled["coverage@k"]["8"].is_null());
    assert!(at(exact, "coverage@k", "8") > 0.0 && at(exact, "coverage@k", "8") < 1.0);
    assert!(exact["hill_1"]["value"].as_f64() > Some(1.0), "{exact}");
}

#[test]
fn every_eos_token_contributes_probability_once() {
    let folder = Folder::new();
    let exact = |model: &str, set: &str, name: &str, eos: &str| {
        let config =
            format!("{{\"eos_token_id\": {eos}, \"do_sample\": true, \"temperature\": 1.0}}");
        let changed = ("generation_config.json", config.into_bytes());
        let model = embedded::copy_of(model, &folder, name, &[changed]);
        let output = folder.path(&format!("eval-{name}"));
        let fixed = "eval --exact -n 2 -k 1 --no-greedy --quiet";
        ok(command!("{fixed} --dataset {set} --model {model} --output {output}"));
        runs::summary(&output)["exact"].clone()
    };
    let few = "countdown --max-samples 4 --max-completion-length 20";
    assert_eq!(exact("countdown", few, "once", "1"), exact("countdown", few, "twice", "[1, 1]"));
    let correct = |name: &str, eos: &str| {
        let one = "paths/test --max-samples 1 --max-completion-length 24";
        let exact = exact("tasks", one, name, eos);
        exact["pass@k"]["1"]["value"].as_f64().expect("a probability")
    };
    let (one, both) = (correct("one", "1"), correct("two", "[1, 0]"));
    assert!(0.0 < one && one < both, "{one} {both}");
}
