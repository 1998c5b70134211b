//! Evaluations as a page: curves, tables, what was lost and gained, and every sample behind them.

use std::path::Path;

use anyhow::Result;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use super::chart::{Axes, Dot, Line, draw, scatter};
use super::page::document;
use super::{browser, contrast, live};
use crate::features::CORRECT;
use crate::inference::cells;
use crate::results::{Results, SetResult};
use crate::transition::{Aligned, align};
use crate::{Estimate, Level, Summary, store};

/// Writes `report.html` into `output`: one evaluation, or several beside each other, the first as the
/// base, and `second` the base drawn again. Each comes with the directory that its samples lie in. Where the samples are
/// too many for one file they go beside it, into `report-data`.
///
/// # Errors
/// Evaluations that share no problems, samples that cannot be read, a directory that cannot be written.
pub fn write(
    runs: &[(&Path, &Results)],
    second: Option<(&Path, &Results)>,
    output: &Path,
) -> Result<()> {
    let named: Vec<(String, &Results)> =
        runs.iter().map(|(path, results)| (label(path, results, runs), *results)).collect();
    let second = second.map(|(path, results)| (path.display().to_string(), results));
    let (aligned, notes) = align(&named, second.as_ref(), true)?;
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    let models: Vec<(&str, &str)> =
        named.iter().map(|(name, results)| (name.as_str(), results.model.as_str())).collect();
    let placed = browser::place(runs, &aligned, output)?;
    let body = html! {
        h1 { (if runs.len() == 1 { "What this model answers" } else { "What became of the answers" }) }
        p.lead {
            @for (index, (name, results)) in named.iter().enumerate() {
                @if index > 0 { "; " }
                strong { (name) } @if *name != results.model { " (" (results.model) ")" }
            }
            @if runs.len() > 1 { ". The first is the base of every comparison." }
        }
        @for (name, results) in &named { p.note { (conditions(name, results)) } }
        @for note in &notes { p.note { (note) } }
        @for (name, results) in &named {
            @for caution in results.sets.iter().flat_map(SetResult::cautions) {
                p.warning role="alert" { @if named.len() > 1 { (name) ": " } (caution) }
            }
        }
        @for set in &aligned { (section(set, &names)?) }
        (live::trainings(&models)?)
        (browser::markup(&aligned, &names, &placed))
        footer {
            "Intervals are 95 %, over problems (hold the pointer over a number); estimators are unbiased given the samples. docs/measures.md defines every number. "
            (placed.said)
        }
    };
    let page = document("Tealight evaluation", &body);
    store::write_whole(&output.join("report.html"), page.as_bytes())
}

/// Under which conditions a run's numbers were found.
fn conditions(name: &str, results: &Results) -> String {
    let said = |key: &str| match results.config.get(key) {
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
                "{}: {} samples a problem{at}, checked by {}",
                set.name, set.summary.n, set.verifier
            )
        })
        .collect();
    let named = [
        ("seed", "seed"),
        ("max_completion_length", "completions of up to tokens:"),
        ("instruction", "instruction:"),
    ];
    parts.extend(named.iter().filter_map(|(key, word)| Some(format!("{word} {}", said(key)?))));
    format!("{name}: {}.", parts.join("; "))
}

/// What a run is called: its model, or its directory where two runs have one model.
fn label(path: &Path, results: &Results, runs: &[(&Path, &Results)]) -> String {
    let same = runs.iter().filter(|(_, other)| other.model == results.model).count();
    if same > 1 { path.display().to_string() } else { results.model.clone() }
}

