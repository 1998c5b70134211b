//! A study as one HTML file that needs no network.

use std::collections::BTreeSet;

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{Axes, Dot, Line, draw, scatter};
use super::levels::{averages, best_temperatures};
use super::tables::{BUDGET_LEGEND, LEGEND, budgets, header, pairs, rows, to_base};
use super::{Evaluated, Study, Training, contrast, front, ledger};
use crate::Summary;

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 1180px; margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { margin-top: 2.4rem; font-size: 1.25rem; }
.lead { color: #555; margin-top: 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .8rem 0; }
th, td { padding: .35rem .9rem; text-align: right; border-bottom: 1px solid #e4e4e4; }
th { font-weight: 600; border-bottom: 2px solid #1a1a1a; }
th:first-child, td:first-child { text-align: left; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 1.2rem; }
figure { margin: 0; } figcaption { color: #555; font-size: .9rem; }
svg { width: 100%; height: auto; }
.note { color: color-mix(in srgb, currentColor 65%, transparent); font-size: .9em; }
.warning { border-left: 4px solid #d55e00; padding: .3rem .8rem; }
.wide { overflow-x: auto; }
footer { color: #777; font-size: .85rem; margin-top: 3rem; }
@media (prefers-color-scheme: dark) {
  body { color: #e4e4e4; background: #16181c; } .lead, figcaption { color: #b0b0b0; }
  th, td { border-bottom-color: #3a3d44; } th { border-bottom-color: #e4e4e4; } footer { color: #999; }
  svg { filter: invert(.9) hue-rotate(180deg); }
}
";

/// The page.
///
/// # Errors
/// A chart that cannot be drawn.
pub fn html(study: &Study) -> Result<String> {
    let seeds = study.seeds();
    let listed = seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let names: BTreeSet<&str> = study.datasets.iter().map(|set| set.name.as_str()).collect();
    let body = html! {
        h1 { "What fine-tuning did to the answers of " (study.model) }
        p.lead {
            "Every objective started from the same base, on the same " (study.prompts) " prompts, with as many " (study.matched) ". "
            (study.n) " samples a problem, "
            (if seeds.len() == 1 { "seed " } else { "seeds " }) (listed) ". "
            (study.prompts_per_step) " prompts of " (study.num_generations)
            " completions a step, learning rate " (format!("{:e}", study.learning_rate)) ". "
            (study.decoding())
        }
        @for fronts in &study.fronts { (front::markup(fronts)?) }
        @if let Some(reason) = &study.without_fronts { p.warning role="alert" { "No fronts: " (reason) } }
        @if seeds.len() == 1 { p.warning role="alert" { (ONE_SEED) } }
        @for evaluated in &study.datasets { (dataset(study, evaluated)?) }
        @if let Some(own) = &study.ledger { (ledger::markup(study, own)?) }
        @for (title, table) in averages(study) { h2 { (title) } p { (over(&seeds)) } (grid(&table)) }
        @if let Some(forgetting) = &study.forgetting {
            h2 { (forgetting.title()) }
            p { (over(&seeds)) " Sets count alike; the intervals do not cover other sets." }
            (grid(&forgetting.rows()))
        }
        @for name in names {
            @let table = best_temperatures(study, name);
            @if !table.is_empty() {
                h2 { (name) ", each model at its best temperature" }
                p {
                    "The temperature is chosen by one half of the problems and measured on the other, both ways round. "
                    (over(&seeds)) " The interval does not cover the choice."
                }
                (grid(&table))
            }
        }
        h2 { "Training" }
        (grid(&budgets(study)))
        p.note { (BUDGET_LEGEND) }
        div.charts {
            (path_chart(study)?)
            (training_chart(study, "mean reward", |point| point.reward, "Mean reward of each step's rollouts.")?)
            (training_chart(study, "entropy per token (nats)", |point| point.entropy, "Entropy of the policy at the tokens it sampled.")?)
            (training_chart(study, "KL to the base (nats)", |point| point.kl, "Estimate of KL(policy || base) per completion.")?)
        }
        h2 { "What the objectives stand for" }
        table { tbody { @for (label, resolved) in &study.objectives { tr { td { (label) } td { (resolved) } } } } }
        footer {
            "Pass@k is the unbiased estimate over all samples. " (LEGEND) " docs/measures.md defines every number and says how the coverage of intervals was tested. "
            "Made by Tealight in " (format!("{:.0}", study.seconds)) " seconds."
        }
    };
    Ok(document(&format!("Tealight study of {}", study.model), &body))
}

/// What is said of a study with one seed.
pub(super) const ONE_SEED: &str = "One seed: this compares runs, not objectives. Another seed may order them otherwise, so no \
difference is starred; give several --seeds.";

/// What varied in intervals of levels.
fn over(seeds: &[u64]) -> &'static str {
    match seeds.len() {
        1 => "In parentheses 95 % intervals over problems; another seed is not covered.",
        _ => "In parentheses 95 % intervals over seeds and problems.",
    }
}

/// Rows under their header, the first row.
pub(super) fn grid(rows: &[Vec<String>]) -> Markup {
    html! {
        @if let Some((header, rows)) = rows.split_first() {
            div.wide { table {
                thead { tr { @for cell in header { th { (cell) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            } }
        }
    }
}

/// The page that shows a run while it goes: it asks for `/live` every two seconds.
pub fn live_page() -> String {
    let body = html! {
        h1 { "Tealight, live" }
        p.lead { "Updates every two seconds. " span #state role="status" {} }
        div #live {}
        script { (PreEscaped(LIVE)) }
    };
    document("Tealight, live", &body)
}

const LIVE: &str = r#"
const look = async () => {
  const state = document.getElementById("state");
  try {
    const answer = await fetch("live");
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    const live = document.getElementById("live");
    if (live.dataset.text !== text) { live.innerHTML = text; live.dataset.text = text; }
    state.textContent = "";
  } catch (error) {
    state.textContent = `Not reached: ${error.message}`;
  }
  setTimeout(look, 2000);
};
look();
"#;

/// A whole page around its body.
/// What a page may load: its own text, the samples beside it, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline' 'self' file:; style-src 'unsafe-inline'; \
img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'";

pub(super) fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

fn dataset(study: &Study, evaluated: &Evaluated) -> Result<Markup> {
    let table = [vec![header(study, evaluated)], rows(study, evaluated)].concat();
    let what = match evaluated.domain.as_str() {
        "train" => "trained on",
        "out" => "held out, out of domain",
        _ => "held out",
    };
    Ok(html! {
        h2 { (evaluated.title(study)) " (" (evaluated.base.summary.problems) " problems, " (what) ")" }
        (grid(&table))
        div.charts {
            figure {
                (PreEscaped(pass_chart(study, evaluated)?))
                figcaption { "Pass@k; dots where the base overtakes." }
            }
            figure {
                (PreEscaped(distinct_chart(study, evaluated)?))
                figcaption { "Expected distinct right answers among k samples; accuracy raises them too." }
            }
            figure {
                (PreEscaped(pareto(study, evaluated)?))
                figcaption { "Precision against coverage: up and to the right is better. Large dots are means over seeds." }
            }
        }
        h3 { "Differences to the base" }
        p { "With 95 % intervals, cut to what is possible. " @if study.seeds().len() > 1 { "Seeds and problems both vary; * p < .05 by Holm over the table." } @else { (ONE_SEED) } }
        (grid(&to_base(study, evaluated)))
        h3 { "Differences between models" }
        p {
            "Row minus column: Pass@1 below the diagonal, Pass@" (study.largest()) " above. "
            @if study.seeds().len() > 1 { "Seeds and problems both vary; * p < .05 by Holm over the table." } @else { (ONE_SEED) }
        }
        (grid(&pairs(study, evaluated)))
        @for (label, found) in &evaluated.contrasts { (contrast::markup(found, label)) }
    })
}

fn pareto(study: &Study, evaluated: &Evaluated) -> Result<String> {
    let k = study.largest();
    let at = |summary: &Summary| (summary.pass_at_k[&1].value, summary.pass_at_k[&k].value);
    let dot = |name: &str, colour: usize, at: (f64, f64), is_large: bool| {
        let name = if is_large { name.to_owned() } else { String::new() };
        Dot { name, colour, at, is_large }
    };
    let mut dots = vec![dot("base", 0, at(&evaluated.base.summary), true)];
    for (index, objective) in study.labels().into_iter().enumerate() {
        let runs: Vec<(f64, f64)> =
            evaluated.of(objective).map(|tuned| at(&tuned.measured.summary)).collect();
        let count = runs.len() as f64;
        let mean =
            runs.iter().fold((0.0, 0.0), |sum, run| (sum.0 + run.0 / count, sum.1 + run.1 / count));
        if runs.len() > 1 {
            dots.extend(runs.iter().map(|run| dot("", index + 1, *run, false)));
        }
        dots.push(dot(objective, index + 1, mean, true));
    }
    scatter("pass@1", &format!("pass@{k}"), &dots)
}

fn pass_chart(study: &Study, evaluated: &Evaluated) -> Result<String> {
    let axes = Axes { x: "k", y: "pass@k", is_log: true, y_range: Some((0.0, 1.0)) };
    let mut lines = curves(study, evaluated, |summary, k| summary.pass_at_k[&k].value);
    for (line, (_, contrast)) in lines[1..].iter_mut().zip(&evaluated.contrasts) {
        line.mark = contrast.crossing.at.k().map(|k| (k, interpolate(&line.points, k)));
    }
    draw(&axes, &lines)
}

fn distinct_chart(study: &Study, evaluated: &Evaluated) -> Result<String> {
    let axes = Axes { x: "k", y: "distinct correct", is_log: true, y_range: None };
    draw(&axes, &curves(study, evaluated, |summary, k| summary.unique_correct[&k].value))
}

/// One line for the base and one for each objective, the mean over seeds.
fn curves(
    study: &Study,
    evaluated: &Evaluated,
    value: impl Fn(&Summary, usize) -> f64,
) -> Vec<Line> {
    let line = |name: &str, colour: usize, all: Vec<&Summary>| Line {
        name: name.into(),
        colour,
        is_bold: colour == 0,
        points: study
            .grid
            .iter()
            .map(|k| {
                let sum: f64 = all.iter().map(|summary| value(summary, *k)).sum();
                (*k as f64, sum / all.len() as f64)
            })
            .collect(),
        mark: None,
        band: vec![],
    };
    let mut lines = vec![line("base", 0, vec![&evaluated.base.summary])];
    for (index, objective) in study.labels().into_iter().enumerate() {
        let all = evaluated.of(objective).map(|tuned| &tuned.measured.summary).collect();
        lines.push(line(objective, index + 1, all));
    }
    lines
}

/// The value at k, linear in log k between the points around it.
fn interpolate(points: &[(f64, f64)], k: f64) -> f64 {
    let after = points.iter().position(|point| point.0 >= k).unwrap_or(points.len() - 1).max(1);
    let ((x_0, y_0), (x_1, y_1)) = (points[after - 1], points[after]);
    y_0 + (y_1 - y_0) * (k.ln() - x_0.ln()) / (x_1.ln() - x_0.ln())
}

/// Where runs went: held-out Pass@1 against the largest Pass@k, evaluation by evaluation.
fn path_chart(study: &Study) -> Result<Markup> {
    let labels = study.labels();
    let line = |run: &Training| {
        let place = labels.iter().position(|label| *label == run.objective);
        let point =
            |held: &super::HeldOut| Some((held.pass_at_k.first()?.1, held.pass_at_k.last()?.1));
        let points: Vec<(f64, f64)> = run.held_out.iter().filter_map(point).collect();
        Line {
            name: format!("{} {}", run.objective, run.seed),
            colour: place.map_or(0, |place| place + 1),
            is_bold: false,
            mark: points.last().copied(),
            points,
            band: vec![],
        }
    };
    let lines: Vec<Line> = study.shown().map(line).filter(|line| line.points.len() > 1).collect();
    if lines.is_empty() {
        return Ok(html! {});
    }
    let axes = Axes { x: "held-out pass@1", y: "held-out pass@k", is_log: false, y_range: None };
    Ok(html! {
        figure {
            (PreEscaped(draw(&axes, &lines)?))
            figcaption { "Held-out accuracy and coverage along training; the dot is the end." }
        }
    })
}

fn training_chart(
    study: &Study,
    name: &str,
    value: fn(&super::TrainingPoint) -> Option<f64>,
    caption: &str,
) -> Result<Markup> {
    let objectives = study.labels();
    let lines = study.shown().map(|run| training_line(&objectives, run, value));
    let lines: Vec<Line> = lines.filter(|line| !line.points.is_empty()).collect();
    if lines.is_empty() {
        return Ok(html! {});
    }
    let axes = Axes { x: "step", y: name, is_log: false, y_range: None };
    Ok(html! {
        figure { (PreEscaped(draw(&axes, &lines)?)) figcaption { (caption) } }
    })
}

/// What a run measured at each of its steps, as it was logged: nothing is smoothed.
fn training_line(
    objectives: &[&str],
    run: &Training,
    value: fn(&super::TrainingPoint) -> Option<f64>,
) -> Line {
    let place = objectives.iter().position(|objective| *objective == run.objective);
    let point = |point: &super::TrainingPoint| Some((point.step as f64, value(point)?));
    Line {
        name: format!("{} {}", run.objective, run.seed),
        colour: place.map_or(0, |place| place + 1),
        is_bold: false,
        points: run.points.iter().filter_map(point).collect(),
        mark: None,
        band: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::TrainingPoint;

    #[test]
    fn training_curves_show_what_was_logged_step_by_step() {
        let point = |step: usize, kl: f64| TrainingPoint {
            step,
            reward: None,
            entropy: None,
            kl: Some(kl),
            updates: step,
            tokens: step,
        };
        let run = Training {
            objective: "grpo".into(),
            seed: 1,
            steps: 20,
            updates: 20,
            completions: 0,
            tokens: 0,
            gradients: 0,
            rehearsed: 0,
            seconds: 0.0,
            planned_memory: None,
            points: vec![point(5, 0.0), point(10, 1.0), point(15, 2.0), point(20, 0.5)],
            held_out: vec![],
        };
        let line = training_line(&["js", "grpo"], &run, |point| point.kl);
        assert_eq!(line.points, [(5.0, 0.0), (10.0, 1.0), (15.0, 2.0), (20.0, 0.5)]);
        assert_eq!(line.colour, 2);
        assert!(training_line(&[], &run, |point| point.reward).points.is_empty());
    }
}
