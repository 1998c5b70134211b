//! Rows with a part that is null, empty or no text, beside whole ones: what is read, and why others are left out.

use serde_json::{Value, json};
use tealight_datasets::read::{Columns, Purpose};
use tealight_datasets::{Dataset, prompting};

/// The dataset of rows in JSONL.
fn read(rows: &[Value], purpose: Purpose) -> Result<Dataset, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.jsonl");
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(&path, lines).expect("written");
    let columns = Columns { purpose, ..Columns::default() };
    tealight_datasets::open(path.to_str().expect("UTF-8"), &columns, None)
        .map_err(|error| error.to_string())
}

/// Checks that of two rows, in both orders, the second is left out for a reason with these words.
fn check(purpose: Purpose, [good, bad]: [Value; 2], words: &str) {
    for rows in [[good.clone(), bad.clone()], [bad.clone(), good.clone()]] {
        let set = read(&rows, purpose).unwrap_or_else(|error| panic!("{rows:?}: {error}"));
        assert_eq!((set.problems.len(), set.unusable.len()), (1, 1), "{rows:?}");
        assert!(set.unusable[0].why.contains(words), "{rows:?}: {}", set.unusable[0].why);
        assert!(set.notes.iter().any(|note| note.contains("left out")), "{:?}", set.notes);
    }
    let error = read(&[bad.clone(), bad.clone()], purpose).err();
    assert!(error.is_some(), "{bad}: read where all rows are such");
}

