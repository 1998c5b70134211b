//! Whether training raised what a model answers at temperature 0, or only made it surer of it.

use super::{Evaluated, Study, Tuned};
use crate::Tally;
use crate::curve::short;
use crate::inference::crossed;

/// One sentence for each model whose greedy accuracy on the reported problems is below the base's, beyond noise: its
/// 95 % interval over problems, and over seeds where there are several, excludes 0.
pub fn greedy_warnings(study: &Study) -> Vec<String> {
    let Some(set) = study.reported() else { return Vec::new() };
    set.contrasts.iter().filter_map(|(label, _)| warning(set, label)).collect()
}

fn warning(set: &Evaluated, label: &str) -> Option<String> {
    let base = &set.base.problems;
    let all: Vec<&[Tally]> = set.runs_of(label).map(Tuned::counts).collect();
    // Problems with a greedy answer of every model.
    let is_known = |index: &usize| {
        let has = |tallies: &[Tally]| tallies.get(*index).is_some_and(|one| one.greedy.is_some());
        has(base) && all.iter().all(|run| has(run))
    };
    let known: Vec<usize> = (0..base.len()).filter(is_known).collect();
    let is_correct = |tally: &Tally| f64::from(u8::from(tally.greedy == Some(true)));
    let row = |run: &&[Tally]| -> Vec<f64> {
        known.iter().map(|index| is_correct(&run[*index]) - is_correct(&base[*index])).collect()
    };
    let rows: Vec<Vec<f64>> = all.iter().map(row).collect();
    let change = crossed(&rows, 1.0).within(-1.0, 1.0);
    let of_base = known.iter().map(|index| is_correct(&base[*index])).sum::<f64>()
        / known.len().max(1) as f64;
    (change.high < 0.0).then(|| {
        format!(
            "{label}: greedy accuracy {} is below the base's {} (change -{}, 95 %: -{} to -{}). Training may only \
             have sharpened the distribution.",
            short(of_base + change.value),
            short(of_base),
            short(-change.value),
            short(-change.low),
            short(-change.high)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;
    use crate::contrast::{Contrast, Evaluations};
    use crate::report::Measured;

    /// Problems of which the first so many have a correct greedy answer.
    fn tallies(correct: usize) -> Vec<Tally> {
        let one = |index: usize| Tally {
            problem: index.to_string(),
            samples: 4,
            correct: 2,
            greedy: Some(index < correct),
            ..Tally::default()
        };
        (0..60).map(one).collect()
    }

    fn measured(correct: usize) -> Measured {
        let problems = tallies(correct);
        Measured { summary: Summary::new(&problems, &[1, 4]).unwrap(), problems, samples: None }
    }

    fn warning_for(correct: &[usize]) -> Option<String> {
        let tuned: Vec<Tuned> = correct
            .iter()
            .enumerate()
            .map(|(seed, correct)| Tuned {
                objective: "grpo".into(),
                seed: seed as u64,
                measured: measured(*correct),
            })
            .collect();
        let base = measured(30);
        let table: Vec<&[Tally]> = tuned.iter().map(Tuned::counts).collect();
        let evaluations = Evaluations { base: &base.problems, runs: &table, table: &table };
        let contrasts = vec![("grpo".to_owned(), Contrast::new(&evaluations, &[1, 4]))];
        let set = Evaluated {
            name: "s".into(),
            domain: "in".into(),
            temperature: 1.0,
            questions: Vec::new(),
            base,
            contrasts,
            tuned: tuned.clone(),
        };
        warning(&set, "grpo")
    }

    #[test]
    fn a_fall_beyond_noise_warns_and_noise_does_not() {
        let text = warning_for(&[15, 16, 14]).unwrap();
        assert!(
            text.starts_with("grpo: greedy accuracy .25 is below the base's .50 (change -.25"),
            "{text}"
        );
        assert!(text.ends_with("sharpened the distribution."), "{text}");
        assert_eq!(warning_for(&[29, 28, 30]), None);
        assert_eq!(warning_for(&[40, 41, 42]), None);
        // One run speaks of itself, over problems.
        assert!(warning_for(&[15]).is_some() && warning_for(&[28]).is_none());
    }
}
