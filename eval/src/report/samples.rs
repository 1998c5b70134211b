//! The problems and samples of a page: a list of problems, and the samples in compressed chunks that the viewer unpacks
//! when a problem is opened or searched.
//!
//! A chunk holds the samples of some problems of one set as gzipped JSON in base64. Chunks stand in the page itself as
//! long as they are together below [`MAX_EMBEDDED`]; beyond it each is a script file in `report-data`, which a page may
//! load from disk without a server.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use base64::Engine;
use flate2::Compression;
use flate2::write::GzEncoder;
use rayon::prelude::*;
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use tealight_core::{display, output as output_file, regular};
use tealight_datasets::Verdict;

use super::answer_place;
use super::listing::{Listing, list, start};
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
    sampled: Option<Arc<Index>>,
    greedy: Option<Arc<Index>>,
}

/// The samples of one model to one problem.
struct Samples {
    greedy: Vec<Sample>,
    sampled: Vec<Sample>,
}

/// A sample as the page gets it: text, verdict, reason or class, tokens, whether it was truncated, whether it was drawn
/// at temperature 0, how often it was drawn, and where a rule found its answer.
struct Row<'a> {
    sample: &'a Sample,
    is_greedy: bool,
    times: usize,
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
    pub(super) note: String,
}

impl SampleChunks {
    /// Id and contents of each part of the page that holds data.
    pub(super) fn embedded(&self) -> impl Iterator<Item = &(String, String)> {
        self.chunks.iter()
    }

    /// With one more part.
    pub(super) fn with(&mut self, id: &str, data: &impl Serialize) -> Result<()> {
        let text = display::json(data)?;
        self.has_mathematics |= has_mathematics(&text);
        self.chunks.push((id.to_owned(), packed(&text)?));
        Ok(())
    }
}

impl Source {
    /// Opens the file of samples, and the one at temperature 0 where that is there, both of the reported `folder`.
    pub(super) fn open(
        folder: &Path,
        sampled: Option<PathBuf>,
        greedy: Option<PathBuf>,
    ) -> Result<Self> {
        let open = |path: Option<PathBuf>| -> Result<Option<Arc<Index>>> {
            let Some(path) = path else { return Ok(None) };
            let place = regular::own(folder, &path);
            let place = place.with_context(|| path.display().to_string())?;
            Ok(Some(Arc::new(Index::open(&place)?)))
        };
        // An evaluation of an earlier version may have come without the second one. What is there is no pipe.
        let greedy = greedy.filter(|path| path.symlink_metadata().is_ok());
        Ok(Self { sampled: open(sampled)?, greedy: open(greedy)? })
    }

    /// With an index of the samples that is there already.
    pub(super) fn indexed(
        sampled: Arc<Index>,
        folder: &Path,
        greedy: Option<PathBuf>,
    ) -> Result<Self> {
        Ok(Self { sampled: Some(sampled), ..Self::open(folder, None, greedy)? })
    }

    fn is_empty(&self) -> bool {
        self.sampled.as_ref().is_none_or(|sampled| sampled.problems().next().is_none())
    }

    fn samples(&self, id: &str) -> Result<Samples> {
        let read = |index: &Option<Arc<Index>>| match index {
            Some(index) => index.samples(id),
            None => Ok(Vec::new()),
        };
        Ok(Samples { greedy: read(&self.greedy)?, sampled: read(&self.sampled)? })
    }
}

impl Serialize for Samples {
    /// As the page gets them, the one at temperature 0 first.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let greedy = distinct(&self.greedy, true);
        serializer.collect_seq(greedy.into_iter().chain(distinct(&self.sampled, false)))
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sample = self.sample;
        let (verdict, why) = verdict(sample);
        let place = answer_place::found(sample);
        let mut row = serializer.serialize_seq(Some(7 + usize::from(place.is_some())))?;
        row.serialize_element(start(&sample.completion, MAX_SHOWN))?;
        row.serialize_element(verdict)?;
        row.serialize_element(why)?;
        row.serialize_element(&sample.tokens)?;
        row.serialize_element(&u8::from(!sample.is_finished))?;
        row.serialize_element(&u8::from(self.is_greedy))?;
        row.serialize_element(&self.times)?;
        if let Some(place) = place {
            row.serialize_element(&place)?;
        }
        row.end()
    }
}

/// Chunks as they are packed: in the page until they are too many, then all of them beside it.
struct Chunks<'a> {
    folder: &'a Path,
    pending: Vec<(String, String)>,
    bytes: usize,
    is_beside: bool,
}

