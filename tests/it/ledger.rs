//! A study's ledger: listed answers are scored as they would be sampled, at every checkpoint, and add up.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use candle_core::Device;
use serde_json::Value;
use tealight::formats::pretrained::Pretrained;
use tealight::nn::device::Precision;
use tealight::nn::policy::Sequence;
use tealight::nn::tokenizer::Tokenizer;
use tealight_datasets::{countdown, read};
use tealight_eval::store;

use crate::support::binary::{Folder, ok, refusal, words};
use crate::support::graph;
use crate::support::runs::{SMALL, UNLISTABLE, json};

/// Samples a problem: enough for their noise to be small.
const SAMPLES: f64 = 128.0;

fn study(output: &str, more: &[&str]) -> Vec<String> {
    let fixed = words(
        "study --quiet --no-greedy --task countdown --objectives none,kl-full:0.1 --max-samples 8 \
         --max-test-samples 8 -k 1,8 --seeds 0 --no-baselines --max-steps 4 --ledger 5 --output",
    );
    [&fixed[..], &[output], &SMALL, more].concat().iter().map(ToString::to_string).collect()
}

const PATHS: &str = "-n 128 --eval-dataset countdown/valid --eval-max-samples 4 --eval-num-samples 4 --eval-steps 2";

fn run(arguments: &[String]) -> String {
    ok(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Lines of `ledger.csv`: checkpoint, problem, answer, spellings, log-probability.
fn lines(output: &str) -> Vec<(String, String, String, usize, f64)> {
    let text = std::fs::read_to_string(Path::new(output).join("ledger.csv")).expect("a ledger");
    let mut lines = text.lines();
    let header = lines.next();
    assert_eq!(header, Some("objective,seed,step,updates,problem,answer,spellings,logp"));
    let line = |line: &str| {
        // Problems are quoted, since they have commas; nothing else is.
        let parts: Vec<&str> = line.splitn(3, '"').collect();
        let rest: Vec<&str> = parts[2].split(',').collect();
        let numbers = (rest[2].parse().expect("a count"), rest[3].parse().expect("a number"));
        (parts[0].to_owned(), parts[1].to_owned(), rest[1].to_owned(), numbers.0, numbers.1)
    };
    lines.map(line).collect()
}

#[test]
fn every_listed_answer_is_scored_at_every_checkpoint() {
    let folder = Folder::new();
    let output = folder.path("study");
    run(&study(&output, &words(PATHS)));
    let lines = lines(&output);
    let mut checkpoints: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for line in &lines {
        checkpoints.entry(&line.0).or_default().push(line);
    }
    let names: Vec<&str> = checkpoints.keys().copied().collect();
    assert_eq!(
        names,
        ["base,,0,0,", "kl-full:0.1,0,2,2,", "kl-full:0.1,0,4,4,", "none,0,2,2,", "none,0,4,4,"]
    );
    let base = &checkpoints["base,,0,0,"];
    for own in checkpoints.values() {
        let same = own.iter().zip(base).all(|(a, b)| (&a.1, &a.2, a.3) == (&b.1, &b.2, b.3));
        assert!(same && own.len() == base.len());
        let mut mass: HashMap<&str, f64> = HashMap::new();
        own.iter().for_each(|line| *mass.entry(&line.1).or_default() += line.4.exp());
        assert_eq!(mass.len(), 5);
        assert!(mass.values().all(|mass| *mass > 0.0 && *mass <= 1.0), "{mass:?}");
    }
    let moved = checkpoints["none,0,4,4,"].iter().zip(base).any(|(a, b)| (a.4 - b.4).abs() > 1e-3);
    assert!(moved, "training moves probabilities");
    agrees_with_samples(&output, base);
    agrees_with_the_yardstick(base);
    let results = json(format!("{output}/results.json"));
    let ledger = &results["ledger"];
    assert_eq!(ledger["points"].as_array().map(Vec::len), Some(4));
    assert_eq!(ledger["base"]["survival"], serde_json::json!([1.0, 1.0]));
    let page = std::fs::read_to_string(format!("{output}/report.html")).expect("a page");
    assert!(
        page.contains("\"heading\":\"Ledger of correct answers\"")
            && page.contains("\"y\":\"share that survives\"")
    );
    let text = std::fs::read_to_string(format!("{output}/results.md")).expect("tables");
    assert!(text.contains("at least half") && text.contains("| listed | sampled |"), "{text}");
    resumes_and_refuses_another(&output);
}

/// The base's samples that are listed spellings are as many as the listed probabilities say, within noise.
fn agrees_with_samples(output: &str, base: &[&(String, String, String, usize, f64)]) {
    let mut mass: HashMap<&str, f64> = HashMap::new();
    base.iter().for_each(|line| *mass.entry(&line.1).or_default() += line.4.exp());
    let file = format!("{output}/base/samples-countdown-test.jsonl");
    let known = store::read(Path::new(&file)).expect("samples").problems;
    let (mut expected, mut variance, mut listed, mut unlisted) = (0.0, 0.0, 0, 0);
    for (problem, mass) in &mass {
        let spellings = countdown::spellings(problem).expect("listed");
        let samples = &known[*problem];
        assert_eq!(samples.len() as f64, SAMPLES);
        expected += SAMPLES * mass;
        variance += SAMPLES * mass * (1.0 - mass);
        for sample in samples.iter().filter(|sample| sample.is_correct()) {
            if spellings.contains(&sample.completion) { listed += 1 } else { unlisted += 1 }
        }
    }
    let apart = (f64::from(listed) - expected).abs();
    assert!(apart < 4.5 * variance.sqrt(), "{listed} samples where {expected} are expected");
    assert!(expected > 20.0, "{expected}: nothing would be compared");
    // The base writes as the task does: few correct samples are not listed.
    assert!(f64::from(unlisted) <= 0.05 * f64::from(listed + unlisted), "{unlisted} of {listed}");
}

/// The base's lines are what the graph of Candle's operations in f64 says of every spelling, one at a time.
fn agrees_with_the_yardstick(base: &[&(String, String, String, usize, f64)]) {
    let model = Pretrained::load("countdown", Precision::default(), &Device::Cpu).expect("a model");
    let weights = graph::tracked(&graph::variables(&model.weights));
    let dataset = tealight_datasets::open("countdown/test", &read::Columns::default(), Some(8));
    let dataset = dataset.expect("a task");
    let problem = dataset.problems.iter().find(|problem| problem.id == base[0].1).expect("there");
    let mut mass: HashMap<String, f64> = HashMap::new();
    for text in countdown::spellings(&problem.answer).expect("listed").iter().take(40) {
        let prompt = model.tokenizer.encode_prompt(&problem.prompt).expect("ids");
        let mut completion = model.tokenizer.encode_completion(text).expect("ids");
        completion.push(model.tokenizer.eos()[0]);
        let row = [Sequence { prompt, completion }];
        let logp = graph::token_logp(&model.architecture, &weights, &row, 1.0).expect("a graph");
        let logp: f64 = logp.to_vec1::<f64>().expect("numbers").iter().sum();
        let tealight_datasets::Verdict::Correct { class, .. } =
            dataset.verifier.verify(problem, text)
        else {
            panic!("{text} is listed and wrong");
        };
        *mass.entry(class).or_default() += logp.exp();
    }
    let own: Vec<_> = base.iter().filter(|line| line.1 == problem.id).collect();
    let all: usize = own.iter().map(|line| line.3).sum();
    assert!(all <= 40, "{all} spellings: raise the number that is compared");
    assert_eq!(own.len(), mass.len());
    for (_, _, answer, _, logp) in own {
        let exact = mass[answer].ln();
        assert!((logp - exact).abs() < 1e-3, "{answer}: {logp}, not {exact}");
    }
}

/// Missing lines are computed again, to the same bits; lines of other answers are not taken.
fn resumes_and_refuses_another(output: &str) {
    let whole = std::fs::read(format!("{output}/ledger.csv")).expect("a ledger");
    let of_base = format!("{output}/base/ledger-countdown-test.jsonl");
    let of_end = format!("{output}/none-seed0/path/step-000004/ledger-countdown-test.jsonl");
    for file in [&of_base, &of_end] {
        std::fs::remove_file(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    let resumed = [&words(PATHS)[..], &["--resume"]].concat();
    run(&study(output, &resumed));
    assert!(whole == std::fs::read(format!("{output}/ledger.csv")).expect("a ledger"));
    let text = std::fs::read_to_string(&of_base).expect("lines");
    std::fs::write(&of_base, text.replacen("\"spellings\":", "\"spellings\":1", 1)).expect("room");
    let arguments = study(output, &resumed);
    let error = refusal(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(error.contains("ledger-countdown-test.jsonl:1") && error.contains("remove"), "{error}");
}

#[test]
fn without_checkpoints_base_and_ends_are_scored() {
    let folder = Folder::new();
    let output = folder.path("study");
    // The recipe of the embedded model has checkpoints; this does not.
    run(&study(&output, &["--eval-steps", "0", "-n", "8"]));
    let points = json(format!("{output}/results.json"))["ledger"]["points"].clone();
    let steps: Vec<&Value> =
        points.as_array().expect("points").iter().map(|point| &point["step"]).collect();
    assert_eq!(steps, [4, 4]);
}

#[test]
fn unlistable_ledger_sets_are_refused_before_training() {
    let folder = Folder::new();
    let output = folder.path("study");
    let file = folder.path("data.jsonl");
    std::fs::write(&file, "{\"question\": \"1+1?\", \"answer\": \"2\"}\n").expect("room");
    let refused = |set: &str, more: &[&str]| {
        let words = [
            &["study", "--output", &output, "--quiet", "--ledger", "5", "--test-dataset", set][..],
            &["--max-test-samples", "8", "--eval-steps", "0", "--objectives", "none"],
            more,
        ];
        refusal(&words.concat())
    };
    let error = refused(&file, &[]);
    assert!(error.contains("cannot be listed") && error.contains("those of countdown"), "{error}");
    let error = refused(
        &folder.write("colouring.jsonl", UNLISTABLE),
        &["--model", "tasks", "--dataset", "colouring/train"],
    );
    assert!(error.contains("too many"), "{error}");
    let error = refused("countdown/test", &["--max-completion-length", "6"]);
    assert!(error.contains("--max-completion-length is 6"), "{error}");
    assert!(!Path::new(&output).join("base").exists());
}
