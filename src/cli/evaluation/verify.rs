//! `tealight verify`: a gold answer and an answer, or a file of them, to verdicts. Mathematics goes
//! through `check`, which says by which rule an answer was found; other verifiers judge as in training.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::ops::Range;

use anyhow::{Context, Result, bail};
use clap::Args;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tealight_core::Prompt;
use tealight_core::guard::caught;
use tealight_core::lines::Lines;
use tealight_datasets::verify::math::{self, Mode, Outcome};
use tealight_datasets::{Verdict, judge};

use crate::app::verdicts::{Judge, Judged, judged_by, math_line};
use tealight_system::telemetry::{out, print};

/// Lines that are judged at a time; their order is kept.
const CHUNK: usize = 8192;

/// Longest line, in bytes.
const MAX_LINE: usize = 16 << 20;

/// Bytes of lines that are judged at a time, beyond one line.
const CHUNK_BYTES: usize = 64 << 20;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(in crate::cli) struct VerifyOptions {
    /// The gold answer, bare or in a worked solution.
    #[arg(long, allow_hyphen_values = true)]
    gold: Option<String>,
    /// The answer, bare or in a completion.
    #[arg(long, allow_hyphen_values = true)]
    answer: Option<String>,
    /// The prompt that the answer is to, for a verifier that reads prompts. Default: none.
    #[arg(long, requires = "answer")]
    prompt: Option<String>,
    /// A file of {"gold": ..., "answer": ...} lines, or - for standard input; verdicts go to standard
    /// output in the same order. A line may have a "prompt" too: a text or messages.
    #[arg(long)]
    jsonl: Option<String>,
    /// strict finds answers in boxes, tags, after "the answer is" and ####; flexible also takes the last
    /// formula or number (the default).
    #[arg(long)]
    mode: Option<String>,
    /// Verifier in place of math, as `tealight eval --help` lists them. Lines for sql name their database in "context".
    #[arg(long)]
    verifier: Option<String>,
    /// Show the gold answer, the answer found, the rule that found it, and why they are equal or differ.
    #[arg(long)]
    explain: bool,
    /// Exit with status 1 unless every answer is correct.
    #[arg(long)]
    check: bool,
}

