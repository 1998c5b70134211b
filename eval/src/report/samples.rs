//! The problems and samples of a page: a list of problems, and the samples in compressed chunks that the viewer unpacks
//! when a problem is opened or searched.
//!
//! A chunk holds the samples of some problems of one set as gzipped JSON in base64. Chunks stand in the page itself as
//! long as they are together below [`MAX_EMBEDDED`]; beyond it each is a script file in `report-data`, which a page may
//! load from disk without a server.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use base64::Engine;
use flate2::Compression;
use flate2::write::GzEncoder;
use rayon::prelude::*;
use serde_json::{Value, json};
use tealight_datasets::{Verdict, output as output_file, regular};

use super::answer_place;
use super::view::Placement;
use crate::results::Question;
use crate::store::Index;
use crate::{Sample, Tally};

/// Problems in a chunk.
const PROBLEMS: usize = 10;
/// Most bytes of chunks, in base64, that the page itself holds.
const MAX_EMBEDDED: usize = 64 << 20;
/// Longest completion that is shown, in characters.
const MAX_SHOWN: usize = 20_000;
/// Longest prompt that is shown, in characters.
const MAX_PROMPT: usize = 4_000;

/// One set of problems with the samples of every model.
pub(super) struct Sampled<'a> {
    pub(super) name: String,
    /// Its relation to training, in words; empty where unknown.
    pub(super) split: &'static str,
    /// The questions; may be fewer than the counts, where some are unknown.
    pub(super) questions: &'a [Question],
    /// The counts of every model, of the same problems in the same order.
    pub(super) counts: Vec<&'a [Tally]>,
    /// The samples of every model.
    pub(super) sources: Vec<Source>,
}

/// The samples of one model on one set, and those at temperature 0.
#[derive(Default)]
pub(super) struct Source {
    drawn: Option<Index>,
    greedy: Option<Index>,
}

/// The chunks of a page, and where they are.
#[derive(Default)]
pub(super) struct SampleChunks {
    /// Name and contents of each chunk that the page holds.
    chunks: Vec<(String, String)>,
    /// How the viewer finds the samples; none where there are none.
    pub(super) placement: Option<Placement>,
    /// Whether a text may hold mathematics.
    pub(super) has_mathematics: bool,
    /// For the reader.
    pub(super) said: String,
}

impl SampleChunks {
    /// No samples yet: whatever comes may hold mathematics.
    pub(super) fn of_later_samples() -> Self {
        Self { has_mathematics: true, ..Self::default() }
    }

    /// Id and contents of each part of the page that holds data.
    pub(super) fn embedded(&self) -> impl Iterator<Item = &(String, String)> {
        self.chunks.iter()
    }

    /// With one more part.
    pub(super) fn with(&mut self, id: &str, data: &Value) -> Result<()> {
        let text = data.to_string();
        self.has_mathematics |= has_mathematics(&text);
        self.chunks.push((id.to_owned(), packed(&text)?));
        Ok(())
    }
}

impl Source {
    /// Opens the file of samples, and the one at temperature 0 where that is there, both of the reported `folder`.
    ///
    /// # Errors
    /// A link out of the folder, a file that is no file of samples.
    pub(super) fn open(
        folder: &Path,
        drawn: Option<PathBuf>,
        greedy: Option<PathBuf>,
    ) -> Result<Self> {
        let open = |path: Option<PathBuf>| -> Result<Option<Index>> {
            let Some(path) = path else { return Ok(None) };
            let place = regular::own(folder, &path);
            let place = place.with_context(|| path.display().to_string())?;
            Index::open(&place).map(Some)
        };
        // An evaluation of an earlier version may have come without the second one. What is there is no pipe.
        let greedy = greedy.filter(|path| path.symlink_metadata().is_ok());
        Ok(Self { drawn: open(drawn)?, greedy: open(greedy)? })
    }

    fn is_empty(&self) -> bool {
        self.drawn.as_ref().is_none_or(|drawn| drawn.problems().next().is_none())
    }

    /// The samples of a problem as the page gets them, the one at temperature 0 first.
    fn shown(&self, id: &str) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        for (index, is_greedy) in [(&self.greedy, true), (&self.drawn, false)] {
            let samples = index.as_ref().map(|index| index.samples(id)).transpose()?;
            all.extend(distinct(&samples.unwrap_or_default(), is_greedy));
        }
        Ok(all)
    }
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

