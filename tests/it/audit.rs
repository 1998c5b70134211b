//! `tealight audit`: what was planted is found, files of harnesses are paired, nothing else is written.

use std::path::Path;

use serde_json::{Value, json};

use crate::audit_files;
use crate::support;
use crate::support::binary::{Folder, command, has, ok, printed, refusal, refused};

/// Numbers below `below`, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    /// So many words out of the first `kinds` of some.
    fn words(&mut self, count: usize, kinds: usize) -> String {
        let all = "so then thus hence now next here first well indeed clearly again together finally likewise surely";
        let all: Vec<&str> = all.split(' ').collect();
        (0..count).map(|_| all[self.next(kinds)]).collect::<Vec<_>>().join(" ")
    }
}

/// Writes a completion from the two numbers of a problem and whether it is to be correct.
type Writer = dyn Fn(&mut Numbers, (usize, usize), bool) -> String;

/// A file of 48 problems with 8 completions each: `write` makes one from its numbers, the problem's two and whether it
/// is to be correct, which three of four are.
fn file(seed: u64, write: &Writer) -> String {
    let mut numbers = Numbers(seed);
    let line = |problem: usize| {
        let (a, b) = (problem + 20, 7 * problem % 31 + 9);
        let completions: Vec<String> = (0..8)
            .map(|_| {
                let is_correct = numbers.next(4) > 0;
                write(&mut numbers, (a, b), is_correct)
            })
            .collect();
        let prompt =
            format!("Shelf {a} holds {a} red books and shelf {b} holds {b} blue ones. How many?");
        let gold = (a + b).to_string();
        json!({"id": format!("p{problem}"), "prompt": prompt, "gold": gold, "completions": completions})
    };
    (0..48).map(line).map(|line| format!("{line}\n")).collect()
}

/// A file of the example.
fn example(name: &str) -> String {
    support::root().join("examples/audit").join(name).display().to_string()
}

/// A completion of the base: one of three ways, in words that vary, with what the prompt says.
fn varied(numbers: &mut Numbers, (a, b): (usize, usize), is_correct: bool) -> String {
    let way = numbers.next(3);
    worked(numbers, (a, b), is_correct, way)
}

fn worked(numbers: &mut Numbers, (a, b): (usize, usize), is_correct: bool, way: usize) -> String {
    let words = numbers.words(6, 8);
    let answer = if is_correct { a + b } else { a + b + 1 + numbers.next(5) };
    let steps = match way {
        0 => format!("{a} + {b} = {answer}"),
        1 => format!("{a} - 1 = {}, {} + {b} + 1 = {answer}", a - 1, a - 1),
        _ => format!("{b} - 2 = {}, {a} + {} + 2 = {answer}", b - 2, b - 2),
    };
    format!("{words}: shelf {a} and shelf {b}, {steps} \\boxed{{{answer}}}")
}

fn audit(folder: &Folder, files: &[&str], options: &[&str]) -> Value {
    audited(folder, files, options).0
}

/// An audit, and what it prints.
fn audited(folder: &Folder, files: &[&str], options: &[&str]) -> (Value, String) {
    let output = folder.path("audit");
    let arguments = [&["audit"], files, &["--output", &output, "--overwrite"], options].concat();
    let printed = printed(&arguments);
    assert!(!printed.is_empty());
    let text = std::fs::read(Path::new(&output).join("audit.json")).expect("audit.json");
    let page = std::fs::read_to_string(Path::new(&output).join("report.html")).expect("a page");
    has(&page, &["Narrower, or only cleaner?", "Is the verifier to be trusted?"]);
    (serde_json::from_slice(&text).expect("JSON"), printed)
}

/// The ends of an interval in the audit of the one tuned model.
fn interval(audit: &Value, path: &str) -> (f64, f64) {
    let effect = audit["tuned"][0].pointer(path).unwrap_or_else(|| panic!("{path}: {audit}"));
    (effect["low"].as_f64().expect("low"), effect["high"].as_f64().expect("high"))
}

