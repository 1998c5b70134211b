//! Prompt interference: the laboratory's table, and what training logs.

use std::path::Path;

use crate::support::binary::{Folder, refusal, stderr_of, tealight};
use crate::support::metrics::rows;
use crate::support::processes::weights;
use crate::support::runs::train;

#[test]
fn the_laboratory_prints_pairs_and_pass_at_k() {
    let done = tealight(&["lab", "strategies", "--table", "interference", "--json"]);
    assert!(done.status.success(), "{}", stderr_of(&done));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let product = |name: &str| {
        let row = rows.iter().find(|row| row["gradients"][0] == name).expect("a row");
        row["inner_product"].as_f64().expect("a number")
    };
    assert!(product("Pass@2") > 0.0 && product("Pass@64") < 0.0, "{text}");
    let error = refusal(&["lab", "ends", "--table", "interference"]);
    assert!(error.contains("walk or strategies"), "{error}");
}

#[test]
fn runs_log_it_where_asked_and_train_as_without() {
    let folder = Folder::new();
    let objective = ["--objective", "rloo", "--max-samples", "12", "--max-steps", "3"];
    let run = |name: &str, more: &[&str]| {
        let output = folder.path(name);
        let done = train(&output, &[&objective[..], more].concat());
        assert!(done.status.success(), "{}", stderr_of(&done));
        (rows(Path::new(&output)), weights(&output))
    };
    let (plain, without) = run("plain", &[]);
    let (logged, with) = run("logged", &["--log-interference", "2"]);
    assert!(with == without, "logging changes no weight");
    assert!(plain.iter().all(|row| row.get("interference/prompts").is_none()));
    let due: Vec<bool> =
        logged.iter().map(|row| row.get("interference/prompts").is_some()).collect();
    assert_eq!(due, [true, false, true]);
    for row in logged.iter().step_by(2) {
        let prompts = row["interference/prompts"].as_u64().expect("a number");
        assert!(prompts >= 2, "{row}");
        let cosine = row["interference/cosine"].as_f64().expect("a number");
        let negative = row["interference/negative"].as_f64().expect("a share");
        assert!(cosine.abs() <= 1.0 && (0.0..=1.0).contains(&negative), "{row}");
        assert!(row["interference/inner_product"].as_f64().expect("a number").is_finite());
    }
    // Micro-batches of single completions give the same sums.
    let (small, _) = run("small", &["--log-interference", "2", "--micro-batch-tokens", "32"]);
    let inner_product =
        |row: &serde_json::Value| row["interference/inner_product"].as_f64().expect("one");
    let (a, b) = (inner_product(&logged[0]), inner_product(&small[0]));
    assert!((a - b).abs() < 1e-3 * a.abs(), "{a} {b}");
}
