//! The result of a comparison of fronts: the contents of `results.json`.

use serde::{Deserialize, Serialize};

use super::data::Measure;

/// A number with an interval for that number alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean over seeds and test problems.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The fronts of all objectives, and their comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fronts {
    /// The measure that is compared at equal accuracy.
    pub measure: Measure,
    /// In what runs were given as much.
    pub matched: String,
    /// Of every interval and band.
    pub confidence: f64,
    /// The levels of Pass@1, rising.
    pub levels: Vec<f64>,
    /// Problems of the split that checkpoints are chosen on.
    pub valid_problems: usize,
    /// Problems of the split that is reported.
    pub test_problems: usize,
    /// Test problems that the measure is over: fewer where it needs several correct samples of each.
    pub measured_problems: usize,
    /// The base on the test problems.
    pub base: BasePoint,
    /// One an objective, in the order of the paths.
    pub fronts: Vec<Front>,
    /// Every pair of objectives.
    pub pairs: Vec<Pair>,
    /// The comparison in words, first on the page; none where no level is reached by two objectives in all seeds.
    pub verdict: Option<Verdict>,
}

/// Where every path begins.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BasePoint {
    /// Pass@1.
    #[serde(rename = "pass@1")]
    pub pass_at_1: Interval,
    /// The measure.
    pub value: Interval,
}

/// One objective's front.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Front {
    /// The objective.
    pub objective: String,
    /// Training seeds; 0 where nothing random was trained.
    pub seeds: usize,
    /// Checkpoints that each seed chooses among, the base not counted: the tuning effort. The largest of any seed.
    pub candidates: usize,
    /// One a level.
    pub levels: Vec<FrontLevel>,
}

/// A front at one level of Pass@1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrontLevel {
    /// The level.
    pub level: f64,
    /// Seeds in which a checkpoint reaches it on `valid`.
    pub reached: usize,
    /// Paths that could, one a seed.
    pub of: usize,
    /// The measure of the chosen checkpoints on `test`; where not every seed reaches the level, none.
    pub value: Option<Interval>,
    /// The simultaneous band: all levels of this front are within it with the confidence.
    pub band: Option<(f64, f64)>,
    /// Pass@1 of the chosen checkpoints on `test`, which may lie below the level: they were chosen on `valid`.
    #[serde(rename = "pass@1")]
    pub pass_at_1: Option<Interval>,
    /// The chosen checkpoint of each seed that reaches the level.
    pub chosen: Vec<Choice>,
}

/// The checkpoint that one seed chose at one level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The seed.
    pub seed: Option<u64>,
    /// The configuration; "base" for the base itself.
    pub configuration: String,
    /// Optimizer steps.
    pub step: u64,
    /// Tokens sampled up to there.
    pub generated_tokens: u64,
    /// Pass@1 on `valid`.
    #[serde(rename = "valid_pass@1")]
    pub valid_pass_at_1: f64,
    /// The measure on `valid`.
    pub valid_value: f64,
    /// Pass@1 on `test`.
    #[serde(rename = "pass@1")]
    pub pass_at_1: f64,
    /// The measure on `test`.
    pub value: f64,
}

/// Two objectives at the levels that both reach in all seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The objective that is subtracted from.
    pub first: String,
    /// The objective that is subtracted.
    pub second: String,
    /// Seeds that both have; 0 where neither was trained at random.
    pub seeds: usize,
    /// The differences, level by level.
    pub levels: Vec<PairLevel>,
    /// The mean difference over these levels, which is tested; none where there is no level.
    pub mean: Option<Interval>,
    /// The same difference with an interval adjusted for all tested pairs of this study (Bonferroni); none for a pair
    /// that is not tested or has a single seed, which speaks of two runs.
    #[serde(default)]
    pub adjusted: Option<Interval>,
    /// Where the variance of the mean difference comes from, which plans a larger study.
    pub variances: Option<Variances>,
    /// Two-sided p-value of no mean difference; none for a pair that is not tested.
    pub p_value: Option<f64>,
    /// The same adjusted for all tested pairs (Holm).
    pub p_holm: Option<f64>,
    /// Whether `p_holm` is below 1 minus the confidence, and it speaks of objectives: one seed speaks of two runs.
    pub is_significant: bool,
}

/// The difference of two fronts at one level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairLevel {
    /// The level.
    pub level: f64,
    /// First less second, with an interval for this level alone.
    pub difference: Interval,
    /// The simultaneous band over all levels of this pair.
    pub band: (f64, f64),
}

/// Where the variance of a mean over S seeds and P problems comes from: `seed / S + problem / P + rest / SP`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Variances {
    /// Between seeds, at the same problems.
    pub seed: f64,
    /// Between problems, the choice on `valid` included.
    pub problem: f64,
    /// The residual: of each problem under each seed.
    pub rest: f64,
}

/// The conclusions, for one paragraph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The highest level above the base's Pass@1 on `valid` that all objectives reach in all seeds; where there is
    /// none, the highest that the two reach.
    pub level: f64,
    /// The objective that is best on `valid` at the level, the reference not counted.
    pub first: String,
    /// The reference, or the second best on `valid` where there is none that reaches the level.
    pub second: String,
    /// First less second at the level.
    pub difference: Interval,
    /// Whether the pair's mean difference is significant among all tested pairs.
    pub is_significant: bool,
    /// How large a difference this study would have found; none with one seed.
    pub power: Option<Power>,
    /// In words.
    pub text: String,
}

/// The power of a study of this size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// Seeds.
    pub seeds: usize,
    /// Test problems.
    pub problems: usize,
    /// The least difference that is found with probability .8.
    pub least: f64,
    /// Seeds that find half of it on as many problems; none where no number does, since the problems limit it.
    pub seeds_for_half: Option<usize>,
}
