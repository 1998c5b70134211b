//! `Verdict`: what a verifier says of one completion, as Python sees it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tealight_datasets::{Grade, Verdict as Judged};

/// A verifier's judgement of one completion.
#[pyclass(frozen, eq, get_all, module = "tealight_rl")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    /// "correct", "wrong", "no_answer", "unparsable" or "unjudged".
    kind: String,
    /// The answer that was found in the completion.
    answer: Option<String>,
    /// The rule that found the answer: "box", "phrase", "number" and so on. Mathematics alone says so.
    rule: Option<String>,
    /// Canonical form of a correct solution: two correct completions with the same one count once for diversity.
    solution: Option<String>,
    /// Canonical form of a correct final answer.
    value: Option<String>,
    /// Why the completion is wrong, unparsable or unjudged, where the verifier says so.
    reason: Option<String>,
    /// Whether the verdict is missing because comparing the answer would exceed the budget of work.
    too_costly: bool,
    /// The reward that the verifier granted, between 0 and 1; of a verifier that does not grade 1.0 for a correct
    /// completion, else 0.0. None where nothing can be said.
    reward: Option<f64>,
}

/// 1.0 for a correct completion, None where nothing can be said, else 0.0.
fn binary(kind: &str) -> Option<f64> {
    (kind != "unjudged").then_some(f64::from(u8::from(kind == "correct")))
}

impl Verdict {
    /// The verdict of a verifier that may grade.
    pub(crate) fn graded(grade: Grade) -> Self {
        let granted = grade.reward;
        let verdict = Self::new(grade.verdict, None);
        Self { reward: verdict.reward.map(|_| granted), ..verdict }
    }

    /// A verdict, with the answer and the rule where they are known.
    pub(crate) fn new(judged: Judged, found: Option<(String, String)>) -> Self {
        let (answer, rule) = found.unzip();
        let mut verdict = Self {
            kind: judged.name().into(),
            answer,
            rule,
            solution: None,
            value: None,
            reason: None,
            too_costly: false,
            reward: None,
        };
        match judged {
            Judged::Correct { class, value } => {
                verdict.answer = verdict.answer.or_else(|| Some(value.clone()));
                (verdict.solution, verdict.value) = (Some(class), Some(value));
            }
            Judged::Wrong { why, answer } => {
                verdict.answer = verdict.answer.or(answer);
                verdict.reason = why;
            }
            Judged::NoAnswer => {}
            Judged::Unparsable { found } => {
                verdict.reason = Some(format!("`{found}` cannot be read"));
                verdict.answer = verdict.answer.or(Some(found));
            }
            Judged::Unjudged { why, is_too_costly } => {
                (verdict.reason, verdict.too_costly) = (Some(why), is_too_costly);
            }
        }
        verdict.reward = binary(&verdict.kind);
        verdict
    }

    /// One that nothing can be said of, and why.
    pub(crate) fn unjudged(why: &str) -> Self {
        Self::new(Judged::unjudged(why.into()), None)
    }
}

type Fields = (
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    bool,
    Option<f64>,
);

#[pymethods]
impl Verdict {
    /// From the fields, in order: what unpickling calls.
    #[new]
    #[pyo3(signature = (kind, answer=None, rule=None, solution=None, value=None, reason=None, too_costly=false,
        reward=None))]
    #[expect(clippy::too_many_arguments, reason = "the fields, in order")]
    fn from_fields(
        kind: String,
        answer: Option<String>,
        rule: Option<String>,
        solution: Option<String>,
        value: Option<String>,
        reason: Option<String>,
        too_costly: bool,
        reward: Option<f64>,
    ) -> Self {
        let reward = binary(&kind).map(|binary| reward.unwrap_or(binary));
        Self { kind, answer, rule, solution, value, reason, too_costly, reward }
    }

    /// Whether the answer is correct.
    #[getter]
    fn correct(&self) -> bool {
        self.kind == "correct"
    }

    /// Whether nothing can be said: never the same as wrong.
    #[getter]
    #[pyo3(name = "unjudged")]
    fn is_unjudged(&self) -> bool {
        self.kind == "unjudged"
    }

    fn __bool__(&self) -> bool {
        self.correct()
    }

    fn __hash__(&self) -> u64 {
        // Equal verdicts have equal fields; some of them tell nearly all others apart.
        let mut hasher = DefaultHasher::new();
        (&self.kind, &self.answer, &self.rule, &self.solution, &self.reason).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let fields = [
            ("answer", &self.answer),
            ("rule", &self.rule),
            ("solution", &self.solution),
            ("reason", &self.reason),
        ];
        let details = fields.into_iter().filter_map(|(name, text)| {
            let text = text.as_ref()?;
            let shown: String = text.chars().take(60).collect();
            Some(format!(", {name}={shown:?}"))
        });
        let reward = self.reward.filter(|_| self.reward != binary(&self.kind));
        let reward = reward.map_or(String::new(), |reward| format!(", reward={reward}"));
        format!("Verdict({:?}{reward}{})", self.kind, details.collect::<String>())
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let it = slf.get().clone();
        let fields: Fields = (
            it.kind,
            it.answer,
            it.rule,
            it.solution,
            it.value,
            it.reason,
            it.too_costly,
            it.reward,
        );
        Ok((slf.get_type().into_any(), fields.into_pyobject(slf.py())?))
    }
}
