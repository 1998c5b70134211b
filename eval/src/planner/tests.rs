//! The planner's error of the required number of problems, on pass rates shaped like those of known sets.

use super::*;
use crate::Tally;
use crate::simulated::Draws;

/// A set of problems: the base's pass rate and the tuned model's.
type Shape = fn(&mut Draws) -> (f64, f64);

/// Rises where it is hard, by up to `most`.
fn raised(draws: &mut Draws, p: f64, most: f64) -> (f64, f64) {
    (p, p + (1.0 - p) * most * draws.uniform())
}

/// Shapes after the sets that papers on Pass@k use: most of MATH500 is solved by a good base, most of AIME is not, and
/// Minerva lies between with much at both ends.
const SHAPES: [(&str, Shape); 3] = [
    ("MATH500", |draws| {
        let p = 1.0 - draws.beta(0.4, 0.9);
        raised(draws, p, 0.2)
    }),
    ("AIME", |draws| match draws.uniform() < 0.5 {
        true => (0.0, if draws.uniform() < 0.2 { 0.05 } else { 0.0 }),
        false => {
            let p = draws.beta(0.5, 0.9);
            raised(draws, p, 0.3)
        }
    }),
    ("Minerva", |draws| {
        let p = draws.beta(0.35, 0.7);
        raised(draws, p, 0.25)
    }),
];

/// The chance that an evaluation of problems of this shape finds its difference at k.
fn true_power(shape: Shape, (problems, samples, k): (usize, usize, usize)) -> f64 {
    let finds = |key: &u64| {
        let mut draws = Draws::new(77 + key);
        let (mut base, mut tuned) = (Vec::new(), Vec::new());
        for _ in 0..problems {
            let (p, q) = shape(&mut draws);
            base.push(pass_at_k(samples, draws.binomial(samples, p), k));
            tuned.push(pass_at_k(samples, draws.binomial(samples, q), k));
        }
        let effect = paired(&tuned, &base, 1.0);
        effect.p_value < 0.05 && effect.value > 0.0
    };
    (0..1000_u64).into_par_iter().filter(finds).count() as f64 / 1000.0
}

/// The number of problems that has the power of a plan, near `planned`, by bisection of simulated evaluations.
fn required(shape: Shape, samples: usize, k: usize, planned: f64) -> f64 {
    let (mut low, mut high) = (planned / 1.5, planned * 1.5);
    while high / low > 1.02 {
        let middle = (low * high).sqrt();
        match true_power(shape, (middle.round() as usize, samples, k)) < POWER {
            true => low = middle,
            false => high = middle,
        }
    }
    (low * high).sqrt()
}

fn evaluation(shape: Shape, problems: usize, samples: usize, seed: u64) -> [Vec<Tally>; 2] {
    let mut draws = Draws::new(seed);
    let mut both: [Vec<Tally>; 2] = Default::default();
    for _ in 0..problems {
        let (p, q) = shape(&mut draws);
        for (tallies, p) in both.iter_mut().zip([p, q]) {
            let correct = draws.binomial(samples, p);
            tallies.push(Tally { samples, correct, ..Tally::default() });
        }
    }
    both
}

#[test]
fn required_problems_are_planned_within_a_tenth() {
    let (mut worst, mut logs) = (0.0_f64, Vec::new());
    for (name, shape) in SHAPES {
        // So many problems that their own difference is near the shape's: what is left is the planner's error.
        let [base, tuned] = evaluation(shape, 40_000, 16, 3);
        let rates = PassRates::fit(&base, &tuned);
        for (k, samples) in [(1, 4), (1, 16), (1, 64), (16, 16), (16, 64)] {
            let planned = plan(&rates, k, samples).problems.expect("a plan") as f64;
            let truth = required(shape, samples, k, planned);
            let error = (planned / truth).ln();
            println!(
                "{name}, pass@{k}, {samples} samples: {truth:.0} problems needed, {planned:.0} planned ({:+.1} %)",
                100.0 * (planned / truth - 1.0)
            );
            worst = worst.max(error.abs());
            logs.push(error);
        }
    }
    let mean = logs.iter().map(|error| error.abs()).sum::<f64>() / logs.len() as f64;
    println!("mean error {:.1} %, worst {:.1} %", 100.0 * mean, 100.0 * worst);
    assert!(mean < 0.05 && worst < 0.12, "{mean} {worst}");
}

#[test]
fn more_samples_need_fewer_problems_and_equal_models_have_no_plan() {
    let [base, tuned] = evaluation(SHAPES[2].1, 400, 16, 5);
    let rates = PassRates::fit(&base, &tuned);
    let plans = plans(&rates, 4, &[1, 4, 16, 64]);
    assert_eq!(plans.iter().map(|plan| plan.samples).collect::<Vec<_>>(), [4, 16, 64]);
    let problems: Vec<usize> = plans.iter().filter_map(|plan| plan.problems).collect();
    assert!(problems.len() == 3 && problems.is_sorted_by(|a, b| a > b), "{plans:?}");
    let same = PassRates { pairs: vec![(0.5, 0.5, 1.0)] };
    assert_eq!(plan(&same, 1, 4).problems, None);
}

#[test]
fn plans_from_single_evaluations_spread_around_what_is_needed() {
    let (_, shape) = SHAPES[2];
    let large = evaluation(shape, 40_000, 16, 3);
    let needed =
        plan(&PassRates::fit(&large[0], &large[1]), 1, 16).problems.expect("a plan") as f64;
    let one = |seed: u64| {
        let [base, tuned] = evaluation(shape, 300, 16, 100 + seed);
        let planned = plan(&PassRates::fit(&base, &tuned), 1, 16).problems.expect("a plan");
        planned as f64 / needed
    };
    let mut ratios: Vec<f64> = (0..40_u64).into_par_iter().map(one).collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "planned / needed from 300 problems: median {:.2}, a tenth below {:.2}, a tenth above {:.2}",
        ratios[20], ratios[4], ratios[35]
    );
    assert!((ratios[20] - 1.0).abs() < 0.15, "{ratios:?}");
    assert!(ratios[4] > 0.6 && ratios[35] < 1.7, "{ratios:?}");
}
