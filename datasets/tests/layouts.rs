//! The column layouts of well-known datasets, in `layouts.jsonl` with rows of our own making, to prompts, gold answers
//! and refusals.

use std::path::Path;

use serde_json::{Value, json};
use tealight_core::{Message, Prompt};
use tealight_datasets::read::{Columns, Purpose};
use tealight_datasets::{Dataset, Prompting, Rewards, Verdict, prompting, verify};

/// Reads rows as a file of the format, without an instruction after the questions.
fn read(folder: &Path, rows: &[Value], columns: Columns) -> Result<Dataset, String> {
    let path = folder.join("rows.jsonl");
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    std::fs::write(&path, lines.join("\n")).expect("written");
    let prompting = Prompting { instruction: Some(String::new()), ..Prompting::default() };
    let columns = Columns { prompting, ..columns };
    tealight_datasets::open(path.to_str().expect("UTF-8"), &columns, None)
        .map_err(|error| error.to_string())
}

/// `[[role, content], ..]`.
fn chat(turns: &Value) -> Prompt {
    let message = |turn: &Value| {
        Message::new(turn[0].as_str().expect("a role"), turn[1].as_str().expect("a text"))
    };
    Prompt::Chat(turns.as_array().expect("turns").iter().map(message).collect())
}

fn layouts() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layouts.jsonl");
    let text = std::fs::read_to_string(path).expect("readable");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Checks a layout; says what differs.
fn check(case: &Value, folder: &Path) -> Result<(), String> {
    let rows = case["rows"].as_array().expect("rows");
    let read = read(folder, rows, Columns::default());
    if let Some(reason) = case["refused"].as_str() {
        return match read {
            Ok(set) => Err(format!("read as {:?}", set.problems)),
            Err(error) if error.contains(reason) && !error.contains('\n') => Ok(()),
            Err(error) => Err(error),
        };
    }
    let set = read?;
    let (first, last) = (&set.problems[0], &set.problems[set.problems.len() - 1]);
    let same = |what: &str, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
        let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
        if found == expected {
            Ok(())
        } else {
            Err(format!("{what}: {found} instead of {expected}"))
        }
    };
    for (key, problem) in [("prompt", first), ("last", last)] {
        if case[key].is_array() {
            same(key, &problem.prompt, &chat(&case[key]))?;
        }
    }
    if let Some(right) = case["right"].as_str() {
        // The order of the choices is drawn; the letter is that of the right one.
        let asked = first.prompt.plain();
        let all = case["among"].as_array().expect("choices");
        let shows = |text: &Value| asked.contains(&format!(". {}", text.as_str().expect("a text")));
        same("choices", &all.iter().all(shows), &true)?;
        same("gold", &asked.contains(&format!("{}. {right}", first.answer)), &true)?;
    } else {
        same("gold", &first.answer, &case["gold"].as_str().expect("a gold answer"))?;
    }
    for (key, found) in [("id", Some(&first.id)), ("solution", first.solution.as_ref())] {
        if let Some(expected) = case[key].as_str() {
            same(key, &found, &Some(expected))?;
        }
    }
    for part in case["holds"].as_array().into_iter().flatten() {
        same("prompt", &first.prompt.plain().contains(part.as_str().expect("a text")), &true)?;
    }
    let left_out = case["left_out"].as_u64().unwrap_or(0) as usize;
    same("left out", &set.unusable.len(), &left_out)?;
    same("problems", &set.problems.len(), &(rows.len() - left_out))?;
    let counted = set.notes.iter().filter_map(|note| note.split_once(" problems left out: "));
    let counted = counted.filter_map(|(count, _)| count.split(' ').next()?.parse::<usize>().ok());
    same("left out by the notes", &counted.sum::<usize>(), &left_out)?;
    let verifier = case["verifier"].as_str().unwrap_or("math");
    same("verifier", &set.verifier.name(), &verifier)?;
    match set.verifier.verify(first, &format!("\\boxed{{{}}}", first.answer)) {
        Verdict::Correct { .. } => Ok(()),
        _ if verifier != "math" => Ok(()),
        other => Err(format!("the gold answer `{}` is not correct: {other:?}", first.answer)),
    }
}

