//! `tealight gap`: a run's objective, exactly, beside the best that its model class is known to reach.

use serde_json::Value;

use crate::support::binary::{Folder, command, ok, printed, refused};
use crate::support::metrics::number;
use crate::support::runs::{json, summary, trained};

/// A run of a few steps on two problems with 32 outputs each.
const SAT: &str = "--model tasks --dataset sat/train --max-samples 2 --max-steps 4 --save-steps 2";

/// The gaps are at least 0, add up to the distance from p_beta, and the measures are those of `eval --exact`.
#[test]
fn gaps_add_up_and_agree_with_an_exact_evaluation() {
    let folder = Folder::new();
    let (run, gap, model) = (folder.path("run"), folder.path("gap"), folder.path("run/final"));
    trained(&run, &format!("{SAT} --objective reverse-kl:0.1"));
    let line = format!("gap {run} --projection-steps 60 --ascent-steps 10 --output {gap} --quiet");
    let table = printed(command!("{line} --ascent-from run,projection,base,run"));
    assert!(table.contains("misspecification gap") && table.contains("checkpoint-2"), "{table}");
    let found = json(format!("{gap}/gap.json"));
    let rows = found["rows"].as_array().expect("rows");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["policy"].as_str()).collect();
    // Each once.
    let ascents = ["ascent from base", "ascent from run", "ascent from projection"];
    let first = ["base", "checkpoint-2", "checkpoint-4", "run", "projection"];
    assert_eq!(names, [&first[..], &ascents].concat());
    let row = |name: &str| rows.iter().find(|row| row["policy"] == name).expect("a row");
    let top = rows.iter().map(|row| number(row, "objective")).fold(f64::NEG_INFINITY, f64::max);
    let (p_beta, of_run) = (number(&found["p_beta"], "objective"), number(row("run"), "objective"));
    assert!((number(&found, "misspecification_gap") - (p_beta - top)).abs() < 1e-12);
    assert!((number(&found, "optimisation_gap") - (top - of_run)).abs() < 1e-12);
    assert!(p_beta > top && number(&found, "optimisation_gap") >= 0.0, "{found}");
    // J is what it says, and the end of the run is its last checkpoint.
    for row in rows {
        let value = number(row, "validity") - 0.1 * number(row, "kl_base");
        assert!((number(row, "objective") - value).abs() < 1e-12, "{row}");
    }
    assert_eq!(row("run")["objective"], row("checkpoint-4")["objective"]);
    // The base is at no distance from itself, and at -log A from p*.
    assert!(number(row("base"), "kl_base").abs() < 1e-9);
    let limit = number(&found["p_beta"], "kl_pstar") + number(&found["p_beta"], "kl_base");
    assert!((number(row("base"), "kl_pstar") - limit).abs() < 0.02, "{found}");
    // With 60 exact steps the projection is nearer to p* than the base, and an ascent from there loses nothing.
    let kl_pstar = |name: &str| number(row(name), "kl_pstar");
    assert!(kl_pstar("projection") < 0.5 * kl_pstar("base"), "{found}");
    assert!(number(row("ascent from projection"), "objective") > number(row("base"), "objective"));
    let eval = folder.path("eval");
    ok(command!(
        "eval --model {model} --dataset sat/train --max-samples 2 --exact -n 2 -k 1 --no-greedy --quiet --output {eval}"
    ));
    let exact = summary(&eval)["exact"].clone();
    let of_eval = exact["pass@k"]["1"]["value"].as_f64().expect("Pass@1");
    assert!((number(row("run"), "validity") - of_eval).abs() < 1e-5);
    let answers = exact["hill_1"]["value"].as_f64().expect("answers");
    assert!((number(row("run"), "effective_answers") - answers).abs() < 1e-3 * answers);
}

