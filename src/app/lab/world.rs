//! Worlds from a file: symbols, length, what is correct, the base, the policy class.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use regex::Regex;
use serde::Deserialize;

use crate::lab::World;

/// Most outputs of a world: everything is enumerated.
const MOST_OUTPUTS: usize = 20_000;
/// Largest file.
const MOST_BYTES: u64 = 1 << 20;

/// A world as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorldFile {
    /// Its name; the file's otherwise.
    name: Option<String>,
    /// The tokens, each one character.
    symbols: Vec<char>,
    /// Tokens of every output.
    length: usize,
    /// The correct outputs, where there is one prompt: a regular expression for the whole output, or a list of outputs.
    right: Option<Right>,
    /// The same prompt by prompt.
    #[serde(default)]
    prompts: Vec<Prompt>,
    /// The base's chance of each symbol at the start; equal unless given.
    initial: Option<Vec<f64>>,
    /// The base's chance of each symbol after each; equal unless given.
    transitions: Option<Vec<Vec<f64>>>,
    /// The class of policies, unless --class says.
    class: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prompt {
    right: Right,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Right {
    Pattern(String),
    Outputs(Vec<String>),
}

/// The world in a file, with the policy class that it names.
///
/// # Errors
/// A file that cannot be read, is not TOML of this form, describes too many outputs, chances that are none, or
/// prompts that every output or none is correct on.
pub(crate) fn read(path: &Path) -> Result<(World, Option<String>)> {
    let at = || path.display().to_string();
    let bytes = crate::system::files::read_limited(path, MOST_BYTES)?;
    let text = String::from_utf8(bytes).with_context(at)?;
    let written: WorldFile = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count()) + 1;
        anyhow!("{}:{line}: {}", at(), error.message())
    })?;
    let class = written.class.clone();
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Ok((world(written, stem.unwrap_or_default()).with_context(at)?, class))
}

fn world(written: WorldFile, stem: String) -> Result<World> {
    let WorldFile { name, symbols, length, right, prompts, initial, transitions, .. } = written;
    let count = symbols.len();
    if symbols.iter().collect::<HashSet<_>>().len() < count || count < 2 || length == 0 {
        bail!("`symbols` must be two or more different characters, `length` at least 1");
    }
    let outputs = u32::try_from(length).ok().and_then(|length| count.checked_pow(length));
    if outputs.is_none_or(|outputs| outputs > MOST_OUTPUTS) {
        bail!(
            "{count} symbols in {length} places are more than {MOST_OUTPUTS} outputs, which are all enumerated"
        );
    }
    let equal = vec![1.0 / count as f64; count];
    let initial = initial.unwrap_or_else(|| equal.clone());
    let rows = transitions.unwrap_or_else(|| vec![equal; count]);
    let is_whole = |row: &Vec<f64>| {
        row.len() == count
            && row.iter().all(|p| *p > 0.0 && *p < 1.0)
            && (row.iter().sum::<f64>() - 1.0).abs() < 1e-9
    };
    if rows.len() != count || !rows.iter().chain([&initial]).all(is_whole) {
        bail!(
            "`initial` and each row of `transitions` must be {count} chances above 0 that add up to 1"
        );
    }
    let prompts: Vec<Right> = match (right, prompts) {
        (Some(right), prompts) if prompts.is_empty() => vec![right],
        (None, prompts) if !prompts.is_empty() => prompts.into_iter().map(|p| p.right).collect(),
        _ => bail!(
            "say what is correct: `right`, a pattern or a list of outputs, or [[prompts]] with one each"
        ),
    };
    let tests: Vec<Test> = prompts
        .into_iter()
        .map(|right| Test::new(right, &symbols, length))
        .collect::<Result<_>>()?;
    let spell = |y: &[usize]| y.iter().map(|token| symbols[*token]).collect::<String>();
    let name = name.unwrap_or(stem);
    let is_right = |prompt: usize, y: &[usize]| tests[prompt].holds(&spell(y));
    let world = World::new(&name, length, &initial, &rows, tests.len(), is_right);
    for (number, is_right) in world.is_right.iter().enumerate() {
        let right = is_right.iter().filter(|right| **right).count();
        if right == 0 || right == is_right.len() {
            bail!(
                "prompt {}: {right} of {} outputs are correct; some must be, and some not",
                number + 1,
                is_right.len()
            );
        }
    }
    Ok(world)
}

/// Whether an output is correct on a prompt.
enum Test {
    Pattern(Regex),
    Outputs(HashSet<String>),
}

impl Test {
    fn new(right: Right, symbols: &[char], length: usize) -> Result<Self> {
        let outputs = match right {
            Right::Pattern(pattern) => {
                return Ok(Self::Pattern(Regex::new(&format!("^(?:{pattern})$"))?));
            }
            Right::Outputs(outputs) => outputs,
        };
        let is_known = |text: &String| {
            text.chars().count() == length && text.chars().all(|c| symbols.contains(&c))
        };
        if let Some(other) = outputs.iter().find(|text| !is_known(text)) {
            bail!("`{other}` is not {length} of the symbols");
        }
        Ok(Self::Outputs(outputs.into_iter().collect()))
    }

    fn holds(&self, text: &str) -> bool {
        match self {
            Test::Pattern(pattern) => pattern.is_match(text),
            Test::Outputs(outputs) => outputs.contains(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<World> {
        world(toml::from_str(text)?, "file".into())
    }

    #[test]
    fn a_written_world_is_the_one_that_comes_with_the_program() {
        let written = parse(
            "symbols = [\"0\", \"1\", \"2\"]\nlength = 5\nright = \"0...0|1...1|2...2\"\ninitial = [0.5, 0.3, 0.2]\n\
             transitions = [[0.5, 0.3, 0.2], [0.25, 0.45, 0.3], [0.3, 0.3, 0.4]]\n",
        )
        .unwrap();
        let built_in = World::named("ends").unwrap();
        assert_eq!((written.base, written.is_right), (built_in.base, built_in.is_right));
        let listed = parse(
            "symbols = [\"a\", \"b\"]\nlength = 2\n[[prompts]]\nright = [\"ab\"]\n[[prompts]]\nright = \"b.\"\n",
        );
        let listed = listed.unwrap();
        assert_eq!(
            (listed.is_right[0].clone(), listed.solve_rate(1)),
            (vec![false, true, false, false], 0.5)
        );
    }

    #[test]
    fn invalid_worlds_are_refused_with_the_reason() {
        for (text, reason) in [
            ("symbols = [\"a\", \"a\"]\nlength = 2\nright = \"a\"", "different"),
            ("symbols = [\"a\", \"b\"]\nlength = 60\nright = \"a\"", "more than"),
            ("symbols = [\"a\", \"b\"]\nlength = 2", "say what is correct"),
            ("symbols = [\"a\", \"b\"]\nlength = 2\nright = \"c.\"", "0 of 4"),
            ("symbols = [\"a\", \"b\"]\nlength = 2\nright = \"(\"", "unclosed"),
            ("symbols = [\"a\", \"b\"]\nlength = 2\nright = [\"abc\"]", "is not 2"),
            (
                "symbols = [\"a\", \"b\"]\nlength = 2\nright = \"a.\"\ninitial = [1.0, 0.0]",
                "above 0",
            ),
            ("symbols = [\"a\", \"b\"]\nlength = 2\nright = \"a.\"\nbase = 1", "base"),
        ] {
            let message = format!("{:#}", parse(text).expect_err(text));
            assert!(message.contains(reason), "{text}: {message}");
        }
    }
}
