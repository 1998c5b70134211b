//! Objectives that users write: formulas and rules as named ones, resumed in the same bits, shown and proven.

use std::path::Path;

use tealight::learn::objective::{self, Divergence, Objective};

use crate::support::binary::{Folder, command, has, ok, printed, refused};
use crate::support::processes::weights;

const RUN: &str = "train --max-samples 8 --num-generations 4 --prompts-per-step 4 --max-steps 4 --learning-rate 1e-3 \
                   --quiet";

fn train(objective: &str, output: &str, more: &str) {
    ok(command!("{RUN} {more} --output {output} --objective {objective}"));
}

/// The largest difference of two models' weights.
fn apart(one: &str, other: &str) -> f64 {
    crate::ranks::apart(Path::new(one), Path::new(other), "model.safetensors")
}

#[test]
fn a_formula_of_a_named_divergence_trains_to_its_weights_and_resumes_in_the_same_bits() {
    let folder = Folder::new();
    let [named, formula, half, none] =
        ["named", "formula", "half", "none"].map(|run| folder.path(run));
    let text = "kl-full:0.1:divergence=f=t*log(t)+5";
    train("kl-full:0.1", &named, "");
    train(text, &formula, "");
    train("rloo:trust-region=ppo", &none, "");
    let (gap, whole) = (apart(&named, &formula), apart(&named, &none));
    assert!(gap < 1e-5 && gap < 0.02 * whole, "{gap} beside {whole}");
    // Again from the checkpoint in the middle, whose folder sets the objective.
    train(text, &half, "--save-steps 2");
    std::fs::remove_dir_all(Path::new(&half).join("final")).expect("a finished run");
    ok(command!("train --resume {half}/checkpoint-2 --quiet"));
    assert_eq!(weights(&formula), weights(&half));
}

const FUNCTIONS: &str = "\
def centred(r, n):
    return [one - sum(r) / n for one in r]

def short(r):
    return r[1:]
";

/// A function of the user's is the text that says the same, resumes in the same bits, and runs only where the command
/// line names it.
#[cfg(unix)]
#[test]
fn a_function_gives_advantages_where_the_command_line_names_it() {
    let folder = Folder::new();
    let file = folder.write("rule.py", FUNCTIONS);
    let objective = format!("grpo:advantage=python:timeout=60:{file}:centred");
    let [text, function, half] = ["text", "function", "half"].map(|run| folder.path(run));
    train("grpo:advantage=r-mean(r)", &text, "");
    train(&objective, &function, "");
    assert_eq!(weights(&text), weights(&function));
    train(&objective, &half, "--save-steps 2");
    std::fs::remove_dir_all(Path::new(&half).join("final")).expect("a finished run");
    let resume = format!("train --quiet --resume {half}/checkpoint-2");
    refused!("{resume}" => "--objective", ":centred");
    ok(command!("{resume} --objective {objective}"));
    assert_eq!(weights(&function), weights(&half));
    let proof = printed(command!("lab --prove {objective}"));
    assert!(proof.contains("relative error of 0.250"), "{proof}");
    let short = objective.replace("centred", "short");
    refused!(
        "train --output {} --objective {short}", folder.path("short")
        => "rule.py:short`", "returned 7 numbers for 8 samples", "a group of 8 samples"
    );
}

#[test]
fn objectives_are_shown_with_what_they_run_and_proven() {
    has(
        &printed("objectives divergence:f=3*t*log(t)+1"),
        &["It equals 3 times reverse-kl.", "f(1) = 1.000000", "Mode-seeking", "r - mean_others(r)"],
    );
    has(&printed("objectives grpo"), &["(r - mean(r)) / (std(r) + 1e-6)"]);
    has(&printed("objectives pkpo:8"), &["where k = 8"]);
    let own = printed(&["objectives", "grpo:advantage=r  -mean( r)"]);
    assert!(own.contains("\n  r -mean( r)\n"), "blanks stay as they were written: {own}");
    let proof = printed("lab --prove rloo --num-generations 2");
    has(&proof, &["Unbiased for E[v]", "effective number of correct answers"]);
    let proof = printed("lab --prove grpo:advantage=r-mean(r) --json");
    has(&proof, &["\"is_unbiased\":false"]);
}

/// Every objective as a row: what it optimises, the advantage, the average over tokens, and updates on a batch.
fn markdown() -> String {
    let mut text =
        "| objective | optimises | advantage | loss | updates |\n|---|---|---|---|--:|\n"
            .to_owned();
    for described in objective::kinds().flat_map(|(_, _, all)| all) {
        // A target that needs a beta is shown by its name.
        let plan = described.name.parse::<Objective>().expect("a name").plan;
        let advantage = match plan.advantage() {
            _ if !plan.is_on_policy() => "no rollouts".to_owned(),
            Some(rule) => format!("`{rule}`"),
            None if plan.matching().is_some() => "pseudo-reward `-f'(pi / p)`".to_owned(),
            None => format!("baseline `{}`", described.value("baseline").unwrap_or("none")),
        };
        text.push_str(&format!(
            "| `{}` | {} | {advantage} | `{}` | {} |\n",
            described.usage,
            described.about.replace('|', "\\|"),
            described.value("loss-type").unwrap_or("dapo"),
            plan.updates()
        ));
    }
    text
}

#[test]
fn the_table_of_objectives_is_the_program_s() {
    let (docs, table) = (include_str!("../../docs/objectives.md"), markdown());
    assert!(docs.contains(table.trim()), "the table of docs/objectives.md:\n{table}");
    for name in Divergence::names() {
        let formula = name.parse::<Divergence>().expect("a name").formula();
        let mut rows = docs.lines().filter(|line| line.starts_with(&format!("| `{name}` |")));
        assert!(rows.any(|row| row.contains(&format!("| `{formula}` |"))), "{name}: {formula}");
    }
}
