//! A study on several tasks as rows of tables.

use super::super::result::Interval;
use super::super::verdict::{level_of, short, signed_with_interval};
use super::{AcrossTasks, PairAcrossTasks, PairOnTask, TaskFronts};

/// What a row of [`task_rows`] is.
pub const TASKS_NOTE: &str = "Each task by itself: the base, and the comparison of the task's verdict at the highest \
level of Pass@1 that all objectives reach, or that two reach where there is none.";
/// What a row of [`pair_rows`] is.
pub const PAIRS_NOTE: &str = "Each pair of objectives: the first minus the second, mean over the levels of Pass@1 \
that both reach in every seed of a task, with 95 % intervals over seeds and problems that are not adjusted for the \
number of pairs. On a task, * marks p < .05 after Holm's adjustment for all tested pairs of all tasks; after a mean, \
* marks that the interval adjusted for all tested pairs (Bonferroni) is above or below 0. Levels differ between tasks. \
The last column is the average over the tasks that compare the pair, and over no other tasks; a pair that one task \
alone compares has none.";

/// Each task's base and verdict, one row a task, under a header.
pub fn task_rows(studies: &[TaskFronts]) -> Vec<Vec<String>> {
    let measure = studies.iter().find_map(|study| study.fronts.as_ref()).map(|one| one.measure);
    let measure = measure.map_or("measure".to_owned(), |measure| measure.to_string());
    let header =
        ["task", "base pass@1", &format!("base {measure}"), "level", "comparison", "difference"];
    let row = |study: &TaskFronts| {
        let mut cells = vec![study.task.clone()];
        let Some(fronts) = &study.fronts else {
            cells.extend(["-", "-", "-", "no fronts", "-"].map(str::to_owned));
            return cells;
        };
        cells.push(short(fronts.base.pass_at_1.value));
        cells.push(short(fronts.base.value.value));
        match &fronts.verdict {
            Some(verdict) => cells.extend([
                level_of(verdict.level),
                format!("{} - {}", verdict.first, verdict.second),
                signed_with_interval(&verdict.difference, fronts.confidence),
            ]),
            None => {
                cells.extend(["-", "no level is reached by two objectives", "-"].map(str::to_owned))
            }
        }
        cells
    };
    std::iter::once(header.map(str::to_owned).to_vec()).chain(studies.iter().map(row)).collect()
}

/// One row a pair, under a header: the mean difference on each task, and over all of them, with intervals.
pub fn pair_rows(across: &AcrossTasks) -> Vec<Vec<String>> {
    rows_with(across, |interval, mark| {
        format!("{:+.3}{mark} ({:+.3} to {:+.3})", interval.value, interval.low, interval.high)
    })
}

/// [`pair_rows`] for a terminal: without the intervals of single tasks.
pub fn short_pair_rows(across: &AcrossTasks) -> Vec<Vec<String>> {
    rows_with(across, |interval, mark| format!("{:+.3}{mark}", interval.value))
}

/// One row a pair: differences on tasks as `on_task` writes them, and the mean with its interval.
fn rows_with(
    across: &AcrossTasks,
    on_task: impl Fn(&Interval, &str) -> String,
) -> Vec<Vec<String>> {
    let header = std::iter::once("pair".to_owned())
        .chain(across.tasks.iter().cloned())
        .chain(std::iter::once("mean over tasks".to_owned()));
    let mean = |pair: &PairAcrossTasks| {
        let mark = if pair.sign_of_mean().is_some() { "*" } else { "" };
        let mean = pair.mean.map_or("-".to_owned(), |Interval { value, low, high }| {
            format!("{value:+.3}{mark} ({low:+.3} to {high:+.3})")
        });
        match pair.differences().count() {
            all if all == across.tasks.len() => mean,
            some => format!("{mean}, {some} of {} tasks", across.tasks.len()),
        }
    };
    let row = |pair: &PairAcrossTasks| {
        let on = |on: &PairOnTask| match &on.difference {
            Some(difference) => on_task(difference, if on.is_significant { "*" } else { "" }),
            None => "no level in common".to_owned(),
        };
        std::iter::once(format!("{} - {}", pair.first, pair.second))
            .chain(pair.tasks.iter().map(on))
            .chain(std::iter::once(mean(pair)))
            .collect()
    };
    std::iter::once(header.collect()).chain(across.pairs.iter().map(row)).collect()
}