/// Reads the samples of all models, packs them, and writes those beside the page in `output` that it cannot hold.
pub(super) fn place(
    models: &[String],
    sets: &[Sampled<'_>],
    output: &Path,
) -> Result<SampleChunks> {
    /// Chunks that are packed at a time.
    const TOGETHER: usize = 256;
    let folder = output.join("report-data");
    let mut chunks = Chunks { folder: &folder, held: Vec::new(), bytes: 0, is_beside: false };
    let mathematics = AtomicBool::new(false);
    let (mut listed, mut is_any) = (Vec::new(), false);
    for (index, set) in sets.iter().enumerate() {
        listed.push(list(set));
        if set.sources.iter().all(Source::is_empty) {
            continue;
        }
        is_any = true;
        let problems: Vec<&str> =
            set.counts[0].iter().map(|tally| tally.problem.as_str()).collect();
        for (part, some) in problems.chunks(PROBLEMS * TOGETHER).enumerate() {
            let pack = |(number, ids): (usize, &[&str])| {
                let of = |id: &&str| -> Result<Vec<Vec<Value>>> {
                    set.sources.iter().map(|source| source.shown(id)).collect()
                };
                let all: Vec<Vec<Vec<Value>>> = ids.iter().map(of).collect::<Result<_>>()?;
                let text = json!(all).to_string();
                if !mathematics.load(Ordering::Relaxed) && has_mathematics(&text) {
                    mathematics.store(true, Ordering::Relaxed);
                }
                let name = format!("chunk-{index}-{}", part * TOGETHER + number);
                Ok((name, packed(&text)?))
            };
            let some = some.par_chunks(PROBLEMS).enumerate().map(pack);
            chunks.add(some.collect::<Result<_>>()?)?;
        }
    }
    if !is_any {
        return Ok(SampleChunks::default());
    }
    let Chunks { held, bytes, is_beside, .. } = chunks;
    let megabytes = bytes as f64 / 1e6;
    let said = match is_beside {
        false => format!("All samples are in this file ({megabytes:.1} MB, compressed)."),
        true => format!(
            "The samples are beside this file, in report-data ({megabytes:.1} MB, compressed): keep the two together."
        ),
    };
    let mut placed = SampleChunks {
        chunks: held,
        placement: Some(Placement { size: PROBLEMS, is_beside }),
        has_mathematics: mathematics.into_inner(),
        said,
    };
    placed.with("problems", &json!({"models": models, "sets": listed}))?;
    Ok(placed)
}

/// The samples of a problem, equal ones once, in the order in which they were drawn first: text, verdict, reason or
/// class,
/// tokens, whether it was truncated, whether it was drawn at temperature 0, how often it was drawn, and where a rule
/// found
/// its answer.
fn distinct(samples: &[Sample], is_greedy: bool) -> Vec<Value> {
    let mut order: Vec<(&Sample, usize)> = Vec::new();
    let mut known: HashMap<(&str, &str, String, bool), usize> = HashMap::new();
    for sample in samples {
        let (verdict, why) = verdict(sample);
        let key = (sample.completion.as_str(), verdict, why, sample.is_finished);
        let place = *known.entry(key).or_insert(order.len());
        match order.get_mut(place) {
            Some((_, times)) => *times += 1,
            None => order.push((sample, 1)),
        }
    }
    let shown = |(sample, times): (&Sample, usize)| {
        let (verdict, why) = verdict(sample);
        let text: String = sample.completion.chars().take(MAX_SHOWN).collect();
        let (is_cut, is_greedy) = (u8::from(!sample.is_finished), u8::from(is_greedy));
        let mut row = vec![
            json!(text),
            json!(verdict),
            json!(why),
            json!(sample.tokens),
            json!(is_cut),
            json!(is_greedy),
            json!(times),
        ];
        row.extend(answer_place::found(sample));
        Value::Array(row)
    };
    order.into_iter().map(shown).collect()
}

/// The verdict on a sample, and the reason, or the class of its answer.
fn verdict(sample: &Sample) -> (&'static str, String) {
    match &sample.verdict {
        // Correct as far as it goes, but it counts as incorrect.
        Verdict::Correct { .. } if !sample.counts() => ("incorrect", String::new()),
        Verdict::Correct { class, .. } => ("correct", class.clone()),
        Verdict::Wrong { why, .. } => ("incorrect", why.clone().unwrap_or_default()),
        Verdict::NoAnswer => ("no answer", String::new()),
        Verdict::Unparsable { found } => ("unreadable", found.clone()),
        Verdict::Unjudged { why, .. } => ("unjudged", why.clone()),
    }
}

/// Whether a text may hold mathematics in TeX: what decides whether a page gets the package that draws it.
fn has_mathematics(json: &str) -> bool {
    let is_marked =
        ["\\\\(", "\\\\[", "\\\\boxed", "\\\\frac", "$$"].iter().any(|mark| json.contains(mark));
    // A backslash is two in JSON.
    is_marked || (json.matches('$').nth(1).is_some() && json.contains(['^', '_', '\\']))
}

fn packed(text: &str) -> Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(text.as_bytes())?;
    Ok(base64::engine::general_purpose::STANDARD.encode(encoder.finish()?))
}

