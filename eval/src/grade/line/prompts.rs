//! The prompt that a completion may begin with: as a text, behind a label, or as a chat template wrote it.

use std::borrow::Cow;

use tealight_core::Prompt;

use super::Line;

/// Least bytes of a prompt that a completion is found to begin with.
const LEAST_PROMPT: usize = 8;

/// Least bytes of the last line of a prompt that is looked for in a chat.
const LEAST_LINE: usize = 16;

/// Tokens at the beginning of a text.
const BEGINNINGS: [&str; 8] = [
    "<|begin_of_text|>",
    "<bos>",
    "<|endoftext|>",
    "<s>",
    "[gMASK]<sop>",
    "<|startoftext|>",
    "<|bom|>",
    "<｜hy_begin▁of▁sentence｜>",
];

/// What a turn of a user or of the system begins with in a chat template, and what the assistant's does.
const TURNS: [(&str, &str); 19] = [
    ("<|im_start|>system", "<|im_start|>assistant"),
    ("<|im_start|>user", "<|im_start|>assistant"),
    ("<|start_header_id|>", "<|start_header_id|>assistant<|end_header_id|>"),
    ("<start_of_turn>user", "<start_of_turn>model"),
    ("<|system|>", "<|assistant|>"),
    ("<|user|>", "<|assistant|>"),
    ("[INST]", "[/INST]"),
    ("[SYSTEM_PROMPT]", "[/INST]"),
    ("<|start_of_role|>", "<|start_of_role|>assistant<|end_of_role|>"),
    ("<|header_start|>", "<|header_start|>assistant<|header_end|>"),
    ("<|im_system|>", "<|im_assistant|>assistant<|im_middle|>"),
    ("<|im_user|>", "<|im_assistant|>assistant<|im_middle|>"),
    ("<|system_start|>", "<|assistant_start|>"),
    ("<|user_start|>", "<|assistant_start|>"),
    ("<｜hy_User｜>", "<｜hy_Assistant｜>"),
    ("GPT4 Correct User:", "GPT4 Correct Assistant:"),
    ("### Instruction:", "### Response:"),
    // Without special tokens.
    ("user\n", "assistant\n"),
    ("system\n", "assistant\n"),
];

impl Line {
    /// Cuts prompts off the completions that begin with theirs: as one of these texts, or as a chat template wrote it.
    pub(super) fn cut_prompts(&mut self, prompts: &[Cow<'_, str>]) {
        let prompt = self.prompt.as_ref().map(Prompt::plain).unwrap_or_default();
        let is_prompt =
            |text: &&str| text.len() >= LEAST_PROMPT && text.contains(char::is_whitespace);
        let prompts = || prompts.iter().map(|text| text.trim()).filter(is_prompt);
        for answer in &mut self.answers {
            let text = without_beginning(&answer.text);
            let behind = prompts().filter_map(|prompt| text.trim_start().strip_prefix(prompt));
            let behind = behind.min_by_key(|rest| rest.len());
            let behind = behind.or_else(|| prompts().find_map(|prompt| behind_label(text, prompt)));
            if let Some(rest) = behind.or_else(|| behind_turns(&answer.text, &prompt)) {
                answer.text = rest.to_owned();
                self.with_prompts += 1;
            }
        }
    }
}

/// Whether a turn of the assistant stands in a text, behind the end of the first.
pub(super) fn has_turns(text: &str) -> bool {
    let is_behind = |header: &str| {
        header.starts_with("<|") && text.trim_start().rfind(header).is_some_and(|at| at > 0)
    };
    text.contains("<|") && TURNS.iter().any(|(_, assistant)| is_behind(assistant))
}

/// A text without the tokens at its beginning.
fn without_beginning(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(behind) = BEGINNINGS.iter().find_map(|token| rest.strip_prefix(token)) {
        rest = behind.trim_start();
    }
    rest
}

/// What stands behind the prompt in a text that begins with a label and the prompt: `Question: How many? Answer: 7`.
fn behind_label<'t>(text: &'t str, prompt: &str) -> Option<&'t str> {
    let mut starts = (0..=40).filter(|_| prompt.len() >= LEAST_LINE);
    let at = starts.find(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(prompt)))?;
    let is_mark = |letter: char| !letter.is_alphanumeric();
    let label = text[..at].trim_matches(is_mark).to_lowercase();
    let labels = ["user", "human", "question", "q", "problem", "prompt", "instruction", "input"];
    labels.contains(&label.as_str()).then(|| &text[at + prompt.len()..])
}

/// What stands behind the prompt in a text that begins with a rendered conversation: behind the assistant's header that
/// follows the end of the prompt, or, where the prompt is not found, behind the last one.
fn behind_turns<'t>(text: &'t str, prompt: &str) -> Option<&'t str> {
    let start = without_beginning(text);
    let (_, header) = TURNS.iter().find(|(turn, _)| start.starts_with(turn))?;
    let last = prompt.trim().lines().last().filter(|line| line.len() >= LEAST_LINE);
    let asked = last.and_then(|line| Some(text.find(line)? + line.len()));
    let behind = match asked {
        Some(at) => text[at..].split_once(header),
        None => text.rsplit_once(header),
    };
    behind.map(|(_, completion)| completion.trim_start())
}
