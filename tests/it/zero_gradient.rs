//! Completions without a gradient are not passed backward, and nothing but the time of a step depends on it.

use std::path::Path;

use crate::ranks::{apart, assert_same_course, train_alone};
use crate::support::metrics::rows;

fn train(output: &Path, more: &str) {
    let line = format!(
        "--max-completion-length 16 --learning-rate 1e-3 --max-samples 12 --max-steps 8 --save-steps 0 \
         {more}"
    );
    train_alone(output, &line);
}

#[test]
fn zero_gradient_completions_are_skipped_without_effect() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: String| folder.path().join(name);
    // With one prompt a step whole steps have none, in which Adam still moves.
    for (number, (keys, prompts)) in
        [("", "1"), ("", "6"), (":mask-truncated=true", "6 --weight-decay 0.1")]
            .into_iter()
            .enumerate()
    {
        let [few, all] = ["few", "all"].map(|name| path(format!("{name}-{number}")));
        let small = format!("--num-generations 2 --prompts-per-step {prompts}");
        train(&few, &format!("--objective grpo{keys} {small}"));
        // A bonus too small to act pulls at every token.
        train(&all, &format!("--objective grpo{keys}:entropy=1e-30 {small}"));
        let num_gradients = |run: &Path| {
            rows(run).last().expect("a row")["num_gradients"].as_u64().expect("a count")
        };
        let (own, whole) = (num_gradients(&few), num_gradients(&all));
        assert!(own < whole / 2 + whole / 4, "{own} of {whole}");
        assert_same_course(&few, &all, &["num_gradients"]);
        let difference = apart(&few, &all, "model.safetensors");
        assert!(difference < 5e-5, "{prompts}: {difference:e}");
    }
    let idle = rows(&path("few-0".into())).into_iter().filter(|row| row["grad_norm"] == 0.0);
    assert!(idle.count() > 0, "no step was without a gradient");
}

#[test]
fn log_kl_samples_few_completions_at_intervals() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |how: &str| {
        let output = folder.path().join(how);
        let small = "--prompts-per-step 12 --num-generations 4";
        train(&output, &format!("--objective grpo {small} --log-kl {how}"));
        rows(&output)
    };
    let (estimated, all, off) = (run("estimate"), run("true"), run("off"));
    for (step, ((few, all), off)) in estimated.iter().zip(&all).zip(&off).enumerate() {
        assert_eq!(few["kl"].is_number(), step % 5 == 0, "step {step}");
        assert!(all["kl"].is_number() && off["kl"].is_null());
        // Training does not depend on it.
        assert_eq!((&few["loss"], &few["grad_norm"]), (&all["loss"], &all["grad_norm"]));
        if let (Some(few), Some(all), Some(error)) =
            (few["kl"].as_f64(), all["kl"].as_f64(), few["kl_stderr"].as_f64())
        {
            assert!((few - all).abs() <= 4.0 * error + 1e-6, "{few} and {all}");
        }
    }
}
