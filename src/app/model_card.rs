//! The card of a trained model: from which model, how it was trained, what it measures. Nothing in it says where files
//! lie on this machine.

use std::path::{Component, Path};

use anyhow::{Context, Result};
use serde_json::Value;
use tealight_core::names;
use tealight_datasets::verify::{self, Reads};

use crate::formats::adapter;
use crate::formats::hub;
use crate::learn::objective::{FUNCTION, Objective};
use crate::system::files::{MAX_SETTINGS, MAX_SMALL, last_line, own_file, read_json, read_text};

/// Longest chain of runs, each trained from the model of the one before, that is followed to a model on the Hub.
const MAX_RUNS: usize = 16;
/// Settings that say how a run was started on this machine, and nothing of the model.
const LOCAL: [&str; 6] = ["output", "presamples", "quiet", "json", "device", "engine"];

/// A model or an adapter that a card is written for.
pub(super) struct Card<'a> {
    /// The directory of its run.
    pub(super) place: &'a Path,
    /// The directory of its files.
    pub(super) folder: &'a Path,
    /// Whether it is a whole model, not an adapter.
    pub(super) is_model: bool,
    /// The repository that it goes to.
    pub(super) repository: &'a str,
}

impl Card<'_> {
    /// The card, with `tables` of results.
    pub(super) fn text(&self, tables: &[String]) -> Result<String> {
        let config = settings(self.place)?.unwrap_or_default();
        let objective = config.get("objective").and_then(toml::Value::as_str);
        let base = self.base(&config);
        let mut text = String::from("---\n");
        if let Some(base) = &base {
            text.push_str(&format!("base_model: {base}\n"));
        }
        let library = if self.is_model { "transformers" } else { "peft" };
        text.push_str(&format!(
            "library_name: {library}\npipeline_tag: text-generation\ntags:\n- tealight\n- rlvr\n"
        ));
        // Settings are untrusted: text that is no objective may be more YAML.
        let objective = objective.filter(|name| name.parse::<Objective>().is_ok());
        if let Some(name) = objective.and_then(|name| name.split(':').next()) {
            text.push_str(&format!("- {name}\n"));
        }
        let title = self.repository.split('/').next_back().unwrap_or(self.repository);
        let what = if self.is_model { "model" } else { "LoRA adapter" };
        let model = config.get("model").and_then(toml::Value::as_str);
        let from = match (&base, model) {
            (Some(base), _) => format!(" from [{base}](https://huggingface.co/{base})"),
            (None, Some(name)) if hub::is_embedded(name) => {
                format!(" from Tealight's embedded model `{name}`")
            }
            (None, Some(_)) => " from a model that is not on the Hub".into(),
            (None, None) => String::new(),
        };
        let by = objective.map_or(String::new(), |name| {
            format!(" under the objective `{}`", without_function_folder(name))
        });
        text.push_str(&format!(
            "---\n\n# {title}\n\nA {what} fine-tuned{from} with verifiable rewards{by}, by Tealight {}.\n\n",
            env!("CARGO_PKG_VERSION")
        ));
        if !tables.is_empty() {
            text.push_str(&format!("## Results\n\n{}\n\n", tables.join("\n\n")));
        }
        if let Some(last) = last_metrics(self.place) {
            text.push_str("## Training\n\n| metric | last step |\n|---|--:|\n");
            for (name, value) in last.as_object().into_iter().flatten() {
                let is_name =
                    name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_/@.-*".contains(&b));
                if let (true, Some(value)) = (is_name, value.as_f64()) {
                    text.push_str(&format!("| {name} | {} |\n", number(value)));
                }
            }
            text.push('\n');
        }
        if !config.is_empty() {
            let rows = config.into_iter().filter(|(key, _)| !LOCAL.contains(&key.as_str()));
            let rows: toml::Table = rows
                .map(|(key, value)| {
                    let shown = without_folders(&key, value);
                    (key, shown)
                })
                .collect();
            let rows = toml::to_string(&rows).context("the settings of the run")?;
            let fence = fence(&rows);
            text.push_str(&format!(
                "## Reproduce\n\n`tealight train --config config.toml --output DIR` with\n\n{fence}toml\n{rows}{fence}\n"
            ));
        }
        Ok(text)
    }

    /// The model on the Hub that training began from; none where there is none.
    fn base(&self, config: &toml::Table) -> Option<String> {
        let of_adapter = || {
            let config = read_json(&self.folder.join(adapter::CONFIG), MAX_SMALL).ok()?;
            on_hub(self.place, config["base_model_name_or_path"].as_str()?, 0)
        };
        let model = config.get("model").and_then(toml::Value::as_str);
        model.and_then(|model| on_hub(self.place, model, 0)).or_else(of_adapter)
    }
}

