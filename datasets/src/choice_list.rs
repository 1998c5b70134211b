//! The order in which a text lists choices, in any format: `A. x`, `(A) x (B) y`, `**A.** x`, `A x`, `1. x`, bullets,
//! `['x', 'y']`. No format is parsed: the texts of the choices are looked for, with a label at most between two.

use std::cmp::Reverse;

/// Longest label between two choices, in bytes.
const MAX_LABEL: usize = 60;
/// Most places of choices in a text that are looked at: the last ones.
const MAX_PLACES: usize = 1000;
/// Words that may stand beside a label.
const WORDS: [&str; 3] = ["option", "choice", "answer"];

/// The choices that a text lists.
#[derive(Debug, PartialEq)]
pub struct Listed {
    /// Which of the choices stands at each letter; without letters the first of the list is A.
    pub letters: Vec<(char, usize)>,
    /// Whether the text shows letters.
    pub is_lettered: bool,
}

/// A choice in a text.
struct Place {
    start: usize,
    end: usize,
    which: usize,
}

/// The longest list of choices in a text, the last of several: two or more; all of them, where no letters are shown.
pub fn find(text: &str, choices: &[&str]) -> Option<Listed> {
    let mut places: Vec<Place> = Vec::new();
    for (which, choice) in choices.iter().enumerate().filter(|(_, choice)| !choice.is_empty()) {
        let found = text.rmatch_indices(choice).take(MAX_PLACES).map(|(at, _)| at);
        let found = found.filter(|at| is_whole(text, *at, choice));
        places.extend(found.map(|start| Place { start, end: start + choice.len(), which }));
    }
    places.sort_by_key(|place| (place.start, Reverse(place.end), place.which));
    places.drain(..places.len().saturating_sub(MAX_PLACES));
    let (mut longest, mut labels) = (Vec::new(), Vec::new());
    for first in (0..places.len()).rev() {
        let (mut chain, mut of_chain) = (vec![places[first].which], Vec::new());
        let mut end = places[first].end;
        for next in &places[first + 1..] {
            if next.start > end + MAX_LABEL {
                break;
            }
            if next.start < end || chain.contains(&next.which) {
                continue;
            }
            if let Some(label) = label(&text[end..next.start]) {
                chain.push(next.which);
                of_chain.push(label);
                end = next.end;
            }
        }
        // A list with letters says more than one that only repeats its texts.
        let is_better = |one: &[&str], other: &[&str]| {
            (one.len(), second_letter(one).is_some())
                > (other.len(), second_letter(other).is_some())
        };
        if is_better(&of_chain, &labels) {
            (longest, labels) = (chain, of_chain);
        }
    }
    labels.first()?;
    let second = second_letter(&labels);
    let first = second.map_or(b'A', |second| second - 1);
    let letters = (first..).map(char::from).zip(longest.iter().copied()).collect();
    let is_lettered = second.is_some();
    (is_lettered || longest.len() == choices.len()).then_some(Listed { letters, is_lettered })
}

/// The first of the labels behind the first choice, where they are letters in their order.
fn second_letter(labels: &[&str]) -> Option<u8> {
    let second = labels.first()?.bytes().next()?.to_ascii_uppercase();
    let is_next =
        |(label, letter): (&&str, u8)| label.eq_ignore_ascii_case(&char::from(letter).to_string());
    let are_letters = (b'B'..=b'Z').contains(&second) && labels.iter().zip(second..).all(is_next);
    are_letters.then_some(second)
}

/// Whether a choice is no part of a longer word or number.
fn is_whole(text: &str, at: usize, choice: &str) -> bool {
    let joins = |inner: Option<char>, outer: Option<char>| {
        inner.is_some_and(char::is_alphanumeric) && outer.is_some_and(char::is_alphanumeric)
    };
    let (before, after) = (&text[..at], &text[at + choice.len()..]);
    !joins(choice.chars().next(), before.chars().next_back())
        && !joins(choice.chars().next_back(), after.chars().next())
}

