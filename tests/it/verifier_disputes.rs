//! `tealight verify --audit`: disagreements by kind, rates from labels, labels asked for.

use crate::support::binary::{Folder, has, printed, refused, stderr_of};

fn pairs(labelled: bool) -> String {
    let mut text = String::new();
    for index in 0..40 {
        // Spelled otherwise, so that `exact` refuses it; every tenth answer is wrong.
        let (gold, answer) = (index, if index % 10 == 0 { index + 1 } else { index });
        let answer = if index % 2 == 0 { format!("{answer}.0") } else { answer.to_string() };
        let label =
            if labelled { format!(", \"label\": {}", index % 10 != 0) } else { String::new() };
        text += &format!("{{\"gold\": {gold}, \"answer\": \"{answer}\"{label}}}\n\n");
    }
    text
}

#[test]
fn disagreements_are_listed_and_rates_estimated() {
    let folder = Folder::new();
    let file = folder.write("pairs.jsonl", pairs(true));
    let found = printed(&["verify", "--audit", &file, "--against", "exact"]);
    assert!(found.contains("40 pairs; math accepts 36"), "{found}");
    assert!(found.contains("16 disagreements with exact"), "{found}");
    has(&found, &["16 of gold answers that are a number: math says correct, exact wrong"]);
    assert!(found.contains("by 40 labels"), "{found}");
    has(&found, &["(accepted among incorrect)  0.0000, 95 % interval 0.0000 to "]);
    // The other way round: 16 of 36 correct answers are rejected.
    let other = printed(&["verify", "--audit", &file, "--verifier", "exact"]);
    assert!(other.contains("(rejected among correct)    0.4444"), "{other}");
    assert!(other.contains("policy gradient to 0.5556"), "{other}");
}

#[test]
fn another_programs_verdicts_come_as_csv() {
    let folder = Folder::new();
    let file = folder.write("pairs.jsonl", pairs(false));
    let lines: Vec<String> =
        (0..40).map(|index| format!("{},{}", 2 * index + 1, index != 7)).collect();
    let csv = folder.write("other.csv", format!("line,correct\n{}\n", lines.join("\n")));
    let found = printed(&["verify", "--audit", &file, "--against", &csv]);
    has(&found, &["5 disagreements", "line 15: gold `7`, answer `7`"]);
    assert!(found.contains("0 labels. Rates need a label in every group"), "{found}");
    for (rows, why) in [
        ("1,true\n3,false\n1,false\n", "line 1 is there twice"),
        ("1,true\n2,true\n", "line 2 is no pair"),
        ("99,true\n", "line 99 is no pair"),
    ] {
        let csv = folder.write("wrong.csv", format!("line,correct\n{rows}"));
        refused!("verify --audit {file} --against {csv}" => "wrong.csv", why);
    }
    let labels = folder.write("pairs.jsonl.labels.csv", "line,label\n98,true\n");
    refused!("verify --audit {file}" => "labels.csv: line 98 is no pair");
    std::fs::remove_file(labels).expect("removed");
    let short = folder.write("short.csv", "correct\ntrue\n");
    refused!("verify --audit {file} --against {short}" => "1 rows for 40 pairs");
}

#[test]
fn labels_are_requested_where_most_informative_and_saved() {
    let folder = Folder::new();
    let file = folder.write("pairs.jsonl", pairs(false));
    let ask = |answers: &str| {
        let mut command = assert_cmd::Command::cargo_bin("tealight").expect("the binary");
        let arguments = ["verify", "--audit", &file, "--against", "exact", "--label"];
        let done = command.args(arguments).write_stdin(answers.to_owned()).output().expect("runs");
        assert!(done.status.success(), "{}", stderr_of(&done));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let found = ask("y\nwhat\nn\ny\ns\nq\n");
    // Pairs in dispute come first, then one of each group.
    let first = found.find("answer  ").map(|at| found[at..].lines().next().unwrap_or_default());
    assert!(first.is_some_and(|line| line.ends_with(".0")), "{found}");
    assert!(found.contains("1 of 40") && found.contains("5 of 40"), "{found}");
    let labels = std::fs::read_to_string(folder.path("pairs.jsonl.labels.csv")).expect("kept");
    assert_eq!(labels.lines().count(), 4, "{labels}");
    let again = ask("");
    assert!(again.contains("1 of 37") && again.contains("by 3 labels"), "{again}");
}

#[cfg(unix)]
#[test]
fn labels_are_not_written_through_a_link() {
    let folder = Folder::new();
    let file = folder.write("pairs.jsonl", pairs(false));
    let victim = folder.write("victim.csv", "line,label\n");
    std::os::unix::fs::symlink(&victim, folder.path("pairs.jsonl.labels.csv")).expect("a link");
    refused!("verify --audit {file} --label" => "labels.csv: a link");
    assert_eq!(std::fs::read_to_string(&victim).expect("there"), "line,label\n");
}
