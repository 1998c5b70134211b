//! How often intervals and bands of simulated studies hold the known fronts, how wide they are, and how often pairs are
//! found to differ.

use rayon::prelude::*;

use super::world::{COLLAPSES, Design, KEEPS, LEVELS, Law, TEST, data, request, truths};
use super::{Fronts, Levels, Measure, fronts};

/// Of so many, how many are.
type Count = (usize, usize);

/// Shares over studies.
#[derive(Default, Debug)]
struct Figures {
    /// Level by level: intervals of the first front that hold the truth, of those there are.
    held: Vec<Count>,
    /// Bands of the first front that hold all of it.
    bands: Count,
    /// Level by level: intervals of the pair's difference.
    differences: Vec<Count>,
    /// Of each study, the highest level that both reach.
    highest: Count,
    /// Intervals of differences above and below the truth.
    missed: (usize, usize),
    /// Sum of the widths of these intervals, level by level.
    widths: Vec<f64>,
    pair_bands: Count,
    /// Pairs found to differ.
    found: Count,
    /// Sum of the Pass@1 on `test` over the level (over all problems that there are: unbiased), level by level.
    accuracy: Vec<f64>,
}

/// The levels that truths are known at: thousandths of a front's levels are whole.
struct Truths {
    levels: Vec<f64>,
    /// Objective by objective.
    values: Vec<Vec<f64>>,
}

impl Truths {
    fn new(design: &Design) -> Self {
        let levels: Vec<f64> = match &design.levels {
            Levels::At(levels) => levels.clone(),
            Levels::Auto => (0..=200).map(|i| f64::from(i) * 0.005).collect(),
        };
        let seeds = if studies().is_some() { 20_000 } else { 4000 };
        let values = truths(design, &levels, (seeds, 600));
        Self { levels, values }
    }

    fn at(&self, level: f64) -> usize {
        self.levels.iter().position(|of| (of - level).abs() < 1e-9).unwrap()
    }
}

fn count(to: &mut Count, is: bool) {
    *to = (to.0 + usize::from(is), to.1 + 1);
}

fn figures(design: &Design, truths: &Truths, studies: usize) -> Figures {
    let study = |index: usize| -> Option<Fronts> {
        let key = 10_000 * design.seeds as u64 + index as u64;
        let (base, paths) = data(design, key);
        // Where too few problems have enough correct samples, there is no study.
        fronts(&base, &paths, &request(design, key)).ok()
    };
    let all: Vec<Fronts> = (0..studies).into_par_iter().filter_map(study).collect();
    let levels = truths.levels.len();
    let mut figures = Figures {
        held: vec![(0, 0); levels],
        differences: vec![(0, 0); levels],
        widths: vec![0.0; levels],
        accuracy: vec![0.0; levels],
        ..Figures::default()
    };
    all.iter().for_each(|study| figures.add(study, truths));
    figures
}

impl Figures {
    fn add(&mut self, study: &Fronts, truths: &Truths) {
        let mut is_within = true;
        for level in &study.fronts[0].levels {
            let (Some(value), Some(band)) = (level.value, level.band) else { continue };
            let at = truths.at(level.level);
            let truth = truths.values[0][at];
            count(&mut self.held[at], value.low <= truth && truth <= value.high);
            is_within &= band.0 <= truth && truth <= band.1;
            self.accuracy[at] += level.pass_at_1.unwrap().value - level.level;
        }
        count(&mut self.bands, is_within);
        let (pair, mut is_within) = (&study.pairs[0], true);
        for (index, level) in pair.levels.iter().enumerate() {
            let at = truths.at(level.level);
            let truth = truths.values[0][at] - truths.values[1][at];
            let difference = level.difference;
            let is_held = difference.low <= truth && truth <= difference.high;
            count(&mut self.differences[at], is_held);
            if index + 1 == pair.levels.len() {
                count(&mut self.highest, is_held);
            }
            self.missed.0 += usize::from(difference.low > truth);
            self.missed.1 += usize::from(difference.high < truth);
            self.widths[at] += difference.high - difference.low;
            is_within &= level.band.0 <= truth && truth <= level.band.1;
        }
        count(&mut self.pair_bands, is_within);
        if pair.p_value.is_some() {
            count(&mut self.found, pair.is_significant);
        }
    }
}

fn share((some, all): Count) -> f64 {
    some as f64 / all.max(1) as f64
}

fn shares(all: &[Count]) -> String {
    let of = |one: &Count| format!("{:.3}", share(*one));
    all.iter().map(of).collect::<Vec<_>>().join(" ")
}

/// Few studies, in seconds; `TEALIGHT_STUDIES=250` for figures of docs/measures.md, in minutes.
fn studies() -> Option<usize> {
    number("TEALIGHT_STUDIES")
}

/// Seeds of each objective: 2 to 8, or `TEALIGHT_SEEDS` alone.
fn seeds() -> Vec<usize> {
    number("TEALIGHT_SEEDS").map_or(vec![2, 3, 4, 8], |seeds| vec![seeds])
}

