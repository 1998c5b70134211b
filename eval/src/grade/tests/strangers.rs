//! Records of people who name their keys as they like: what is the gold answer, what is the completion, how it ended.

use serde_json::{Value, json};

use super::cases::{graded, graded_with, has_note, lines, numbers};

fn counts(rows: &[Value]) -> Vec<(usize, usize)> {
    numbers(&graded(&lines(rows), None))
}

fn refused(rows: &[Value]) -> String {
    let graded = graded_with("f.jsonl", &lines(rows), None, |job| job);
    format!("{:#}", graded.map(|_| ()).unwrap_err())
}

/// What the model said under `answer`, by a verdict whose key is not known here: no gold answer.
#[test]
fn an_answer_that_changes_from_sample_to_sample_is_no_gold() {
    let row = |i: usize, said: usize| {
        json!({"prompt": format!("What is {i} + 1?"), "answer": said, "fine": said == i + 1,
        "completion": format!("\\boxed{{{said}}}")})
    };
    let rows: Vec<Value> = (0..4).flat_map(|i| [row(i, i + 1), row(i, i + 2)]).collect();
    let why = refused(&rows);
    assert!(why.contains("4 of 4 prompts stand beside several gold answers"), "{why}");
    assert!(why.contains("--gold-key") && why.contains("`What is 0 + 1?`"), "{why}");
    // One prompt with two gold answers is two problems, and is said.
    let graded = graded(&lines(&[row(0, 1), row(0, 2), row(1, 2), row(2, 3)]), None);
    assert_eq!(numbers(&graded), [(1, 1); 4]);
    has_note(&graded, "the prompt `What is 0 + 1?` has the gold answers `1` and `2`");
    // A verdict by a known key.
    for key in ["passed", "is_passed", "eval_res", "matched", "em"] {
        let row = json!({"id": 1, "completion": "\\boxed{8}", "answer": "8", "solution": "7", key: false});
        assert_eq!(counts(&[row]), [(1, 0)], "{key}");
    }
}

#[test]
fn one_gold_answer_in_two_spellings_is_one_problem() {
    let row = |gold: Value| json!({"prompt": "How many are there?", "gold": gold, "completion": "\\boxed{20}"});
    let rows = [json!("20"), json!(" 20"), json!("20.0"), json!(20), json!([{"text": "20"}])];
    assert_eq!(counts(&rows.map(row)), [(5, 5)]);
    let named = |gold: &str| json!({"id": 3, "gold": gold, "completion": "\\boxed{20}"});
    assert_eq!(counts(&[named("20"), named("20.0")]), [(2, 2)]);
}

#[test]
fn labels_and_working_are_no_gold_answers() {
    // Whether it was found right, beside the answer.
    for label in [json!(0), json!("correct"), json!(true)] {
        let row = json!({"id": 1, "completion": "\\boxed{7}", "answer": "7", "label": label});
        assert_eq!(counts(&[row]), [(1, 1)]);
    }
    let row = json!({"id": 1, "response": "\\boxed{7}", "label": "7"});
    assert_eq!(counts(&[row]), [(1, 1)]);
    // Working without a mark, beside an answer of which the verdict leaves open whose it is.
    let prose = "Ann has 20 apples and gives one away; 21 minus 1 remains with her.";
    let row = json!({"id": 1, "completion": "\\boxed{20}", "answer": "20", "solution": prose, "correct": true});
    assert!(refused(&[row]).contains("--gold-key answer"));
    let marked = json!({"id": 1, "completion": "\\boxed{20}", "solution": format!("{prose} \\boxed{{20}}"), "correct": true});
    assert_eq!(counts(&[marked]), [(1, 1)]);
}

#[test]
fn a_verdict_in_some_records_is_one_of_all() {
    let row = |id: usize, score: Value| json!({"id": id, "completion": "\\boxed{7}", "answer": "7", "score": score, "gold": "8"});
    assert_eq!(counts(&[row(1, json!(1)), row(2, Value::Null)]), [(1, 0); 2]);
    let with = json!({"id": 1, "completion": "\\boxed{7}", "answer": "7", "score": 1.0});
    let without = json!({"id": 2, "completion": "\\boxed{7}", "answer": "7"});
    let why = refused(&[with, without]);
    assert!(why.contains("1 record with a verdict") && why.contains("--gold-key answer"), "{why}");
}

