//! Any text as a statement or an answer of every task: judged and listed, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tealight_datasets::task::TASKS;
use tealight_datasets::task::judge::Judge;
use tealight_core::Prompt;
use tealight_datasets::{Problem, Verifier};

fuzz_target!(|pair: (&str, &str)| {
    let (statement, answer) = pair;
    for kind in TASKS {
        let problem = Problem::new(
            "",
            Prompt::Text(String::new()),
            format!("{}{statement}", kind.tag),
        );
        let _ = Judge(kind).verify(&problem, answer);
        for listed in (kind.texts)(&problem).unwrap_or_default() {
            assert!(Judge(kind).verify(&problem, &listed).is_correct(), "{listed}");
        }
    }
});
