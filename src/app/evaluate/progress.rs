//! An evaluation as the application follows it: a progress bar, and a request to stop.

use anyhow::Result;
use tealight_datasets::Verdict;
use tealight_eval::Sample;
use tealight_eval::evaluate::EvalProgress;

use tealight_system::stop::Stop;
use tealight_system::telemetry::Progress;

/// Shows the Pass@1 so far, and ends the evaluation where the process is asked to stop.
pub(crate) struct EvalBar<'a> {
    label: String,
    is_silent: bool,
    stop: &'a Stop,
    bar: Option<Progress>,
    correct: usize,
    samples: usize,
}

impl<'a> EvalBar<'a> {
    /// A bar with this label.
    pub(crate) fn new(label: String, stop: &'a Stop) -> Self {
        Self { label, is_silent: false, stop, bar: None, correct: 0, samples: 0 }
    }

    /// Nothing is shown; a request to stop is heard all the same.
    pub(crate) fn silent(label: String, stop: &'a Stop) -> Self {
        Self { is_silent: true, ..Self::new(label, stop) }
    }
}

impl EvalProgress for EvalBar<'_> {
    fn begin(&mut self, known: usize, problems: usize) -> Result<()> {
        self.bar = Some(match self.is_silent {
            true => Progress::silent(&self.label, problems),
            false => Progress::new(&self.label, problems).after(known),
        });
        Ok(())
    }

    fn advance(&mut self, samples: &[Sample]) -> Result<()> {
        self.correct += samples.iter().filter(|sample| sample.is_correct()).count();
        self.samples += samples
            .iter()
            .filter(|sample| !matches!(sample.verdict, Verdict::Unjudged { .. }))
            .count();
        if let Some(bar) = &mut self.bar {
            let tokens = samples.iter().map(|sample| sample.tokens).sum();
            bar.advance_with(tokens, || {
                format!("pass@1 {:.3}", self.correct as f64 / self.samples.max(1) as f64)
            });
        }
        self.stop.check()
    }
}
