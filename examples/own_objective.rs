//! Train with an objective of your own, written as a line of keys: here GRPO with the full-vocabulary Hellinger
//! distance to the base as a penalty, a leave-one-out baseline and an entropy bonus. `tealight objectives` describes
//! the keys.
//!
//! `cargo run --release --example own_objective [DIR]`

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use anyhow::{Context, Result};
use serde_json::Value;
use tealight::app::directory::RunDirectory;
use tealight::app::settings::defaults;
use tealight::app::training::{self, TrainOptions};
use tealight::system::process::Process;

const OBJECTIVE: &str =
    "grpo:baseline=loo:divergence=hellinger:estimator=full:beta=0.2:entropy=0.001";

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "own-objective".into());
    let mut options: TrainOptions = defaults();
    options.data.dataset = "countdown/train".into();
    options.data.max_samples = Some(64);
    options.rlvr.objective = OBJECTIVE.parse().context("an objective that cannot work")?;
    options.rlvr.settings.max_steps = 5;

    let show = |row: &Value| {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        println!("step {}: reward {:.3}, KL {:.4}", row["step"], number("reward"), number("kl"));
        Ok(())
    };
    let run = RunDirectory::new(directory);
    let trained = training::run(&options, &run, &Process::alone(), Some(&show))?;
    println!("model in {}", trained.model.display());
    Ok(())
}
