//! What `eval` and `grade` leave behind: results.json and its other forms, the report, the table.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use tealight_eval::results::{Results, SetResult};
use tealight_eval::{export, report, store};

use super::table;
use crate::files::{writable_directory, write_atomic};
use crate::telemetry::{say, warn};

/// A set's name as a file name.
pub(super) fn file_name(set: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '@');
    set.chars().map(|c| if keep(c) { c } else { '-' }).collect()
}

/// Writes every form of `results` and prints the table.
pub(super) fn write(results: &Results, output: &Path, as_json: bool, quiet: bool) -> Result<()> {
    let json = serde_json::to_string_pretty(results)?;
    write_atomic(&output.join("results.json"), json.as_bytes())?;
    write_atomic(&output.join("results.csv"), export::csv(results).as_bytes())?;
    write_atomic(&output.join("results.md"), export::markdown(results).as_bytes())?;
    lm_eval(results, output)?;
    report::write(&[(output, results)], output)?;
    results.sets.iter().for_each(cautions);
    let text = if as_json {
        let sets: Vec<_> = results
            .sets
            .iter()
            .map(|set| serde_json::json!({"name": set.name, "summary": set.summary}))
            .collect();
        serde_json::to_string_pretty(&serde_json::json!({"model": results.model, "sets": sets}))?
    } else {
        results.sets.iter().map(table::set).collect::<Vec<_>>().join("\n\n")
    };
    writeln!(std::io::stdout(), "{text}")?;
    say(quiet, format!("results, report.html and samples in {}", output.display()));
    Ok(())
}

/// The pair of files that lm-evaluation-harness writes, for the tools that read those.
fn lm_eval(results: &Results, output: &Path) -> Result<()> {
    let directory = output.join("lm-eval");
    writable_directory(&directory)?;
    let text = serde_json::to_string_pretty(&export::lm_eval_results(results))?;
    write_atomic(&directory.join("results_tealight.json"), text.as_bytes())?;
    for set in &results.sets {
        let Some(samples) = &set.samples else { continue };
        let stored = store::read(&output.join(samples), None)?.problems;
        let mut lines = String::new();
        for (index, (tally, question)) in set.problems.iter().zip(&set.questions).enumerate() {
            let Some(samples) = stored.get(&tally.problem) else { continue };
            let line = export::lm_eval_sample(index, &question.prompt, &question.answer, samples);
            lines.push_str(&line.to_string());
            lines.push('\n');
        }
        let name = format!("samples_{}_tealight.jsonl", export::task_name(&set.name));
        write_atomic(&directory.join(name), lines.as_bytes())?;
    }
    Ok(())
}

/// Warns of what makes numbers mean little.
fn cautions(set: &SetResult) {
    let summary = &set.summary;
    if summary.truncated > 0.5 {
        warn(format!(
            "{}: more than half of the completions were cut off; raise --max-completion-length",
            set.name
        ));
    }
    if summary.no_answer > 0.5 {
        warn(format!(
            "{}: more than half of the completions hold no readable answer; look at its samples",
            set.name
        ));
    }
    if summary.unjudged > 0 {
        warn(format!(
            "{}: {} completions could not be judged and count nowhere; their samples say why",
            set.name, summary.unjudged
        ));
    }
}
