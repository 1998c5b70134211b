//! How different the words of correct completions are, over problems.

use serde::{Deserialize, Serialize};

use crate::Tally;
use crate::interval::{Estimate, share};
use crate::measure::text::TextDiversity;

/// Diversity of words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Texts {
    /// Prompts with enough correct answers.
    pub problems: usize,
    /// Distinct words over words.
    pub distinct_1: Estimate,
    /// Distinct pairs over pairs.
    pub distinct_2: Estimate,
    /// Mean BLEU-4 among them.
    pub self_bleu: Estimate,
}

impl Texts {
    pub(crate) fn from_tallies(tallies: &[Tally]) -> Option<Self> {
        let texts: Vec<TextDiversity> = tallies.iter().filter_map(|tally| tally.text).collect();
        let over =
            |field: fn(&TextDiversity) -> f64| share(&texts.iter().map(field).collect::<Vec<_>>());
        (!texts.is_empty()).then(|| Self {
            problems: texts.len(),
            distinct_1: over(|text| text.distinct_1),
            distinct_2: over(|text| text.distinct_2),
            self_bleu: over(|text| text.self_bleu),
        })
    }
}
