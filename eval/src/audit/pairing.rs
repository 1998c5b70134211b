//! The problems of several files, brought under one name each: by id where the files share ids, else by prompt. Files
//! of two harnesses name the same problem otherwise.

use std::collections::{HashMap, HashSet};

use anyhow::{Result, bail};
use tealight_core::display::shortened;
use tealight_core::fnv;

use crate::number::counted;
use crate::results::SetResult;

/// How the problems of a file became those of the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pairing {
    /// They have the same ids.
    ById,
    /// They have the same prompts: the base's id of each, by the file's own.
    ByPrompt(HashMap<String, String>),
}

/// Least words of a question that another prompt may end with.
const LEAST_WORDS: usize = 3;

/// Whether the second gold answer says the same as the first, of the problem with this place in the first set.
pub(super) type SameGold<'a> = dyn Fn(usize, &str) -> bool + 'a;

/// Pairs the problems of a set with the base's.
///
/// # Errors
/// Nothing to pair by, and what differs; the same problem with another gold answer.
pub fn pair(
    (base_name, base): (&str, &SetResult),
    (name, set): (&str, &SetResult),
    same_gold: &SameGold<'_>,
) -> Result<Pairing> {
    let ids: HashMap<&str, usize> =
        base.problems.iter().zip(0..).map(|(t, i)| (t.problem.as_str(), i)).collect();
    let shared: Vec<(usize, usize)> = set
        .problems
        .iter()
        .enumerate()
        .filter_map(|(i, tally)| Some((*ids.get(tally.problem.as_str())?, i)))
        .collect();
    let conflict = |pairs: &[(usize, usize)]| {
        pairs.iter().find_map(|(first, second)| {
            let (one, other) = (base.questions.get(*first)?, set.questions.get(*second)?);
            // Letters of shuffled choices say nothing.
            let are_choices = one.choice.is_some() && other.choice.is_some();
            let (a, b) = match are_choices {
                true => (one.gold(), other.gold()),
                false => (one.answer.as_str(), other.answer.as_str()),
            };
            let differs = a.trim() != b.trim() && (are_choices || !same_gold(*first, b));
            differs.then(|| (&base.problems[*first].problem, a, b))
        })
    };
    let by_id = conflict(&shared);
    if !shared.is_empty() && by_id.is_none() {
        return Ok(Pairing::ById);
    }
    let pairs = by_prompt(base, set);
    match (pairs.is_empty(), conflict(&pairs)) {
        (false, None) => {
            let named = |(first, second): (usize, usize)| {
                (set.problems[second].problem.clone(), base.problems[first].problem.clone())
            };
            Ok(Pairing::ByPrompt(pairs.into_iter().map(named).collect()))
        }
        (false, Some((id, a, b))) => bail!(
            "problem `{id}` of {base_name} has the gold answer `{}`, and the same prompt in {name} has `{}`: name the \
             right ones with --dataset",
            short(a),
            short(b)
        ),
        (true, _) => match by_id {
            Some((id, a, b)) => bail!(
                "problem `{id}` has the gold answer `{}` in {base_name} and `{}` in {name}, and no prompts are the same: \
                 these are other problems, or name the right gold answers with --dataset",
                short(a),
                short(b)
            ),
            None => bail!(
                "{base_name} and {name} share no id and no prompt: {base_name} has {} such as {}, {name} has {} such \
                 as {}; --dataset FILE pairs both by the prompts or ids of a dataset",
                counted(base.problems.len(), "problem"),
                example(base),
                counted(set.problems.len(), "problem"),
                example(set)
            ),
        },
    }
}

/// Places of problems with the same prompt, of prompts that stand once in each file: as they are, or else without what
/// all prompts of a file begin and end with, such as the roles of a chat or an instruction, or else where one such
/// prompt ends with the other, after examples that are not the same for all.
fn by_prompt(base: &SetResult, set: &SetResult) -> Vec<(usize, usize)> {
    let (first, second) = (words(base), words(set));
    let pairs = alike(&first, &second);
    if !pairs.is_empty() {
        return pairs;
    }
    let (first, second) = (without_frame(first), without_frame(second));
    let pairs = alike(&first, &second);
    if !pairs.is_empty() {
        return pairs;
    }
    let (first_ends, second_ends) = (ends(&first, &second), ends(&second, &first));
    let pairs = alike(&first_ends, &second);
    if pairs.is_empty() { alike(&first, &second_ends) } else { pairs }
}

