//! What differs between settings that were recorded and those of now, in words.

use serde_json::{Map, Value};

/// The option that sets what is recorded as `template_date`.
const DATE: &str = "--template-kwargs strftime_now";

/// One part of a sentence for each key whose value differs between two objects, in the order of the keys, such as
/// `seed was 1, is 2`, or what a checksum stands for.
pub fn changes(before: &Value, now: &Value) -> Vec<String> {
    let empty = Map::new();
    let [before, now] = [before, now].map(|one| one.as_object().unwrap_or(&empty));
    let mut keys: Vec<_> = before.keys().chain(now.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter(|key| before.get(*key) != now.get(*key))
        .map(|key| match key.as_str() {
            "model_checksum" => {
                "the model's weights, configuration, tokenizer or chat template have changed".into()
            }
            "dataset_checksum" => {
                "the dataset's problems (their ids, prompts or answers) have changed".into()
            }
            key => {
                let name = if key == "template_date" { DATE } else { key };
                let shown =
                    |value: Option<&Value>| value.map_or("unset".to_owned(), Value::to_string);
                format!("{name} was {}, is {}", shown(before.get(key)), shown(now.get(key)))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::changes;

    #[test]
    fn changes_are_named_and_checksums_are_not_shown() {
        let before = json!({"seed": 1, "dataset_checksum": "a", "rate": 0.1});
        let now = json!({"seed": 2, "dataset_checksum": "b", "rate": 0.1, "rank": 4});
        let expected = [
            "the dataset's problems (their ids, prompts or answers) have changed",
            "rank was unset, is 4",
            "seed was 1, is 2",
        ];
        assert_eq!(changes(&before, &now), expected);
    }
}