/// A run that starts at the projection is measured against the base all the same.
#[test]
fn an_initial_policy_leaves_the_base_where_it_is() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    let (first, gap, second) = (path("first"), path("gap"), path("second"));
    trained(&first, &format!("{SAT} --objective reverse-kl:0.1"));
    ok(command!("gap {first} --projection-steps 60 --ascent-steps 0 --output {gap} --quiet"));
    // A learning rate of next to nothing: the run stays where it starts.
    let start = format!("--initial-policy {gap}/projection --learning-rate 1e-12 --device cpu");
    let line = format!("train {SAT} --objective reverse-kl:0.1 --max-completion-length 20 {start}");
    ok(command!("{line} --quiet --output {second}"));
    let again = path("again");
    ok(command!("gap {second} --projection-steps 1 --ascent-steps 0 --output {again} --quiet"));
    let row = |folder: &str, name: &str| -> Value {
        let rows = json(format!("{folder}/gap.json"))["rows"].clone();
        let row = rows.as_array().expect("rows").iter().find(|row| row["policy"] == name).cloned();
        row.expect("a row")
    };
    let (projection, run) = (row(&gap, "projection"), row(&again, "run"));
    for name in ["objective", "kl_base", "kl_pstar"] {
        let (a, b) = (number(&projection, name), number(&run, name));
        assert!((a - b).abs() < 1e-4, "{name}: {a} {b}");
    }
    // The run itself logs the KL to the base, which is not 0 at its first step.
    let metrics = std::fs::read_to_string(format!("{second}/metrics.jsonl")).expect("metrics");
    let line: Value = serde_json::from_str(metrics.lines().next().expect("a step")).expect("JSON");
    let kl = number(&line, "kl");
    assert!((kl - number(&run, "kl_base")).abs() < 0.5 && kl > 0.1, "{kl} {run}");
}

#[test]
fn gap_replaces_only_its_own_results() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    let (run, gap) = (path("run"), path("gap"));
    trained(&run, &format!("{SAT} --objective reverse-kl:0.1"));
    let line = format!("gap {run} --projection-steps 2 --ascent-steps 0");
    let log = ok(command!("{line} --output {gap}"));
    assert!(log.contains(&format!("gap.json and projection in {gap}")), "{log}");
    refused!("{line} --output {gap}" => "gap.json", "--overwrite");
    folder.write("gap/notes.txt", "mine");
    let none = format!("gap {run} --projection-steps 0 --ascent-steps 0");
    ok(command!("{none} --output {gap} --overwrite --quiet"));
    let left = |name: &str| std::path::Path::new(&gap).join(name).exists();
    assert!(left("gap.json") && left("notes.txt") && !left("projection"));
    let rows = json(format!("{gap}/gap.json"))["rows"].to_string();
    assert!(rows.contains("checkpoint-4") && !rows.contains("projection"), "{rows}");
}

#[test]
fn gap_refuses_what_it_cannot_compute() {
    let folder = Folder::new();
    let run = folder.path("run");
    // GRPO divides rewards by a standard deviation: it has no J of its own, but it can be compared with one.
    trained(&run, &format!("{SAT} --objective grpo"));
    refused!("gap {run} --quiet" => "`grpo`", "--beta");
    let few = "--projection-steps 2 --ascent-steps 0 --quiet --json";
    let found: Value = printed(command!("gap {run} --beta 0 {few}")).parse().expect("JSON");
    assert_eq!(number(&found["p_beta"], "objective"), 1.0);
    for (dataset, message) in
        [("countdown/train", "cannot be listed"), ("paths/train", "too many to list")]
    {
        let run = folder.path(&dataset.replace('/', "-"));
        let line = "--model tasks --max-samples 2 --max-steps 1 --objective rloo";
        trained(&run, &format!("{line} --dataset {dataset}"));
        refused!("gap {run} --quiet" => message, "colouring");
    }
    // A folder may not bring a model of this machine.
    let other = folder.path("other");
    let line = format!("--model {run}/final --dataset sat/train --max-samples 2 --max-steps 1");
    trained(&other, &line);
    refused!("gap {other} --beta 0.1 --quiet" => "repeat it: --model");
}
