//! The application as a library: settings in, results out, without the binary.

use std::cell::RefCell;

use tealight::app::directory::{Existing, RunDirectory};
use tealight::app::settings::defaults;
use tealight::app::{beta, compare, evaluate, grade, lab, presample, training};
use tealight::system::process::Process;

#[test]
fn a_run_is_trained_and_evaluated_and_compared_without_the_binary() {
    let folder = tempfile::tempdir().expect("a folder");
    let process = Process::alone();
    let mut settings: training::TrainOptions = defaults();
    settings.data.max_samples = Some(8);
    settings.rlvr.settings.max_steps = 2;
    settings.rlvr.settings.prompts_per_step = 2;
    settings.rlvr.settings.num_generations = 4;
    let directory = RunDirectory::new(folder.path().join("run"));
    let steps = RefCell::new(Vec::new());
    let on_step = |row: &serde_json::Value| {
        steps.borrow_mut().push(row["step"].as_u64());
        Ok(())
    };
    let trained = training::run(&settings, &directory, &process, Some(&on_step)).expect("a run");
    assert_eq!(*steps.borrow(), [Some(1), Some(2)]);
    assert_eq!((trained.global_step, trained.num_completions), (2, 16));

    let evaluated = |model: String, name: &str| {
        let mut settings: evaluate::EvalOptions = defaults();
        settings.model.model = model;
        settings.data.dataset = "countdown/test".into();
        settings.data.max_samples = Some(4);
        (settings.n, settings.k) = (8, vec![1, 8]);
        settings.output = Some(folder.path().join(name));
        let found = evaluate::run(&settings, Existing::Keep, &process).expect("an evaluation");
        assert!(found.doubt.is_none());
        found.results
    };
    let base = evaluated("countdown".into(), "base");
    let tuned = evaluated(trained.model.display().to_string(), "tuned");
    assert_eq!((base.sets[0].problems.len(), tuned.sets[0].summary.n), (4, 8));

    let mut settings: compare::CompareOptions = defaults();
    settings.runs = ["base", "tuned"].map(|name| folder.path().join(name)).into();
    let compared = compare::run(&settings).expect("a comparison");
    assert_eq!((compared.names.len(), compared.sets[0].changes.len()), (2, 1));
    let json = serde_json::to_value(&compared).expect("JSON");
    assert_eq!(json["sets"][0]["problems"], 4);
}

#[test]
fn completions_are_graded_and_bases_measured_without_the_binary() {
    let folder = tempfile::tempdir().expect("a folder");
    let process = Process::alone();
    let lines = folder.path().join("lines.jsonl");
    let line = |id: usize, answer: &str| {
        format!("{{\"id\": \"{id}\", \"completion\": \"{answer}\", \"gold\": \"7\"}}\n")
    };
    let text = line(0, "7") + &line(0, "8") + &line(1, "14/2") + &line(1, "7");
    std::fs::write(&lines, text).expect("written");
    let mut settings: grade::GradeOptions = defaults();
    settings.output = Some(folder.path().join("graded"));
    let file = lines.display().to_string();
    let graded = grade::run(&settings, &file, Existing::Keep, &process).expect("graded");
    assert_eq!(graded.results.sets[0].summary.pass_at_k[&1].value, 0.75);

    let mut settings: presample::PresampleOptions = defaults();
    settings.data.max_samples = Some(3);
    settings.num_presamples = 4;
    let output = folder.path().join("base");
    let summary = presample::run(&settings, &output, &process).expect("samples");
    assert_eq!((summary.prompts, summary.num_presamples, summary.validity.len()), (3, 4, 3));

    let mut settings: beta::BetaOptions = defaults();
    (settings.validity, settings.target) = (Some(0.2), vec![0.8]);
    let meaning = beta::run(&settings).expect("a meaning");
    assert!((meaning.rows[0].validity - 0.8).abs() < 1e-9);

    let mut settings: lab::LabOptions = defaults();
    settings.beta = vec![0.5];
    let printed = lab::run(&settings).expect("a world");
    assert_eq!(printed.cells.len(), 4, "a header, the base, p* and the optimum");
}

#[test]
fn impossible_settings_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings: training::TrainOptions = defaults();
    settings.rlvr.settings.presamples = Some(folder.path().join("none"));
    let directory = RunDirectory::new(folder.path().join("run"));
    let result = training::run(&settings, &directory, &Process::alone(), None);
    let error = result.expect_err("unread").to_string();
    assert!(error.contains("needs no samples of the base"), "{error}");
    assert!(!folder.path().join("run").exists());
}
