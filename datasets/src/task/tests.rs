//! Tests that every task passes; each task's own file tests that its list of answers is complete.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::instances::{InstanceStream, with_seed};
use super::judge::Judge;
use super::knobs::{Split, parse};
use super::{Kind, TASKS, classes, find};
use crate::{Problem, Verdict, Verifier};
use tealight_core::Prompt;

/// Characters of all statements, prompts and answers.
const ALPHABET: &str = "0123456789abcdefghijklmnopqrstuvwxyz+-*/(),=:|>!";

pub(super) fn answers(name: &str, statement: &str) -> Vec<String> {
    let listed = find(name).unwrap().list(statement);
    listed.expect(statement).into_iter().map(|answer| answer.text).collect()
}

/// Every string of these letters and lengths, in order for each length.
pub(super) fn strings(letters: &str, lengths: RangeInclusive<usize>) -> Vec<String> {
    let (mut all, mut longest) = (Vec::new(), vec![String::new()]);
    for length in 1..=*lengths.end() {
        longest = longest
            .iter()
            .flat_map(|text| letters.chars().map(move |letter| format!("{text}{letter}")))
            .collect();
        if lengths.contains(&length) {
            all.extend(longest.iter().cloned());
        }
    }
    all
}

fn problem(statement: &str) -> Problem {
    let (id, answer) = (statement.to_owned(), statement.to_owned());
    let prompt = Prompt::Text(format!("{statement}:"));
    Problem::new(id, prompt, answer)
}

fn is_correct(kind: &'static Kind, statement: &str, text: &str) -> bool {
    Judge(kind).verify(&problem(statement), text).is_correct()
}

#[test]
fn instances_are_short_with_answer_counts_in_range() {
    for kind in TASKS {
        for seed in 0..3 {
            for split in ["train", "valid", "test", "sft"] {
                let set = with_seed(kind, split, Some(10), seed).unwrap();
                assert_eq!(set.problems.len(), 10, "{}/{split}", kind.name);
                for problem in &set.problems {
                    let listed = kind.list(&problem.answer).unwrap();
                    let (least, most) = kind.answers;
                    let total = problem.total.unwrap();
                    assert_eq!(total, classes(&listed).len() as u64);
                    assert!((least as u64..=most as u64).contains(&total), "{}", problem.id);
                    assert!(listed.iter().any(|a| Some(&a.text) == problem.solution.as_ref()));
                    for answer in &listed {
                        let Verdict::Correct { class, .. } =
                            Judge(kind).verify(problem, &answer.text)
                        else {
                            panic!("{} {}", problem.id, answer.text)
                        };
                        assert_eq!(class, answer.class);
                        assert!(answer.text.len() <= 24, "{} {}", problem.id, answer.text);
                    }
                    let shown = problem.prompt.plain();
                    assert!(
                        shown.len() <= 48 && shown.chars().all(|c| ALPHABET.contains(c)),
                        "{shown}"
                    );
                }
            }
        }
    }
}

#[test]
fn only_listed_texts_are_accepted() {
    for kind in TASKS {
        for problem in with_seed(kind, "valid", Some(6), 1).unwrap().problems {
            let listed: BTreeSet<String> =
                kind.list(&problem.answer).unwrap().into_iter().map(|a| a.text).collect();
            for text in listed.iter().take(20) {
                // Every text that is one character away.
                for at in 0..=text.len() {
                    let (before, after) = text.split_at(at);
                    let shorter = after.get(1..).unwrap_or_default();
                    let mut near = vec![format!("{before}{shorter}")];
                    for letter in ALPHABET.chars() {
                        near.push(format!("{before}{letter}{after}"));
                        near.push(format!("{before}{letter}{shorter}"));
                    }
                    for near in near {
                        let verdict = is_correct(kind, &problem.answer, &near);
                        assert_eq!(verdict, listed.contains(&near), "{} {near}", problem.id);
                    }
                }
            }
        }
    }
}

