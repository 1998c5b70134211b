//! How different correct completions are as texts, over a fixed number of them: models that are correct more
//! often would otherwise seem more diverse.

use std::collections::HashMap;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

/// Correct completions of a problem that are compared, the first ones drawn; problems with fewer have no
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
    pub fn from_texts(texts: &[String]) -> Option<Self> {
        let texts: &[String; TEXTS] = texts.first_chunk()?;
        let words = texts.each_ref().map(|text| words(text));
        let orders = orders(&words);
        let self_bleu = bleus(&orders).iter().sum::<f64>() / TEXTS as f64;
        let [distinct_1, distinct_2] = [&orders[0], &orders[1]].map(Grams::distinct);
        Some(Self { distinct_1, distinct_2, self_bleu })
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

/// The n-grams of texts at one order. Equal ones have one number, so that an n-gram is compared once, as the number of
/// all its words but the last and that word, and never word by word.
struct Grams<const TEXTS: usize> {
    /// The number of the n-gram at each position of each text.
    numbers: [Vec<usize>; TEXTS],
    /// How often each n-gram stands in each text, by its number.
    counts: Vec<[usize; TEXTS]>,
}

impl<const TEXTS: usize> Grams<TEXTS> {
    /// Numbers what each text has at its positions.
    fn new<K: Hash + Eq, I: Iterator<Item = K>>(mut text: impl FnMut(usize) -> I) -> Self {
        let (mut known, mut counts) = (HashMap::new(), Vec::new());
        let numbers = std::array::from_fn(|index| {
            let number = |gram| {
                let number = *known.entry(gram).or_insert(counts.len());
                if number == counts.len() {
                    counts.push([0; TEXTS]);
                }
                counts[number][index] += 1;
                number
            };
            text(index).map(number).collect()
        });
        Self { numbers, counts }
    }

    /// The n-grams of `n` words, of those of one word less and of the words.
    fn longer(&self, words: &Self, n: usize) -> Self {
        Self::new(|text| {
            let last = words.numbers[text].iter().skip(n - 1);
            self.numbers[text].iter().copied().zip(last.copied())
        })
    }

    /// The share of different ones.
    fn distinct(&self) -> f64 {
        let all: usize = self.numbers.iter().map(Vec::len).sum();
        if all == 0 { 0.0 } else { self.counts.len() as f64 / all as f64 }
    }

    /// How many n-grams of each text stand in another text, each at most as often as in the text that has it most.
    fn matched(&self) -> [usize; TEXTS] {
        let mut matched = [0; TEXTS];
        for counts in &self.counts {
            // Of all texts, and of all but the one that has it most.
            let (mut most, mut most_text, mut second) = (0, 0, 0);
            for (text, count) in counts.iter().enumerate() {
                match *count > most {
                    true => (most, most_text, second) = (*count, text, most),
                    false => second = second.max(*count),
                }
            }
            for (text, count) in counts.iter().enumerate() {
                matched[text] += (*count).min(if text == most_text { second } else { most });
            }
        }
        matched
    }
}

/// The n-grams of one to four words.
fn orders<const TEXTS: usize>(words: &[Vec<&str>; TEXTS]) -> [Grams<TEXTS>; 4] {
    let one = Grams::new(|text| words[text].iter());
    let two = one.longer(&one, 2);
    let three = two.longer(&one, 3);
    let four = three.longer(&one, 4);
    [one, two, three, four]
}

/// BLEU-4 (Papineni et al. 2002) of each text with the others as references, with one added to the counts of orders
/// above one (Lin and Och 2004), so that short texts have a value.
fn bleus<const TEXTS: usize>(orders: &[Grams<TEXTS>; 4]) -> [f64; TEXTS] {
    let matched = orders.each_ref().map(Grams::matched);
    std::array::from_fn(|text| {
        let length = orders[0].numbers[text].len();
        if length == 0 {
            return 0.0;
        }
        let mut log_precision = 0.0;
        for (order, (grams, matched)) in orders.iter().zip(&matched).enumerate() {
            let (all, matched, added) =
                (grams.numbers[text].len(), matched[text], usize::from(order > 0));
            if matched + added == 0 {
                return 0.0;
            }
            log_precision += ((matched + added) as f64 / (all + added) as f64).ln() / 4.0;
        }
        let others = (0..TEXTS).filter(|other| *other != text);
        let closest = others
            .map(|other| orders[0].numbers[other].len())
            .min_by_key(|other| (other.abs_diff(length), *other))
            .unwrap_or(0) as f64;
        let length = length as f64;
        // Precisions reward short texts: BLEU's penalty e^(1 - reference / length).
        let brevity = if length >= closest { 1.0 } else { (1.0 - closest / length).exp() };
        brevity * log_precision.exp()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_self_bleu_1_and_distinct_ones_0() {
        let measure = |texts: &[&str]| {
            TextDiversity::from_texts(
                &texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(),
            )
        };
        let same = measure(&["a b c d e"; 8]).unwrap();
        assert!((same.self_bleu - 1.0).abs() < 1e-12);
        assert_eq!((same.distinct_1, same.distinct_2), (5.0 / 40.0, 4.0 / 32.0));
        let texts: Vec<String> =
            (0..8).map(|i| (0..6).map(|j| format!("w{i}{j} ")).collect()).collect();
        let other = TextDiversity::from_texts(&texts).unwrap();
        assert_eq!((other.distinct_1, other.distinct_2), (1.0, 1.0));
        assert_eq!(other.self_bleu, 0.0);
        assert_eq!(measure(&["a b"; 7]), None);
        assert!(measure(&["3*(7+9-8)"; 8]).unwrap().distinct_1 < 1.0, "by character");
    }

    #[test]
    fn bleu_equals_its_definition() {
        let text = ["the", "cat", "sat", "down"];
        let reference = ["the", "cat", "sat", "on", "it"];
        // Precisions 3/4, (2+1)/(3+1), (1+1)/(2+1), (0+1)/(1+1); brevity exp(1 - 5/4).
        let product: f64 = 0.75 * 0.75 * (2.0 / 3.0) * 0.5;
        let exact = (1.0_f64 - 1.25).exp() * product.powf(0.25);
        let both = orders(&[text.to_vec(), reference.to_vec()]);
        assert!((bleus(&both)[0] - exact).abs() < 1e-12);
    }

    /// The same by comparing all words of every n-gram with those of all others.
    fn by_definition(texts: &[String]) -> TextDiversity {
        let words: Vec<Vec<&str>> = texts.iter().map(|text| words(text)).collect();
        let count = |words: &[&str], gram: &[&str]| {
            words.windows(gram.len()).filter(|other| *other == gram).count()
        };
        let distinct = |n: usize| {
            let grams: Vec<&[&str]> = words.iter().flat_map(|words| words.windows(n)).collect();
            let first = |at: &usize| !grams[..*at].contains(&grams[*at]);
            (0..grams.len()).filter(first).count() as f64 / grams.len().max(1) as f64
        };
        let bleu = |text: usize| {
            let others = || (0..TEXTS).filter(|other| *other != text).map(|other| &words[other]);
            let mut log_precision = 0.0;
            for n in 1..=4 {
                let (mut matched, mut all) = (0, 0);
                for (at, gram) in words[text].windows(n).enumerate() {
                    all += 1;
                    let before = count(&words[text][..at + n - 1], gram);
                    let most = others().map(|other| count(other, gram)).max().unwrap();
                    matched += usize::from(before < most);
                }
                let added = usize::from(n > 1);
                if matched + added == 0 {
                    return 0.0;
                }
                log_precision += ((matched + added) as f64 / (all + added) as f64).ln() / 4.0;
            }
            let length = words[text].len();
            let lengths = others().map(Vec::len);
            let closest = lengths.min_by_key(|other| (other.abs_diff(length), *other)).unwrap();
            let (length, closest) = (length as f64, closest as f64);
            let brevity = if length >= closest { 1.0 } else { (1.0 - closest / length).exp() };
            brevity * log_precision.exp()
        };
        let self_bleu = (0..TEXTS).map(bleu).sum::<f64>() / TEXTS as f64;
        TextDiversity { distinct_1: distinct(1), distinct_2: distinct(2), self_bleu }
    }

    #[test]
    fn numbered_n_grams_have_the_bits_of_the_definition() {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for case in 0..300 {
            let (kinds, longest) = (1 + case % 7, 1 + case % 23);
            let texts: Vec<String> = (0..TEXTS)
                .map(|_| (0..1 + draw(longest)).map(|_| format!("w{} ", draw(kinds))).collect())
                .collect();
            assert_eq!(TextDiversity::from_texts(&texts), Some(by_definition(&texts)), "{texts:?}");
        }
        let empty = vec![String::new(); TEXTS];
        let none = TextDiversity { distinct_1: 0.0, distinct_2: 0.0, self_bleu: 0.0 };
        assert_eq!(TextDiversity::from_texts(&empty), Some(none));
    }
}
