//! `tealight verify`: a gold answer and an answer, or a file of them, to verdicts. Mathematics goes
//! through `check`, which says by which rule an answer was found; other verifiers judge as in training.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::sync::Arc;

use crate::telemetry::{out, print};
use anyhow::{Context, Result, bail};
use clap::Args;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tealight_datasets::verify::math::{Checked, Mode, Outcome, check};
use tealight_datasets::{Database, Problem, Prompt, Verdict, Verifier, verify};

/// Lines that are judged at a time; their order is kept.
const CHUNK: usize = 8192;

/// Options of `tealight verify`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct VerifyOptions {
    /// The gold answer, bare or in a worked solution.
    #[arg(long, allow_hyphen_values = true)]
    gold: Option<String>,
    /// The answer, bare or in a completion.
    #[arg(long, allow_hyphen_values = true)]
    answer: Option<String>,
    /// A file of {"gold": ..., "answer": ...} lines, or - for standard input; verdicts go to standard
    /// output in the same order.
    #[arg(long)]
    jsonl: Option<String>,
    /// strict finds answers in boxes, tags, after "the answer is" and ####; flexible also takes the last
    /// formula or number (the default).
    #[arg(long)]
    mode: Option<String>,
    /// Another verifier than math: exact, regex:PATTERN, numeric, sql:FOLDER, program:COMMAND, countdown.
    /// Lines for sql name their database in "context".
    #[arg(long)]
    verifier: Option<String>,
    /// Say what was found, where, and what decided.
    #[arg(long)]
    #[serde(default)]
    explain: bool,
}

/// One line of input.
#[derive(Deserialize)]
struct Pair {
    gold: Text,
    answer: Text,
    /// The name of the database, for SQL.
    context: Option<Database>,
}

/// Answers are often numbers in JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    String(String),
    Number(serde_json::Number),
}

/// One line of output.
#[derive(Serialize)]
struct Judged<'a> {
    verdict: Outcome,
    extracted: Option<&'a str>,
    rule: Option<&'static str>,
}

/// What judges.
enum Judge {
    Math(Mode),
    Other(Arc<dyn Verifier>),
}

pub(in crate::cli) fn run(options: &VerifyOptions) -> Result<()> {
    let mode = match options.mode.as_deref() {
        Some("strict") => Mode::Strict,
        None | Some("flexible") => Mode::Flexible,
        Some(other) => bail!("--mode `{other}` is not one of strict, flexible"),
    };
    let judge = match options.verifier.as_deref() {
        None | Some("math") => Judge::Math(mode),
        Some("math:strict") if options.mode.is_none() => Judge::Math(Mode::Strict),
        Some(spec) if options.mode.is_some() || options.explain => {
            bail!("--mode and --explain are for mathematics, not for --verifier {spec}")
        }
        Some(spec) => Judge::Other(verify::open(spec)?),
    };
    if options.explain && options.jsonl.is_some() {
        bail!("--explain is for one pair: --gold and --answer");
    }
    match (&options.gold, &options.answer, &options.jsonl) {
        (Some(gold), Some(answer), None) => match judge {
            Judge::Math(mode) => one(gold, answer, mode, options.explain),
            Judge::Other(verifier) => {
                let verdict = judged_by(&*verifier, gold.clone(), answer, None);
                print(serde_json::to_string(&verdict)?)?;
                Ok(())
            }
        },
        (None, None, Some(file)) if file == "-" => {
            stream(std::io::stdin().lock(), "standard input", &judge)
        }
        (None, None, Some(file)) => {
            let reader = File::open(file).with_context(|| format!("{file}: cannot be read"))?;
            stream(BufReader::new(reader), file, &judge)
        }
        _ => bail!("give --gold G --answer A, or --jsonl FILE"),
    }
}

fn judged_by(
    verifier: &dyn Verifier,
    gold: String,
    answer: &str,
    context: Option<Database>,
) -> Verdict {
    let (id, prompt) = (String::new(), Prompt::Text(String::new()));
    verifier
        .verify(&Problem { id, prompt, answer: gold, solution: None, context, total: None }, answer)
}

fn judged<'a>(found: &'a Checked<'_>) -> Judged<'a> {
    Judged {
        verdict: found.outcome,
        extracted: found.extracted.as_ref().map(|extracted| &*extracted.span),
        rule: found.extracted.as_ref().map(|extracted| extracted.rule),
    }
}

fn one(gold: &str, answer: &str, mode: Mode, explain: bool) -> Result<()> {
    let found = check(gold, answer, mode);
    let mut stdout = out();
    if !explain {
        writeln!(stdout, "{}", serde_json::to_string(&judged(&found))?)?;
        return Ok(());
    }
    let verdict = serde_json::to_value(found.outcome)?;
    writeln!(stdout, "verdict    {}", verdict.as_str().unwrap_or_default())?;
    match &found.extracted {
        Some(extracted) => {
            let at = extracted.at.map_or(String::new(), |at| format!(", byte {at}"));
            writeln!(stdout, "found      {} (rule `{}`{at})", extracted.span, extracted.rule)?
        }
        None => writeln!(stdout, "found      nothing")?,
    }
    writeln!(stdout, "decided by {}", found.stage)?;
    Ok(())
}

fn stream(mut reader: impl BufRead, name: &str, judge: &Judge) -> Result<()> {
    let mut out = BufWriter::new(out());
    let mut first = 1;
    loop {
        let mut lines = Vec::with_capacity(CHUNK);
        let mut line = Vec::new();
        while lines.len() < CHUNK
            && reader.read_until(b'\n', &mut line).with_context(|| name.to_owned())? > 0
        {
            lines.push(std::mem::take(&mut line));
        }
        if lines.is_empty() {
            break;
        }
        let verdicts: Vec<Result<Option<String>>> = lines
            .par_iter()
            .enumerate()
            .map(|(index, line)| {
                verdict(line, judge).with_context(|| format!("{name}:{}", first + index))
            })
            .collect();
        for verdict in verdicts {
            match verdict {
                Ok(Some(verdict)) => writeln!(out, "{verdict}")?,
                Ok(None) => {}
                Err(error) => {
                    // What was judged before the bad line is not lost.
                    out.flush()?;
                    return Err(error);
                }
            }
        }
        first += lines.len();
    }
    out.flush()?;
    Ok(())
}

/// The verdict on a line; none for an empty one.
fn verdict(line: &[u8], judge: &Judge) -> Result<Option<String>> {
    let line = std::str::from_utf8(line).context("not UTF-8")?.trim();
    if line.is_empty() {
        return Ok(None);
    }
    let pair: Pair = serde_json::from_str(line)
        .context("not a JSON object with the keys `gold` and `answer`, each a text or a number")?;
    let text = |text: Text| match text {
        Text::String(text) => text,
        Text::Number(number) => number.to_string(),
    };
    let (gold, answer) = (text(pair.gold), text(pair.answer));
    Ok(Some(match judge {
        Judge::Math(mode) => serde_json::to_string(&judged(&check(&gold, &answer, *mode)))?,
        Judge::Other(verifier) => {
            serde_json::to_string(&judged_by(&**verifier, gold, &answer, pair.context))?
        }
    }))
}