fn section(set: &Aligned, names: &[&str]) -> Result<Markup> {
    let has_totals = !set.summaries[0].coverage.is_empty();
    Ok(html! {
        h2 { (set.name) " (" (set.runs[0].len()) " problems, " (set.summaries[0].n) " samples each)" }
        (numbers(set, names))
        div.charts {
            figure {
                (PreEscaped(pass_chart(set, names)?))
                figcaption { "Pass@k with its interval." }
            }
            figure {
                (PreEscaped(distinct_chart(set, names)?))
                figcaption { "Expected distinct right answers among k samples." }
            }
            @if names.len() > 1 {
                figure {
                    (PreEscaped(pareto(set, names)?))
                    figcaption { "Precision against coverage: up and to the right is better." }
                }
            } @else {
                figure {
                    (PreEscaped(levels_chart(set)?))
                    figcaption { "The same answers, told apart by text, by text without white space, by solution, by final answer." }
                }
            }
        }
        @if has_totals { (totals(set, names)) }
        @if set.summaries.iter().any(|s| !s.features.is_empty()) { (features(set, names)) }
        @if names.len() > 1 {
            (matrix(set, names))
            @for run in 1..names.len() { (contrast::markup(&set.change(run).contrast, names[run])) }
        }
    })
}

fn cell(estimate: Option<&Estimate>, digits: usize) -> Markup {
    match estimate {
        None => html! {},
        Some(e) => html! {
            span title=(format!("{:.4} to {:.4}", e.low, e.high)) { (format!("{:.digits$}", e.value)) }
        },
    }
}

fn numbers(set: &Aligned, names: &[&str]) -> Markup {
    let shown: Vec<usize> = spread(&set.ks);
    let last = set.ks.last().copied().unwrap_or(1);
    let richness =
        |s: &Summary, of: fn(&crate::summary::Richness) -> Estimate| s.richness.as_ref().map(of);
    html! {
        div.wide { table {
            thead { tr {
                th { "model" } th { "greedy" }
                @for k in &shown { th { "pass@" (k) } }
                th { "maj@k" } th { "pass^" (last) } th { "distinct@" (last) } th { "hill 1" } th { "chao 1" }
                th { "cover@.5" } th { "nats/token" } th { "cut off" } th { "no answer" }
            } }
            tbody {
                @for (name, s) in names.iter().zip(&set.summaries) {
                    tr {
                        td { (name) } td { (cell(s.greedy.as_ref(), 3)) }
                        @for k in &shown { td { (cell(s.pass_at_k.get(k), 3)) } }
                        td { (cell(s.majority.values().next_back(), 3)) }
                        td { (cell(s.pass_all_k.get(&last), 3)) }
                        td { (cell(s.unique_correct.get(&last), 2)) }
                        td { (cell(richness(s, |r| r.hill_1).as_ref(), 2)) }
                        td { (cell(richness(s, |r| r.chao_1).as_ref(), 1)) }
                        td { (cell(s.cover.get("0.5"), 3)) }
                        td { (s.token_entropy.map_or(String::new(), |nats| format!("{nats:.3}"))) }
                        td { (s.truncated.map_or("unknown".into(), |share| format!("{:.1} %", 100.0 * share))) }
                        td { (format!("{:.1} %", 100.0 * s.no_answer)) }
                    }
                }
            }
        } }
        @for (name, s) in names.iter().zip(&set.summaries) {
            @if let Some(thinking) = s.thinking { p { (name) ": " (thinking.to_string()) } }
        }
    }
}

/// At most five of the k, the first and the last among them.
fn spread(ks: &[usize]) -> Vec<usize> {
    let count = ks.len().min(5);
    let mut chosen: Vec<usize> =
        (0..count).map(|i| ks[i * (ks.len() - 1) / (count - 1).max(1)]).collect();
    chosen.dedup();
    chosen
}

fn curve(name: &str, index: usize, by_k: &crate::summary::ByK) -> Line {
    Line {
        name: name.into(),
        colour: index,
        is_bold: index == 0,
        points: by_k.iter().map(|(k, e)| (*k as f64, e.value)).collect(),
        mark: None,
        band: by_k.iter().map(|(k, e)| (*k as f64, e.low, e.high)).collect(),
    }
}

