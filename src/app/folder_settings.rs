//! The settings that a run's own folder may bring. The folder may be a stranger's: what could start a program, read a
//! file elsewhere, ask a server or send data counts only where the user repeats the option.

use std::path::Path;

use super::data_file::is_source;
use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;
use tealight_core::names;
use tealight_datasets::verify::{self, Reads};
use toml::{Table, Value};

use crate::app::directory::as_argument;
use crate::app::own_settings;
use crate::app::recorded_settings::{self, WithOutput};
use crate::app::settings;
use tealight_formats::hub::{self, dataset::HubDataset};
use tealight_learn::objective::FUNCTION;
use tealight_system::files::{MAX_SETTINGS, own_file, read_text};
use tealight_system::telemetry::ReportTo;

/// Settings that a folder may give any value, besides all numbers: switches, names of methods and columns, texts of
/// prompts. An option that is not here, a new one too, is [`is_public`] or has to be repeated.
pub(crate) const FREE: &[&str] = &[
    "answer_column",
    "base_dtype",
    "device",
    "dtype",
    "filter_overlong_prompts",
    "gradient_checkpointing",
    "importance_correction",
    "instruction",
    "kernels",
    "log_kl",
    "lora_target_modules",
    "lr_scheduler_type",
    "metric_for_best_model",
    "no_baselines",
    "no_greedy",
    // A file that sets it counts as the folder's, whichever folder it names.
    "output",
    "prompt_column",
    "quantized",
    "rollout_dtype",
    "seeds",
    "system_prompt",
    "template_kwargs",
    "truncated",
    "tuning_seeds",
    "use_peft",
];

/// Whether a value of `option` means something that is part of this program, or a model or dataset of the Hub: no
/// file of this machine, no other server, no other program.
fn is_public(option: &str, value: &str) -> bool {
    match option {
        "model" => hub::is_embedded(value) || is_hub_model(value),
        "dataset" | "eval_dataset" | "few_shot_dataset" | "ood_dataset" | "test_dataset"
        | "task" => value.split(',').all(|spec| is_source(spec) || is_hub_dataset(spec)),
        "verifier" => is_built_in(value),
        // A function of advantages is a program of the user's.
        "objective" | "objectives" => !value.contains(FUNCTION),
        "report_to" => ReportTo::from_str(value, false).is_ok_and(ReportTo::is_local),
        _ => false,
    }
}

/// Whether `spec` is a verifier that neither starts a program nor reads a file.
pub(crate) fn is_built_in(spec: &str) -> bool {
    verify::reads(spec) == Some(Reads::Nothing)
}

/// Whether `name` is a model of the Hub, and could be of no folder here.
fn is_hub_model(name: &str) -> bool {
    let id = name.split('@').next().unwrap_or_default();
    let is_here = Path::new(id).parent().is_some_and(Path::is_dir);
    names::is_repository(id) && !is_here
}

/// Whether `spec` is a dataset of the Hub, and could be of no file here.
fn is_hub_dataset(spec: &str) -> bool {
    !is_source(spec) && matches!(HubDataset::parse(spec.trim()), Ok(Some(_)))
}

/// Whether a value is a number, or a list of numbers: it names nothing.
fn is_number(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().all(is_number),
        value => value.is_integer() || value.is_float(),
    }
}

