//! The browser of problems and samples in a report: its data in compressed chunks, unpacked in the page
//! when a problem is opened.
//!
//! A chunk holds the samples of some problems of one set as gzipped JSON in base64. Chunks stand in the
//! page itself as long as they are together below [`MAX_EMBEDDED`]; beyond it each is a script file in
//! `report-data`, which a page may load from disk without a server.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{Markup, PreEscaped, html};
use rayon::prelude::*;
use serde_json::{Value, json};
use tealight_datasets::{Verdict, names, output as output_file};

use crate::results::Results;
use crate::store::Index;
use crate::transition::Aligned;
use crate::{Sample, Tally};

/// Problems in a chunk.
const PROBLEMS: usize = 10;
/// Most bytes of chunks, in base64, that the page itself holds.
const MAX_EMBEDDED: usize = 24 << 20;
/// Longest completion that is shown, in characters.
const MAX_SHOWN: usize = 20_000;

/// The samples of all runs, chunk by chunk, and where they are.
pub(super) struct Placed {
    /// Name and contents of each chunk that the page holds.
    chunks: Vec<(String, String)>,
    is_beside: bool,
    /// For the reader.
    pub(super) said: String,
}

/// Chunks as they are packed: in the page until they are too many, then all of them beside it.
struct Chunks<'a> {
    folder: &'a Path,
    held: Vec<(String, String)>,
    bytes: usize,
    is_beside: bool,
}

impl Chunks<'_> {
    fn add(&mut self, more: Vec<(String, String)>) -> Result<()> {
        self.bytes += more.iter().map(|(_, text)| text.len()).sum::<usize>();
        self.held.extend(more);
        if !self.is_beside && self.bytes <= MAX_EMBEDDED {
            return Ok(());
        }
        let describe = || format!("{}: cannot be written", self.folder.display());
        if !self.is_beside {
            output_file::subfolder(self.folder).with_context(describe)?;
            self.is_beside = true;
        }
        self.held
            .par_drain(..)
            .try_for_each(|(name, text)| {
                let script = format!("tealight.arrived(\"{name}\",\"{text}\")");
                let mut file = output_file::create(&self.folder.join(format!("{name}.js")))?;
                file.write_all(script.as_bytes())
            })
            .with_context(describe)
    }
}

/// Reads the samples of all runs, packs them, and writes those beside the page at `output` that it cannot hold.
pub(super) fn place(runs: &[(&Path, &Results)], sets: &[Aligned], output: &Path) -> Result<Placed> {
    /// Chunks that are packed at a time.
    const TOGETHER: usize = 256;
    let folder = output.join("report-data");
    let mut chunks = Chunks { folder: &folder, held: Vec::new(), bytes: 0, is_beside: false };
    for (index, set) in sets.iter().enumerate() {
        let stored: Vec<Files> =
            runs.iter().map(|run| Files::open(run, &set.name)).collect::<Result<_>>()?;
        if stored.iter().all(Files::is_empty) {
            continue;
        }
        let problems: Vec<&str> = set.runs[0].iter().map(|tally| tally.problem.as_str()).collect();
        for (part, some) in problems.chunks(PROBLEMS * TOGETHER).enumerate() {
            let pack = |(number, ids): (usize, &[&str])| {
                let of = |id: &&str| -> Result<Vec<Value>> {
                    stored.iter().map(|files| files.shown(id)).collect()
                };
                let all: Vec<Vec<Value>> = ids.iter().map(of).collect::<Result<_>>()?;
                let name = format!("{index}-{}", part * TOGETHER + number);
                Ok((name, packed(&json!(all).to_string())?))
            };
            let some = some.par_chunks(PROBLEMS).enumerate().map(pack);
            chunks.add(some.collect::<Result<_>>()?)?;
        }
    }
    let Chunks { held, bytes, is_beside, .. } = chunks;
    let megabytes = bytes as f64 / 1e6;
    let said = match is_beside {
        false => format!("All samples are in this file ({megabytes:.1} MB, compressed)."),
        true => format!(
            "The samples are beside this file, in report-data ({megabytes:.1} MB, compressed): keep the two \
             together."
        ),
    };
    Ok(Placed { chunks: held, is_beside, said })
}