fn pass_chart(set: &Aligned, names: &[&str]) -> Result<String> {
    let axes = Axes { x: "k", y: "pass@k", is_log: true, y_range: Some((0.0, 1.0)) };
    let lines = names.iter().zip(&set.summaries).enumerate();
    let lines: Vec<Line> = lines.map(|(i, (name, s))| curve(name, i, &s.pass_at_k)).collect();
    draw(&axes, &lines)
}

fn distinct_chart(set: &Aligned, names: &[&str]) -> Result<String> {
    let axes = Axes { x: "k", y: "distinct correct", is_log: true, y_range: None };
    let lines = names.iter().zip(&set.summaries).enumerate();
    let lines: Vec<Line> = lines.map(|(i, (name, s))| curve(name, i, &s.unique_correct)).collect();
    draw(&axes, &lines)
}

fn levels_chart(set: &Aligned) -> Result<String> {
    let axes = Axes { x: "k", y: "distinct correct", is_log: true, y_range: None };
    let by_level = &set.summaries[0].unique_by_level;
    let line = |(index, level): (usize, &Level)| {
        Some(curve(level.name(), index, by_level.get(level.name())?))
    };
    let lines: Vec<Line> = Level::ALL.iter().enumerate().filter_map(line).collect();
    draw(&axes, &lines)
}

fn pareto(set: &Aligned, names: &[&str]) -> Result<String> {
    let most = set.ks.last().copied().unwrap_or(1);
    let dot = |(index, (name, s)): (usize, (&&str, &Summary))| Dot {
        name: (*name).into(),
        colour: index,
        at: (s.pass_at_k[&1].value, s.pass_at_k[&most].value),
        is_large: true,
    };
    let dots: Vec<Dot> = names.iter().zip(&set.summaries).enumerate().map(dot).collect();
    scatter("pass@1", &format!("pass@{most}"), &dots)
}

fn totals(set: &Aligned, names: &[&str]) -> Markup {
    html! {
        h3 { "Share of the right answers there are that was drawn" }
        div.wide { table {
            thead { tr { th { "right answers of a problem" } th { "problems" } @for name in names { th { (name) } } } }
            tbody {
                @let all: Vec<_> = (0..names.len()).map(|run| set.coverage_by_total(run)).collect();
                @for (row, (bucket, count, _)) in all[0].iter().enumerate() {
                    tr { td { (bucket) } td { (count) } @for run in &all { td { (cell(run.get(row).map(|r| &r.2), 3)) } } }
                }
            }
        } }
    }
}

fn features(set: &Aligned, names: &[&str]) -> Markup {
    html! {
        h3 { "Features of correct answers" }
        p.note { "Of " (CORRECT) " correct answers, one feature drawn from each: Shannon entropy in nats, Gini-Simpson index (the chance that two differ). Each model on its own problems with as many correct answers." }
        div.wide { table {
            thead { tr { th { "model" } th { "features" } th { "Shannon" } th { "Gini-Simpson" } th { "problems" } } }
            tbody { @for (name, s) in names.iter().zip(&set.summaries) { @for (kind, of) in &s.features { tr {
                td { (name) } td { (kind) } td { (cell(Some(&of.shannon), 3)) } td { (cell(Some(&of.gini_simpson), 3)) } td { (of.problems) }
            } } } }
        } }
    }
}

fn matrix(set: &Aligned, names: &[&str]) -> Markup {
    let most = set.ks.last().copied().unwrap_or(1);
    html! {
        h3 { "Differences between models" }
        p { "Row minus column: Pass@1 below the diagonal, Pass@" (most) " above. These models, whatever seeds would do: paired over problems; * p < .05 by Holm over the table." }
        div.wide { table {
            thead { tr { th {} @for name in names { th { (name) } } } }
            tbody {
                @for (name, row) in names.iter().zip(cells(&set.matrix(), true)) {
                    tr {
                        td { (name) }
                        @for cell in row {
                            td { (cell) }
                        }
                    }
                }
            }
        } }
    }
}