/// The Hub id that `model` is or was trained from, by the settings that the runs left beside their models. Runs outside
/// the folder `place` are not read: its settings, which name them, may be a stranger's.
fn on_hub(place: &Path, model: &str, runs: usize) -> Option<String> {
    let path = Path::new(model);
    // A model in the Hub's cache has its id in its path.
    let cached = path.components().find_map(|part| match part {
        Component::Normal(name) => name.to_str()?.strip_prefix("models--")?.split_once("--"),
        _ => None,
    });
    if let Some((owner, name)) = cached {
        let id = format!("{owner}/{name}");
        return names::is_repository(&id).then_some(id);
    }
    if path.exists() {
        let run = [Some(path), path.parent()].into_iter().flatten();
        let run = run.filter(|run| own_file(place, run).is_ok());
        let config = run.filter_map(|run| settings(run).ok().flatten()).next()?;
        let model = config.get("model")?.as_str()?;
        return (runs < MAX_RUNS).then(|| on_hub(place, model, runs + 1)).flatten();
    }
    let id = model.split(['@', ':']).next().unwrap_or(model);
    // `runs/final` reads like an id; who has a folder `runs` means a folder.
    let is_folder = Path::new(id).parent().is_some_and(Path::is_dir);
    (names::is_repository(id) && !is_folder).then(|| id.to_owned())
}

/// The settings of the run in a directory; none where there are none.
fn settings(run: &Path) -> Result<Option<toml::Table>> {
    let path = run.join("config.toml");
    if !path.is_file() {
        return Ok(None);
    }
    let text = read_text(&own_file(run, &path)?, MAX_SETTINGS)?;
    text.parse().map(Some).with_context(|| format!("{}: not TOML", path.display()))
}

/// Settings that name files, folders or programs of this machine.
const PATHS: [&str; 13] = [
    "model",
    "adapter",
    "dataset",
    "test_dataset",
    "eval_dataset",
    "ood_dataset",
    "few_shot_dataset",
    "prompt_template",
    "verifier",
    "engine_folder",
    "from_scratch",
    "test_suite",
    "tokenizer",
];

/// A setting as a card shows it: of those that name files, the last part of each path, and of a program its name
/// without arguments, which may hold keys. Other settings are shown as they are, whatever they look like.
fn without_folders(key: &str, value: toml::Value) -> toml::Value {
    match value {
        toml::Value::String(text) if PATHS.contains(&key) => local_name(&text).into(),
        toml::Value::String(text) if key == "objective" => without_function_folder(&text).into(),
        toml::Value::Array(values) => {
            let shown = values.into_iter().map(|value| without_folders(key, value));
            shown.collect::<Vec<_>>().into()
        }
        other => other,
    }
}

/// An objective, of whose function of advantages the last part of the path is shown.
fn without_function_folder(objective: &str) -> String {
    let parts = objective.split_once(FUNCTION);
    match parts.and_then(|(before, after)| Some((before, after.split_once(".py:")?))) {
        Some((before, (path, after))) => {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            format!("{before}{FUNCTION}{name}.py:{after}")
        }
        None => objective.to_owned(),
    }
}

/// A file, folder, program or database without what says where it lies.
fn local_name(text: &str) -> String {
    let last = |path: &str| {
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        name.unwrap_or_default().to_owned()
    };
    if let Some((verifier, argument)) = text.split_once(':')
        && verify::reads(verifier).is_some_and(|reads| reads != Reads::Nothing)
    {
        let command = argument.split_whitespace().next().unwrap_or_default();
        return format!("{verifier}:{}", last(command));
    }
    let path = Path::new(text);
    let is_local = path.is_absolute()
        || ["./", "../", "~/"].iter().any(|start| text.starts_with(start))
        || (text.contains(std::path::MAIN_SEPARATOR) && path.exists());
    if is_local { last(text) } else { text.to_owned() }
}

/// A fence of a code block that the text does not hold.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(3.max(longest + 1))
}

/// A number as people write it: whole ones without a fraction, others to four places or significant digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    if value.abs() < 1e-3 || value.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Most bytes of a step's metrics.
const MAX_ROW: u64 = 1 << 20;