/// The flags that repeat the settings of `merged` that `own`, the user's, lack and that a folder may not bring.
pub(crate) fn to_repeat<T: Serialize>(own: &T, merged: &T) -> Result<Vec<String>> {
    let (own, merged) = (Table::try_from(own)?, Table::try_from(merged)?);
    let is_foreign = |(name, value): &(&String, &Value)| {
        let is_free = FREE.contains(&name.as_str()) || is_number(value);
        own.get(*name) != Some(*value) && !is_free
    };
    let flags = merged.iter().filter(is_foreign).flat_map(|(name, value)| {
        let values = match value {
            Value::Array(values) => values.clone(),
            one => vec![one.clone()],
        };
        let texts: Vec<String> = values.iter().map(text).collect();
        // Flags take the place of a whole list.
        let are_public = texts.iter().all(|text| is_public(name, text));
        let flag = |text: &String| {
            format!("--{} {}", name.replace('_', "-"), as_argument(Path::new(text)))
        };
        if are_public { Vec::new() } else { texts.iter().map(flag).collect() }
    });
    Ok(flags.collect())
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Records the settings of a run in `output`, and remembers them.
pub(crate) fn record<T: Args + Serialize>(options: &T, output: &Path) -> Result<()> {
    let text = recorded_settings::record_config(&WithOutput { settings: options, output }, output)?;
    remember(options, output, &text)
}

/// Remembers the text of settings that a command recorded in `output` as the user's own, where a folder may not bring
/// them.
pub(crate) fn remember<T>(options: &T, output: &Path, text: &str) -> Result<()>
where
    T: Args + Serialize,
{
    if !to_repeat(&settings::defaults(), options)?.is_empty() {
        own_settings::remember(output, text);
    }
    Ok(())
}

/// The text of the settings in a folder that a command wrote to, where it has some.
pub(crate) fn read(folder: &Path) -> Result<Option<String>> {
    let file = folder.join("config.toml");
    match file.is_file() {
        true => read_text(&own_file(folder, &file)?, MAX_SETTINGS).map(Some),
        false => Ok(None),
    }
}

/// The flags, each after a blank, that a command with these options repeats to continue its run in `output`: none where
/// the settings there are known as the user's own.
pub(crate) fn to_continue<T>(options: &T, output: &Path) -> Result<String>
where
    T: Args + Serialize,
{
    if read(output)?.is_some_and(|text| own_settings::is_own(output, &text)) {
        return Ok(String::new());
    }
    let flags = to_repeat(&settings::defaults(), options)?;
    Ok(flags.iter().map(|flag| format!(" {flag}")).collect())
}

/// After an interruption: the command that continues the run in `output`.
pub(crate) fn say_how_to_continue<T>(command: &str, options: &T, output: &Path)
where
    T: Args + Serialize,
{
    let shown = as_argument(output);
    match to_continue(options, output) {
        Ok(flags) => tracing::info!("continue with: tealight {command} --resume {shown}{flags}"),
        Err(error) => tracing::warn!("{error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::settings::defaults;
    use crate::app::training::TrainOptions;

    #[test]
    fn only_private_values_must_be_repeated() {
        let flags = |change: &dyn Fn(&mut TrainOptions)| {
            let own: TrainOptions = defaults();
            let mut merged = own.clone();
            change(&mut merged);
            to_repeat(&own, &merged).unwrap()
        };
        let none: [&str; 0] = [];
        assert_eq!(
            flags(&|options| {
                options.model.model = "tasks".into();
                options.data.dataset = "colouring/train,owner/data:test,hub:a/b".into();
                options.data.rewards.verifier = vec!["math:strict".into(), "regex:(a)".into()];
                options.rlvr.settings.num_generations = 3;
            }),
            none
        );
        for (verifiers, expected) in [
            (&["program:touch x"][..], &["--verifier 'program:touch x'"][..]),
            (&["math", "python:a.py:f"], &["--verifier math", "--verifier python:a.py:f"]),
            (&["sql:/etc"], &["--verifier sql:/etc"]),
            (&["sql-bird:/etc"], &["--verifier sql-bird:/etc"]),
            (&["PROGRAM:x"], &["--verifier PROGRAM:x"]),
        ] {
            let verifiers = verifiers.iter().map(ToString::to_string).collect::<Vec<_>>();
            let found = flags(&|options| options.data.rewards.verifier.clone_from(&verifiers));
            assert_eq!(found, expected);
        }
        for (objective, expected) in [
            ("grpo:advantage=r-mean(r)", &[][..]),
            ("grpo:advantage=python:a.py:f", &["--objective grpo:advantage=python:a.py:f"]),
        ] {
            let found = flags(&|options| options.rlvr.objective = objective.parse().unwrap());
            assert_eq!(found, expected);
        }
        assert_eq!(flags(&|options| options.model.model = "owner/model@main".into()), none);
        // `src` is a folder here, so `src/app` could be one of it.
        for dataset in ["src/app", "/etc/passwd", "countdown.jsonl", "countdown,x.csv", ""] {
            assert_eq!(
                flags(&|options| options.data.dataset = dataset.into()).len(),
                1,
                "{dataset}"
            );
        }
        for model in ["src/model", "../countdown", "countdown/", "x.gguf"] {
            assert_eq!(flags(&|options| options.model.model = model.into()).len(), 1, "{model}");
        }
        let engine = flags(&|options| {
            options.engine.remote.engine = Some("http://host".into());
        });
        assert_eq!(engine, ["--engine http://host"]);
    }
}