#[test]
fn the_index_of_a_choice_is_refused_and_its_letter_is_not() {
    let row = |answer: Value| {
        json!({"id": 1, "question": "Which?", "choices": ["a cat", "a dog", "a cow"], "answer": answer,
        "completion": "The answer is C"})
    };
    assert!(refused(&[row(json!(2))]).contains("the place of one of the `choices`"));
    assert_eq!(counts(&[row(json!("C"))]), [(1, 1)]);
    let numbers = json!({"id": 1, "choices": ["2", "3"], "answer": 2, "completion": "\\boxed{2}"});
    assert_eq!(counts(&[numbers]), [(1, 1)]);
}

#[test]
fn completions_that_begin_with_their_prompts_are_cut() {
    let question = "Tom has 6 apples and buys 1. How many are there?";
    let plain = json!({"prompt": question, "gold": "7", "generated_text": format!("{question} So there are \\boxed{{7}}.")});
    let chat = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nTom has 6 apples and \
                buys 1. How many are there?<|im_end|>\n<|im_start|>assistant\nSo \\boxed{7}.<|im_end|>";
    let llama = "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHow many?<|eot_id|><|start_header_id|>\
                 assistant<|end_header_id|>\n\nSo \\boxed{7}.<|eot_id|>";
    for row in [
        plain,
        json!({"prompt": [{"role": "user", "content": question}], "gold": "7", "generated_text": chat}),
        json!({"id": 1, "gold": "7", "generated_text": llama}),
    ] {
        let graded = graded(&lines(std::slice::from_ref(&row)), None);
        assert_eq!(numbers(&graded), [(1, 1)], "{row}");
        has_note(&graded, "1 completion begins with the prompt");
    }
}

/// What was read right before such keys were looked at.
#[test]
fn keys_that_only_look_alike_change_nothing() {
    // Code goes on from its prompt, and is not cut.
    let code = json!({"prompt": "def add(a, b):\n    # the sum", "gold": "7", "completion": "def add(a, b):\n    # the sum\n is \\boxed{7}"});
    let graded_code = graded(&lines(&[code]), None);
    assert!(graded_code.notes.is_empty(), "{:?}", graded_code.notes);
    let one = |row: Value| counts(&[row])[0];
    // The status of a request, an empty column, a label without an answer, a long gold without words.
    assert_eq!(
        one(json!({"id": 1, "completion": "7", "answer": "7", "success": true, "score": null})),
        (1, 1)
    );
    assert_eq!(one(json!({"id": 1, "completion": "7", "answer": null, "label": "7"})), (1, 1));
    let matrix = "\\begin{pmatrix} 1 & 2 & 3 \\\\ 4 & 5 & 6 \\end{pmatrix}";
    let row = json!({"id": 1, "completion": format!("\\boxed{{{matrix}}}"), "solution": matrix, "correct": true});
    assert_eq!(one(row), (1, 1));
    // A request of two completions that failed.
    let failed = json!({"id": 1, "gold": "7", "completions": ["", ""], "error": "timeout"});
    assert_eq!(graded(&lines(&[failed]), None).tallies[0].failed, 2);
    let empty = json!({"id": 1, "gold": "7", "completion": "", "error": false});
    assert_eq!(graded(&lines(&[empty]), None).tallies[0].failed, 0);
    // Options of which one is right are no list of right answers.
    let options = json!([{"text": "3", "correct": true}, {"text": "4", "correct": false}]);
    assert!(
        refused(&[json!({"id": 1, "answer": options, "completion": "4"})])
            .contains("no gold answer")
    );
    // The letter under another key.
    let row = json!({"id": 1, "choices": ["a cat", "a dog"], "answer": 1, "letter": "B", "completion": "The answer is B"});
    let letter = graded_with("f.jsonl", &lines(&[row]), None, |job| crate::grade::GradeJob {
        gold_key: Some("letter"),
        ..job
    });
    assert_eq!(numbers(&letter.unwrap()), [(1, 1)]);
    // A second record of a known problem has a verdict and no answer.
    let rows = [
        json!({"id": "a", "answer": "2", "completion": "2"}),
        json!({"id": "a", "completion": "1", "reward": 0.0}),
    ];
    assert_eq!(counts(&rows), [(2, 1)]);
}

