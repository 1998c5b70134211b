//! `tealight verify --audit FILE`: where a verifier and another one, or labels, disagree, and how often the verifier is
//! wrong.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde::Deserialize;
use tealight_core::lines::Lines;
use tealight_core::{fnv, output, regular};
use tealight_datasets::json;
use tealight_datasets::verify::math;
use tealight_eval::error_rates::{Rates, Stratum, columns, rates};

use super::judge::{Judge, Kind, Pair, Text};

/// A line of the file: a pair, and a label where a person judged it.
#[derive(Deserialize)]
struct Line {
    #[serde(flatten)]
    pair: Pair,
    #[serde(default, alias = "correct")]
    label: Option<bool>,
}

fn read(line: &[u8]) -> Result<Line> {
    Ok(serde_json::from_value(json::parse(std::str::from_utf8(line)?)?)?)
}

/// One pair with all that is said of it.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its line in the file, counted from 1.
    pub line: usize,
    /// The gold answer.
    pub gold: String,
    /// The answer that is judged.
    pub answer: String,
    /// The verifier's verdict.
    pub verdict: Kind,
    /// The other verifier's; none without another one.
    pub other: Option<Kind>,
    /// Whether the answer is truly correct, where somebody said so.
    pub label: Option<bool>,
}

impl Case {
    /// Whether one of the two accepts the answer and the other does not.
    pub fn is_disputed(&self) -> bool {
        self.other.is_some_and(|other| (other == Kind::Correct) != (self.verdict == Kind::Correct))
    }

    /// Where labels are drawn from: what both say, as far as it matters for a reward.
    fn stratum(&self) -> (bool, Option<bool>) {
        (self.verdict == Kind::Correct, self.other.map(|other| other == Kind::Correct))
    }
}

/// Pairs in dispute that are alike.
#[derive(Debug)]
pub struct Dispute<'a> {
    /// The kind of their gold answers.
    pub gold: String,
    /// The verifier's verdict on them.
    pub verdict: Kind,
    /// The other verifier's.
    pub other: Kind,
    /// The pairs, in order.
    pub cases: Vec<&'a Case>,
}

/// All pairs of a file.
pub struct Audit {
    /// The pairs, in order.
    pub cases: Vec<Case>,
    /// The names of the verifiers.
    pub names: (String, Option<String>),
    labels: PathBuf,
}

impl Audit {
    /// Judges the pairs of `file` by `judge` and by `against`: another verifier, or a CSV of what it said. Labels are
    /// those of the file's lines and of `FILE.labels.csv`.
    pub fn open(file: &Path, judge: &Judge, against: Option<&str>) -> Result<Self> {
        let shown = file.display();
        let reader = regular::open(file).with_context(|| format!("{shown}: cannot be read"))?;
        let mut lines = Vec::new();
        for line in Lines::new(BufReader::new(reader)) {
            let line = line.with_context(|| shown.to_string())?;
            if !line.bytes.trim_ascii().is_empty() {
                lines.push(line);
            }
        }
        let cases: Result<Vec<Case>> = lines
            .par_iter()
            .map(|line| {
                let read: Line = read(&line.bytes).with_context(|| {
                    format!("{shown}:{}: not an object with `gold` and `answer`, each a text or a number", line.number)
                })?;
                let verdict = judge.judge(read.pair.clone())?.kind;
                let Pair { gold, answer, .. } = read.pair;
                let (gold, answer) = (gold.into_string(), answer.into_string());
                Ok(Case { line: line.number, gold, answer, verdict, other: None, label: read.label })
            })
            .collect();
        let mut cases = cases?;
        if cases.is_empty() {
            bail!("{shown}: no pair");
        }
        if let Some(against) = against {
            let others = match Path::new(against).is_file() {
                true => of_csv(Path::new(against), &cases)?,
                false => of_verifier(against, &cases)?,
            };
            for (case, other) in cases.iter_mut().zip(others) {
                case.other = Some(other);
            }
        }
        let mut labels = file.as_os_str().to_owned();
        labels.push(".labels.csv");
        let labels = PathBuf::from(labels);
        if labels.symlink_metadata().is_ok_and(|kind| kind.is_symlink()) {
            bail!("{}: a link, through which no label is written: remove it", labels.display());
        }
        if labels.is_file() {
            for (at, label) in by_line(&labels, "label", &cases)? {
                cases[at].label = label;
            }
        }
        let names = (judge.name().to_owned(), against.map(str::to_owned));
        Ok(Self { cases, names, labels })
    }

    /// The rates of the verifier, from the labels; none where a stratum has no label.
    pub fn rates(&self) -> Option<Rates> {
        rates(&self.strata().into_values().collect::<Vec<_>>())
    }

    /// The strata, by what the verifier and the other one accept.
    pub fn strata(&self) -> BTreeMap<(bool, Option<bool>), Stratum> {
        let mut strata = BTreeMap::new();
        for case in &self.cases {
            let (is_accepted, other) = case.stratum();
            let empty = Stratum { is_accepted, size: 0, labelled: 0, correct: 0 };
            let stratum: &mut Stratum = strata.entry((is_accepted, other)).or_insert(empty);
            stratum.size += 1;
            stratum.labelled += usize::from(case.label.is_some());
            stratum.correct += usize::from(case.label == Some(true));
        }
        strata
    }