/// The samples of one run on one set, and those at temperature 0.
struct Files {
    drawn: Option<Index>,
    greedy: Option<Index>,
}

impl Files {
    fn open((directory, results): &(&Path, &Results), set: &str) -> Result<Self> {
        let found = results.sets.iter().find(|found| found.name == set);
        let open = |file: &String| Index::open(&names::inside(directory, file)?);
        let greedy = found.and_then(|found| found.greedy_samples());
        // An evaluation of an earlier version may have come without the file.
        let is_there = |file: &String| names::inside(directory, file).is_ok_and(|p| p.is_file());
        Ok(Self {
            drawn: found.and_then(|found| found.samples.as_ref()).map(open).transpose()?,
            greedy: greedy.as_ref().filter(|file| is_there(file)).map(open).transpose()?,
        })
    }

    fn is_empty(&self) -> bool {
        self.drawn.as_ref().is_none_or(|drawn| drawn.problems().next().is_none())
    }

    /// The samples of a problem as the page gets them, the one at temperature 0 first.
    fn shown(&self, id: &str) -> Result<Value> {
        let of = |index: &Option<Index>, is_greedy: bool| -> Result<Vec<Value>> {
            let samples = index.as_ref().map(|index| index.samples(id)).transpose()?;
            Ok(samples.iter().flatten().map(|sample| shown(sample, is_greedy)).collect())
        };
        Ok(json!([of(&self.greedy, true)?, of(&self.drawn, false)?].concat()))
    }
}

/// A sample as the page gets it: text, verdict, reason or class, tokens, whether it was cut off, whether it was drawn at
/// temperature 0.
fn shown(sample: &Sample, is_greedy: bool) -> Value {
    let (verdict, why) = match &sample.verdict {
        // Right as far as it goes, but it counts as wrong.
        Verdict::Correct { .. } if !sample.is_finished => ("wrong", String::new()),
        Verdict::Correct { class, .. } => ("right", class.clone()),
        Verdict::Wrong { why, .. } => ("wrong", why.clone().unwrap_or_default()),
        Verdict::NoAnswer => ("no answer", String::new()),
        Verdict::Unparsable { found } => ("unreadable", found.clone()),
        Verdict::Unjudged { why, .. } => ("unjudged", why.clone()),
    };
    let text: String = sample.completion.chars().take(MAX_SHOWN).collect();
    json!([text, verdict, why, sample.tokens, u8::from(!sample.is_finished), u8::from(is_greedy)])
}

fn packed(text: &str) -> Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(text.as_bytes())?;
    Ok(base64::engine::general_purpose::STANDARD.encode(encoder.finish()?))
}