#[test]
fn splits_are_disjoint_of_one_distribution_and_the_same_every_time() {
    for kind in TASKS {
        let mut seen: HashMap<String, &str> = HashMap::new();
        for (split, seed) in
            [("train", 0), ("valid", 0), ("test", 0), ("sft", 0), ("train", 9), ("test", 9)]
        {
            for problem in with_seed(kind, split, Some(60), seed).unwrap().problems {
                let first_split = *seen.entry(problem.id.clone()).or_insert(split);
                assert_eq!(first_split, split, "{}", problem.id);
            }
        }
        let load = || with_seed(kind, "test", Some(20), 0).unwrap().problems;
        assert_eq!(load(), load());
        let examples = (kind.source.examples)(0, 5, 40);
        assert_eq!(examples, (kind.source.examples)(0, 5, 40));
        assert!(examples.iter().all(|problem| Split::for_statement(&problem.id) == Split::Sft));
        assert_ne!(examples, (kind.source.examples)(0, 6, 40));
        // Means over splits differ by chance alone: five standard errors.
        let totals = |split: &str| -> Vec<f64> {
            let wanted = parse(kind, split).unwrap();
            let mut stream = InstanceStream::new(kind, &wanted, 4, 0);
            (0..150).map(|_| stream.next_problem().unwrap().total.unwrap() as f64).collect()
        };
        let moments = |values: Vec<f64>| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
            (mean, square / (values.len() as f64).powi(2))
        };
        let (a, b) = (moments(totals("train")), moments(totals("test")));
        assert!((a.0 - b.0).abs() <= 5.0 * (a.1 + b.1).sqrt() + 1e-9, "{} {a:?} {b:?}", kind.name);
    }
}

#[test]
fn solutions_are_drawn_uniformly_from_the_classes() {
    // One instance, met again and again: of three nodes there are few.
    let kind = find("colouring").unwrap();
    let wanted = parse(kind, "sft-n3-m2").unwrap();
    let mut stream = InstanceStream::new(kind, &wanted, 0, 0);
    let mut counts: HashMap<(String, String), f64> = HashMap::new();
    let mut met: HashMap<String, (f64, f64)> = HashMap::new();
    for _ in 0..3000 {
        let problem = stream.next_problem().unwrap();
        *counts.entry((problem.id.clone(), problem.solution.unwrap())).or_default() += 1.0;
        let met = met.entry(problem.id).or_insert((0.0, problem.total.unwrap() as f64));
        met.0 += 1.0;
    }
    for ((id, answer), count) in counts {
        let (met, total) = met[&id];
        let (mean, deviation) = (met / total, (met / total * (1.0 - 1.0 / total)).sqrt());
        assert!((count - mean).abs() < 5.0 * deviation, "{id} {answer}: {count} of {met}");
    }
}

#[test]
fn tags_and_knob_letters_are_unique() {
    let tags: HashSet<char> = TASKS.iter().map(|kind| kind.tag).collect();
    let names: HashSet<&str> = crate::SOURCES.iter().map(|source| source.name).collect();
    assert_eq!((tags.len(), names.len()), (TASKS.len(), crate::SOURCES.len()));
    for kind in TASKS {
        let letters: HashSet<char> = kind.knobs.iter().map(|knob| knob.letter).collect();
        assert_eq!(letters.len(), kind.knobs.len(), "{}", kind.name);
        assert!(names.contains(kind.name));
        for knob in kind.knobs {
            assert!((knob.range.0..=knob.range.1).contains(&knob.default), "{}", kind.name);
        }
    }
}

#[test]
fn every_value_of_a_knob_gives_instances_or_is_refused_in_one_line() {
    for kind in TASKS {
        for knob in kind.knobs {
            for value in [knob.range.0, knob.range.1] {
                let name = format!("{}/test-{}{value}", kind.name, knob.letter);
                match crate::open(&name, &crate::read::Columns::default(), Some(2)) {
                    Ok(set) => assert!(knob.default == value || set.name == name, "{}", set.name),
                    Err(error) => assert!(error.to_string().contains("hardly any"), "{error}"),
                }
            }
        }
    }
    let refusal = |name: &str| {
        let opened = crate::open(name, &crate::read::Columns::default(), Some(2));
        opened.err().unwrap().to_string()
    };
    assert!(refusal("colouring/test-z3").contains("there is no parameter `z3`"));
    assert!(refusal("colouring/test-n99").contains("`n99` is out of range"));
    assert!(refusal("colouring/test-n99").contains("n6 nodes (3 to 8)"));
    assert!(refusal("colouring/dev").contains("train, valid, test, sft"));
}

