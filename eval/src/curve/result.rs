//! The result of a comparison of curves: the contents of `results.json`.

use serde::{Deserialize, Serialize};

use super::data::Measure;
use crate::Estimate;
use crate::inference::Variances;

/// The curves of all objectives, and their comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    /// The measure that is compared at equal accuracy.
    pub measure: Measure,
    /// Whether scores are probabilities of listed answers, without sampling noise.
    pub is_exact: bool,
    /// Whether trained objectives are tested against the reference; otherwise everything is descriptive.
    pub is_tested: bool,
    /// Confidence of every interval, as .95.
    pub confidence: f64,
    /// Number of held-out problems.
    pub problems: usize,
    /// Pass@1 and the measure of the base, where every curve begins.
    pub base: BasePoint,
    /// The objective that every other one is compared with.
    pub reference: String,
    /// One an objective or baseline, in the order of the runs.
    pub curves: Vec<Curve>,
    /// Every objective and baseline against the reference, then all other pairs.
    pub comparisons: Vec<Comparison>,
    /// The comparison in words, first on the page.
    pub verdict: Verdict,
}

/// Where every curve begins.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BasePoint {
    /// Pass@1 of the base.
    #[serde(rename = "pass@1")]
    pub pass_at_1: Estimate,
    /// Measure of the base, Pass@k or distinct correct answers.
    pub value: Estimate,
}

/// One objective's curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the objective.
    pub objective: String,
    /// Its configuration, as tables show it.
    pub configuration: String,
    /// Training seeds; 0 where nothing random was trained.
    pub seeds: usize,
    /// Whether it is a baseline, which is not tested.
    pub is_baseline: bool,
    /// The mean of its seeds at each checkpoint, in order, without the base.
    pub points: Vec<CurvePoint>,
    /// The measure at Pass@1 from the base's to the curve's largest, where the curve first reaches it, with intervals
    /// for each alone.
    pub band: Vec<BandPoint>,
}

/// The mean of the seeds at one checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Optimizer steps, mean over seeds; of a baseline its place.
    pub step: f64,
    /// Pass@1, mean over seeds and problems.
    #[serde(rename = "pass@1")]
    pub pass_at_1: f64,
    /// Measure at the checkpoint, mean over seeds and problems.
    pub value: f64,
    /// [`gap_to_p_beta`](crate::exact::ListedProblem::gap_to_p_beta), mean over seeds and problems, of an objective
    /// that is J where correct answers are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
}

/// A curve at one Pass@1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BandPoint {
    /// Pass@1 at which the curve is read.
    #[serde(rename = "pass@1")]
    pub pass_at_1: f64,
    /// Measure where the curve first reaches that Pass@1.
    pub value: Estimate,
}

/// Two curves over the Pass@1 that both reach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The objective that is subtracted from.
    pub first: String,
    /// The objective that is subtracted.
    pub second: String,
    /// Seeds that both have; 0 where neither was trained at random.
    pub seeds: usize,
    /// The range of Pass@1; none where one of the two does not rise above the base.
    pub range: Option<(f64, f64)>,
    /// The mean difference over the range.
    pub difference: Option<Estimate>,
    /// The objective that does not rise above the base, where there is no range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Where the variance of the difference comes from, which plans a larger study.
    pub variances: Option<Variances>,
    /// Two-sided p-value of no difference; none for a difference that is descriptive.
    pub p_value: Option<f64>,
    /// The same adjusted for all tests (Holm).
    pub p_holm: Option<f64>,
    /// Whether `p_holm` is below 1 minus the confidence, and it speaks of objectives: one seed speaks of two runs.
    pub is_significant: bool,
}

/// The conclusions, for one paragraph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// How large a difference this study would have found; none with one seed, or without a test.
    pub power: Option<Power>,
    /// The conclusions in sentences.
    pub text: String,
}

/// The power of a study of this size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// Number of seeds of the study.
    pub seeds: usize,
    /// Number of held-out problems.
    pub problems: usize,
    /// The least difference that is found with probability .8.
    pub least: f64,
    /// Seeds that find half of it on as many problems; none where no number does, since the problems limit it.
    pub seeds_for_half: Option<usize>,
}
