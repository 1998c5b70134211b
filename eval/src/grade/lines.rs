//! Parsed records to completions to judge: which problem each is about, and what is left out. One record after the
//! other, since what a record says depends on those before it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use anyhow::{Context, Result, bail};
use tealight_core::display::shortened;
use tealight_core::fnv;
use tealight_datasets::judge;

use super::filters::Filters;
use super::judge::{Task, Work};
use super::line::{Format, Keys, Line, PartialVerdict, hash, parse};
use super::notes::{Notes, several_models};
use super::problems::{Problems, unread_question};
use super::repeats::Repeats;
use super::runs::Runs;
use super::seen::{Named, Seen};
use super::settings::Settings;
use super::source::{Place, Record, is_cut_off};
use super::thoughts::Thoughts;
use super::{GradeJob, Graded};
use crate::number::with_verb;
use crate::{Completion, Tally};

/// A record that was parsed: where it stood, whether it was whole, its lines.
pub(super) type Parsed = (Place, bool, Result<Vec<Line>>);

/// Parses a record, on any thread.
pub(super) fn parsed(record: Record, keys: Keys<'_>) -> Parsed {
    (record.place, record.is_whole, parse(record.content, keys))
}

/// Most failed requests that wait for another one that answers.
const MAX_FAILED: usize = 1 << 16;
/// Most models that are told apart.
const MAX_MODELS: usize = 4;
/// Records without a gold answer, from the first on, after which the file has none.
const MANY_WITHOUT_GOLD: usize = 4096;

/// The lines that were read so far.
pub(super) struct Lines<'a> {
    job: &'a GradeJob<'a>,
    name: String,
    pub(super) problems: Problems<'a>,
    /// Completions of each problem.
    pub(super) counts: Vec<usize>,
    /// The samples that said which one they are.
    seen: Seen<'a>,
    repeats: Repeats,
    thoughts: Thoughts,
    runs: Runs,
    /// Failed requests, until it is known whether a retry has an answer.
    failed: Vec<Task>,
    /// Numbered samples without an answer, until it is known whether a later record with the number has one.
    silent: Vec<(u64, Task)>,
    /// In batches, the number of answered requests of each problem.
    answered: HashMap<usize, usize>,
    /// Completions that began with their prompts, and those with several turns.
    with_prompts: usize,
    with_turns: usize,
    has_begun: bool,
    /// The models that records name, and the settings of sampling.
    models: BTreeSet<String>,
    sampling: BTreeMap<&'static str, String>,
    settings: Settings,
    filters: Filters,
    pub(super) notes: Notes,
}

impl<'a> Lines<'a> {
    /// No line of the file called `name` yet.
    pub(super) fn new(job: &'a GradeJob<'a>, name: &str) -> Result<Self> {
        Ok(Self {
            job,
            name: name.to_owned(),
            problems: Problems::new(job.dataset, job.verifier.name().starts_with("math"))?,
            counts: Vec::new(),
            seen: Seen::new(job.files.map(|[_, file]| file), job.max_open),
            repeats: Repeats::default(),
            thoughts: Thoughts::new(job.starts_inside),
            runs: Runs::default(),
            failed: Vec::new(),
            silent: Vec::new(),
            answered: HashMap::new(),
            with_prompts: 0,
            with_turns: 0,
            has_begun: false,
            models: BTreeSet::new(),
            sampling: BTreeMap::new(),
            settings: Settings::default(),
            filters: Filters::new(job.filter),
            notes: Notes::default(),
        })
    }