#[test]
fn hostile_answers_and_statements_get_a_verdict_quickly() {
    let begun = Instant::now();
    for kind in TASKS {
        let statement = &with_seed(kind, "test", Some(1), 0).unwrap().problems[0].answer.clone();
        for text in ["(", "1", "a", "1+", ",", "é", "\0", "𝟙", " \u{a0}"] {
            for count in [1, 40, 1_000_000] {
                let text = text.repeat(count);
                assert!(!is_correct(kind, statement, &text));
                let verdict = Judge(kind).verify(&problem(&text), "1");
                assert!(matches!(verdict, Verdict::Unjudged { .. }), "{verdict:?}");
            }
        }
        assert_eq!(Judge(kind).verify(&problem(statement), " \n"), Verdict::NoAnswer);
    }
    // The largest instances that are read: a listing ends, with the answers or without.
    for (name, statement) in [
        ("orders", "o8|a>b".to_owned()),
        ("colouring", "c9|ah".into()),
        ("zebra", "z4,3|a>b".into()),
        ("brackets", format!("b9|{}", "-".repeat(16))),
        ("strings", "r10|(a*/b*/c*)*".into()),
        ("strings", format!("r10|{}a{}", "(".repeat(15), ")".repeat(15))),
        ("strings", format!("r10|{}", "(".repeat(40))),
        ("operators", "i1|1111111".into()),
        ("subset", "s40|1,2,3,4,5,6,7,12".into()),
        ("change", "m60,12|1,2,3,4,5,6,7,8,9".into()),
        ("paths", "pa>h|ab,ac,ad,ae,af,ag,ah,bc,bd,be,bf,bg,bh,cd,ce,cf,cg,ch,de,df,dg,dh".into()),
    ] {
        let listed = find(name).unwrap().list(&statement);
        assert!(listed.is_none_or(|all| all.len() <= super::MAX_TEXTS), "{statement}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// A text made of pieces of statements.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(
        [
            "a", "h", "1", "9", "0", "ab", "|", ",", ">", "!", "-", "+", "(", ")", "*", "/", "=",
            "3|", "é",
        ]
        .to_vec(),
    );
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_seed_gives_answerable_instances(seed in any::<u64>(), step in any::<u64>()) {
        for kind in TASKS {
            let examples = (kind.source.examples)(seed, step, 1);
            prop_assert_eq!(examples.len(), 1);
            let total = examples[0].total.unwrap();
            prop_assert!(total >= kind.answers.0 as u64 && total <= kind.answers.1 as u64);
            prop_assert!(is_correct(kind, &examples[0].answer, examples[0].solution.as_ref().unwrap()));
        }
    }

    #[test]
    fn any_text_gets_a_verdict_and_listed_answers_are_accepted(statement in pieces(), text in pieces()) {
        for kind in TASKS {
            let tagged = format!("{}{statement}", kind.tag);
            let verdict = Judge(kind).verify(&problem(&tagged), &text);
            let listed = kind.list(&tagged);
            let is_listed = listed.is_some_and(|all| all.iter().any(|a| a.text == text.trim()));
            prop_assert!(verdict.is_correct() || !is_listed);
        }
    }
}

#[test]
fn splits_hold_at_least_300_problems() {
    let mut missing = Vec::new();
    for kind in TASKS {
        for split in ["train", "valid", "test"] {
            let count = with_seed(kind, split, Some(300), 0).unwrap().problems.len();
            missing.extend((count < 300).then(|| format!("{}/{split}: {count}", kind.name)));
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn task_page_matches_the_tasks() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/how-to/tasks.md");
    // A package of this crate alone is without the book.
    let Ok(page) = std::fs::read_to_string(page) else { return };
    let escaped = |text: &str| text.replace('|', "\\|");
    let mut missing = String::new();
    for kind in TASKS {
        let example = &with_seed(kind, "train", Some(1), 0).unwrap().problems[0];
        let solution = example.solution.as_deref().unwrap_or_default();
        let row = format!(
            "| `{}` | {} | `{}` | `{}` |\n",
            kind.name,
            kind.about,
            escaped(&example.prompt.plain()),
            escaped(solution)
        );
        if !page.contains(&row) {
            missing.push_str(&row);
        }
    }
    assert!(missing.is_empty(), "docs/how-to/tasks.md lacks the rows\n{missing}");
}

#[test]
fn suite_of_tasks_has_every_task() {
    let suite = include_str!("../../suites/tasks.toml");
    for kind in TASKS {
        assert!(
            suite.contains(&format!("\"{}/test\"", kind.name)),
            "suites/tasks.toml lacks {}",
            kind.name
        );
    }
}
