//! One row of logits to one token, by inverse CDF, and its log-probability.

use anyhow::{Result, bail};

use super::rng::RandomStream;
use crate::backend::cpu;
use tealight_core::Filters;
use tealight_divergence::elementary::ln;

/// The error of logits that cannot be drawn from.
pub(super) const NOT_FINITE: &str =
    "the model's logits are not finite: its weights have overflowed or are damaged";

/// The smallest temperature above 0: below it only the most likely token is left (vLLM takes such temperatures for
/// 0), and far below it logits overflow.
const LEAST_TEMPERATURE: f64 = 1e-5;
/// The highest: tokens are then as good as uniform.
const MOST_TEMPERATURE: f64 = 100.0;

/// How tokens are drawn. Filters apply after the temperature, in the order top-k, top-p, min-p.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 takes the most likely token.
    pub temperature: f64,
    /// The tokens that are cut off the distribution.
    pub filters: Filters,
    /// Most tokens a completion may have, end-of-sequence included.
    pub max_new_tokens: usize,
    /// Tokens that end a completion.
    pub eos: Vec<u32>,
}

impl SamplingParams {
    /// Refuses numbers that mean nothing.
    ///
    /// # Errors
    /// A negative temperature, shares outside their range, no room for a token.
    pub fn check(&self) -> Result<()> {
        if !(0.0..=MOST_TEMPERATURE).contains(&self.temperature) {
            bail!(
                "temperature must be at least 0 and at most {MOST_TEMPERATURE}, not {}",
                self.temperature
            );
        }
        if self.temperature > 0.0 && self.temperature < LEAST_TEMPERATURE {
            bail!(
                "temperature {} is too close to 0 to divide by: use 0, the most likely token",
                self.temperature
            );
        }
        if !(self.filters.top_p > 0.0 && self.filters.top_p <= 1.0) {
            bail!("top-p must be above 0 and at most 1, not {}", self.filters.top_p);
        }
        if !(0.0..1.0).contains(&self.filters.min_p) {
            bail!("min-p must be 0 or more and below 1, not {}", self.filters.min_p);
        }
        if self.max_new_tokens == 0 {
            bail!("max-completion-length must be at least 1");
        }
        Ok(())
    }

    /// Refuses a prompt of so many tokens that leaves no room for its completion in a context.
    pub(super) fn check_context(&self, prompt: usize, context: usize) -> Result<()> {
        if prompt + self.max_new_tokens > context {
            bail!(
                "a prompt of {prompt} tokens and {} new ones do not fit the model's context of {context}; lower \
                 --max-completion-length or drop long prompts",
                self.max_new_tokens
            );
        }
        Ok(())
    }

