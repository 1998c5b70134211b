//! The recipes that come with the program: `--config recipe:NAME` reads one.

use anyhow::{Result, bail};
use tealight_core::display::shortened;
use tealight_core::similar::nearest;

/// The prefix of a recipe's name where a file may stand too.
const PREFIX: &str = "recipe:";

/// A file of `recipes/`.
pub(in crate::cli) struct Recipe {
    /// Its path there, without `.toml`.
    pub(in crate::cli) name: &'static str,
    pub(in crate::cli) text: &'static str,
}

macro_rules! recipe {
    ($name:literal) => {
        Recipe { name: $name, text: include_str!(concat!("../../recipes/", $name, ".toml")) }
    };
}

/// All of them; a test compares them with the folder.
pub(super) const RECIPES: [Recipe; 32] = [
    recipe!("countdown"),
    recipe!("countdown-base"),
    recipe!("countdown-study"),
    recipe!("default-study"),
    recipe!("gsm8k-qwen2.5-0.5b"),
    recipe!("gsm8k-smollm2-360m"),
    recipe!("keep-answers-1"),
    recipe!("keep-answers-2"),
    recipe!("objectives-study"),
    recipe!("smollm2-135m-base"),
    recipe!("smollm2-135m-colouring-study"),
    recipe!("smollm2-135m-study"),
    recipe!("sql"),
    recipe!("tasks-base"),
    recipe!("objectives/darling"),
    recipe!("objectives/frpo"),
    recipe!("objectives/mara"),
    recipe!("objectives/noise-corrected"),
    recipe!("objectives/nsr"),
    recipe!("objectives/rarity"),
    recipe!("objectives/rs-grpo"),
    recipe!("objectives/ucpo"),
    recipe!("papers/alpha-dpg"),
    recipe!("papers/alpha-dpg-baseline"),
    recipe!("papers/alpha-dpg-train"),
    recipe!("papers/dph-rl"),
    recipe!("papers/dph-rl-train"),
    recipe!("papers/grpo"),
    recipe!("papers/maxrl"),
    recipe!("papers/nsr"),
    recipe!("papers/ucpo"),
    recipe!("papers/unlikeliness"),
];

pub(in crate::cli) fn find(name: &str) -> Result<&'static Recipe> {
    if let Some(recipe) = RECIPES.iter().find(|recipe| recipe.name == name) {
        return Ok(recipe);
    }
    let meant = nearest(name, RECIPES.iter().map(|recipe| recipe.name));
    let meant = meant.map_or(String::new(), |known| format!("did you mean `{known}`? "));
    let all: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
    bail!("no recipe `{}`; {meant}there are {}", shortened(name, 64), all.join(", "))
}

/// The text of `recipe:NAME`; none of what begins otherwise, which is a file.
pub(in crate::cli) fn named(file: &str) -> Result<Option<&'static str>> {
    file.strip_prefix(PREFIX).map(|name| find(name).map(|recipe| recipe.text)).transpose()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_recipe_of_the_folder_is_in_the_program() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes");
        let (mut folders, mut count) = (vec![root.clone()], 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("readable").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|kind| kind == "toml") {
                    let name = path.strip_prefix(&root).expect("inside").with_extension("");
                    let name = name.to_str().expect("text").replace('\\', "/");
                    let text = std::fs::read_to_string(&path).expect("readable");
                    assert_eq!(find(&name).expect("in the program").text, text, "{name}");
                    count += 1;
                }
            }
        }
        assert_eq!(count, RECIPES.len());
    }

    #[test]
    fn the_recipe_of_the_embedded_model_trains_on_every_task() {
        let settings: toml::Table =
            find("tasks-base").expect("a recipe").text.parse().expect("TOML");
        let datasets = settings["dataset"].as_str().expect("text");
        for kind in tealight_datasets::task::TASKS {
            let dataset = format!("{}/sft", kind.name);
            assert!(datasets.split(',').any(|one| one == dataset), "{dataset}");
        }
    }

    #[test]
    fn a_name_is_never_a_path() {
        for name in [
            "",
            "../Cargo",
            "countdown.toml",
            "/etc/passwd",
            "papers/../countdown",
            "COUNTDOWN",
            "\u{0}",
        ] {
            assert!(named(&format!("recipe:{name}")).is_err(), "{name}");
        }
        let message = named("recipe:countdwn").err().map(|error| error.to_string());
        assert!(message.is_some_and(|message| message.contains("did you mean `countdown`?")));
        assert!(named("recipes/countdown.toml").is_ok_and(|text| text.is_none()));
    }
}
