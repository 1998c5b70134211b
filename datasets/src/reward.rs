//! Graded rewards: how much a completion earns, from a verifier that grades or from several with weights.

use std::sync::Arc;

use crate::verify::{self, program::is_reached, text_class};
use crate::{CompletionText, DataError, Grade, Grading, Problem, Result, Verdict, Verifier, judge};

/// Longest name of a reward in logs, in characters.
const MAX_NAME: usize = 48;

/// Most verifiers that reward together.
const MAX_VERIFIERS: usize = 64;

/// Why a threshold is refused.
const NOT_GRADED: &str = "--correct-threshold has no effect on rewards of 0 and 1: it is for verifiers that grade, such \
                          as python: and program:, and for several --verifier";

/// The verifiers that reward completions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rewards {
    /// The specification of each verifier, as [`verify::open`] reads it; none for the dataset's own.
    pub verifiers: Vec<String>,
    /// The weight of each; none for equal ones. Only ratios matter: rewards are weighted means.
    pub weights: Vec<f64>,
    /// The least reward of a correct completion; 1 unless given.
    pub threshold: Option<f64>,
    /// The function that names the solution classes of correct completions, in place of the verifier.
    pub classes: Option<String>,
}

impl Rewards {
    /// The verifier with the solution classes of the function, where there is one.
    ///
    /// # Errors
    /// A function that cannot be loaded.
    pub fn classed(&self, verifier: Arc<dyn Verifier>) -> Result<Arc<dyn Verifier>> {
        match &self.classes {
            Some(spec) => verify::WithClasses::open(spec, verifier),
            None => Ok(verifier),
        }
    }

    /// One verifier of binary rewards.
    pub fn by(verifier: Option<String>) -> Self {
        Self { verifiers: verifier.into_iter().collect(), ..Self::default() }
    }

    /// Refuses too many verifiers, and weights and a threshold that do not go with them.
    pub fn check(&self) -> Result<()> {
        let refused =
            |spec: &str, what: String| Err(DataError::Verifier { spec: spec.into(), what });
        let (verifiers, weights) = (self.verifiers.len(), self.weights.len());
        if verifiers > MAX_VERIFIERS {
            let what = format!("{verifiers} verifiers; at most {MAX_VERIFIERS} reward together");
            return refused(&self.verifiers[0], what);
        }
        let all = match verifiers {
            0 => "default".to_owned(),
            _ => self.verifiers.join("`, `"),
        };
        if weights > 0 && verifiers < 2 {
            return refused(&all, "--reward-weights is for several: give --verifier twice".into());
        }
        if weights > 0 && weights != verifiers {
            return refused(&all, format!("{verifiers} verifiers and {weights} --reward-weights"));
        }
        if let Some(weight) =
            self.weights.iter().find(|weight| !(**weight > 0.0 && weight.is_finite()))
        {
            return refused(&all, format!("the weight {weight} is not a finite number above 0"));
        }
        let Some(threshold) = self.threshold else { return Ok(()) };
        if !(threshold > 0.0 && threshold <= 1.0) {
            return refused(
                &all,
                format!("the threshold {threshold} is not above 0 and at most 1"),
            );
        }
        match verifiers {
            0 => refused(&all, NOT_GRADED.into()),
            _ => Ok(()),
        }
    }

    /// Opens the verifiers as one; `of_dataset` gives those that the dataset has opened.
    ///
    /// # Errors
    /// No verifier of a name, or options that do not go together.
    pub fn open(
        &self,
        of_dataset: impl Fn(&str) -> Option<Arc<dyn Verifier>>,
    ) -> Result<Arc<dyn Verifier>> {
        self.check()?;
        let open = |spec: &String| match of_dataset(spec) {
            Some(verifier) => Ok(verifier),
            None => verify::open_graded(spec, self.threshold),
        };
        let opened: Vec<Arc<dyn Verifier>> =
            self.verifiers.iter().map(open).collect::<Result<_>>()?;
        if let [one] = opened.as_slice() {
            if self.threshold.is_some() && !one.grading().is_graded {
                let spec = self.verifiers[0].clone();
                return Err(DataError::Verifier { spec, what: NOT_GRADED.into() });
            }
            return Ok(one.clone());
        }
        let weight = |index: usize| self.weights.get(index).copied().unwrap_or(1.0);
        let largest = (0..opened.len()).map(weight).fold(0.0, f64::max);
        // Divided by the largest first: a sum of large weights is not infinite.
        let total: f64 = (0..opened.len()).map(|index| weight(index) / largest).sum();
        let weights = (0..opened.len()).map(|index| weight(index) / largest / total).collect();
        Ok(Arc::new(Weighted {
            names: names(&self.verifiers),
            verifiers: opened,
            weights,
            threshold: self.threshold,
        }))
    }
}

