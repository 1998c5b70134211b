//! Which problem a record is of, and which of its keys say what, where several could.

use serde_json::{Value, json};

use super::cases::{graded, graded_with, has_note, lines, numbers};
use super::*;

fn dataset(rows: &[Value]) -> Dataset {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ds.jsonl").display().to_string();
    std::fs::write(&path, lines(rows)).unwrap();
    tealight_datasets::open(&path, &Default::default(), None).unwrap()
}

/// The samples and the correct ones of each problem of these records.
fn counts(rows: &[Value]) -> Vec<(usize, usize)> {
    numbers(&graded(&lines(rows), None))
}

#[test]
fn the_answer_beside_a_gold_is_what_the_model_said() {
    for key in
        ["ground_truth", "gt", "expected_answer", "correct_answer", "reference_answer", "target"]
    {
        let row = json!({"id": 1, "completion": "so \\boxed{8}", "answer": "8", key: "7"});
        assert_eq!(counts(&[row]), [(1, 0)], "{key}");
    }
    assert_eq!(counts(&[json!({"id": 1, "completion": "so \\boxed{8}", "answer": "8"})]), [(1, 1)]);
}

#[test]
fn an_instruction_beside_a_question_is_no_problem_of_its_own() {
    for (one, two) in [("prompt", "question"), ("instruction", "input"), ("prompt", "input")] {
        let row = |i: usize| json!({one: "Solve.", two: format!("What is {i} + 1?"), "gold": "7", "completion": "7"});
        assert_eq!(counts(&[row(1), row(2), row(3)]), [(1, 1); 3], "{one}, {two}");
    }
    let alpaca = |i: usize| json!({"instruction": format!("Add 1 to {i}."), "input": "", "gold": "7", "output": "7"});
    assert_eq!(counts(&[alpaca(1), alpaca(2)]), [(1, 1); 2]);
    // The question as it was put, beside itself.
    let put = |end: &str| json!({"question": "What is 6 + 1?", "prompt": format!("Q: What is 6 + 1?{end}"), "gold": "7", "completion": "7"});
    assert_eq!(counts(&[put(" A:"), put(" A:")]), [(2, 2)]);
}

#[test]
fn lists_of_texts_are_lists_where_they_are_printed() {
    for all in [
        json!(["7", "8", "\\boxed{7}"]),
        json!("[\"7\", \"8\", \"\\\\boxed{7}\"]"),
        json!("['7', '8', '\\\\boxed{7}']"),
    ] {
        assert_eq!(counts(&[json!({"id": 1, "gold": "7", "completions": all})]), [(3, 2)], "{all}");
    }
    for gold in [json!(["7", "seven"]), json!("[\"7\", \"seven\"]"), json!("['7', 'seven']")] {
        assert_eq!(
            counts(&[json!({"id": 1, "gold": gold, "completion": "7"})]),
            [(1, 1)],
            "{gold}"
        );
    }
    assert_eq!(
        counts(&[json!({"id": 1, "gold": "[1, 2]", "completion": "\\boxed{[1, 2]}"})]),
        [(1, 1)]
    );
    assert_eq!(counts(&[json!({"id": 1, "gold": true, "completion": "\\boxed{true}"})]), [(1, 1)]);
}

#[test]
fn texts_in_place_of_a_gold_answer_are_none() {
    let rows: Vec<Value> = ["7", "None", "nan", "N/A", "[invalid]", "proof", "notfound"]
        .iter()
        .enumerate()
        .map(|(id, gold)| json!({"id": id, "gold": gold, "completion": "7"}))
        .collect();
    let graded = graded(&lines(&rows), None);
    assert_eq!(numbers(&graded), [(1, 1)]);
    has_note(&graded, "6 records; f.jsonl:2");
}

