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
use tealight_datasets::verify::math::{self, Checked, Mode, Outcome, check};
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
    /// Verifier in place of math: exact, regex:PATTERN, numeric, sql:FOLDER, program:COMMAND, countdown. Lines for sql
    /// name their database in "context".
    #[arg(long)]
    verifier: Option<String>,
    /// Show the gold answer, the answer found, the rule that found it, and why they are equal or differ.
    #[arg(long)]
    #[serde(default)]
    explain: bool,
    /// Exit with status 1 unless every answer is correct.
    #[arg(long)]
    #[serde(default)]
    check: bool,
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
        Some(spec) if options.mode.is_some() => {
            bail!("--mode is for mathematics, not for --verifier {spec}")
        }
        Some(spec) => Judge::Other(verify::open(spec)?),
    };
    if options.explain && options.jsonl.is_some() {
        bail!("--explain is for one pair: --gold and --answer");
    }
    let (correct, all) = match (&options.gold, &options.answer, &options.jsonl) {
        (Some(gold), Some(answer), None) => match judge {
            Judge::Math(mode) => (one(gold, answer, mode, options.explain)?, 1),
            Judge::Other(verifier) => (other(&*verifier, gold, answer, options.explain)?, 1),
        },
        (None, None, Some(file)) if file == "-" => {
            stream(std::io::stdin().lock(), "standard input", &judge)?
        }
        (None, None, Some(file)) => {
            let reader = File::open(file).with_context(|| format!("{file}: cannot be read"))?;
            stream(BufReader::new(reader), file, &judge)?
        }
        _ => bail!("give --gold G --answer A, or --jsonl FILE"),
    };
    if options.check && correct < all {
        bail!("{} of {all} answers are not correct", all - correct);
    }
    Ok(())
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

fn judged<'a>(checked: &'a Checked<'_>) -> Judged<'a> {
    Judged {
        verdict: checked.outcome,
        extracted: checked.extracted.as_ref().map(|extracted| &*extracted.span),
        rule: checked.extracted.as_ref().map(|extracted| extracted.rule),
    }
}

/// Prints the verdict of another verifier than that of mathematics; whether it is correct.
fn other(verifier: &dyn Verifier, gold: &str, answer: &str, explain: bool) -> Result<usize> {
    let verdict = judged_by(verifier, gold.to_owned(), answer, None);
    let correct = usize::from(verdict.is_correct());
    if !explain {
        print(serde_json::to_string(&verdict)?)?;
        return Ok(correct);
    }
    let (name, answer, why) = match verdict {
        Verdict::Correct { value, .. } => ("correct", value, "the verifier accepts it".into()),
        Verdict::Wrong { answer, why } => {
            let why = why.unwrap_or("the verifier gives no reason".into());
            ("wrong", answer.unwrap_or("not said".into()), why)
        }
        Verdict::NoAnswer => ("no_answer", "nothing".into(), "no answer was found".into()),
        Verdict::Unparsable { found } => ("unparsable", found, "it cannot be read".into()),
        Verdict::Unjudged { why, .. } => ("unjudged", "not said".into(), why),
    };
    let rule = verifier.name();
    print(format_args!(
        "verdict    {name}\ngold       {gold}\nfound      {answer}\nrule       the verifier `{rule}`\nwhy        {why}"
    ))?;
    Ok(correct)
}

/// Prints a verdict of mathematics; whether it is correct.
fn one(gold: &str, answer: &str, mode: Mode, explain: bool) -> Result<usize> {
    let checked = check(gold, answer, mode);
    let correct = usize::from(checked.outcome == Outcome::Correct);
    let mut stdout = out();
    if !explain {
        writeln!(stdout, "{}", serde_json::to_string(&judged(&checked))?)?;
        return Ok(correct);
    }
    let verdict = serde_json::to_value(checked.outcome)?;
    writeln!(stdout, "verdict    {}", verdict.as_str().unwrap_or_default())?;
    writeln!(stdout, "gold       {}", math::gold(gold))?;
    match &checked.extracted {
        Some(extracted) => {
            let at = extracted.at.map_or(String::new(), |at| format!(", at byte {at}"));
            writeln!(stdout, "found      {}", extracted.span)?;
            writeln!(stdout, "rule       {}{at}", extracted.rule)?;
        }
        None => writeln!(stdout, "found      nothing")?,
    }
    writeln!(stdout, "why        {}", math::why(gold, &checked))?;
    Ok(correct)
}

/// Prints a verdict for each line; how many are correct, of how many.
fn stream(mut reader: impl BufRead, name: &str, judge: &Judge) -> Result<(usize, usize)> {
    let mut out = BufWriter::new(out());
    let (mut correct, mut all) = (0, 0);
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
        let verdicts: Vec<Result<Option<(String, bool)>>> = lines
            .par_iter()
            .enumerate()
            .map(|(index, line)| {
                verdict(line, judge).with_context(|| format!("{name}:{}", first + index))
            })
            .collect();
        for verdict in verdicts {
            match verdict {
                Ok(Some((verdict, is_correct))) => {
                    (correct, all) = (correct + usize::from(is_correct), all + 1);
                    writeln!(out, "{verdict}")?;
                }
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
    Ok((correct, all))
}

/// The verdict on a line and whether it is correct; none for an empty one.
fn verdict(line: &[u8], judge: &Judge) -> Result<Option<(String, bool)>> {
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
        Judge::Math(mode) => {
            let checked = check(&gold, &answer, *mode);
            (serde_json::to_string(&judged(&checked))?, checked.outcome == Outcome::Correct)
        }
        Judge::Other(verifier) => {
            let verdict = judged_by(&**verifier, gold, &answer, pair.context);
            (serde_json::to_string(&verdict)?, verdict.is_correct())
        }
    }))
}
