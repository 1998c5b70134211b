//! Untrusted text and JSON: shown escaped, read exactly, never a path, and in bounded memory and time.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::binary::{
    Folder, command, ok, refusal, refused, stderr_of, succeeded, tealight,
};
use crate::support::embedded::roomy_model;
use crate::support::runs::trained;
use crate::support::server::serve;
use serde_json::{Value, json};

/// Bytes that a terminal would act on.
fn is_raw(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
}

#[test]
fn untrusted_text_is_escaped_on_the_terminal() {
    let folder = Folder::new();
    let evil = "\u{1b}]0;owned\u{7}\u{9b}31m\0\u{202e}";
    let row = json!({"question": format!("1+1 {evil}?"), "answer": "2", "id": format!("p{evil}")});
    let data = folder.write("q.jsonl", format!("{row}\n"));
    let model = roomy_model(&folder);
    let shown = tealight(command!("train --model {model} --dataset {data} --dry-run"));
    // The embedded tokenizer does not know these characters: whatever is said of them is escaped too.
    assert!(!is_raw(&shown.stdout) && !is_raw(&shown.stderr));
    // Completions, verdicts and names.
    let line = json!({"id": format!("p{evil}"), "completion": format!("\\boxed{{3}} {evil}"), "gold": "2"});
    let completions = folder.write("c.jsonl", format!("{line}\n{line}\n"));
    let (a, b) = (folder.path(&format!("run{}", "\u{1b}[2J")), folder.path("b"));
    for output in [&a, &b] {
        let graded = tealight(&["grade", &completions, "--output", output]);
        assert!(graded.status.success() && !is_raw(&graded.stdout) && !is_raw(&graded.stderr));
    }
    let compared = succeeded(&["compare", &a, &b]);
    assert!(!is_raw(&compared.stdout) && !is_raw(&compared.stderr));
    let compared = tealight(&["compare", &a, &b, "--json"]);
    assert!(!is_raw(&compared.stdout));
    assert!(serde_json::from_slice::<Value>(&compared.stdout).is_ok());
    // A server's text.
    let rude =
        serve(|_| (400, String::new(), "{\"error\":{\"message\":\"\u{1b}[31mno\u{9b}\"}}".into()));
    let output = folder.path("o");
    let done =
        tealight(command!("eval --engine {rude} --model m --max-samples 1 --output {output}"));
    let stderr = stderr_of(&done);
    assert!(!done.status.success() && !is_raw(&done.stderr), "{stderr}");
    assert!(stderr.contains("\\u001b[31mno"));
}

#[test]
fn names_are_neither_markup_nor_formulas_in_results() {
    let folder = Folder::new();
    let (name, output) = ("=1+1<img src=x>|\u{1b}[31m", folder.path("graded"));
    let line = serde_json::json!({"id": "-1+a", "completion": "\u{202e}\u{1b}[2J 7", "gold": "7"});
    let file = folder.write("c.jsonl", format!("{line}\n"));
    let model = "@SUM(A1)<script>";
    ok(&["grade", &file, "--name", name, "--model", model, "--output", &output]);
    let read = |name: &str| std::fs::read_to_string(format!("{output}/{name}")).expect("readable");
    let csv = read("results.csv");
    assert!(csv.lines().skip(1).all(|line| line.starts_with("'@SUM(A1)<script>,'=1+1")), "{csv}");
    let markdown = read("results.md");
    assert!(!markdown.contains("<img") && !markdown.contains("<script"), "{markdown}");
    assert!(markdown.contains("=1+1&lt;img src=x>\\|\\u001b[31m"), "{markdown}");
    let is_active = |c: char| matches!(c, '\u{1b}' | '\u{202e}');
    assert!(!read("report.html").contains(is_active));
    assert!(read("results.json").contains("\"=1+1<img src=x>"), "it has the names as they are");
}

/// Puts an array of so many megabytes of `0,` behind the first `before` of a file.
fn bomb(file: &str, before: &str, megabytes: usize) {
    let text = std::fs::read_to_string(file).expect("readable");
    let at = text.find(before).expect("a place") + before.len();
    let mut file = std::fs::File::create(file).expect("a file");
    file.write_all(&text.as_bytes()[..at]).expect("written");
    let million = "0,".repeat(500_000);
    (0..megabytes).for_each(|_| file.write_all(million.as_bytes()).expect("written"));
    file.write_all(&text.as_bytes()[at..]).expect("written");
}

#[test]
fn results_that_take_gigabytes_of_memory_are_refused() {
    const MEGABYTES: usize = 128;
    let folder = Folder::new();
    let (good, bad) = (folder.path("good"), folder.path("bad"));
    let eval = |output: &str| {
        let few = "-n 2 -k 1 --max-samples 2 --max-completion-length 16 --device cpu";
        format!("eval --output {output} {few}")
    };
    for output in [&good, &bad] {
        ok(&eval(output));
    }
    let (results, request) = (format!("{bad}/results.json"), format!("{bad}/request.json"));
    let text = std::fs::read_to_string(&results).expect("readable");
    let (place, array) = ("\"config\": {", "\"zz\":[");
    let changed = text.replacen(place, &format!("{place}{array}0],"), 1);
    std::fs::write(&results, changed).expect("written");
    bomb(&results, array, MEGABYTES);
    for line in
        [format!("report {bad}"), format!("compare {good} {bad}"), format!("compare {bad} {good}")]
    {
        let error = refusal(&line);
        assert!(error.contains("results.json"), "{line}: {error}");
        let is_named = error.contains("memory") || error.contains("not the results");
        assert!(is_named, "{line}: {error}");
    }
    // The settings of an evaluation that goes on.
    let text = std::fs::read_to_string(&request).expect("readable");
    let start = text.find("\"prompts\":").expect("a key") + "\"prompts\":".len();
    let line = text[start..].find('\n').map_or(text.len(), |end| start + end);
    let changed = format!("{} [0],{}", &text[..start], &text[line..]);
    std::fs::write(&request, changed).expect("written");
    bomb(&request, "\"prompts\": [", MEGABYTES);
    refused!("{}", eval(&bad) => "request.json");
}

#[test]
fn a_checkpoints_sizes_are_compared_before_its_contents() {
    const BYTES: u64 = 200 << 30;
    let folder = Folder::new();
    let run = folder.path("run");
    trained(&run, "--max-steps 1 --save-steps 1");
    let file = format!("{run}/checkpoint-1/optimizer.safetensors");
    // Sparse: it takes no disk.
    let size = std::fs::metadata(&file).expect("a file").len();
    let opened = OpenOptions::new().write(true).open(&file).expect("a file");
    opened.set_len(BYTES).expect("a sparse file");
    let started = Instant::now();
    let resume = format!("train --resume {run} --max-steps 2");
    refused!("{resume}" => format!("has {BYTES} bytes; {size} were written"));
    // Its state agrees.
    let state = format!("{run}/checkpoint-1/trainer_state.json");
    let text = std::fs::read_to_string(&state).expect("readable");
    std::fs::write(&state, text.replace(&size.to_string(), &BYTES.to_string())).expect("written");
    refused!("{resume}" => "no file of a checkpoint of this model");
    assert!(started.elapsed() < Duration::from_secs(60));
}
