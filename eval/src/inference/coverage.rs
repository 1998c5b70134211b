//! How often the intervals that pages print hold the truth, and how often equal models are found to differ: few and
//! many problems, few and many samples, pass rates near 0, near 1 and mixed. `TEALIGHT_STUDIES=2000` simulates as many
//! evaluations of each kind as that.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::contrast::{Contrast, Evaluations};
use crate::interval::{DISTINCT_NEEDS, EFFECTIVE_NEEDS};
use crate::simulated::{Draws, studies};
use crate::{Estimate, Summary, Tally};

/// A problem: the chance that a sample of the base is correct, that of the tuned model, and how many correct answers
/// there are, equally likely.
type Problem = (f64, f64, usize);

/// A kind of problems, drawn anew for every evaluation.
struct Population {
    name: &'static str,
    problem: fn(&mut Draws) -> Problem,
}

const POPULATIONS: [Population; 6] = [
    Population {
        name: "mixed",
        problem: |draws| {
            let p = draws.beta(0.6, 1.7);
            (p, 1.0 - (1.0 - p) * (1.0 - 0.3 * draws.uniform()), 1)
        },
    },
    // Of the case `interval_distinct`.
    Population {
        name: "one answer",
        problem: |draws| match draws.uniform() < 0.1 {
            true => (0.0, 0.0, 1),
            false => (0.5, 0.7, 1),
        },
    },
    Population {
        name: "near 1",
        problem: |draws| match draws.uniform() < 0.1 {
            true => (0.5, 0.1, 1),
            false => (0.97, 0.995, 1),
        },
    },
    Population {
        name: "near 0",
        problem: |draws| match draws.uniform() < 0.85 {
            true => (0.0, 0.0, 1),
            false => (0.1, 0.4, 1),
        },
    },
    Population {
        name: "several answers",
        problem: |draws| {
            let p = draws.beta(0.8, 0.8);
            (p, p.sqrt(), 1 + draws.pick(&[0.3, 0.25, 0.2, 0.15, 0.1]))
        },
    },
    Population {
        name: "collapse",
        problem: |draws| match draws.uniform() < 0.15 {
            true => (0.9, 0.02, 2),
            false => (0.7, 0.9, 2),
        },
    },
];

const PROBLEMS: [usize; 4] = [6, 12, 24, 80];
const SAMPLES: [usize; 3] = [4, 16, 64];

/// Least coverage of an interval that is called one of 95 %.
const LEAST: f64 = 0.93;

/// The counts of `samples` answers to a problem.
fn tally(draws: &mut Draws, (p, classes): (f64, usize), samples: usize) -> Tally {
    let correct = draws.binomial(samples, p);
    let mut tally = Tally { samples, correct, total: Some(classes as u64), ..Tally::default() };
    for _ in 0..correct {
        let class = ((draws.uniform() * classes as f64) as usize).to_string();
        tally.classes.add(&class, &class, &class);
    }
    // Something without bounds and with a long tail, as divergences are.
    tally.kl_pstar = Some(-draws.uniform().ln());
    tally
}

/// The intervals of an evaluation of base and tuned model, by name.
fn intervals(
    draws: &mut Draws,
    population: &Population,
    (problems, samples): (usize, usize),
) -> BTreeMap<String, Estimate> {
    let [mut base, mut tuned] = [Vec::new(), Vec::new()];
    for _ in 0..problems {
        let (p, q, classes) = (population.problem)(draws);
        base.push(tally(draws, (p, classes), samples));
        tuned.push(tally(draws, (q, classes), samples));
    }
    let ks = [1, samples];
    let summary = Summary::new(&base, &ks).unwrap();
    let runs = [tuned.as_slice()];
    let evaluations = Evaluations { base: &base, runs: &runs, table: &runs };
    let contrast = Contrast::new(&evaluations, &ks);
    let mut all = BTreeMap::new();
    for k in ks {
        let name = |what: &str| format!("{what}@{}", if k == 1 { "1" } else { "n" });
        all.insert(name("pass"), summary.pass_at_k[&k]);
        if problems >= DISTINCT_NEEDS {
            all.insert(name("distinct"), summary.unique_correct[&k]);
        }
        all.insert(name("pass^"), summary.pass_all_k[&k]);
        all.insert(name("coverage"), summary.coverage[&k]);
    }
    all.insert("cover@.5".into(), summary.cover["0.5"]);
    all.extend(summary.kl_pstar.map(|kl| ("KL".into(), kl)));
    let is_sure = |richness: &crate::summary::Richness| richness.problems >= EFFECTIVE_NEEDS;
    if let Some(richness) = summary.richness.filter(is_sure) {
        all.insert("hill 1".into(), richness.hill_1);
        all.insert("chao 1".into(), richness.chao_1);
        all.insert("unseen".into(), richness.unseen);
    }
    let mut change = |name: String, effect: &super::Effect| {
        let super::Effect { value, low, high, .. } = *effect;
        all.insert(format!("change of {name}"), Estimate { value, low, high });
    };
    for (index, which) in ["1", "n"].into_iter().enumerate() {
        change(format!("pass@{which}"), &contrast.pass[index].1);
        change(format!("distinct@{which}"), &contrast.distinct[index].1);
    }
    for matched in contrast.matched.iter().filter(|matched| matched.right == 4) {
        change("distinct among 4 correct".into(), &matched.change);
    }
    all
}

