//! Tests of reading files: what is found, what is refused and how.

use super::*;
use std::io::Write;

fn read(name: &str, contents: &str, columns: &Columns) -> Result<Dataset> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::File::create(&path).unwrap().write_all(contents.as_bytes()).unwrap();
    open(&[path], columns, None)
}

fn refusal(name: &str, contents: &str, columns: &Columns) -> String {
    read(name, contents, columns).err().expect("is refused").to_string()
}

#[test]
fn usual_columns_are_detected_in_every_text_format() {
    for (name, contents) in [
        ("a.jsonl", "{\"question\":\"1+1?\",\"answer\":\"so\\n#### 2\"}\n\n"),
        ("a.jsonl", "{\"problem\":\"1+1?\",\"solution\":\"it is \\\\boxed{2}.\"}"),
        ("a.json", "[{\"prompt\":\"1+1?\",\"answer\":2}]"),
        ("a.json", "{\"data\":[{\"input\":\"1+1?\",\"target\":\"2\"}]}"),
        ("a.csv", "question,answer\n\"1+1?\",2\n"),
        // Orz's rows are lists of turns.
        (
            "a.json",
            "[[{\"from\":\"human\",\"value\":\"1+1?\"},{\"from\":\"assistant\",\"ground_truth\":{\"value\":\"2\"}}]]",
        ),
        (
            "a.jsonl",
            "{\"prompt\":[{\"role\":\"user\",\"content\":\"1+1?\"}],\"reward_model\":{\"ground_truth\":\"2\"}}",
        ),
    ] {
        let set = read(name, contents, &Columns::default()).unwrap();
        assert_eq!(set.problems.len(), 1, "{contents}");
        assert_eq!(set.problems[0].answer, "2", "{contents}");
        assert!(set.problems[0].prompt.plain().starts_with("1+1?"));
        assert!(set.notes[0].contains("columns"));
    }
}

#[test]
fn completions_that_are_chats_are_read_as_their_turn() {
    let question = r#""prompt":[{"role":"user","content":"1+1?"}]"#;
    let completion = r#""completion":[{"role":"assistant","content":"It is 2. #### 2"}]"#;
    for row in [
        format!("{{{question},{completion}}}"),
        // Beside an answer, too.
        format!("{{{question},{completion},\"answer\":\"2\"}}"),
    ] {
        let set = read("a.jsonl", &row, &Columns::default()).unwrap();
        assert_eq!(set.problems[0].answer, "2", "{row}");
        assert_eq!(set.problems[0].solution.as_deref(), Some("It is 2. #### 2"), "{row}");
    }
    let other = completion.replace("assistant", "user");
    let message = refusal("a.jsonl", &format!("{{{question},{other}}}"), &Columns::default());
    assert!(message.contains("`completion` should hold one turn of the assistant"), "{message}");
}

#[test]
fn named_columns_win_and_may_be_joined() {
    let columns = Columns {
        prompt: Some("Body,Question".into()),
        answer: Some("n".into()),
        ..Columns::default()
    };
    let text = "{\"Body\":\"I have 2.\",\"Question\":\"How many?\",\"answer\":\"9\",\"n\":2}";
    let set = read("a.jsonl", text, &columns).unwrap();
    assert!(set.problems[0].prompt.plain().starts_with("I have 2. How many?"));
    assert_eq!(set.problems[0].answer, "2");
}

#[test]
fn files_of_one_dataset_are_read_in_order_up_to_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let row = |answer: usize| format!("{{\"question\":\"q{answer}\",\"answer\":\"{answer}\"}}\n");
    let files = [write("a.jsonl", &(row(1) + &row(2))), write("b.jsonl", &(row(3) + &row(4)))];
    let answers = |limit| {
        let set = open(&files, &Columns::default(), limit).unwrap();
        set.problems.into_iter().map(|p| (p.id, p.answer)).collect::<Vec<_>>()
    };
    let pair = |id: &str, answer: &str| (id.to_owned(), answer.to_owned());
    let all = [pair("1", "1"), pair("2", "2"), pair("2-1", "3"), pair("2-2", "4")];
    assert_eq!(answers(None), all);
    assert_eq!(answers(Some(3)), all[..3]);
    let files = [files[0].clone(), write("c.jsonl", "{\"question\":\"q\"}\n")];
    let message = open(&files, &Columns::default(), None).err().unwrap().to_string();
    assert!(message.contains("c.jsonl:1"), "{message}");
    // The second file is not opened where the first has enough.
    assert!(open(&[files[0].clone(), "none.jsonl".into()], &Columns::default(), Some(2)).is_ok());
}

#[test]
fn bad_input_is_refused_with_file_line_and_mend() {
    let none = Columns::default();
    let message =
        refusal("a.jsonl", "{\"question\":\"q\",\"answer\":\"1\"}\n{\"question\"\n", &none);
    assert!(message.contains("a.jsonl:2"), "{message}");
    let message =
        refusal("a.jsonl", "{\"question\":\"q\",\"answer\":\"1\"}\n{\"question\":\"q\"}", &none);
    assert!(message.contains("a.jsonl:2") && message.contains("answer"), "{message}");
    let message = refusal("a.csv", "q,a\n1,2\n", &none);
    assert!(message.contains("q, a") && message.contains("--prompt-column"), "{message}");
    let asked = Columns { prompt: Some("nope".into()), ..Columns::default() };
    let message = refusal("a.csv", "question,answer\n1,2\n", &asked);
    assert!(message.contains("`nope`") && message.contains("question, answer"), "{message}");
    let message = refusal("a.csv", "question,answer\n1,2\n1,2,3\n", &none);
    assert!(message.contains("a.csv:3"), "{message}");
    let message = refusal("a.txt", "x", &none);
    assert!(message.contains(".jsonl"), "{message}");
    let message = refusal("a.parquet", "PAR1 no", &none);
    assert!(message.contains("a.parquet"), "{message}");
}