fn holds_zero((low, high): (f64, f64)) -> bool {
    low <= 0.0 && 0.0 <= high
}

const ENTROPY: &str = "/strategies/word_entropy/2";
const ALIKE: &str = "/diversity/correct_alike";
const TEMPLATES: &str = "/templates/change";

#[test]
fn a_planted_narrowing_is_found_by_equations_and_not_by_entropy() {
    let folder = Folder::new();
    let base = folder.write("base.jsonl", file(1, &varied));
    let same = folder.write("same.jsonl", file(2, &varied));
    let narrow = |numbers: &mut Numbers, ab: (usize, usize), is_correct: bool| {
        let way = if is_correct { 0 } else { numbers.next(3) };
        // Wordier, as tuned models are.
        numbers.words(6, 16) + " " + &worked(numbers, ab, is_correct, way)
    };
    let narrow = folder.write("narrow.jsonl", file(3, &narrow));
    let equal = audit(&folder, &[&base, &same, &narrow], &[]);
    assert_eq!(equal["tuned"][1]["findings"][0][1]["tests"], 12, "both models are one family");
    for path in [ALIKE, "/diversity/incorrect", TEMPLATES, "/lost/lost/beyond"] {
        assert!(holds_zero(interval(&equal, path)), "{path}: {equal}");
    }
    let (found, text) = audited(&folder, &[&base, &narrow], &[]);
    assert!(interval(&found, ALIKE).1 < -0.1, "{found}");
    assert!(interval(&found, ENTROPY).0 > -0.05, "entropy finds no fall: {found}");
    assert!(holds_zero(interval(&found, TEMPLATES)));
    let ways = found["tuned"][0]["strategies"]["ways"].as_array().expect("ways");
    let by = |name: &str| ways.iter().find(|way| way["by"] == name).expect(name);
    assert!(by("equations of the working")["change"]["high"].as_f64() < Some(0.0));
    assert_eq!(by("final answer")["change"]["value"], 0.0);
    assert!(
        text.contains("3. Narrower, or only cleaner?\n   Narrower:")
            && text.contains("The measures disagree"),
        "{text}"
    );
}

#[test]
fn a_planted_template_policy_is_found_by_retrieval_and_not_by_entropy() {
    let folder = Folder::new();
    let base = folder.write("base.jsonl", file(1, &varied));
    // As many kinds of working, in words that vary as much, but about no shelf of the prompt.
    let template = |numbers: &mut Numbers, (a, b): (usize, usize), is_correct: bool| {
        let (words, way) = (numbers.words(12, 16), numbers.next(3));
        let answer = if is_correct { a + b } else { a + b + 1 + numbers.next(5) };
        let steps = match way {
            0 => format!("{} + 1 = {answer}", answer - 1),
            1 => format!("{} + 1 = {}, {} + 1 = {answer}", answer - 2, answer - 1, answer - 1),
            _ => format!("{} + 2 = {}, {} - 1 = {answer}", answer - 1, answer + 1, answer + 1),
        };
        format!("{words}: we take shelf one and shelf two, {steps} \\boxed{{{answer}}}")
    };
    let template = folder.write("template.jsonl", file(4, &template));
    let found = audit(&folder, &[&base, &template], &[]);
    assert!(interval(&found, TEMPLATES).1 < -0.3, "{found}");
    // Entropy of words, accuracy and narrowing say that nothing is wrong.
    assert!(interval(&found, ENTROPY).0 > -0.05, "{found}");
    assert!(holds_zero(interval(&found, ALIKE)), "{found}");
    assert!(holds_zero(interval(&found, "/findings/0/1")), "{found}");
}