impl Chunks<'_> {
    fn add(&mut self, more: Vec<(String, String)>) -> Result<()> {
        self.bytes += more.iter().map(|(_, text)| text.len()).sum::<usize>();
        self.pending.extend(more);
        if !self.is_beside && self.bytes <= MAX_EMBEDDED {
            return Ok(());
        }
        let describe = || format!("{}: cannot be written", self.folder.display());
        if !self.is_beside {
            output_file::subfolder(self.folder).with_context(describe)?;
            self.is_beside = true;
        }
        self.pending
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
    let mut chunks = Chunks { folder: &folder, pending: Vec::new(), bytes: 0, is_beside: false };
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
                let problem_samples = |id: &&str| -> Result<Vec<Samples>> {
                    set.sources.iter().map(|source| source.samples(id)).collect()
                };
                let all: Vec<Vec<Samples>> =
                    ids.iter().map(problem_samples).collect::<Result<_>>()?;
                let text = display::json(&all)?;
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
    let Chunks { pending, bytes, is_beside, .. } = chunks;
    let size = match bytes {
        0..100_000 => format!("{} kB", bytes.div_ceil(1000)),
        bytes => format!("{:.1} MB", bytes as f64 / 1e6),
    };
    let note = match is_beside {
        false => format!("All samples are in this file ({size}, compressed)."),
        true => format!(
            "The samples are beside this file, in report-data ({size}, compressed): keep the two together."
        ),
    };
    let mut placed = SampleChunks {
        chunks: pending,
        placement: Some(Placement { size: PROBLEMS, is_beside }),
        has_mathematics: mathematics.into_inner(),
        note,
    };
    placed.with("problems", &Listing { models, sets: &listed })?;
    Ok(placed)
}

/// The samples of a problem, equal ones once, in the order in which they were drawn first.
fn distinct(samples: &[Sample], is_greedy: bool) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut known: HashMap<(&str, &str, &str, bool), usize> = HashMap::new();
    for sample in samples {
        let (verdict, why) = verdict(sample);
        let key = (sample.completion.as_str(), verdict, why, sample.is_finished);
        let place = *known.entry(key).or_insert(rows.len());
        match rows.get_mut(place) {
            Some(row) => row.times += 1,
            None => rows.push(Row { sample, is_greedy, times: 1 }),
        }
    }
    rows
}

/// The verdict on a sample, and the reason, or the class of its answer.
fn verdict(sample: &Sample) -> (&'static str, &str) {
    match &sample.verdict {
        // Correct as far as it goes, but it counts as incorrect.
        Verdict::Correct { .. } if !sample.counts() => ("incorrect", ""),
        Verdict::Correct { class, .. } => ("correct", class),
        Verdict::Wrong { why, .. } => ("incorrect", why.as_deref().unwrap_or_default()),
        Verdict::NoAnswer => ("no answer", ""),
        Verdict::Unparsable { found } => ("unreadable", found),
        Verdict::Unjudged { why, .. } => ("unjudged", why),
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::sample;
    use crate::store;

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
        let truncated = |verdict| Sample { is_finished: false, ..sample(0, "t", verdict) };
        let sampled = [
            truncated(Verdict::NoAnswer),
            sample(1, "u", Verdict::correct("x", "x")),
            sample(2, "u", Verdict::correct("x", "x")),
        ];
        store::write(&folder.path().join("s.jsonl"), sampled.iter()).unwrap();
        let greedy = [truncated(Verdict::correct("x", "x"))];
        store::write(&folder.path().join("s.greedy.jsonl"), greedy.iter()).unwrap();
        let mut tally = Tally { problem: "a".into(), greedy: Some(false), ..Tally::default() };
        sampled.iter().for_each(|sample| tally.add(sample));
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
        let unpack = |id: &str| {
            let block = placed.embedded().find(|(name, _)| name == id).unwrap();
            unpacked(&block.1)
        };
        let expected = json!([[[
            ["t", "incorrect", "", 3, 1, 1, 1],
            ["t", "no answer", "", 3, 1, 0, 1],
            ["u", "correct", "x", 3, 0, 0, 2],
        ]]]);
        assert_eq!(unpack("chunk-0-0"), expected);
        // Correct samples, all, truncated, without an answer, not judged, distinct correct answers.
        assert_eq!(unpack("problems")["sets"][0]["problems"][0][3], json!([[2, 3, 1, 1, 0, 1]]));
        assert!(!placed.has_mathematics && placed.note.contains("in this file"));
    }

    #[test]
    fn texts_with_mathematics_are_detected() {
        for text in [r"so \(x\)", r"\boxed{3}", "$x^2$", r"$\alpha$", "$$1$$"] {
            assert!(has_mathematics(&json!(text).to_string()), "{text}");
        }
        for text in ["3 + 4", "costs $5", "from $5 to $6"] {
            assert!(!has_mathematics(&json!(text).to_string()), "{text}");
        }
    }
}
