//! Output directories: which are free, which are kept, and how evaluations and runs continue in them; the checks of
//! options that come before.

use std::collections::HashSet;
use std::path::Path;

use crate::support::binary::{Folder, command, ok, printed, refusal, refused};
use crate::support::metrics;
use crate::support::runs::{FEW, json, samples, summary, trained};
use serde_json::Value;

#[test]
fn the_defaults_work_on_the_embedded_model() {
    let folder = Folder::new();
    let output = folder.path("e");
    // The context of 64 leaves less than 512, and 8 samples estimate no Pass@16, but Pass@8.
    let text = ok(command!("eval --output {output} -n 8 --max-samples 4"));
    assert!(text.contains("completions of up to"), "{text}");
    let config = std::fs::read_to_string(format!("{output}/config.toml")).expect("settings");
    assert!(config.contains("k = [1, 4, 8]"), "{config}");
    let results = json(format!("{output}/results.json"));
    assert_eq!(results["sets"][0]["summary"]["n"], 8);
    assert!(results["config"]["max_completion_length"].as_u64().is_some_and(|length| length < 64));
    ok(command!(
        "train --output {} --max-steps 1 --prompts-per-step 2 --num-generations 2",
        folder.path("t")
    ));
    // Samples of a file are called after it, not after where it lies.
    let data = folder.write("mine.jsonl", "{\"question\":\"1+1\",\"answer\":\"2\"}\n");
    let output = folder.path("f");
    ok(command!("eval --output {output} --dataset {data} --instruction= -n 2"));
    assert!(Path::new(&format!("{output}/samples/mine.jsonl")).exists());
    // Prompts that are held out may be longer than those to train on.
    let long = folder.write("long.jsonl", "{\"question\":\"1+1+1+1+1+1+1\",\"answer\":\"7\"}\n");
    let text = ok(command!(
        "train --output {} --dataset {data} --eval-dataset {long} --max-steps 1 --num-generations 2 --instruction= \
         --eval-steps 1",
        folder.path("h")
    ));
    assert!(text.contains("completions of up to"), "{text}");
}

#[test]
fn a_directory_that_holds_only_settings_is_free() {
    let folder = Folder::new();
    // As a command that was killed before its first sample leaves them.
    std::fs::create_dir(folder.path("e")).expect("made");
    folder.write("e/config.toml", "# tealight 0.1.0, revision 1a2b3c4\n");
    ok(command!("eval --output {} -n 2 -k 1 {FEW}", folder.path("e")));
}

#[test]
fn overwriting_replaces_what_tealight_wrote_and_nothing_else() {
    let folder = Folder::new();
    let lines =
        folder.write("c.jsonl", "{\"id\":\"a\",\"completion\":\"\\\\boxed{2}\",\"gold\":\"2\"}\n");
    let output = folder.path("graded");
    ok(command!("grade {lines} --output {output}"));
    std::fs::write(format!("{output}/notes.txt"), "mine").expect("written");
    refused!("grade {lines} --output {output}" => "--overwrite");
    ok(command!("grade {lines} --output {output} --overwrite"));
    assert!(Path::new(&format!("{output}/notes.txt")).exists());
    // An evaluation begins anew, and a mistake in the options costs nothing of what was there.
    let output = folder.path("evaluated");
    let eval = format!("eval --output {output} -n 2 -k 1 {FEW}");
    ok(&eval);
    refusal(command!("{eval} --temperature 0.5"));
    refusal(command!("{eval} --dataset nothing.jsonl --overwrite"));
    assert_eq!(completions(&output).len(), 8);
    ok(command!("{eval} --temperature 0.5 --overwrite"));
    let run = folder.path("trained");
    trained(&run, "--max-steps 1 --save-steps 0");
    refusal(command!("train --output {run} --dataset nothing.jsonl --overwrite"));
    assert!(Path::new(&format!("{run}/final/model.safetensors")).exists());
    trained(&run, "--max-steps 1 --save-steps 0 --overwrite");
}

