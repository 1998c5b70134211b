//! `tealight compare`: evaluations side by side, the first as the base.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tealight_eval::contrast::{Contrast, DIFFICULTIES};
use tealight_eval::inference::{Effect, cells};
use tealight_eval::results::{Results, SetResult};
use tealight_eval::transition::{Aligned, Change, align};
use tealight_eval::{comparable, report};

use super::table;
use crate::files::{writable_directory, write_atomic};
use crate::telemetry::print;

/// Options of `tealight compare`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(super) struct CompareOptions {
    /// Directories that `eval` or `grade` wrote; the first is the base.
    #[arg(value_name = "RUN")]
    #[serde(default)]
    runs: Vec<PathBuf>,
    /// Compare the problems that all runs have, where they were evaluated on different ones.
    #[arg(long)]
    #[serde(default)]
    intersect: bool,
    /// Compare all the same where runs differ in these: temperature, n, verifier, prompts, max_completion_length, top_k,
    /// top_p, min_p, instruction, system_prompt, prompt_template, few_shot.
    #[arg(long, value_delimiter = ',', value_name = "KEY")]
    #[serde(default)]
    across: Vec<String>,
    /// Where compare.json and report.html go; nothing is written without it.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &CompareOptions) -> Result<()> {
    if options.runs.len() < 2 {
        bail!("name at least two directories that `tealight eval` or `tealight grade` wrote");
    }
    let loaded: Vec<Results> =
        options.runs.iter().map(|path| Results::load(path)).collect::<Result<_>>()?;
    let names = options.names(&loaded)?;
    let named: Vec<(String, &Results)> = names.iter().cloned().zip(&loaded).collect();
    let (sets, notes) = align(&named, options.intersect)?;
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    identical(&named).iter().for_each(|note| tracing::info!("{}", note));
    let changes: Vec<Vec<Change>> =
        sets.iter().map(|set| (1..names.len()).map(|run| set.change(run)).collect()).collect();
    let as_json = json!({
        "runs": names,
        "sets": sets.iter().zip(&changes).map(|(set, changes)| json!({
            "name": set.name,
            "problems": set.runs[0].len(),
            "summaries": set.summaries,
            "changes": changes,
            "matrix": set.matrix(),
        })).collect::<Vec<_>>(),
    });
    let as_json = serde_json::to_string_pretty(&as_json)?;
    if let Some(output) = &options.output {
        writable_directory(output)?;
        write_atomic(&output.join("compare.json"), as_json.as_bytes())?;
        let runs: Vec<_> = options.runs.iter().map(PathBuf::as_path).zip(&loaded).collect();
        report::write(&runs, output).context("the report cannot be written")?;
        tracing::info!("compare.json and report.html in {}", output.display());
    }
    let text = if options.json {
        as_json
    } else {
        let blocks: Vec<String> =
            sets.iter().zip(&changes).map(|(set, changes)| block(set, changes, &names)).collect();
        blocks.join("\n\n")
    };
    print(text)?;
    Ok(())
}

impl CompareOptions {
    /// What the runs are called: their directories, and what they differ in on purpose.
    ///
    /// # Errors
    /// They differ in something else, or in nothing that --across names.
    fn names(&self, loaded: &[Results]) -> Result<Vec<String>> {
        let across: Vec<String> = self.across.iter().map(|key| key.replace('-', "_")).collect();
        if let Some(key) = across.iter().find(|key| !comparable::KEYS.contains(&key.as_str())) {
            bail!("--across {key}: runs differ in {}", comparable::KEYS.join(", "));
        }
        // Prompts differ where what makes them does.
        let makes = |key: &String| comparable::PROMPTING.contains(&key.as_str());
        let allows = |key: &str| across.iter().any(|k| k == key || key == "prompts" && makes(k));
        let mut names: Vec<String> =
            self.runs.iter().map(|path| path.display().to_string()).collect();
        let Some((first, others)) = loaded.split_first() else { return Ok(names) };
        let (mut refused, mut seen) = (Vec::new(), HashSet::new());
        let mut labels: Vec<BTreeMap<&str, String>> = vec![BTreeMap::new(); loaded.len()];
        for (index, run) in others.iter().enumerate() {
            for (set, other) in shared(first, run) {
                for found in comparable::differences((first, set), (run, other)) {
                    let [a, b] = found.values;
                    if allows(found.key) {
                        seen.insert(found.key);
                        labels[0].insert(found.key, a);
                        labels[index + 1].insert(found.key, b);
                        continue;
                    }
                    let (a, b) = (short(&a), short(&b));
                    refused.push(format!(
                        "{}: {} is {a} in {}, {b} in {}",
                        set.name,
                        found.key,
                        names[0],
                        names[index + 1]
                    ));
                }
            }
        }
        if !refused.is_empty() {
            bail!(
                "these runs are not comparable: {}; evaluate them alike, or compare across a difference on purpose with \
                 --across KEY",
                refused.join("; ")
            );
        }
        if let Some(key) = across.iter().find(|key| !seen.contains(key.as_str())) {
            bail!("--across {key} has no effect: the runs do not differ in it");
        }
        for (name, label) in names.iter_mut().zip(labels) {
            for (key, value) in label.iter().filter(|(key, _)| **key != "prompts") {
                name.push_str(&format!(" ({key} {})", short(value)));
            }
        }
        Ok(names)
    }
}