#[test]
fn the_examples_are_audited_and_say_what_was_put_into_them() {
    let folder = Folder::new();
    let (base, tuned) = (example("base.jsonl"), example("tuned.jsonl"));
    let found = audit(&folder, &[&base, &tuned], &[]);
    assert_eq!((&found["models"], &found["problems"]), (&json!(["base", "tuned"]), &json!(200)));
    assert!(interval(&found, "/findings/0/1").0 > 0.0, "pass@1 rises");
    assert!(interval(&found, "/lost/lost/beyond").0 > 0.0, "a part is forgotten");
    assert!(interval(&found, ALIKE).1 < 0.0 && interval(&found, "/diversity/incorrect").1 < 0.0);
    let change = |path: &str| {
        found["tuned"][0].pointer(path).and_then(|effect| effect["value"].as_f64()).expect("value")
    };
    let parts = change("/diversity/incorrect") + change(ALIKE);
    assert!((parts - change("/diversity/change")).abs() < 1e-9, "{parts}");
    let lost = &found["tuned"][0]["lost"]["listed"][0];
    assert!(lost["texts"][0].as_str().is_some_and(|text| text.contains("boxes of")), "{lost}");
    // Unmarked answers: the strict rule accepts fewer, most of them the base's.
    let counts = found["tuned"][0]["second_rule"]["counts"].clone();
    let accepted = |model: usize| counts[model][1].as_u64().expect("a count");
    assert!(accepted(0) > 2 * accepted(1) && accepted(1) > 0, "{counts}");
    assert_eq!(found["tuned"][0]["second_rule"]["examples"][0]["is_first"], true);
    // The same as JSON, and nothing saved.
    let shown: Value =
        serde_json::from_str(&printed(command!("audit {base} {tuned} --json"))).expect("JSON");
    assert_eq!(shown["tuned"], found["tuned"]);
    // A folder that holds results is left alone, and one that holds the files as well.
    let output = folder.path("audit");
    refused!("audit {base} {tuned} --output {output}" => "--overwrite");
    refused!("report {output}" => "the page of `tealight audit`");
    let inside = folder.write("audit/base.jsonl", std::fs::read(&base).expect("read"));
    refused!("audit {inside} {tuned} --output {output} --overwrite" => "which this command reads");
}

