//! The toy tasks of `tealight lab` in which every output is enumerated: a world, and optima of a class of policies in
//! it.

use anyhow::{Result, anyhow, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tealight_lab::{Class, Measures, Point, Search, World};
use tealight_learn::objective::Divergence;

/// A world as the page draws it.
#[derive(Debug, Serialize)]
pub struct ShownWorld {
    /// Every output, its tokens as letters.
    outputs: Vec<String>,
    /// Which outputs are correct.
    is_correct: Vec<bool>,
    base: ShownPolicy,
    pstar: ShownPolicy,
}

/// A policy: its measures, and the probability of every output.
#[derive(Debug, Serialize)]
pub struct ShownPolicy {
    measures: Measures,
    probabilities: Vec<f64>,
}

/// What the optimum is of.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Reverse KL to p_beta.
    Beta(f64),
    /// The alpha divergence to p*.
    Alpha(f64),
}

/// The world of this name, which must have one prompt.
fn named(name: &str) -> Result<World> {
    let world = World::named(name)?;
    ensure!(world.is_right.len() == 1, "world `{name}`: has several prompts; choose ends or dyck");
    Ok(world)
}

fn shown(world: &World, q: Vec<f64>) -> ShownPolicy {
    let distributions = [q];
    let measures = Measures::new(world, &distributions);
    let [probabilities] = distributions;
    ShownPolicy { measures, probabilities }
}

/// A world, its base and p*.
///
/// # Errors
/// A name that is not known; a world of several prompts.
pub fn world(name: &str) -> Result<ShownWorld> {
    let world = named(name)?;
    let letters: &[u8] = if name == "dyck" { b"()" } else { b"abcdefgh" };
    let letter = |token: &usize| char::from(letters[*token]);
    Ok(ShownWorld {
        outputs: world.outputs.iter().map(|output| output.iter().map(letter).collect()).collect(),
        is_correct: world.is_right[0].clone(),
        base: shown(&world, world.base.clone()),
        pstar: shown(&world, world.filtered(0)),
    })
}

/// The optimum in a class of policies, by the search of `tealight lab`.
///
/// # Errors
/// A name that is not known; a beta or an alpha out of range.
pub fn optimum(name: &str, class: &str, target: Target) -> Result<ShownPolicy> {
    let world = named(name)?;
    let class = Class::from_str(class, false)
        .map_err(|_| anyhow!("class `{class}`: is not one of unigram, bigram, trigram, full"))?;
    let point = match target {
        Target::Beta(beta) => Point::Beta(beta),
        Target::Alpha(alpha) => Point::Filtered(Divergence::alpha(alpha)),
    };
    Ok(shown(&world, Search::new(&world, class)?.optimum(point)?.distributions.remove(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_have_their_correct_outputs() {
        let ends = world("ends").expect("a world");
        let correct = ends.outputs.iter().zip(&ends.is_correct);
        assert!(correct.clone().all(|(y, is)| *is == (y.as_bytes()[0] == y.as_bytes()[4])));
        assert_eq!(ends.base.probabilities.len(), ends.outputs.len());
        let dyck = world("dyck").expect("a world");
        let place = dyck.outputs.iter().position(|output| output == "(())()()").expect("there");
        assert!(dyck.is_correct[place]);
    }

    #[test]
    fn what_the_page_cannot_show_is_refused() {
        assert!(world("walk").expect_err("four prompts").to_string().contains("several prompts"));
        for (name, class, target) in [
            ("maze", "bigram", Target::Beta(0.1)),
            ("ends", "bigrams", Target::Beta(0.1)),
            ("ends", "bigram", Target::Beta(0.0)),
            ("ends", "bigram", Target::Alpha(1.0)),
        ] {
            assert!(optimum(name, class, target).is_err(), "{name} {class} {target:?}");
        }
    }
}
