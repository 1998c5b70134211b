//! The problems of the lines: by id, by what tells problems with one id apart, or by the prompt.

mod contradictions;
mod grouping;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Result, bail};
use tealight_core::Prompt;
use tealight_core::display::one_spaced;
use tealight_datasets::read::why_no_gold;
use tealight_datasets::verify::math;
use tealight_datasets::{Database, Dataset, Problem, Verifier, judge};

use super::known::Known;
use super::line::{Format, Line, hash};
use super::notes::Noted;
use contradictions::check_choices;
pub(super) use grouping::unread_question;

/// What completions are judged by.
pub(super) struct Target {
    pub(super) problem: Problem,
    /// The problem with each further gold answer, where a line has several.
    pub(super) alternatives: Vec<Problem>,
    /// Why no completion can be judged by any of them.
    pub(super) refusal: Option<String>,
    /// A hash of what belongs to the question beside its prompt.
    pub(super) parts: Option<u64>,
}

/// The problems that lines have named so far, and those of a dataset.
#[derive(Default)]
pub(super) struct Problems<'a> {
    /// The problems, in the order of their first lines.
    pub(super) list: Vec<Arc<Target>>,
    by_id: HashMap<String, Named>,
    /// By prompt and gold answer, and the problems of each prompt.
    by_prompt: HashMap<u64, usize>,
    of_prompt: HashMap<u64, Vec<usize>>,
    /// Prompts with their gold answers, and the problems that other keys tell apart from one before.
    asked: HashSet<u64>,
    pub(super) by_parts: Noted,
    /// What prompts ask last, with their gold answers, and the records that ask it behind another beginning.
    tails: HashSet<u64>,
    pub(super) by_beginning: Noted,
    /// Records with a verdict and an `answer` that is no gold answer then, and those whose `answer` was taken for one.
    judged: usize,
    gold_answers: usize,
    /// Ids that name several problems, the first with the id that a later problem was given.
    pub(super) shared_ids: Noted<(String, String)>,
    pub(super) dataset: Option<Known<'a>>,
    /// Whether ids number the records and not the problems, which prompts then name.
    has_row_ids: bool,
    /// Whether they number the samples of each prompt.
    pub(super) has_sample_ids: bool,
    /// Whether mathematics is judged.
    is_math: bool,
    /// Whether ids number the records, and another id names their problem.
    pub(super) has_groups: bool,
    /// Records that were grouped by their prompts.
    pub(super) grouped: usize,
    /// Problems with another gold answer in the file than in the dataset.
    pub(super) other_golds: Noted,
    /// Problems that ids alone name and whose gold answers were compared, and those of them that differ.
    compared_by_id: usize,
    other_by_id: Noted,
    /// Records with another prompt than an earlier one of their document.
    pub(super) other_prompts: Noted,
}

/// Most gold answers of one prompt that a further one is compared with.
const MOST_GOLDS: usize = 16;
/// Prompts with several gold answers that are no accident.
const MANY_GOLDS: usize = 3;

/// Whether two gold answers have one value; none where that cannot be said.
pub(super) fn compared(one: &str, other: &str) -> Option<bool> {
    if one.trim() == other.trim() { Some(true) } else { judge::same(other, &math::gold(one)) }
}

/// Whether two gold answers have one value.
pub(crate) fn is_equal(one: &str, other: &str) -> bool {
    compared(one, other) == Some(true)
}

/// What a prompt asks last: the user's last message, or what stands behind the last of several labels.
fn question_of<'p>(prompt: &'p str, line: &'p Line) -> &'p str {
    if let Some(Prompt::Chat(messages)) = &line.prompt {
        return messages.last().map_or("", |message| message.content.as_str());
    }
    let behind = |label: &str| {
        Some(prompt.rsplit_once(label)?.1).filter(|_| prompt.matches(label).nth(1).is_some())
    };
    ["Question:", "Problem:", "Q:"].into_iter().find_map(behind).unwrap_or(prompt)
}

/// The problems of an id.
struct Named {
    first: usize,
    /// What tells the first one from others; none where its line did not say.
    variant: Option<u64>,
    /// By what tells them from the first.
    others: BTreeMap<u64, usize>,
}

impl<'a> Problems<'a> {
    pub(super) fn new(dataset: Option<&'a Dataset>, is_math: bool) -> Result<Self> {
        let dataset = dataset.map(Known::new).transpose()?;
        Ok(Self { dataset, is_math, ..Self::default() })
    }

