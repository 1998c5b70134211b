//! What is no part of an answer: courtesies and programs at the end of a text.

use super::super::scan::begins;

/// A text without the courtesies behind its answer: "Let me know if you have 3 more questions!"
pub(super) fn without_courtesy(text: &str) -> &str {
    const COURTESIES: &str = "explanation:|reason:|was this|please tell|rate |have a |cheers|don't hesitate|do not hesitate|\
        let me know|please let me know|feel free|hope this|i hope|hope that|if you have|if you need|\
        is there anything|would you like|thank|good luck";
    let mut text = text.trim();
    for _ in 0..3 {
        let end = text.trim_end_matches(['.', '!', '?', ' ', '\n', '*']);
        let start =
            [". ", "! ", "? ", "\n"].iter().filter_map(|end_of| Some(end.rfind(end_of)? + 1));
        let Some(start) = start.max() else { break };
        let last = text[start..].trim_start().to_lowercase();
        if !begins(&last, COURTESIES) {
            break;
        }
        text = text[..start].trim_end();
    }
    text
}

/// A text without a program at its end, whose numbers are no answer.
pub(super) fn without_program(text: &str) -> &str {
    let Some(inner) = text.strip_suffix("```") else { return text };
    let Some(start) = inner.rfind("```") else { return text };
    let is_program = begins(&inner[start + 3..], "python|py\n|cpp|java|js\n");
    if is_program { text[..start].trim_end() } else { text }
}
