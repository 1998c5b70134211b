//! A ledger of modes: the exact log-probability of every listed correct answer at every checkpoint, turned into what a
//! model has left of the base's answers. Nothing is sampled.
//!
//! An answer's probability is the sum of those of its spellings, end of sequence included. It *survives* at a share s
//! where its probability is at least s times the base's.

use serde::{Deserialize, Serialize};
use tealight_core::display;

use crate::exact::ListedProblem;

/// The shares at which survival is counted.
pub const SHARES: [f64; 2] = [0.5, 0.1];
/// Lower ends of the bins of initial probability, the last open below.
pub const EDGES: [f64; 5] = [0.1, 0.01, 1e-3, 1e-4, 0.0];
const NAMES: [&str; 5] = [".1 or more", ".01 to .1", ".001 to .01", "1e-4 to .001", "below 1e-4"];

/// One listed correct answer of a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mode {
    /// The problem's id.
    pub problem: String,
    /// The class of the answer, as the verifier has it.
    pub answer: String,
    /// Token sequences that are scored as this answer.
    pub spellings: usize,
}

/// One checkpoint's probability of every answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The configuration's label; `base` of the base.
    pub objective: String,
    /// The run's seed.
    pub seed: Option<u64>,
    /// Training steps done.
    pub step: usize,
    /// Optimizer steps done.
    pub updates: usize,
    /// Pass@1 on the same problems by the samples of the evaluation, where there are some.
    pub sampled: Option<f64>,
    /// Natural log-probability of each answer.
    pub logp: Vec<f64>,
}

/// The ledger without its lines: what reports show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// The set that the problems are from.
    pub dataset: String,
    /// Temperature of the distributions.
    pub temperature: f64,
    /// Number of problems whose answers are listed.
    pub problems: usize,
    /// Token sequences that were scored at every checkpoint.
    pub spellings: usize,
    /// Answers by the base's probability of them.
    pub bins: Vec<Bin>,
    /// The base's point, in which every answer survives.
    pub base: Point,
    /// Every other checkpoint, run by run.
    pub points: Vec<Point>,
}

/// Answers of about the same initial probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Range of initial probability, such as `.01 to .1`.
    pub name: String,
    /// Number of answers in the range.
    pub answers: usize,
    /// The mean of the decimal logarithm of their initial probability; 0 where there are none.
    pub log10: f64,
}

/// One checkpoint in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The configuration's label; `base` of the base.
    pub objective: String,
    /// The run's seed.
    pub seed: Option<u64>,
    /// Training steps done.
    pub step: usize,
    /// Optimizer steps done.
    pub updates: usize,
    /// The probability of the listed answers, the mean over problems.
    pub listed: f64,
    /// Pass@1 on the same problems by samples.
    pub sampled: Option<f64>,
    /// `exp H` of the distribution over the listed answers, the mean over problems.
    pub effective: f64,
    /// `KL(p* || pi)` in nats over the listed answers, p* being the base's shares of them; the mean over problems.
    #[serde(default)]
    pub kl_pstar: f64,
    /// The share of answers that survive, for each of [`SHARES`].
    pub survival: Vec<f64>,
    /// The same in each bin; none where there are no answers.
    pub by_bin: Vec<Vec<Option<f64>>>,
}

impl Ledger {
    /// The numbers of `checkpoints`, all of the same answers in the same order; answers of a problem stand together.
    pub fn new(
        (dataset, temperature): (&str, f64),
        modes: &[Mode],
        base: &Scored,
        checkpoints: &[Scored],
    ) -> Self {
        let log10: Vec<f64> = base.logp.iter().map(|logp| logp / std::f64::consts::LN_10).collect();
        let bin_of = |log10: &f64| EDGES.iter().position(|edge| *log10 >= edge.log10());
        let bins: Vec<usize> =
            log10.iter().map(|log10| bin_of(log10).unwrap_or(EDGES.len() - 1)).collect();
        let to_point = |scored: &Scored| point(scored, modes, &base.logp, &bins);
        let bin = |(index, name): (usize, &&str)| {
            let in_bin = bins.iter().zip(&log10).filter(|(bin, _)| **bin == index);
            let answers = in_bin.clone().count();
            let sum: f64 = in_bin.map(|(_, log10)| log10).sum();
            Bin { name: (*name).to_owned(), answers, log10: sum / answers.max(1) as f64 }
        };
        Self {
            dataset: dataset.to_owned(),
            temperature,
            problems: modes.chunk_by(|a, b| a.problem == b.problem).count(),
            spellings: modes.iter().map(|mode| mode.spellings).sum(),
            bins: NAMES.iter().enumerate().map(bin).collect(),
            base: to_point(base),
            points: checkpoints.iter().map(to_point).collect(),
        }
    }

