//! A study as a page: verdict and curves first, then tables, training and every sample behind them.

use std::path::Path;

use anyhow::Result;
use tealight_core::run_folder::METRICS;
use tealight_core::{names, regular};

use super::differences::Differences;
use super::samples::{SampleChunks, Sampled, Source, place};
use super::steps::{StepFile, completions};
use super::tables::{BUDGET_LEGEND, LEGEND, budgets, with_header};
use super::training::{self, Metrics};
use super::view::{Chart, Document, Line, Recipe, Section, Table};
use super::{Evaluated, Measured, Study, contrast, curve, greedy_warnings, page, titles};
use crate::curve::{Curves, ONE_SEED, plain};
use crate::interval::ByK;
use crate::number::counted;
use crate::{Summary, store};

/// Writes `report.html` into the folder of a study, with the samples that stand there.
pub fn write_study(study: &Study, folder: &Path) -> Result<()> {
    let mut models = vec!["base".to_owned()];
    models.extend(names_of_runs(study));
    let sampled: Vec<Sampled<'_>> =
        study.datasets.iter().map(|set| samples(study, set, folder)).collect::<Result<_>>()?;
    let mut placed = place(&models, &sampled, folder)?;
    let (metrics, stored) = metrics(study, folder);
    let steps = page::embed_steps(&mut placed, stored)?;
    let mut document = Document { steps, ..document(study, &metrics) };
    document.made = titles::made(folder, "study");
    document.reproduce.push(Recipe::of_folder("study", folder));
    document.footer.push(placed.note.clone());
    document.samples.clone_from(&placed.placement);
    let page = page::html(&document, &placed)?;
    store::write_whole(&folder.join("report.html"), page.as_bytes())
}

/// Writes `report.html` into the folder of a training run: its metrics against steps, and completions by step.
///
/// # Errors
/// A run without metrics, a folder that cannot be written.
pub fn write_training(folder: &Path) -> Result<()> {
    let mut metrics = Metrics::read(folder, &folder.join(METRICS))?;
    let evals = folder.join("evals.jsonl");
    if evals.is_file() {
        metrics = metrics.or(Metrics::read(folder, &evals)?);
    }
    let name = folder.file_name().map_or("this run".into(), |name| name.to_string_lossy());
    let mut placed = SampleChunks::default();
    let steps = page::embed_steps(&mut placed, completions(folder, &name))?;
    let charts = training::charts(&[(name.to_string(), &metrics)]);
    let recipe = Recipe::of_folder("train", folder);
    let last = metrics.last("reward").or(metrics.last("loss")).map_or(0.0, |at| at.0);
    let document = Document {
        title: titles::training(recipe.settings.as_deref().unwrap_or_default(), &name),
        made: titles::made(folder, "train"),
        lead: vec![format!("{last:.0} steps. {}", metrics.trend("reward").unwrap_or_default())],
        models: vec![name.to_string()],
        sections: vec![Section::of_training().charts(charts)],
        reproduce: vec![recipe],
        steps,
        ..Document::default()
    };
    let page = page::html(&document, &placed)?;
    store::write_whole(&folder.join("report.html"), page.as_bytes())
}

/// The names of the study's runs: every objective that tables show, and the seed where there are several.
fn names_of_runs(study: &Study) -> Vec<String> {
    let labels = study.labels();
    let Some(set) = study.datasets.first() else { return Vec::new() };
    let run_names = |label: &&str| -> Vec<String> {
        set.runs_of(label).map(|run| run_name(study, label, run.seed)).collect()
    };
    labels.iter().flat_map(run_names).collect()
}

fn run_name(study: &Study, label: &str, seed: u64) -> String {
    if study.seeds().len() > 1 { format!("{label} seed {seed}") } else { label.to_owned() }
}

/// A set with the samples of every model that tables show.
fn samples<'a>(study: &'a Study, set: &'a Evaluated, folder: &Path) -> Result<Sampled<'a>> {
    let runs =
        study.labels().into_iter().flat_map(|label| set.runs_of(label).map(|run| &run.measured));
    let all: Vec<&Measured> = std::iter::once(&set.base).chain(runs).collect();
    let source = |measured: &&Measured| {
        let Some(file) = &measured.samples else { return Ok(Source::default()) };
        let greedy = file.strip_suffix(".jsonl").map(|stem| format!("{stem}.greedy.jsonl"));
        let greedy = greedy.map(|file| names::inside(folder, &file)).transpose()?;
        let sampled = names::inside(folder, file)?;
        // A study may be sent without its samples.
        Source::open(folder, Some(sampled).filter(|path| path.symlink_metadata().is_ok()), greedy)
    };
    Ok(Sampled {
        name: set.name.clone(),
        split: split(set),
        questions: &set.questions,
        counts: all.iter().map(|measured| measured.problems.as_slice()).collect(),
        sources: all.iter().map(source).collect::<Result<_>>()?,
    })
}