/// The metrics of a run's last step.
fn last_metrics(run: &Path) -> Option<Value> {
    let file = own_file(run, &run.join("metrics.jsonl")).ok()?;
    serde_json::from_slice(&last_line(&file, MAX_ROW).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(place: &Path) -> String {
        let folder = place.join("final");
        let repository = "me/twice";
        Card { place, folder: &folder, is_model: true, repository }.text(&[]).unwrap()
    }

    #[test]
    fn the_base_is_found_through_runs_and_no_path_of_this_machine_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display().to_string();
        let run = |name: &str, model: &str| {
            let place = folder.path().join(name);
            std::fs::create_dir_all(place.join("final")).unwrap();
            let settings = format!(
                "# tealight 0.1.0\nmodel = \"{model}\"\nobjective = \"js:beta=0.4\"\nmax_steps = 3\n\
                 dataset = \"{root}/data.jsonl\"\ntest_dataset = [\"{root}/a.jsonl\", \"countdown/test\"]\n\
                 engine = \"http://10.0.0.1\"\noutput = \"{root}/{name}\"\n"
            );
            std::fs::write(place.join("config.toml"), settings).unwrap();
            place
        };
        let first = run("second/first", "Qwen/Qwen2.5-0.5B@abc");
        let second = run("second", &first.join("final").display().to_string());
        let metrics = "{\"step\":3,\"reward\":0.25,\"kl\":0.00012345,\"loss\":-0.123456}\n";
        std::fs::write(second.join("metrics.jsonl"), metrics).unwrap();
        let card = card(&second);
        for words in [
            "base_model: Qwen/Qwen2.5-0.5B\n",
            "fine-tuned from [Qwen/Qwen2.5-0.5B](https://huggingface.co/Qwen/Qwen2.5-0.5B) with",
            "| step | 3 |\n| reward | 0.25 |\n",
            "| kl | 1.23e-4 |",
            "| loss | -0.1235 |",
            "dataset = \"data.jsonl\"",
            "test_dataset = [\"a.jsonl\", \"countdown/test\"]",
            "max_steps = 3",
        ] {
            assert!(card.contains(words), "{words}: {card}");
        }
        assert!(!card.contains(&root) && !card.contains("10.0.0.1"), "{card}");
    }

    #[test]
    fn untrusted_settings_stay_text_in_the_card() {
        let folder = tempfile::tempdir().unwrap();
        let settings = r#"objective = "grpo\n- tag\n---\n# HIJACK"
model = "x/models--a--b](javascript:alert(1))"
verifier = "program:/home/me/judge --key sk-12345"
dataset = "sql:/home/me/db"
system_prompt = "/no_think"
instruction = "```\n# out of the fence"
"#;
        std::fs::write(folder.path().join("config.toml"), settings).unwrap();
        std::fs::write(
            folder.path().join("metrics.jsonl"),
            "{\"a|b\\n# c\": 1, \"reward\": 1e308}\n",
        )
        .unwrap();
        let card = card(folder.path());
        let front = card.split("---").nth(1).unwrap();
        assert!(!front.contains("tag\n") && !front.contains("base_model"), "{card}");
        // Inside the fence that ends the card they are text.
        let before = card.split("````toml").next().unwrap();
        assert!(!before.contains("javascript") && !before.contains("HIJACK"), "{card}");
        assert!(card.trim_end().ends_with("````") && !card.contains("sk-12345"), "{card}");
        assert!(!card.contains("/home/me") && !card.contains("a|b"), "{card}");
        assert!(card.contains("system_prompt = \"/no_think\""), "{card}");
        assert!(card.contains("````toml") && card.contains("| reward | 1.00e308 |"), "{card}");
    }

    #[test]
    fn a_function_of_advantages_is_shown_without_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        for (name, shown) in [("/home/me/own", true), ("own\\n# HIJACK", false)] {
            let settings = format!("objective = \"grpo:advantage=python:{name}.py:f\"");
            std::fs::write(folder.path().join("config.toml"), settings).unwrap();
            let card = card(folder.path());
            let text = card.split("```").next().unwrap();
            assert!(!card.contains("/home/me") && !text.contains("\n# HIJACK"), "{card}");
            assert_eq!(
                card.matches("python:own.py:f").count(),
                if shown { 2 } else { 0 },
                "{card}"
            );
        }
    }

    #[test]
    fn runs_outside_the_folder_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("run");
        std::fs::create_dir_all(place.join("final")).unwrap();
        std::fs::create_dir_all(folder.path().join("mine/final")).unwrap();
        for own in ["config.toml", "mine/config.toml"] {
            std::fs::write(folder.path().join(own), "model = \"me/private\"").unwrap();
        }
        let mine = folder.path().join("mine/final").display().to_string();
        // Its own folder leads to the one around it where it has no settings.
        for model in [mine, place.display().to_string()] {
            let base = serde_json::json!({"base_model_name_or_path": model}).to_string();
            std::fs::write(place.join("final/adapter_config.json"), base).unwrap();
            let shown = card(&place);
            assert!(!shown.contains("private"), "{model}: {shown}");
            std::fs::write(place.join("config.toml"), format!("model = \"{model}\"")).unwrap();
            let shown = card(&place);
            assert!(!shown.contains("private"), "{model}: {shown}");
            std::fs::remove_file(place.join("config.toml")).unwrap();
        }
    }

    #[test]
    fn bases_outside_the_hub_get_no_base_model() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().display().to_string();
        assert_eq!(on_hub(folder.path(), &base, 0), None);
        std::fs::write(folder.path().join("config.toml"), format!("model = \"{base}\"")).unwrap();
        assert_eq!(on_hub(folder.path(), &base, 0), None, "a run of itself");
        assert!(
            card(folder.path()).contains("fine-tuned from a model that is not on the Hub with")
        );
        let cached = "/home/me/.cache/huggingface/hub/models--Qwen--Qwen2.5-0.5B/snapshots/1";
        assert_eq!(on_hub(folder.path(), cached, 0).as_deref(), Some("Qwen/Qwen2.5-0.5B"));
        std::fs::write(folder.path().join("config.toml"), "model = \"countdown\"").unwrap();
        let card = card(folder.path());
        assert!(
            card.contains("Tealight's embedded model `countdown`") && !card.contains("base_model")
        );
    }
}