    /// The index of a line's problem, which is added where it is new; inside, why there is no gold answer. `at` says
    /// where the line stands.
    pub(super) fn index(&mut self, line: &Line, at: &dyn Fn() -> String) -> Result<Result<usize>> {
        let known = match &mut self.dataset {
            Some(dataset) => dataset.find(line)?,
            None => None,
        };
        if let (None, Some(why)) = (known, &line.gold_refusal) {
            bail!("{why}");
        }
        self.judged += usize::from(known.is_none() && line.is_said_answer && !self.is_known(line));
        self.gold_answers += usize::from(known.is_none() && line.is_gold_answer);
        if known.is_none() && line.golds.is_empty() && !self.is_known(line) {
            return Ok(Err(self.no_gold(line)));
        }
        if let Some(problem) = known {
            check_choices(line, problem)?;
            if problem.answer.is_empty() && line.golds.iter().any(|gold| !gold.is_empty()) {
                bail!(
                    "{}: has a gold answer, and its problem in --dataset has none: leave --dataset out",
                    line.shown()
                );
            }
        }
        let before = self.list.len();
        let index = self.known_index(line, known)?;
        if line.format == Format::LmEval && known.is_none() && index < before {
            self.compare_prompts(line, index);
        }
        if let (Some(problem), true) = (known, index >= before) {
            self.compare_golds(line, problem, at);
        }
        Ok(Ok(index))
    }

    /// Whether two gold answers are one: the verifier of mathematics compares values, others texts.
    fn is_same_gold(&self, one: &str, other: &str) -> bool {
        one.trim() == other.trim() || self.is_math && is_equal(one, other)
    }

    /// Whether an earlier line named this line's problem.
    fn is_known(&self, line: &Line) -> bool {
        line.id.as_ref().is_some_and(|id| self.by_id.contains_key(id)) && !self.has_row_ids
    }

    fn known_index(&mut self, line: &Line, known: Option<&Problem>) -> Result<usize> {
        if let (true, None) = (self.has_row_ids, known) {
            self.grouped += 1;
            return self.of_prompt(line, None);
        }
        // Its numbers are those of records, which with `n` count the whole dataset n times.
        if line.format == Format::OpenCompass && line.prompt.is_some() && known.is_none() {
            return self.of_prompt(line, line.id.clone());
        }
        // A dataset's problem has the dataset's id, also where its prompt named it.
        let id = known.map(|problem| problem.id.clone());
        let Some(id) = id.or_else(|| line.id.clone()) else {
            return self.of_prompt(line, None);
        };
        // A dataset's ids are one problem's, however its prompt was rendered.
        let variant = if known.is_some() { None } else { line.variant };
        let Some(named) = self.by_id.get(&id) else {
            let index = self.add(line, id.clone(), known)?;
            self.by_id.insert(id, Named { first: index, variant, others: BTreeMap::new() });
            return Ok(index);
        };
        let other = match (named.variant, variant) {
            (Some(first), Some(variant)) if first != variant => Some(variant),
            _ => None,
        };
        let index = match other {
            None => Some(named.first),
            Some(variant) => named.others.get(&variant).copied(),
        };
        match (index, other) {
            (None, Some(variant)) => self.add_variant(line, &id, variant),
            (index, _) if known.is_some() => Ok(index.unwrap_or(named.first)),
            (index, _) => self.check(line, index.unwrap_or(named.first)),
        }
    }

    /// Adds a problem whose id another one has, under an id of its own.
    fn add_variant(&mut self, line: &Line, id: &str, variant: u64) -> Result<usize> {
        let mut own = format!("{id}~{:08x}", variant as u32);
        if self.by_id.contains_key(&own) {
            own = format!("{id}~{variant:016x}");
        }
        let index = self.add(line, own.clone(), None)?;
        self.by_id.insert(
            own.clone(),
            Named { first: index, variant: Some(variant), others: BTreeMap::new() },
        );
        if let Some(named) = self.by_id.get_mut(id) {
            if named.others.is_empty() {
                self.shared_ids.note(|| (id.to_owned(), own));
            }
            named.others.insert(variant, index);
        }
        Ok(index)
    }

    /// The problem of a line by its prompt and gold answer; a new one is called `name`, or after them.
    fn of_prompt(&mut self, line: &Line, name: Option<String>) -> Result<usize> {
        let prompt = line.prompt.as_ref().map(Prompt::plain).unwrap_or_default();
        let context = line.context.as_deref();
        let golds = line.golds.iter().map(String::as_str);
        let parts = line.parts.map(|parts| parts.to_string());
        let context: Vec<&str> = context.into_iter().chain(parts.as_deref()).collect();
        let key = hash(std::iter::once(prompt.trim()).chain(golds).chain(context.iter().copied()));
        if let Some(index) = self.by_prompt.get(&key) {
            return Ok(*index);
        }
        let of_prompt = hash(std::iter::once(prompt.trim()).chain(context.iter().copied()));
        let others = self.of_prompt.get(&of_prompt).map_or(&[][..], Vec::as_slice);
        if let [gold] = line.golds.as_slice() {
            let is_same = |index: &&usize| {
                let target = &self.list[**index];
                target.alternatives.is_empty() && self.is_same_gold(gold, &target.problem.answer)
            };
            if let Some(index) = others.iter().take(MOST_GOLDS).find(is_same).copied() {
                self.by_prompt.insert(key, index);
                return Ok(index);
            }
        }
        let golds = line.golds.iter().map(String::as_str);
        if !self.asked.insert(hash(std::iter::once(prompt.trim()).chain(golds)))
            && !line.part_keys.is_empty()
        {
            self.by_parts.note(|| line.part_keys.clone());
        }
        let tail = one_spaced(question_of(&prompt, line)).to_lowercase();
        let golds = line.golds.iter().map(String::as_str);
        let context = context.iter().copied();
        if !self.tails.insert(hash(std::iter::once(tail.as_str()).chain(golds).chain(context))) {
            self.by_beginning.note(|| line.shown());
        }
        let name = name.unwrap_or_else(|| format!("prompt-{key:016x}"));
        let index = self.add(line, name, None)?;
        self.by_prompt.insert(key, index);
        self.of_prompt.entry(of_prompt).or_default().push(index);
        Ok(index)
    }