/// A set's relation to training.
fn split(set: &Evaluated) -> &'static str {
    match set.domain.as_str() {
        "out" => "held out, out of domain",
        _ => "held out",
    }
}

/// The metrics of every run that tables show, by objective, and the files of completions.
fn metrics(study: &Study, folder: &Path) -> (Vec<(String, Metrics)>, Vec<StepFile>) {
    let (mut all, mut stored) = (Vec::new(), Vec::new());
    for run in study.shown() {
        let place = run.folder.as_ref().and_then(|name| names::inside(folder, name).ok());
        // A link to another folder is none of the study's runs.
        let place = place.and_then(|place| regular::own(folder, &place).ok());
        let logged = place.as_ref().and_then(|place| {
            let path = place.join(METRICS);
            path.is_file().then(|| Metrics::read(place, &path).ok())?
        });
        let metrics = logged.unwrap_or_else(|| Metrics::from_training(run));
        all.push((run.objective.clone(), metrics));
        let name = run_name(study, &run.objective, run.seed);
        stored.extend(place.map(|place| completions(&place, &name)).unwrap_or_default());
    }
    (all, stored)
}

/// Everything but the samples.
fn document(study: &Study, metrics: &[(String, Metrics)]) -> Document {
    let reported = study.reported();
    let mut models = vec!["base".to_owned()];
    models.extend(study.labels().iter().map(ToString::to_string));
    let mut top: Vec<Chart> = study.curves.first().map(curve::chart).into_iter().collect();
    if let Some(set) = reported {
        top.push(pass_chart(study, set));
        if top.len() == 1 {
            top.push(pareto(study, set));
        }
    }
    let mut warnings: Vec<String> =
        study.without_curves.iter().map(|reason| format!("No curves: {reason}")).collect();
    warnings.extend(greedy_warnings(study));
    if study.seeds().len() == 1 {
        warnings.push(ONE_SEED.to_owned());
    }
    let (verdict, statistics) = verdict(study);
    Document {
        title: titles::study(study),
        lead: vec![lead(study)],
        verdict,
        statistics,
        warnings,
        models,
        top,
        sections: sections(study, metrics),
        footer: vec![footer(study.seconds)],
        ..Document::default()
    }
}

/// The legend, and how long all took.
fn footer(seconds: f64) -> String {
    format!(
        "Pass@k is the unbiased estimate over all samples. {LEGEND} The page Words explains the terms. \
         Made by Tealight in {seconds:.0} seconds."
    )
}

fn lead(study: &Study) -> String {
    let seeds = study.seeds();
    let listed = seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "Every run started from the same base, trained on the same {} and had an equal budget of {}. Evaluations: {} a \
         problem. Training: {} {listed}, {} with {} each a step, learning rate {:e}. {}",
        counted(study.prompts, "prompt"),
        study.matched,
        counted(study.n, "sample"),
        if seeds.len() == 1 { "seed" } else { "seeds" },
        counted(study.prompts_per_step, "prompt"),
        counted(study.num_generations, "completion"),
        study.learning_rate,
        study.decoding()
    )
}

/// The verdict on the first curves in plain words, and its statistics; where one objective is alone, what became of the
/// base under it.
fn verdict(study: &Study) -> (Vec<String>, Vec<String>) {
    let has_others =
        |curves: &&Curves| curves.curves.iter().filter(|one| !one.is_baseline).count() > 1;
    if let Some(curves) = study.curves.first().filter(has_others) {
        let (plain, verdict) = (plain(curves), curves.verdict.text.clone());
        let more = if verdict == plain { Vec::new() } else { vec![verdict] };
        return (vec![plain], more);
    }
    let differences = study.reported().map(|set| Differences::new(study, set).verdicts());
    (differences.unwrap_or_default(), Vec::new())
}

fn sections(study: &Study, metrics: &[(String, Metrics)]) -> Vec<Section> {
    let mut all = Vec::new();
    for (index, curves) in study.curves.iter().enumerate() {
        all.push(curve::section(curves, index == 0));
    }
    if let Some(tuning) = &study.tuning {
        let table = Table::new(curve::tuning_rows(tuning)).titled("", curve::tuning_note(tuning));
        all.push(Section::new("Tuning".to_owned()).table(table));
    }
    for (index, set) in study.datasets.iter().enumerate() {
        all.push(dataset(study, set, index == 0));
        all.extend(
            set.contrasts.iter().map(|(label, found)| contrast::section(found, None, label)),
        );
    }
    let runs: Vec<(String, &Metrics)> =
        metrics.iter().map(|(name, metrics)| (name.clone(), metrics)).collect();
    let budget = Table::new(budgets(study)).titled("Budget", BUDGET_LEGEND);
    all.push(Section::of_training().charts(training::charts(&runs)).table(budget));
    let stand_for =
        study.objectives.iter().map(|(label, resolved)| vec![label.clone(), resolved.clone()]);
    let header = vec!["objective".to_owned(), "settings".to_owned()];
    let table = Table::new(std::iter::once(header).chain(stand_for).collect());
    all.push(Section { is_folded: true, ..Section::new("Objectives").table(table) });
    all.retain(|section| !section.blocks.is_empty());
    all
}