    /// How many answers are listed.
    pub fn answers(&self) -> usize {
        self.bins.iter().map(|bin| bin.answers).sum()
    }

    /// The checkpoints of one run, in order.
    pub fn run<'a>(
        &'a self,
        objective: &'a str,
        seed: u64,
    ) -> impl Iterator<Item = &'a Point> + Clone {
        self.points.iter().filter(move |p| p.objective == objective && p.seed == Some(seed))
    }
}

fn point(scored: &Scored, modes: &[Mode], base: &[f64], bins: &[usize]) -> Point {
    let mut of_problem = Vec::new();
    let mut rest = scored.logp.as_slice();
    for answers in modes.chunk_by(|a, b| a.problem == b.problem) {
        let (logps, others) = rest.split_at(answers.len());
        rest = others;
        let mass: f64 = logps.iter().map(|logp| logp.exp()).sum();
        // Sums over shares in log space: a mass of 1e-300 has an effective number all the same.
        let top = logps.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log_mass = top + logps.iter().map(|logp| (logp - top).exp()).sum::<f64>().ln();
        let entropy: f64 = logps
            .iter()
            .map(|logp| logp - log_mass)
            .map(|share| if share == f64::NEG_INFINITY { 0.0 } else { -share.exp() * share })
            .sum();
        of_problem.push((mass, entropy.exp()));
    }
    let kls = kl_pstar(modes, &scored.logp, base);
    let count = of_problem.len() as f64;
    let survives: Vec<Vec<bool>> = SHARES
        .iter()
        .map(|share| {
            // pi(y) >= s a(y), in logarithms.
            let at_least = |(own, base): (&f64, &f64)| *own >= base + share.ln();
            scored.logp.iter().zip(base).map(at_least).collect()
        })
        .collect();
    let share_of = |survives: &[bool], wanted: &dyn Fn(usize) -> bool| -> Option<f64> {
        let selected = survives.iter().enumerate().filter(|(place, _)| wanted(*place));
        let all = selected.clone().count();
        (all > 0).then(|| selected.filter(|(_, survives)| **survives).count() as f64 / all as f64)
    };
    let in_bins = |survives: &Vec<bool>| -> Vec<Option<f64>> {
        (0..EDGES.len()).map(|bin| share_of(survives, &|place| bins[place] == bin)).collect()
    };
    Point {
        objective: scored.objective.clone(),
        seed: scored.seed,
        step: scored.step,
        updates: scored.updates,
        listed: of_problem.iter().map(|(mass, _)| mass).sum::<f64>() / count,
        sampled: scored.sampled,
        kl_pstar: kls.iter().sum::<f64>() / count,
        effective: of_problem.iter().map(|(_, effective)| effective).sum::<f64>() / count,
        survival: survives.iter().map(|s| share_of(s, &|_| true).unwrap_or(0.0)).collect(),
        by_bin: survives.iter().map(in_bins).collect(),
    }
}

/// `KL(p* || pi)` of each problem.
fn kl_pstar(modes: &[Mode], logp: &[f64], base: &[f64]) -> Vec<f64> {
    let (mut own, mut of_base) = (logp, base);
    let mut next = |count: usize| {
        let part = |rest: &mut &[f64]| -> ListedProblem {
            let (some, others) = rest.split_at(count);
            *rest = others;
            ListedProblem { logp: some.to_vec(), total: None }
        };
        let (own, base) = (part(&mut own), part(&mut of_base));
        own.kl_from_base(&base)
    };
    modes.chunk_by(|a, b| a.problem == b.problem).map(|answers| next(answers.len())).collect()
}