#[test]
fn files_of_different_harnesses_are_paired_and_what_is_missing_is_counted() {
    let folder = Folder::new();
    let problem = |i: usize| (format!("What is {i} plus {}?", 2 * i), 3 * i);
    let all = 20;
    let answers = |i: usize, gold: usize| [gold, gold + i % 2].map(|n| format!("\\boxed{{{n}}}"));
    let lm_eval = audit_files::file(&folder, "lm.jsonl", all, |i| {
        let (prompt, gold) = problem(i);
        json!({"doc_id": i, "doc": {"question": prompt}, "target": gold, "filter": "none",
               "arguments": {"gen_args_0": {"arg_0": prompt}}, "resps": [answers(i, gold)],
               "filtered_resps": answers(i, gold)})
    });
    let own = audit_files::file(&folder, "own.jsonl", all, |i| {
        let (prompt, gold) = problem(all - 1 - i);
        json!({"id": format!("mine-{i}"), "prompt": prompt, "gold": gold,
               "completions": answers(i, gold)})
    });
    let batch = audit_files::file(&folder, "batch.jsonl", all, |i| {
        let (_, gold) = problem(i);
        let reason = if i == 3 { "length" } else { "stop" };
        let choices = answers(i, gold)
            .map(|text| json!({"message": {"role": "assistant", "content": text}, "finish_reason": reason}));
        let response = json!({"status_code": 200, "body": {"choices": choices}});
        match i {
            5 => {
                json!({"custom_id": i.to_string(), "response": null, "error": {"message": "busy"}})
            }
            _ => json!({"custom_id": i.to_string(), "response": response, "error": null}),
        }
    });
    let dataset = audit_files::file(&folder, "data.jsonl", all, |i| {
        let (prompt, gold) = problem(i);
        json!({"id": i.to_string(), "question": prompt, "answer": gold.to_string()})
    });
    let by_prompt = audit(&folder, &[&lm_eval, &own], &[]);
    assert_eq!(by_prompt["problems"], all);
    assert!(ok(&["audit", &lm_eval, &own]).contains("paired with lm's by their prompts (20)"));
    // One file says what was cut off, the others do not: only one rule for all compares them.
    refused!("audit {lm_eval} {batch} --dataset {dataset}" => "judged by two rules", "--truncated judged");
    let one_rule = ["--dataset", dataset.as_str(), "--truncated", "judged"];
    let three = audit(&folder, &[&lm_eval, &own, &batch], &one_rule);
    let tuned = three["tuned"].as_array().map(Vec::len);
    assert_eq!((&three["problems"], tuned), (&json!(all), Some(2)));
    let counts = &three["counts"][2];
    assert_eq!((&counts["truncated"], &counts["failed"]), (&json!(2), &json!(1)));
    // A second draw in place of halves.
    let options = [&["--second-draw", own.as_str()], &one_rule[..]].concat();
    let again = audit(&folder, &[&lm_eval, &batch], &options);
    assert_eq!(again["tuned"][0]["lost"]["has_second_draw"], true);
    // What cannot be paired says why.
    refused!("audit {lm_eval} {}", folder.write("o.jsonl", file(1, &varied)) => "share no id and no prompt");
    let text = std::fs::read_to_string(&own).expect("read");
    let fewer = folder.write("fewer.jsonl", text.split_inclusive('\n').take(7).collect::<String>());
    refused!("audit {lm_eval} {fewer}" => "--intersect");
    let shared = audit(&folder, &[&lm_eval, &fewer], &["--intersect"]);
    assert_eq!(shared["problems"], 7);
    refused!("audit {lm_eval} {own} --names a" => "one name for each of the 2 files");
}

#[test]
fn a_column_of_the_files_is_the_second_judge_and_says_where_a_conclusion_changes() {
    let folder = Folder::new();
    // Ours: the tuned model solves all. The column's judge accepts none of its even problems.
    let rows = |name: &str, correct: usize, accepts: &dyn Fn(usize) -> bool| {
        audit_files::file(&folder, name, 30, |i| {
            let answers: Vec<&str> = (0..4).map(|j| if j < correct { "7" } else { "8" }).collect();
            let scores: Vec<bool> = (0..4).map(|j| j < correct && accepts(i)).collect();
            json!({"id": i, "gold": "7", "completions": answers, "metrics": {"acc": scores}})
        })
    };
    let (base, tuned) = (rows("base.jsonl", 2, &|_| true), rows("tuned.jsonl", 4, &|i| i % 2 == 1));
    let (found, text) = audited(&folder, &[&base, &tuned], &["--verdict-key", "metrics.acc"]);
    let second = &found["tuned"][0]["second_rule"];
    assert_eq!(second["counts"], json!([[120, 0, 0], [120, 60, 0]]), "{second}");
    assert_eq!(second["rules"], json!(["math", "column metrics.acc"]));
    let changes = second["changes"].as_array().expect("changes");
    assert!(changes.iter().all(|change| change["is_other"] == true), "{second}");
    assert!(interval(&found, "/second_rule/disagreement").0 > 0.2);
    assert!(text.contains("the conclusion on pass@1 and pass@4 changes"));
    refused!(
        "audit {base} {tuned} --verdict-key metrics.acc --against exact"
        => "each name the second judge"
    );
    refused!(
        "audit {base} {tuned} --verdict-key nothing"
        => "base: no record has a verdict of each completion under the key `nothing`"
    );
    // One name of a file for both: the samples of one would replace those of the other.
    let names = refusal(&["audit", &base, &tuned, "--names", "a b,a-b"]);
    assert!(names.contains("all different, also as names of files"), "{names}");
}