/// Test problems: 60, or `TEALIGHT_PROBLEMS`.
fn problems() -> usize {
    number("TEALIGHT_PROBLEMS").unwrap_or(TEST)
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// The least share that is not too few below .93, by three standard errors of so many studies.
fn least(studies: usize) -> f64 {
    0.93 - 3.0 * (0.93 * 0.07 / studies as f64).sqrt()
}

/// Whether every level is covered in the studies that show it; fewer than ten say nothing.
fn is_covered(all: &[Count]) -> bool {
    all.iter().all(|level| level.1 < 10 || share(*level) > least(level.1))
}

fn total<'a>(all: impl Iterator<Item = &'a Count>) -> Count {
    all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn alike_and_different(spread: f64) -> [(&'static str, [Law; 2]); 2] {
    let [keeps, collapses] = [KEEPS, COLLAPSES].map(|law| Law { spread, ..law });
    [("alike", [keeps, keeps]), ("differ", [keeps, collapses])]
}

#[test]
fn intervals_bands_and_tests_hold_what_they_say() {
    let spreads: &[f64] = if studies().is_some() { &[0.05, 0.15, 0.3] } else { &[0.3] };
    let (count, test) = (studies().unwrap_or(60), problems());
    for spread in spreads.iter().copied() {
        for (name, laws) in alike_and_different(spread) {
            let design = |seeds| Design { test, ..Design::new(&laws, seeds) };
            let truths = Truths::new(&design(2));
            println!("spread {spread} at levels {LEVELS:?}: {:.3?}", truths.values);
            let mut wrong = (0, 0);
            for seeds in seeds() {
                let figures = figures(&design(seeds), &truths, count);
                let title = format!("{test} problems, spread {spread}, {name}, {seeds} seeds");
                let at = line(&title, &figures);
                println!("{at}");
                assert!(is_covered(&figures.held) && is_covered(&figures.differences), "{at}");
                assert!(share(figures.bands) > least(count), "{at}");
                assert!(share(figures.pair_bands) > least(count), "{at}");
                wrong = (wrong.0 + figures.found.0, wrong.1 + figures.found.1);
            }
            match name {
                "alike" => assert!(share(wrong) < 0.07, "{wrong:?}"),
                _ => assert!(wrong.0 > 0, "no difference was ever found"),
            }
        }
    }
}

/// Measures, levels and baselines that the other simulation leaves out.
#[test]
fn other_measures_levels_and_baselines_hold_what_they_say() {
    type Change = fn(Design) -> Design;
    let kinds: [(&str, Change); 3] = [
        ("distinct among 2 correct", |of| Design {
            measure: Measure::Distinct(2),
            valid: 80,
            test: 128,
            ..of
        }),
        ("automatic levels", |of| Design { levels: Levels::Auto, ..of }),
        ("a baseline without seeds", |of| Design { has_baseline: true, ..of }),
    ];
    let seeds = if studies().is_some() { seeds() } else { vec![3] };
    let (count, spread) = (studies().unwrap_or(60), 0.15);
    for (kind, change) in kinds {
        for (name, laws) in alike_and_different(spread) {
            for seeds in &seeds {
                let design = change(Design::new(&laws, *seeds));
                let figures = figures(&design, &Truths::new(&design), count);
                let at = line(&format!("{kind}, spread {spread}, {name}, {seeds} seeds"), &figures);
                println!("{at}");
                assert!(is_covered(&figures.held) && is_covered(&figures.differences), "{at}");
                assert!(share(figures.bands) > least(count), "{at}");
                assert!(share(figures.pair_bands) > least(count), "{at}");
                if name == "alike" {
                    assert!(
                        share(figures.found) < 0.05 + 3.0 * (0.05 / count as f64).sqrt(),
                        "{at}"
                    );
                }
            }
        }
    }
}

fn line(name: &str, figures: &Figures) -> String {
    let means = |sums: &[f64], counts: &[Count]| {
        let some = sums.iter().zip(counts).filter(|(_, count)| count.1 > 0);
        some.map(|(sum, count)| format!("{:+.3}", sum / count.1 as f64))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let some =
        |all: &[Count]| -> Vec<Count> { all.iter().copied().filter(|of| of.1 > 0).collect() };
    let (held, differences) = (some(&figures.held), some(&figures.differences));
    format!(
        "{name}: fronts {} (all {:.3}), band {:.3}; differences {} (all {:.3}, highest {:.3}, truth above {} and below \
         {}), width {}, band {:.3}; found {:.3}; test pass@1 over the level by {}; reached {:?}",
        shares(&held),
        share(total(held.iter())),
        share(figures.bands),
        shares(&differences),
        share(total(differences.iter())),
        share(figures.highest),
        figures.missed.1,
        figures.missed.0,
        means(&figures.widths, &figures.differences),
        share(figures.pair_bands),
        share(figures.found),
        means(&figures.accuracy, &figures.held),
        differences.iter().map(|(_, all)| *all).collect::<Vec<_>>(),
    )
}
