//! Any gold answer against any completion: no panic, the same verdict twice, and where the strict rules
//! accept an answer the flexible ones find one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tealight_datasets::verify::math::{Mode, Outcome, check, number, solution};

fuzz_target!(|pair: (&str, &str)| {
    let (gold, answer) = pair;
    let flexible = check(gold, answer, Mode::Flexible);
    let strict = check(gold, answer, Mode::Strict);
    if strict.outcome == Outcome::Correct {
        // A stricter place may hold another answer, but never one where the flexible rules find none.
        assert_ne!(flexible.outcome, Outcome::NoAnswer);
    }
    let _ = (number(answer), solution(answer));
    let again = check(gold, answer, Mode::Flexible);
    assert_eq!(again, flexible, "a verdict depends on nothing but its input");
});