/// The sets that both have.
fn shared<'a>(
    first: &'a Results,
    second: &'a Results,
) -> impl Iterator<Item = (&'a SetResult, &'a SetResult)> {
    first
        .sets
        .iter()
        .filter_map(|set| Some((set, second.sets.iter().find(|other| other.name == set.name)?)))
}

/// Says of runs that found the same, sample by sample, that they did.
fn identical(named: &[(String, &Results)]) -> Vec<String> {
    let mut notes = Vec::new();
    for (i, (first, a)) in named.iter().enumerate() {
        for (second, b) in &named[i + 1..] {
            let mut sets = shared(a, b).peekable();
            if sets.peek().is_some() && sets.all(|(a, b)| comparable::are_identical(a, b)) {
                notes.push(format!("{first} and {second} are identical, problem by problem"));
            }
        }
    }
    notes
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

/// A set's tables: numbers with differences, the matrix, what became of problems.
fn block(set: &Aligned, changes: &[Change], names: &[String]) -> String {
    let shown: Vec<usize> = set.ks.iter().copied().filter(|k| k.is_power_of_two()).collect();
    let last = set.ks.last().copied().unwrap_or(1);
    let mut header = vec!["run".to_owned()];
    header.extend(shown.iter().map(|k| format!("pass@{k}")));
    header.push(format!("distinct@{last}"));
    let mut rows = vec![header];
    let against: Vec<Vec<Option<Effect>>> = changes
        .iter()
        .map(|change| {
            let found = |k: &usize| change.contrast.pass.iter().find(|(at, _)| at == k);
            shown.iter().map(|k| found(k).map(|(_, effect)| *effect)).collect()
        })
        .collect();
    let against = [vec![vec![]], cells(&against, true)].concat();
    for ((name, summary), differences) in names.iter().zip(&set.summaries).zip(against) {
        let mut row = vec![name.clone()];
        for (place, k) in shown.iter().enumerate() {
            let value = summary.pass_at_k[k].value;
            row.push(match differences.get(place) {
                None => format!("{value:.3}"),
                Some(difference) => format!("{value:.3} ({difference})"),
            });
        }
        row.push(format!("{:.2}", summary.unique_correct[&last].value));
        rows.push(row);
    }
    let mut text = format!(
        "{} ({} problems); differences to the first, between these models whatever seeds would do: * p < .05 by Holm \
         over the table\n{}",
        set.name,
        set.runs[0].len(),
        table::plain(&rows)
    );
    if names.len() > 2 {
        let mut rows = vec![[vec![String::new()], names.to_vec()].concat()];
        for (name, row) in names.iter().zip(cells(&set.matrix(), true)) {
            rows.push([vec![name.clone()], row].concat());
        }
        text.push_str(&format!(
            "\n\nrow minus column: pass@1 below the diagonal, pass@{last} above\n{}",
            table::plain(&rows)
        ));
    }
    for (change, name) in changes.iter().zip(&names[1..]) {
        text.push_str(&format!("\n\n{}", of_change(change, name)));
    }
    text
}

fn of_change(change: &Change, name: &str) -> String {
    let contrast = &change.contrast;
    let listed = |ids: &[String]| {
        let shown = ids.iter().take(8).cloned().collect::<Vec<_>>().join("  ");
        format!("{} {shown}{}", ids.len(), if ids.len() > 8 { "  ..." } else { "" })
    };
    format!(
        "{name}: {}\n{} {}\n{}\n{}solved, then lost: {}\nnewly solved: {}",
        contrast.crossing,
        report::contrast::kept(contrast),
        matched(contrast),
        table::plain(&transitions(contrast)),
        "each model by half of its samples; in parentheses a second draw of the base\n",
        listed(&change.lost),
        listed(&change.gained),
    )
}

/// Diversity at equal accuracy, in words.
fn matched(contrast: &Contrast) -> String {
    let Some(at) = contrast.most_matched() else { return String::new() };
    let (_, base, model, difference) = &at.measures[0];
    format!(
        "Distinct among {} right answers on {} problems where both have as many: base {base:.2}, here {model:.2}, {}.",
        at.right,
        at.problems,
        report::contrast::effect(difference)
    )
}

/// How many problems went where, beside what a second draw of the base gives.
fn transitions(contrast: &Contrast) -> Vec<Vec<String>> {
    let mut rows =
        vec![[vec!["base \\ now".to_owned()], DIFFICULTIES.map(String::from).to_vec()].concat()];
    let pairs = contrast.transition.iter().zip(contrast.transition_null);
    for (from, (counts, nulls)) in DIFFICULTIES.iter().zip(pairs) {
        let cells = counts.iter().zip(nulls).map(|(count, null)| format!("{count:.1} ({null:.1})"));
        rows.push(std::iter::once((*from).to_owned()).chain(cells).collect());
    }
    rows
}
