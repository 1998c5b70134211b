//! A study's report: the filters that it samples with, and forgetting out of the training domain.

use serde_json::Value;

use crate::support::binary::{Folder, refusal, succeeded};
use crate::support::runs::json;

/// A study of seconds, with one objective unless others are named; what it printed.
fn study(output: &str, more: &[&str]) -> String {
    let words = [
        &["study", "--task", "countdown", "--output", output, "--quiet", "--no-greedy"][..],
        &["--objectives", "none"],
        &["--max-steps", "2", "--max-samples", "8", "--max-test-samples", "8", "-n", "8"],
        &["-k", "1,8", "--max-completion-length", "20", "--prompts-per-step", "4"],
        &["--num-generations", "8", "--learning-rate", "1e-3", "--device", "cpu"],
        more,
    ];
    let done = succeeded(&words.concat());
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn filters_of_evaluations_are_reported() {
    let folder = Folder::new();
    // One token is kept at every position, so that all samples of a problem are the same.
    for (name, filters, is_one) in
        [("whole", &[][..], false), ("top", &["--eval-top-k", "1"], true)]
    {
        let output = folder.path(name);
        let printed = study(&output, &[&["--eval-steps", "0"], filters].concat());
        let results = json(format!("{output}/results.json"));
        assert_eq!(results["filters"]["top_k"], if is_one { 1 } else { 0 });
        assert_eq!(results["filters"]["top_p"], 1.0);
        let reported = &results["datasets"][0]["base"]["summary"]["pass@k"];
        assert_eq!(reported["1"]["value"] == reported["8"]["value"], is_one, "{reported}");
        let words = if is_one { "temperature 1, top-k 1." } else { "temperature 1, no filters" };
        for file in ["results.md", "report.html"] {
            let text = std::fs::read_to_string(format!("{output}/{file}")).expect("readable");
            assert!(text.contains(words), "{file}: {text}");
        }
        assert!(printed.contains(words), "{printed}");
    }
}

#[test]
fn forgetting_is_the_mean_change_over_the_sets_out_of_the_domain() {
    let folder = Folder::new();
    let output = folder.path("study");
    let more = ["--ood-dataset", "countdown/test-3,countdown/test-5", "--seeds", "0,1"];
    let printed = study(&output, &more);
    let results = json(format!("{output}/results.json"));
    let base = format!("{output}/base");
    let shown = succeeded(&["show", &base, "--limit", "1"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(":\n  -> "), "a prompt and a completion: {shown}");
    let refused = refusal(&["report", &base]);
    assert!(refused.contains(&format!("`tealight report {output}`")), "{refused}");
    let forgetting = &results["forgetting"];
    assert_eq!(forgetting["sets"], serde_json::json!(["countdown/test-3", "countdown/test-5"]));
    let found = &forgetting["models"][0];
    assert_eq!(found["objective"], "none");
    let sets: Vec<&Value> = results["datasets"]
        .as_array()
        .expect("sets")
        .iter()
        .filter(|set| set["domain"] == "out")
        .collect();
    for (place, k) in [1, 8].into_iter().enumerate() {
        let pass = |run: &Value| {
            run["summary"]["pass@k"][k.to_string()]["value"].as_f64().expect("a number")
        };
        let change = |set: &&Value| {
            let tuned = set["tuned"].as_array().expect("runs");
            assert_eq!(tuned.len(), 2);
            tuned.iter().map(pass).sum::<f64>() / 2.0 - pass(&set["base"])
        };
        let mean = sets.iter().map(change).sum::<f64>() / sets.len() as f64;
        let (at, effect) = (&found["pass@k"][place][0], &found["pass@k"][place][1]);
        let number = |name: &str| effect[name].as_f64().expect("a number");
        assert_eq!(*at, k);
        assert!((number("value") - mean).abs() < 1e-9, "{effect} {mean}");
        assert!(number("low") < number("high") && number("low") >= -1.0, "{effect}");
        assert_eq!(effect["seeds"], 2);
    }
    let title =
        "Forgetting: change from base out of domain, mean of countdown/test-3, countdown/test-5";
    for file in ["results.md", "report.html"] {
        let text = std::fs::read_to_string(format!("{output}/{file}")).expect("readable");
        assert!(text.contains(title), "{file}: {text}");
    }
    assert!(printed.contains(title), "{printed}");
}
