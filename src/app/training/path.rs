//! The path of a run: which steps are evaluated when it has ended, and where their weights are until then.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folder of a run that its path is in.
const FOLDER: &str = "path";

/// Steps of a run at equal distances, as many in every run of a study however long it is; the last is the run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathPoints {
    /// Steps of the run.
    pub(crate) steps: usize,
    /// How many of them are evaluated.
    pub(crate) count: usize,
}

impl PathPoints {
    /// Whether `step` (from 1) is one of them.
    pub(crate) fn is_due(self, step: usize) -> bool {
        let count = self.count.clamp(1, self.steps.max(1));
        // The i-th of `count` is ceil(i * steps / count).
        let before = |step: usize| step * count / self.steps.max(1);
        step > 0 && before(step) > before(step - 1)
    }

    /// The steps of a run that ended after `last` of them.
    pub(crate) fn reached(self, last: usize) -> Vec<usize> {
        let mut steps: Vec<usize> = (1..last).filter(|step| self.is_due(*step)).collect();
        steps.extend((last > 0).then_some(last));
        steps
    }

    /// Where samples of a step are, in the folder of its run.
    pub(crate) fn folder(run: &Path, step: usize) -> PathBuf {
        run.join(FOLDER).join(format!("step-{step:06}"))
    }

    /// Where the weights of a step are until they have been evaluated.
    pub(crate) fn model(run: &Path, step: usize) -> PathBuf {
        Self::folder(run, step).join("model")
    }

    /// Removes the weights of a step, whose samples say all that is reported.
    pub(crate) fn discard(run: &Path, step: usize) -> Result<()> {
        let model = Self::model(run, step);
        match model.exists() {
            true => std::fs::remove_dir_all(&model).with_context(|| model.display().to_string()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_the_asked_points_and_end_with_one() {
        for (steps, count) in [(60, 4), (30, 4), (7, 3), (3, 3), (2, 5), (1, 1), (15, 4)] {
            let points = PathPoints { steps, count };
            let reached = points.reached(steps);
            assert_eq!(reached.len(), count.min(steps), "{points:?}");
            assert_eq!(reached.last(), Some(&steps));
            assert!(points.is_due(steps) && !points.is_due(0));
        }
        assert_eq!(PathPoints { steps: 60, count: 4 }.reached(60), [15, 30, 45, 60]);
        assert_eq!(PathPoints { steps: 7, count: 3 }.reached(7), [3, 5, 7]);
        // One that ended early has its end in place of what it did not reach.
        assert_eq!(PathPoints { steps: 60, count: 4 }.reached(40), [15, 30, 40]);
    }
}
