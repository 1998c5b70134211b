//! `tealight beta --presamples` on simulated bases: the validity that is reached against the target.

use tealight::learn::base_validity::BaseValidity;
use tealight_eval::population::{Trials, validity};

/// Prompts of a simulated base.
const PROMPTS: usize = 1024;

/// Random numbers of a simulation.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// The logarithm of a gamma variate (Marsaglia and Tsang), which does not underflow for small shapes.
    fn log_gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            return self.log_gamma(shape + 1.0) + self.uniform().ln() / shape;
        }
        let d = shape - 1.0 / 3.0;
        loop {
            let x = self.normal();
            let v = (1.0 + x / (9.0 * d).sqrt()).powi(3);
            if v > 0.0 && self.uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return (d * v).ln();
            }
        }
    }
}

/// How the validity of prompts is distributed.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Beta with this mean and this sum of its parameters.
    Beta(f64, f64),
    /// The logit is normal.
    LogitNormal(f64, f64),
    /// A share of one beta, the rest of another.
    Two(f64, (f64, f64), (f64, f64)),
}

impl Shape {
    fn logit(self, draws: &mut Draws) -> f64 {
        let mut beta = |a: f64, b: f64| draws.log_gamma(a) - draws.log_gamma(b);
        match self {
            Shape::Beta(mean, sum) => beta(mean * sum, (1.0 - mean) * sum),
            Shape::LogitNormal(centre, deviation) => centre + deviation * draws.normal(),
            Shape::Two(share, first, second) => {
                let (a, b) = if draws.uniform() < share { first } else { second };
                draws.log_gamma(a) - draws.log_gamma(b)
            }
        }
    }
}

/// A base on its prompts.
struct Simulated {
    logits: Vec<f64>,
    draws: Draws,
}

impl Simulated {
    fn new(shape: Shape, seed: u64) -> Self {
        let mut draws = Draws(seed);
        Self { logits: (0..PROMPTS).map(|_| shape.logit(&mut draws)).collect(), draws }
    }

    fn sampled(&mut self, num_samples: usize) -> Vec<Trials> {
        let Self { logits, draws } = self;
        let mut solved = |logit: &f64| {
            let correct = (0..num_samples).filter(|_| draws.uniform() < validity(*logit)).count();
            Trials { correct, num_samples }
        };
        logits.iter().map(&mut solved).collect()
    }

    /// The mean validity of the best policies at `beta`.
    fn reached(&self, beta: f64) -> f64 {
        let sum: f64 = self.logits.iter().map(|logit| validity(1.0 / beta + logit)).sum();
        sum / self.logits.len() as f64
    }
}

/// Bases of mean .27 and .054.
const SHAPES: [(&str, Shape); 10] = [
    (".27, beta, sum 1", Shape::Beta(0.27, 1.0)),
    (".27, beta, sum 2.2", Shape::Beta(0.27, 2.2)),
    (".27, beta, sum 5", Shape::Beta(0.27, 5.0)),
    (".27, beta, sum 20", Shape::Beta(0.27, 20.0)),
    (".27, logit normal, 1", Shape::LogitNormal(-1.17, 1.0)),
    (".27, two kinds", Shape::Two(0.6, (2.0, 38.0), (6.0, 4.0))),
    (".054, beta, sum 3.7", Shape::Beta(0.054, 3.7)),
    (".054, beta, sum 10", Shape::Beta(0.054, 10.0)),
    (".054, beta, sum 20", Shape::Beta(0.054, 20.0)),
    (".054, two kinds", Shape::Two(0.9, (2.0, 98.0), (4.0, 6.0))),
];

#[test]
fn the_target_is_reached_within_two_hundredths() {
    let mut missed = Vec::new();
    for (num_samples, target) in [(8, 0.9), (16, 0.5)] {
        for (name, shape) in SHAPES {
            let (mut ours, mut covered) = (0.0, 0);
            let repetitions = 4;
            for seed in 0..repetitions {
                let mut base = Simulated::new(shape, 100 + seed);
                let trials = base.sampled(num_samples);
                let known = BaseValidity::measured(trials).expect("solved");
                let beta = known.common_beta(target).expect("above the base");
                let (truth, promised) = (base.reached(beta), known.reached(beta));
                let (low, high) = promised.interval.expect("measured");
                assert!((promised.expected - target).abs() < 1e-6);
                covered += usize::from(low <= truth && truth <= high);
                ours += truth / repetitions as f64;
            }
            let name = format!("n {num_samples}, mu {target}, {name}");
            assert!(covered >= 3, "{name}: {covered} of 4 covered");
            // Eight samples do not tell two kinds of prompts from a beta distribution; the interval covers, and
            // says so (next test).
            let is_told = num_samples > 8 || !name.ends_with("two kinds");
            if is_told && (ours - target).abs() > 0.02 {
                missed.push(format!("{name}: {ours:.3}"));
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
fn too_few_samples_give_a_wide_interval_and_a_warning() {
    for shape in [Shape::Two(0.9, (2.0, 98.0), (4.0, 6.0)), Shape::Beta(0.054, 1.0)] {
        let mut base = Simulated::new(shape, 7);
        let known = BaseValidity::measured(base.sampled(8)).expect("solved");
        let reached = known.reached(known.common_beta(0.9).expect("above"));
        assert!(reached.width() > 0.3, "{shape:?}: {reached:?}");
        let caution = known.caution(&reached).expect("a warning");
        assert!(caution.contains("never solved"), "{caution}");
    }
    // Samples that tell warn of nothing.
    let mut base = Simulated::new(Shape::Beta(0.27, 20.0), 7);
    let known = BaseValidity::measured(base.sampled(16)).expect("solved");
    let reached = known.reached(known.common_beta(0.9).expect("above"));
    assert_eq!(known.caution(&reached), None, "{reached:?}");
}

#[test]
fn a_base_that_solves_nothing_has_no_beta() {
    let trials = vec![Trials { correct: 0, num_samples: 8 }; 5];
    let error = BaseValidity::measured(trials).expect_err("nothing is known").to_string();
    assert!(error.contains("none of 5 prompts in 40 completions"), "{error}");
    let given = BaseValidity::given(0.1).expect("possible");
    let beta = given.common_beta(0.9).expect("above");
    assert!((beta - 0.2276).abs() < 1e-4 && given.reached(beta).interval.is_none());
    assert!(BaseValidity::given(1.0).is_err());
}