pub(in crate::cli) fn run(options: &VerifyOptions) -> Result<()> {
    let judge = Judge::open(options.verifier.as_deref(), options.mode.as_deref())?;
    if options.explain && options.jsonl.is_some() {
        bail!("--explain is for one pair: --gold and --answer");
    }
    if options.prompt.is_some() && matches!(judge, Judge::Math(_)) {
        bail!("--prompt has no effect: the verifier of mathematics reads no prompt");
    }
    let (correct, all) = match (&options.gold, &options.answer, &options.jsonl) {
        (Some(gold), Some(answer), None) => match judge {
            Judge::Math(mode) => (one(gold, answer, mode, options.explain)?, 1),
            Judge::Other(ref verifier) => {
                let prompt = options.prompt.clone().map(Prompt::Text);
                let verdict = judged_by(&**verifier, gold.clone(), answer, (prompt, None));
                (print_verdict(verdict, verifier.name(), gold, options.explain)?, 1)
            }
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
    if let Some(complaint) = judge.complaint() {
        tracing::warn!("the verifier failed: {complaint}");
    }
    if all == 0 {
        bail!("{}: no pair: there is nothing to judge", options.jsonl.as_deref().unwrap_or("-"));
    }
    if options.check && correct < all {
        bail!("{} of {all} answers are not correct", all - correct);
    }
    Ok(())
}

/// Prints a verdict that has no place in the answer; whether it is correct.
fn print_verdict(verdict: Verdict, rule: &str, gold: &str, explain: bool) -> Result<usize> {
    let correct = usize::from(verdict.is_correct());
    if !explain {
        print(serde_json::to_string(&verdict)?)?;
        return Ok(correct);
    }
    let (name, answer, why) = match verdict {
        Verdict::Correct { value, .. } => ("correct", value, "the verifier accepts it".into()),
        Verdict::Wrong { answer, why } => {
            let why = why.unwrap_or("the verifier gives no reason".into());
            ("incorrect", answer.unwrap_or("not said".into()), why)
        }
        Verdict::NoAnswer => ("no_answer", "nothing".into(), "no answer was found".into()),
        Verdict::Unparsable { found } => ("unparsable", found, "it cannot be read".into()),
        Verdict::Unjudged { why, .. } => ("unjudged", "not said".into(), why),
    };
    print(format_args!(
        "verdict    {name}\ngold       {gold}\nfound      {answer}\nrule       the verifier `{rule}`\nwhy        {why}"
    ))?;
    Ok(correct)
}

/// Prints a verdict of mathematics; whether it is correct.
fn one(gold: &str, answer: &str, mode: Mode, explain: bool) -> Result<usize> {
    let checked = match judge::check(gold, answer, mode) {
        Ok(checked) => checked,
        Err(verdict) => return print_verdict(verdict, "math", gold, explain),
    };
    let correct = usize::from(checked.outcome == Outcome::Correct);
    let mut stdout = out();
    if !explain {
        writeln!(stdout, "{}", math_line(&checked)?)?;
        return Ok(correct);
    }
    let verdict = serde_json::to_value(checked.outcome)?;
    // JSON has the name of the first versions.
    let verdict = verdict.as_str().unwrap_or_default().replace("wrong", "incorrect");
    writeln!(stdout, "verdict    {verdict}")?;
    writeln!(stdout, "gold       {}", math::gold(gold))?;
    match &checked.found {
        Some(found) => {
            writeln!(stdout, "found      {}", found.text)?;
            writeln!(stdout, "rule       {}, at byte {}", found.rule.name(), found.span.start)?;
            let [line, marks] = underlined(answer, &found.span);
            writeln!(stdout, "at         {line}\n           {marks}")?;
        }
        None => writeln!(stdout, "found      nothing")?,
    }
    let why = caught(|| math::why(gold, &checked)).unwrap_or_else(|panic| panic);
    writeln!(stdout, "why        {why}")?;
    Ok(correct)
}

/// The line of a text where a span begins, and a line of marks under the span.
fn underlined(text: &str, span: &Range<usize>) -> [String; 2] {
    /// Characters that are shown on either side.
    const AROUND: usize = 40;
    /// Most characters of the span that are shown.
    const MOST: usize = 80;
    let before = text[..span.start].rsplit('\n').next().unwrap_or_default();
    let inside = text[span.clone()].lines().next().unwrap_or_default();
    let after = text[span.start + inside.len()..].lines().next().unwrap_or_default();
    let skipped = before.chars().count().saturating_sub(AROUND);
    let plain = |c: char| if c.is_control() { '\u{b7}' } else { c };
    let before: String = before.chars().skip(skipped).map(plain).collect();
    let inside: String = inside.chars().take(MOST).map(plain).collect();
    let after: String = after.chars().take(AROUND).map(plain).collect();
    let (spaces, marks) = (before.chars().count(), inside.chars().count().max(1));
    [format!("{before}{inside}{after}"), " ".repeat(spaces) + &"^".repeat(marks)]
}

/// Prints a verdict for each line; how many are correct, of how many.
fn stream(reader: impl BufRead, name: &str, judge: &Judge) -> Result<(usize, usize)> {
    let mut out = BufWriter::new(out());
    let (mut correct, mut all) = (0, 0);
    let mut reader = Lines::limited(reader, MAX_LINE);
    loop {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while lines.len() < CHUNK && bytes < CHUNK_BYTES {
            let Some(line) = reader.next().transpose().with_context(|| name.to_owned())? else {
                break;
            };
            bytes += line.bytes.len();
            lines.push(line);
        }
        if lines.is_empty() {
            break;
        }
        let verdicts: Vec<Result<Option<Judged>>> = lines
            .par_iter()
            .map(|line| {
                judge.judge_line(&line.bytes).with_context(|| format!("{name}:{}", line.number))
            })
            .collect();
        for verdict in verdicts {
            match verdict {
                Ok(Some(judged)) => {
                    (correct, all) = (correct + usize::from(judged.is_correct), all + 1);
                    writeln!(out, "{}", judged.json)?;
                }
                Ok(None) => {}
                Err(error) => {
                    // Lines that were judged before the bad one are not lost.
                    out.flush()?;
                    return Err(error);
                }
            }
        }
    }
    out.flush()?;
    Ok((correct, all))
}
