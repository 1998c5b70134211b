//! Evaluations as a page: curves, tables, what was lost and gained, and every sample behind them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;
use tealight_core::names;

use super::contrast;
use super::evaluation_tables::{matrix, numbers};
use super::page;
use super::recipes::recipes;
use super::samples::{Sampled, Source, place};
use super::titles;
use super::view::{Chart, Document, Line, Section};
use crate::answer_rules;
use crate::inference::TestedFamily;
use crate::number::{counted, with_noun};
use crate::results::{Results, SetResult};
use crate::store::{self, Index};
use crate::transition::{Aligned, Change, align};
use crate::{Level, Summary};

/// Writes `report.html` into `output`: one evaluation, or several with these `names` beside each other, the first as the
/// base, and `second` the base drawn again. Each comes with the directory that its samples lie in. Where the samples
/// are too many for one file they go beside it, into `report-data`.
///
/// # Errors
/// Evaluations that share no problems, samples that cannot be read, a directory that cannot be written.
pub fn write(
    runs: &[(&Path, &Results)],
    names: &[String],
    second: Option<(&Path, &Results)>,
    output: &Path,
) -> Result<()> {
    write_page((runs, names), second, output, &[])
}

/// The same of one evaluation in `output`, with an index of the samples of each set that keeps them.
///
/// # Errors
/// As above.
pub fn write_indexed(
    results: &Results,
    indices: &[Option<Arc<Index>>],
    output: &Path,
) -> Result<()> {
    let names = [results.model.clone()];
    write_page((&[(output, results)], &names), None, output, indices)
}

fn write_page(
    (runs, names): (&[(&Path, &Results)], &[String]),
    second: Option<(&Path, &Results)>,
    output: &Path,
    indices: &[Option<Arc<Index>>],
) -> Result<()> {
    let named: Vec<(String, &Results)> =
        names.iter().cloned().zip(runs.iter().map(|(_, results)| *results)).collect();
    let second = second.map(|(path, results)| (path.display().to_string(), results));
    let (aligned, notes) = align(&named, second.as_ref(), true)?;
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    let owned: Vec<String> = names.iter().map(ToString::to_string).collect();
    let sampled: Vec<Sampled<'_>> =
        aligned.iter().map(|set| sampled(set, runs, indices)).collect::<Result<_>>()?;
    let placed = place(&owned, &sampled, output)?;
    let changes: Vec<Vec<Change>> =
        aligned.iter().map(|set| (1..names.len()).map(|run| set.change(run)).collect()).collect();
    let tested: Vec<TestedFamily> =
        aligned.iter().zip(&changes).map(|(set, changes)| contrast::tested(set, changes)).collect();
    let mut sections: Vec<Section> = Vec::new();
    for (index, (set, changes)) in aligned.iter().zip(&changes).enumerate() {
        sections.push(section(set, &names, &tested[index], index == 0));
        for (change, name) in changes.iter().zip(&names[1..]) {
            let lost = change.beyond_chance.as_ref();
            sections.push(contrast::section(&change.contrast, lost, name));
        }
    }
    sections.retain(|section| !section.blocks.is_empty());
    let document = Document {
        title: titles::evaluation(&named, &aligned),
        made: titles::made(output, if runs.len() > 1 { "compare" } else { "eval" }),
        lead: lead(&named, notes),
        verdict: verdict(&aligned, &tested, &names),
        statistics: statistics(&aligned, &changes, &tested, &names),
        warnings: warnings(&named),
        models: owned,
        top: aligned.first().map(|set| top(set, &names)).unwrap_or_default(),
        sections,
        reproduce: recipes(runs, output),
        footer: vec![
            "Intervals are 95 %, over problems: hold the pointer over a number. The page Words explains the terms.".into(),
            placed.note.clone(),
        ],
        samples: placed.placement.clone(),
        ..Document::default()
    };
    let page = page::html(&document, &placed)?;
    store::write_whole(&output.join("report.html"), page.as_bytes())
}

