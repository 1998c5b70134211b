//! Warnings from the metrics of a run, each given once with the likely fix.

use tealight_eval::Truncated;

use super::metrics::Metrics;

/// Steps without any signal after which a run says that it learns nothing; a shorter run says so at its end.
const DEAD_STEPS: usize = 10;
/// Mean difference in nats above which an engine does not merely round otherwise.
const ENGINE_ROUNDING: f64 = 0.01;
/// Standard errors below zero at which an estimate of a divergence is not noise.
const NOISE: f64 = 5.0;

/// The kind of a warning, and its text.
type Warning = (&'static str, String);

/// Streaks of steps and warnings already given.
#[derive(Debug)]
pub struct Health {
    rounding: f64,
    /// Whether truncated completions are judged by their texts, and so are no sign of a limit that is too low.
    judges_truncated: bool,
    steps: usize,
    equal: usize,
    /// The least and the largest mean reward of those steps.
    rewards: (f64, f64),
    still: usize,
    reported: Vec<&'static str>,
}

impl Health {
    /// Of a run whose log-probabilities may be `rounding` apart between rollout and training, under a rule for
    /// truncated completions.
    pub fn new(rounding: f64, truncated: Truncated) -> Self {
        Self {
            rounding,
            judges_truncated: truncated == Truncated::Judged,
            steps: 0,
            equal: 0,
            rewards: (f64::INFINITY, f64::NEG_INFINITY),
            still: 0,
            reported: Vec::new(),
        }
    }

    /// The warnings that the metrics of the next step call for, which may be the run's last. Each kind is given once a
    /// run.
    pub fn check(&mut self, metrics: &Metrics, is_last: bool) -> Vec<String> {
        self.steps += 1;
        let mut warnings = self.completion_warnings(metrics, is_last);
        warnings.extend(self.update_warnings(metrics));
        warnings.retain(|(kind, _)| !self.reported.contains(kind));
        self.reported.extend(warnings.iter().map(|(kind, _)| *kind));
        warnings.into_iter().map(|(_, text)| text).collect()
    }

    /// Warnings from rewards and verdicts.
    fn completion_warnings(&mut self, metrics: &Metrics, is_last: bool) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let step = metrics.step;
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        self.equal = if metrics.frac_reward_zero_std == Some(1.0) { self.equal + 1 } else { 0 };
        self.rewards = match self.equal {
            0 => (f64::INFINITY, f64::NEG_INFINITY),
            _ => {
                let reward = metrics.reward.unwrap_or(f64::NAN);
                (self.rewards.0.min(reward), self.rewards.1.max(reward))
            }
        };
        let is_short_run = is_last && self.equal == self.steps && self.steps < DEAD_STEPS;
        if self.equal == DEAD_STEPS || is_short_run {
            let (which, kind) = match self.rewards {
                (least, _) if least >= 1.0 => ("every completion of a group was correct", "harder"),
                (_, most) if most <= 0.0 => ("every completion of a group was incorrect", "easier"),
                _ => ("all completions of a group had the same reward", "other"),
            };
            let steps = match self.equal {
                1 => "the only step".to_owned(),
                count => format!("{count} steps in a row"),
            };
            warnings.push((
                "equal",
                format!(
                    "{steps} had no gradient: {which}; look at a few with --log-completions 1 and `tealight report`, \
                     check --verifier, the form of the answers that the prompts ask for and --max-completion-length, \
                     raise --num-generations, or choose {kind} problems"
                ),
            ));
        }
        let truncated = metrics.clipped_ratio.filter(|ratio| *ratio > 0.5);
        if let Some(truncated) = truncated.filter(|_| !self.judges_truncated) {
            warnings.push((
                "cut",
                match metrics.unnoticed_end {
                    Some(end) => format!(
                        "step {step}: {} of completions were truncated, and most of these went on \
                         after an end of turn, `{end}`: add the token to eos_token_id in the model's generation_config.json",
                        percent(truncated)
                    ),
                    None => format!(
                        "step {step}: {} of completions were truncated; raise --max-completion-length",
                        percent(truncated)
                    ),
                },
            ));
        }
        if let Some(ratio) = metrics.no_answer_ratio.filter(|ratio| *ratio > 0.5)
            && truncated.is_none()
        {
            warnings.push((
                "no answer",
                format!(
                    "step {step}: in {} of completions no answer was found; look at a few with `tealight report`: the \
                     prompt may have to ask for another form, or the data for another --verifier",
                    percent(ratio)
                ),
            ));
        }
        warnings
    }

    /// Warnings from gradients and log-probabilities.
    fn update_warnings(&mut self, metrics: &Metrics) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let step = metrics.step;
        self.still = if metrics.grad_norm == 0.0 { self.still + 1 } else { 0 };
        if self.still == DEAD_STEPS {
            warnings.push((
                "still",
                format!(
                    "{DEAD_STEPS} steps in a row had a gradient of exactly 0: nothing changes; look at `reward` and \
                     `frac_reward_zero_std` in metrics.jsonl"
                ),
            ));
        }
        if let Some(mismatch) = metrics.mismatch.filter(|mismatch| mismatch.mean > ENGINE_ROUNDING)
        {
            warnings.push((
                "engine",
                format!(
                    "step {step}: the log-probabilities of what samples are {:.3} nats a token from the policy's own on \
                     average (an effective sample size of {:.2}): it computes in fewer bits, or has not taken all weights",
                    mismatch.mean, mismatch.effective
                ),
            ));
        }
        if let Some(difference) = metrics.logp_difference.filter(|most| *most > self.rounding) {
            warnings.push((
                "ratio",
                format!(
                    "step {step}: rollout and training differ by {difference:.1e} in a log-probability, so that the \
                     importance ratio is not 1; this is a bug"
                ),
            ));
        }
        if let (Some(kl), Some(error)) = (metrics.kl, metrics.kl_stderr)
            && kl < -NOISE * error.max(1e-6)
        {
            warnings.push((
                "negative",
                format!(
                    "step {step}: the KL to the base is estimated at {kl:.3}, {:.0} standard errors below 0: the \
                     samples are not the policy's; please report this",
                    -kl / error.max(1e-6)
                ),
            ));
        }
        if metrics.skipped_now {
            warnings.push((
                "not finite",
                format!(
                    "step {step}: the loss or the gradient was not finite; the step is left out; lower \
                     --learning-rate if this goes on"
                ),
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy(step: usize) -> Metrics {
        Metrics {
            step,
            reward: Some(0.4),
            grad_norm: 1.0,
            kl: Some(0.1),
            kl_stderr: Some(0.05),
            ..Metrics::default()
        }
    }

    #[test]
    fn each_warning_is_given_once_with_its_fix() {
        type Change = fn(&mut Metrics);
        let troubles: [(&str, usize, Change); 8] = [
            ("every completion of a group was incorrect", DEAD_STEPS, |m| {
                (m.reward, m.frac_reward_zero_std) = (Some(0.0), Some(1.0));
            }),
            ("--max-completion-length", 1, |m| m.clipped_ratio = Some(0.6)),
            ("an end of turn, `</s>`", 1, |m| {
                (m.clipped_ratio, m.unnoticed_end) = (Some(0.6), Some("</s>"));
            }),
            ("--verifier", 1, |m| m.no_answer_ratio = Some(0.7)),
            ("gradient of exactly 0", DEAD_STEPS, |m| m.grad_norm = 0.0),
            ("importance ratio is not 1", 1, |m| m.logp_difference = Some(0.1)),
            ("standard errors below 0", 1, |m| m.kl = Some(-1.0)),
            ("--learning-rate", 1, |m| m.skipped_now = true),
        ];
        for (words, steps, change) in troubles {
            let mut health = Health::new(1e-3, Truncated::Wrong);
            let mut told = Vec::new();
            for step in 1..=2 * DEAD_STEPS {
                let mut metrics = healthy(step);
                change(&mut metrics);
                told.extend(health.check(&metrics, false).into_iter().map(|text| (step, text)));
            }
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].0, steps, "{told:?}");
            assert!(told[0].1.contains(words), "{told:?}");
        }
        let mut health = Health::new(1e-3, Truncated::Wrong);
        assert!((1..99).all(|step| health.check(&healthy(step), step == 98).is_empty()));
    }

    #[test]
    fn a_short_run_that_learned_nothing_says_so_at_its_end() {
        let dull = |step: usize, reward: f64| Metrics {
            reward: Some(reward),
            frac_reward_zero_std: Some(1.0),
            ..healthy(step)
        };
        let mut health = Health::new(1e-3, Truncated::Wrong);
        assert!((1..3).all(|step| health.check(&dull(step, 0.0), false).is_empty()));
        let warnings = health.check(&dull(3, 0.0), true);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for words in ["3 steps", "was incorrect", "--verifier", "--max-completion-length"] {
            assert!(warnings[0].contains(words), "{warnings:?}");
        }
        let warnings = Health::new(1e-3, Truncated::Wrong).check(&dull(1, 1.0), true);
        assert!(warnings[0].contains("the only step") && warnings[0].contains("was correct"));
        // Groups that are all wrong beside groups that are all right.
        let mut health = Health::new(1e-3, Truncated::Wrong);
        assert!(health.check(&dull(1, 0.13), false).is_empty());
        let warnings = health.check(&dull(2, 0.75), true);
        assert!(warnings[0].contains("all completions of a group had the same reward"));
        let mut health = Health::new(1e-3, Truncated::Wrong);
        assert!(health.check(&healthy(1), false).is_empty());
        assert!(health.check(&dull(2, 0.0), true).is_empty(), "the first step taught something");
    }
}
