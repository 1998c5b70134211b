//! A file or a folder inside a folder that a command reads, moved out and replaced by a link to it or by a pipe: the
//! command refuses it by name, at once.
#![cfg(unix)]

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::binary::{Folder, ok, refusal};

/// What stands in the place of a file, by what is said of it.
const LINK: &str = "a link out of the folder";
const FOLDER_LINK: &str = "a link stands in the place of this folder";
const PIPE: &str = "regular file";

const EXPORT: &str = "export --model @/run/final --output @/copy --overwrite";

/// The file, what stands in its place, the command that must refuse it; `@` is the folder of the test.
const ROWS: [(&str, &str, &str); 25] = [
    ("graded/results.json", LINK, "report @/graded"),
    ("graded/results.json", LINK, "compare @/other @/graded --output @/compared"),
    ("graded/results.json", PIPE, "report @/graded"),
    ("graded/samples/f.jsonl", LINK, "report @/graded"),
    ("graded/samples/f.jsonl", LINK, "compare @/other @/graded --output @/compared"),
    ("graded/samples/f.jsonl", PIPE, "report @/graded"),
    ("graded/samples/f.jsonl", LINK, "grade @/graded"),
    ("graded/samples/f.jsonl", PIPE, "grade @/graded"),
    ("graded/samples/f.jsonl", PIPE, "audit @/other @/graded"),
    ("evaluated/samples", FOLDER_LINK, "eval --output @/evaluated -n 2 -k 1 --max-samples 2"),
    ("run/metrics.jsonl", LINK, "report @/run"),
    ("run/checkpoint-2/metrics.jsonl", LINK, "train --resume @/run --max-steps 3"),
    ("run/final", FOLDER_LINK, "train --resume @/run --max-steps 3"),
    ("run/final/special_tokens_map.json", LINK, EXPORT),
    ("run/final/special_tokens_map.json", LINK, "train --model @/run/final --output @/next"),
    ("run/final/chat_template.jinja", LINK, EXPORT),
    ("run/final/chat_template.jinja", LINK, "train --model @/run/final --output @/next"),
    ("run/final/model.safetensors", LINK, EXPORT),
    ("run/final/model.safetensors", LINK, "export --average @/run/final --output @/mean"),
    (
        "adapter/final/adapter_model.safetensors",
        LINK,
        "export --model @/adapter/final --merge --output @/mean",
    ),
    ("run/final/config.json", PIPE, "eval --model @/run/final --output @/o"),
    ("run/final/tokenizer.json", PIPE, "eval --model @/run/final --output @/o"),
    ("run/final/model.safetensors", PIPE, "eval --model @/run/final --output @/o"),
    ("run/final/generation_config.json", PIPE, "eval --model @/run/final --output @/o"),
    ("run/final/chat_template.jinja", PIPE, "eval --model @/run/final --output @/o"),
];

#[test]
fn what_replaces_a_file_of_a_folder_is_refused_by_name() {
    let folder = Folder::new();
    let root = folder.path("");
    let root = root.trim_end_matches('/');
    let completion = |id: usize| format!("{{\"id\":{id},\"completion\":\"7\",\"gold\":\"7\"}}\n");
    folder.write("f.jsonl", completion(1) + &completion(2));
    let train = "train --max-samples 4 --num-generations 2 --prompts-per-step 2 --max-steps 2 --save-steps 1";
    for line in [
        "grade @/f.jsonl --output @/graded",
        "grade @/f.jsonl --output @/other",
        "eval --output @/evaluated -n 1 -k 1 --max-samples 2",
        &format!("{train} --output @/run"),
        &format!("{train} --output @/adapter --use-peft"),
    ] {
        ok(&line.replace('@', root));
    }
    let weights = || std::fs::read(folder.path("run/final/model.safetensors")).expect("a model");
    let before = weights();
    for (file, what, line) in ROWS {
        let (place, outside) = (folder.path(file), folder.path("outside"));
        let is_there = Path::new(&place).exists();
        match is_there {
            true => std::fs::rename(&place, &outside).expect("moved"),
            false => std::fs::write(&outside, "\"hf_secret\"").expect("written"),
        }
        match what {
            PIPE => {
                let made = std::process::Command::new("mkfifo").arg(&place).status();
                assert!(made.expect("mkfifo").success());
            }
            _ => std::os::unix::fs::symlink(&outside, &place).expect("a link"),
        }
        let started = Instant::now();
        let error = refusal(&line.replace('@', root));
        let name = file.rsplit('/').next().expect("a name");
        assert!(error.contains(what) && error.contains(name), "{file}, {line}: {error}");
        assert!(started.elapsed() < Duration::from_secs(20), "{file}, {line}");
        std::fs::remove_file(&place).expect("removed");
        match is_there {
            true => std::fs::rename(&outside, &place).expect("moved"),
            false => std::fs::remove_file(&outside).expect("removed"),
        }
    }
    assert!(weights() == before, "nothing was written through a link");
    // A shard in a folder that is a link; and a model whose files are links inside its folder is read and copied.
    let export = EXPORT.replace('@', root);
    let place = |name: &str| folder.path(&format!("run/final/{name}"));
    std::fs::rename(place("tokenizer.json"), place("t")).expect("moved");
    std::os::unix::fs::symlink("t", place("tokenizer.json")).expect("a link");
    ok(&export);
    std::fs::create_dir(folder.path("outside")).expect("made");
    let shard = folder.path("outside/model.safetensors");
    std::fs::rename(place("model.safetensors"), shard).expect("moved");
    std::os::unix::fs::symlink(folder.path("outside"), place("sub")).expect("a link");
    let index = "{\"weight_map\": {\"a\": \"sub/model.safetensors\"}}";
    std::fs::write(place("model.safetensors.index.json"), index).expect("written");
    let error = refusal(&export);
    assert!(error.contains(LINK) && error.contains("sub/model.safetensors"), "{error}");
}