/// A set as the list needs it: id, prompt, gold answer, and of each model the samples that are correct, all of them,
/// those
/// that were truncated, those without a readable answer and those that could not be judged.
fn list(set: &Sampled<'_>) -> Value {
    let count = set.counts.first().map_or(0, |counts| counts.len());
    let one = |problem: usize| {
        let of_model = |counts: &&[Tally]| {
            counts.get(problem).map_or([0; 5], |tally| {
                [tally.correct, tally.samples, tally.truncated, tally.no_answer, tally.unjudged]
            })
        };
        let counts: Vec<[usize; 5]> = set.counts.iter().map(of_model).collect();
        let question = set.questions.get(problem);
        let cut = |text: &str| text.chars().take(MAX_PROMPT).collect::<String>();
        let prompt = question.map_or(String::new(), |q| cut(&q.prompt));
        let answer = question.map_or("", |q| q.answer.as_str());
        let turns: Vec<[String; 2]> = question
            .map_or(&[][..], |q| &q.turns)
            .iter()
            .map(|turn| [turn.role.clone(), cut(&turn.content)])
            .collect();
        match turns.is_empty() {
            true => json!([set.counts[0][problem].problem, prompt, answer, counts]),
            false => json!([set.counts[0][problem].problem, prompt, answer, counts, turns]),
        }
    };
    let problems: Vec<Value> = (0..count).map(one).collect();
    json!({"name": set.name, "split": set.split, "problems": problems})
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::store;

    fn sample(number: usize, text: &str, verdict: Verdict, is_finished: bool) -> Sample {
        Sample {
            problem: "a".into(),
            sample: number,
            completion: text.into(),
            verdict,
            reward: None,
            found: None,
            is_finished,
            is_end_unknown: false,
            tokens: 3,
            logp: None,
            failure: None,
            thinking: None,
            truncated: crate::Truncated::default(),
        }
    }

    fn unpacked(text: &str) -> Value {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        let mut json = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut json).unwrap();
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn greedy_truncated_repeated_and_silent_samples_are_in_the_page() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(folder.path().join(name));
        let drawn = [
            sample(0, "t", Verdict::NoAnswer, false),
            sample(1, "u", Verdict::correct("x", "x"), true),
            sample(2, "u", Verdict::correct("x", "x"), true),
        ];
        store::write(&folder.path().join("s.jsonl"), drawn.iter()).unwrap();
        let greedy = [sample(0, "t", Verdict::correct("x", "x"), false)];
        store::write(&folder.path().join("s.greedy.jsonl"), greedy.iter()).unwrap();
        let mut tally = Tally { problem: "a".into(), greedy: Some(false), ..Tally::default() };
        drawn.iter().for_each(|sample| tally.add(sample));
        let tallies = [tally];
        let source = Source::open(folder.path(), path("s.jsonl"), path("s.greedy.jsonl")).unwrap();
        let set = Sampled {
            name: "s".into(),
            split: "held out",
            questions: &[],
            counts: vec![&tallies],
            sources: vec![source],
        };
        let placed = place(&["m".into()], &[set], folder.path()).unwrap();
        let of = |id: &str| {
            let block = placed.embedded().find(|(name, _)| name == id).unwrap();
            unpacked(&block.1)
        };
        let expected = json!([[[
            ["t", "incorrect", "", 3, 1, 1, 1],
            ["t", "no answer", "", 3, 1, 0, 1],
            ["u", "correct", "x", 3, 0, 0, 2],
        ]]]);
        assert_eq!(of("chunk-0-0"), expected);
        // Correct samples, all, truncated, without an answer, not judged.
        assert_eq!(of("problems")["sets"][0]["problems"][0][3], json!([[2, 3, 1, 1, 0]]));
        assert!(!placed.has_mathematics && placed.said.contains("in this file"));
    }

    #[test]
    fn mathematics_is_seen_where_it_may_be() {
        for text in [r"so \(x\)", r"\boxed{3}", "$x^2$", r"$\alpha$", "$$1$$"] {
            assert!(has_mathematics(&json!(text).to_string()), "{text}");
        }
        for text in ["3 + 4", "costs $5", "from $5 to $6"] {
            assert!(!has_mathematics(&json!(text).to_string()), "{text}");
        }
    }
}
