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

/// What other programs write under the usual names: read as they read it.
#[test]
fn files_of_other_programs_are_read_or_named() {
    let json = "{\"question\":\"1+1?\",\"answer\":\"2\"}";
    let lines = format!("{json}\r\n{json}\r\n");
    for (name, contents) in [
        ("lines.json", lines.clone()),
        ("list.jsonl", format!("[{json},\n{json}]")),
        ("semicolons.csv", "question;answer\n1+1?;2\n1+1?;2\n".into()),
        ("tabs.tsv", "\u{feff}question\tanswer\n1+1?\t2\n1+1?\t2\n".into()),
        ("commas.tsv", "question\tanswer\tnotes (a, b)\n1+1?\t2\t\n1+1?\t2\tx\n".into()),
        ("wrong_name.tsv", "question,answer\n1+1?,2\n1+1?,2\n".into()),
        ("quoted.csv", "\"question\",\"answer; a number\",answer\n1+1?,x,2\n1+1?,y,2\n".into()),
        ("one_item.jsonl", format!("{json}\n{}", json.replace("\"2\"", "\"['2']\""))),
        (
            "pairs.jsonl",
            format!("{{\"history\":[[1500,1600]],\"tools\":{{}},{}\n{json}", &json[1..]),
        ),
        ("old_mac.csv", "question,answer\r1+1?,2\r1+1?,2\r".into()),
        ("infinite.jsonl", format!("{{\"x\":1e400,{}\n{json}", &json[1..])),
        ("tools.jsonl", format!("{{\"history\":[],\"functions\":[\"sin\"],{}\n{json}", &json[1..])),
    ] {
        let answers = read(name, &contents, &Columns::default()).map(|set| {
            set.problems.into_iter().map(|problem| (problem.id, problem.answer)).collect::<Vec<_>>()
        });
        let answers = answers.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(answers.len(), 2, "{name}");
        assert!(answers[0].0 != answers[1].0 && answers[1].1 == "2", "{name}: {answers:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    for (bytes, mend) in [
        (&b"\x1f\x8b\x08"[..], "damaged or was cut off"),
        (b"BZh91AY", "bunzip2"),
        (b"\xff\xfe{\0", "UTF-16"),
    ] {
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, bytes).unwrap();
        let message = open(&[path], &Columns::default(), None).err().unwrap().to_string();
        assert!(message.contains(mend), "{message}");
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
    let files = [files[0].clone(), write("c.jsonl", "{\"answer\":\"1\"}\n")];
    let message = open(&files, &Columns::default(), None).err().unwrap().to_string();
    assert!(message.contains("c.jsonl:1"), "{message}");
    // The second file is not opened where the first has enough.
    assert!(open(&[files[0].clone(), "none.jsonl".into()], &Columns::default(), Some(2)).is_ok());
}

#[test]
fn bad_files_are_refused_with_the_line_and_the_mend() {
    const ROW: &str = r#"{"question":"1+1?","answer":"2"}"#;
    let second = |line: &str| format!("{ROW}\n{line}\n");
    for (name, contents, words) in [
        ("a.jsonl", &*second("{\"question\""), &["a.jsonl:2"][..]),
        ("a.jsonl", &second(r#"{"answer":"1"}"#), &["a.jsonl:2", "question"]),
        ("a.csv", "q,a\n1,2\n", &["q, a", "--prompt-column"]),
        ("a.csv", "question,answer\n1,2\n1,2,3\n", &["a.csv:3"]),
        ("a.txt", "x", &[".jsonl"]),
        ("a.parquet", "PAR1 no", &["a.parquet"]),
        ("a.csv", "PK\u{3}\u{4}", &["an archive"]),
        ("a.jsonl", "[1]\n[2]\n", &["not JSON"]),
        ("a.csv", "\"Prompt; one per line\"\nWhat; why?\n", &["column"]),
        ("a.csv", "Prompt; one per line\nWhat is it?\n", &["column"]),
        ("a.json", "[1]\n[2]\n", &["not JSON"]),
        ("a.parquet.gz", "", &["unpack it"]),
        ("a.jsonl.xz", "", &["unpack it"]),
        ("a.jsonl", &second(r#"{"Q":"1","n":2}"#), &["a.jsonl:2", "no column `question`", "Q, n"]),
        ("a.jsonl", "{\n  \"question\": \"1+1?\"\n}\n{\n}\n", &["a.jsonl:1", "jq -c . FILE"]),
        ("a.json", "{\n  \"question\": \"1+1?\"\n}\n{\n}\n", &["jq -c . FILE"]),
        ("a.jsonl", &second("").replace('\n', "\r").repeat(2), &["carriage returns"]),
        ("a.json", &second("").replace('\n', "\r").repeat(2), &["carriage returns"]),
        ("a.jsonl", "\n<!DOCTYPE html>\n<html></html>", &["a page of the web"]),
        ("a.json", "\u{feff}<HTML lang=en>", &["a page of the web"]),
        ("a.csv", "<?xml version='1.0'?><Error><Code>AccessDenied</Code>", &["a page of the web"]),
        (
            "a.jsonl",
            &second(ROW).replace('{', "{\"id\":\"x\","),
            &["a.jsonl:2", "`x`", "a.jsonl:1"],
        ),
        ("a.arrow", "", &["to_parquet"]),
        (
            "a.jsonl",
            r#"{"prompt": "[{'role': 'user', 'content': array(['1+1?'])}]", "answer": "2"}"#,
            &["as JSON"],
        ),
        (
            "a.jsonl",
            r#"{"instruction": "1+1?", "output": "2", "history": [["0+1?", "1"]]}"#,
            &["`messages`"],
        ),
        (
            "a.jsonl",
            r#"{"question": "1+1?", "answer": "2", "functions": [{"name": "f", "parameters": {}}]}"#,
            &["name it `tools`"],
        ),
        (
            "a.json",
            r#"{"train":[{"question":"1+1?"}],"test":[{"question":"1+1?"}]}"#,
            &["`train`, `test`"],
        ),
        ("a.json", r#"{"question":{"0":"1+1?"},"answer":{"0":"2"}}"#, &["orient=\"records\""]),
        ("a.parquet", "version https://git-lfs.github.com/spec/v1\noid", &["git lfs pull"]),
        ("a.jsonl", "version https://git-lfs.github.com/spec/v1\noid", &["git lfs pull"]),
        ("a.csv", "question,answer,answer\n1+1?,2,7\n", &["`answer` occurs twice"]),
        (
            "a.jsonl",
            r#"{"question": "1+1?", "answer": "2", "answer": "7"}"#,
            &["a.jsonl:1: ", "`answer` occurs twice at column"],
        ),
        (
            "a.json",
            r#"[{"question": "1+1?", "answer": "2", "answer": "7"}]"#,
            &["`answer` occurs twice"],
        ),
    ] {
        let message = refusal(name, contents, &Columns::default());
        assert!(words.iter().all(|words| message.contains(words)), "{name}: {message}");
    }
    let asked = Columns { prompt: Some("nope".into()), ..Columns::default() };
    let message = refusal("a.csv", "question,answer\n1,2\n", &asked);
    assert!(message.contains("`nope`") && message.contains("question, answer"), "{message}");
}

/// The dataset of a file with this name and text.
fn of_text(name: &str, text: &str, columns: &Columns) -> crate::Result<crate::Dataset> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    crate::open(path.to_str().unwrap(), columns, None)
}

#[test]
fn a_row_without_an_answer_is_left_out_however_it_lacks_it() {
    for rows in [
        [r#"{"question": "2+1?"}"#, r#"{"question": "1+1?", "answer": "2"}"#],
        [r#"{"question": "1+1?", "answer": "2"}"#, r#"{"question": "2+1?"}"#],
        [r#"{"question": "1+1?", "answer": "2"}"#, r#"{"question": "2+1?", "answer": null}"#],
        [r#"{"question": "1+1?", "answer": "2"}"#, r#"{"question": "2+1?", "answer": NaN}"#],
        [
            r#"{"question": "1+1?", "reward_model": {"ground_truth": "2"}}"#,
            r#"{"question": "2+1?", "reward_model": null}"#,
        ],
    ] {
        let text = rows.join("\n") + "\n" + rows[0].replace("+1", "+7").as_str();
        let dataset = of_text("UP.JSONL", &text, &Columns::default()).unwrap();
        assert!(!dataset.unusable.is_empty(), "{rows:?}");
        assert_eq!(dataset.problems[0].answer, "2", "{rows:?}");
        assert_eq!(dataset.unusable[0].why, "there is no answer");
    }
}

#[test]
fn a_folder_is_the_files_of_one_split() {
    let folder = tempfile::tempdir().unwrap();
    let row =
        |n: u8| format!("{{\"id\": \"{n}\", \"question\": \"{n}+1?\", \"answer\": \"{n}\"}}\n");
    std::fs::write(folder.path().join("train-1.jsonl"), row(1)).unwrap();
    std::fs::write(folder.path().join("train-0.jsonl"), row(0)).unwrap();
    std::fs::write(folder.path().join("README.md"), "text").unwrap();
    let open = || crate::open(folder.path().to_str().unwrap(), &Columns::default(), None);
    let answers: Vec<String> = open().unwrap().problems.into_iter().map(|p| p.answer).collect();
    assert_eq!(answers, ["0", "1"]);
    // Whole and packed, the rows are there twice.
    for other in ["test.jsonl", "train-1.jsonl.gz"] {
        std::fs::write(folder.path().join(other), row(2)).unwrap();
        assert!(open().err().unwrap().to_string().contains("name one of its files"), "{other}");
        std::fs::remove_file(folder.path().join(other)).unwrap();
    }
    let outer = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(outer.path().join("data")).unwrap();
    let message = crate::open(outer.path().to_str().unwrap(), &Columns::default(), None);
    assert!(message.err().unwrap().to_string().contains("a file in it: `data`"));
}

#[test]
fn marks_choose_the_turns_that_are_learned() {
    let imitate = Columns { purpose: Purpose::Imitate, ..Columns::default() };
    let row = |marks: [&str; 2]| {
        format!(
            r#"{{"messages": [{{"role": "user", "content": "A"}}, {{"role": "assistant", "content": "B"{}}}, {{"role": "user", "content": "C"}}, {{"role": "assistant", "content": "D"{}}}]}}"#,
            marks[0], marks[1]
        ) + "\n"
    };
    let learned = |marks| {
        let text = row(marks) + &row(["", ""]);
        let dataset = of_text("a.jsonl", &text, &imitate).unwrap();
        let mut all: Vec<(String, Option<String>)> =
            dataset.problems.into_iter().map(|p| (p.prompt.plain(), p.solution)).collect();
        assert_eq!(all.pop().unwrap().1.as_deref(), Some("D"));
        all.into_iter().map(|(_, solution)| solution.unwrap()).collect::<Vec<_>>().concat()
    };
    assert_eq!(learned(["", ""]), "D");
    assert_eq!(learned([r#", "weight": 0"#, ""]), "D");
    assert_eq!(learned(["", r#", "weight": 0"#]), "B");
    assert_eq!(learned([r#", "train": true"#, r#", "train": true"#]), "BD");
    assert_eq!(learned([r#", "train": false"#, r#", "weight": 0"#]), "");
    let message = of_text("a.jsonl", &row([r#", "weight": 0"#, r#", "weight": 0"#]), &imitate);
    let message = message.err().unwrap().to_string();
    assert!(message.contains("no turn of the assistant is trained"), "{message}");
}

#[test]
fn learned_turns_keep_their_thoughts_and_calls() {
    let imitate = Columns { purpose: Purpose::Imitate, ..Columns::default() };
    let text = concat!(
        r#"{"messages": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B", "reasoning_content": "r"}]}"#,
        "\n",
        r#"{"messages": [{"role": "user", "content": "A2"}, {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}], "tools": [{"type": "function"}]}"#,
    );
    let problems = of_text("a.jsonl", text, &imitate).unwrap().problems;
    let reply = |at: usize| serde_json::to_string(&problems[at].reply).unwrap();
    assert_eq!(reply(0), r#"{"role":"assistant","content":"B","reasoning_content":"r"}"#);
    let calls = r#"{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f"}}]}"#;
    assert_eq!(reply(1), calls);
    let tealight_core::Prompt::Chat(chat) = &problems[1].prompt else { panic!("a chat") };
    assert_eq!(chat.variables["tools"][0]["type"], "function");
}

#[test]
fn a_box_is_asked_for_only_where_the_learned_solution_has_one() {
    let text = "{\"question\": \"1+1?\", \"answer\": \"2\"}\n{\"question\": \"2+1?\", \"answer\": \"so \\\\boxed{3}\"}\n";
    let read_for = |purpose| of_text("a.jsonl", text, &Columns { purpose, ..Columns::default() });
    let asks = |purpose| -> Vec<bool> {
        let problems = read_for(purpose).unwrap().problems;
        problems.iter().map(|problem| problem.prompt.plain().contains("boxed")).collect()
    };
    assert_eq!(asks(Purpose::Imitate), [false, true]);
    assert_eq!(asks(Purpose::Judge), [true, true]);
}

#[test]
fn what_a_row_says_itself_is_not_dropped_without_a_word() {
    let golds = |text: &str, limit: Option<usize>| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, text).unwrap();
        let set = open(&[path], &Columns::default(), limit).unwrap();
        let golds: Vec<String> = set.problems.iter().map(|one| one.answer.clone()).collect();
        (golds.join("|"), set.notes.join(" "), set.unusable.len())
    };
    // An answer beside numbers and a target is the gold, unless it is the expression itself.
    let pairs = r#"{"question":"Which places?","nums":[2,7,11],"target":9,"answer":"#;
    assert_eq!(golds(&format!("{pairs}\"0, 1\"}}"), None).0, "0, 1");
    assert_eq!(golds(&format!("{pairs}\"2+7\"}}"), None).0, "2,7,11=9");
    // A file is read the same way, however many of its problems are wanted.
    let choice = |index: usize| {
        format!("{{\"question\":\"?\",\"choices\":[\"x\",\"y\",\"z\"],\"answer\":{index}}}\n")
    };
    let file: String = [1, 2, 2, 1, 3].map(choice).concat();
    assert_eq!(
        (golds(&file, None).0.as_str(), golds(&file, Some(2)).0.as_str()),
        ("A|B|B|A|C", "A|B")
    );
    // Completions that the file calls incorrect are no golds.
    for judgement in [r#""correct":false"#, r#""reward":0.0"#, r#""is_correct":"False""#] {
        let rows = format!(
            "{{\"prompt\":\"a?\",\"response\":\"The answer is 6.\",{judgement}}}\n\
             {{\"prompt\":\"b?\",\"response\":\"The answer is 7.\"}}"
        );
        let (found, _, left_out) = golds(&rows, None);
        assert_eq!((found.as_str(), left_out), ("7", 1), "{judgement}");
    }
    let (_, notes, _) = golds(r#"{"question":"Why?","remark":"It is cold.","answer":"2"}"#, None);
    assert!(notes.contains("not used: `remark`"), "{notes}");
}

#[test]
fn one_object_is_a_row_and_parts_of_a_split_belong_together() {
    for text in [
        r#"{"question":"1+1?","answer":"2"}"#,
        r#"{"question":"1+1?","answer":"2","steps":[{"text":"1+1=2"}]}"#,
        // What all rows are told is no row.
        r#"{"instruction":"Solve each.","data":[{"question":"1+1?","answer":"2"}]}"#,
    ] {
        let set = read("a.json", text, &Columns::default()).unwrap();
        assert_eq!(
            (set.problems[0].prompt.plain().trim(), &*set.problems[0].answer),
            ("1+1?", "2"),
            "{text}"
        );
    }
    for (names, mend) in [
        (vec!["train-00000-of-00002.parquet"], "1 of the 2 parts"),
        (vec!["train-00000-of-00001.parquet", "train-00000-of-00002.parquet"], "in two ways"),
        (vec!["state.json", "data.arrow"], "save_to_disk"),
        (vec!["README.md"], "without a file"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        names.iter().for_each(|name| std::fs::write(folder.path().join(name), "").unwrap());
        let message = files_in(folder.path()).unwrap_err().to_string();
        assert!(message.contains(mend), "{names:?}: {message}");
    }
}

#[test]
fn files_in_folders_of_a_dataset_are_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    std::fs::write(place("a.jsonl"), "").unwrap();
    for inner in ["database", "more"] {
        std::fs::create_dir(place(inner)).unwrap();
    }
    std::fs::write(place("database/schema.sql"), "").unwrap();
    assert_eq!(files_in(folder.path()).unwrap(), (vec![place("a.jsonl")], None));
    std::fs::write(place("more/b.jsonl"), "").unwrap();
    let (_, note) = files_in(folder.path()).unwrap();
    assert!(note.is_some_and(|note| note.ends_with("not read: `more`")));
}
