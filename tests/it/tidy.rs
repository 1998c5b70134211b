//! Rules of the codebase that no compiler checks: who may import whom, how long a file may be.

use std::path::{Path, PathBuf};

const MAX_LINES: usize = 400;
/// Of comments and code; a string literal may be longer.
const MAX_WIDTH: usize = 120;

/// Module and what its files must never name; `ARCHITECTURE.md` gives the reasons.
const FORBIDDEN: [(&str, &[&str]); 21] = [
    // A sort of a vocabulary does not fit a block's shared memory; a device of one's own has a stream of one's own, and
    // a flag of the process sets the precision of everybody's products: see `gpu/src/lib.rs`.
    ("src/", &["sort_last_dim", "::new_cuda", "set_gemm_reduced_precision"]),
    ("gpu/", &["sort_last_dim", "::new_cuda(", "set_gemm_reduced_precision"]),
    ("src/divergence", &["crate::"]),
    ("datasets/", &["candle", "tealight_eval"]),
    ("eval/", &["candle", "tokenizers"]),
    (
        "src/model",
        &[
            "crate::generate",
            "crate::policy",
            "crate::objective",
            "crate::rollout",
            "crate::train",
            "tealight_datasets",
            "tealight_eval",
        ],
    ),
    (
        "src/backend",
        &[
            "crate::model",
            "crate::generate",
            "crate::policy",
            "crate::objective",
            "crate::train",
            "tealight_datasets",
            "tealight_eval",
        ],
    ),
    ("src/app", &["crate::cli", "telemetry::print", "telemetry::out", "println!"]),
    ("src/cli", &["crate::backend", "crate::lab::exact", "candle_nn"]),
    ("matmul/", &["candle", "tealight_datasets", "tealight_eval"]),
    ("gpu/", &["tealight_datasets", "tealight_eval", "tealight_matmul"]),
    (
        "src/objective",
        &[
            "crate::model",
            "crate::policy",
            "crate::rollout",
            "crate::tokenizer",
            "crate::train",
            "tealight_",
        ],
    ),
    (
        "src/generate",
        &[
            "crate::objective",
            "crate::rollout",
            "crate::tokenizer",
            "crate::train",
            "tealight_datasets",
            "tealight_eval",
            "tealight_matmul",
        ],
    ),
    (
        "src/policy",
        &[
            "crate::generate",
            "crate::rollout",
            "crate::train",
            "tealight_datasets",
            "tealight_eval",
            "tealight_matmul",
        ],
    ),
    ("src/rollout", &["crate::objective", "crate::policy", "crate::train"]),
    (
        "src/lab",
        &[
            "crate::model",
            "crate::policy",
            "crate::rollout",
            "crate::tokenizer",
            "crate::train",
            "tealight_",
        ],
    ),
    ("src/solver", &["crate::objective", "crate::policy", "crate::train"]),
    ("src/presample", &["crate::objective", "crate::train"]),
    ("src/train", &["crate::cli", "crate::app", "crate::hub", "tealight_datasets::read"]),
    ("src/ranks", &["crate::", "tealight_", "candle"]),
    ("src/tokenizer", &["crate::model", "crate::generate", "crate::train"]),
];

const BANNED: [&str; 4] = ["todo!(", "dbg!(", "allow(clippy", "unimplemented!("];

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> =
        ["src", "tests", "datasets/src", "eval/src", "gpu/src", "gpu/tests", "matmul/src"]
            .map(|folder| root.join(folder))
            .into();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).expect("below the root").display().to_string();
                files.push((name, std::fs::read_to_string(&path).expect("readable")));
            }
        }
    }
    assert!(files.len() > 40, "the sources were found");
    files
}

#[test]
fn files_say_what_they_are_and_stay_short() {
    for (name, text) in sources() {
        assert!(text.starts_with("//! "), "{name}: starts without a `//!` line");
        let lines = text.lines().count();
        assert!(lines <= MAX_LINES, "{name}: {lines} lines, more than {MAX_LINES}; split it");
        for (index, line) in text.lines().enumerate() {
            let at = index + 1;
            assert_eq!(line.trim_end(), line, "{name}:{at}: trailing space");
            let width = line.chars().count();
            let is_text = line.contains('"') || name.starts_with("eval/src/report/");
            assert!(is_text || width <= MAX_WIDTH, "{name}:{at}: {width} columns");
        }
    }
}

#[test]
fn the_viewer_says_what_it_is_and_stays_short() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/src");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the viewer's sources") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("readable");
        let name = path.display();
        assert!(text.lines().count() <= MAX_LINES, "{name}: more than {MAX_LINES} lines");
        let is_style = path.extension().is_some_and(|extension| extension == "css");
        assert!(is_style || text.starts_with("// "), "{name}: starts without a `//` line");
        // Text of strangers becomes text nodes; what makes elements of text is not used.
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!text.contains(word), "{name}: `{word}`");
        }
        count += 1;
    }
    assert!(count > 10, "the sources were found");
}

/// What `simd` runs must be one piece: see `src/backend/cpu/math.rs`.
#[test]
fn arithmetic_for_wide_registers_stands_in_plain_loops() {
    for (name, text) in sources() {
        for (index, line) in text.lines().enumerate() {
            let is_apart = line.contains(".for_each(")
                && ["exp(", "mul_add(", ".add("].iter().any(|word| line.contains(word));
            let at = index + 1;
            assert!(!(is_apart && name.starts_with("src/backend/cpu")), "{name}:{at}: {line}");
        }
    }
}

#[test]
fn nothing_banned_is_used() {
    for (name, text) in sources().iter().filter(|(name, _)| name != "tests/it/tidy.rs") {
        for word in BANNED {
            assert!(!text.contains(word), "{name}: `{word}`");
        }
        // What a test needs and machines may lack is named: `.ci/nightly` runs such tests where it is there.
        let ignored = text.matches("#[ignore").count();
        assert_eq!(ignored, text.matches("#[ignore = \"needs ").count(), "{name}: `#[ignore`");
    }
}

/// Settings derive `Args` and `ValueEnum` where they are declared; only the command line parses.
#[test]
fn nothing_but_the_command_line_parses() {
    for (name, text) in sources() {
        let is_allowed = name.starts_with("src/cli/") || name == "src/app/settings.rs";
        if is_allowed || !name.starts_with("src/") {
            continue;
        }
        for line in text.lines().filter(|line| line.starts_with("use clap::")) {
            let names = line.trim_start_matches("use clap::").trim_matches(['{', '}', ';']);
            let is_derived = |name: &str| ["Args", "ValueEnum"].contains(&name);
            assert!(names.split(", ").all(is_derived), "{name}: {line}");
        }
        for word in ["clap::Command", "ArgMatches", "clap::Parser"] {
            assert!(!text.contains(word), "{name}: `{word}` is for src/cli");
        }
    }
}

#[test]
fn imports_point_one_way() {
    for (name, text) in sources() {
        for (module, forbidden) in FORBIDDEN {
            if !name.starts_with(module) {
                continue;
            }
            for word in forbidden {
                let found = text
                    .lines()
                    .find(|line| !line.trim_start().starts_with("//") && line.contains(word));
                assert!(found.is_none(), "{name} must not know `{word}`: {found:?}");
            }
        }
    }
}
