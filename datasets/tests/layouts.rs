//! The column layouts of well-known datasets, in `layouts.jsonl` with rows of our own making, to prompts, gold answers
//! and refusals. Files of other forms stand there as `text`.

use std::fmt::Debug;
use std::path::Path;

use serde_json::Value;
use tealight_core::{Message, Prompt};
use tealight_datasets::read::{Columns, Purpose};
use tealight_datasets::{Dataset, Prompting, Rewards, Verdict, prompting, verify};

/// Reads a text as a file.
fn open(path: &Path, text: &str, columns: &Columns) -> Result<Dataset, String> {
    std::fs::write(path, text).expect("written");
    tealight_datasets::open(path.to_str().expect("UTF-8"), columns, None)
        .map_err(|error| error.to_string())
}

/// Reads rows as a file of the format, without an instruction after the questions.
fn read(folder: &Path, rows: &[Value], columns: Columns) -> Result<Dataset, String> {
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    let prompting = Prompting { instruction: Some(String::new()), ..Prompting::default() };
    open(&folder.join("rows.jsonl"), &lines.join("\n"), &Columns { prompting, ..columns })
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

/// The texts of a list, or the one text.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(all) => all.iter().map(|one| one.as_str().expect("a text")).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

/// Reads the rows or the text of a layout, with the columns and the template that it names.
fn read_case(case: &Value, folder: &Path) -> Result<Dataset, String> {
    let named = |key: &str| case["columns"][key].as_str().map(str::to_owned);
    let template = |text| prompting::Template::new("t", text).expect("a template");
    let purpose = if case["imitate"] == true { Purpose::Imitate } else { Purpose::Judge };
    let (prompt, answer) = (named("prompt"), named("answer"));
    let mut columns = Columns { prompt, answer, purpose, ..Columns::default() };
    match case["template"].as_str() {
        Some(text) => columns.prompting.template = Some(template(text)),
        None => columns.prompting.instruction = Some(String::new()),
    }
    let lines: Vec<String> =
        case["rows"].as_array().into_iter().flatten().map(Value::to_string).collect();
    let text = case["text"].as_str().map_or_else(|| lines.join("\n"), str::to_owned);
    open(&folder.join(case["file"].as_str().unwrap_or("rows.jsonl")), &text, &columns)
}

/// Checks a layout; says what differs.
fn check(case: &Value, folder: &Path) -> Result<(), String> {
    let read = read_case(case, folder);
    if !case["refused"].is_null() {
        let is_said = |error: &String| texts(&case["refused"]).iter().all(|it| error.contains(it));
        return match read {
            Ok(set) => Err(format!("read as {:?}", set.problems)),
            Err(error) if is_said(&error) && !error.contains('\n') => Ok(()),
            Err(error) => Err(error),
        };
    }
    let set = read?;
    let (first, last) = (&set.problems[0], &set.problems[set.problems.len() - 1]);
    let same = |what: &str, found: &dyn Debug, expected: &dyn Debug| {
        let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
        let is_same = found == expected;
        is_same.then_some(()).ok_or_else(|| format!("{what}: {found} instead of {expected}"))
    };
    for (key, problem) in [("prompt", first), ("last", last)] {
        if case[key].is_array() {
            same(key, &problem.prompt, &chat(&case[key]))?;
        }
    }
    let asked = first.prompt.plain();
    if let Some(right) = case["right"].as_str() {
        // The order of the choices is drawn; the letter is that of the right one.
        let shows = |text: &&str| asked.contains(&format!(". {text}"));
        same("choices", &texts(&case["among"]).iter().all(shows), &true)?;
        same("gold", &asked.contains(&format!("{}. {right}", first.answer)), &true)?;
    }
    let answers: Vec<&str> = set.problems.iter().map(|problem| &*problem.answer).collect();
    let learned: Vec<_> = set.problems.iter().filter_map(|one| one.solution.as_ref()).collect();
    for (key, found) in [
        ("gold", Some(&first.answer)),
        ("answers", Some(&answers.join("|"))),
        ("id", Some(&first.id)),
        ("solution", first.solution.as_ref()),
        ("why", set.unusable.first().map(|one| &one.why)),
    ] {
        if let Some(expected) = case[key].as_str() {
            same(key, &found, &Some(expected))?;
        }
    }
    if case["learned"].is_array() {
        same("learned", &learned, &texts(&case["learned"]))?;
    }
    for part in texts(&case["holds"]) {
        same(&asked, &asked.contains(part), &true)?;
    }
    let is_noted = |part: &str| set.notes.iter().any(|note| note.contains(part));
    for part in texts(&case["notes"]) {
        same(part, &is_noted(part), &true)?;
    }
    for part in texts(&case["no_note"]) {
        same(part, &is_noted(part), &false)?;
    }
    let left_out = case["left_out"].as_u64().unwrap_or(0) as usize;
    same("left out", &set.unusable.len(), &left_out)?;
    if let Some(rows) = case["rows"].as_array() {
        same("problems", &set.problems.len(), &(rows.len() - left_out))?;
    }
    let counted = set.notes.iter().filter_map(|note| note.split_once(" problems left out: "));
    let counted = counted.filter_map(|(count, _)| count.split(' ').next()?.parse::<usize>().ok());
    same("left out by the notes", &counted.sum::<usize>(), &left_out)?;
    let verifier = case["verifier"].as_str().unwrap_or("math");
    same("verifier", &set.verifier.name(), &verifier)?;
    match set.verifier.verify(first, &format!("\\boxed{{{}}}", first.answer)) {
        Verdict::Correct { .. } => Ok(()),
        _ if verifier != "math" || case["imitate"] == true => Ok(()),
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

/// TRL's reward functions may read prompts and completions alone; other verifiers need a gold answer.
#[test]
fn rows_of_prompts_alone_are_for_programs_and_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = [serde_json::json!({"prompt": "Write."}), serde_json::json!({"prompt": "Read."})];
    let read = |verifier: &str| {
        let rewards = tealight_datasets::Rewards::by(Some(verifier.into()));
        read(folder.path(), &rows, Columns { rewards, ..Columns::default() })
    };
    let set = read("program:cat").expect("is read");
    assert_eq!((set.problems.len(), set.problems[1].answer.as_str()), (2, ""));
    assert!(set.notes[0].contains("empty gold answer"), "{:?}", set.notes);
    assert!(read("math").is_err());
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
