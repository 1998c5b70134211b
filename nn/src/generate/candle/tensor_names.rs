//! Weights by the names that candle-transformers reads: of a model that was saved without its head, and of one whose
//! head is the embedding, of which one is stored.

use serde_json::Value;

use crate::model::weights::Weights;

/// The same weights under the names of a whole model.
pub(super) fn usual(config: &Value, mut weights: Weights) -> Weights {
    const HEAD: &str = "lm_head.weight";
    for (part, embedding) in
        [("model", "embed_tokens.weight"), ("transformer", "word_embeddings.weight")]
    {
        if weights.contains_key(embedding) {
            let whole = |name: String| match name == HEAD {
                true => name,
                false => format!("{part}.{name}"),
            };
            weights = weights.into_iter().map(|(name, weight)| (whole(name), weight)).collect();
        }
        let embedding = format!("{part}.{embedding}");
        let (table, head) = (weights.get(&embedding).cloned(), weights.get(HEAD).cloned());
        // Falcon's head is a tensor of its own there.
        match (table, head) {
            (None, Some(head)) if part == "model" && config["tie_word_embeddings"] == true => {
                weights.insert(embedding, head);
            }
            (Some(table), None) if part == "transformer" => {
                weights.insert(HEAD.into(), table);
            }
            _ => {}
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Tensor};
    use serde_json::json;

    use super::*;

    #[test]
    fn weights_are_found_under_the_names_of_others() {
        let names = |tied: bool, stored: &[&str]| -> Vec<String> {
            let weight = |name: &&str| {
                let weight = Tensor::zeros(1, DType::F32, &Device::Cpu).unwrap();
                ((*name).to_owned(), weight)
            };
            let config = json!({"tie_word_embeddings": tied});
            usual(&config, stored.iter().map(weight).collect()).into_keys().collect()
        };
        let whole = ["lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"];
        assert_eq!(names(false, &whole), whole);
        let bare = ["embed_tokens.weight", "lm_head.weight", "norm.weight"];
        assert_eq!(names(false, &bare), whole);
        assert_eq!(names(true, &["lm_head.weight", "model.norm.weight"]), whole);
        assert_eq!(names(false, &["lm_head.weight"]), ["lm_head.weight"]);
        let falcon = ["lm_head.weight", "transformer.word_embeddings.weight"];
        assert_eq!(names(true, &["word_embeddings.weight"]), falcon);
    }
}