/// The set in the first run, which the others' are found by.
fn first_set<'a>(set: &Aligned<'_>, runs: &[(&Path, &'a Results)]) -> Option<&'a SetResult> {
    runs.first()?.1.sets.iter().find(|found| found.name == set.name)
}

/// A set with the samples of every run; `indices` has those of the sets of a single run, where they are there.
fn sampled<'a>(
    set: &'a Aligned<'_>,
    runs: &[(&Path, &'a Results)],
    indices: &[Option<Arc<Index>>],
) -> Result<Sampled<'a>> {
    let of_run = |(directory, results): &(&Path, &Results)| -> Result<(Source, &'static str)> {
        let Some(found) = first_set(set, runs).and_then(|first| results.same_set(first)) else {
            return Ok((Source::default(), ""));
        };
        let path = |file: Option<String>| -> Result<Option<PathBuf>> {
            Ok(file.map(|file| names::inside(directory, &file)).transpose()?)
        };
        let at = results.sets.iter().position(|set| std::ptr::eq(set, found));
        let greedy = path(found.greedy_samples())?;
        let source = match at.and_then(|at| indices.get(at)?.clone()) {
            Some(index) => Source::indexed(index, directory, greedy)?,
            None => Source::open(directory, path(found.samples.clone())?, greedy)?,
        };
        let split = match found.domain.as_deref() {
            Some("in") => "in domain",
            Some("out") => "out of domain",
            _ => "",
        };
        Ok((source, split))
    };
    let (sources, splits): (Vec<Source>, Vec<&str>) =
        runs.iter().map(of_run).collect::<Result<Vec<_>>>()?.into_iter().unzip();
    // Numbers leave out problems that could not be judged at all; the list of a single run has them.
    let complete = match runs {
        [(_, results)] => results.sets.iter().find(|found| found.name == set.name),
        _ => None,
    };
    Ok(Sampled {
        name: set.name.clone(),
        split: splits.first().copied().unwrap_or_default(),
        questions: complete.map_or(&set.questions, |complete| &complete.questions),
        counts: match complete {
            Some(complete) => vec![complete.problems.as_slice()],
            None => set.runs.iter().map(AsRef::as_ref).collect(),
        },
        sources,
    })
}

fn lead(named: &[(String, &Results)], notes: Vec<String>) -> Vec<String> {
    let mut lead = Vec::new();
    if named.len() > 1 {
        lead.push(format!("{} is the base of every comparison.", named[0].0));
    }
    lead.extend(named.iter().map(|(name, results)| conditions(name, results)));
    lead.extend(notes);
    lead
}

/// Reasons to read numbers with caution, by model where there are several.
pub fn warnings(named: &[(String, &Results)]) -> Vec<String> {
    let labelled = |(name, results): &(String, &Results)| -> Vec<String> {
        let of_set = |set: &SetResult| {
            // One set may be called after a file, and that be another model's.
            let label = match (named.len(), results.sets.len()) {
                (1, _) => set.name.clone(),
                (_, 1) => name.clone(),
                _ => format!("{name}: {}", set.name),
            };
            set.cautions(&label, results.truncated())
        };
        results.sets.iter().flat_map(of_set).collect()
    };
    named.iter().flat_map(labelled).collect()
}

/// The result, in a sentence a set, and where models are compared in one a model.
fn verdict(aligned: &[Aligned<'_>], tested: &[TestedFamily], names: &[&str]) -> Vec<String> {
    let alone = |set: &Aligned<'_>| {
        let summary = &set.summaries[0];
        let most = set.ks.last().copied().unwrap_or(1);
        let at = |k: usize| summary.pass_at_k.get(&k).map_or(0.0, |e| 100.0 * e.value);
        let distinct = summary.unique_correct.get(&most).map_or(0.0, |e| e.value);
        format!(
            "{}: {:.1} % of samples are correct (pass@1), {:.1} % of problems are solved within {} \
             (pass@{most}), by {distinct:.2} distinct correct answers a problem on average.",
            set.name,
            at(1),
            at(most),
            counted(most, "sample")
        )
    };
    match names.len() {
        1 => aligned.iter().map(alone).collect(),
        _ => {
            let all = aligned.iter().zip(tested);
            all.flat_map(|(set, tested)| contrast::plain(set, tested, names)).collect()
        }
    }
}

/// What a comparison rests on.
fn statistics(
    aligned: &[Aligned<'_>],
    changes: &[Vec<Change>],
    tested: &[TestedFamily],
    names: &[&str],
) -> Vec<String> {
    let sentences = |(index, set): (usize, &Aligned<'_>)| -> Vec<String> {
        let verdicts = contrast::verdicts(&set.ks, &changes[index], &tested[index]);
        let verdicts = verdicts.into_iter().zip(&names[1..]);
        verdicts.map(|(verdict, name)| format!("{}, {name}: {verdict}", set.name)).collect()
    };
    aligned.iter().enumerate().flat_map(sentences).collect()
}

/// Under which conditions a run's numbers were found.
fn conditions(name: &str, results: &Results) -> String {
    let shown = |key: &str| match results.config.get(key) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => Some(other.to_string()),
    };
    let mut parts: Vec<String> = results
        .sets
        .iter()
        .map(|set| {
            let at = set.temperature.map_or(String::new(), |t| format!(" at temperature {t}"));
            format!(
                "{}: {} a problem{at}, verifier {}, solution classes {}",
                set.name,
                with_noun(&set.summary.samples_each(), "sample"),
                set.verifier,
                results.class_source(set)
            )
        })
        .collect();
    let named = [
        ("seed", "seed:"),
        ("max_completion_length", "max_completion_length:"),
        ("instruction", "instruction:"),
    ];
    parts.extend(named.iter().filter_map(|(key, word)| Some(format!("{word} {}", shown(key)?))));
    format!("{name}: {}.", parts.join("; "))
}

/// The curves at the top of the page.
pub(super) fn top(set: &Aligned<'_>, names: &[&str]) -> Vec<Chart> {
    vec![pass_chart(set, names), distinct_chart(set, names)]
}

fn section(set: &Aligned<'_>, names: &[&str], tested: &TestedFamily, is_first: bool) -> Section {
    let problems = counted(set.runs[0].len(), "problem");
    let samples = with_noun(&set.summaries[0].samples_each(), "sample");
    let mut section = Section::new(format!("{} ({problems}, {samples} each)", set.name));
    section = section.table(numbers(set, names));
    for (name, summary) in names.iter().zip(&set.summaries) {
        if let Some(thinking) = summary.thinking {
            section = section.text(format!("{name}: {thinking}"));
        }
        if let Some(rules) = answer_rules::describe(summary) {
            section = section.text(format!("{name}: {rules}"));
        }
    }
    let mut charts = if is_first { vec![] } else { top(set, names) };
    if names.len() == 1 {
        charts.push(levels_chart(set));
    }
    section = section.charts(charts);
    if names.len() > 1 {
        section = section.charts(vec![pareto(set, names)]);
    }
    if names.len() > 2 {
        section = section.table(matrix(set, names, tested));
    }
    section
}

/// A curve over k with its interval.
pub(super) fn curve(name: &str, by_k: &crate::interval::ByK) -> Line {
    let band = by_k.iter().map(|(k, e)| (*k as f64, e.low, e.high)).collect();
    Line { band, ..Line::new(name, by_k.iter().map(|(k, e)| (*k as f64, e.value)).collect()) }
}

fn pass_chart(set: &Aligned<'_>, names: &[&str]) -> Chart {
    let lines = names.iter().zip(&set.summaries).map(|(name, s)| curve(name, &s.pass_at_k));
    let caption = "Pass@k against k. Bands: 95 % intervals over problems.";
    Chart::of_pass(&set.name, lines.collect(), caption)
}

fn distinct_chart(set: &Aligned<'_>, names: &[&str]) -> Chart {
    let lines = names.iter().zip(&set.summaries).map(|(name, s)| curve(name, &s.unique_correct));
    let title = format!("Distinct correct answers, {}", set.name);
    let caption = "Expected number of distinct correct answers among k samples of a problem.";
    Chart::of_distinct(&title, lines.collect(), caption)
}

fn levels_chart(set: &Aligned<'_>) -> Chart {
    let by_level = &set.summaries[0].unique_by_level;
    let line = |level: &Level| Some(curve(level.name(), by_level.get(level.name())?));
    let lines = Level::ALL.iter().filter_map(line).collect();
    let levels = Level::ALL.iter().map(|level| level.description()).collect::<Vec<_>>().join(", ");
    let caption =
        format!("The same samples; two correct ones are distinct if these differ: {levels}.");
    Chart::of_distinct("Distinct correct answers, by when two answers are equal", lines, caption)
}

fn pareto(set: &Aligned<'_>, names: &[&str]) -> Chart {
    let most = set.ks.last().copied().unwrap_or(1);
    let point = |(name, s): (&&str, &Summary)| {
        let at = |k: usize| s.pass_at_k.get(&k).map_or(f64::NAN, |e| e.value);
        Line::new(*name, vec![(at(1), at(most))])
    };
    let lines = names.iter().zip(&set.summaries).map(point).collect();
    Chart::of_tradeoff(most, lines, "Better models are further up and to the right.")
}
