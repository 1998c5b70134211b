//! Rules of the codebase that no compiler checks: who may import whom, how long a file may be.

use std::path::PathBuf;

use crate::support::root;

const MAX_LINES: usize = 400;
/// Of comments and code; a string literal may be longer.
const MAX_WIDTH: usize = 120;

/// Folder and what its files must never name. Between packages, Cargo forbids what a manifest does not list.
const FORBIDDEN: [(&str, &[&str]); 16] = [
    // A sort of a vocabulary does not fit a block's shared memory; a device of one's own has a stream of one's own, and
    // a flag of the process sets the precision of everybody's products: see `gpu/src/lib.rs`.
    ("", &["sort_last_dim", "::new_cuda(", "set_gemm_reduced_precision"]),
    // hf-hub's client sends the token and writes files where a server says, without a limit of time; ureq's functions
    // follow redirects. `system/src/http.rs` is the one client.
    (
        "",
        &[
            "hf_hub::api::sync",
            "ApiBuilder",
            "ureq::get",
            "ureq::post",
            "ureq::agent",
            "download_with_progress",
        ],
    ),
    ("nn/src/backend", &["crate::model", "crate::generate", "crate::policy"]),
    ("nn/src/model", &["crate::generate", "crate::policy"]),
    ("nn/src/policy", &["crate::generate", "tealight_matmul"]),
    ("nn/src/generate", &["crate::tokenizer", "tealight_matmul"]),
    ("nn/src/tokenizer", &["crate::model", "crate::generate"]),
    (
        "learn/src/objective",
        &[
            "crate::rollout",
            "crate::train",
            "tealight_datasets::read",
            "tealight_datasets::Problem",
            "tealight_eval",
            "tealight_formats",
            "tealight_gpu",
            "tealight_nn",
        ],
    ),
    ("learn/src/rollout", &["crate::objective", "tealight_nn::policy", "crate::train"]),
    ("learn/src/train", &["tealight_formats::hub", "tealight_datasets::read"]),
    (
        "lab/src",
        &[
            "tealight_nn::model",
            "tealight_nn::policy",
            "tealight_nn::tokenizer",
            "tealight_learn::rollout",
            "tealight_learn::train",
        ],
    ),
    ("src/solvers", &["crate::app", "crate::cli", "tealight_learn::train"]),
    ("src/app", &["crate::cli", "telemetry::print", "telemetry::out", "println!"]),
    ("eval/src", VERIFIER_CALLS),
    ("learn/src", VERIFIER_CALLS),
    ("src", VERIFIER_CALLS),
];

/// Calls whose panic would end a run: `tealight_datasets::judge` has the same, guarded.
const VERIFIER_CALLS: &[&str] =
    &["verifier.verify(", "verifier.grade(", "verifier.probe(", "math::check("];

/// Name and text of every source; what Cargo builds there is left out.
fn sources() -> Vec<(String, String)> {
    let root = root();
    let packages = members().into_iter().flat_map(|member| {
        ["src", "tests", "examples"].map(|folder| root.join(&member).join(folder))
    });
    let mut folders: Vec<PathBuf> = packages.filter(|folder| folder.is_dir()).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.extend((!path.ends_with("target")).then_some(path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).expect("below the root").display().to_string();
                files.push((name, std::fs::read_to_string(&path).expect("readable")));
            }
        }
    }
    assert!(files.len() > 40, "the sources were found");
    files
}

#[test]
fn files_have_a_header_and_at_most_400_lines() {
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

/// Untrusted text becomes text nodes of the page; what makes elements of text is not used.
#[test]
fn the_viewer_makes_no_elements_of_text() {
    for entry in root().join("web/src").read_dir().expect("sources of a page") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("readable");
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!text.contains(word), "{}: `{word}`", path.display());
        }
    }
}

/// Ignored tests name their needs, which machines may lack: `.ci/nightly` runs them where they are met.
#[test]
fn ignored_tests_say_what_they_need() {
    for (name, text) in sources().iter().filter(|(name, _)| name != "tests/it/tidy.rs") {
        let ignored = text.matches("#[ignore").count();
        assert_eq!(ignored, text.matches("#[ignore = \"needs ").count(), "{name}: `#[ignore`");
    }
}

/// What SECURITY.md promises names a test.
#[test]
fn the_tests_that_security_names_exist() {
    let text = std::fs::read_to_string(root().join("SECURITY.md")).expect("readable");
    let all: String = sources().into_iter().map(|(_, text)| text).collect();
    let tests = text.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::"));
    let missing: Vec<_> = tests.filter(|(_, test)| !all.contains(&format!("fn {test}("))).collect();
    assert!(missing.is_empty(), "SECURITY.md: no such test: {missing:?}");
}

#[test]
fn imports_point_one_way() {
    for (name, text) in sources().iter().filter(|(name, _)| name.contains("src/")) {
        let holds = |word: &str| {
            let mut code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let found = code.find(|line| line.contains(word));
            assert!(found.is_none(), "{name} must not know `{word}`: {found:?}");
        };
        // Only the package of the kernels opens a device, with a stream of its own.
        if !name.starts_with("gpu/") {
            holds("::new_cuda");
        }
        for (module, forbidden) in FORBIDDEN {
            if name.starts_with(module) {
                forbidden.iter().for_each(|word| holds(word));
            }
        }
    }
}

fn manifest(folder: &str) -> toml::Table {
    let path = root().join(folder).join("Cargo.toml");
    std::fs::read_to_string(path).expect("readable").parse().expect("TOML")
}

/// The folders of all packages below the root; that of the program is the root itself.
fn members() -> Vec<String> {
    let members = manifest("")["workspace"]["members"].as_array().expect("members").clone();
    members
        .iter()
        .map(|member| member.as_str().expect("a folder").to_owned())
        .chain([String::new()])
        .collect()
}

/// Packages are few enough to be drawn, and the drawing is what the manifests say.
#[test]
fn the_architecture_draws_the_packages() {
    let mut drawing = String::new();
    for folder in members() {
        let table = manifest(&folder);
        let dependencies = table.get("dependencies").and_then(toml::Value::as_table);
        let names = dependencies.into_iter().flat_map(|table| table.keys());
        let mut used: Vec<&str> = names.filter_map(|name| name.strip_prefix("tealight-")).collect();
        used.sort_unstable();
        let name = if folder.is_empty() { "src" } else { &folder };
        drawing += format!("{name:<11} {}", used.join(" ")).trim_end();
        drawing += "\n";
    }
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("readable");
    assert!(text.contains(&drawing), "ARCHITECTURE.md, the packages and what they use:\n{drawing}");
}