fn chat(turns: &[(&str, Value)]) -> Value {
    turns.iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

#[test]
fn rows_without_a_solution_are_not_learned() {
    for column in ["completion", "answer", "output", "solution", "response"] {
        for (empty, words) in [
            (json!(null), "no solution"),
            (json!(""), "no solution"),
            (json!([]), "the solution is a list"),
            (json!(["a", "b"]), "the solution is a list"),
        ] {
            let row = |value: &Value| json!({"prompt": "2+4?", column: value});
            check(Purpose::Imitate, [row(&json!("It is 6.")), row(&empty)], words);
        }
        let missing = json!({"prompt": "2+4?"});
        let row = json!({"prompt": "2+4?", column: "It is 6."});
        let set = read(&[row, missing], Purpose::Imitate).expect("is read");
        assert_eq!((set.problems.len(), set.unusable.len()), (1, 1), "{column}");
    }
}

#[test]
fn chats_without_a_question_or_an_answer_are_left_out() {
    let asked = ("user", json!("q"));
    let whole = chat(&[asked.clone(), ("assistant", json!("It is 6."))]);
    for (turns, words) in [
        (chat(&[asked.clone(), ("assistant", json!(null))]), "a turn of the assistant"),
        (chat(std::slice::from_ref(&asked)), "does not end with a turn of the assistant"),
        (chat(&[("user", json!("")), ("assistant", json!("It is 6."))]), "no question"),
        (json!([]), "no question"),
        (json!(null), "no question"),
    ] {
        let rows = [json!({"messages": whole}), json!({"messages": turns})];
        for purpose in [Purpose::Imitate, Purpose::Judge] {
            let boxed = json!({"messages": chat(&[asked.clone(), ("assistant", json!("#### 6"))])});
            check(purpose, [boxed, rows[1].clone()], words);
        }
        check(Purpose::Imitate, rows, words);
    }
    let completion =
        |content: Value| json!({"prompt": "q", "completion": chat(&[("assistant", content)])});
    check(Purpose::Imitate, [completion(json!("6")), completion(json!(null))], "`completion`");
    let error = read(&[json!({"messages": chat(&[asked])})], Purpose::Imitate).err();
    let error = error.expect("is refused");
    assert!(error.contains("no chat in column `messages` ends with"), "{error}");
    for empty in [json!(null), json!(""), json!([])] {
        let row = |value: Value| json!({"prompt": value, "answer": "6"});
        check(Purpose::Judge, [row(json!("2+4?")), row(empty.clone())], "no question in column");
        check(Purpose::Judge, [row(chat(&[("user", json!("q"))])), row(empty)], "no question");
    }
}

#[test]
fn questions_with_pictures_videos_or_sound_are_left_out_under_any_name() {
    for (column, value) in [
        ("figure", json!({"bytes": "x", "path": "f.png"})),
        ("any", json!({"bytes": null, "path": "f.png"})),
        ("any", json!([{"bytes": "x", "path": null}])),
        ("img", json!("figures/f.PNG")),
        ("video", json!("a.mp4")),
        ("audio", json!({"path": "a.wav", "array": [0.5], "sampling_rate": 16000})),
        ("image", json!("f")),
    ] {
        let row = |value: &Value| json!({"question": "q", column: value, "answer": "5"});
        for purpose in [Purpose::Imitate, Purpose::Judge] {
            let words = format!("(column `{column}`)");
            check(purpose, [row(&json!(null)), row(&value)], &words);
        }
    }
    // Other values of such columns are text.
    let set = read(&[json!({"question": "q", "figure": "a cat", "answer": "5"})], Purpose::Judge);
    assert_eq!(set.expect("is read").problems.len(), 1);
    let part = |kind: &str| {
        let parts = json!([{"type": kind}, {"type": "text", "text": "q"}]);
        json!({"prompt": [{"role": "user", "content": parts}], "answer": "5"})
    };
    for kind in ["image", "video", "input_audio"] {
        check(
            Purpose::Judge,
            [part("text"), part(kind)].map(|row| {
                let text = row.to_string().replace(r#"{"type":"text"},"#, "");
                serde_json::from_str(&text).expect("JSON")
            }),
            "needs a picture",
        );
    }
}

#[test]
fn rows_without_choices_are_asked_as_others() {
    let rows = [
        json!({"question": "Q1", "options": ["x", "y"], "answer": "B"}),
        json!({"question": "What is 3*4?", "options": null, "answer": "12"}),
    ];
    for without in [json!(null), json!([]), json!("")] {
        let mut rows = rows.clone();
        rows[1]["options"] = without;
        let set = read(&rows, Purpose::Judge).expect("is read");
        let asks = |at: usize, text: &str| set.problems[at].prompt.plain().contains(text);
        assert!(asks(0, prompting::BOXED_CHOICE) && asks(1, prompting::BOXED), "{rows:?}");
        assert_eq!(set.problems[1].answer, "12");
    }
}

#[test]
fn an_absent_choice_is_not_shown_and_moves_no_letter() {
    let gpqa = |wrong: Value| {
        json!({"Question": "Q", "Correct Answer": "right", "Incorrect Answer 1": "a",
               "Incorrect Answer 2": "b", "Incorrect Answer 3": wrong})
    };
    for rows in [[gpqa(json!(null)), gpqa(json!("c"))], [gpqa(json!("c")), gpqa(json!(""))]] {
        let set = read(&rows, Purpose::Judge).expect("is read");
        for (problem, row) in set.problems.iter().zip(&rows) {
            let asked = problem.prompt.plain();
            assert!(asked.contains(&format!("{}. right", problem.answer)), "{asked}");
            let has_all = row["Incorrect Answer 3"] == "c";
            assert_eq!(asked.contains("\nD. "), has_all, "{asked}");
        }
        assert_eq!(set.problems.len(), 2);
    }
}

#[test]
fn a_short_solution_that_reckons_is_no_answer() {
    let row = |solution: &str| json!({"question": "q", "solution": solution});
    let marked = row("We compute. #### 5");
    check(Purpose::Judge, [marked, row("We compute 5. So 5.")], "marks no final answer");
    for answer in ["5 apples and 3 pears", "Tuesday.", "x = 3 or x = -2", "12 cm."] {
        let set = read(&[row(answer)], Purpose::Judge);
        assert_eq!(set.expect(answer).problems.len(), 1);
    }
}

#[test]
fn nulls_in_the_json_of_tools_and_calls_are_kept() {
    let tool =
        json!({"type": "function", "function": {"name": "f", "parameters": {"default": null}}});
    let call = json!({"function": {"name": "f", "arguments": {"a": 1, "unit": null}}});
    let turns = json!([{"role": "user", "content": "w?"},
                       {"role": "assistant", "content": "", "tool_calls": [call]}]);
    for tools in [json!([tool]), json!(json!([tool]).to_string()), json!([tool.to_string()])] {
        let row = json!({"messages": turns, "tools": tools});
        let set = read(&[row], Purpose::Imitate).expect("is read");
        let stored = serde_json::to_string(&set.problems[0]).expect("JSON");
        assert!(
            stored.contains(r#""unit":null"#) && stored.contains(r#""default":null"#),
            "{stored}"
        );
    }
}
