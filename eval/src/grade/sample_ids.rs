//! An id that names a problem and one of its samples, to the part that names the problem.

use tealight_core::names::list;

/// What stands before the number of a sample in an id: `p7` of `p7-3`, `p7_sample_3`, `p7/run-3`.
pub(super) fn before_number(id: &str) -> Option<&str> {
    const WORDS: [&str; 12] =
        list("sample|completion|attempt|repeat|rep|run|try|seed|gen|generation|n|s");
    let is_joint = |letter: char| "-_:/#.@ (".contains(letter);
    let id = id.strip_suffix(')').unwrap_or(id);
    let stem = id.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let joined = stem.trim_end_matches(is_joint);
    let word = WORDS.iter().find_map(|word| joined.strip_suffix(word)?.strip_suffix(is_joint));
    let before = word.unwrap_or(joined).trim_end_matches(is_joint);
    let is_numbered = stem.len() < id.len() && before.len() < stem.len();
    (is_numbered && !before.is_empty()).then_some(before)
}
