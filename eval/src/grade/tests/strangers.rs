//! Records of people who name their keys as they like: what is the gold answer, what is the completion, how it ended.

use serde_json::{Value, json};

use super::cases::{graded, graded_with, has_note, lines, numbers, sums};

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

/// lm-eval's `generate_until` tasks with choices: the target is the place of the right one.
#[test]
fn the_place_of_a_choice_in_lm_eval_is_its_letter() {
    let row = |choices: Value, target: &str, said: &str| {
        json!({"doc_id": 0, "doc": {"question": "Which?", "choices": choices, "answer": "B"}, "target": target,
        "resps": [[format!("ANSWER: {said}")]], "filter": "none", "arguments": {}})
    };
    let texts = json!(["130", "133", "143"]);
    assert_eq!(counts(&[row(texts.clone(), "1", "B")]), [(1, 1)]);
    assert_eq!(counts(&[row(texts.clone(), "1", "A")]), [(1, 0)]);
    assert_eq!(counts(&[row(texts, "133", "133")]), [(1, 1)]);
    let labelled = json!({"text": ["x", "y"], "label": ["1", "2"]});
    assert_eq!(counts(&[row(labelled, "0", "1")]), [(1, 1)]);
    // A choice that reads as the target does, and a document that says nothing of its place.
    let numbers = json!({"doc_id": 0, "doc": {"question": "Which?", "choices": ["0", "1"]}, "target": "1",
        "resps": [["ANSWER: 1"]], "filter": "none", "arguments": {}});
    assert_eq!(counts(&[numbers]), [(1, 1)]);
}

#[test]
fn two_tasks_of_lm_eval_in_one_file_are_said() {
    let row = |prompt: &str, said: &str| {
        json!({"doc_id": 0, "doc_hash": "a", "doc": {"question": "How many?"}, "target": "7",
        "resps": [[said]], "filter": "none", "arguments": {"gen_args_0": {"arg_0": prompt}}})
    };
    let rows = [row("Box it. How many?", "\\boxed{7}"), row("How many? End with ####", "#### 7")];
    let graded = graded(&lines(&rows), None);
    has_note(&graded, "1 record with another prompt than an earlier record of the same document");
}

/// Inspect's `--shuffle-choices`: the letters of a log are its own.
#[test]
fn the_letter_of_a_shuffled_choice_is_not_the_datasets() {
    let row = json!({"id": "0", "epoch": 1, "input": "What is 0 + 1?", "choices": ["134", "133"], "target": "B",
        "output": {"choices": [{"message": {"role": "assistant", "content": "ANSWER: B"}, "stop_reason": "stop"}]}});
    let alone = graded(&lines(std::slice::from_ref(&row)), None);
    assert_eq!(numbers(&alone), [(1, 1)]);
    assert_eq!(alone.problems[0].choice.as_deref(), Some("133"));
    // The dataset's letter in another spelling.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ds.jsonl").display().to_string();
    std::fs::write(
        &path,
        lines(&[json!({"id": "0", "question": "What is 0 + 1?", "answer": "(B)"})]),
    )
    .unwrap();
    let same = tealight_datasets::open(&path, &Default::default(), None).unwrap();
    assert_eq!(numbers(&graded(&lines(std::slice::from_ref(&row)), Some(&same))), [(1, 1)]);
    let graded = graded_with("f.jsonl", &lines(&[row]), Some(&sums(1)), |job| job);
    let why = format!("{:#}", graded.map(|_| ()).unwrap_err());
    assert!(
        why.contains("`B` is right here, and `1` in the dataset; leave --dataset out"),
        "{why}"
    );
}

#[test]
fn episodes_of_verifiers_are_read() {
    let episode = |content: &str, errors: Value| {
        let nodes = json!([{"message": {"role": "user", "content": "How many?"}, "sampled": false},
            {"message": {"role": "assistant", "content": content}, "sampled": true}]);
        json!({"id": content, "task": {"key": "k", "data": {"prompt": "How many?", "answer": "7"}}, "errors": errors,
        "traces": [{"nodes": nodes, "errors": [], "calls": [{"finish_reason": "stop"}],
            "agent": {"config": {"model": "m", "sampling": {"temperature": 0.5}}}}]})
    };
    let rows = [
        episode("\\boxed{7}", json!([])),
        episode("\\boxed{8}", json!([])),
        episode("", json!(["timed out"])),
    ];
    let graded = graded(&lines(&rows), None);
    assert_eq!(numbers(&graded), [(3, 1)]);
    assert_eq!(graded.sampling["temperature"], "0.5");
    assert!(graded.problems[0].prompt.plain().contains("How many?"));
}

#[test]
fn a_file_whose_verdicts_contradict_every_judgement_is_noted() {
    let row = |said: &str, score: f64| {
        json!({"doc_id": said.len(), "doc": {"question": "Even?", "label": 1}, "target": "1", "resps": [[said]],
        "filter": "none", "arguments": {}, "metrics": ["exact_match"], "exact_match": score})
    };
    let rows: Vec<Value> = ["yes", "yes ", "yes  ", "yes   "].map(|said| row(said, 1.0)).to_vec();
    let graded = graded(&lines(&rows), None);
    has_note(&graded, "the file calls 4 of 4 completions correct, and the verifier none");
    let own = |i: usize| json!({"id": i, "gold": "7", "completion": format!("\\boxed{{{}}}", 6 + i % 2), "correct": i % 2 == 1});
    let graded = super::cases::graded(&lines(&(0..8).map(own).collect::<Vec<_>>()), None);
    assert!(graded.notes.is_empty(), "{:?}", graded.notes);
}

/// SkyRL's and nemo-evaluator's dumps, DSPy's results.
#[test]
fn other_names_of_the_completion_are_known() {
    let skyrl = json!({"input_prompt": "How many?", "output_response": "\\boxed{7}<|im_end|>", "score": 1.0, "stop_reason": "stop",
        "env_extras": {"reward_spec": {"ground_truth": "7"}}});
    let nemo = |repeat: usize| {
        json!({"problem_idx": 5, "repeat": repeat, "reward": 1.0, "prompt": "How many?",
        "model_response": "\\boxed{7}", "extracted_answer": "7}", "expected_answer": "7"})
    };
    let dspy = json!({"question": "How many?", "example_answer": "7", "id": "p0", "pred_answer": "The answer is \\boxed{7}."});
    assert_eq!(counts(&[skyrl]), [(1, 1)]);
    assert_eq!(counts(&[json!({"_type": "meta", "config_hash": "a"}), nemo(0), nemo(1)]), [(2, 2)]);
    assert_eq!(counts(&[dspy]), [(1, 1)]);
    let helm = json!({"adapter_spec": {}, "request_states": []});
    assert!(
        refused(&[helm])
            .contains("a state of HELM is not read: write one line for each completion")
    );
}