#[test]
fn the_last_question_of_a_prompt_is_asked() {
    let sums = dataset(&[
        json!({"question": "What is 1 + 1?", "answer": "2"}),
        json!({"question": "What is 2 + 2?", "answer": "4"}),
        json!({"question": "What is 2 + 2? Double it.", "answer": "8"}),
        json!({"question": "Let x = 5.\nWhat is 1 + 1?", "answer": "9"}),
    ]);
    for (prompt, gold) in [
        ("Question: What is 1 + 1?\nAnswer: 2\n\nQuestion: What is 2 + 2?\nAnswer:", "4"),
        ("Question: What is 9 + 9?\nAnswer: 18\n\nQuestion: What is 2 + 2?\nAnswer:", "4"),
        ("Q: What is 2 + 2? Double it.\nA:", "8"),
        ("What is 2 + 2? Please reason step by step.", "4"),
        ("<|im_start|>user\nWhat is 2 + 2? Double it.<|im_end|>\n<|im_start|>assistant\n", "8"),
        ("<s>[INST] What is 2 + 2? [/INST]", "4"),
        ("<start_of_turn>user\nWhat is 1 + 1?<end_of_turn>\n<start_of_turn>model\n", "2"),
        ("<|start_header_id|>user<|end_header_id|>\n\nWhat is 1 + 1?<|eot_id|>", "2"),
        ("Let x = 5.\nWhat is 1 + 1?", "9"),
        ("Answer this.\nLet x = 5.\nWhat is 1 + 1?\nA:", "9"),
    ] {
        let row = json!({"prompt": prompt, "completion": format!("\\boxed{{{gold}}}")});
        assert_eq!(numbers(&graded(&lines(&[row]), Some(&sums))), [(1, 1)], "{prompt}");
    }
    // Ids from 0 beside rows from 1: the example before the question has the row of this id.
    let row = json!({"doc_id": 1, "doc": {}, "target": "4", "resps": [["\\boxed{4}"]], "filter": "none",
        "arguments": {"gen_args_0": {"arg_0": "Q: What is 1 + 1?\nA: 2\n\nQ: What is 2 + 2?\nA:"}}});
    assert_eq!(numbers(&graded(&lines(&[row]), Some(&sums))), [(1, 1)]);
    // A part of another question is none, and what may be another question is said.
    for prompt in ["Say what is 1 + 1?", "What is 1 + 1?!", "What is 1 + 12?"] {
        let row = json!({"prompt": prompt, "completion": "2"});
        assert!(
            graded_with("f.jsonl", &lines(&[row]), Some(&sums), |job| job).is_err(),
            "{prompt}"
        );
    }
    let row = |prompt: &str| json!({"prompt": prompt, "completion": "2"});
    let other = [row("What is 1 + 1? Then halve it."), row("What is 2 + 2? Subtract 2.")];
    has_note(&graded(&lines(&other), Some(&sums)), "they may ask something else");
}

#[test]
fn ids_are_found_under_the_same_keys_in_a_dataset() {
    for key in ["question_id", "idx", "problem_id", "task_id"] {
        let row = |id: usize, answer: &str| json!({key: id, "question": format!("Q{id}?"), "answer": answer});
        let two = dataset(&[row(7, "1"), row(1, "2")]);
        let record = json!({key: 1, "completion": "2"});
        assert_eq!(numbers(&graded(&lines(&[record]), Some(&two))), [(1, 1)], "{key}");
    }
    // Numbers that come twice are no ids.
    let row = |idx: usize, question: &str| json!({"idx": idx, "question": question, "answer": "2"});
    assert_eq!(dataset(&[row(7, "A?"), row(7, "B?")]).problems[1].id, "2");
}

#[test]
fn tasks_of_lm_eval_without_gold_answers_are_refused_and_indices_are_letters() {
    let row = |doc: Value, target: &str| json!({"doc_id": 0, "doc": doc, "doc_hash": "h", "target": target, "resps": [["The answer is B"]], "filter": "none"});
    for (doc, why) in [
        (json!({"instruction_id_list": ["punctuation:no_comma"]}), "instructions that code checks"),
        (json!({"entry_point": "f", "test": "def check(c): pass"}), "programs, which tests check"),
        (json!({"test_list": ["assert f(1) == 1"]}), "programs, which tests check"),
    ] {
        let refused = graded_with("f.jsonl", &lines(&[row(doc, "0")]), None, |job| job);
        let message = format!("{:#}", refused.err().expect("refused"));
        assert!(message.contains(why), "{message}");
    }
    let choices = json!({"question": "Q", "choices": ["a", "b", "c", "d"], "answer": 1});
    assert_eq!(counts(&[row(choices, "1")]), [(1, 1)]);
}

#[test]
fn choices_in_another_order_than_the_prompts_are_refused() {
    let colours = dataset(&[
        json!({"question": "Which is a colour?", "choices": ["tree", "blue", "ten"], "answer": "B"}),
        json!({"question": "Which is a number?", "choices": ["tree", "blue", "ten"], "answer": "C"}),
    ]);
    let row = |order: [&str; 3]| {
        let [a, b, c] = order;
        json!({"id": 1, "prompt": format!("Which is a colour?\n(A) {a}\n(B) {b}\n(C) {c}\nAnswer:"), "completion": "\\boxed{B}"})
    };
    let same = row(["tree", "blue", "ten"]);
    assert_eq!(numbers(&graded(&lines(&[same]), Some(&colours))), [(1, 1)]);
    let other =
        graded_with("f.jsonl", &lines(&[row(["blue", "tree", "ten"])]), Some(&colours), |job| job);
    let message = format!("{:#}", other.err().expect("refused"));
    assert!(message.contains("the prompt has the choice"), "{message}");
}

