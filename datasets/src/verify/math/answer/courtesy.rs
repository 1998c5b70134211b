//! What is no part of an answer: courtesies at its end, and refusals to answer.

use super::super::scan::{entries, holds, is_one_of, past};
use super::MAX_WHOLE;

/// A text without the courtesies behind its answer: "Let me know if you have 3 more questions!"
pub(super) fn without_courtesy(text: &str) -> &str {
    const COURTESIES: [&str; 21] = entries(
        "explanation:|reason:|was this|please tell|rate |have a |cheers|don't hesitate|do not hesitate|\
        let me know|please let me know|feel free|hope this|i hope|hope that|if you have|if you need|\
        is there anything|would you like|thank|good luck",
    );
    let mut text = text.trim();
    for _ in 0..3 {
        let end = text.trim_end_matches(['.', '!', '?', ' ', '\n', '*']);
        let start =
            [". ", "! ", "? ", "\n"].iter().filter_map(|end_of| Some(end.rfind(end_of)? + 1));
        let Some(start) = start.max() else { break };
        let last = text[start..].trim_start().to_lowercase();
        if !COURTESIES.iter().any(|begin| last.starts_with(begin)) {
            break;
        }
        text = text[..start].trim_end();
    }
    text
}

/// Whether a text refuses to answer.
pub(super) fn is_refusal(text: &str) -> bool {
    const ANYWHERE: [&str; 9] = entries(
        "i can't help|i cannot help|i can't assist|i cannot assist|i can't answer|i cannot answer|i'm unable to|\
        i am unable to|i'm not able to",
    );
    // At the beginning of the last sentence, where no value follows as its consequence.
    const LAST: [&str; 8] = entries(
        "i will not answer|i have no idea|i have 0 idea|i give up|i refuse|i can't do|i am not able to|i won't",
    );
    if text.len() > MAX_WHOLE {
        return false;
    }
    let lower = text.to_lowercase().replace('’', "'");
    let bare = lower.trim_matches(|c: char| !c.is_alphanumeric());
    let is_blank = is_one_of(bare, "no idea|no answer|no clue|no comment");
    let asks = ["is ", "are ", "could ", "would ", "can "];
    let sentences = || lower.split(['.', '!', '?', '\n']).filter(|part| !part.trim().is_empty());
    let is_question = lower.ends_with('?')
        && sentences().count() == 1
        && asks.iter().any(|begin| lower.starts_with(begin));
    let last = sentences().next_back().unwrap_or_default().trim();
    let last = past(last, "sorry, |sorry but |no, ").unwrap_or(last);
    let refuses = LAST.iter().any(|words| last.starts_with(words))
        && !holds(last, ", so |, but |, thus |, hence |, leaving ");
    is_blank || is_question || refuses || ANYWHERE.iter().any(|words| lower.contains(words))
}