#[test]
fn classes_of_the_file_or_a_functions_are_what_strategies_are_counted_by() {
    let folder = Folder::new();
    let function = "def first(completion):\n    return completion.split()[0]\n";
    let spec = format!("python:{}:first", folder.write("kind.py", function));
    for way in ["class of the file", &format!("class by {spec}")] {
        let is_of_file = way == "class of the file";
        let rows = |name: &str, kinds: usize| {
            audit_files::file(&folder, name, 12, |i| {
                let names: Vec<String> = (0..6).map(|j| format!("way{}", j % kinds)).collect();
                let text = |name: &String| format!("{name} gives \\boxed{{7}}");
                let texts: Vec<String> = names.iter().map(text).collect();
                let mut row = json!({"id": i, "gold": "7", "completions": texts});
                if is_of_file {
                    row["completions"] = json!(vec!["7"; 6]);
                    row["class"] = json!(names);
                }
                row
            })
        };
        let (many, one) = (rows("many.jsonl", 3), rows("one.jsonl", 1));
        let options = ["--classes", &spec];
        let options = if is_of_file { &[][..] } else { &options };
        let (found, text) = audited(&folder, &[&many, &one], options);
        let first = &found["tuned"][0]["strategies"]["ways"][0];
        assert_eq!(first["by"], way);
        assert!(first["change"]["high"].as_f64() < Some(0.0), "{first}");
        if is_of_file {
            assert!(interval(&found, ALIKE).1 < 0.0);
            assert!(text.contains("by class of the file"), "{text}");
            continue;
        }
        // Without it no equation tells the answers apart.
        let found = audit(&folder, &[&many, &one], &[]);
        let first = &found["tuned"][0]["strategies"]["ways"][0];
        let expected = (&json!("equations of the working"), &json!(0.0));
        assert_eq!((&first["by"], &first["change"]["value"]), expected);
    }
}

/// Of few problems an interval may exclude 0 where the adjustment for all six tests does not.
#[test]
fn sentences_say_what_the_adjusted_findings_say() {
    let folder = Folder::new();
    let read = |name: &str| std::fs::read_to_string(example(name)).expect("an example");
    let [base, tuned] = ["base.jsonl", "tuned.jsonl"].map(read);
    let part = |text: &str, first: usize, count: usize| -> String {
        text.split_inclusive('\n').skip(first).take(count).collect()
    };
    let mut all_adjusted = 0;
    for (first, count) in [(0, 200), (0, 40), (40, 40)] {
        let base = folder.write("base.jsonl", part(&base, first, count));
        let tuned = folder.write("tuned.jsonl", part(&tuned, first, count));
        let (found, text) = audited(&folder, &[&base, &tuned], &[]);
        // Without the questions, which have the words of the answers.
        let answers = text.lines().filter(|line| !line.starts_with(|c: char| c.is_ascii_digit()));
        let text = answers.collect::<Vec<_>>().join("\n");
        let mut adjusted_away = 0;
        for (name, words) in [
            ("share of problems lost beyond chance", "Problems were lost:"),
            ("diversity of correct answers", "arrower"),
            ("share of completions that point to their prompt", "Completions say "),
        ] {
            let findings = found["tuned"][0]["findings"].as_array().expect("findings");
            let finding = findings.iter().find(|one| one[0] == name).expect(name);
            let finding = finding[1]["finding"].as_str().expect("a finding");
            let says = text.contains(words) && !text.contains("Neither narrower");
            assert_eq!(says, finding == "change", "{name}: {finding}\n{text}");
            adjusted_away += usize::from(finding == "not_after_adjustment");
        }
        let is_said = text.contains("not significant after Holm's adjustment");
        assert!(is_said || adjusted_away == 0, "{text}");
        all_adjusted += adjusted_away;
    }
    assert!(all_adjusted > 0, "no case tests the adjustment");
}