/// What estimates are of: the same over so many problems that little is left to chance.
fn truth(population: &Population, samples: usize) -> BTreeMap<String, f64> {
    let estimates = |key: u64| intervals(&mut Draws::new(900 + key), population, (2000, samples));
    let all: Vec<_> = (0..10).into_par_iter().map(estimates).collect();
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (name, estimate) in all.into_iter().flatten() {
        let sum = sums.entry(name).or_default();
        (sum.0, sum.1) = (sum.0 + estimate.value, sum.1 + 1.0);
    }
    sums.into_iter().map(|(name, (sum, count))| (name, sum / count)).collect()
}

/// Of evaluations in which a measure is there, the share whose interval holds the truth.
fn coverages(
    population: &Population,
    (problems, samples): (usize, usize),
    count: usize,
    truth: &BTreeMap<String, f64>,
) -> BTreeMap<String, (f64, usize)> {
    let one = |key: u64| {
        let draws = &mut Draws::new(key * 7919 + (problems * 100 + samples) as u64);
        intervals(draws, population, (problems, samples))
    };
    let all: Vec<_> = (0..count as u64).into_par_iter().map(one).collect();
    let mut sums: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (name, Estimate { low, high, .. }) in all.into_iter().flatten() {
        let Some(truth) = truth.get(&name) else { continue };
        let sum = sums.entry(name).or_default();
        // Sums of equal numbers differ by rounding.
        let holds = low <= truth + 1e-9 && truth - 1e-9 <= high;
        (sum.0, sum.1) = (sum.0 + usize::from(holds), sum.1 + 1);
    }
    let share = |(covered, there): (usize, usize)| (covered as f64 / there as f64, there);
    sums.into_iter().map(|(name, sum)| (name, share(sum))).collect()
}

#[test]
fn printed_intervals_cover_95_percent() {
    let count = studies(150);
    let mut worst: BTreeMap<(String, usize), (f64, String)> = BTreeMap::new();
    let mut missing = Vec::new();
    for population in &POPULATIONS {
        for samples in SAMPLES {
            let truth = truth(population, samples);
            for problems in PROBLEMS {
                let at = format!("{}, {problems} problems, n {samples}", population.name);
                let found = coverages(population, (problems, samples), count, &truth);
                for (name, (covered, there)) in found {
                    // Four standard errors of the simulation.
                    let bound = LEAST - 4.0 * (LEAST * (1.0 - LEAST) / there as f64).sqrt();
                    if there >= 100 && covered < bound {
                        missing.push(format!("{name}: {covered:.3} ({at})"));
                    }
                    let least = worst.entry((name, problems)).or_insert((2.0, String::new()));
                    if there >= 100 && covered < least.0 {
                        *least = (covered, at.clone());
                    }
                }
            }
        }
    }
    println!(
        "least coverage over populations and numbers of samples, {count} evaluations of each:"
    );
    for ((name, problems), (covered, at)) in worst.iter().filter(|(_, (covered, _))| *covered < 2.0)
    {
        println!("{name}, {problems} problems: {covered:.3} ({at})");
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn equal_models_seldom_differ_and_others_are_found() {
    let count = studies(300);
    for problems in PROBLEMS {
        for samples in SAMPLES {
            let found = |shift: f64| -> f64 {
                let one = |key: u64| {
                    let draws = &mut Draws::new(key * 31 + (problems * 100 + samples) as u64);
                    let mut pair = || {
                        let p = draws.beta(0.6, 1.7);
                        let q = 1.0 - (1.0 - p) * (1.0 - shift);
                        [p, q].map(|p| draws.binomial(samples, p) as f64 / samples as f64)
                    };
                    let (base, tuned): (Vec<f64>, Vec<f64>) =
                        (0..problems).map(|_| pair()).map(|[b, t]| (b, t)).unzip();
                    super::paired(&tuned, &base, 1.0).p_value < 0.05
                };
                let all = (0..count as u64).into_par_iter().filter(|key| one(*key)).count();
                all as f64 / count as f64
            };
            let (size, power) = (found(0.0), found(0.3));
            println!(
                "{problems} problems, n {samples}: equal models differ in {size:.3}, a mean rise of .22 is found in \
                 {power:.3}"
            );
            assert!(size < 0.05 + 4.0 * (0.05 * 0.95 / count as f64).sqrt(), "{size}");
            assert!(problems < 24 || power > 0.8, "{problems} problems, n {samples}: {power}");
        }
    }
}