    /// The completions of some records.
    pub(super) fn work(&mut self, records: Vec<Parsed>) -> Result<Work> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let lines =
                || records.iter().filter_map(|(_, _, parsed)| parsed.as_ref().ok()).flatten();
            self.problems.find_groups(lines());
            if !self.problems.has_groups {
                self.problems.find_grouping(lines());
                self.notes.unread_question(unread_question(lines()));
            }
            self.thoughts.find(lines().flat_map(|line| &line.answers));
        }
        let mut work = Work::default();
        work.tasks.reserve(records.len());
        for (place, is_whole, parsed) in records {
            match parsed {
                Ok(lines) => {
                    for line in lines {
                        let read = self.numbered(line, &place, &mut work);
                        read.with_context(|| place.in_file(&self.name))?;
                    }
                }
                Err(error) if !is_whole && is_cut_off(&error) => {
                    let at = place.in_file(&self.name);
                    self.notes.say(format!("{at}: the last line was cut off and is left out"));
                }
                Err(error) => return Err(error).with_context(|| place.in_file(&self.name)),
            }
        }
        let without = &mut self.notes.without_gold;
        let has_none = self.counts.is_empty() && without.count >= MANY_WITHOUT_GOLD;
        match without.first.take_if(|_| has_none) {
            Some(error) => Err(error),
            None => Ok(work),
        }
    }

    /// Reads a line, of lm-eval once it is known whether it is a sample of its own.
    fn numbered(&mut self, mut line: Line, place: &Place, work: &mut Work) -> Result<()> {
        if self.problems.has_groups {
            line.id = line.group.take().or(line.id);
        }
        if line.filter.is_none() {
            return self.of_run(line, place, work);
        }
        let lines = self.filters.add(line.document(), line);
        lines.into_iter().try_for_each(|line| self.of_run(line, place, work))
    }

    /// Reads a line of the filter that its document is read under.
    fn of_run(&mut self, line: Line, place: &Place, work: &mut Work) -> Result<()> {
        let Some(text) = line.run_text else { return self.line(line, place, work) };
        let lines = self.runs.add(line.document(), text, line);
        lines.into_iter().try_for_each(|line| self.line(line, place, work))
    }

    /// Notes what another judge's verdict is of.
    fn note_verdict(&mut self, line: &Line) -> Result<()> {
        match line.partial_verdict {
            Some(PartialVerdict::OfNone) => bail!(
                "{}: the value of lm-eval under the verdict key is no verdict on one of its {} completions, but on \
                 all of them together (a majority vote, pass@k; filter `{}`): name another key with --verdict-key, or \
                 another filter with --filter",
                line.shown(),
                line.answers.len(),
                line.filter.as_deref().unwrap_or_default()
            ),
            Some(PartialVerdict::OfFirst) => self.notes.first_verdicts += 1,
            Some(PartialVerdict::Mean) => self.notes.mean_verdicts += 1,
            None => {}
        }
        Ok(())
    }

    fn line(&mut self, mut line: Line, place: &Place, work: &mut Work) -> Result<()> {
        line.unknown_endings.iter().for_each(|name| self.notes.unknown_ending(name));
        line.remarks.iter().for_each(|(kind, which)| self.notes.remark(kind, which));
        self.with_prompts += line.with_prompts;
        self.with_turns += line.with_turns;
        if line.answers.is_empty() {
            line.answers.push(Completion {
                is_end_unknown: true,
                is_finished: true,
                ..Completion::failed("an empty list of completions".into())
            });
        }
        self.note_verdict(&line)?;
        let at = || place.in_file(&self.name);
        let problem = match self.problems.index(&line, &at)? {
            Ok(problem) => problem,
            Err(error) if self.job.requires_gold => return Err(error),
            Err(error) => {
                self.notes.without_gold.note(|| error.context(at()));
                return Ok(());
            }
        };
        let models = line.model.as_ref().map_or(line.models.as_slice(), std::slice::from_ref);
        for model in models {
            if self.models.len() < MAX_MODELS && !self.models.contains(model) {
                self.models.insert(shortened(model, 80));
            }
        }
        for (key, value) in &line.sampling {
            let first = self.sampling.entry(*key).or_insert_with(|| value.clone());
            if first != value {
                "several values".clone_into(first);
            }
        }
        let known = self.counts.len();
        if problem >= known {
            self.problems.check_golds(known, self.job.verifier);
            let new = &self.problems.list[known..];
            if known == 0 {
                judge::probe(self.job.verifier, &new[0].problem).map_err(anyhow::Error::msg)?;
            }
            work.new.extend(new.iter().map(|target| Tally::new(&target.problem)));
            self.counts.resize(self.problems.list.len(), 0);
        }
        self.settings.note(problem, &line.conditions);
        let is_batch = matches!(line.format, Format::Batch | Format::AnthropicBatch);
        // A record with one completion is a request as well.
        let is_request = is_batch
            || line.format == Format::Own && line.answers.len() == 1 && line.sample.is_none();
        if is_batch && !line.answers.iter().all(|answer| answer.is_missing) {
            *self.answered.entry(problem).or_default() += 1;
        }
        let by_id = || self.problems.has_sample_ids.then_some(line.id.as_deref()).flatten();
        let number = line.sample.or_else(|| by_id().map(|id| hash([id])));
        for (index, mut answer) in line.answers.into_iter().enumerate() {
            answer.starts_inside |= self.thoughts.start_inside;
            let target = self.problems.list[problem].clone();
            let is_silent = answer.failure.is_some() || answer.text.trim().is_empty();
            let task = Task { problem, target, number: 0, answer };
            let name = number.map(|sample| sample.wrapping_add(index as u64));
            let named = match name {
                Some(name) if is_silent && !is_batch && self.silent.len() < MAX_FAILED => {
                    self.silent.push((name, task));
                    continue;
                }
                Some(name) => self.named(name, &task)?,
                None => Named::First,
            };
            if let Named::Again { is_changed } = named {
                for task in self.repeats.add(task, is_changed) {
                    self.count(task, work);
                }
            } else if is_request && task.answer.is_missing && self.failed.len() < MAX_FAILED {
                self.failed.push(task);
            } else {
                if number.is_none() && line.run_text.is_none() {
                    self.repeats.text(problem, &task.answer.text);
                }
                self.count(task, work);
            }
        }
        Ok(())
    }

    /// Notes the sample of a number, which may have come before.
    fn named(&mut self, name: u64, task: &Task) -> Result<Named> {
        self.repeats.numbered += 1;
        self.repeats.problems = self.counts.len();
        self.seen.name(task.problem, name, fnv(task.answer.text.bytes()))
    }

    /// Counts a completion as the next one of its problem, to be judged.
    fn count(&mut self, task: Task, work: &mut Work) {
        let Task { problem, target, answer, .. } = task;
        self.notes.classes += usize::from(answer.class.is_some());
        if let Some(why) = &answer.failure {
            self.notes.failure(&target.problem.id, why);
        }
        work.tasks.push(Task { problem, target, number: self.counts[problem], answer });
        self.counts[problem] += 1;
    }

    /// The completions that were held back until the end of the file.
    pub(super) fn last(&mut self) -> Result<Work> {
        if let (Some(filter), 0) = (self.job.filter, self.filters.lines) {
            bail!("{}: no line has the filter `{filter}`; {}", self.name, self.filters.known());
        }
        let mut work = Work::default();
        for line in self.filters.release() {
            let read = self.of_run(line, &Place::End, &mut work);
            read.with_context(|| self.name.clone())?;
        }
        for line in self.runs.finish() {
            self.line(line, &Place::End, &mut work).with_context(|| self.name.clone())?;
        }
        for task in self.repeats.release() {
            self.count(task, &mut work);
        }
        let mut unanswered = HashSet::new();
        for (name, task) in std::mem::take(&mut self.silent) {
            let sample = (task.problem, name);
            match self.named(name, &task)? {
                Named::Again { is_changed } if unanswered.contains(&sample) => {
                    let again = self.repeats.add(task, is_changed);
                    again.into_iter().for_each(|task| self.count(task, &mut work));
                }
                Named::Again { .. } if !self.repeats.means_nothing() => {
                    self.notes.answered_again += 1
                }
                _ => {
                    unanswered.insert(sample);
                    self.count(task, &mut work);
                }
            }
        }
        work.tasks.extend(self.failed());
        Ok(work)
    }

    /// The failed requests that no other request answered. A problem has as many requests as most problems
    /// without a failed one, or, where all have one, 1 in a batch and else as many as the largest has: one that failed
    /// beyond that was repeated.
    fn failed(&mut self) -> Vec<Task> {
        let failed = std::mem::take(&mut self.failed);
        let is_batch = !self.answered.is_empty();
        if !is_batch && !failed.is_empty() {
            self.answered = self.counts.iter().copied().enumerate().collect();
        }
        let of_failed: HashSet<usize> = failed.iter().map(|task| task.problem).collect();
        let mut usual: HashMap<usize, usize> = HashMap::new();
        for (problem, requests) in &self.answered {
            *usual.entry(*requests).or_default() += usize::from(!of_failed.contains(problem));
        }
        let usual = usual.into_iter().filter(|(_, count)| *count > 0);
        let usual = usual.max_by_key(|(requests, count)| (*count, *requests));
        let all = || {
            let mut all = self.answered.clone();
            failed.iter().for_each(|task| *all.entry(task.problem).or_default() += 1);
            all.into_values().max().unwrap_or(1)
        };
        let of_all = || if is_batch { 1 } else { all() };
        let usual = usual.map_or_else(of_all, |(requests, _)| requests);
        let mut tasks = Vec::new();
        for mut task in failed {
            let requests = self.answered.entry(task.problem).or_default();
            if *requests >= usual {
                self.notes.answered_again += 1;
                continue;
            }
            *requests += 1;
            let why = task.answer.failure.as_deref().unwrap_or_default();
            self.notes.failure(&task.target.problem.id, why);
            task.number = self.counts[task.problem];
            self.counts[task.problem] += 1;
            tasks.push(task);
        }
        tasks
    }

    /// The problems and the notes.
    pub(super) fn finish(mut self) -> Result<Graded> {
        let has_none = self.counts.is_empty();
        if let Some(error) = self.notes.without_gold.first.take_if(|_| has_none) {
            return Err(error);
        }
        self.problems.check_ids().with_context(|| self.name.clone())?;
        let of_golds = self.problems.several_golds(self.job.keys.gold.is_some());
        let of_golds = of_golds.with_context(|| self.name.clone())?;
        let prompts = (self.with_prompts > 0).then(|| {
            let completions = with_verb(self.with_prompts, "completion", "begin");
            format!("{completions} with the prompt, which is cut off")
        });
        let turns = (self.with_turns > 0).then(|| {
            format!(
                "{} several turns of the assistant, and only the first is judged: for multi-turn rollouts give the \
                 last turn",
                with_verb(self.with_turns, "completion", "have")
            )
        });
        let models: Vec<String> = self.models.into_iter().collect();
        let of_models = (models.len() > 1).then(|| several_models(&models));
        // What a problem has once may be a sample of another one.
        let are_single = self.job.dataset.is_none() && self.counts.iter().all(|count| *count == 1);
        let seem = are_single.then(|| self.problems.seem_samples()).flatten();
        let groups = self.problems.has_groups.then(|| {
            "every record has its own id, so ids number the records: `prompt_id`, `doc_id` or the like names their \
             problems"
                .to_owned()
        });
        let of_file = of_golds.into_iter().chain(prompts).chain(turns);
        let of_file = of_file.chain(self.thoughts.sentence(&self.name));
        let of_file = of_file.chain(self.repeats.sentences()).chain(self.runs.sentences());
        let of_file = of_file.chain(of_models).chain(seem).chain(groups);
        let of_file = of_file.chain(self.settings.sentence()).chain(self.filters.sentences());
        of_file.for_each(|note| self.notes.say(note));
        let (sampling, classes) = (self.sampling, self.notes.classes);
        let notes = self.notes.sentences(&self.problems, self.job);
        Ok(Graded {
            problems: self.problems.finish(),
            classes,
            notes,
            models,
            sampling,
            ..Graded::default()
        })
    }
}
