//! The layout of a command's `-h` and `--help`: groups in one order, and the options that most people use.

use clap::{Arg, Command};

/// A group of options, as `train` and `study` show them.
struct Group {
    title: &'static str,
    /// Shown by `-h` and `--help`.
    common: &'static [&'static str],
    /// Shown by `--help` alone.
    further: &'static [&'static str],
}

/// Every option of `train` and of `study`, by its name in settings files.
const GROUPS: [Group; 8] = [
    Group {
        title: "Model",
        common: &["model", "device", "use_peft"],
        further: &[
            "adapter",
            "dtype",
            "base_dtype",
            "rollout_dtype",
            "kernels",
            "quantized",
            "lora_r",
            "lora_alpha",
            "lora_dropout",
            "lora_target_modules",
            "use_rslora",
        ],
    },
    Group {
        title: "Data",
        common: &["task", "dataset", "test_dataset", "verifier", "max_samples"],
        further: &[
            "tasks",
            "prompt_column",
            "answer_column",
            "reward_weights",
            "correct_threshold",
            "ood_dataset",
            "test_suite",
            "max_test_samples",
            "instruction",
            "system_prompt",
            "prompt_template",
            "chat_template",
            "template_date",
            "filter_overlong_prompts",
            "few_shot",
            "few_shot_dataset",
            "few_shot_seed",
        ],
    },
    Group {
        title: "Objective",
        common: &["objective", "objectives", "beta"],
        further: &[
            "target_validity",
            "beta_per",
            "baseline",
            "loss_type",
            "epsilon",
            "epsilon_high",
            "num_iterations",
            "steps_per_generation",
            "mask_truncated_completions",
            "truncated",
            "demonstration_template",
            "num_presamples",
            "presamples",
            "rehearsal_batch_size",
            "rehearsal_samples",
            "pef_threshold",
            "extra_check",
            "explore",
            "drop_unsolved",
            "tuned",
            "allow_unequal_tuning",
            "variants",
            "average_share",
            "base_temperature",
            "temperatures",
            "test_measure",
            "no_baselines",
        ],
    },
    Group {
        title: "Rollout",
        common: &["num_generations", "prompts_per_step", "max_completion_length", "temperature"],
        further: &[
            "prompt_allocation",
            "max_num_seqs",
            "engine",
            "engine_model",
            "engine_dialect",
            "engine_weights",
            "engine_folder",
            "engine_timeout",
            "concurrency",
            "retries",
            "api_key_env",
            "max_staleness",
            "importance_correction",
        ],
    },
    Group {
        title: "Optimiser",
        common: &["max_steps", "learning_rate", "seed", "seeds"],
        further: &[
            "max_completions",
            "max_tokens",
            "match",
            "lr_scheduler_type",
            "warmup_steps",
            "adam_beta1",
            "adam_beta2",
            "adam_epsilon",
            "weight_decay",
            "max_grad_norm",
            "zero_stage",
            "gradient_link",
            "micro_batch_tokens",
            "gradient_checkpointing",
            "max_skipped_steps",
            "strict",
        ],
    },
    Group {
        title: "Evaluation",
        common: &["n", "k", "eval_dataset", "eval_steps"],
        further: &[
            "eval_max_samples",
            "eval_num_samples",
            "metric_for_best_model",
            "eval_train",
            "eval_temperature",
            "eval_top_p",
            "eval_top_k",
            "eval_min_p",
            "no_greedy",
            "base_perplexity",
            "ledger",
        ],
    },
    Group {
        title: "Checkpoints",
        common: &["save_steps", "resume"],
        further: &["save_total_limit"],
    },
    Group {
        title: "Output",
        common: &["output", "dry_run", "plan", "config"],
        further: &[
            "overwrite",
            "json",
            "log_completions",
            "log_kl",
            "log_divergences",
            "log_interference",
            "report_to",
            "plan_rate",
            "plan_from",
            "quiet",
        ],
    },
];

/// Whether an option is one that most runs need.
pub(super) fn is_common(id: &str) -> bool {
    GROUPS.iter().any(|group| group.common.contains(&id))
}

/// The options of `train` or `study` in their groups; other commands are left as they are.
pub(super) fn grouped(name: &'static str, command: Command) -> Command {
    if !["train", "study"].contains(&name) {
        return command;
    }
    // Headings stand in the order of the first option that has them.
    let mut sorted = Command::new(name);
    for group in &GROUPS {
        let all = [(group.common, false), (group.further, true)];
        for (ids, is_further) in all {
            let known = ids.iter().filter_map(|id| option(&command, id));
            let shown =
                known.map(|option| option.help_heading(group.title).hide_short_help(is_further));
            sorted = sorted.args(shown);
        }
    }
    // An option that was forgotten above is an option all the same; a test asks for its group.
    let known =
        |option: &&Arg| sorted.get_arguments().all(|other| other.get_id() != option.get_id());
    let forgotten: Vec<Arg> = command.get_arguments().filter(known).cloned().collect();
    sorted.args(forgotten)
}

/// The options with the values that a recipe gives them in the default study.
pub(super) fn with_recipe(command: Command, recipe: &toml::Table) -> Command {
    recipe.iter().fold(command, |command, (id, value)| {
        let Some(before) = option(&command, id) else { return command };
        let with_value = |text: &str| {
            let text = text.trim_end().trim_end_matches('.');
            format!("{text}. In the default study: {}.", shown(value))
        };
        let help = before.get_help().map(|text| with_value(&text.to_string()));
        let long = before.get_long_help().map(|text| with_value(&text.to_string()));
        command.mut_arg(id, |option| match (help, long) {
            (Some(help), Some(long)) => option.help(help).long_help(long),
            (Some(help), None) => option.help(help),
            _ => option,
        })
    })
}

/// A value as the command line takes it.
fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn option(command: &Command, id: &str) -> Option<Arg> {
    command.get_arguments().find(|option| option.get_id() == id).cloned()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::cli::commands;

    #[test]
    fn the_help_of_study_shows_the_values_of_its_recipe() {
        let command = commands::command();
        let study = command.find_subcommand("study").expect("a command");
        let recipe = crate::cli::training::study::recipe();
        for (id, value) in &recipe {
            let option = option(study, id).expect(id);
            let help = option.get_help().map(ToString::to_string).unwrap_or_default();
            let said = format!("In the default study: {}.", shown(value));
            assert!(help.contains(&said), "{id}: {help}");
        }
        let steps = option(study, "max_steps").expect("steps").get_help().map(ToString::to_string);
        assert!(steps.is_some_and(|help| help.ends_with("In the default study: 50.")));
    }

    #[test]
    fn every_option_of_training_has_one_group_and_few_are_shown_at_once() {
        let ids: Vec<&str> = GROUPS
            .iter()
            .flat_map(|group| [group.common, group.further])
            .flatten()
            .copied()
            .collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "twice");
        for name in ["train", "study"] {
            let entry = commands::entry(name).expect("a command");
            let plain = entry.plain();
            let grouped = grouped(name, plain.clone());
            let missing: Vec<_> = plain
                .get_arguments()
                .map(|option| option.get_id().to_string())
                .filter(|id| !ids.contains(&id.as_str()))
                .collect();
            assert!(missing.is_empty(), "{name}: no group for {missing:?}");
            assert_eq!(plain.get_arguments().count(), grouped.get_arguments().count());
            let shown = grouped.get_arguments().filter(|option| !option.is_hide_short_help_set());
            let count = shown.count();
            assert!((18..=26).contains(&count), "{name} -h shows {count} options");
        }
    }
}
