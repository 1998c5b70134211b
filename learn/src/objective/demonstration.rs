//! Self-distillation: the policy is moved toward itself shown a correct solution (SDFT, arXiv 2601.19897; OPSD, arXiv
//! 2601.18734; SDPO, arXiv 2601.20802).

/// The teacher that a divergence is to: a model whose prompt has a correct solution in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Teacher {
    /// Where the solution that the teacher is shown comes from.
    pub shown: Demonstration,
    /// Whose weights the teacher has.
    pub weights: TeacherWeights,
}

/// The correct solution that the teacher is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demonstration {
    /// The dataset's own.
    Dataset,
    /// A correct pre-sample of the base, another at every step.
    Base,
    /// Another correct completion of the group.
    Rollout,
}

/// Model whose weights the teacher has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TeacherWeights {
    /// The base's, which stay (OPSD).
    Base,
    /// The policy's of the same step, taken as constants.
    Policy,
}

impl Demonstration {
    /// The names in the language of objectives.
    pub(super) const NAMED: [(&'static str, Option<Self>); 4] = [
        ("none", None),
        ("dataset", Some(Self::Dataset)),
        ("base", Some(Self::Base)),
        ("rollout", Some(Self::Rollout)),
    ];

    /// The fewest samples of a group that it needs.
    pub(super) fn smallest_group(self) -> usize {
        if self == Self::Rollout { 2 } else { 1 }
    }
}

/// Which of some solutions is shown: a correct one, but for sample `own`, which is never its own demonstration; each is
/// as likely as the others. None where there is none.
pub fn choose(is_correct: &[bool], own: Option<usize>, uniform: f64) -> Option<usize> {
    let eligible = |index: &usize| is_correct[*index] && Some(*index) != own;
    let all: Vec<usize> = (0..is_correct.len()).filter(eligible).collect();
    let place = (uniform * all.len() as f64) as usize;
    all.get(place.min(all.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demonstration_is_correct_and_never_the_sample_itself() {
        let correct = [true, false, true, true];
        for own in 0..4 {
            let mut counts = [0; 4];
            for index in 0..300 {
                let shown = choose(&correct, Some(own), (f64::from(index) + 0.5) / 300.0);
                counts[shown.expect("there are others")] += 1;
            }
            assert_eq!((counts[1], counts[own]), (0, 0));
            let eligible = correct.iter().enumerate().filter(|(i, right)| **right && *i != own);
            let each = 300 / eligible.count();
            assert!(counts.iter().all(|count| *count == 0 || *count == each), "{counts:?}");
        }
        assert_eq!(choose(&[false, true], Some(1), 0.5), None);
        assert_eq!(choose(&[false, true], None, 0.999), Some(1));
        assert_eq!(choose(&[], None, 0.0), None);
    }
}