fn completions(output: &str) -> HashSet<(String, u64, String)> {
    let row = |row: &Value| {
        let text = |key: &str| row[key].as_str().expect("text").to_owned();
        (text("problem"), row["sample"].as_u64().expect("a number"), text("completion"))
    };
    samples(output).iter().map(row).collect()
}

#[test]
fn a_larger_n_reuses_existing_samples() {
    let folder = Folder::new();
    let (grown, whole) = (folder.path("grown"), folder.path("whole"));
    let eval = |output: &str, n: &str| ok(command!("eval --output {output} -n {n} -k 1,4 {FEW}"));
    eval(&grown, "4");
    let first = completions(&grown);
    eval(&grown, "12");
    eval(&whole, "12");
    assert_eq!(completions(&grown), completions(&whole));
    assert!(first.is_subset(&completions(&whole)) && first.len() == 16);
    assert_eq!(summary(&grown), summary(&whole));
    // Fewer are the first of them, and none is lost.
    eval(&grown, "4");
    assert_eq!(summary(&grown)["n"], 4);
    assert_eq!(completions(&grown).len(), 48);
}

#[test]
fn a_gradient_norm_of_zero_clips_nothing() {
    let folder = Folder::new();
    // TRL's way of saying no clipping, which looks like a mistake, trains as if there were none.
    let rows = |name: &str, norm: &str| {
        let output = folder.path(name);
        trained(&output, &format!("--max-steps 2 --max-grad-norm {norm} --save-steps 0"));
        let last = metrics::rows(Path::new(&output)).pop().expect("a row");
        (last["loss"].clone(), last["grad_norm"].clone())
    };
    assert_eq!(rows("zero", "0"), rows("huge", "1e20"));
}

#[test]
fn comparing_different_settings_warns() {
    let folder = Folder::new();
    let eval = |name: &str, more: &str| {
        let output = folder.path(name);
        ok(command!("eval --output {output} -k 1 {FEW} {more}"));
        output
    };
    let (base, same) = (eval("base", "-n 4"), eval("same", "-n 4"));
    let warm = eval("warm", "-n 4 --temperature 1.3");
    let asked = eval("asked", "-n 2 --instruction =");
    let text = ok(command!("compare {base} {same}"));
    assert!(text.contains("identical"), "{text}");
    refused!("compare {base} {warm}" => "temperature is 1 in", "1.3 in", "--across");
    refused!("compare {base} {asked}" => "n is 4", "instruction is none", "prompts is");
    let table = printed(command!("compare {base} {warm} --across temperature"));
    assert!(table.contains("(temperature 1.3)"), "{table}");
    ok(command!("compare {base} {asked} --across n,instruction"));
    refused!("compare {base} {same} --across temperature" => "no effect");
}

#[test]
fn a_supervised_run_that_was_stopped_goes_on_to_the_same_bits() {
    let folder = Folder::new();
    let sft = |output: &str, more: &str| {
        let how = "--dataset countdown/sft --batch-size 4 --learning-rate 1e-4 --save-steps 2";
        ok(command!("sft {how} --output {output} --device cpu {more}"))
    };
    let (whole, parts) = (folder.path("whole"), folder.path("parts"));
    sft(&whole, "--max-steps 5");
    sft(&parts, "--max-steps 3");
    std::fs::remove_dir_all(format!("{parts}/final")).expect("removed");
    // As a kill after step 3 leaves it: the last checkpoint is that of step 2 or 3.
    let text = sft(&parts, "--max-steps 5 --resume");
    assert!(text.contains("resumed from"), "{text}");
    for file in ["final/model.safetensors", "metrics.jsonl"] {
        let read = |output: &str| std::fs::read(format!("{output}/{file}")).expect(file);
        assert_eq!(read(&whole), read(&parts), "{file}");
    }
    refused!(
        "sft --dataset countdown/sft --batch-size 5 --output {parts} --resume --device cpu"
        => "batch_size was 4, is 5"
    );
}