    /// Draws a token from `logits` `[V]`: its id and log-probability.
    pub(super) fn draw(&self, logits: &[f32], stream: &mut RandomStream) -> Result<(u32, f32)> {
        let inverse = if self.temperature == 0.0 { 1.0 } else { 1.0 / self.temperature };
        let filters = self.filters.of_vocabulary(logits.len());
        if self.temperature > 0.0 && filters == Filters::default() {
            // As training will compute it: the importance ratio begins at exactly 1.
            let sampled = cpu::logp::draw_row(logits, inverse as f32, stream.uniform());
            let Some((id, logp)) = sampled else { bail!("{NOT_FINITE}") };
            return Ok((id as u32, logp));
        }
        let mut masses = vec![0f32; logits.len()];
        let total = cpu::exp_row(logits, inverse as f32, &mut masses);
        if !total.is_finite() {
            bail!("{NOT_FINITE}");
        }
        if self.temperature == 0.0 {
            let best = (0..logits.len())
                .fold(0, |best, i| if logits[i] > logits[best] { i } else { best });
            return Ok((best as u32, ln(masses[best]) - ln(total)));
        }
        let total = filters.apply(&mut masses);
        // Inverse CDF over what is left of the distribution; the log-probability is of the renormalised distribution
        // too.
        let goal = stream.uniform() * total;
        let mut sum = 0f64;
        let mut chosen = None;
        for (id, mass) in masses.iter().enumerate() {
            sum += f64::from(*mass);
            if *mass > 0.0 {
                chosen = Some(id);
                if sum > goal {
                    break;
                }
            }
        }
        let chosen = chosen.expect("the most likely token has mass 1");
        Ok((chosen as u32, ln(masses[chosen]) - ln(total as f32)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::RngKey;
    use super::*;

    fn params(temperature: f64, filters: Filters) -> SamplingParams {
        SamplingParams { temperature, filters, max_new_tokens: 1, eos: vec![0] }
    }

    fn frequencies(params: &SamplingParams, logits: &[f32]) -> Vec<f64> {
        let draws = 40_000;
        let mut counts = vec![0.0; logits.len()];
        for sample in 0..draws {
            let mut stream = RngKey { seed: 1, step: 2 }.stream(3, sample);
            counts[params.draw(logits, &mut stream).expect("finite").0 as usize] +=
                1.0 / draws as f64;
        }
        counts
    }

    #[test]
    fn frequencies_and_logp_are_those_of_the_softmax() {
        let logits = [0.0f32, 1.0, -1.0, 2.0];
        for temperature in [0.5, 1.0, 2.0] {
            let params = params(temperature, Filters::default());
            let weights = logits.map(|x| (f64::from(x) / temperature).exp());
            let total: f64 = weights.iter().sum();
            for (observed, weight) in frequencies(&params, &logits).iter().zip(weights) {
                let p = weight / total;
                let sigma = (p * (1.0 - p) / 40_000.0).sqrt();
                assert!((observed - p).abs() < 4.0 * sigma, "{observed} is not {p}");
            }
            let (id, logp) = params
                .draw(&logits, &mut RngKey { seed: 0, step: 0 }.stream(0, 0))
                .expect("finite");
            assert!((f64::from(logp) - (weights[id as usize] / total).ln()).abs() < 1e-5);
        }
    }

    #[test]
    fn filters_cut_and_renormalise() {
        // Probabilities .5, .3, .15, .05.
        let logits = [0.5f32, 0.3, 0.15, 0.05].map(f32::ln);
        let allowed = |filters| -> Vec<bool> {
            frequencies(&params(1.0, filters), &logits).iter().map(|p| *p > 0.0).collect()
        };
        let unfiltered = Filters::default();
        assert_eq!(allowed(Filters { top_k: 2, ..unfiltered }), [true, true, false, false]);
        assert_eq!(allowed(Filters { top_p: 0.79, ..unfiltered }), [true, true, false, false]);
        assert_eq!(allowed(Filters { top_p: 0.81, ..unfiltered }), [true, true, true, false]);
        assert_eq!(allowed(Filters { min_p: 0.2, ..unfiltered }), [true, true, true, false]);
        let two = params(1.0, Filters { top_k: 2, ..unfiltered });
        let (id, logp) =
            two.draw(&logits, &mut RngKey { seed: 0, step: 0 }.stream(0, 0)).expect("finite");
        assert!((logp.exp() - [0.625, 0.375][id as usize]).abs() < 1e-5);
    }

    #[test]
    fn many_small_masses_are_not_lost_in_sums() {
        const SMALL: f32 = 7e-8;
        let mut masses = vec![SMALL; 100_001];
        masses[0] = 1.0;
        let filters = Filters { top_p: 0.999, ..Filters::default() };
        let retained_mass = filters.apply(&mut masses);
        let total = 1.0 + 1e5 * f64::from(SMALL);
        let exact = 1.0 + ((0.999 * total - 1.0) / f64::from(SMALL)).ceil();
        let count = masses.iter().filter(|mass| **mass > 0.0).count();
        assert!((count as f64 - exact).abs() <= 1.0, "{count} tokens are kept, not {exact}");
        assert!((retained_mass / total - 0.999).abs() < 1e-6, "{retained_mass} of {total}");
    }

    #[test]
    fn a_filter_that_keeps_all_draws_as_no_filter() {
        let logits = [0.5f32, -1.0, 2.0, 0.0];
        let draw = |filters: Filters, sample: u64| {
            let mut stream = RngKey { seed: 4, step: 0 }.stream(0, sample);
            params(0.7, filters).draw(&logits, &mut stream).expect("finite")
        };
        for top_k in [4, 1000] {
            for sample in 0..50 {
                let all = Filters { top_k, ..Filters::default() };
                assert_eq!(draw(all, sample), draw(Filters::default(), sample));
            }
        }
    }

    #[test]
    fn temperatures_that_divide_into_infinity_are_refused() {
        let error = params(1e-39, Filters::default()).check().expect_err("refused").to_string();
        assert!(error.contains("use 0"), "{error}");
        assert!(params(0.0, Filters::default()).check().is_ok());
        assert!(params(0.01, Filters::default()).check().is_ok());
    }

    #[test]
    fn temperature_zero_takes_the_most_likely_token() {
        let greedy = params(0.0, Filters::default());
        let (id, logp) = greedy
            .draw(&[0.0, 3.0, 1.0], &mut RngKey { seed: 0, step: 0 }.stream(0, 0))
            .expect("finite");
        for bad in [f32::NAN, f32::INFINITY] {
            let mut stream = RngKey { seed: 0, step: 0 }.stream(0, 0);
            let error = greedy.draw(&[0.0, bad, 1.0], &mut stream).expect_err("refused");
            assert!(error.to_string().contains("not finite"), "{error}");
        }
        assert_eq!(id, 1);
        assert!((logp - (3f32.exp() / (1.0 + 3f32.exp() + 1f32.exp())).ln()).abs() < 1e-5);
    }
}
