//! `eval --exact`: what probabilities of listed answers say, beside what samples estimate.

use serde_json::Value;

use crate::support::binary::{Folder, ok, refusal};
use crate::support::runs::json;

/// Samples of a problem.
const SAMPLES: f64 = 128.0;

fn summary(dataset: &str, folder: &Folder) -> Value {
    let output = folder.path(&dataset.replace('/', "-"));
    ok(&[
        "eval",
        "--dataset",
        dataset,
        "--max-samples",
        "12",
        "-n",
        "128",
        "-k",
        "1,4,8",
        "--exact",
        "--no-greedy",
        "--quiet",
        "--device",
        "cpu",
        "--output",
        &output,
    ]);
    json(format!("{output}/results.json"))["sets"][0].clone()
}

/// The sampled Pass@k and distinct answers are the exact ones within their noise.
#[test]
fn samples_agree_with_probabilities() {
    let folder = Folder::new();
    let set = summary("countdown/test", &folder);
    let (sampled, exact) = (&set["summary"], &set["summary"]["exact"]);
    assert_eq!((&exact["problems"], &sampled["problems"]), (&12.into(), &12.into()));
    let at = |of: &Value, name: &str, k: &str| {
        of[name][k]["value"].as_f64().unwrap_or_else(|| panic!("no {name} {k}"))
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
fn what_has_no_probabilities_is_refused() {
    let folder = Folder::new();
    let file = folder.write("data.jsonl", "{\"question\": \"1+1?\", \"answer\": \"2\"}\n");
    let said =
        refusal(&["eval", "--dataset", &file, "--exact", "-n", "1", "--no-greedy", "--quiet"]);
    assert!(said.contains("--exact") && said.contains("cannot be listed"), "{said}");
    let said = refusal(&["eval", "--exact", "--top-p", "0.9", "--quiet"]);
    assert!(said.contains("--exact compares whole distributions"), "{said}");
    let said = refusal(&["eval", "--exact", "--engine", "http://127.0.0.1:9", "--quiet"]);
    assert!(said.contains("leave --engine out"), "{said}");
}
