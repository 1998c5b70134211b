//! How different correct completions are as texts, over a fixed number of them: models that are correct more
//! often would otherwise seem more diverse.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

/// Right completions of a problem that are compared, the first ones drawn; problems with fewer have no
/// value.
pub const TEXTS: usize = 8;

/// Diversity of the words of a problem's correct completions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TextDiversity {
    /// Distinct words over all words.
    pub distinct_1: f64,
    /// Distinct pairs of neighbouring words over all pairs.
    pub distinct_2: f64,
    /// Mean BLEU-4 of each completion with the others as references: 1 where all are the same.
    pub self_bleu: f64,
}

impl TextDiversity {
    /// Of exactly [`TEXTS`] completions, `None` for fewer. A word is what white space separates; texts
    /// without white space are taken by character.
    pub fn of(texts: &[String]) -> Option<Self> {
        if texts.len() < TEXTS {
            return None;
        }
        let words: Vec<Vec<&str>> = texts[..TEXTS].iter().map(|text| words(text)).collect();
        let bleus = (0..TEXTS).map(|i| {
            let others: Vec<&[&str]> =
                (0..TEXTS).filter(|j| *j != i).map(|j| words[j].as_slice()).collect();
            bleu(&words[i], &others)
        });
        let self_bleu = bleus.sum::<f64>() / TEXTS as f64;
        Some(Self { distinct_1: distinct(&words, 1), distinct_2: distinct(&words, 2), self_bleu })
    }
}

fn words(text: &str) -> Vec<&str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() > 1 {
        return words;
    }
    let text = text.trim();
    text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect()
}

fn distinct(texts: &[Vec<&str>], n: usize) -> f64 {
    let grams: Vec<&[&str]> = texts.iter().flat_map(|words| words.windows(n)).collect();
    let different: HashSet<_> = grams.iter().collect();
    if grams.is_empty() { 0.0 } else { different.len() as f64 / grams.len() as f64 }
}

/// BLEU-4 (Papineni et al. 2002) of a text against references, with one added to the counts of orders
/// above one (Lin and Och 2004), so that short texts have a value.
fn bleu(text: &[&str], references: &[&[&str]]) -> f64 {
    if text.is_empty() {
        return 0.0;
    }
    let mut log_precision = 0.0;
    for n in 1..=4 {
        let (mut matched, mut all) = (0, 0);
        let most = references.iter().map(|reference| counts(reference, n)).fold(
            HashMap::new(),
            |mut most: HashMap<&[&str], usize>, counts| {
                for (gram, count) in counts {
                    let known = most.entry(gram).or_default();
                    *known = count.max(*known);
                }
                most
            },
        );
        for (gram, count) in counts(text, n) {
            matched += count.min(most.get(gram).copied().unwrap_or(0));
            all += count;
        }
        let added = usize::from(n > 1);
        if matched + added == 0 {
            return 0.0;
        }
        log_precision += ((matched + added) as f64 / (all + added) as f64).ln() / 4.0;
    }
    let length = text.len() as f64;
    let closest = references
        .iter()
        .map(|reference| reference.len())
        .min_by_key(|other| (other.abs_diff(text.len()), *other))
        .unwrap_or(0) as f64;
    let brevity = if length >= closest { 1.0 } else { (1.0 - closest / length).exp() };
    brevity * log_precision.exp()
}

fn counts<'a>(words: &'a [&'a str], n: usize) -> HashMap<&'a [&'a str], usize> {
    let mut counts: HashMap<&[&str], usize> = HashMap::new();
    words.windows(n).for_each(|gram| *counts.entry(gram).or_default() += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_not_diverse_and_different_ones_are() {
        let of = |texts: &[&str]| {
            TextDiversity::of(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        let same = of(&["a b c d e"; 8]).unwrap();
        assert!((same.self_bleu - 1.0).abs() < 1e-12);
        assert_eq!((same.distinct_1, same.distinct_2), (5.0 / 40.0, 4.0 / 32.0));
        let texts: Vec<String> =
            (0..8).map(|i| (0..6).map(|j| format!("w{i}{j} ")).collect()).collect();
        let other = TextDiversity::of(&texts).unwrap();
        assert_eq!((other.distinct_1, other.distinct_2), (1.0, 1.0));
        assert_eq!(other.self_bleu, 0.0);
        assert_eq!(of(&["a b"; 7]), None);
        assert!(of(&["3*(7+9-8)"; 8]).unwrap().distinct_1 < 1.0, "by character");
    }

    #[test]
    fn bleu_is_that_of_the_definition() {
        let text = ["the", "cat", "sat", "down"];
        let reference = ["the", "cat", "sat", "on", "it"];
        // Precisions 3/4, (2+1)/(3+1), (1+1)/(2+1), (0+1)/(1+1); brevity exp(1 - 5/4).
        let product: f64 = 0.75 * 0.75 * (2.0 / 3.0) * 0.5;
        let exact = (1.0_f64 - 1.25).exp() * product.powf(0.25);
        assert!((bleu(&text, &[&reference]) - exact).abs() < 1e-12);
    }
}
