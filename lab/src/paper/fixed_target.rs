//! One target validity, bases of falling validity: beta falls with them. What that costs in distinct answers.

use anyhow::Result;
use serde::Serialize;

use super::super::Class;
use super::super::fixed_mu::{FixedMu, Series, fixed_mu};
use super::{Request, Rules, Verdict, WEAKER, short};

/// The claims (e): at one target validity a weaker base needs a smaller beta.
#[derive(Debug, Clone, Serialize)]
pub struct FixedTarget {
    /// The target validity mu.
    pub target: f64,
    /// The restricted class.
    pub class: Class,
    /// Series by series, from the best base down.
    pub rows: Vec<FixedMu>,
    /// Verdicts on the three claims, in their order.
    pub verdicts: Vec<Verdict>,
}

impl FixedTarget {
    pub(super) fn new(request: &Request<'_>) -> Result<Self> {
        let validities = WEAKER.map(|weaker| request.world.base_validity(0) / weaker);
        let (class, target) = (request.class, request.target_validity);
        let rows = fixed_mu(request.world, class, target, &validities)?;
        let mut fixed = Self { target, class, rows, verdicts: Vec::new() };
        fixed.verdicts = fixed.judge(&request.rules);
        Ok(fixed)
    }

    fn series(&self, series: Series) -> Vec<&FixedMu> {
        self.rows.iter().filter(|row| row.series == series).collect()
    }

    /// The verdicts that the rules draw from the numbers.
    pub fn judge(&self, rules: &Rules) -> Vec<Verdict> {
        let (mu, class) = (self.target, &self.class);
        let same = self.series(Series::SameTarget);
        let (first, last) = (same[0], same[same.len() - 1]);
        let falls = same.windows(2).all(|pair| pair[1].beta < pair[0].beta);
        let [before, after] = [first, last].map(|row| row.share(row.effective_valid[1]));
        let is_lost = after <= before * (1.0 - rules.relative);
        let reached = first.class_effective_valid.map(|effective| first.share(effective));
        let full = first.share(first.effective_valid[0]);
        vec![
            Verdict::new(
                "At one target validity, a weaker base needs a smaller beta.",
                "beta falls with each weaker base of the series with one p*".to_owned(),
                falls,
                &format!(
                    "for mu {mu}, beta goes from {} at base validity {} to {} at {}.",
                    short(first.beta),
                    short(first.base_validity),
                    short(last.beta),
                    short(last.base_validity)
                ),
            ),
            Verdict {
                is_reading: true,
                ..Verdict::new(
                    "With one p*, the smaller beta that a weaker base needs loses correct answers by itself (our reading of the \
                 pressure towards small betas).",
                    format!(
                        "with one p*, the optimum of the class {class} at the weakest base keeps a share of correct outputs \
                     that is {:.0} % or more below that at the best base",
                        100.0 * rules.relative
                    ),
                    is_lost,
                    &format!(
                        "while beta goes from {} to {}, the {class} optimum keeps {before:.3} and {after:.3} of p*'s effective \
                     correct outputs.",
                        short(first.beta),
                        short(last.beta)
                    ),
                )
            },
            Verdict::new(
                "A class that cannot represent p_beta reaches the target validity only with few correct outputs.",
                format!(
                    "at the beta where the class {class} itself has validity mu or more, it keeps at most {:.0} % of what \
                     p_beta keeps there",
                    100.0 * rules.collapsed
                ),
                reached.is_some_and(|reached| reached <= rules.collapsed * full),
                &match (reached, first.class_validity, first.class_beta) {
                    (Some(reached), Some(validity), Some(beta)) => format!(
                        "the {class} optimum has validity {} at beta {} and keeps {reached:.3} of p*'s effective correct \
                         outputs; p_beta with validity {mu} keeps {full:.3}.",
                        short(validity),
                        short(beta)
                    ),
                    _ => {
                        format!("no beta was found at which the {class} optimum has validity {mu}.")
                    }
                },
            ),
        ]
    }
}
