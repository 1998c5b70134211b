//! Worlds small enough to enumerate: every output, the base's probability of it, which are correct.

use anyhow::{Result, bail};

/// A base over outputs of equal length, and which of them are correct on each prompt.
#[derive(Debug, Clone)]
pub struct World {
    /// Name in tables and on the command line.
    pub name: String,
    /// Every output, as tokens.
    pub outputs: Vec<Vec<usize>>,
    /// Number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// The base's probability of each output; the same on every prompt.
    pub base: Vec<f64>,
    /// Which outputs are correct, prompt by prompt; prompts count alike.
    pub is_right: Vec<Vec<bool>>,
}

type Row = (&'static str, &'static str, fn() -> World);

/// The worlds, with what they show.
pub const WORLDS: [Row; 4] = [
    ("ends", "a bigram collapses gradually", || World::ends(5)),
    ("dyck", "the optimum jumps", World::dyck),
    ("strategies", "Pass@k curves cross", World::strategies),
    ("walk", "moves from one number to another", World::walk),
];

/// The moves of `walk`: an operator and a digit.
const MOVES: [(char, u32); 6] = [('+', 1), ('+', 3), ('+', 7), ('-', 2), ('-', 5), ('*', 2)];
/// Largest number on the way.
const MAX_TOTAL: u32 = 99;
/// Where the prompts of `walk` begin and end: 9 to 13 outputs of each are correct.
const WALKS: [(u32, u32); 4] = [(5, 14), (9, 20), (44, 47), (18, 27)];

impl World {
    /// The world called `name`.
    pub fn named(name: &str) -> Result<Self> {
        let Some((.., world)) = WORLDS.iter().find(|(known, ..)| *known == name) else {
            let names = WORLDS.map(|(name, ..)| name).join(", ");
            bail!("world `{name}` is not known; choose one of {names}");
        };
        Ok(world())
    }

    /// Sequences of `length` tokens out of three, correct when the first is the last. The base is a
    /// bigram; no bigram can carry the first token to the end.
    pub fn ends(length: usize) -> Self {
        let initial = [0.5, 0.3, 0.2];
        let rows = [[0.5, 0.3, 0.2], [0.25, 0.45, 0.3], [0.3, 0.3, 0.4]];
        let rows = rows.map(|row| row.to_vec());
        Self::new("ends", length, &initial, &rows, 1, |_, y| y.first() == y.last())
    }

    /// Eight brackets, correct when balanced, under a homogeneous bigram with a start state.
    fn dyck() -> Self {
        let sigma = |x: f64| 1.0 / (1.0 + (-x).exp());
        let pair = |open: f64| [open, 1.0 - open];
        let rows = [pair(sigma(0.4)).to_vec(), pair(sigma(-0.2)).to_vec()];
        Self::new("dyck", 8, &pair(sigma(0.8)), &rows, 1, |_, y| {
            let mut depth = 0_i32;
            let never_below = y.iter().all(|token| {
                depth += if *token == 0 { 1 } else { -1 };
                depth >= 0
            });
            never_below && depth == 0
        })
    }

    /// Four strategies and ten prompts, each solved by some of them.
    fn strategies() -> Self {
        let solved: [&[usize]; 10] =
            [&[0], &[0], &[0], &[0], &[0, 1], &[1], &[1], &[2], &[2], &[3]];
        Self {
            name: "strategies".into(),
            outputs: (0..4).map(|strategy| vec![strategy]).collect(),
            vocabulary: 4,
            base: vec![0.4, 0.3, 0.2, 0.1],
            is_right: solved.iter().map(|set| (0..4).map(|s| set.contains(&s)).collect()).collect(),
        }
    }

    /// Three moves of [`MOVES`], correct when they lead from the prompt's first number to its second within 0 to
    /// 99. The base is a bigram of moves that does not see the prompt.
    fn walk() -> Self {
        let initial = [0.25, 0.2, 0.1, 0.2, 0.1, 0.15];
        let row = |before: usize| (0..6).map(move |next| (1 + (before + next) % 3) as f64 / 12.0);
        let rows: Vec<Vec<f64>> = (0..6).map(|before| row(before).collect()).collect();
        let led = |from: u32, y: &[usize]| {
            y.iter().try_fold(from, |value, taken| {
                let to = match MOVES[*taken] {
                    ('+', digit) => value + digit,
                    ('-', digit) => value.checked_sub(digit)?,
                    (_, digit) => value * digit,
                };
                (to <= MAX_TOTAL).then_some(to)
            })
        };
        let is_right = |prompt: usize, y: &[usize]| {
            let (from, to) = WALKS[prompt];
            led(from, y) == Some(to)
        };
        Self::new("walk", 3, &initial, &rows, WALKS.len(), is_right)
    }

    /// The same outputs with another validity: the base's chances of correct outputs, and of incorrect ones, keep their
    /// proportions, so that p* stays as it is.
    #[must_use]
    pub fn tilted(&self, validity: f64) -> Self {
        let base_validity = self.base_validity(0);
        let factor = |right: bool| match right {
            true => validity / base_validity,
            false => (1.0 - validity) / (1.0 - base_validity),
        };
        let base = self.base.iter().zip(&self.is_right[0]).map(|(a, right)| a * factor(*right));
        Self { base: base.collect(), ..self.clone() }
    }

