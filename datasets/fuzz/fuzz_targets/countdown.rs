//! Any text as a Countdown answer or problem: judged, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tealight_datasets::verify::countdown::Countdown;
use tealight_core::Prompt;
use tealight_datasets::{Problem, Verifier};

fuzz_target!(|pair: (&str, &str)| {
    let (gold, answer) = pair;
    for gold in ["3,3,8,8=24", gold] {
        let problem = Problem::new("", Prompt::Text(String::new()), gold);
        let _ = Countdown::default().verify(&problem, answer);
    }
});
