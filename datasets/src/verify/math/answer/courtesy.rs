//! What is no part of an answer: courtesies and programs at the end of a text.

use super::super::scan::{begins, holds};

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

/// A text without the lines at its end that say why the other choices are wrong, behind one that names the right one.
pub(super) fn without_choices(text: &str) -> &str {
    let is_of_choice = |line: &str| {
        let line = line.trim_start_matches(['-', '*', '•', ' ', '(']);
        line.starts_with(|c: char| ('A'..='J').contains(&c))
            && line.get(1..).is_some_and(|rest| rest.starts_with([' ', ')', ':']))
    };
    let mut before = text;
    while let Some((rest, _)) =
        before.trim_end().rsplit_once('\n').filter(|(_, line)| is_of_choice(line))
    {
        before = rest.trim_end();
    }
    if before.len() < text.len()
        && before.ends_with([' ', '.', '*'])
        && holds(before, " is correct| is right| answer")
    {
        before
    } else {
        text
    }
}

/// A text without a program at its end, whose numbers are no answer.
pub(super) fn without_program(text: &str) -> &str {
    let Some(inner) = text.strip_suffix("```") else { return text };
    let Some(start) = inner.rfind("```") else { return text };
    let is_program = begins(&inner[start + 3..], "python|py\n|cpp|java|js\n");
    if is_program { text[..start].trim_end() } else { text }
}