    /// The same base with fewer correct outputs on the first prompt: the likeliest are wrong now, as many as it takes
    /// for the base to be correct with chance `validity` or less; one stays in any case.
    #[must_use]
    pub fn rarer(&self, validity: f64) -> Self {
        let mut right: Vec<usize> = (0..self.base.len()).filter(|y| self.is_right[0][*y]).collect();
        right.sort_by(|a, b| self.base[*a].total_cmp(&self.base[*b]).then(a.cmp(b)));
        let (mut is_right, mut mass) = (vec![false; self.base.len()], 0.0);
        for (number, y) in right.into_iter().enumerate() {
            mass += self.base[y];
            is_right[y] = number == 0 || mass <= validity * (1.0 + 1e-9);
        }
        Self { is_right: vec![is_right], ..self.clone() }
    }

    /// Sequences of `length` tokens under a bigram base: the chances of the first token, and of each after each; how
    /// many prompts there are, and which outputs are correct on each.
    pub fn new(
        name: &str,
        length: usize,
        initial: &[f64],
        rows: &[Vec<f64>],
        prompts: usize,
        is_right: impl Fn(usize, &[usize]) -> bool,
    ) -> Self {
        let vocabulary = initial.len();
        let outputs: Vec<Vec<usize>> = (0..vocabulary.pow(length as u32))
            .map(|number| {
                let digit = |place: usize| number / vocabulary.pow((length - 1 - place) as u32);
                (0..length).map(|place| digit(place) % vocabulary).collect()
            })
            .collect();
        // a(y) = a(y_1) prod_t a(y_t | y_{t - 1}).
        let chance = |y: &Vec<usize>| {
            initial[y[0]] * y.windows(2).map(|pair| rows[pair[0]][pair[1]]).product::<f64>()
        };
        Self {
            name: name.to_owned(),
            base: outputs.iter().map(chance).collect(),
            is_right: (0..prompts)
                .map(|prompt| outputs.iter().map(|y| is_right(prompt, y)).collect())
                .collect(),
            outputs,
            vocabulary,
        }
    }

    /// Tokens of every output.
    pub fn length(&self) -> usize {
        self.outputs[0].len()
    }

    /// The base's validity on a prompt.
    pub fn base_validity(&self, prompt: usize) -> f64 {
        self.mass(prompt, &self.base)
    }

    /// The solution classes of all outputs on a prompt: correct outputs are each a solution of their own.
    pub fn classes(&self, prompt: usize) -> Vec<Option<usize>> {
        let right = self.is_right[prompt].iter().enumerate();
        right.map(|(y, right)| right.then_some(y)).collect()
    }

    /// How many outputs are correct on a prompt.
    pub fn total(&self, prompt: usize) -> u64 {
        self.is_right[prompt].iter().filter(|right| **right).count() as u64
    }

    /// The chance of a correct output under `q`.
    pub fn mass(&self, prompt: usize, q: &[f64]) -> f64 {
        q.iter().zip(&self.is_right[prompt]).filter(|(_, right)| **right).map(|(q, _)| q).sum()
    }

    /// p* on a prompt: the base given that the output is correct.
    pub fn filtered(&self, prompt: usize) -> Vec<f64> {
        let validity = self.base_validity(prompt);
        let share = |(a, right): (&f64, &bool)| if *right { a / validity } else { 0.0 };
        self.base.iter().zip(&self.is_right[prompt]).map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn world_validities_match_the_field_notes() {
        let entropy =
            |p: &[f64]| -> f64 { p.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum() };
        let ends = World::named("ends").unwrap();
        assert_eq!(
            (ends.outputs.len(), ends.is_right[0].iter().filter(|r| **r).count()),
            (243, 81)
        );
        assert!((ends.base_validity(0) - 0.342057).abs() < 5e-7);
        assert!((entropy(&ends.filtered(0)) - 4.12599).abs() < 5e-6);
        let dyck = World::named("dyck").unwrap();
        assert_eq!(
            (dyck.outputs.len(), dyck.is_right[0].iter().filter(|r| **r).count()),
            (256, 14)
        );
        assert!((dyck.base_validity(0) - 0.061881).abs() < 5e-7);
        assert!((entropy(&dyck.filtered(0)) - 2.54399).abs() < 5e-6);
        for world in [ends, dyck, World::named("strategies").unwrap(), World::walk()] {
            assert!((world.base.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
        assert!(World::named("maze").is_err());
    }

    #[test]
    fn each_prompt_of_walk_has_nine_to_thirteen_correct_outputs() {
        let world = World::walk();
        let correct = |outputs: &Vec<bool>| outputs.iter().filter(|right| **right).count();
        let counts: Vec<usize> = world.is_right.iter().map(correct).collect();
        assert_eq!((world.outputs.len(), counts.len()), (216, 4));
        assert!(counts.iter().all(|count| (9..=13).contains(count)), "{counts:?}");
    }

    #[test]
    fn tilted_keeps_the_target_and_rarer_the_base() {
        let ends = World::ends(5);
        let tilted = ends.tilted(0.02);
        assert!((tilted.base_validity(0) - 0.02).abs() < 1e-12);
        assert!((tilted.base.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for (correct, other) in ends.filtered(0).iter().zip(tilted.filtered(0)) {
            assert!((correct - other).abs() < 1e-12);
        }
        let rarer = ends.rarer(0.02);
        let right = rarer.is_right[0].iter().filter(|right| **right).count();
        assert!(rarer.base_validity(0) <= 0.02 && rarer.base_validity(0) > 0.01 && right > 10);
        assert_eq!(rarer.base, ends.base);
        assert_eq!(ends.rarer(0.0).is_right[0].iter().filter(|right| **right).count(), 1);
    }
}