#[test]
fn listed_layouts_are_read_or_refused_as_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = layouts();
    assert!(cases.len() >= 100, "{}", cases.len());
    let failure =
        |case: &Value| Some(format!("{}: {}", case["layout"], check(case, folder.path()).err()?));
    let failures: Vec<String> = cases.iter().filter_map(failure).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn named_columns_decide_what_is_left_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = |text: &str| -> Vec<Value> { vec![serde_json::from_str(text).expect("JSON")] };
    let named = |prompt: Option<&str>, answer: Option<&str>| Columns {
        prompt: prompt.map(String::from),
        answer: answer.map(String::from),
        ..Columns::default()
    };
    let first = |text: &str, columns: Columns| {
        let set = read(folder.path(), &rows(text), columns).expect("is read");
        (set.problems[0].prompt.plain().trim_end().to_owned(), set.problems[0].answer.clone())
    };
    let two = r#"{"problem": "5+9?", "input": "1+1?", "answer": "14"}"#;
    assert_eq!(first(two, named(Some("problem"), None)).0, "5+9?");
    assert_eq!(first(two, named(Some("input,problem"), None)).0, "1+1? 5+9?");
    let context = r#"{"prompt": "5+9?", "context": "A passage.", "answer": "14"}"#;
    assert_eq!(first(context, named(Some("context,prompt"), None)).0, "A passage. 5+9?");
    let kto = r#"{"prompt": "5+9?", "label": true, "completion": "14"}"#;
    assert_eq!(first(kto, named(None, Some("completion"))).1, "14");
    let aliases = r#"{"question": "5+9?", "answer": {"value": "14", "aliases": []}}"#;
    assert_eq!(first(aliases, named(None, Some("answer.value"))).1, "14");
    // Two readings of one column, another column that has one.
    let choices =
        r#"{"question": "3-1?", "choices": ["1", "2", "3", "4"], "answer": "2", "letter": "B"}"#;
    assert_eq!(first(choices, named(None, Some("letter"))).1, "B");
    let template =
        prompting::Template::new("t", "{{ question }} {{ choices[1] }}").expect("a template");
    let written = Columns { answer: Some("answer".into()), ..Columns::default() };
    let written = Columns {
        prompting: Prompting { template: Some(template), ..Prompting::default() },
        ..written
    };
    let path = folder.path().join("t.jsonl");
    std::fs::write(&path, choices).expect("written");
    let set =
        tealight_datasets::open(path.to_str().expect("UTF-8"), &written, None).expect("is read");
    assert_eq!(set.problems[0].answer, "2");
    assert!(set.problems[0].prompt.plain().starts_with("3-1? 2"));
}

#[test]
fn verifiers_of_the_users_get_gold_answers_of_any_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = serde_json::json!({"prompt": "Write it.", "ground_truth": "{\"func_name\": \"f\"}", "tests": ["a", "b"]});
    let rewards = |spec: &str| tealight_datasets::Rewards::by(Some(spec.into()));
    let read = |answer: &str| {
        let columns = Columns {
            answer: Some(answer.into()),
            rewards: rewards("program:cat"),
            ..Columns::default()
        };
        read(folder.path(), std::slice::from_ref(&row), columns).expect("is read").problems[0]
            .answer
            .clone()
    };
    assert_eq!(read("ground_truth"), "{\"func_name\": \"f\"}");
    assert_eq!(read("tests"), "[\"a\",\"b\"]");
}

/// TRL's reward functions are given the columns of the row, null where a row lacks one; other verifiers need none.
#[test]
fn functions_get_every_column_of_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = [
        serde_json::json!({"prompt": "1 + 1?", "answer": "so 2 #### 2", "level": "easy"}),
        serde_json::json!({"prompt": "1 + 2?", "answer": "so 3 #### 3"}),
    ];
    let columns = |verifiers: &[&str]| {
        let verifiers = verifiers.iter().map(|spec| (*spec).to_owned()).collect();
        let rewards = tealight_datasets::Rewards { verifiers, ..Default::default() };
        let read = read(folder.path(), &rows, Columns { rewards, ..Columns::default() });
        read.expect("is read")
            .problems
            .into_iter()
            .map(|problem| problem.columns)
            .collect::<Vec<_>>()
    };
    for verifiers in [&["program:cat"][..], &["math", "program:cat"]] {
        let columns = columns(verifiers);
        let row = |at: usize| columns[at].as_ref().expect("columns");
        assert_eq!((&row(0)["level"], &row(0)["answer"]), (&"easy".into(), &"so 2 #### 2".into()));
        assert!(row(1)["level"].is_null() && row(1).contains_key("level"));
    }
    assert_eq!(columns(&["math"]), [None, None]);
}