#[test]
fn ids_of_requests_name_the_problem_and_the_number_of_a_sample() {
    use crate::grade::known::before_number;
    for (id, stem) in [
        ("p7-3", Some("p7")),
        ("math/12_sample_0", Some("math/12")),
        ("p7/run-3", Some("p7")),
        ("p7#3", Some("p7")),
        ("p7", None),
        ("7", None),
        ("-7", None),
    ] {
        assert_eq!(before_number(id), stem, "{id}");
    }
    let all = dataset(&[
        json!({"id": "a", "question": "1 + 1?", "answer": "2"}),
        json!({"id": "b-1", "question": "2 + 2?", "answer": "4"}),
        json!({"id": "b", "question": "3 + 3?", "answer": "6"}),
    ]);
    let rows = ["a-0", "a-1", "b-1", "b-2"].map(|id| {
        json!({"custom_id": id, "response": {"status_code": 200, "body": {"id": id, "choices": [
            {"message": {"content": "\\boxed{4}"}, "finish_reason": "stop"}]}}})
    });
    let graded = graded(&lines(&rows), Some(&all));
    assert_eq!(numbers(&graded), [(2, 0), (1, 1), (1, 0)]);
    has_note(&graded, "3 records name a problem");
}

#[test]
fn samples_of_problems_without_a_name_of_their_own_are_noted() {
    let rows = |by: &dyn Fn(usize, usize) -> Value| -> Vec<Value> {
        (0..6).map(|i| by(i / 3, i % 3)).collect()
    };
    let noted = rows(&|p, j| json!({"id": format!("p{p}-{j}"), "gold": "1", "completion": "1"}));
    let noted = graded(&lines(&noted), None);
    assert_eq!(noted.problems.len(), 6);
    assert!(noted.notes.iter().any(|note| note.contains("\"problem_id\"")), "{:?}", noted.notes);
    // Several samples of each say that the ids are those of problems.
    let twice =
        rows(&|p, j| json!({"id": format!("p{p}-{j}"), "gold": "1", "completions": ["1", "2"]}));
    assert_eq!(graded(&lines(&twice), None).notes, Vec::<String>::new());
    // Beside the id of the problem, `id` is that of the record.
    let named =
        rows(&|p, j| json!({"id": 3 * p + j, "problem_id": p, "gold": "1", "completion": "1"}));
    assert_eq!(counts(&named), [(3, 3), (3, 3)]);
}

#[test]
fn opencompass_counts_the_dataset_n_times() {
    let row = |p: usize| json!({"origin_prompt": [{"role": "HUMAN", "prompt": format!("{p} + 0?")}], "prediction": "1", "gold": p});
    let all: serde_json::Map<String, Value> = (0..9).map(|i| (i.to_string(), row(i % 3))).collect();
    assert_eq!(counts(&[Value::Object(all)]), [(3, 0), (3, 3), (3, 0)]);
}

#[test]
fn records_of_two_models_are_noted() {
    let row = |model: &str| json!({"id": "a", "gold": "1", "completion": "1", "model": model});
    let graded = graded(&lines(&[row("base"), row("tuned"), row("base")]), None);
    assert_eq!(graded.models, ["base", "tuned"]);
    assert!(graded.notes[0].contains("`base`, `tuned`"), "{:?}", graded.notes);
}

#[test]
fn a_list_of_finish_reasons_has_one_for_each_completion() {
    let row =
        json!({"id": "a", "gold": "1", "completions": ["1", "2"], "finish_reasons": ["stop"]});
    let verifier = verify::open("math").unwrap();
    let mut source = Source::new(std::io::Cursor::new(lines(&[row])), "f.jsonl").unwrap();
    let error = GradeJob::new(&*verifier).run(&mut source, &mut |_| Ok(())).err().unwrap();
    assert!(format!("{error:#}").contains("2 completions and 1 finish reason"), "{error:#}");
}

#[test]
fn a_conversation_may_end_with_the_completion() {
    let row = |answer: &str| {
        json!({"id": "a", "gold": "1", "messages": [
        {"role": "user", "content": "2 - 1?"}, {"role": "assistant", "content": answer}]})
    };
    assert_eq!(counts(&[row("1"), row("2")]), [(2, 1)]);
}