/// The label of what stands between two choices, which is empty between bullets, lines and quoted texts; none where
/// other words stand there.
fn label(between: &str) -> Option<&str> {
    // LaTeX puts commands there: `\qquad\textbf{(B)}\ `.
    let is_word = |word: &&str| {
        !word.is_empty()
            && !word.starts_with('\\')
            && !WORDS.contains(&word.to_lowercase().as_str())
    };
    let words = between.split(|c: char| !c.is_alphanumeric() && c != '\\').filter(is_word);
    let words: Vec<&str> = words.collect();
    let has_line = between.contains('\n');
    let is_quoted = between.contains(',') && between.contains(['\'', '"']);
    let is_divided = between.contains(|c: char| c != ' ' && !c.is_alphanumeric());
    match words[..] {
        [] if has_line || is_quoted => Some(""),
        [label] if is_divided && (label.chars().count() == 1 || label.parse::<u8>().is_ok()) => {
            Some(label)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_every_format_are_found() {
        let letters = "\
            \nA. <w>\nB. <x>\nC. <y>\nD. <z>|\n(A) <w>\n(B) <x>\n(C) <y>\n(D) <z>| (A) <w> (B) <x> (C) <y> (D) <z>\
            | A. <w> B. <x> C. <y> D. <z>| A) <w>, B) <x>, C) <y>, D) <z>|\
            \nA <w>\nB <x>\nC <y>\nD <z>|\nA\t<w>\nB\t<x>\nC\t<y>\nD\t<z>|\
            \nA - <w>\nB - <x>\nC - <y>\nD - <z>|\n[A] <w>\n[B] <x>\n[C] <y>\n[D] <z>|\
            \n**A.** <w>\n**B.** <x>\n**C.** <y>\n**D.** <z>|\n- A. <w>\n- B. <x>\n- C. <y>\n- D. <z>|\
            \nOption A: <w>\nOption B: <x>\nOption C: <y>\nOption D: <z>|\
            \n{'A': '<w>', 'B': '<x>', 'C': '<y>', 'D': '<z>'}|\nA．<w>\nB．<x>\nC．<y>\nD．<z>|\
            \na) <w>\nb) <x>\nc) <y>\nd) <z>\
            | $\\textbf{(A)}\\ <w>\\qquad\\textbf{(B)}\\ <x>\\qquad\\textbf{(C)}\\ <y>\\qquad\\textbf{(D)}\\ <z>$";
        let others = "\
            \n1. <w>\n2. <x>\n3. <y>\n4. <z>|\n- <w>\n- <x>\n- <y>\n- <z>| ['<w>', '<x>', '<y>', '<z>']|\
            \n<w>\n<x>\n<y>\n<z>";
        let all = letters.split('|').map(|form| (form, true));
        for (form, is_lettered) in all.chain(others.split('|').map(|form| (form, false))) {
            for (texts, order) in [
                (["cat", "car", "12", "cat food"], [0, 1, 2, 3]),
                (["cat food", "12", "cat", "car"], [3, 2, 0, 1]),
            ] {
                let marks = ["<w>", "<x>", "<y>", "<z>"];
                let put = |text: String, (mark, choice): (&str, &str)| text.replace(mark, choice);
                let text = marks.into_iter().zip(texts).fold(form.to_owned(), put);
                let text = format!("Is a cat a car, or 12?{text}\nAnswer by a letter, such as A.");
                let letters = ('A'..).zip(order).collect();
                let found = find(&text, &["cat", "car", "12", "cat food"]);
                assert_eq!(found, Some(Listed { letters, is_lettered }), "{text}");
            }
        }
    }

    #[test]
    fn words_of_a_question_are_no_list() {
        for (text, choices) in [
            ("Which is larger, cat, car, cup or cap?", &["cat", "car", "cup", "cap"][..]),
            ("Is a cat a car?", &["cat", "car"]),
            ("Answer \"Yes\" or \"No\", or 'No'/'Yes'.", &["Yes", "No"]),
            ("A. 15\nB. 25", &["1", "2"]),
        ] {
            assert_eq!(find(text, choices), None, "{text}");
        }
        // The letters count, and not a later list of the texts in another order.
        let twice = find("A. cat\nB. car\n\nOne of:\n- car\n- cat", &["cat", "car"]).unwrap();
        assert_eq!((twice.is_lettered, twice.letters), (true, vec![('A', 0), ('B', 1)]));
        // A list of some choices, with the letters that the text shows.
        let some = find("A. cup\nB. cat\nC. car\nD. none", &["cat", "car", "cap"]).unwrap();
        assert_eq!(some.letters, [('B', 0), ('C', 1)]);
    }
}