#[test]
fn turns_behind_the_first_are_said() {
    let text = "I call it. \\boxed{6}<|im_end|>\n<|im_start|>user\n7<|im_end|>\n<|im_start|>assistant\n\\boxed{7}<|im_end|>";
    for row in [
        json!({"id": 1, "gold": "7", "response": text}),
        json!({"input": "How many?", "output": text, "gts": "7", "score": 1.0, "step": 1}),
    ] {
        let graded = graded(&lines(&[row]), None);
        assert_eq!(numbers(&graded), [(1, 0)]);
        has_note(&graded, "1 completion has further turns");
    }
    let own = "<|im_start|>assistant\n\\boxed{7}<|im_end|>";
    let graded = graded(&lines(&[json!({"id": 1, "gold": "7", "response": own})]), None);
    assert_eq!((numbers(&graded), graded.notes.len()), (vec![(1, 1)], 0), "{:?}", graded.notes);
}

#[test]
fn marks_of_truncation_are_read_whatever_they_are_called() {
    for (key, value, truncated) in [
        ("status", json!("truncated"), 1),
        ("status", json!("completed"), 0),
        ("is_truncated", json!(true), 1),
        ("is_truncated", json!(false), 0),
        ("truncated", json!(true), 1),
        ("finished", json!(false), 1),
        ("is_finished", json!(true), 0),
    ] {
        let row = json!({"id": 1, "gold": "7", "completion": "\\boxed{7}", key: value});
        let graded = graded(&lines(&[row]), None);
        let tally = &graded.tallies[0];
        assert_eq!((tally.truncated, tally.unknown_ends), (truncated, 0), "{key}");
    }
    let each = json!({"id": 1, "gold": "7", "completions": ["7", "7"], "truncated": [true, false]});
    assert_eq!(graded(&lines(&[each]), None).tallies[0].truncated, 1);
    // A status that says something else.
    let row = json!({"id": 1, "gold": "7", "completion": "\\boxed{7}", "status": "archived"});
    assert_eq!(graded(&lines(&[row]), None).tallies[0].unknown_ends, 1);
}

#[test]
fn a_request_that_failed_has_an_error_and_no_text() {
    let good = json!({"example_id": 1, "answer": "7", "reward": 1.0, "prompt": "6 + 1?",
        "completion": [{"role": "assistant", "content": "\\boxed{7}"}]});
    for completion in [json!([]), json!(""), Value::Null] {
        let failed = json!({"example_id": 1, "answer": "7", "reward": 0.0, "prompt": "6 + 1?", "completion": completion,
            "error": "timeout"});
        let graded = graded(&lines(&[good.clone(), failed]), None);
        let tally = &graded.tallies[0];
        assert_eq!((tally.samples, tally.correct, tally.failed), (2, 1, 1), "{completion}");
    }
}

/// The library verifiers has no reward for some rollouts; `answer` is the gold answer all the same.
#[test]
fn rollouts_without_a_reward_have_the_gold_of_the_others() {
    let row = |id: usize, reward: Value| {
        json!({"example_id": id, "answer": "7", "reward": reward, "prompt": "6 + 1?",
        "completion": [{"role": "assistant", "content": "\\boxed{7}"}]})
    };
    assert_eq!(counts(&[row(1, json!(1.0)), row(2, Value::Null)]), [(1, 1); 2]);
}

#[test]
fn answers_of_one_turn_and_ids_of_tokens_are_read() {
    let turns = json!({"question_id": "q", "gold": "7", "choices": [{"index": 0, "turns": ["\\boxed{7}"]}]});
    assert_eq!(counts(&[turns]), [(1, 1)]);
    let ids = json!({"id": 1, "gold": "7", "response": "\\boxed{7}", "tokens": [5, 9, 12]});
    assert_eq!(counts(&[ids]), [(1, 1)]);
    for row in [json!({"idx": 1, "content": "7"}), json!({"id": 1, "content": "7"})] {
        assert!(refused(&[row]).contains("the record has"));
    }
}