/// A short name for each verifier, all different, of letters that every log takes.
fn names(specs: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for spec in specs {
        let base = short_name(spec);
        let is_new = |name: &String| !names.contains(name);
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(is_new);
        names.extend(name);
    }
    names
}

/// The function of `python:`, the program of `program:` without its folder and arguments, which may hold keys; else the
/// kind of verifier.
fn short_name(spec: &str) -> String {
    let (kind, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let named = match kind {
        "python" => argument.rsplit(':').next().unwrap_or_default(),
        "program" => {
            let command = match argument.strip_prefix("timeout=") {
                Some(rest) => rest.split_once(':').map_or("", |(_, command)| command),
                None => argument,
            };
            let first = command.split_whitespace().next().unwrap_or_default();
            first.rsplit(['/', '\\']).next().unwrap_or_default()
        }
        _ => kind,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let plain: String = named.chars().filter(|c| is_plain(*c)).take(MAX_NAME).collect();
    if plain.is_empty() { kind.to_owned() } else { plain }
}

/// Several verifiers: the reward is the weighted mean of theirs.
struct Weighted {
    names: Vec<String>,
    verifiers: Vec<Arc<dyn Verifier>>,
    /// They sum to 1.
    weights: Vec<f64>,
    threshold: Option<f64>,
}

impl Weighted {
    /// The verdict on a reward, from the verdicts of the verifiers: the class of a correct completion is that of the
    /// first that accepts it, what is said of another one what the first says that does not.
    fn verdict(
        &self,
        problem: &Problem,
        completion: CompletionText<'_>,
        reward: f64,
        verdicts: Vec<Verdict>,
    ) -> Verdict {
        let (accepted, refused): (Vec<_>, Vec<_>) =
            verdicts.into_iter().partition(Verdict::is_correct);
        if is_reached(reward, self.threshold) {
            let by_text = || Verdict::correct(&text_class(completion.full), &problem.answer);
            return accepted.into_iter().next().unwrap_or_else(by_text);
        }
        match refused.into_iter().find(|verdict| !matches!(verdict, Verdict::Unjudged { .. })) {
            Some(Verdict::Wrong { why: None, answer }) => {
                Verdict::Wrong { why: Some(format!("the reward is {reward:.3}")), answer }
            }
            Some(verdict) => verdict,
            None => Verdict::because(format!("the reward is {reward:.3}")),
        }
    }
}

impl Verifier for Weighted {
    fn name(&self) -> &'static str {
        "weighted"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        self.grade(problem, CompletionText { full: completion, answer: Some(completion) }).verdict
    }

    fn grade(&self, problem: &Problem, completion: CompletionText<'_>) -> Grade {
        let (mut reward, mut parts, mut verdicts) = (0.0, Vec::new(), Vec::new());
        let mut found = None;
        for ((verifier, weight), name) in self.verifiers.iter().zip(&self.weights).zip(&self.names)
        {
            let grade = judge::grade_text(&**verifier, problem, completion);
            // One that failed leaves a reward that nobody meant.
            if let Verdict::Unjudged { why, is_too_costly: false } = grade.verdict {
                return Grade::from_verdict(Verdict::unjudged(format!("verifier {name}: {why}")));
            }
            reward += weight * grade.reward;
            parts.push(grade.reward);
            found = found.or(grade.found);
            verdicts.push(grade.verdict);
        }
        let reward = reward.clamp(0.0, 1.0);
        Grade { verdict: self.verdict(problem, completion, reward, verdicts), reward, parts, found }
    }

    fn grading(&self) -> Grading {
        let part = |verifier: &Arc<dyn Verifier>| (verifier.name(), verifier.grading().identity);
        let parts: Vec<_> = self.verifiers.iter().map(part).collect();
        Grading {
            is_graded: true,
            names: self.names.clone(),
            threshold: self.threshold,
            identity: format!("{parts:?} {:?} {:?} {:?}", self.names, self.weights, self.threshold),
        }
    }

    fn asks_for_a_box(&self) -> bool {
        self.verifiers.iter().any(|verifier| verifier.asks_for_a_box())
    }

    // Each of them is given what it reads.
    fn reads_thoughts(&self) -> bool {
        true
    }

    fn complaint(&self) -> Option<String> {
        self.verifiers.iter().find_map(|verifier| verifier.complaint())
    }

    // One of several may look at something else than the answer, such as the form: one that accepts the gold is enough.
    fn probe(&self, problem: &Problem) -> std::result::Result<Option<String>, String> {
        let probed = self.verifiers.iter().map(|verifier| judge::probe(&**verifier, problem));
        let warnings = probed.collect::<std::result::Result<Vec<Option<String>>, String>>()?;
        let warnings: Option<Vec<String>> = warnings.into_iter().collect();
        Ok(warnings.and_then(|warnings| warnings.into_iter().next()))
    }

    fn refuse_gold(&self, gold: &str) -> Option<String> {
        self.verifiers.iter().find_map(|verifier| judge::refuse_gold(&**verifier, gold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_core::Prompt;

    fn problem(answer: &str) -> Problem {
        Problem::new("p", Prompt::Text("?".into()), answer)
    }

    fn rewards(verifiers: &[&str], weights: &[f64], threshold: Option<f64>) -> Rewards {
        let verifiers = verifiers.iter().map(|spec| (*spec).to_owned()).collect();
        Rewards { verifiers, weights: weights.to_vec(), threshold, classes: None }
    }

    fn grade(rewards: &Rewards, completion: &str) -> Grade {
        let verifier = rewards.open(|_| None).unwrap();
        judge::grade(&*verifier, &problem("7"), completion, false)
    }

    #[test]
    fn the_reward_is_the_weighted_mean_and_the_threshold_decides() {
        let form = r"regex:(?s)<answer>(.*)</answer>";
        let both = rewards(&["math", form], &[0.8, 0.2], None);
        let all = grade(&both, "<answer>7</answer>");
        assert_eq!((all.reward, &all.parts), (1.0, &vec![1.0, 1.0]));
        assert!(all.verdict.is_correct());
        let one = grade(&both, "so \\boxed{7}");
        assert_eq!((one.reward, &one.parts), (0.8, &vec![1.0, 0.0]));
        assert!(!one.verdict.is_correct(), "below 1, the threshold unless given");
        let loose = Rewards { threshold: Some(0.8), ..both.clone() };
        let one = grade(&loose, "so \\boxed{7}");
        let class = grade(&rewards(&["math"], &[], None), "so \\boxed{7}").verdict;
        assert_eq!(one.verdict, class, "the class is that of the verifier that accepts it");
        assert_eq!(grade(&loose, "<answer>8</answer>").reward, 0.0, "the pattern compares too");
        // Weights count by their ratios, and three thirds are 1.
        let large = rewards(&["math", form], &[8e307, 2e307], None);
        assert_eq!(grade(&large, "so \\boxed{7}").reward, 0.8);
        let thirds = rewards(&["math", "numeric", "exact"], &[], Some(1.0));
        assert!(grade(&thirds, "7").verdict.is_correct());
    }

    #[test]
    fn every_verifier_sees_the_answer_without_thoughts() {
        let both = rewards(&["exact", "math"], &[], Some(0.5));
        let thought = grade(&both, "<think>perhaps 8</think>7");
        assert_eq!(thought.parts, [1.0, 1.0]);
        assert_eq!(grade(&both, "<think>7").parts, [0.0, 0.0], "a thought is no answer");
    }

    #[test]
    fn names_are_distinct_and_hold_no_arguments() {
        let specs = [
            "math",
            "math:strict",
            "python:timeout=3:/home/me/a.py:format_reward",
            "program:timeout=5:/opt/judge.sh --key sk-1",
            "program:'; rm -rf /'",
            "regex:a=\u{1b}[31m",
        ];
        let names = names(&specs.map(str::to_owned));
        assert_eq!(names, ["math", "math-2", "format_reward", "judge.sh", "program", "regex"]);
    }

    #[test]
    fn options_that_do_not_go_together_are_refused() {
        for (rewards, message) in [
            (rewards(&["math"], &[1.0], None), "give --verifier twice"),
            (rewards(&["math", "exact"], &[1.0], None), "2 verifiers and 1 --reward-weights"),
            (rewards(&["math", "exact"], &[1.0, 0.0], None), "weight 0"),
            (rewards(&["math", "exact"], &[1.0, -1.0], None), "weight -1"),
            (rewards(&["math", "exact"], &[f64::NAN, 1.0], None), "weight NaN"),
            (rewards(&["math", "exact"], &[], Some(f64::NAN)), "threshold NaN"),
            (rewards(&["math", "exact"], &[], Some(0.0)), "threshold 0"),
            (rewards(&["math"], &[], Some(0.5)), "no effect"),
            (rewards(&[], &[], Some(0.5)), "no effect"),
            (rewards(&["math", "nothing"], &[], None), "not known"),
            (rewards(&["math"; 65], &[], None), "65 verifiers; at most 64"),
        ] {
            let Err(error) = rewards.open(|_| None) else { panic!("{rewards:?} is taken") };
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