/// Every line as CSV: checkpoint by checkpoint, answer by answer.
pub fn csv(modes: &[Mode], checkpoints: &[&Scored]) -> String {
    let mut text = "objective,seed,step,updates,problem,answer,spellings,logp\n".to_owned();
    for scored in checkpoints {
        let seed = scored.seed.map_or(String::new(), |seed| seed.to_string());
        let (step, updates) = (scored.step.to_string(), scored.updates.to_string());
        for (mode, logp) in modes.iter().zip(&scored.logp) {
            let (spellings, logp) = (mode.spellings.to_string(), logp.to_string());
            let answer: [&str; 4] = [&mode.problem, &mode.answer, &spellings, &logp];
            let run: [&str; 4] = [&scored.objective, &seed, &step, &updates];
            text.push_str(&display::csv_line(run.into_iter().chain(answer)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger of two problems with three answers and two runs of one objective, for tests of reports.
    fn example() -> Ledger {
        let mode = |problem: &str, answer: &str| Mode {
            problem: problem.into(),
            answer: answer.into(),
            spellings: 2,
        };
        let modes = [mode("p", "a"), mode("p", "b"), mode("q", "c")];
        let scored = |objective: &str, seed, step, p: [f64; 3]| Scored {
            objective: objective.into(),
            seed,
            step,
            updates: step,
            sampled: Some(0.3),
            logp: p.map(f64::ln).to_vec(),
        };
        let base = scored("base", None, 0, [0.2, 0.05, 2e-5]);
        let all = [
            scored("grpo", Some(0), 1, [0.3, 0.03, 1e-5]),
            scored("grpo", Some(0), 2, [0.7, 0.004, 4e-6]),
            scored("grpo", Some(1), 1, [0.2, 0.05, 2e-5]),
            scored("grpo", Some(1), 2, [0.6, 0.026, 1e-7]),
        ];
        Ledger::new(("countdown/test", 1.0), &modes, &base, &all)
    }

    #[test]
    fn survival_is_counted_by_the_initial_probability() {
        let ledger = example();
        assert_eq!((ledger.problems, ledger.answers(), ledger.spellings), (2, 3, 6));
        let answers: Vec<usize> = ledger.bins.iter().map(|bin| bin.answers).collect();
        assert_eq!(answers, [1, 1, 0, 0, 1]);
        assert!((ledger.bins[4].log10 - 2e-5_f64.log10()).abs() < 1e-12);
        // The base keeps all of itself; its mass and effective number by hand.
        assert_eq!(ledger.base.survival, [1.0, 1.0]);
        assert!((ledger.base.listed - (0.25 + 2e-5) / 2.0).abs() < 1e-12);
        let entropy = -(0.8_f64 * 0.8_f64.ln() + 0.2 * 0.2_f64.ln());
        assert!((ledger.base.effective - f64::midpoint(entropy.exp(), 1.0)).abs() < 1e-12);
        // .004 of .05 is below a tenth, 4e-6 of 2e-5 a fifth.
        let last = ledger.run("grpo", 0).last().unwrap();
        assert_eq!(last.by_bin[0], [Some(1.0), Some(0.0), None, None, Some(0.0)]);
        assert_eq!(last.by_bin[1], [Some(1.0), Some(0.0), None, None, Some(1.0)]);
        assert_eq!(last.survival, [1.0 / 3.0, 2.0 / 3.0]);
        // Of the base itself the distance from p* is -log of its mass, the mean over problems.
        let of_base = -f64::midpoint(0.25_f64.ln(), 2e-5_f64.ln());
        assert!((ledger.base.kl_pstar - of_base).abs() < 1e-9, "{}", ledger.base.kl_pstar);
        assert!(last.kl_pstar > 0.0);
        // An unchanged model has lost nothing.
        let same = ledger.run("grpo", 1).next().unwrap();
        assert_eq!((same.survival.clone(), same.effective), (vec![1.0; 2], ledger.base.effective));
    }

    #[test]
    fn fields_with_commas_are_quoted() {
        let modes = [Mode { problem: "1,2=3".into(), answer: "(1+2)".into(), spellings: 2 }];
        let scored = Scored {
            objective: "base".into(),
            seed: None,
            step: 0,
            updates: 0,
            sampled: None,
            logp: vec![-0.5],
        };
        let text = csv(&modes, &[&scored]);
        assert_eq!(text.lines().nth(1), Some("base,,0,0,\"1,2=3\",(1+2),2,-0.5"));
    }
}
