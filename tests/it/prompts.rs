//! The prompt is the user's: what every command asks beside the question; and `tealight generate`.

use crate::model_files::question;
use crate::support::binary::{
    Folder, command, has, ok, program, refusal, refused, stderr_of, stdout_of, succeeded,
};
use crate::support::embedded::roomy_model;
use crate::support::runs::json;
use serde_json::Value;

const BOXED: &str = "put your final answer within \\boxed{}.";

/// The prompts that a dry run of training shows.
fn shown(options: &str) -> String {
    let done = succeeded(command!("train --dry-run --device cpu {options}"));
    stdout_of(&done) + &stderr_of(&done)
}

#[test]
fn the_instruction_is_the_math_verifiers_alone_and_can_be_turned_off() {
    let folder = Folder::new();
    let (data, model) = (question(&folder), roomy_model(&folder));
    let with = |more: &str| shown(&format!("--model {model} --dataset {data} {more}"));
    let text = with("");
    assert!(text.contains("prompts: instruction") && text.contains(BOXED), "{text}");
    for verifier in ["exact", "numeric", "regex:(\\d+)", "program:cat"] {
        let text = with(&format!("--verifier {verifier}"));
        assert!(!text.contains("reason step by step"), "{verifier}: {text}");
    }
    assert!(with("--verifier math:strict").contains(BOXED));
    assert!(!with("--instruction=").contains("reason step by step"));
    let text = with("--instruction = --verifier exact");
    assert!(text.contains("instruction `=`") && !text.contains("reason step by step"), "{text}");
}

#[test]
fn every_part_of_the_prompt_reaches_every_command() {
    let folder = Folder::new();
    let rows = "{\"question\":\"1+1\",\"answer\":\"2\",\"hint\":\"7\"}\n{\"question\":\"2+2\",\"answer\":\"4\",\"hint\":\"8\"}\n";
    let data = folder.write("q.jsonl", rows);
    let shots = folder.write("shots.jsonl", "{\"question\":\"5+5\",\"answer\":\"10\"}\n");
    let template = folder.write("t.j2", "{{ hint }}-{{ question }}");
    let options = format!(
        "--dataset {data} --prompt-template {template} --instruction = --system-prompt (9)"
    );
    let text = shown(&format!("{options} --max-completion-length 4"));
    assert!(text.contains("(9)") && text.contains("7-1+1"), "{text}");
    // A column that is not there is named.
    let bad = folder.write("bad.j2", "{{ nothing }}");
    refused!("train --dry-run --dataset {data} --prompt-template {bad}" => "q.jsonl:1", "question, answer, hint");
    // Worked examples come from where they are said to, and nowhere else.
    let few = "--few-shot 1 --few-shot-dataset countdown/sft --dataset countdown/test";
    let text = shown(&format!("{few} --max-completion-length 20"));
    assert!(text.contains("1 worked example ("), "{text}");
    for (command, more) in [
        ("eval", "-n 2 -k 1 --no-greedy"),
        ("train", "--max-steps 1 --prompts-per-step 2 --num-generations 2"),
        ("sft", "--max-steps 1 --batch-size 2"),
    ] {
        let output = folder.path(command);
        let length = if command == "sft" { "" } else { "--max-completion-length 4" };
        let stderr =
            ok(command!("{command} --output {output} --device cpu {options} {length} {more}"));
        has(&stderr, &["a template of your own", "system prompt `(9)`"]);
    }
    // The prompts' settings are recorded, and decide what may be resumed.
    let request = json(folder.path("eval/request.json"));
    assert_eq!(request["prompts"]["instruction"], "=");
    assert_eq!(request["prompts"]["prompt_template"], "{{ hint }}-{{ question }}");
    let text = refusal(command!(
        "eval --output {} --dataset {data} -n 2 -k 1 --max-completion-length 4 --no-greedy --instruction=",
        folder.path("eval")
    ));
    assert!(text.contains("prompts was") || text.contains("the prompt of problem"), "{text}");
    // A study.
    let stderr = ok(command!(
        "study --output {} --dataset {data} --test-dataset {shots} --instruction = --max-steps \
         1 --prompts-per-step 2 --num-generations 2 -n 2 -k 1 --objectives grpo \
         --max-completion-length 4",
        folder.path("study")
    ));
    assert!(stderr.contains("instruction `=`"), "{stderr}");
}

fn generate(arguments: &[&str], stdin: &str) -> (String, String) {
    let done = program().arg("generate").args(arguments).write_stdin(stdin).output().expect("runs");
    assert!(done.status.success(), "{}", stderr_of(&done));
    (stdout_of(&done), stderr_of(&done))
}

#[test]
fn generate_takes_a_prompt_from_anywhere_and_streams_what_is_sampled() {
    let folder = Folder::new();
    let prompt = "3,7,8,9=24:";
    let (from_argument, stderr) = generate(&[prompt], "");
    assert!(stderr.contains("model countdown"), "{stderr}");
    assert!(!from_argument.trim().is_empty() && from_argument.ends_with('\n'));
    let (from_stdin, _) = generate(&[], prompt);
    let file = folder.write("p.txt", prompt);
    let (from_file, _) = generate(&["--file", &file, "--quiet"], "");
    assert_eq!((&from_argument, &from_argument), (&from_stdin, &from_file));
    // The stream is the sampler's first sample, and JSON has the same text.
    let (lines, _) = generate(&[prompt, "-n", "3", "--json"], "");
    let rows: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["text"].as_str(), Some(from_argument.trim_end_matches('\n')));
    assert!(rows.iter().all(|row| row["logp"].as_f64() < Some(0.0)));
    let (other, _) = generate(&[prompt, "--seed", "5", "--temperature", "1.5"], "");
    assert_ne!(other, from_argument);
    let (greedy, _) = generate(&[prompt, "--temperature", "0", "-n", "2"], "");
    assert!(greedy.contains("--- 1 of 2") && greedy.contains("--- 2 of 2"));
    refusal(command!("generate --file {}", folder.path("nothing")));
    // With a template, the prompt is rendered by it, and the system message stands before.
    let model = roomy_model(&folder);
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}";
    std::fs::write(format!("{model}/chat_template.jinja"), template).expect("written");
    let (rendered, _) = generate(&["--model", &model, "--system-prompt", "3,7,8,", "9=24:"], "");
    let (raw, _) = generate(&["--model", &model, "--raw", prompt], "");
    assert_eq!(rendered, raw);
}
