//! `tealight compare`.

use anyhow::Result;
use tealight_eval::contrast::{Contrast, Matched};
use tealight_eval::inference::{Tested, in_words};
use tealight_eval::number::counted;
use tealight_eval::report;
use tealight_eval::transition::Change;

use crate::app::compare::{self, CompareOptions, ComparedSet};
use crate::cli::table;
use tealight_system::telemetry::print;

pub(in crate::cli) fn run(options: &CompareOptions) -> Result<()> {
    let comparison = compare::run(options)?;
    let text = match options.json {
        true => serde_json::to_string_pretty(&comparison)?,
        false => {
            let blocks = comparison.sets.iter().map(|set| block(set, &comparison.names));
            blocks.collect::<Vec<_>>().join("\n\n")
        }
    };
    Ok(print(text)?)
}

/// A set's tables: numbers, the differences with their intervals, the matrix, what became of problems.
fn block(set: &ComparedSet, names: &[String]) -> String {
    let last = set.ks.last().copied().unwrap_or(1);
    // All other k are in compare.json and on the page.
    let shown = report::contrast::shown_ks(&set.ks);
    let mut measures: Vec<String> = shown.iter().map(|k| format!("pass@{k}")).collect();
    measures.push(format!("distinct@{last}"));
    let mut rows = vec![[vec!["run".to_owned()], measures.clone()].concat()];
    for (name, summary) in names.iter().zip(&set.summaries) {
        let pass = shown.iter().map(|k| format!("{:.3}", summary.pass_at_k[k].value));
        let distinct = format!("{:.2}", summary.unique_correct[&last].value);
        rows.push([name.clone()].into_iter().chain(pass).chain([distinct]).collect());
    }
    let mut change_rows = vec![[vec![String::new()], names[1..].to_vec()].concat()];
    for measure in measures {
        let cell = |run: usize| {
            let tested = set.tested.get((run, 0), &measure);
            tested.as_ref().map(Tested::cell_with_interval).unwrap_or_default()
        };
        let cells: Vec<String> = (1..names.len()).map(cell).collect();
        change_rows.push([vec![measure], cells].concat());
    }
    let mut text = format!(
        "{} ({})\n{}\n\nchange from {} with its 95 % interval; {}; this pair of models only, seed variance not \
         included\n{}",
        set.name,
        counted(set.problems, "problem"),
        table::plain(&rows),
        names[0],
        set.tested.legend(),
        table::plain(&change_rows)
    );
    if names.len() > 2 {
        let mut rows = vec![[vec![String::new()], names.to_vec()].concat()];
        let cell = |tested: &Option<Tested>| tested.as_ref().map(Tested::cell).unwrap_or_default();
        for (name, row) in names.iter().zip(&set.matrix) {
            rows.push([vec![name.clone()], row.iter().map(cell).collect()].concat());
        }
        text.push_str(&format!(
            "\n\nrow minus column: pass@1 below the diagonal, pass@{last} above\n{}",
            table::plain(&rows)
        ));
    }
    for ((change, verdict), name) in set.changes.iter().zip(&set.verdicts).zip(&names[1..]) {
        text.push_str(&format!("\n\n{name}: {verdict}\n{}", of_change(change)));
    }
    text
}

fn of_change(change: &Change) -> String {
    let contrast = &change.contrast;
    let listed = |ids: &[String]| {
        let shown = ids.iter().take(4).cloned().collect::<Vec<_>>().join("; ");
        let more = if ids.len() > 4 { "; ..." } else { "" };
        let problems = counted(ids.len(), "problem");
        if ids.is_empty() { problems } else { format!("{problems} ({shown}{more})") }
    };
    format!(
        "{}\n{}Lost: {}\nGained: {}",
        matched(contrast),
        beyond_chance(change),
        listed(&change.lost),
        listed(&change.gained),
    )
}

/// Problems lost and gained beyond chance; without a second draw of the base, how to get one.
fn beyond_chance(change: &Change) -> String {
    match &change.beyond_chance {
        Some(lost) => format!("{}\n", report::contrast::beyond_chance(lost)),
        None => "To measure resampling noise, evaluate the base again with another --seed and name its folder with \
                 --second-draw\n"
            .into(),
    }
}

/// Diversity at equal accuracy, in words.
fn matched(contrast: &Contrast) -> String {
    let Some(at) = contrast.matched.last() else { return String::new() };
    let Matched { base, model, change, .. } = at;
    format!(
        "Distinct among {} on {} where the base and every model have as many: base {base:.2}, model {model:.2}, {}.",
        counted(at.right, "correct answer"),
        counted(at.problems, "problem"),
        in_words(change)
    )
}
