//! Texts of the tokens that end a turn in well-known chat formats.

/// The texts, each of one token in the tokenizers of its families.
const ENDS: [&str; 12] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<|end|>",
    "<|return|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|end_of_turn|>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "</s>",
];

/// The first end of a turn in a completion. A completion that was truncated and has one went on after the model had
/// ended its turn.
///
/// ```
/// use tealight_core::turns::end_of_turn;
///
/// assert_eq!(end_of_turn("4<|im_end|>\n<|im_start|>user"), Some("<|im_end|>"));
/// assert_eq!(end_of_turn("x < s > y"), None);
/// ```
pub fn end_of_turn(completion: &str) -> Option<&'static str> {
    let found = ENDS.iter().filter_map(|end| Some((completion.find(end)?, *end)));
    found.min_by_key(|(at, _)| *at).map(|(_, end)| end)
}
