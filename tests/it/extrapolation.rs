//! `--extrapolate`: Pass@k at more tries than were sampled, in the table and the results, from samples of any engine.

use serde_json::Value;

use crate::support::binary::{Folder, ok, refusal, tealight, words};

#[test]
fn an_evaluation_and_a_grading_extrapolate_alike() {
    let folder = Folder::new();
    let (output, graded) = (folder.path("eval"), folder.path("graded"));
    let eval = format!(
        "eval --dataset countdown/test -n 8 -k 1,8 --max-samples 20 --max-completion-length 16 \
         --no-greedy --extrapolate 8,64 --quiet --output {output}"
    );
    let eval = words(&eval);
    let done = tealight(&eval);
    let stdout = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && stdout.contains("pass@64, extrapolated: "), "{stdout}");
    assert!(
        stdout.contains("check of the extrapolation: 4 samples a problem predict pass@8"),
        "{stdout}"
    );
    let results = |folder: &str| -> Value {
        let text = std::fs::read_to_string(format!("{folder}/results.json")).expect("results");
        serde_json::from_str(&text).expect("JSON")
    };
    let found = results(&output)["sets"][0]["summary"].clone();
    let at = |k: &str| found["extrapolation"]["pass@k"][k]["value"].as_f64().expect("a number");
    assert!(at("8") < at("64") && at("64") <= 1.0);
    assert!((at("8") - found["pass@k"]["8"]["value"].as_f64().expect("a number")).abs() < 0.1);
    let page = std::fs::read_to_string(format!("{output}/report.html")).expect("a report");
    for words in ["Pass@k, extrapolated, countdown/test", "check: predicted", "\"pass@64\""] {
        assert!(page.contains(words), "the report lacks {words}");
    }
    let samples = format!("{output}/samples/countdown-test.jsonl");
    let grade = ["grade", &samples, "--dataset", "countdown/test", "--extrapolate", "8,64"];
    ok(&[&grade[..], &["--quiet", "--output", &graded]].concat());
    let again = results(&graded)["sets"][0]["summary"]["extrapolation"].clone();
    assert_eq!(found["extrapolation"], again);
    assert!(refusal(&["eval", "--extrapolate", "0"]).contains("extrapolate must be at least 1"));
}
