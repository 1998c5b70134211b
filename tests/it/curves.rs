//! A study's curves: tuning, paths of checkpoints, baselines, and the plan before them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::binary::{Folder, command, ok, printed};
use crate::support::runs::{SMALL, json, summary};

/// A study of seconds: two objectives in two configurations.
fn study(output: &str, more: &str) -> String {
    format!(
        "study --quiet --no-greedy --seeds 0,1 --objectives none@{{learning-rate=1e-4,3e-4}},kl-full@{{0.03,0.3}} \
         --max-samples 8 --max-test-samples 12 -n 8 -k 1,8 --eval-dataset countdown/valid --eval-max-samples 12 \
         --tuning-seeds 9 --tuning-pass-at-1 0.2 --average-share 0.5 --base-temperature 0.6 --output {output} \
         {SMALL} {more}"
    )
}

fn samples(path: PathBuf) -> Vec<u8> {
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_run_is_a_path_and_baselines_are_objectives() {
    let folder = Folder::new();
    let output = folder.path("study");
    ok(&study(&output, "--max-steps 4 --eval-steps 2"));
    let results = json(format!("{output}/results.json"));
    // One configuration of each objective is studied.
    assert_eq!(results["objectives"].as_array().map(Vec::len), Some(2));
    assert_eq!(results["training"].as_array().map(Vec::len), Some(4));
    assert_eq!(results["datasets"][0]["tuned"].as_array().map(Vec::len), Some(4));
    let shown = is_tuned_by_the_rule(&results, &output);
    let curves = results["curves"].as_array().expect("curves");
    let measures: Vec<&Value> = curves.iter().map(|one| &one["measure"]).collect();
    let known = serde_json::json!([{ "distinct": 8 }, { "pass_at_k": 8 }]);
    assert_eq!(serde_json::json!(measures), known);
    assert_eq!(curves[0]["problems"], 12);
    // One configuration of each objective with two checkpoints; an average and the end; one temperature.
    for (name, seeds, points, is_baseline) in [
        ("none", 2, 2, false),
        ("kl-full", 2, 2, false),
        ("none averaged with the base", 2, 2, true),
        ("base at lower temperatures", 0, 1, true),
    ] {
        let all = curves[0]["curves"].as_array().expect("objectives");
        let one =
            all.iter().find(|one| one["objective"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!((&one["seeds"], &one["is_baseline"]), (&seeds.into(), &is_baseline.into()));
        assert_eq!(one["points"].as_array().map(Vec::len), Some(points), "{name}");
        // The curve is that of the configuration which the tables show.
        let configuration = one["configuration"].as_str().expect("a name");
        assert!(
            seeds == 0 || shown.iter().any(|one| one == configuration),
            "{configuration} {shown:?}"
        );
    }
    // The average ends where the run does.
    let last_pass_at_1 = |name: &str| {
        let all = curves[0]["curves"].as_array().expect("objectives");
        let one = all.iter().find(|one| one["objective"] == name).expect("an objective");
        one["points"][1]["pass@1"].clone()
    };
    assert_eq!(last_pass_at_1("none"), last_pass_at_1("none averaged with the base"));
    // One objective is tested against the reference; baselines are described, and so is Pass@k.
    let tested = |curves: &Value| -> Vec<String> {
        let all = curves["comparisons"].as_array().expect("comparisons");
        let is_tested = |one: &&Value| !one["p_value"].is_null() || !one["missing"].is_null();
        all.iter().filter(is_tested).map(|one| one["first"].to_string()).collect()
    };
    assert_eq!(curves[0]["reference"], "none");
    assert!(tested(&curves[0]).contains(&"\"kl-full\"".to_owned()), "{}", curves[0]);
    let described = curves[1]["comparisons"].as_array().expect("comparisons");
    assert!(described.iter().all(|one| one["p_value"].is_null()));
    let place = Path::new(&output);
    let slug = |name: &str| name.replace(['@', '=', ':'], "-");
    let [none, kl] = [&shown[0], &shown[1]].map(|name| slug(name));
    for file in [
        "base/samples-countdown-valid.jsonl".into(),
        "base/temperature-0.6/samples-countdown-test.jsonl".to_owned(),
        "tuning/none-learning-rate-1e-4-seed9/path/step-000002/samples-countdown-valid.jsonl"
            .into(),
        "tuning/kl-full-0.03-seed9/samples-countdown-valid.jsonl".to_owned(),
        format!("{none}-seed0/path/step-000002/samples-countdown-test.jsonl"),
        format!("{none}-seed1/average-0.5/samples-countdown-test.jsonl"),
        format!("{kl}-seed0/samples-countdown-test.jsonl"),
    ] {
        assert!(place.join(&file).exists(), "{file}");
    }
    assert!(!place.join(format!("{kl}-seed1/average-0.5")).exists());
    // Weights on the way are gone, their samples are those of a run that ends there.
    let run_folder = &format!("{none}-seed0");
    assert!(!place.join(run_folder).join("path/step-000002/model").exists());
    let shorter = folder.path("shorter");
    let (objective, rate) = shown[0].split_once('@').expect("a rate");
    ok(command!(
        "study --quiet --no-greedy --task countdown --seeds 0,1 --objectives {objective}@{{{rate}}} --max-samples 8 \
         --max-test-samples 12 -n 8 -k 1,8 --max-steps 2 --eval-steps 2 --no-baselines --output {shorter} {SMALL}"
    ));
    assert!(!Path::new(&shorter).join("tuning").exists());
    let file = "samples-countdown-test.jsonl";
    let on_the_way = samples(place.join(run_folder).join("path/step-000002").join(file));
    let end = samples(Path::new(&shorter).join(run_folder).join(file));
    assert!(on_the_way == end, "a checkpoint is the model of a run that ends there");
    assert!(on_the_way != samples(place.join(run_folder).join(file)), "and not its end's");
}

/// What was tried is recorded with the rule, and what the rule chooses is what was studied.
fn is_tuned_by_the_rule(results: &Value, output: &str) -> Vec<String> {
    let tuning = &results["tuning"];
    assert_eq!(
        (&tuning["seeds"], &tuning["dataset"]),
        (&serde_json::json!([9]), &"countdown/valid".into())
    );
    let tried = tuning["tried"].as_array().expect("configurations");
    assert_eq!(tried.len(), 4);
    let number = |one: &Value, name: &str| one[name].as_f64().expect("a number");
    for name in ["none", "kl-full"] {
        let of_one = || tried.iter().filter(|one| one["objective"] == name);
        let reaches = |one: &&Value| number(one, "pass@1") >= 0.2;
        let by = if of_one().any(|one| reaches(&one)) { "value" } else { "pass@1" };
        let best = of_one().filter(|one| by == "pass@1" || reaches(one)).map(|one| number(one, by));
        let best = best.fold(0.0, f64::max);
        let chosen: Vec<&Value> = of_one().filter(|one| one["is_chosen"] == true).collect();
        assert!(chosen.len() == 1 && number(chosen[0], by) == best, "{tuning}");
    }
    let chosen = tried.iter().filter(|one| one["is_chosen"] == true);
    let chosen: Vec<String> =
        chosen.map(|one| one["configuration"].as_str().expect("a name").to_owned()).collect();
    let studied = results["objectives"].as_array().expect("labels").iter();
    let studied: Vec<&str> = studied.filter_map(|one| one[0].as_str()).collect();
    assert_eq!(studied, chosen);
    for file in ["results.md", "report.html"] {
        let text = std::fs::read_to_string(format!("{output}/{file}")).expect("readable");
        assert!(text.contains("ties go to the smaller learning rate"), "{file}");
    }
    chosen
}

/// Where the answers are few, curves are the probabilities of all of them: without samples of checkpoints, and equal to
/// what `eval --exact` computes.
#[test]
fn curves_are_exact_where_answers_can_be_listed() {
    let folder = Folder::new();
    let output = folder.path("study");
    let text = printed(command!(
        "study --quiet --no-greedy --task paths --seeds 0,1 --objectives grpo,js:2.4 --max-samples 8 \
         --max-test-samples 12 -n 32 -k 1,8 --max-steps 2 --eval-steps 1 --prompts-per-step 4 --num-generations 8 \
         --learning-rate 1e-3 --base-temperature 0.6 --average-share 0.5 --output {output}"
    ));
    assert!(text.contains("exact, from the probability of every correct answer"), "{text}");
    let results = json(format!("{output}/results.json"));
    assert_eq!(results["curves"][0]["is_exact"], true);
    let place = Path::new(&output);
    let on_the_way = place.join("grpo-seed0/path/step-000001");
    assert!(on_the_way.join("answers-paths-test.jsonl").exists());
    assert!(!on_the_way.join("samples-paths-test.jsonl").exists(), "nothing is sampled");
    let colder = place.join("base/temperature-0.6");
    assert!(colder.join("answers-paths-test.jsonl").exists());
    // The end of a run, by the other command.
    let mean = |model: &str| -> f64 {
        let evaluated = folder.path(&model.replace('/', "-"));
        let model = format!("{output}/{model}/final");
        ok(command!(
            "eval --quiet --model {model} --dataset paths/test --max-samples 12 -n 1 -k 1 \
             --exact --max-completion-length 32 --output {evaluated}"
        ));
        summary(&evaluated)["exact"]["pass@k"]["1"]["value"].as_f64().expect("a number")
    };
    let ends = (mean("grpo-seed0") + mean("grpo-seed1")) / 2.0;
    let ours = results["curves"][0]["curves"][0]["points"][1]["pass@1"].as_f64().expect("a number");
    assert!((ends - ours).abs() < 1e-6, "{ends} {ours}");
}

#[test]
fn a_plan_lists_the_runs_without_running_them() {
    let folder = Folder::new();
    let output = folder.path("study");
    let text = printed(&study(&output, "--max-steps 4 --eval-steps 2 --plan"));
    assert!(!Path::new(&output).exists(), "nothing is written");
    let row = |name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        let numbers = line.split_whitespace().rev().take(3).map(str::to_owned);
        numbers.collect::<Vec<_>>().into_iter().rev().collect()
    };
    // 4 steps with 32 completions: four configurations of one seed, then two of two. Two checkpoints of each run, whose
    // ends are sampled anyway; an average a seed and one temperature.
    assert_eq!(row("tune none@learning-rate=1e-4 (4 steps)")[..2], ["1", "128"]);
    assert_eq!(row("train none (4 steps)")[..2], ["2", "256"]);
    assert_eq!(row("evaluate ends")[..2], ["5".to_owned(), (5 * 12 * 8).to_string()]);
    assert_eq!(row("evaluate tuning")[..2], ["8".to_owned(), (9 * 12 * 8).to_string()]);
    assert_eq!(row("evaluate checkpoints")[..2], ["8".to_owned(), (4 * 12 * 8).to_string()]);
    assert_eq!(row("evaluate baselines")[..2], ["3".to_owned(), (3 * 12 * 8).to_string()]);
    assert!(text.contains("in a study of colouring; those of countdown/"), "{text}");
    assert!(text.contains("measured now") && text.contains("probability .8"), "{text}");
}