/// A set's section; the first chart of the first set is on top of the page.
fn dataset(study: &Study, set: &Evaluated, is_on_top: bool) -> Section {
    let tested = Differences::new(study, set);
    let starred = match study.seeds().len() {
        1 => ONE_SEED.to_owned(),
        _ => format!("Intervals and tests are {}.", tested.legend()),
    };
    let problems = counted(set.base.summary.problems, "problem");
    let heading = format!("{} ({problems}, {})", set.name, split(set));
    let table = with_header(study, set);
    let mut charts = vec![pass_chart(study, set), distinct_chart(study, set), pareto(study, set)];
    if is_on_top {
        charts.remove(0);
    }
    let changes = format!("With 95 % intervals, cut to possible values. {starred}");
    Section::new(heading)
        .table(Table::new(table))
        .charts(charts)
        .table(Table::new(tested.to_base()).titled("Differences from the base", changes))
}

/// Every model, and every seed of it where there are several.
fn pareto(study: &Study, set: &Evaluated) -> Chart {
    let k = study.largest();
    let at = |summary: &Summary, k: usize| summary.pass_at_k.get(&k).map_or(f64::NAN, |e| e.value);
    let point = |measured: &Measured| (at(&measured.summary, 1), at(&measured.summary, k));
    let mut lines = vec![Line::new("base", vec![point(&set.base)])];
    for label in study.labels() {
        let runs = set.runs_of(label).map(|run| point(&run.measured));
        lines.push(Line::new(label, runs.collect()));
    }
    let caption = "Better models are further up and to the right. Large dots are means over seeds, small dots single runs.";
    Chart::of_tradeoff(k, lines, caption)
}

fn pass_chart(study: &Study, set: &Evaluated) -> Chart {
    let mut lines = curves(study, set, |summary| &summary.pass_at_k);
    for (line, (_, contrast)) in lines[1..].iter_mut().zip(&set.contrasts) {
        line.mark = contrast.crossing.at.k().map(|k| (k, interpolate(&line.points, k)));
    }
    let caption = "Pass@k against k: mean over seeds. Large dots: from this k on the base solves more problems than the model. \
         Bands: range over seeds, for the base its 95 % interval.";
    Chart::of_pass(&set.name, lines, caption)
}

fn distinct_chart(study: &Study, set: &Evaluated) -> Chart {
    let lines = curves(study, set, |summary| &summary.unique_correct);
    let caption = "Expected number of distinct correct answers among k samples; higher accuracy raises it too.";
    Chart::of_distinct("Distinct correct answers", lines, caption)
}

/// One line for the base, with its interval over problems, and one for each objective, the mean over seeds with their
/// range.
fn curves(study: &Study, set: &Evaluated, by_k: fn(&Summary) -> &ByK) -> Vec<Line> {
    let mut lines = vec![super::evaluation::curve("base", by_k(&set.base.summary))];
    for label in study.labels() {
        let runs: Vec<&ByK> = set.runs_of(label).map(|run| by_k(&run.measured.summary)).collect();
        let (mut points, mut band) = (Vec::new(), Vec::new());
        for k in &study.grid {
            let values: Vec<f64> =
                runs.iter().filter_map(|run| run.get(k)).map(|e| e.value).collect();
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            points.push((*k as f64, values.iter().sum::<f64>() / values.len() as f64));
            band.push((*k as f64, low, high));
        }
        if runs.len() < 2 {
            band.clear();
        }
        lines.push(Line { band, ..Line::new(label, points) });
    }
    lines
}

/// The value at k, linear in log k between the points around it.
fn interpolate(points: &[(f64, f64)], k: f64) -> f64 {
    if points.len() < 2 {
        return f64::NAN;
    }
    let after = points.iter().position(|point| point.0 >= k).unwrap_or(points.len() - 1).max(1);
    let ((x_0, y_0), (x_1, y_1)) = (points[after - 1], points[after]);
    y_0 + (y_1 - y_0) * (k.ln() - x_0.ln()) / (x_1.ln() - x_0.ln())
}