/// Each prompt from where the longest of `others` begins that it ends with.
fn ends<'a>(prompts: &[Vec<&'a str>], others: &[Vec<&str>]) -> Vec<Vec<&'a str>> {
    let is_question = |words: &&Vec<&str>| words.len() >= LEAST_WORDS;
    let hashes: HashSet<u64> = others.iter().filter(is_question).map(|words| hash(words)).collect();
    let mut lengths: Vec<usize> = others.iter().filter(is_question).map(Vec::len).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths.dedup();
    let end = |words: &Vec<&'a str>| {
        let ends =
            lengths.iter().filter_map(|length| Some(&words[words.len().checked_sub(*length)?..]));
        ends.into_iter().find(|end| hashes.contains(&hash(end))).unwrap_or_default().to_vec()
    };
    prompts.iter().map(end).collect()
}

fn hash(words: &[&str]) -> u64 {
    fnv(words.iter().flat_map(|word| word.bytes().chain([b' '])))
}

/// The words of each prompt, where the marks of a chat template are words: `have?<|im_end|>` is two.
fn words(set: &SetResult) -> Vec<Vec<&str>> {
    let before = |part: &str| part.find(['<', '[']).unwrap_or_default();
    let parts =
        |word| str::split_inclusive(word, ['>', ']']).map(move |part| part.split_at(before(part)));
    let all = |prompt| {
        let words = str::split_whitespace(prompt).flat_map(parts);
        words.flat_map(|(word, mark)| [word, mark]).filter(|word| !word.is_empty()).collect()
    };
    set.questions.iter().map(|question| all(&question.prompt)).collect()
}

/// The prompts without the words that all of them begin with, and those that all end with.
fn without_frame(prompts: Vec<Vec<&str>>) -> Vec<Vec<&str>> {
    let shared = |first: &Vec<&str>, other: &Vec<&str>| {
        let begin = first.iter().zip(other).take_while(|(a, b)| a == b).count();
        let end = first.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
        (begin, end)
    };
    let least = |(a, b): (usize, usize), (c, d): (usize, usize)| (a.min(c), b.min(d));
    let frames = prompts.windows(2).map(|two| shared(&two[0], &two[1]));
    let Some((begin, end)) = frames.reduce(least) else { return prompts };
    let mut cores = prompts;
    for words in &mut cores {
        words.truncate(words.len().saturating_sub(end));
        words.drain(..begin.min(words.len()));
    }
    cores
}

fn alike(first: &[Vec<&str>], second: &[Vec<&str>]) -> Vec<(usize, usize)> {
    let unique = |prompts: &[Vec<&str>]| -> HashMap<u64, usize> {
        let (mut known, mut repeated) = (HashMap::new(), HashSet::new());
        for (i, words) in prompts.iter().enumerate().filter(|(_, words)| !words.is_empty()) {
            let hash = hash(words);
            if known.insert(hash, i).is_some() {
                repeated.insert(hash);
            }
        }
        known.retain(|hash, _| !repeated.contains(hash));
        known
    };
    let (first, second) = (unique(first), unique(second));
    let mut pairs: Vec<(usize, usize)> =
        first.iter().filter_map(|(hash, i)| Some((*i, *second.get(hash)?))).collect();
    pairs.sort_unstable();
    pairs
}

/// The id of the first problem, and how its prompt begins.
fn example(set: &SetResult) -> String {
    let id = set.problems.first().map(|tally| short(&tally.problem)).unwrap_or_default();
    match set.questions.first().map(|question| short(&question.prompt)) {
        Some(prompt) if !prompt.is_empty() => format!("`{id}` (prompt `{prompt}`)"),
        _ => format!("`{id}` (no prompt)"),
    }
}

fn short(text: &str) -> String {
    shortened(text.trim(), 40)
}

