//! A study's tables as rows of cells, for the terminal, documents and the page.

use super::{Evaluated, Study};
use crate::contrast::{Contrast, rho};
use crate::inference::{Effect, cells, crossed};
use crate::{Summary, Tally};

/// Right answers that the table's diversity is compared at.
const RIGHT: usize = 4;

/// What the columns of [`rows`] are, in words.
pub const LEGEND: &str = "\u{b1} is the standard deviation over seeds. distinct: different right answers among all \
samples of a problem, which accuracy raises too; of 4 right: the same among four right answers, on the problems where \
base and model have as many, less the base's. keep: share of the problems solved in k tries that still are, in \
parentheses what a second draw of the base itself would keep; new: share newly solved, less what a second draw would \
find.";

/// The header over [`rows`].
pub fn header(study: &Study, evaluated: &Evaluated) -> Vec<String> {
    let mut header = vec!["objective".to_owned()];
    header.extend(has_greedy(evaluated).then(|| "greedy".to_owned()));
    header.extend(study.ks.iter().map(|k| format!("pass@{k}")));
    header.push("distinct".into());
    header.push(format!("of {RIGHT} right"));
    header.extend(has_kl(evaluated).then(|| "KL(p*)".to_owned()));
    let k = kept_k(evaluated);
    header.extend(k.into_iter().flat_map(|k| [format!("keep@{k}"), format!("new@{k}")]));
    header
}

fn has_kl(evaluated: &Evaluated) -> bool {
    evaluated.base.summary.kl_pstar.is_some()
}

fn has_greedy(evaluated: &Evaluated) -> bool {
    evaluated.base.summary.greedy.is_some()
}

/// The largest k that a second draw of the base is known at.
fn kept_k(evaluated: &Evaluated) -> Option<usize> {
    evaluated.contrasts.first()?.1.keep.last().map(|keep| keep.k)
}

/// The mean, and where there are several values their standard deviation.
pub fn with_spread(values: &[f64], digits: usize) -> String {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return format!("{mean:.digits$}");
    }
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    let spread = format!("{:.digits$}", (squares / (count - 1.0)).sqrt());
    format!("{mean:.digits$} \u{b1}{}", spread.trim_start_matches('0'))
}

/// Digits after the point, and the value of a run.
type Number = (usize, Box<dyn Fn(&Summary) -> f64>);

/// The numbers of a set's table, each as one value a run.
fn numbers(study: &Study, evaluated: &Evaluated) -> Vec<Number> {
    let largest = study.largest();
    let mut all: Vec<Number> = Vec::new();
    if has_greedy(evaluated) {
        all.push((3, Box::new(|s| s.greedy.map_or(f64::NAN, |greedy| greedy.value))));
    }
    for k in study.ks.clone() {
        all.push((3, Box::new(move |s| s.pass_at_k[&k].value)));
    }
    all.push((2, Box::new(move |s| s.unique_correct[&largest].value)));
    all
}

/// The rows of a set's table, the base first.
pub fn rows(study: &Study, evaluated: &Evaluated) -> Vec<Vec<String>> {
    let numbers = numbers(study, evaluated);
    let cells = |name: &str, all: &[&Summary], contrast: Option<&Contrast>| {
        let mut row = vec![name.to_owned()];
        for (digits, of) in &numbers {
            row.push(with_spread(&all.iter().map(|s| of(s)).collect::<Vec<_>>(), *digits));
        }
        let matched = contrast.and_then(|contrast| {
            let at = contrast.matched.iter().find(|matched| matched.right == RIGHT)?;
            Some(format!("{:+.2}", at.measures[0].3.value))
        });
        row.push(matched.unwrap_or_default());
        if has_kl(evaluated) {
            let kl = |s: &&Summary| s.kl_pstar.map_or(f64::NAN, |kl| kl.value);
            row.push(with_spread(&all.iter().map(kl).collect::<Vec<_>>(), 2));
        }
        if kept_k(evaluated).is_some() {
            let kept = contrast.and_then(|c| Some((c.keep.last()?, c.explore.last()?)));
            row.extend(match kept {
                Some((keep, new)) => [
                    format!("{:.2} ({:.2})", keep.value, keep.null),
                    format!("{:+.3}", new.excess.value),
                ],
                None => [String::new(), String::new()],
            });
        }
        row
    };
    let mut rows = vec![cells("base", &[&evaluated.base.summary], None)];
    for (label, contrast) in &evaluated.contrasts {
        let all: Vec<&Summary> = evaluated.of(label).map(|run| &run.measured.summary).collect();
        rows.push(cells(label, &all, Some(contrast)));
    }
    rows
}

