//! Tests of reading files: what is found, what is refused and how.

use super::*;

#[test]
fn bytes_that_are_no_text_are_named() {
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
    // What columns mean, here that indices begin at 1, is the same where few rows are wanted.
    let shard = |answers: [u8; 2]| -> String {
        let row = |n| {
            format!(
                "{{\"question\":\"{n}?\",\"choices\":[\"w\",\"x\",\"y\",\"z\"],\"answer\":{n}}}\n"
            )
        };
        answers.map(row).concat()
    };
    let files = [write("d.jsonl", &shard([1, 2])), write("e.jsonl", &shard([3, 4]))];
    let first = |limit| open(&files, &Columns::default(), limit).unwrap().problems.remove(0).answer;
    assert_eq!([first(None), first(Some(1))], ["A", "A"]);
}

/// The dataset of a file with this name and text.
fn of_text(name: &str, text: &str, columns: &Columns) -> crate::Result<crate::Dataset> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    crate::open(path.to_str().unwrap(), columns, None)
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
fn a_file_is_read_the_same_way_however_many_problems_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let choice = |index: usize| {
        format!("{{\"question\":\"?\",\"choices\":[\"x\",\"y\",\"z\"],\"answer\":{index}}}\n")
    };
    let path = folder.path().join("a.jsonl");
    std::fs::write(&path, [1, 2, 2, 1, 3].map(choice).concat()).unwrap();
    for (limit, golds) in [(None, "ABBAC"), (Some(2), "AB")] {
        let set = open(std::slice::from_ref(&path), &Columns::default(), limit).unwrap();
        assert_eq!(set.problems.iter().map(|one| &*one.answer).collect::<String>(), golds);
    }
}

#[test]
fn parts_of_a_split_belong_together() {
    for (names, mend) in [
        (vec!["train-00000-of-00002.parquet"], "1 of the 2 parts"),
        (vec!["train-00000-of-00001.parquet", "train-00000-of-00002.parquet"], "in two ways"),
        (vec!["state.json", "data.arrow"], "save_to_disk"),
        (vec!["README.md"], "without a file"),
        (
            vec!["train.jsonl", "train (1).jsonl"],
            "`train (1).jsonl` may be a copy of `train.jsonl`",
        ),
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
