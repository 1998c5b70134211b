//! JSON and checkpoints of a stranger's folder that would take gigabytes of memory, or hours to read.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::binary::{Folder, command, ok, refusal, words};
use crate::support::runs::trained;

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
    for output in [&good, &bad] {
        ok(command!(
            "eval --output {output} -n 2 -k 1 --max-samples 2 --max-completion-length 16 --device cpu"
        ));
    }
    let (results, request) = (format!("{bad}/results.json"), format!("{bad}/request.json"));
    let text = std::fs::read_to_string(&results).expect("readable");
    for (place, array) in [("\"config\":{", "\"zz\":["), ("\"config\": {", "\"zz\":[")] {
        if text.contains(place) {
            std::fs::write(&results, text.replacen(place, &format!("{place}{array}0],"), 1))
                .expect("written");
            bomb(&results, array, MEGABYTES);
        }
    }
    for line in
        [format!("report {bad}"), format!("compare {good} {bad}"), format!("compare {bad} {good}")]
    {
        let error = refusal(&words(&line));
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
    let error = refusal(command!(
        "eval --output {bad} -n 2 -k 1 --max-samples 2 --max-completion-length 16 --device cpu"
    ));
    assert!(error.contains("request.json"), "{error}");
}

#[test]
fn a_checkpoints_sizes_are_compared_before_its_contents() {
    const BYTES: u64 = 200 << 30;
    let folder = Folder::new();
    let run = folder.path("run");
    trained(&run, &["--max-steps", "1", "--save-steps", "1"]);
    let file = format!("{run}/checkpoint-1/optimizer.safetensors");
    // Sparse: it takes no disk.
    let size = std::fs::metadata(&file).expect("a file").len();
    let opened = OpenOptions::new().write(true).open(&file).expect("a file");
    opened.set_len(BYTES).expect("a sparse file");
    let started = Instant::now();
    let resume = ["train", "--resume", &run, "--max-steps", "2"];
    let error = refusal(&resume);
    assert!(error.contains(&format!("has {BYTES} bytes; {size} were written")), "{error}");
    // Its state agrees.
    let state = format!("{run}/checkpoint-1/trainer_state.json");
    let text = std::fs::read_to_string(&state).expect("readable");
    std::fs::write(&state, text.replace(&size.to_string(), &BYTES.to_string())).expect("written");
    let error = refusal(&resume);
    assert!(error.contains("no file of a checkpoint of this model"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(60));
}
