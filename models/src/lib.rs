//! The embedded models, as the files of a model repository. `recipes/` has the settings that they were trained with.

#![warn(missing_docs)]

/// A file of a model: its name and its content.
pub type File = (&'static str, &'static [u8]);

/// The name of the embedded model that is the default: trained on Countdown.
pub const COUNTDOWN: &str = "countdown";
/// The name of the embedded model that is trained on Countdown and on every generated task.
pub const TASKS: &str = "tasks";

/// Where `config.json` stands among the files of a model.
pub const CONFIG: usize = 0;
/// Where `tokenizer.json` stands among the files of a model.
pub const TOKENIZER: usize = 3;

macro_rules! files {
    ($model:literal: $($name:literal),*) => {
        [$(($name, include_bytes!(concat!("../", $model, "/", $name)))),*]
    };
}

/// Configuration, tokenizer and weights of [`COUNTDOWN`].
pub const COUNTDOWN_FILES: [File; 5] = files!("countdown": "config.json", "generation_config.json",
    "model.safetensors", "tokenizer.json", "tokenizer_config.json");
/// Configuration, tokenizer and weights of [`TASKS`].
pub const TASKS_FILES: [File; 5] = files!("tasks": "config.json", "generation_config.json",
    "model.safetensors", "tokenizer.json", "tokenizer_config.json");

/// The files of the model of this name; none where no model has the name.
pub fn files(model: &str) -> Option<[File; 5]> {
    match model {
        COUNTDOWN => Some(COUNTDOWN_FILES),
        TASKS => Some(TASKS_FILES),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_name_their_files() {
        for model in [COUNTDOWN, TASKS] {
            let files = files(model).expect("an embedded model");
            assert_eq!((files[CONFIG].0, files[TOKENIZER].0), ("config.json", "tokenizer.json"));
            assert!(files.iter().all(|(_, bytes)| !bytes.is_empty()));
        }
        assert!(files("another").is_none());
    }
}