impl Pairing {
    /// Gives the problems of a set the base's names; those that are not the base's are marked.
    pub fn apply(&self, set: &mut SetResult) {
        let Pairing::ByPrompt(names) = self else { return };
        for tally in &mut set.problems {
            match names.get(&tally.problem) {
                Some(name) => tally.problem.clone_from(name),
                // An id of the file's own may be another problem's in the base.
                None => tally.problem.push_str(" (unpaired)"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn set(problems: &[(&str, &str, &str)]) -> SetResult {
        let tallies = problems.iter().map(|(id, ..)| fixtures::tally(id, 1, 0)).collect();
        let question = |(_, prompt, gold): &(&str, &str, &str)| fixtures::question(prompt, gold);
        SetResult {
            questions: problems.iter().map(question).collect(),
            ..fixtures::set("s", tallies, &[1])
        }
    }

    fn paired(base: &SetResult, other: &SetResult) -> Result<Pairing> {
        pair(("a", base), ("b", other), &|_, gold| gold == "1/2")
    }

    #[test]
    fn problems_are_paired_by_id_or_else_by_prompt() {
        let base = set(&[("0", "How many?", "7"), ("1", "What  half?", "0.5")]);
        let same = set(&[("1", "x", "1/2"), ("0", "y", "7")]);
        assert_eq!(paired(&base, &same).unwrap(), Pairing::ById);
        // Another harness: other ids, or the same ids for other problems.
        for ids in [["q8", "q9"], ["1", "0"]] {
            let mut other = set(&[(ids[0], "How many?\n", "7"), (ids[1], "What half?", "1/2")]);
            let pairing = paired(&base, &other).unwrap();
            pairing.apply(&mut other);
            let names: Vec<&str> = other.problems.iter().map(|t| t.problem.as_str()).collect();
            assert_eq!(names, ["0", "1"]);
        }
    }

    #[test]
    fn shuffled_choices_are_paired_by_the_text_of_the_right_one() {
        let with = |letter: &str, text: &str| {
            let mut set = set(&[("0", "Which?", letter)]);
            set.questions[0].choice = Some(text.to_owned());
            set
        };
        let base = with("B", "a cat");
        assert_eq!(paired(&base, &with("D", "a cat")).unwrap(), Pairing::ById);
        let why = paired(&base, &with("B", "a dog")).unwrap_err().to_string();
        assert!(why.contains("`a cat`") && why.contains("`a dog`"), "{why}");
    }

    #[test]
    fn roles_and_instructions_around_all_prompts_are_no_difference() {
        let base = set(&[("0", "How many?", "7"), ("1", "How  tall?", "9")]);
        let framed = |question: &str| format!("user\n{question}\nBox it.\nassistant\n");
        let (many, tall) = (framed("How many?"), framed("How tall?"));
        let other = set(&[("a", &tall, "9"), ("b", &many, "7")]);
        let Pairing::ByPrompt(names) = paired(&base, &other).unwrap() else { panic!("by prompt") };
        assert_eq!((names["a"].as_str(), names["b"].as_str()), ("1", "0"));
    }

    #[test]
    fn questions_after_other_examples_are_paired_by_what_prompts_end_with() {
        let plain = set(&[("0", "How many cows are there?", "7"), ("1", "How tall is it?", "9")]);
        let shown =
            |example: &str, question: &str| format!("Q: {example}\nA: 1\n\nQ: {question}\nA:");
        let (many, tall) = (
            shown("How old is he?", "How many cows are there?"),
            shown("What is a cow?", "How tall is it?"),
        );
        let shots = set(&[("a", &tall, "9"), ("b", &many, "7")]);
        let pairs = |base, other| match paired(base, other).unwrap() {
            Pairing::ByPrompt(names) => names,
            Pairing::ById => panic!("by prompt"),
        };
        let (found, back) = (pairs(&plain, &shots), pairs(&shots, &plain));
        assert_eq!((found["a"].as_str(), found["b"].as_str()), ("1", "0"));
        assert_eq!((back["1"].as_str(), back["0"].as_str()), ("a", "b"));
    }

    #[test]
    fn files_that_cannot_be_paired_say_what_differs() {
        let base = set(&[("0", "How many?", "7"), ("1", "What half?", "0.5")]);
        let refusal = |other: &SetResult| paired(&base, other).unwrap_err().to_string();
        let message = refusal(&set(&[("x1", "Other?", "7")]));
        let shown = ["such as `0` (prompt `How many?`)", "such as `x1` (prompt `Other?`)"];
        assert!(shown.iter().all(|text| message.contains(text)), "{message}");
        let message = refusal(&set(&[("0", "Other?", "8")]));
        assert!(message.contains("`7` in a and `8` in b"), "{message}");
        let message = refusal(&set(&[("x", "How many?", "9")]));
        assert!(message.contains("the same prompt in b has `9`"), "{message}");
        // A prompt that occurs twice says nothing.
        let message = refusal(&set(&[("x", "How many?", "7"), ("y", "How many?", "7")]));
        assert!(message.contains("share no id and no prompt"), "{message}");
    }
}
