//! Ids that number the records of a file, or the samples of each prompt, and name no problems.

use std::collections::{HashMap, HashSet};

use anyhow::{Result, bail};

use tealight_datasets::Problem;

use super::super::line::{Format, Line, hash};
use super::Problems;

/// The key of what may be the question of records with an id each and no prompt: what stands there comes twice or more
/// on average, and always with one gold answer.
pub(in crate::grade) fn unread_question<'l>(
    lines: impl Iterator<Item = &'l Line>,
) -> Option<&'l str> {
    let lines: Vec<&Line> = lines.collect();
    let ids: HashSet<&String> = lines.iter().filter_map(|line| line.id.as_ref()).collect();
    let is_plain = |line: &&Line| line.answers.len() == 1 && !line.golds.is_empty();
    if ids.len() < lines.len() || !lines.iter().all(is_plain) {
        return None;
    }
    let mut keys = lines.first()?.unread.iter().map(|(key, _)| key.as_str());
    keys.find(|key| {
        let mut golds = HashMap::new();
        let has_one_gold = |&line: &&'l Line| {
            let found = line.unread.iter().find(|(name, _)| name == key);
            found.is_some_and(|(_, hash)| *golds.entry(*hash).or_insert(&line.golds) == &line.golds)
        };
        lines.iter().all(has_one_gold) && golds.len() > 1 && 2 * golds.len() <= lines.len()
    })
}

impl Problems<'_> {
    /// Finds out from the first lines of a file, of one completion each, whether ids number its records, so that no id
    /// comes twice and prompts come twice or more on average, or the samples of each prompt, so that each id comes with
    /// each prompt.
    pub(in crate::grade) fn find_grouping<'l>(&mut self, lines: impl Iterator<Item = &'l Line>) {
        let (mut ids, mut pairs, mut count) = (HashMap::new(), HashSet::new(), 0);
        let mut prompts = HashMap::<u64, (usize, &[String])>::new();
        let mut are_golds_of_prompts = true;
        for line in lines {
            let (Some(id), Some(prompt)) = (&line.id, &line.prompt) else { return };
            let is_plain = matches!(line.format, Format::Own | Format::Trl | Format::Tealight);
            if !is_plain || line.answers.len() != 1 {
                return;
            }
            count += 1;
            let parts = line.parts.map(|parts| parts.to_string()).unwrap_or_default();
            let prompt = hash([prompt.plain().trim(), &parts]);
            let (of_prompt, golds) = prompts.entry(prompt).or_insert((0, &line.golds));
            are_golds_of_prompts &= *golds == line.golds;
            let is_new = pairs.insert((id, prompt));
            *of_prompt += usize::from(is_new);
            *ids.entry(id).or_insert(0) += usize::from(is_new);
        }
        self.has_row_ids = count > 1 && ids.len() == count && 2 * prompts.len() <= count;
        // But for the one that the first lines end with.
        let several = |numbers: &[usize]| {
            let alone = numbers.iter().filter(|count| **count < 2).count();
            numbers.len() > 1 && alone <= 1
        };
        let of_prompts: Vec<usize> = prompts.values().map(|(count, _)| *count).collect();
        let of_ids: Vec<usize> = ids.values().copied().collect();
        let is_grid = 2 * pairs.len() > ids.len() * prompts.len();
        self.has_sample_ids =
            are_golds_of_prompts && is_grid && several(&of_prompts) && several(&of_ids);
        self.has_row_ids |= self.has_sample_ids;
    }

    /// Finds out from the first lines of a file whether ids number its records, and another id of them names the
    /// problem: no id comes twice, the other comes twice or more on average, with one gold answer.
    pub(in crate::grade) fn find_groups<'l>(&mut self, lines: impl Iterator<Item = &'l Line>) {
        let (mut ids, mut groups, mut count) = (HashSet::new(), HashMap::new(), 0);
        for line in lines {
            let (Some(id), Some(group)) = (&line.id, &line.group) else { return };
            if line.answers.len() != 1 || line.format != Format::Own || line.golds.is_empty() {
                return;
            }
            count += 1;
            ids.insert(id);
            if *groups.entry((group, line.variant)).or_insert(&line.golds) != &line.golds {
                return;
            }
        }
        self.has_groups = count > 1 && ids.len() == count && 2 * groups.len() <= count;
    }

    /// Refuses ids that number the samples of each prompt, where the first lines of the file did not show it.
    pub(in crate::grade) fn check_ids(&self) -> Result<()> {
        if self.shared_ids.count < 2 || self.dataset.is_some() {
            return Ok(());
        }
        let problems = self.list.iter().map(|target| (&target.problem, target.parts));
        let shown = problems.filter(|(problem, _)| !problem.prompt.plain().trim().is_empty());
        let key = |(one, parts): (&Problem, Option<u64>)| {
            hash([one.prompt.plain().trim(), &one.answer, &parts.unwrap_or_default().to_string()])
        };
        let keys: Vec<u64> = shown.map(key).collect();
        let prompts = keys.iter().collect::<HashSet<_>>().len();
        if prompts > 1 && 2 * prompts <= keys.len() {
            bail!(
                "ids such as `{}` stand beside several prompts, and prompts beside several ids: ids seem to number the \
                 samples of a prompt; call that key \"sample\"",
                self.shared_ids.first.as_ref().map_or("", |(id, _)| id.as_str())
            );
        }
        Ok(())
    }
}
