//! Pre-tokenizers: GGUF files name them, `tokenizer.json` spells them out.

use serde_json::{Value, json};

/// How text is cut before merges: the name in files and what it means.
pub(super) struct Pre {
    pub(super) name: &'static str,
    /// A regular expression that splits text; none where ByteLevel's own does.
    split: Option<&'static str>,
    /// Whether digits are split one by one first.
    digits: bool,
    /// Whether text is normalised to NFC.
    nfc: bool,
    /// Whether a word that is a token is never merged from parts.
    pub(super) ignores_merges: bool,
}

/// Qwen's: letters, single digits, other characters, line ends.
const QWEN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Llama 3's: the same with up to three digits.
const LLAMA: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const ALL: [Pre; 5] = [
    Pre { name: "qwen2", split: Some(QWEN), digits: false, nfc: true, ignores_merges: false },
    Pre { name: "llama-bpe", split: Some(LLAMA), digits: false, nfc: false, ignores_merges: true },
    Pre { name: "llama3", split: Some(LLAMA), digits: false, nfc: false, ignores_merges: true },
    Pre { name: "smollm", split: None, digits: true, nfc: false, ignores_merges: false },
    Pre { name: "gpt-2", split: None, digits: false, nfc: false, ignores_merges: false },
];

pub(super) fn named(name: &str) -> Option<&'static Pre> {
    ALL.iter().find(|pre| pre.name == name)
}

/// Whether a name is of Llama 3's.
pub(super) fn is_llama(name: &str) -> bool {
    named(name).is_some_and(|pre| pre.split == Some(LLAMA))
}

pub(super) fn names() -> String {
    ALL.map(|pre| pre.name).join(", ")
}

/// The one that a `tokenizer.json` spells out.
pub(super) fn spelled(tokenizer: &Value) -> Option<&'static Pre> {
    // Whether offsets are trimmed is about positions in the text, not about tokens.
    let plain = |value: &Value| {
        let mut value = value.clone();
        for part in value["pretokenizers"].as_array_mut().into_iter().flatten() {
            part.as_object_mut().map(|part| part.remove("trim_offsets"));
        }
        value.as_object_mut().map(|part| part.remove("trim_offsets"));
        value
    };
    let merges = tokenizer["model"]["ignore_merges"].as_bool().unwrap_or(false);
    let is_same = |pre: &&Pre| {
        plain(&pre.pre_tokenizer()) == plain(&tokenizer["pre_tokenizer"])
            && pre.normalizer() == tokenizer["normalizer"]
            && pre.ignores_merges == merges
    };
    ALL.iter().find(is_same)
}

impl Pre {
    /// As `tokenizer.json` has it.
    pub(super) fn pre_tokenizer(&self) -> Value {
        let bytes = |use_regex: bool| {
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                "use_regex": use_regex})
        };
        let first = match (self.split, self.digits) {
            (Some(regex), _) => {
                json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated",
                    "invert": false})
            }
            (None, true) => json!({"type": "Digits", "individual_digits": true}),
            (None, false) => return bytes(true),
        };
        json!({"type": "Sequence", "pretokenizers": [first, bytes(self.split.is_none())]})
    }

    /// The same of the normaliser.
    pub(super) fn normalizer(&self) -> Value {
        if self.nfc { json!({"type": "NFC"}) } else { Value::Null }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pre_tokenizers_are_recognised_from_their_spelling() {
        for pre in &ALL {
            let tokenizer = json!({"pre_tokenizer": pre.pre_tokenizer(), "normalizer": pre.normalizer(),
                "model": {"ignore_merges": pre.ignores_merges}});
            let named = spelled(&tokenizer).unwrap();
            assert_eq!(named.pre_tokenizer(), pre.pre_tokenizer(), "{}", pre.name);
        }
        assert!(
            spelled(&json!({"pre_tokenizer": null, "normalizer": null, "model": {}})).is_none()
        );
    }

    #[test]
    fn qwen2_is_recognised_from_its_tokenizer() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/fixtures/conformance/micro-qwen2/tokenizer.json"
        );
        let text = std::fs::read(path).unwrap();
        let tokenizer: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(spelled(&tokenizer).unwrap().name, "qwen2");
    }
}