    /// How many pairs are disputed, by the kind of the gold answer and what both say, the most frequent first.
    pub fn disputes(&self) -> Vec<Dispute<'_>> {
        let mut kinds: BTreeMap<(String, Kind, Kind), Vec<&Case>> = BTreeMap::new();
        for case in self.cases.iter().filter(|case| case.is_disputed()) {
            let Some(other) = case.other else { continue };
            kinds.entry((math::kind_of(&case.gold), case.verdict, other)).or_default().push(case);
        }
        let dispute = |((gold, verdict, other), cases)| Dispute { gold, verdict, other, cases };
        let mut disputes: Vec<Dispute<'_>> = kinds.into_iter().map(dispute).collect();
        disputes.sort_by_key(|dispute| std::cmp::Reverse(dispute.cases.len()));
        disputes
    }

    /// The pairs without a label, in the order in which labels are worth most: from every stratum in turn, those in
    /// dispute first, and within a stratum in an order that is random and always the same.
    pub fn to_label(&self) -> Vec<usize> {
        let mut strata: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (index, case) in self.cases.iter().enumerate() {
            strata.entry((!case.is_disputed(), case.stratum())).or_default().push(index);
        }
        let mut ordered: Vec<(usize, usize)> = Vec::new();
        for members in strata.values_mut() {
            members.sort_by_key(|index| {
                let case = &self.cases[*index];
                fnv(format!("{}\n{}\n{}", case.line, case.gold, case.answer).bytes())
            });
            ordered.extend(members.iter().enumerate().map(|(rank, index)| (rank, *index)));
        }
        // Stable: of one rank, strata in dispute come first.
        ordered.sort_by_key(|(rank, _)| *rank);
        let is_open = |(_, index): &(usize, usize)| self.cases[*index].label.is_none();
        ordered.into_iter().filter(is_open).map(|(_, index)| index).collect()
    }

    /// Keeps a label, in memory and in `FILE.labels.csv`.
    pub fn label(&mut self, index: usize, is_correct: bool) -> Result<()> {
        let describe = || format!("{}: cannot be written", self.labels.display());
        let is_new = !self.labels.exists();
        let mut options = File::options();
        let file = output::open(options.append(true).create(true), &self.labels);
        let mut file = file.with_context(describe)?;
        let head = if is_new { "line,label\n" } else { "" };
        let line = format!("{head}{},{is_correct}\n", self.cases[index].line);
        file.write_all(line.as_bytes()).with_context(describe)?;
        self.cases[index].label = Some(is_correct);
        Ok(())
    }
}

/// Another verifier's verdicts on the same pairs.
fn of_verifier(spec: &str, cases: &[Case]) -> Result<Vec<Kind>> {
    let judge = Judge::open(Some(spec), None)
        .with_context(|| format!("--against {spec}: neither a file nor a verifier"))?;
    let text = |text: &str| Text::String(text.to_owned());
    cases
        .par_iter()
        .map(|case| {
            let pair = Pair {
                gold: text(&case.gold),
                answer: text(&case.answer),
                context: None,
                prompt: None,
            };
            Ok(judge.judge(pair)?.kind)
        })
        .collect()
}

/// The verdicts in a CSV: a column `correct` (true, false, or empty for unjudged), and `line` where not all pairs are
/// in it in order.
fn of_csv(path: &Path, cases: &[Case]) -> Result<Vec<Kind>> {
    let rows = columns(path, "correct")?;
    let kind = |correct: Option<bool>| match correct {
        Some(true) => Kind::Correct,
        Some(false) => Kind::Wrong,
        None => Kind::Unjudged,
    };
    if rows.iter().all(|(line, _)| line.is_none()) {
        if rows.len() != cases.len() {
            bail!(
                "{}: {} rows for {} pairs; add a column `line` with the line of each pair",
                path.display(),
                rows.len(),
                cases.len()
            );
        }
        return Ok(rows.into_iter().map(|(_, correct)| kind(correct)).collect());
    }
    let known = by_line(path, "correct", cases)?;
    Ok((0..cases.len()).map(|at| kind(known.get(&at).copied().flatten())).collect())
}

/// The column `name` of a CSV by the index of the pair in its column `line`.
fn by_line(path: &Path, name: &str, cases: &[Case]) -> Result<BTreeMap<usize, Option<bool>>> {
    let mut known = BTreeMap::new();
    for (line, value) in columns(path, name)? {
        let line = line.with_context(|| format!("{}: no column `line`", path.display()))?;
        // Cases are in the order of their lines.
        let at = cases.binary_search_by_key(&line, |case| case.line).ok();
        let at = at.with_context(|| {
            format!("{}: line {line} is no pair of the audited file", path.display())
        })?;
        if known.insert(at, value).is_some() {
            bail!("{}: line {line} is there twice", path.display());
        }
    }
    Ok(known)
}
