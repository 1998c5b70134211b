//! Limits of a tokenizer's rules, checked before it is built.

use anyhow::{Result, bail};
use serde_json::Value;

/// Refuses rules that make much of little, or take long: a chain of replacements doubles a text as often as it is long,
/// and each rule goes through all that those before it made. How many bytes the decoder may make of one.
pub(super) fn check(bytes: &[u8]) -> Result<f64> {
    /// Most bytes that the rules of a decoder may make of one.
    const MOST: f64 = 64.0;
    /// Most rules of a part.
    const MOST_RULES: usize = 64;
    fn count(rule: &Value, members: &str) -> usize {
        let inner = rule[members].as_array().into_iter().flatten();
        1 + inner.map(|rule| count(rule, members)).sum::<usize>()
    }
    fn growth(rule: &Value) -> f64 {
        match rule["type"].as_str() {
            Some("Sequence") => {
                rule["decoders"].as_array().into_iter().flatten().map(growth).product()
            }
            Some("Replace") => {
                let content = rule["content"].as_str().map_or(0, str::len) as f64;
                match rule["pattern"]["String"].as_str() {
                    Some(pattern) if !pattern.is_empty() => {
                        (content / pattern.len() as f64).max(1.0)
                    }
                    // It may match nothing at all, between any two bytes.
                    _ => 1.0 + content,
                }
            }
            // Nothing between any two characters becomes a blank.
            Some("BPEDecoder") if rule["suffix"] == "" => 5.0,
            Some("CTC") if rule["word_delimiter_token"] == "" => f64::INFINITY,
            _ => 1.0,
        }
    }
    #[derive(serde::Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct File {
        normalizer: Value,
        pre_tokenizer: Value,
        post_processor: Value,
        decoder: Value,
    }
    let file: File = serde_json::from_slice(bytes)?;
    for (name, part, members) in [
        ("normalizer", &file.normalizer, "normalizers"),
        ("pre-tokenizer", &file.pre_tokenizer, "pretokenizers"),
        ("post-processor", &file.post_processor, "processors"),
        ("decoder", &file.decoder, "decoders"),
    ] {
        let rules = count(part, members);
        if rules > MOST_RULES {
            bail!("its {name} has {rules} rules, above the limit of {MOST_RULES}");
        }
    }
    match growth(&file.decoder) {
        most if most <= MOST => Ok(most),
        most => bail!("its decoder may expand one byte to {most:.0}, above the limit of {MOST}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tokenizer::tests::{beside_embedded, embedded};
    use crate::tokenizer::{HubTokenizer, Tokenizer};

    /// The embedded tokenizer with another decoder.
    fn with(decoder: Value) -> anyhow::Result<HubTokenizer> {
        let mut file = embedded();
        file["decoder"] = decoder;
        let config = ("tokenizer_config.json", r#"{"eos_token": "<eos>"}"#);
        HubTokenizer::load(beside_embedded(&[("tokenizer.json", &file.to_string()), config]).path())
    }

    #[test]
    fn decoders_that_grow_panic_or_take_long_are_refused() {
        let refused = |decoders: Vec<Value>| {
            let tokenizer = with(json!({"type": "Sequence", "decoders": decoders}));
            format!("{:#}", tokenizer.map(|_| ()).expect_err("a hostile decoder"))
        };
        let double = json!({"type": "Replace", "pattern": {"String": "1"}, "content": "11"});
        assert!(refused(vec![double; 40]).contains("may expand one byte"));
        let suffix = json!({"type": "BPEDecoder", "suffix": ""});
        assert!(refused(vec![suffix; 30]).contains("may expand one byte"));
        let endless = json!({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "", "cleanup": true});
        assert!(refused(vec![endless]).contains("may expand one byte"));
        let pieces = json!({"type": "WordPiece", "prefix": "##", "cleanup": false});
        assert!(refused(vec![pieces; 100]).contains("decoder has 101 rules"));
        let nested = json!({"type": "Sequence", "normalizers": vec![json!({"type": "NFD"}); 65]});
        let file = json!({"normalizer": {"type": "Sequence", "normalizers": [nested]}}).to_string();
        let error = check(file.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("normalizer has 67 rules"), "{error}");
    }

    #[test]
    fn a_decoder_that_panics_is_an_error() {
        let strip = json!({"type": "Strip", "content": "1", "start": 0, "stop": 100});
        let tokenizer = with(strip).unwrap();
        let message = format!("{:#}", tokenizer.decode(&[3, 4]).unwrap_err());
        assert!(message.contains("does not survive"), "{message}");
    }
}
