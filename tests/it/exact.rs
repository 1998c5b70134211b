//! `eval --exact`: what probabilities of listed answers say, beside what samples estimate.

use serde_json::Value;

use crate::support::binary::{Folder, ok, refusal};
use crate::support::runs::json;

/// Samples of a problem.
const SAMPLES: f64 = 256.0;

fn summary(dataset: &str, folder: &Folder) -> Value {
    let output = folder.path(&dataset.replace('/', "-"));
    ok(&[
        "eval",
        "--dataset",
        dataset,
        "--max-samples",
        "12",
        "-n",
        "256",
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

/// On several tasks the sampled Pass@k, distinct answers and coverage are the exact ones within their noise.
#[test]
fn samples_agree_with_probabilities() {
    let folder = Folder::new();
    for dataset in ["countdown/test", "walk/test", "colouring/test"] {
        let set = summary(dataset, &folder);
        let (sampled, exact) = (&set["summary"], &set["summary"]["exact"]);
        let problems = exact["problems"].as_u64().expect("a number");
        assert_eq!(problems, sampled["problems"].as_u64().expect("a number"), "{dataset}");
        let at = |of: &Value, name: &str, k: &str| {
            of[name][k]["value"].as_f64().unwrap_or_else(|| panic!("{dataset}: no {name} {k}"))
        };
        for (name, k, spread) in [
            // The largest standard deviation of a problem's estimate, times the root of n.
            ("pass@k", "1", 0.5),
            ("pass@k", "8", 1.5),
            ("unique_correct@k", "4", 3.0),
            ("unique_correct@k", "8", 6.0),
            ("coverage@k", "8", 1.5),
        ] {
            let (estimate, known) = (at(sampled, name, k), at(exact, name, k));
            let error = spread / (SAMPLES * problems as f64).sqrt();
            println!("{dataset} {name} {k}: sampled {estimate:.4}, exact {known:.4}");
            // Correct answers that are not listed make the exact value smaller, never larger.
            assert!(known < estimate + 4.0 * error, "{dataset} {name} {k}: {known} {estimate}");
            let unlisted = 0.05 * known.max(1.0);
            assert!(known > estimate - 4.0 * error - unlisted, "{dataset} {name} {k}");
        }
        let listed = at(exact, "pass@k", "1");
        let mass = set["problems"].as_array().expect("problems").len() as f64;
        assert!(listed > 0.02 && mass == 12.0, "{dataset}: {listed}");
    }
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
