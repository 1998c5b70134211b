//! The ledger of a study as a table and as curves: what is left of the base's answers, by their initial probability and
//! along training.

use super::Study;
use super::view::{Chart, Line, Section, Table};
use crate::ledger::{Ledger, Point, SHARES};

/// The note on the table.
pub fn note(study: &Study, ledger: &Ledger) -> String {
    format!(
        "Exact probabilities of {} listed correct answers ({} token sequences) to {} problems of {}, temperature {}, no \
         filters, without sampling noise. listed: probability of all listed answers, mean over problems; sampled: pass@1 on \
         the same problems by samples, with {}; effective: exp of the entropy over listed answers; KL(p*): KL(p* || model) \
         in nats, p* being the base conditioned on these answers. Further columns: share of answers whose probability is \
         at least half / at least a tenth of the base's, by ranges of the base's probability. Values are from the end of \
         training, means over seeds, without intervals over problems.",
        ledger.answers(),
        ledger.spellings,
        ledger.problems,
        ledger.dataset,
        ledger.temperature,
        study.filters
    )
}

/// One row for the base and one for each shown configuration, under a header.
pub fn rows(study: &Study, ledger: &Ledger) -> Vec<Vec<String>> {
    let mut header = ["objective", "listed", "sampled", "effective", "KL(p*)", "all answers"]
        .map(str::to_owned)
        .to_vec();
    header.extend(ledger.bins.iter().map(|bin| format!("{} ({})", bin.name, bin.answers)));
    let mut all = vec![header, row(ledger, "base", &[&ledger.base])];
    for label in study.labels() {
        let ends = ends(study, ledger, label);
        if !ends.is_empty() {
            all.push(row(ledger, label, &ends));
        }
    }
    all
}

/// Table and curves.
pub(super) fn section(study: &Study, ledger: &Ledger) -> Section {
    Section::of_training("Ledger of correct answers")
        .table(Table::new(rows(study, ledger)).titled("", note(study, ledger)))
        .charts(vec![by_probability(study, ledger), along_training(study, ledger)])
}

/// The last checkpoint of every run of a configuration.
fn ends<'a>(study: &Study, ledger: &'a Ledger, label: &'a str) -> Vec<&'a Point> {
    study.seeds().into_iter().filter_map(|seed| ledger.run(label, seed).last()).collect()
}

/// The mean of what some runs have; none where one has none.
fn mean(points: &[&Point], value: impl Fn(&Point) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = points.iter().map(|point| value(point)).collect();
    values.filter(|values| !values.is_empty()).map(|v| v.iter().sum::<f64>() / v.len() as f64)
}

fn row(ledger: &Ledger, label: &str, points: &[&Point]) -> Vec<String> {
    let number = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.3}"));
    let share = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.2}"));
    let pair = |value: &dyn Fn(&Point, usize) -> Option<f64>| {
        let at_place = |place: usize| share(mean(points, |point| value(point, place)));
        (0..SHARES.len()).map(at_place).collect::<Vec<_>>().join(" / ")
    };
    let mut cells = vec![
        label.to_owned(),
        number(mean(points, |point| Some(point.listed))),
        number(mean(points, |point| point.sampled)),
        mean(points, |point| Some(point.effective)).map_or("-".into(), |x| format!("{x:.2}")),
        number(mean(points, |point| Some(point.kl_pstar))),
        pair(&|point, place| Some(point.survival[place])),
    ];
    let bins = 0..ledger.bins.len();
    cells.extend(bins.map(|bin| pair(&|point, place| point.by_bin[place][bin])));
    cells
}

/// The share that survives at a half, by the base's probability of the answer.
fn by_probability(study: &Study, ledger: &Ledger) -> Chart {
    let mut lines = Vec::new();
    for label in study.labels() {
        let ends = ends(study, ledger, label);
        let at = |bin: usize| {
            let retained = mean(&ends, |point| point.by_bin[0][bin])?;
            Some((ledger.bins[bin].log10, retained))
        };
        // From the rarest to the likeliest.
        let points: Vec<(f64, f64)> = (0..ledger.bins.len()).rev().filter_map(at).collect();
        lines.push(Line::new(label, points));
    }
    figure(
        ("Surviving answers, by probability", "log10 of the base's probability"),
        lines,
        "Share of answers whose probability at the end of training is at least half of the base's, against the base's \
         probability of the answer.",
    )
}

/// The share of all answers that survives at a half, along training.
fn along_training(study: &Study, ledger: &Ledger) -> Chart {
    let mut lines = Vec::new();
    for label in study.labels() {
        let runs: Vec<Vec<&Point>> =
            study.seeds().into_iter().map(|seed| ledger.run(label, seed).collect()).collect();
        let runs: Vec<Vec<&Point>> = runs.into_iter().filter(|run| !run.is_empty()).collect();
        let shortest = runs.iter().map(Vec::len).min().unwrap_or(0);
        let mut points = vec![(0.0, 1.0)];
        for index in 0..shortest {
            let at: Vec<&Point> = runs.iter().map(|run| run[index]).collect();
            let updates = mean(&at, |point| Some(point.updates as f64)).unwrap_or(0.0);
            points.extend(
                mean(&at, |point| Some(point.survival[0])).map(|retained| (updates, retained)),
            );
        }
        if shortest > 0 {
            lines.push(Line::new(label, points));
        }
    }
    figure(
        ("Surviving answers, along training", "optimizer steps"),
        lines,
        "Share of all listed answers whose probability is at least half of the base's, along training.",
    )
}

fn figure((title, x): (&str, &str), mut lines: Vec<Line>, caption: &str) -> Chart {
    lines.retain(|line| line.points.len() > 1);
    Chart::new(title, (x, "share that survives"), lines).caption(caption).from_to(0.0, 1.02)
}
