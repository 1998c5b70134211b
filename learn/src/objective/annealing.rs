//! Coefficients that change over a run: from what the objective says at the first step to an end at the last.

/// The shape of a schedule between its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// In a straight line.
    Linear,
    /// Along half a cosine.
    Cosine,
    /// By the same factor every step: along p_beta, in a straight line in log beta.
    Geometric,
}

impl Shape {
    /// The names that users write.
    pub(super) const NAMED: [(&str, Shape); 3] =
        [("linear", Shape::Linear), ("cosine", Shape::Cosine), ("geometric", Shape::Geometric)];

    /// The value at `progress` between 0 and 1.
    pub fn between(self, start: f64, end: f64, progress: f64) -> f64 {
        match self {
            Shape::Linear => start + (end - start) * progress,
            Shape::Cosine => {
                end + (start - end) * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
            }
            Shape::Geometric => start * (end / start).powf(progress),
        }
    }
}

/// The final values of coefficients; none stays constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Annealing {
    /// The shape of their schedules.
    pub shape: Shape,
    /// The coefficient of the regulariser, or the temperature of the target p_beta.
    pub beta_end: Option<f64>,
    /// The weight of the entropy bonus.
    pub entropy_end: Option<f64>,
    /// The share of the stored completions of a step that is left.
    pub rehearsal_end: Option<f64>,
}

/// The coefficients of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coefficients {
    /// The factor of every prompt's beta.
    pub beta: f64,
    /// The weight of the entropy bonus.
    pub entropy: f64,
    /// The share of the stored completions of a step.
    pub rehearsal: f64,
}

impl Annealing {
    /// Whether any coefficient changes.
    pub fn has_ends(&self) -> bool {
        self.beta_end.or(self.entropy_end).or(self.rehearsal_end).is_some()
    }
}
