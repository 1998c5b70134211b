//! What is to be said of records that were read, but may mean something else: behind how many they are.

pub(super) const TWO_GOLDS: &str =
    "with two gold answers that differ, of which the first is read (--gold-key names another)";
pub(super) const TWO_TEXTS: &str =
    "with two completions that differ, of which one is read (--completion-key names another)";
pub(super) const EXTRACTED_FROM: &str = "with an answer beside the longer text that it was taken from, which is read (--completion-key names another)";
pub(super) const PRINTED_OBJECT: &str =
    "whose completion is a response as JSON text, which is read";
pub(super) const OF_PYTHON: &str = "whose completion is a response as Python prints it, which is judged as a text: write it as JSON (model_dump(), json.dumps)";
pub(super) const MESSAGES: &str =
    "with several messages of the assistant as its completion, of which each is read as one sample";
pub(super) const PRINTED: &str = "whose completion is a printed list, of which each item is one";
pub(super) const NUMBERS: &str = "with numbers as completions (if these are token ids, name the key of the text with --completion-key)";
pub(super) const NUMBERED: &str = "with numbered keys, which are read as further completions";
pub(super) const TURNS: &str =
    "with turns of the user between those of the assistant, of which the last is judged";
pub(super) const PARALLEL: &str =
    "with as many gold answers as completions: each gold answer is right for every completion";
pub(super) const LOST: &str =
    "with a command of LaTeX that was written with one backslash in JSON, which is put back";
