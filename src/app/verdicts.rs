//! Pairs of a gold answer and an answer to verdicts, each a line of JSON. Mathematics goes through `check`, which says
//! by which rule an answer was found; other verifiers judge as in training.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tealight_core::Prompt;
use tealight_datasets::json::with_long_numbers;
use tealight_datasets::verify::math::{Checked, Mode, Outcome, Rule};
use tealight_datasets::{Database, Problem, Verdict, Verifier, judge, verify};

/// A verifier, by kind.
#[derive(Clone)]
pub enum Judge {
    /// Mathematics, with the places where an answer may stand.
    Math(Mode),
    /// Another verifier.
    Other(Arc<dyn Verifier>),
}

/// A gold answer and an answer to judge.
#[derive(Debug, Clone, Deserialize)]
pub struct Pair {
    /// The gold answer.
    pub gold: Text,
    /// The answer, or the completion that holds it.
    pub answer: Text,
    /// The name of the database, for SQL.
    pub context: Option<Database>,
    /// The prompt, a text or messages, for verifiers that read it.
    pub prompt: Option<Prompt>,
}

/// A text, or a number: answers are often numbers in JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// A text.
    String(String),
    /// A JSON number, read as its text.
    Number(serde_json::Number),
}

impl Text {
    /// The text that a verifier reads.
    pub fn into_string(self) -> String {
        match self {
            Text::String(text) => text,
            Text::Number(number) => number.to_string(),
        }
    }
}

/// A verdict as a line of JSON.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The line, without a line feed.
    pub json: String,
    /// Whether the answer is correct.
    pub is_correct: bool,
}

impl Judged {
    fn by_verdict(verdict: &Verdict) -> Result<Self> {
        Ok(Self { json: serde_json::to_string(verdict)?, is_correct: verdict.is_correct() })
    }
}

/// One line of output of mathematics.
#[derive(Serialize)]
struct MathLine<'a> {
    verdict: Outcome,
    extracted: Option<&'a str>,
    rule: Option<Rule>,
}

/// The line of JSON of a mathematical verdict.
pub fn math_line(checked: &Checked<'_>) -> Result<String> {
    Ok(serde_json::to_string(&MathLine {
        verdict: checked.outcome,
        extracted: checked.found.as_ref().map(|found| &*found.text),
        rule: checked.found.as_ref().map(|found| found.rule),
    })?)
}

impl Judge {
    /// The judge that `--verifier SPEC` and `--mode MODE` name.
    ///
    /// # Errors
    /// An unknown name; a mode for another verifier than that of mathematics.
    pub fn open(spec: Option<&str>, mode: Option<&str>) -> Result<Self> {
        let place = match mode {
            Some("strict") => Mode::Strict,
            None | Some("flexible") => Mode::Flexible,
            Some(other) => bail!("--mode `{other}` is not one of strict, flexible"),
        };
        Ok(match spec {
            None | Some("math") => Judge::Math(place),
            Some("math:strict") if mode.is_none() => Judge::Math(Mode::Strict),
            Some(spec) if mode.is_some() => {
                bail!("--mode is for mathematics, not for --verifier {spec}")
            }
            Some(spec) => Judge::Other(verify::open(spec)?),
        })
    }

    /// A fault of the verifier itself, where it noticed one.
    pub fn complaint(&self) -> Option<String> {
        match self {
            Judge::Math(_) => None,
            Judge::Other(verifier) => verifier.complaint(),
        }
    }

    /// The verdict on a pair.
    pub fn judge(&self, pair: Pair) -> Result<Judged> {
        let (gold, answer) = (pair.gold.into_string(), pair.answer.into_string());
        Ok(match self {
            Judge::Math(mode) => match judge::check(&gold, &answer, *mode) {
                Ok(checked) => {
                    let is_correct = checked.outcome == Outcome::Correct;
                    Judged { json: math_line(&checked)?, is_correct }
                }
                Err(verdict) => Judged::by_verdict(&verdict)?,
            },
            Judge::Other(verifier) => {
                let context = (pair.prompt, pair.context);
                Judged::by_verdict(&judged_by(&**verifier, gold, &answer, context))?
            }
        })
    }

    /// The verdict on a line of JSON; none for an empty one.
    pub fn judge_line(&self, line: &[u8]) -> Result<Option<Judged>> {
        let line = std::str::from_utf8(line).context("not UTF-8")?.trim();
        if line.is_empty() {
            return Ok(None);
        }
        let pair = serde_json::from_str(&with_long_numbers(line)).context(
            "not a JSON object with the keys `gold` and `answer`, each a text or a number",
        )?;
        self.judge(pair).map(Some)
    }
}

/// The verdict of a verifier that is not that of mathematics.
pub fn judged_by(
    verifier: &dyn Verifier,
    gold: String,
    answer: &str,
    (prompt, context): (Option<Prompt>, Option<Database>),
) -> Verdict {
    let (id, prompt) = (String::new(), prompt.unwrap_or(Prompt::Text(String::new())));
    let problem = Problem { context, ..Problem::new(id, prompt, gold) };
    judge::verify(verifier, &problem, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_keep_their_digits_and_keys_stand_once() {
        let judge = Judge::open(Some("exact"), None).unwrap();
        let judged =
            |line: &str| judge.judge_line(line.as_bytes()).map(|judged| judged.unwrap().is_correct);
        let line =
            |answer: &str| format!("{{\"gold\": 18446744073709551616, \"answer\": {answer}}}");
        assert!(judged(&line("18446744073709551616")).unwrap());
        assert!(judged(&line("\"18446744073709551616\"")).unwrap());
        assert!(!judged(&line("18446744073709551617")).unwrap());
        assert!(judged("{\"gold\": 1, \"gold\": 2, \"answer\": 1}").is_err());
    }
}
