//! Names of datasets to splits and values of knobs: `test-n6-k4` is split `test` with `n` 6 and `k` 4.

use super::Kind;
use crate::DataError;

/// A parameter of a task's difficulty: a letter and a number in the dataset's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    /// The letter that names the parameter in the dataset's name.
    pub letter: char,
    /// The meaning of the number.
    pub about: &'static str,
    /// The number where the name says none.
    pub default: usize,
    /// Least and most.
    pub range: (usize, usize),
}

/// A part of a task's instances. No two parts share a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Seven tenths: base models learn the format here.
    Sft,
    /// One tenth: fine-tuning prompts.
    Train,
    /// One tenth: coefficients and checkpoints are chosen by it.
    Valid,
    /// One tenth: held out.
    Test,
}

impl Split {
    /// The part of a statement, by a hash.
    pub fn for_statement(statement: &str) -> Self {
        match (tealight_core::fnv(statement.bytes()) >> 16) % 10 {
            0 => Split::Train,
            1 => Split::Test,
            2 => Split::Valid,
            _ => Split::Sft,
        }
    }
}

/// The settings in a dataset's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceSpec {
    /// The part.
    pub split: Split,
    /// A value for each knob.
    pub knobs: Vec<usize>,
    /// The name after the task's: the split and the knobs that differ from their defaults.
    pub name: String,
}

/// Reads what follows the slash in a dataset's name.
///
/// # Errors
/// No such split, no such knob, a number out of its range.
pub fn parse(kind: &'static Kind, name: &str) -> Result<InstanceSpec, DataError> {
    let refused = |what: String| DataError::Knob {
        name: kind.name,
        split: name.into(),
        what,
        knobs: usage(kind),
    };
    let mut parts = name.split('-');
    let (split, shown) = match parts.next().unwrap_or_default() {
        "" | "train" => (Split::Train, "train"),
        "sft" => (Split::Sft, "sft"),
        "valid" => (Split::Valid, "valid"),
        "test" => (Split::Test, "test"),
        other => {
            let known = "train, valid, test, sft";
            return Err(DataError::Split { name: kind.name, split: other.into(), known });
        }
    };
    let mut knobs: Vec<usize> = kind.knobs.iter().map(|knob| knob.default).collect();
    for part in parts {
        let mut characters = part.chars();
        let letter = characters.next();
        let place = kind.knobs.iter().position(|knob| Some(knob.letter) == letter);
        let Some(place) = place else {
            return Err(refused(format!("there is no parameter `{part}`")));
        };
        let (least, most) = kind.knobs[place].range;
        match characters.as_str().parse() {
            Ok(value) if (least..=most).contains(&value) => knobs[place] = value,
            _ => return Err(refused(format!("`{part}` is out of range"))),
        }
    }
    let mut name = shown.to_owned();
    for (knob, value) in
        kind.knobs.iter().zip(&knobs).filter(|(knob, value)| knob.default != **value)
    {
        name.push_str(&format!("-{}{value}", knob.letter));
    }
    Ok(InstanceSpec { split, knobs, name })
}

/// The knobs of a task in a line.
pub fn usage(kind: &Kind) -> String {
    let one = |knob: &Knob| {
        let (least, most) = knob.range;
        format!("{}{} {} ({least} to {most})", knob.letter, knob.default, knob.about)
    };
    kind.knobs.iter().map(one).collect::<Vec<_>>().join(", ")
}
