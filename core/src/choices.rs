//! Options of few values, by their names.

/// The names of a rule's choices, for command lines.
pub trait Choices: Sized + Copy + 'static {
    /// Each choice with its name.
    const ALL: &'static [(&'static str, Self)];

    /// The choice of this name.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice)
    }
}
