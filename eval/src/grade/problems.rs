//! The problems of the lines: by id, by what tells problems with one id apart, or by the prompt.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Result, bail};
use tealight_datasets::{Database, Dataset, Problem, Prompt};

use super::line::{Line, hash};

/// What completions are judged by.
pub(super) struct Target {
    pub(super) problem: Problem,
    /// The problem with each further gold answer, where a line has several.
    pub(super) alternatives: Vec<Problem>,
}

/// The problems that lines have named so far, and those of a dataset.
pub(super) struct Problems<'a> {
    /// The problems, in the order of their first lines.
    pub(super) list: Vec<Arc<Target>>,
    by_id: HashMap<String, Named>,
    by_prompt: HashMap<u64, usize>,
    /// Ids that name several problems.
    pub(super) shared_ids: usize,
    /// One of them, with the id that a later problem was given.
    pub(super) shared_example: Option<(String, String)>,
    dataset: Option<Known<'a>>,
}

/// The problems of an id.
struct Named {
    first: usize,
    /// What tells the first one from others; none where its line did not say.
    variant: Option<u64>,
    /// By what tells them from the first.
    others: BTreeMap<u64, usize>,
}

/// The problems of a dataset.
struct Known<'a> {
    name: &'a str,
    by_id: HashMap<&'a str, &'a Problem>,
    /// By the hash of the question; none where several problems have it.
    by_question: HashMap<u64, Option<&'a Problem>>,
    /// Whether its ids are the numbers of its rows, since it has none of its own.
    has_row_numbers: bool,
    /// The ids of problems that lines have named.
    seen: HashSet<&'a str>,
}

impl<'a> Known<'a> {
    fn new(dataset: &'a Dataset) -> Result<Self> {
        let (mut by_id, mut by_question) = (HashMap::new(), HashMap::new());
        for problem in &dataset.problems {
            if by_id.insert(problem.id.as_str(), problem).is_some() {
                bail!(
                    "{}: two problems have the id `{}`: ids must be one problem's",
                    dataset.name,
                    problem.id
                );
            }
            for question in questions(&problem.prompt, dataset.instruction) {
                let of_question = by_question.entry(hash([question])).or_insert(Some(problem));
                if of_question.is_some_and(|other| other.id != problem.id) {
                    *of_question = None;
                }
            }
        }
        let numbers =
            || dataset.problems.iter().map(|problem| problem.id.parse::<u64>().unwrap_or(0));
        let is_ascending = numbers().zip(numbers().skip(1)).all(|(a, b)| a < b);
        let has_row_numbers = numbers().next().is_some_and(|first| first > 0) && is_ascending;
        let (name, seen) = (dataset.name.as_str(), HashSet::new());
        Ok(Self { name, by_id, by_question, has_row_numbers, seen })
    }

    /// The problem that a line names, by its id, or by its prompt where it has no id.
    fn find(&mut self, line: &Line) -> Result<Option<&'a Problem>> {
        let found = match &line.id {
            Some(id) => {
                // Lines that count from 0 would be judged by the next problem's gold answer, without a word.
                let is_shifted =
                    self.has_row_numbers && (id == "0" || line.format.counts_from_zero());
                if is_shifted && id.parse::<u64>().is_ok() {
                    bail!(
                        "ids of this file count from 0 (`{id}`), and {} has no ids, so that its problems are named by \
                         their rows, from 1: give the dataset a column `id`",
                        self.name
                    );
                }
                self.by_id.get(id.as_str()).copied()
            }
            None => match &line.prompt {
                None => None,
                Some(prompt) => {
                    let found = questions(prompt, None)
                        .into_iter()
                        .find_map(|text| self.by_question.get(&hash([text])));
                    match found {
                        Some(None) => {
                            bail!("{} has several problems with this prompt: give ids", self.name)
                        }
                        found => found.copied().flatten(),
                    }
                }
            },
        };
        self.seen.extend(found.map(|problem| problem.id.as_str()));
        Ok(found)
    }
}

