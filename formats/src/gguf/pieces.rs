//! SentencePiece's tokenizers: files say how good each piece is, `tokenizer.json` which pairs are merged in which
//! order.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{TOKEN_NORMAL, TOKEN_USER_DEFINED};

/// The mark of a space.
const SPACE: &str = "\u{2581}";

/// Longest piece that merges make, in bytes: more than any tokenizer has, and too little to take long.
const MAX_PIECE: usize = 128;

/// Such a tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pieces {
    /// Whether a text begins with a space that is not in it: Llama 2's does, Gemma's does not.
    pub(super) has_prefix: bool,
}

impl Pieces {
    /// The one that a `tokenizer.json` spells out.
    pub(super) fn spelled(tokenizer: &Value) -> Option<Self> {
        if tokenizer["model"]["byte_fallback"] != true {
            return None;
        }
        let pieces = |has_prefix: bool| Self { has_prefix };
        let is_same = |pieces: &Self| pieces.normalizer() == tokenizer["normalizer"];
        let before = &tokenizer["pre_tokenizer"];
        // Where spaces are no longer spaces nothing is split at them.
        let is_plain = before.is_null() || *before == pre_tokenizer();
        [pieces(false), pieces(true)].into_iter().find(is_same).filter(|_| is_plain)
    }

    /// As `tokenizer.json` has it.
    pub(super) fn normalizer(self) -> Value {
        let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
        match self.has_prefix {
            true => json!({"type": "Sequence",
                "normalizers": [{"type": "Prepend", "prepend": SPACE}, replace]}),
            false => replace,
        }
    }

    /// The same of the decoder.
    pub(super) fn decoder(self) -> Value {
        let mut parts = vec![
            json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        if self.has_prefix {
            parts.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        json!({"type": "Sequence", "decoders": parts})
    }
}

/// Gemma's, which finds nothing to split.
pub(super) fn pre_tokenizer() -> Value {
    json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
        "invert": false})
}

/// The pairs of pieces that make a piece, the best piece first.
pub(super) fn merges<'a>(
    tokens: &'a [String],
    scores: &[f64],
    kinds: &[i64],
) -> Vec<(&'a str, &'a str)> {
    let is_text = |id: usize| [TOKEN_NORMAL, TOKEN_USER_DEFINED].contains(&kinds[id]);
    let ids: HashMap<&str, usize> =
        (0..tokens.len()).filter(|id| is_text(*id)).map(|id| (tokens[id].as_str(), id)).collect();
    let mut merges = Vec::new();
    let is_made = |(id, token): &(usize, &String)| is_text(*id) && token.len() <= MAX_PIECE;
    for (id, token) in tokens.iter().enumerate().filter(is_made) {
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if let (Some(one), Some(other)) = (ids.get(left), ids.get(right)) {
                merges.push((scores[id], id, (*one, *other)));
            }
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    merges.into_iter().map(|(_, _, (a, b))| (tokens[a].as_str(), tokens[b].as_str())).collect()
}

/// Scores that give back the order in which pieces are first merged; those that no merge makes come last.
pub(super) fn scores(tokens: &[String], merges: &[(String, String)]) -> Vec<f64> {
    let mut ranks: HashMap<String, usize> = HashMap::new();
    for (a, b) in merges {
        let next = ranks.len();
        ranks.entry(format!("{a}{b}")).or_insert(next);
    }
    let last = ranks.len();
    let score = |token: &String| -(ranks.get(token).copied().unwrap_or(last) as f64);
    tokens.iter().map(score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_merges_convert_both_ways() {
        let tokens: Vec<String> =
            ["<unk>", "a", "b", "c", "bc", "ab", "abc", "<0x0A>"].map(str::to_owned).into();
        let kinds = [2, 1, 1, 1, 1, 1, 1, 6];
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let given = [pair("b", "c"), pair("a", "b"), pair("a", "bc"), pair("ab", "c")];
        let scores = scores(&tokens, &given);
        assert_eq!(scores, [-3.0, -3.0, -3.0, -3.0, 0.0, -1.0, -2.0, -3.0]);
        let pairs = merges(&tokens, &scores, &kinds);
        assert_eq!(pairs, [("b", "c"), ("a", "b"), ("a", "bc"), ("ab", "c")]);
        let order: Vec<_> = pairs.iter().map(|(a, b)| pair(a, b)).collect();
        assert_eq!(super::scores(&tokens, &order), scores);
    }

    #[test]
    fn pieces_are_recognised_from_their_spelling() {
        for pieces in [Pieces { has_prefix: false }, Pieces { has_prefix: true }] {
            let tokenizer = json!({"normalizer": pieces.normalizer(), "pre_tokenizer": null,
                "model": {"byte_fallback": true}});
            assert_eq!(Pieces::spelled(&tokenizer), Some(pieces));
        }
        let bytes = json!({"normalizer": null, "pre_tokenizer": null, "model": {}});
        assert_eq!(Pieces::spelled(&bytes), None);
    }
}
