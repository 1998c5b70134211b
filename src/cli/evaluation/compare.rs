//! `tealight compare`.

use anyhow::Result;
use tealight_eval::contrast::{Contrast, DIFFICULTIES, NEEDS_SECOND_DRAW, Transitions};
use tealight_eval::inference::cells;
use tealight_eval::number::counted;
use tealight_eval::report;
use tealight_eval::transition::Change;

use crate::app::compare::{self, CompareOptions, ComparedSet};
use crate::cli::table;
use crate::system::telemetry::print;

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

/// A set's tables: numbers with differences, the matrix, what became of problems.
fn block(set: &ComparedSet, names: &[String]) -> String {
    let last = set.ks.last().copied().unwrap_or(1);
    // All other k are in compare.json and on the page.
    let shown = report::contrast::shown_ks(&set.ks);
    let mut header = vec!["run".to_owned()];
    header.extend(shown.iter().map(|k| format!("pass@{k}")));
    header.push(format!("distinct@{last}"));
    let mut rows = vec![header];
    let contrasts: Vec<&Contrast> = set.changes.iter().map(|change| &change.contrast).collect();
    let against = cells(&report::contrast::changes(&contrasts, &shown), true);
    let against = [vec![vec![]], against].concat();
    for ((name, summary), differences) in names.iter().zip(&set.summaries).zip(against) {
        let pass = shown.iter().map(|k| format!("{:.3}", summary.pass_at_k[k].value));
        let values = pass.chain([format!("{:.2}", summary.unique_correct[&last].value)]);
        let with_change = |(place, value): (usize, String)| match differences.get(place) {
            None => value,
            Some(difference) => format!("{value} ({difference})"),
        };
        rows.push([name.clone()].into_iter().chain(values.enumerate().map(with_change)).collect());
    }
    let mut text = format!(
        "{} ({}); in parentheses the change from {}; * p < .05 after Holm's adjustment over the table; this \
         pair of models only, seed variance not included\n{}",
        set.name,
        counted(set.problems, "problem"),
        names[0],
        table::plain(&rows)
    );
    if names.len() > 2 {
        let mut rows = vec![[vec![String::new()], names.to_vec()].concat()];
        for (name, row) in names.iter().zip(cells(&set.matrix, true)) {
            rows.push([vec![name.clone()], row].concat());
        }
        text.push_str(&format!(
            "\n\nrow minus column: pass@1 below the diagonal, pass@{last} above\n{}",
            table::plain(&rows)
        ));
    }
    for (change, name) in set.changes.iter().zip(&names[1..]) {
        text.push_str(&format!("\n\n{}", of_change(change, name)));
    }
    text
}

fn of_change(change: &Change, name: &str) -> String {
    let contrast = &change.contrast;
    let listed = |ids: &[String]| {
        let shown = ids.iter().take(4).cloned().collect::<Vec<_>>().join("; ");
        let more = if ids.len() > 4 { "; ..." } else { "" };
        let problems = counted(ids.len(), "problem");
        if ids.is_empty() { problems } else { format!("{problems} ({shown}{more})") }
    };
    format!(
        "{name}: {}\n{}\n{}Lost: {}\nGained: {}",
        contrast.crossing,
        matched(contrast),
        retained(contrast),
        listed(&change.lost),
        listed(&change.gained),
    )
}

/// Problems retained, gained and moved between difficulties; without a second draw of the base, how to get one.
fn retained(contrast: &Contrast) -> String {
    let Some(of_run) = &contrast.transitions else {
        return format!(
            "{}\n{}\n{NEEDS_SECOND_DRAW}: evaluate the base again with another --seed and name its folder with \
             --second-draw\n",
            table::plain(&one_draw(&contrast.one_draw_transitions)),
            report::contrast::ONE_DRAW
        );
    };
    format!(
        "{}\n{}\nNumber of problems. Rows: difficulty in the base's second draw. Columns: difficulty for the model, in \
         parentheses in the base's first draw, which shows resampling noise\n",
        report::contrast::retained(contrast),
        table::plain(&transitions(of_run))
    )
}

/// How many problems went where from the base's first draw.
fn one_draw(counts_of_draw: &[[f64; 4]; 4]) -> Vec<Vec<String>> {
    let header = [vec!["base \\ model".to_owned()], DIFFICULTIES.map(String::from).to_vec()];
    let rows = DIFFICULTIES.iter().zip(counts_of_draw).map(|(from, counts)| {
        let cells = counts.iter().map(|count| format!("{count:.0}"));
        std::iter::once((*from).to_owned()).chain(cells).collect()
    });
    std::iter::once(header.concat()).chain(rows).collect()
}

/// Diversity at equal accuracy, in words; where features are known, theirs as a table.
fn matched(contrast: &Contrast) -> String {
    let Some(at) = contrast.most_matched() else { return String::new() };
    let (_, base, model, difference) = &at.measures[0];
    let mut text = format!(
        "Distinct among {} on {} where the base and every model have as many: base {base:.2}, model {model:.2}, {}.",
        counted(at.right, "correct answer"),
        counted(at.problems, "problem"),
        report::contrast::effect(difference)
    );
    if !at.features().is_empty() {
        let header = ["features of these answers", "base", "model", "change from base"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        rows.extend(at.features().iter().map(|(name, base, model, difference)| {
            let difference = report::contrast::effect(difference);
            vec![name.clone(), format!("{base:.3}"), format!("{model:.3}"), difference]
        }));
        text.push_str(&format!("\n{}", table::plain(&rows)));
    }
    text
}

/// How many problems went where, beside where the base itself has them.
fn transitions(of_run: &Transitions) -> Vec<Vec<String>> {
    let mut rows =
        vec![[vec!["base \\ model".to_owned()], DIFFICULTIES.map(String::from).to_vec()].concat()];
    let pairs = of_run.model.iter().zip(of_run.null);
    for (from, (counts, again)) in DIFFICULTIES.iter().zip(pairs) {
        let cells =
            counts.iter().zip(again).map(|(count, again)| format!("{count:.0} ({again:.0})"));
        rows.push(std::iter::once((*from).to_owned()).chain(cells).collect());
    }
    rows
}