/// What is asked in a prompt: all of its last message by the user, and that without an instruction at its end.
fn questions<'p>(prompt: &'p Prompt, instruction: Option<&str>) -> Vec<&'p str> {
    let text = match prompt {
        Prompt::Text(text) => text.as_str(),
        Prompt::Chat(messages) => {
            let last = messages.iter().rfind(|message| message.role == "user").or(messages.last());
            last.map_or("", |message| message.content.as_str())
        }
    };
    let text = text.trim();
    let bare = instruction.and_then(|instruction| text.strip_suffix(instruction)).map(str::trim);
    std::iter::once(text).chain(bare).filter(|text| !text.is_empty()).collect()
}

impl<'a> Problems<'a> {
    pub(super) fn new(dataset: Option<&'a Dataset>) -> Result<Self> {
        Ok(Self {
            list: Vec::new(),
            by_id: HashMap::new(),
            by_prompt: HashMap::new(),
            shared_ids: 0,
            shared_example: None,
            dataset: dataset.map(Known::new).transpose()?,
        })
    }

    /// The index of a line's problem, which is added where it is new.
    ///
    /// # Errors
    /// A line without gold, another gold for the same problem, an id that counts the dataset's problems from 0.
    pub(super) fn index(&mut self, line: &Line) -> Result<usize> {
        let known = match &mut self.dataset {
            Some(dataset) => dataset.find(line)?,
            None => None,
        };
        let Some(id) = line.id.clone().or_else(|| known.map(|problem| problem.id.clone())) else {
            return self.of_prompt(line);
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
            self.shared_ids += usize::from(named.others.is_empty());
            named.others.insert(variant, index);
        }
        self.shared_example.get_or_insert((id.to_owned(), own));
        Ok(index)
    }

    /// The problem of a line without an id: that of its prompt and gold answer.
    fn of_prompt(&mut self, line: &Line) -> Result<usize> {
        let prompt = line.prompt.as_ref().map(Prompt::plain).unwrap_or_default();
        let key = hash(std::iter::once(prompt.trim()).chain(line.golds.iter().map(String::as_str)));
        if let Some(index) = self.by_prompt.get(&key) {
            return self.check(line, *index);
        }
        let index = self.add(line, format!("prompt-{key:016x}"), None)?;
        self.by_prompt.insert(key, index);
        Ok(index)
    }

    /// Refuses another gold answer for a problem that is known.
    fn check(&self, line: &Line, index: usize) -> Result<usize> {
        let problem = &self.list[index].problem;
        match line.golds.first() {
            Some(gold) if *gold != problem.answer => bail!(
                "problem `{}` has the gold `{gold}` here and `{}` before: ids must be one problem's",
                problem.id,
                problem.answer
            ),
            _ => Ok(index),
        }
    }

    fn add(&mut self, line: &Line, id: String, known: Option<&Problem>) -> Result<usize> {
        let answer = match (line.golds.first(), known) {
            (Some(gold), _) => gold.clone(),
            (None, Some(problem)) => problem.answer.clone(),
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
        let problem = Problem { context, total, ..Problem::new(id, prompt, answer) };
        let others = line.golds.iter().skip(1);
        let with = |gold: &String| Problem { answer: gold.clone(), ..problem.clone() };
        let alternatives = others.map(with).collect();
        self.list.push(Arc::new(Target { problem, alternatives }));
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
                "no gold answer for {shown}: the line holds a verdict, and its `answer` is what the completion said; {give}"
            ),
            false => anyhow::anyhow!("no gold answer for {shown} in {format}; {give}"),
        }
    }

    /// The problems of the dataset that no line named.
    pub(super) fn missing(&self) -> Vec<&'a Problem> {
        let Some(dataset) = &self.dataset else { return Vec::new() };
        let mut missing: Vec<&Problem> = dataset
            .by_id
            .values()
            .filter(|problem| !dataset.seen.contains(problem.id.as_str()))
            .copied()
            .collect();
        missing.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        missing
    }

    /// Adds a problem of the dataset that no line named.
    pub(super) fn add_missing(&mut self, problem: &Problem) -> usize {
        let problem = Problem { solution: None, reply: None, ..problem.clone() };
        self.list.push(Arc::new(Target { problem, alternatives: Vec::new() }));
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

    /// Whether problems are named by the rows of a dataset without ids.
    pub(super) fn has_row_numbers(&self) -> bool {
        self.dataset.as_ref().is_some_and(|dataset| dataset.has_row_numbers)
    }
}