/// What became of the base under each objective, with 95 % intervals; stars are Holm's over the table. The header
/// first.
pub fn to_base(study: &Study, evaluated: &Evaluated) -> Vec<Vec<String>> {
    let (first, last) = (study.ks.iter().min().copied().unwrap_or(1), study.largest());
    let at = |effects: &[(usize, Effect)], k: usize| {
        effects.iter().find(|(at, _)| *at == k).map(|(_, effect)| *effect)
    };
    let found: Vec<Vec<Option<Effect>>> = evaluated
        .contrasts
        .iter()
        .map(|(_, contrast)| {
            let matched = contrast.matched.iter().find(|matched| matched.right == RIGHT);
            vec![
                at(&contrast.pass, first),
                at(&contrast.pass, last),
                matched.map(|matched| matched.measures[0].3),
                contrast.keep.last().map(|keep| keep.excess),
            ]
        })
        .collect();
    let kept = kept_k(evaluated).map_or("keep".to_owned(), |k| format!("keep@{k} beyond chance"));
    let header = [
        "less the base's".to_owned(),
        format!("pass@{first}"),
        format!("pass@{last}"),
        format!("distinct of {RIGHT} right"),
        kept,
        "base overtakes at k".into(),
    ];
    let mut rows = vec![header.to_vec()];
    let values = cells(&found, false);
    for (((label, contrast), effects), values) in evaluated.contrasts.iter().zip(&found).zip(values)
    {
        let mut row = vec![label.clone()];
        for (effect, value) in effects.iter().zip(values) {
            let interval = effect.map(|e| format!(" ({:+.3} to {:+.3})", e.low, e.high));
            row.push(format!("{value}{}", interval.unwrap_or_default()));
        }
        let crossing = contrast.crossing;
        row.push(format!("{} ({} to {})", crossing.at, crossing.low, crossing.high));
        rows.push(row);
    }
    rows
}

/// Averages over the sets of each domain that has several, at the temperature of training: a name and rows with
/// their header first.
pub fn averages(study: &Study) -> Vec<(String, Vec<Vec<String>>)> {
    let mut tables = Vec::new();
    for (domain, title) in [("in", "in domain"), ("out", "out of domain")] {
        let sets: Vec<&Evaluated> = study
            .datasets
            .iter()
            .filter(|set| set.domain == domain && set.temperature == study.temperature)
            .collect();
        let Some(first) = sets.first().filter(|_| sets.len() > 1) else { continue };
        let numbers = numbers(study, first);
        let mut header = vec!["objective".to_owned()];
        header.extend(self::header(study, first).into_iter().skip(1).take(numbers.len()));
        let mut table = vec![header];
        let row = |name: &str, runs: usize, summary: &dyn Fn(&Evaluated, usize) -> Summary| {
            let mut row = vec![name.to_owned()];
            for (digits, of) in &numbers {
                let over_sets = |run: usize| {
                    let values = sets.iter().map(|set| of(&summary(set, run)));
                    values.sum::<f64>() / sets.len() as f64
                };
                row.push(with_spread(&(0..runs).map(over_sets).collect::<Vec<_>>(), *digits));
            }
            row
        };
        table.push(row("base", 1, &|set, _| set.base.summary.clone()));
        for label in study.labels() {
            let nth = |set: &Evaluated, run: usize| {
                set.of(label).nth(run).map(|tuned| tuned.measured.summary.clone())
            };
            let summary =
                |set: &Evaluated, run| nth(set, run).unwrap_or_else(|| set.base.summary.clone());
            table.push(row(label, first.of(label).count(), &summary));
        }
        let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
        tables.push((format!("{title}, mean of {}", names.join(", ")), table));
    }
    tables
}

/// Every trained model against every other as rows of cells, names first: row minus column, Pass@1 below the diagonal and
/// the largest Pass@k above it. Seeds and problems both vary; stars are Holm's over the table.
pub fn pairs(study: &Study, evaluated: &Evaluated) -> Vec<Vec<String>> {
    let largest = study.largest();
    let mut names = vec!["base"];
    names.extend(study.trained());
    let cell = |row: usize, column: usize| -> Option<Effect> {
        let k = match row.cmp(&column) {
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Greater => 1,
            std::cmp::Ordering::Less => largest,
        };
        Some(difference(&runs(evaluated, names[row]), &runs(evaluated, names[column]), k))
    };
    let table: Vec<Vec<Option<Effect>>> = (0..names.len())
        .map(|row| (0..names.len()).map(|column| cell(row, column)).collect())
        .collect();
    let mut rows =
        vec![[vec![String::new()], names.iter().map(ToString::to_string).collect()].concat()];
    for (name, cells) in names.iter().zip(cells(&table, false)) {
        rows.push([vec![name.to_string()], cells].concat());
    }
    rows
}