    /// Refuses another gold answer for a problem that is known.
    fn check(&self, line: &Line, index: usize) -> Result<usize> {
        let problem = &self.list[index].problem;
        match line.golds.first() {
            Some(gold) if !self.is_same_gold(gold, &problem.answer) => bail!(
                "problem `{}` has the gold `{gold}` here and `{}` before: records with one id are samples of one problem, \
                 so give each problem an id of its own",
                problem.id,
                problem.answer
            ),
            _ => Ok(index),
        }
    }

    fn add(&mut self, line: &Line, id: String, known: Option<&Problem>) -> Result<usize> {
        // The dataset's gold answer wins over the line's, which may be what a program found in the completion.
        let answer = match (known, line.golds.first()) {
            (Some(problem), _) => problem.answer.clone(),
            (None, Some(gold)) => gold.clone(),
            (None, None) => return Err(self.no_gold(line)),
        };
        let prompt = match (&line.prompt, known) {
            (Some(prompt), _) => prompt.clone(),
            (None, Some(problem)) => problem.prompt.clone(),
            (None, None) => Prompt::Text(String::new()),
        };
        // The dataset's context wins over the line's.
        let context = match known {
            Some(problem) => problem.context.clone(),
            None => line.context.clone().map(Database::File),
        };
        let total = known.and_then(|problem| problem.total);
        let columns = known.and_then(|problem| problem.columns.clone());
        let choice = line.choice.clone().filter(|_| known.is_none());
        let problem =
            Problem { choice, context, total, columns, ..Problem::new(id, prompt, answer) };
        let others = line.golds.iter().skip(1).filter(|_| known.is_none());
        let with = |gold: &String| Problem { answer: gold.clone(), ..problem.clone() };
        let alternatives = others.map(with).collect();
        let parts = line.parts;
        self.list.push(Arc::new(Target { problem, alternatives, refusal: None, parts }));
        Ok(self.list.len() - 1)
    }

    fn no_gold(&self, line: &Line) -> anyhow::Error {
        let (format, shown) = (line.format.name(), line.shown());
        let give = match &self.dataset {
            Some(dataset) => format!(
                "{} has no such problem: name the dataset with it by --dataset, or give the gold answer as \"gold\"",
                dataset.name
            ),
            None => {
                "name the dataset that holds it with --dataset, or give the gold answer as \"gold\""
                    .into()
            }
        };
        match line.is_judged {
            true => anyhow::anyhow!(
                "no gold answer for {shown}: the line holds a verdict, and its `answer` is what the completion said \
                 (--gold-key answer if it is the gold answer); {give}"
            ),
            false if line.keys.is_empty() => {
                anyhow::anyhow!("no gold answer for {shown} in {format}; {give}")
            }
            false => anyhow::anyhow!(
                "no gold answer for {shown} in {format}; {give}, or name its key with --gold-key: the record has {}",
                line.keys
            ),
        }
    }

    /// Notes whether the golds of the problems from `first` on can be read: where they cannot, a completion with the
    /// same text is not judged either.
    pub(super) fn check_golds(&mut self, first: usize, verifier: &dyn Verifier) {
        for target in self.list[first..].iter_mut().filter_map(Arc::get_mut) {
            let golds = std::iter::once(&target.problem).chain(&target.alternatives);
            let of_text =
                |text: &str| why_no_gold(text).filter(|_| self.is_math).map(str::to_owned);
            let refused = |one: &Problem| {
                judge::refuse_gold(verifier, &one.answer).or_else(|| of_text(&one.answer))
            };
            let whys: Option<Vec<String>> = golds.map(refused).collect();
            target.refusal = whys.and_then(|whys| whys.into_iter().next());
        }
    }

    /// Adds a problem of the dataset that no line named.
    pub(super) fn add_missing(&mut self, problem: &Problem) -> usize {
        let problem = Problem { solution: None, reply: None, ..problem.clone() };
        let alternatives = Vec::new();
        self.list.push(Arc::new(Target { problem, alternatives, refusal: None, parts: None }));
        self.list.len() - 1
    }

    /// The problems, in the order of their first lines.
    pub(super) fn finish(self) -> Vec<Problem> {
        let problem = |target: Arc<Target>| match Arc::try_unwrap(target) {
            Ok(target) => target.problem,
            Err(shared) => shared.problem.clone(),
        };
        self.list.into_iter().map(problem).collect()
    }
}