#[test]
fn solutions_that_are_imitated_need_no_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = [
        serde_json::json!({"messages": [{"role": "user", "content": "Write a poem with 3 lines."},
        {"role": "assistant", "content": "Roses are red, violets are blue, 3 lines are not enough for a poem to you."}]}),
    ];
    let columns = Columns { purpose: Purpose::Imitate, ..Columns::default() };
    let set = read(folder.path(), &rows, columns).expect("is read");
    assert!(set.problems[0].solution.as_deref().is_some_and(|text| text.starts_with("Roses")));
    assert!(set.problems[0].prompt.plain().starts_with("Write a poem"));
    let error = read(folder.path(), &rows, Columns::default()).err().expect("is refused");
    assert!(error.contains("marks no final answer"), "{error}");
}

#[test]
fn columns_that_are_not_used_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let notes = |text: &str, columns: Columns| {
        let row = serde_json::from_str(text).expect("JSON");
        read(folder.path(), &[row], columns).expect("is read").notes.join(" ")
    };
    for (text, part) in [
        (r#"{"question":"1+1?","facts":["a b","c"],"answer":"2"}"#, "not used: `facts`"),
        (r#"{"question":"1+1?","response":"The answer is 2","score":10}"#, "not used: `score`"),
        (r#"{"question":"1+1?","answer":"B","note":"x"}"#, "no choices are shown"),
        (r#"{"question":"<|im_start|>user\n1+1?","answer":"2"}"#, "hold `<|im_start|>`"),
    ] {
        let found = notes(text, Columns::default());
        assert!(found.contains(part), "{text}: {found}");
    }
    let index = Columns { answer: Some("answer_idx".into()), ..Columns::default() };
    let found = notes(r#"{"question":"1+1?","answer_idx":2}"#, index);
    assert!(found.contains("indices of choices"), "{found}");
    let sft = Columns { purpose: Purpose::Imitate, ..Columns::default() };
    let found = notes(r#"{"question":"1+1?","reasoning":"1 and 1","answer":"2"}"#, sft);
    assert!(found.contains("`reasoning` is not learned"), "{found}");
}

/// Neither the gold answer beside a completion nor the purpose makes it correct.
#[test]
fn incorrect_completions_are_not_learned() {
    let folder = tempfile::tempdir().expect("a folder");
    for gold in [Value::Null, "2".into()] {
        let rows = [("It is 2.", true), ("It is 3.", false)].map(|(response, is_correct)| {
            serde_json::json!({"question": "1+1?", "response": response, "is_correct": is_correct, "expected_answer": gold})
        });
        let columns = Columns { purpose: Purpose::Imitate, ..Columns::default() };
        let set = read(folder.path(), &rows, columns).expect("is read");
        let learned: Vec<_> =
            set.problems.iter().filter_map(|one| one.solution.as_deref()).collect();
        assert_eq!(learned, ["It is 2."], "{gold}");
        assert_eq!(set.unusable.len(), 1, "{gold}");
    }
}

#[test]
fn choices_are_asked_for_by_their_letter() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("c.jsonl");
    std::fs::write(
        &path,
        r#"{"question": "Largest?", "choices": ["Mars", "Jupiter"], "answer": 1}"#,
    )
    .expect("written");
    let set = tealight_datasets::open(path.to_str().expect("UTF-8"), &Columns::default(), None)
        .expect("is read");
    assert!(set.problems[0].prompt.plain().contains(prompting::BOXED_CHOICE));
    let verifier = verify::open("math").expect("a verifier");
    for (answer, is_correct) in
        [("\\boxed{B}", true), ("<answer>(B)</answer>", true), ("\\boxed{A}", false)]
    {
        assert_eq!(verifier.verify(&set.problems[0], answer).is_correct(), is_correct, "{answer}");
    }
    assert!(
        set.notes[0].contains("answer = `answer`") && set.notes[0].contains("`choices`"),
        "{:?}",
        set.notes
    );
    let first = set.first_problem().expect("a problem");
    assert!(
        first.contains("Largest? A. Mars B. Jupiter") && first.ends_with("gold answer `B`"),
        "{first}"
    );
}

#[test]
fn flexible_mathematics_is_judged_strictly_where_every_prompt_asks_for_a_box() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |question: &str| serde_json::json!({"question": question, "answer": "42"});
    let (boxed, plain) = (row("6 times 7? Put it in \\boxed{}."), row("6 times 7?"));
    for (rows, verifier, is_strict) in [
        (vec![boxed.clone(), boxed.clone()], None, true),
        (vec![boxed.clone(), plain.clone()], None, false),
        (vec![plain], None, false),
        (vec![boxed.clone()], Some("numeric"), false),
        (vec![boxed], Some("math:strict"), false),
    ] {
        let rewards = Rewards::by(verifier.map(str::to_owned));
        let columns = Columns { rewards, ..Columns::default() };
        let mut set = read(folder.path(), &rows, columns).expect("read");
        let before = set.verifier.name();
        assert_eq!(set.judge_strictly(), is_strict, "{rows:?}");
        assert_eq!(set.verifier.name(), if is_strict { "math:strict" } else { before });
        let found = set.verifier.verify(&set.problems[0], "I guess 42").is_correct();
        assert_eq!(found, !is_strict && verifier != Some("math:strict"), "{rows:?}");
    }
}

#[test]
fn columns_that_name_different_choices_are_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = |more: &[(&str, [Value; 3])]| -> Vec<Value> {
        let row = |at: usize| {
            let mut row =
                json!({"question": format!("Which? {at}"), "choices": ["a", "b", "c", "d"]});
            more.iter().for_each(|(name, values)| row[*name] = values[at].clone());
            row
        };
        (0..3).map(row).collect()
    };
    let texts = |values: [&str; 3]| values.map(Value::from);
    let numbers = |values: [u8; 3]| values.map(Value::from);
    for (columns, answers, conflict) in [
        (vec![("answer", texts(["B", "C", "D"])), ("answer_idx", numbers([1, 2, 3]))], "BCD", None),
        // Counted from 1, as the letters beside say.
        (vec![("answer", texts(["B", "C", "A"])), ("answer_idx", numbers([2, 3, 1]))], "BCA", None),
        (vec![("answer", texts(["b", "c", "a"])), ("label", numbers([1, 2, 0]))], "BCA", None),
        (
            vec![("answer", texts(["B", "C", "A"])), ("label", numbers([1, 3, 0]))],
            "BCA",
            Some("`label` names another choice than `answer` in 1 of 3 rows, first in line 2"),
        ),
        (
            vec![("answer", texts(["B"; 3])), ("answer_idx", numbers([0; 3]))],
            "AAA",
            Some("`answer` names another choice than `answer_idx` in 3 of 3 rows, first in line 1"),
        ),
        (
            vec![("answer", texts(["b"; 3])), ("correct_answer", texts(["C"; 3]))],
            "BBB",
            Some("`correct_answer` names another choice than `answer`"),
        ),
    ] {
        let set = read(folder.path(), &rows(&columns), Columns::default()).expect("read");
        let found: String = set.problems.iter().map(|problem| problem.answer.as_str()).collect();
        assert_eq!(found, answers, "{columns:?}");
        let noted = set.notes.iter().find(|note| note.contains("names another choice"));
        assert_eq!(noted.is_some(), conflict.is_some(), "{columns:?}: {noted:?}");
        assert!(noted.is_none_or(|note| note.contains(conflict.unwrap_or_default())), "{noted:?}");
    }
}

#[test]
fn columns_with_different_answers_are_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let alike = json!({"question": "1+1?", "answer": "2", "solution": "so \\boxed{2}"});
    for (row, conflict) in [
        (json!({"question": "2+1?", "answer": "3", "solution": "so \\boxed{3.0}"}), None),
        (
            json!({"question": "2+1?", "answer": "\\frac12", "solution": "\\boxed{\\frac{1}{2}}"}),
            None,
        ),
        (json!({"question": "2+1?", "answer": "3", "solution": "first 4, then 3"}), None),
        (json!({"question": "2+1?", "answer": "3", "output": "#### 4", "target": 1}), None),
        (
            json!({"question": "2+1?", "answer": "3", "solution": "so \\boxed{4}"}),
            Some(
                "`solution` has another answer than `answer` in 1 of 2 rows, first in line 2: `4`, not `3`",
            ),
        ),
        (
            json!({"question": "2+1?", "answer": "so\n#### 4", "final_answer": 3}),
            Some("`answer` has another answer than `final_answer` in 1 of 2 rows"),
        ),
        (
            json!({"question": "2+1?", "answer": "3", "reward_model": {"ground_truth": "4"}}),
            Some("`answer` has another answer than `reward_model.ground_truth`"),
        ),
    ] {
        let rows = [alike.clone(), row];
        let set = read(folder.path(), &rows, Columns::default()).expect("read");
        let noted = set.notes.iter().find(|note| note.contains("has another answer"));
        assert_eq!(noted.is_some(), conflict.is_some(), "{rows:?}: {noted:?}");
        assert!(noted.is_none_or(|note| note.contains(conflict.unwrap_or_default())), "{noted:?}");
        let named = Columns { answer: Some("answer".into()), ..Columns::default() };
        let set = read(folder.path(), &rows, named).expect("read");
        assert!(!set.notes.iter().any(|note| note.contains("has another answer")));
    }
}
