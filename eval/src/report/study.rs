//! A study as data: the contents of its `results.json`.

use serde::{Deserialize, Serialize};
use tealight_core::Filters;

use crate::contrast::{Contrast, Evaluations};
use crate::curve::{Curves, Tuning};
use crate::results::Question;
use crate::{Summary, Tally};

/// A base model and what became of it under several objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// The base model's name.
    pub model: String,
    /// Its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// Samples a problem.
    pub n: usize,
    /// The k of the tables.
    pub ks: Vec<usize>,
    /// The k of the curves: those of the tables and the powers of two up to n.
    pub grid: Vec<usize>,
    /// Temperature of rollouts; evaluations say theirs.
    pub temperature: f64,
    /// The filters of next-token distributions in every evaluation.
    pub filters: Filters,
    /// Training prompts.
    pub prompts: usize,
    /// Prompts in a training step.
    pub prompts_per_step: usize,
    /// Completions a prompt in a training step.
    pub num_generations: usize,
    /// Learning rate of training.
    pub learning_rate: f64,
    /// In what every run was given as much.
    pub matched: String,
    /// Each objective's label and every choice that it stands for; of several configurations the one that tables show.
    pub objectives: Vec<(String, String)>,
    /// Why there are no curves, where checkpoints were evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_curves: Option<String>,
    /// The sets that every model was evaluated on, each at one temperature.
    pub datasets: Vec<Evaluated>,
    /// The training runs.
    pub training: Vec<Training>,
    /// Curves of its objectives: distinct answers, whose differences are tested and which are drawn first, then Pass@k.
    pub curves: Vec<Curves>,
    /// How the configurations of objectives were chosen, where one has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuning: Option<Tuning>,
    /// Wall time of everything.
    pub seconds: f64,
}

impl Study {
    /// How every model was sampled, in a sentence.
    pub fn decoding(&self) -> String {
        let temperature = self.reported().map_or(self.temperature, |set| set.temperature);
        format!("Evaluations: temperature {temperature}, {}.", self.filters)
    }
}

/// One set of problems at one temperature: the base, and every tuned model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// The dataset's name.
    pub name: String,
    /// `in` or `out` of the training domain.
    pub domain: String,
    /// Sampling temperature.
    pub temperature: f64,
    /// The questions, problem by problem, for a person to read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// The base's results on it.
    pub base: Measured,
    /// The tuned models' results.
    pub tuned: Vec<Tuned>,
    /// The change of the base under each objective, over its seeds, in the study's order.
    pub contrasts: Vec<(String, Contrast)>,
}

/// The results of one model on one set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The numbers.
    pub summary: Summary,
    /// The counts of each problem.
    pub problems: Vec<Tally>,
    /// The file of its samples, in the study's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<String>,
}

/// One tuned model on one set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredTuned")]
pub struct Tuned {
    /// The objective of its training.
    pub objective: String,
    /// The seed of its run.
    pub seed: u64,
    /// Its results.
    #[serde(flatten)]
    pub measured: Measured,
}

/// The same as it is read: serde reads numbers as keys of a map, such as those of Pass@k, only outside of flattened
/// fields.
#[derive(Deserialize)]
struct StoredTuned {
    objective: String,
    seed: u64,
    summary: Summary,
    problems: Vec<Tally>,
    samples: Option<String>,
}

impl From<StoredTuned> for Tuned {
    fn from(stored: StoredTuned) -> Self {
        let StoredTuned { objective, seed, summary, problems, samples } = stored;
        Self { objective, seed, measured: Measured { summary, problems, samples } }
    }
}

/// One training run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Name of the objective.
    pub objective: String,
    /// Training seed.
    pub seed: u64,
    /// Rounds of rollouts, or of stored completions.
    pub steps: usize,
    /// Optimizer steps.
    pub updates: usize,
    /// Completions sampled, those of the base for rehearsal included.
    pub completions: usize,
    /// Tokens sampled, likewise.
    pub tokens: usize,
    /// Completions that went through a backward pass, stored ones included.
    pub gradients: usize,
    /// Stored completions of the base among them.
    pub rehearsed: usize,
    /// Wall time of the steps, pre-sampling and evaluation not counted.
    pub seconds: f64,
    /// Its folder, in the study's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The metrics of each step.
    pub points: Vec<TrainingPoint>,
}

/// The values of a step that the training curves show.
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
    /// Optimizer steps up to here.
    pub updates: usize,
    /// Tokens sampled up to here, those of the base included.
    pub tokens: usize,
}

impl Tuned {
    /// The counts of each problem.
    pub fn counts(&self) -> &[Tally] {
        &self.measured.problems
    }
}

impl Study {
    /// The objectives, in the order they were given in.
    pub fn labels(&self) -> Vec<&str> {
        self.objectives.iter().map(|(label, _)| label.as_str()).collect()
    }

    /// The runs of the configurations that tables show.
    pub fn shown(&self) -> impl Iterator<Item = &Training> {
        let labels = self.labels();
        self.training.iter().filter(move |run| labels.contains(&run.objective.as_str()))
    }

    /// The seeds, in order.
    pub fn seeds(&self) -> Vec<u64> {
        let mut seeds: Vec<u64> = self.training.iter().map(|run| run.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds
    }

    /// The set that is reported first.
    pub fn reported(&self) -> Option<&Evaluated> {
        self.datasets.first()
    }

    /// The largest k of the tables.
    pub fn largest(&self) -> usize {
        self.ks.iter().max().copied().unwrap_or(self.n)
    }
}

impl Evaluated {
    /// The runs of one objective, one a seed.
    pub fn runs_of<'a>(&'a self, objective: &'a str) -> impl Iterator<Item = &'a Tuned> + Clone {
        self.tuned.iter().filter(move |tuned| tuned.objective == objective)
    }

    /// Compares every objective with the base, over its seeds.
    pub fn contrast(&mut self, labels: &[String], ks: &[usize]) {
        let table: Vec<&[Tally]> = self.tuned.iter().map(Tuned::counts).collect();
        let compared = |label: &String| {
            let runs: Vec<&[Tally]> = self.runs_of(label).map(Tuned::counts).collect();
            let evaluations = Evaluations { base: &self.base.problems, runs: &runs, table: &table };
            (label.clone(), Contrast::new(&evaluations, ks))
        };
        let all = labels.iter().map(compared);
        self.contrasts = all.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tally;

    #[test]
    fn a_model_of_a_study_is_read_as_it_was_written() {
        let problems = vec![tally("a", 4, 2), tally("b", 4, 4)];
        let summary = Summary::new(&problems, &[1, 4]).unwrap();
        let samples = Some("grpo-seed0/samples-s.jsonl".to_owned());
        let measured = Measured { summary, problems, samples };
        let tuned = Tuned { objective: "grpo".into(), seed: 3, measured };
        let json = serde_json::to_string(&tuned).unwrap();
        let read: Tuned = serde_json::from_str(&json).unwrap();
        // Floats may differ in their last bit.
        assert_eq!(read.measured.problems, tuned.measured.problems);
        assert_eq!((read.seed, &read.measured.samples), (3, &tuned.measured.samples));
        assert!((read.measured.summary.pass_at_k[&1].value - 0.75).abs() < 1e-12);
    }
}
