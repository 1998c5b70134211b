//! The results of a study, read from a file that a stranger may have changed.

use std::path::Path;

use anyhow::{Context, Result, bail};
use tealight_core::json_file;

use super::{Measured, Study, Training};
use crate::results::{MAX_COUNT, MAX_RESULTS, check_counts, check_summary};

impl Study {
    /// Reads the `results.json` of an untrusted folder.
    ///
    /// # Errors
    /// Not the results of a study; numbers that no study comes to.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("results.json");
        let study: Self = json_file::read_own(folder, &path, MAX_RESULTS)
            .with_context(|| format!("{}: not the results of a study", path.display()))?;
        study.check().with_context(|| path.display().to_string())?;
        Ok(study)
    }

    /// Refuses counts that no study comes to: sums over problems and runs stay within their types.
    fn check(&self) -> Result<()> {
        for set in &self.datasets {
            let tuned = set.tuned.iter().map(|tuned| &tuned.measured);
            for Measured { summary, problems, .. } in std::iter::once(&set.base).chain(tuned) {
                check_summary(summary)?;
                check_counts(problems)?;
            }
        }
        let of_study = [self.n, self.prompts, self.prompts_per_step, self.num_generations];
        let of_runs = self.training.iter().flat_map(counts_of);
        let mut counts = self.ks.iter().chain(&self.grid).copied().chain(of_study).chain(of_runs);
        if counts.any(|count| count > MAX_COUNT) {
            bail!("the counts of the study are impossible: the file is damaged or was edited");
        }
        Ok(())
    }
}

fn counts_of(run: &Training) -> impl Iterator<Item = usize> {
    let Training { steps, updates, completions, tokens, gradients, rehearsed, .. } = run;
    let points = run.points.iter().flat_map(|at| [at.step, at.updates, at.tokens]);
    let of_run = [steps, updates, completions, tokens, gradients, rehearsed].map(|count| *count);
    of_run.into_iter().chain(points)
}

#[cfg(test)]
mod tests {
    use tealight_datasets::verify::math::Rule;

    use crate::classes::Counts;
    use crate::pass_at_k::tally_pass_at_k;
    use crate::report::grid;
    use crate::results::{check_counts, check_summary};
    use crate::sample::Thoughts;
    use crate::{Summary, Tally};

    #[test]
    fn impossible_counts_are_refused_without_overflow() {
        let tally = |samples, correct| Tally { samples, correct, ..Tally::default() };
        assert!(check_counts(&[tally(4, 4)]).is_ok());
        let thoughts = |count, finished| Thoughts { count, finished, tokens: 0 };
        for impossible in [
            tally(0, 1),
            tally(4, usize::MAX),
            tally(usize::MAX, 4),
            Tally { rules: [(Rule::Box, usize::MAX)].into(), ..tally(4, 2) },
            Tally { wrong: Counts::Closed([usize::MAX, 2].into()), ..tally(4, 2) },
            Tally { end_of_turn: Some((5, String::new())), ..tally(4, 2) },
            Tally { thoughts: thoughts(5, 0), ..tally(4, 2) },
            Tally { thoughts: thoughts(4, 5), ..tally(4, 2) },
        ] {
            assert!(check_counts(std::slice::from_ref(&impossible)).is_err(), "{impossible:?}");
        }
        let many = Tally { tokens: 1 << 48, ..tally(4, 4) };
        assert!(check_counts(std::slice::from_ref(&many)).is_ok());
        assert!(check_counts(&vec![many; 512]).is_err(), "their sum");
        assert_eq!(tally_pass_at_k(&tally(4, usize::MAX), 5), 1.0);
        let mut summary = Summary::new(&[tally(4, 2)], &[1]).unwrap();
        assert!(check_summary(&summary).is_ok());
        summary.n = usize::MAX;
        assert!(check_summary(&summary).is_err());
        assert_eq!(grid(&[3], usize::MAX).len(), 65);
    }
}
