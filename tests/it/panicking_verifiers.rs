//! A verifier that panics on some completions, on the path of each command that judges: each panic is one unjudged
//! completion, and the others are judged as without it.

use std::sync::Arc;

use tealight::app::verdicts::Judge;
use tealight::learn::presample::{PresampleSpec, presample};
use tealight::learn::rollout::{Collector, Encoded, collect};
use tealight::nn::device::Precision;
use tealight::nn::generate::{LocalSampler, RngKey};
use tealight::nn::tokenizer::Tokenizer;
use tealight::solvers::local::LocalSolver;
use tealight::solvers::sampled::Sampled;
use tealight_core::ranks::Ranks;
use tealight_datasets::read::Columns;
use tealight_datasets::{Dataset, Problem, Verdict, Verifier};
use tealight_eval::evaluate::EvalJob;
use tealight_eval::grade::{GradeJob, Source};

use crate::support::{load, sampling};

/// Panics on completions whose number of bytes is divisible by three, and otherwise does as another verifier.
struct Fragile(Arc<dyn Verifier>);

fn is_fatal(completion: &str) -> bool {
    completion.len().is_multiple_of(3)
}

impl Verifier for Fragile {
    fn name(&self) -> &'static str {
        "fragile"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        assert!(!is_fatal(completion), "a fatal length");
        self.0.verify(problem, completion)
    }
}

fn fragile() -> (Dataset, Fragile) {
    let dataset = tealight_datasets::open("countdown/test", &Columns::default(), Some(6));
    let dataset = dataset.expect("a dataset");
    let judge = Fragile(dataset.verifier.clone());
    (dataset, judge)
}

/// `eval`, `eval --engine`, `study` and the evaluations of `train`.
#[test]
fn an_evaluation_counts_panics_as_unjudged() {
    let (dataset, judge) = fragile();
    let model = Sampled::ours(load("countdown")).expect("a model");
    let solver = LocalSolver::new(&model, sampling(1.0, 24, &[]), 0, 64);
    let whole = EvalJob::new(&dataset, 16, &solver).run().expect("an evaluation");
    let tallies = EvalJob { judge: &judge, ..EvalJob::new(&dataset, 16, &solver) }.run();
    let tallies = tallies.expect("no panic ends it");
    let unjudged: usize = tallies.iter().map(|tally| tally.unjudged).sum();
    assert!(unjudged > 8, "{unjudged}");
    for (tally, whole) in tallies.iter().zip(&whole) {
        assert_eq!(tally.samples + tally.unjudged, whole.samples);
        assert!(tally.correct <= whole.correct);
    }
}

#[test]
fn grading_counts_panics_as_unjudged_and_says_why() {
    let (dataset, judge) = fragile();
    let mut text = String::new();
    for problem in &dataset.problems {
        for completion in ["ab", "abc", "abcdef", "abcd"] {
            let line = serde_json::json!({"id": problem.id, "completion": completion});
            text.push_str(&format!("{line}\n"));
        }
    }
    let mut source = Source::new(text.as_bytes(), "f.jsonl").expect("a source");
    let job = GradeJob { dataset: Some(&dataset), ..GradeJob::new(&judge) };
    let graded = job.run(&mut source, &mut |_| Ok(())).expect("no panic ends it");
    let counts: Vec<_> = graded.tallies.iter().map(|one| (one.samples, one.unjudged)).collect();
    assert_eq!(counts, [(2, 2); 6]);
    assert!(graded.unjudged[0].contains("fragile: a fatal length"), "{:?}", graded.unjudged);
}

/// Rollouts and stored samples of the base; resumed, what is missing is judged again.
#[test]
fn rollouts_with_panics_earn_nothing_and_end_no_run() {
    let (dataset, judge) = fragile();
    let model = load("countdown");
    let policy = model.policy(None).expect("a policy");
    let sampler = LocalSampler { decoder: policy.decoder(), max_rows: 64 };
    let tokenizer = &model.tokenizer;
    let params = sampling(1.0, 24, model.tokenizer.eos());
    let problems = Encoded::all(&dataset.problems, tokenizer, 64, 24).expect("prompts");
    let collector = Collector::new(&sampler, tokenizer, &judge, &params);
    let (mut panics, mut others) = (0, 0);
    let key = RngKey { seed: 1, step: 0 };
    let all: Vec<usize> = (0..problems.len()).collect();
    collect(&collector, &problems, &all, 0..16, key, &mut |group| {
        for rollout in &group.rollouts {
            let is_panic = matches!(&rollout.verdict, Verdict::Unjudged { why, .. } if why.contains("panicked"));
            match is_panic {
                true => panics += 1,
                false => others += 1,
            }
            assert_eq!(is_panic, is_fatal(&rollout.text));
            assert!(!is_panic || rollout.reward() == 0.0);
        }
        Ok(())
    })
    .expect("no panic ends it");
    assert!(panics > 8 && others > 8, "{panics} {others}");
    let request = PresampleSpec {
        model: "countdown".into(),
        dataset: "countdown".into(),
        num_presamples: 4,
        extra_check: false,
        temperature: 1.0,
        max_completion_length: 24,
        seed: 1,
        precision: Precision::default(),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let draw = || {
        presample(&collector, &problems, &request, folder.path(), &Ranks::alone(), &mut || Ok(()))
    };
    let first = draw().expect("no panic ends it");
    let file = folder.path().join("presamples.jsonl");
    let text = std::fs::read_to_string(&file).expect("readable");
    let half: String = text.split_inclusive('\n').take(3).collect();
    std::fs::write(&file, half).expect("written");
    assert_eq!(draw().expect("resumed").prompts, first.prompts);
}

/// `verify --jsonl`.
#[test]
fn a_line_whose_verifier_panics_is_unjudged() {
    let (_, fragile) = fragile();
    let judge = Judge::Other(Arc::new(fragile));
    let line =
        judge.judge_line(br#"{"gold": "7", "answer": "abc"}"#).expect("a line").expect("one");
    assert!(line.json.starts_with("{\"verdict\":\"unjudged\""), "{}", line.json);
    assert!(line.json.contains("a fatal length (panicking_verifiers.rs:"), "{}", line.json);
}