/// The list of problems, and the scripts that fill the rest.
pub(super) fn markup(sets: &[Aligned], names: &[&str], placed: &Placed) -> Markup {
    if placed.chunks.is_empty() && !placed.is_beside {
        return html! {};
    }
    let index: Vec<Value> = sets.iter().map(listed).collect();
    let data = json!({
        "names": names,
        "sets": index,
        "size": PROBLEMS,
        "beside": placed.is_beside,
    });
    let mut scripts = String::new();
    for (name, text) in &placed.chunks {
        // Never a surprise on a string: base64 has no markup in it.
        let _ = write!(scripts, "<script type=\"text/plain\" id=\"chunk-{name}\">{text}</script>");
    }
    html! {
        h2 id="problems" { "Problems and samples" }
        div #browser {
            div.controls {
                label { "Set " select #set {} }
                label { "Show " select #filter {} }
                label { "Search " input #search type="search" placeholder="problem or completion ( / )"; }
                span #count role="status" {}
            }
            div.panes {
                div #list role="listbox" tabindex="0" aria-label="problems" {}
                div #detail aria-live="polite" { p.note { "Choose a problem: its samples are unpacked when you do. Arrow keys move, / searches." } }
            }
        }
        script type="application/json" #index { (PreEscaped(data.to_string().replace('<', "\\u003c"))) }
        (PreEscaped(scripts))
        style { (PreEscaped(include_str!("browser.css"))) }
        script { (PreEscaped(include_str!("browser.js"))) }
    }
}

/// A set as the list needs it: id, prompt, gold answer, and of each run the samples that are right, all of them, those
/// that were cut off, those without a readable answer and those that could not be judged.
fn listed(set: &Aligned) -> Value {
    let problems: Vec<Value> = (0..set.runs[0].len())
        .map(|problem| {
            let of_run = |run: &Vec<Tally>| {
                let tally = &run[problem];
                [tally.correct, tally.samples, tally.truncated, tally.no_answer, tally.unjudged]
            };
            let counts: Vec<[usize; 5]> = set.runs.iter().map(of_run).collect();
            let question = set.questions.get(problem);
            let prompt: String =
                question.map_or("", |q| q.prompt.as_str()).chars().take(4000).collect();
            let answer = question.map_or("", |q| q.answer.as_str());
            json!([set.runs[0][problem].problem, prompt, answer, counts])
        })
        .collect();
    json!({"name": set.name, "problems": problems})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{SetResult, VERSION};
    use crate::{Summary, store};

    fn sample(number: usize, verdict: Verdict, is_finished: bool) -> Sample {
        Sample {
            problem: "a".into(),
            sample: number,
            completion: format!("text {number}"),
            verdict,
            is_finished,
            is_end_unknown: false,
            tokens: 3,
            logp: None,
            failure: None,
            thinking: None,
        }
    }

    #[test]
    fn greedy_cut_off_and_silent_samples_are_in_the_page() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("samples")).unwrap();
        let drawn =
            [sample(0, Verdict::NoAnswer, false), sample(1, Verdict::correct("x", "x"), true)];
        store::write(&folder.path().join("samples/s.jsonl"), drawn.iter()).unwrap();
        let greedy = [sample(0, Verdict::correct("x", "x"), false)];
        store::write(&folder.path().join("samples/s.greedy.jsonl"), greedy.iter()).unwrap();
        let mut tally = Tally { problem: "a".into(), greedy: Some(false), ..Tally::default() };
        drawn.iter().for_each(|sample| tally.add(sample));
        let problems = vec![tally];
        let results = Results {
            schema_version: VERSION,
            tealight: "test".into(),
            model: "m".into(),
            config: Value::Null,
            seconds: 0.0,
            sets: vec![SetResult {
                name: "s".into(),
                dataset: "s".into(),
                domain: None,
                verifier: "math".into(),
                temperature: Some(1.0),
                summary: Summary::new(&problems, &[1]).unwrap(),
                questions: vec![],
                problems,
                unusable: vec![],
                samples: Some("samples/s.jsonl".into()),
            }],
        };
        let files = Files::open(&(folder.path(), &results), "s").unwrap();
        let expected = json!([
            ["text 0", "wrong", "", 3, 1, 1],
            ["text 0", "no answer", "", 3, 1, 0],
            ["text 1", "right", "x", 3, 0, 0],
        ]);
        assert_eq!(files.shown("a").unwrap(), expected);
        let run = ("m".to_owned(), &results);
        let (sets, _) = crate::transition::align(&[run], None, true).unwrap();
        // Right samples, all, cut off, without an answer, not judged.
        assert_eq!(listed(&sets[0])["problems"][0][3], json!([[1, 2, 1, 1, 0]]));
        let placed = place(&[(folder.path(), &results)], &sets, folder.path()).unwrap();
        let page = markup(&sets, &["m"], &placed).into_string();
        for words in
            ["with completions cut off", "with completions without an answer", "temperature 0"]
        {
            assert!(page.contains(words), "{words}");
        }
    }
}
