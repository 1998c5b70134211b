//! Several evaluations side by side, problem by problem: what was kept, lost and gained.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use anyhow::{Result, bail};
use serde::Serialize;

use crate::audit::Lost;
use crate::contrast::{Contrast, Evaluations};
use crate::inference::{Effect, paired};
use crate::measure::pass_at_k::tally_pass_at_k;
use crate::number::counted;
use crate::results::{Question, Results, SetResult};
use crate::{Summary, Tally};

/// One set of problems, evaluated by several models: everything in the same order of problems.
pub struct Aligned<'a> {
    /// The set's name.
    pub name: String,
    /// The question of each problem, in the same order.
    pub questions: Cow<'a, [Question]>,
    /// The counts of each model, those of the results where all problems are there in this order.
    pub runs: Vec<Cow<'a, [Tally]>>,
    /// The counts of the first run's model drawn again, with random numbers of its own.
    pub second: Option<Cow<'a, [Tally]>>,
    /// The numbers of each model on these problems.
    pub summaries: Vec<Summary>,
    /// The k of the numbers.
    pub ks: Vec<usize>,
}

/// Brings the sets that all evaluations share into one order. Sets are matched by name, file or problems; problems by
/// id; so are those of `second`, the first run's model drawn again.
///
/// # Errors
/// No shared set; sets with other problems, unless `intersects`, when those that all have are kept.
pub fn align<'a>(
    runs: &[(String, &'a Results)],
    second: Option<&(String, &'a Results)>,
    intersects: bool,
) -> Result<(Vec<Aligned<'a>>, Vec<String>)> {
    let everyone: Vec<(String, &'a Results)> = runs.iter().chain(second).cloned().collect();
    let Some(((first_name, first), others)) = everyone.split_first() else {
        bail!("there is nothing to compare");
    };
    let (mut aligned, mut notes) = (Vec::new(), Vec::new());
    for set in &first.sets {
        let all: Option<Vec<&'a SetResult>> = std::iter::once(Some(set))
            .chain(others.iter().map(|(_, run)| run.same_set(set)))
            .collect();
        let Some(all) = all else {
            notes.push(format!("{}: not evaluated by every run, left out", set.name));
            continue;
        };
        for (other, (name, _)) in all[1..].iter().zip(others) {
            if other.name != set.name {
                let called = &other.name;
                notes.push(format!(
                    "{}: called {called} in {name}, with the same problems",
                    set.name
                ));
            }
        }
        let ids = |set: &'a SetResult| -> HashSet<&'a str> {
            set.problems.iter().map(|tally| tally.problem.as_str()).collect()
        };
        let mut shared = ids(set);
        for (other, (name, _)) in all[1..].iter().zip(others) {
            let theirs = ids(other);
            if theirs != shared && !intersects {
                bail!(
                    "{}: {first_name} and {name} were evaluated on different problems: {}; compare what \
                     both have with --intersect",
                    set.name,
                    difference(&shared, &theirs)
                );
            }
            shared.retain(|id| theirs.contains(id));
        }
        if shared.is_empty() {
            bail!("{}: the runs share no problem", set.name);
        }
        let left_out = |name: &str, set: &SetResult| {
            let count = set.problems.len() - shared.len();
            (count > 0).then(|| format!("{count} of {} of {name}", set.problems.len()))
        };
        let names = std::iter::once(first_name).chain(others.iter().map(|(name, _)| name));
        let out: Vec<String> =
            names.zip(&all).filter_map(|(name, set)| left_out(name, set)).collect();
        if !out.is_empty() {
            let problems = counted(shared.len(), "problem");
            let out = out.join(", ");
            notes.push(format!("{}: {problems} that all runs have; left out: {out}", set.name));
        }
        let samples: Vec<String> = all.iter().map(|set| set.summary.samples_each()).collect();
        if samples.iter().any(|n| *n != samples[0]) {
            let samples = samples.join(", ");
            notes.push(format!(
                "{}: {samples} samples a problem: with fewer samples fewer problems are solved, so the problems lost and \
                 gained do not compare the models; Pass@k and distinct@k do",
                set.name
            ));
        }
        aligned.push(one(set, &all, &shared, second.is_some())?);
    }
    if aligned.is_empty() {
        let named = |(run, results): &(String, &Results)| {
            let names: Vec<&str> = results.sets.iter().map(|set| set.name.as_str()).collect();
            format!("{run} has {}", names.join(", "))
        };
        bail!(
            "the runs share no set: {}; sets are matched by name, which eval --name gives them",
            everyone.iter().map(named).collect::<Vec<_>>().join("; ")
        );
    }
    Ok((aligned, notes))
}

/// The ids that only one of two sets has, the first few of each.
fn difference(a: &HashSet<&str>, b: &HashSet<&str>) -> String {
    let only = |a: &HashSet<&str>, b: &HashSet<&str>| {
        let mut ids: Vec<&str> = a.difference(b).copied().collect();
        ids.sort_unstable();
        let shown = ids.iter().take(5).copied().collect::<Vec<_>>().join(", ");
        let more = if ids.len() > 5 { ", ..." } else { "" };
        (!ids.is_empty()).then(|| format!("{} only in the {{}} ({shown}{more})", ids.len()))
    };
    let parts = [(only(a, b), "first"), (only(b, a), "second")];
    let parts = parts.into_iter().filter_map(|(part, which)| Some(part?.replace("{}", which)));
    parts.collect::<Vec<_>>().join("; ")
}

fn one<'a>(
    first: &'a SetResult,
    all: &[&'a SetResult],
    shared: &HashSet<&str>,
    has_second: bool,
) -> Result<Aligned<'a>> {
    // A problem that one of them could not be judged on is none that they can be compared on.
    let unjudged: HashSet<&str> = all
        .iter()
        .flat_map(|set| &set.problems)
        .filter(|tally| tally.samples == 0)
        .map(|tally| tally.problem.as_str())
        .collect();
    let order: Vec<usize> = (0..first.problems.len())
        .filter(|i| shared.contains(first.problems[*i].problem.as_str()))
        .filter(|i| !unjudged.contains(first.problems[*i].problem.as_str()))
        .collect();
    let in_order = |set: &&'a SetResult| -> Cow<'a, [Tally]> {
        let ids = order.iter().map(|i| &first.problems[*i].problem);
        if ids.clone().eq(set.problems.iter().map(|tally| &tally.problem)) {
            return Cow::Borrowed(&set.problems);
        }
        let known: HashMap<&str, &Tally> =
            set.problems.iter().map(|tally| (tally.problem.as_str(), tally)).collect();
        ids.map(|id| known[id.as_str()].clone()).collect()
    };
    let mut runs: Vec<Cow<'a, [Tally]>> = all.iter().map(in_order).collect();
    let questions = match order.len() == first.problems.len() {
        true => Cow::Borrowed(&first.questions[..order.len().min(first.questions.len())]),
        false => order.iter().filter_map(|i| first.questions.get(*i).cloned()).collect(),
    };
    let n = all.iter().map(|set| set.summary.n).min().unwrap_or(0);
    let mut ks: Vec<usize> = first.summary.pass_at_k.keys().copied().filter(|k| *k <= n).collect();
    ks = crate::report::grid(&ks, n);
    let second = if has_second { runs.pop() } else { None };
    Ok(Aligned {
        name: first.name.clone(),
        questions,
        summaries: runs.iter().map(|run| Summary::new(run, &ks)).collect::<Result<_, _>>()?,
        runs,
        second,
        ks,
    })
}

/// The transitions of the problems of one model to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Differences.
    #[serde(flatten)]
    pub contrast: Contrast,
    /// What was lost and gained beyond chance, where the base was drawn again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond_chance: Option<Lost>,
    /// Problems that the base solved and this one never did.
    pub lost: Vec<String>,
    /// Problems that only this one solved.
    pub gained: Vec<String>,
}

impl Aligned<'_> {
    /// The transitions of run 0's problems to run `run`.
    pub fn change(&self, run: usize) -> Change {
        let (base, tuned) = (&self.runs[0], &self.runs[run]);
        let table: Vec<&[Tally]> = self.runs[1..].iter().map(AsRef::as_ref).collect();
        let evaluations = Evaluations { base, runs: &[tuned], table: &table };
        let only = |a: &[Tally], b: &[Tally]| -> Vec<String> {
            let pairs = a.iter().zip(b).filter(|(a, b)| a.correct > 0 && b.correct == 0);
            pairs.map(|(a, _)| a.problem.clone()).collect()
        };
        Change {
            contrast: Contrast::new(&evaluations, &self.ks),
            beyond_chance: self.second.as_ref().and_then(|_| Lost::new(self, run)),
            lost: only(base, tuned),
            gained: only(tuned, base),
        }
    }

    /// The largest k.
    pub fn most(&self) -> usize {
        self.ks.last().copied().unwrap_or(1)
    }

    /// The difference of Pass@k of the first run from the second.
    pub fn difference(&self, (first, second): (usize, usize), k: usize) -> Effect {
        let values = |run: &[Tally]| -> Vec<f64> {
            run.iter().map(|tally| tally_pass_at_k(tally, k)).collect()
        };
        paired(&values(&self.runs[first]), &values(&self.runs[second]), 1.0).within(-1.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn results(name: &str, correct: &[(&str, usize)]) -> Results {
        let problems = correct.iter().map(|(id, correct)| fixtures::tally(id, 8, *correct));
        fixtures::results(name, fixtures::set("set", problems.collect(), &[1, 8]))
    }

    #[test]
    fn changes_are_counted_by_problem_and_by_chance() {
        let base = results("base", &[("a", 8), ("b", 4), ("c", 1), ("d", 0)]);
        // In another order, as another machine may have it.
        let tuned = results("tuned", &[("d", 2), ("c", 0), ("b", 8), ("a", 8)]);
        let runs = [("base".to_owned(), &base), ("tuned".to_owned(), &tuned)];
        let second = results("base", &[("b", 2), ("a", 8), ("d", 0), ("c", 0)]);
        let second = ("again".to_owned(), &second);
        let (aligned, _) = align(&runs, Some(&second), false).unwrap();
        assert_eq!((aligned[0].runs.len(), aligned[0].summaries.len()), (2, 2));
        let change = aligned[0].change(1);
        assert_eq!((change.lost, change.gained), (vec!["c".to_owned()], vec!["d".to_owned()]));
        let contrast = change.contrast;
        assert_eq!((contrast.base_solved, contrast.retained, contrast.newly_solved), (3, 2.0, 1.0));
        // By hand: in 8 tries the second draw solves a and b, the model never c and surely d.
        let lost = change.beyond_chance.unwrap();
        assert_eq!((lost.tries, lost.has_second_draw), (8, true));
        assert_eq!((lost.lost.all, lost.lost.by_chance), (0.0, 0.0));
        assert_eq!((lost.gained.all, lost.gained.by_chance), (1.0, 1.0));
        assert!((contrast.pass[0].1.value - 0.625 / 4.0).abs() < 1e-12);
        // Without a second draw chance cannot be told: runs of one seed share their random numbers.
        let (aligned_alone, _) = align(&runs, None, false).unwrap();
        let alone = aligned_alone[0].change(1);
        assert_eq!(alone.beyond_chance, None);
        let alone = alone.contrast;
        assert_eq!(alone.pass, contrast.pass);
        // A pair has one test, whichever table shows it.
        let changes = [aligned[0].change(1)];
        let tested = crate::report::contrast::tested(&aligned[0], &changes);
        let matrix = crate::report::contrast::matrix(&aligned[0], &tested);
        assert_eq!((matrix[1][0], matrix[1][1]), (tested.get((1, 0), "pass@1"), None));
        assert_eq!(matrix[1][0].unwrap().effect.p_value, changes[0].contrast.pass[0].1.p_value);
    }

    #[test]
    fn problems_in_one_order_are_compared_without_a_copy() {
        let base = results("base", &[("a", 8), ("b", 4)]);
        let (same, turned) =
            (results("same", &[("a", 2), ("b", 0)]), results("turned", &[("b", 0), ("a", 2)]));
        let runs = [&base, &same, &turned].map(|run| (run.model.clone(), run));
        let (aligned, _) = align(&runs, None, false).unwrap();
        let is_copy = |run: &Cow<'_, [Tally]>| matches!(run, Cow::Owned(_));
        assert_eq!(aligned[0].runs.iter().map(is_copy).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(aligned[0].runs[1], aligned[0].runs[2]);
    }

    #[test]
    fn other_problems_are_refused_unless_asked_for() {
        let one = results("one", &[("a", 1), ("b", 2)]);
        let two = results("two", &[("b", 2), ("c", 3)]);
        let runs = [("one".to_owned(), &one), ("two".to_owned(), &two)];
        let message = align(&runs, None, false).err().unwrap().to_string();
        assert!(
            message.contains("1 only in the first (a)") && message.contains("(c)"),
            "{message}"
        );
        let (aligned, notes) = align(&runs, None, true).unwrap();
        assert_eq!(aligned[0].runs[0].len(), 1);
        let left_out = "1 problem that all runs have; left out: 1 of 2 of one, 1 of 2 of two";
        assert!(notes[0].ends_with(left_out), "{}", notes[0]);
    }
}