/// The counts of each run of an objective; of `base`, its one.
fn runs<'a>(evaluated: &'a Evaluated, name: &'a str) -> Vec<&'a [Tally]> {
    match name {
        "base" => vec![evaluated.base.problems.as_slice()],
        label => evaluated.of(label).map(|tuned| tuned.measured.problems.as_slice()).collect(),
    }
}

/// The difference of Pass@k of two models, seed by seed; one that has a single run, the base, stands against every
/// seed of the other.
fn difference(first: &[&[Tally]], second: &[&[Tally]], k: usize) -> Effect {
    let count = first.len().max(second.len());
    let nth = |runs: &[&[Tally]], seed: usize| -> Vec<f64> {
        let run = runs.get(seed).or(runs.last()).copied().unwrap_or_default();
        run.iter().map(|tally| rho(tally, k)).collect()
    };
    let row = |seed: usize| -> Vec<f64> {
        nth(first, seed).iter().zip(nth(second, seed)).map(|(a, b)| a - b).collect()
    };
    crossed(&(0..count).map(row).collect::<Vec<_>>())
}

/// How much of everything each objective was given, mean over seeds: what is matched, and what is not.
pub fn budgets(study: &Study) -> Vec<Vec<String>> {
    let header = [
        "objective",
        "completions",
        "tokens",
        "steps",
        "updates",
        "gradients",
        "of them stored",
        "seconds",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for label in study.trained() {
        let runs = || study.training.iter().filter(|run| run.objective == label);
        let mean = |of: fn(&super::Training) -> f64| {
            format!("{:.0}", runs().map(of).sum::<f64>() / runs().count().max(1) as f64)
        };
        rows.push(vec![
            label.to_owned(),
            mean(|run| run.completions as f64),
            mean(|run| run.tokens as f64),
            mean(|run| run.steps as f64),
            mean(|run| run.updates as f64),
            mean(|run| run.gradients as f64),
            mean(|run| run.rehearsed as f64),
            mean(|run| run.seconds),
        ]);
    }
    rows
}

/// Each model at its best temperature: per model the temperature chosen by one half of the problems and measured
/// on the other, both ways round, for the largest k. Empty where there is one temperature.
pub fn best_temperatures(study: &Study, name: &str) -> Vec<Vec<String>> {
    let sets: Vec<&Evaluated> = study.datasets.iter().filter(|set| set.name == name).collect();
    if sets.len() < 2 {
        return Vec::new();
    }
    let k = study.largest();
    let mut rows = vec![vec![
        "objective".to_owned(),
        "pass@1 at its best".into(),
        format!("pass@{k} at its best"),
        "distinct at its best".into(),
        "temperatures".into(),
    ]];
    let mut names = vec!["base"];
    names.extend(study.labels());
    for name in names {
        // By temperature, the runs' counts.
        let runs: Vec<Vec<&[Tally]>> = sets.iter().map(|set| runs(set, name)).collect();
        let mut used = Vec::new();
        let mut best = |of: &dyn Fn(&Tally) -> f64| -> f64 {
            let half = |temperature: usize, odd: bool| -> f64 {
                let values = runs[temperature].iter().flat_map(|run| {
                    run.iter().enumerate().filter(|(i, _)| (i % 2 == 1) == odd).map(|(_, t)| of(t))
                });
                let values: Vec<f64> = values.collect();
                values.iter().sum::<f64>() / values.len().max(1) as f64
            };
            let chosen = |odd: bool| {
                (0..sets.len()).max_by(|a, b| half(*a, odd).total_cmp(&half(*b, odd))).unwrap_or(0)
            };
            let (even, odd) = (chosen(false), chosen(true));
            used.push(match even == odd {
                true => sets[even].temperature.to_string(),
                false => format!("{} or {}", sets[even].temperature, sets[odd].temperature),
            });
            0.5 * (half(even, true) + half(odd, false))
        };
        let (one, many) = (best(&|tally| rho(tally, 1)), best(&|tally| rho(tally, k)));
        let distinct = best(&|tally| {
            let k = k.min(tally.samples);
            crate::measure::rarefaction::unique_correct(tally, crate::Level::Solution, k)
        });
        rows.push(vec![
            name.to_owned(),
            format!("{one:.3}"),
            format!("{many:.3}"),
            format!("{distinct:.2}"),
            used.join(", "),
        ]);
    }
    rows
}
