//! A study as data, as rows of a table, and as a page.

mod browser;
pub mod chart;
mod evaluation;
mod live;
mod page;
mod pairs;
pub mod sheet;

use serde::{Deserialize, Serialize};

use crate::Summary;
use crate::compare::Kept;

pub use evaluation::write;
pub use live::Live;
pub use page::{html, live_page};
pub use pairs::pairs;

/// A base model and what became of it under several objectives: the contents of `results.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// The base model's name.
    pub model: String,
    /// Samples a problem.
    pub n: usize,
    /// The k of the tables.
    pub ks: Vec<usize>,
    /// The k of the curves: those of the tables and the powers of two up to n.
    pub grid: Vec<usize>,
    /// Temperature of rollouts and evaluations.
    pub temperature: f64,
    /// Prompts in a training step.
    pub prompts_per_step: usize,
    /// Completions a prompt in a training step.
    pub num_generations: usize,
    /// Learning rate of training.
    pub learning_rate: f64,
    /// The datasets that every model was evaluated on.
    pub datasets: Vec<Evaluated>,
    /// The training runs.
    pub training: Vec<Training>,
    /// Wall time of everything.
    pub seconds: f64,
}

/// One dataset: the base, and every tuned model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// The dataset's name.
    pub name: String,
    /// What the base does on it.
    pub base: Summary,
    /// How many of the base's samples are right, problem by problem.
    pub base_correct: Vec<usize>,
    /// What the tuned models do.
    pub tuned: Vec<Tuned>,
}

/// One tuned model on one dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// What it was tuned under.
    pub objective: String,
    /// The seed of its run.
    pub seed: u64,
    /// Its numbers.
    pub summary: Summary,
    /// How many of its samples are right, problem by problem.
    pub correct: Vec<usize>,
    /// What it kept of the base's solved problems.
    pub kept: Kept,
}

/// One training run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// What was optimised besides the reward.
    pub objective: String,
    /// Its seed.
    pub seed: u64,
    /// Optimizer steps.
    pub steps: usize,
    /// Completions sampled, those of the base for rehearsal included.
    pub completions: usize,
    /// Tokens sampled, likewise.
    pub tokens: usize,
    /// Wall time, evaluation not counted.
    pub seconds: f64,
    /// What each step measured.
    pub points: Vec<TrainingPoint>,
}

/// What the training curves show of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainingPoint {
    /// Steps done.
    pub step: usize,
    /// Mean reward; none for supervised objectives.
    pub reward: Option<f64>,
    /// Mean entropy per token, in nats; likewise.
    pub entropy: Option<f64>,
    /// Estimate of KL(policy || base) per completion, in nats.
    pub kl: Option<f64>,
}

/// The k that curves are drawn at: `ks` and the powers of two up to `n`, in order.
pub fn grid(ks: &[usize], n: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |k| Some(k * 2)).take_while(|k| *k <= n);
    let mut grid: Vec<usize> = powers.chain(ks.iter().copied()).collect();
    grid.sort_unstable();
    grid.dedup();
    grid
}

impl Study {
    /// The objectives, each once, in the order they were run in.
    pub fn objectives(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for run in &self.training {
            if !names.contains(&run.objective.as_str()) {
                names.push(&run.objective);
            }
        }
        names
    }
}

impl Evaluated {
    /// The runs of one objective, one a seed.
    pub fn of<'a>(&'a self, objective: &'a str) -> impl Iterator<Item = &'a Tuned> + Clone {
        self.tuned.iter().filter(move |tuned| tuned.objective == objective)
    }
}

/// Whether the distance from p* is known on this dataset.
pub fn has_kl(evaluated: &Evaluated) -> bool {
    evaluated.base.kl_pstar.is_some()
}

/// The header over [`rows`].
pub fn header(study: &Study, evaluated: &Evaluated) -> Vec<String> {
    let mut header = vec!["objective".to_owned()];
    header.extend(study.ks.iter().map(|k| format!("pass@{k}")));
    header.push("distinct".into());
    header.extend(has_kl(evaluated).then(|| "KL(p*)".to_owned()));
    header.extend(["keep".into(), "new".into()]);
    header
}

/// The rows of a dataset's table, the base first: objective, Pass@k for each k, distinct right
/// answers a prompt among all n samples, prompts kept and newly solved. Several seeds are averaged.
pub fn rows(study: &Study, evaluated: &Evaluated) -> Vec<Vec<String>> {
    let most = study.n;
    let largest = study.ks.iter().max().copied().unwrap_or(most);
    let cells = |name: String, all: &[&Summary], kept: String, new: String| {
        let mean = |value: &dyn Fn(&Summary) -> f64| {
            all.iter().map(|summary| value(summary)).sum::<f64>() / all.len() as f64
        };
        let mut row = vec![name];
        for k in &study.ks {
            row.push(format!("{:.3}", mean(&|summary| summary.pass_at_k[k].value)));
        }
        row.push(format!("{:.2}", mean(&|summary| summary.unique_correct[&largest].value)));
        if has_kl(evaluated) {
            let kl = |summary: &Summary| summary.kl_pstar.map_or(f64::NAN, |kl| kl.value);
            row.push(format!("{:.2}", mean(&kl)));
        }
        row.extend([kept, new]);
        row
    };
    let mut rows = vec![cells("base".into(), &[&evaluated.base], String::new(), String::new())];
    for objective in study.objectives() {
        let tuned: Vec<_> = evaluated.of(objective).collect();
        let summaries: Vec<_> = tuned.iter().map(|tuned| &tuned.summary).collect();
        let total = |count: fn(&Kept) -> usize| tuned.iter().map(|t| count(&t.kept)).sum::<usize>();
        let seeds = tuned.len().max(1) as f64;
        let kept = total(|kept| kept.kept) as f64 / seeds;
        let solved = total(|kept| kept.base_solved) as f64 / seeds;
        let new = total(|kept| kept.newly_solved) as f64 / seeds;
        let share = format!("{}/{}", count(kept), count(solved));
        rows.push(cells(objective.into(), &summaries, share, format!("+{}", count(new))));
    }
    rows
}

/// A mean of counts: whole numbers without decimals.
fn count(mean: f64) -> String {
    if mean.fract() == 0.0 { format!("{mean:.0}") } else { format!("{mean:.1}") }
}
