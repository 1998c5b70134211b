//! `eval --exact`: what probabilities of listed answers say, beside what samples estimate.

use serde_json::Value;

use crate::support::binary::{Folder, command, ok};
use crate::support::embedded;
use crate::support::runs::json;

/// Samples of a problem.
const SAMPLES: f64 = 128.0;

fn summary(dataset: &str, folder: &Folder) -> Value {
    let output = folder.path(&dataset.replace('/', "-"));
    ok(command!(
        "eval --dataset {dataset} --max-samples 12 -n 128 -k 1,4,8 --exact --no-greedy \
         --quiet --device cpu --output {output}"
    ));
    json(format!("{output}/results.json"))["sets"][0].clone()
}

/// The sampled Pass@k and distinct answers are the exact ones within their noise.
#[test]
fn samples_agree_with_probabilities() {
    let folder = Folder::new();
    let set = summary("countdown/test", &folder);
    let (sampled, exact) = (&set["summary"], &set["summary"]["exact"]);
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
fn a_repeated_eos_token_counts_once() {
    let folder = Folder::new();
    let exact = |name: &str, eos: &str| -> Value {
        let model = copy_of_embedded("countdown", &folder, name, eos);
        let output = folder.path(&format!("eval-{name}"));
        evaluated("countdown", "4", "20", &model, &output)["summary"]["exact"].clone()
    };
    assert_eq!(exact("once", "1"), exact("twice", "[1, 1]"));
}

#[test]
fn every_eos_token_contributes_probability() {
    let folder = Folder::new();
    let correct = |name: &str, eos: &str| {
        let (model, output) =
            (copy_of_embedded("tasks", &folder, name, eos), folder.path(&format!("eval-{name}")));
        let set = evaluated("paths/test", "1", "24", &model, &output);
        set["summary"]["exact"]["pass@k"]["1"]["value"].as_f64().expect("a probability")
    };
    let (one, both) = (correct("one", "1"), correct("two", "[1, 0]"));
    assert!(0.0 < one && one < both, "{one} {both}");
}

/// The result of an exact evaluation of so many problems, with completions of at most so many tokens.
fn evaluated(dataset: &str, problems: &str, longest: &str, model: &str, output: &str) -> Value {
    let fixed = ["eval", "--exact", "-n", "2", "-k", "1", "--no-greedy", "--quiet"];
    let asked =
        ["--dataset", dataset, "--max-samples", problems, "--max-completion-length", longest];
    ok(&[&fixed[..], &asked, &["--model", model, "--output", output]].concat());
    json(format!("{output}/results.json"))["sets"][0].clone()
}

/// A copy of an embedded model whose generation config has this end of sequence.
fn copy_of_embedded(model: &str, folder: &Folder, name: &str, eos: &str) -> String {
    let config = format!("{{\"eos_token_id\": {eos}, \"do_sample\": true, \"temperature\": 1.0}}");
    let changed = ("generation_config.json", config.into_bytes());
    embedded::copy_of(model, folder, name, &[changed])
}
