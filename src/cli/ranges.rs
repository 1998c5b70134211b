//! Allowed ranges of numeric options. Every numeric option of every command has a row; a test asks for it.

use anyhow::{Result, bail};
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, value_parser};
use serde_json::json;
use toml::{Table, Value};

/// A bound and whether it may be reached itself.
#[derive(Clone, Copy)]
enum Bound {
    At(f64),
    Beyond(f64),
}

use Bound::{At, Beyond};

/// Counts that need memory or time of their own.
const MAX_COUNT: f64 = 1e6;
/// Counts that only end something.
const MAX_UNBOUNDED: f64 = 1e15;

/// Option, least, most.
const RANGES: &[(&str, Bound, Bound)] = &[
    ("adam_beta1", At(0.0), Beyond(1.0)),
    ("adam_beta2", At(0.0), Beyond(1.0)),
    ("adam_epsilon", Beyond(0.0), At(1.0)),
    ("alpha", At(0.0), At(1.0)),
    ("average_share", Beyond(0.0), Beyond(1.0)),
    ("base_validity", Beyond(0.0), Beyond(1.0)),
    ("base_temperature", Beyond(0.0), Beyond(1.0)),
    ("temperatures", Beyond(0.0), Beyond(1.0)),
    ("batch_size", At(1.0), At(MAX_COUNT)),
    ("beta", At(0.0), At(1e6)),
    ("concurrency", At(1.0), At(4096.0)),
    ("max_staleness", At(0.0), At(64.0)),
    ("engine_timeout", At(0.001), At(1e6)),
    ("correct_threshold", Beyond(0.0), At(1.0)),
    ("epsilon", At(0.0), At(1e6)),
    ("epsilon_high", At(0.0), At(1e6)),
    ("eval_max_samples", At(1.0), At(MAX_UNBOUNDED)),
    ("eval_num_samples", At(1.0), At(MAX_COUNT)),
    ("eval_steps", At(0.0), At(MAX_UNBOUNDED)),
    ("eval_temperature", Beyond(0.0), At(100.0)),
    ("eval_train", At(0.0), At(MAX_UNBOUNDED)),
    ("extrapolate", At(1.0), At(MAX_COUNT)),
    ("few_shot", At(0.0), At(1000.0)),
    ("few_shot_seed", At(0.0), At(f64::MAX)),
    ("group", At(1.0), At(MAX_COUNT)),
    ("groups", At(1.0), At(1e9)),
    ("groups_per_step", At(1.0), At(MAX_COUNT)),
    ("iterations", At(1.0), At(1e9)),
    ("k", At(1.0), At(MAX_COUNT)),
    ("learning_rate", Beyond(0.0), At(1e30)),
    ("ledger", At(1.0), At(MAX_UNBOUNDED)),
    ("limit", At(0.0), At(MAX_UNBOUNDED)),
    ("log_completions", At(0.0), At(MAX_UNBOUNDED)),
    ("log_divergences", At(0.0), At(MAX_UNBOUNDED)),
    ("lora_alpha", Beyond(0.0), At(1e6)),
    ("lora_dropout", At(0.0), Beyond(1.0)),
    ("lora_r", At(1.0), At(65_536.0)),
    ("max_completion_length", At(1.0), At(16_777_216.0)),
    ("max_completions", At(1.0), At(MAX_UNBOUNDED)),
    ("max_grad_norm", At(0.0), At(1e30)),
    ("max_num_seqs", At(1.0), At(1e10)),
    ("max_rounds", At(1.0), At(MAX_COUNT)),
    ("nproc_per_node", At(1.0), At(1024.0)),
    ("max_samples", At(1.0), At(MAX_UNBOUNDED)),
    ("max_skipped_steps", At(1.0), At(MAX_UNBOUNDED)),
    ("max_steps", At(1.0), At(1e12)),
    ("max_test_samples", At(1.0), At(MAX_UNBOUNDED)),
    ("max_tokens", At(1.0), At(MAX_UNBOUNDED)),
    ("eval_min_p", At(0.0), Beyond(1.0)),
    ("eval_top_k", At(0.0), At(16_777_216.0)),
    ("eval_top_p", Beyond(0.0), At(1.0)),
    ("interval_width", Beyond(0.0), At(1.0)),
    ("max_presamples", At(1.0), At(65_536.0)),
    ("max_seconds", At(1.0), At(1e6)),
    ("max_unjudged", At(0.0), At(1.0)),
    ("micro_batch_tokens", At(1.0), At(1e9)),
    ("min_p", At(0.0), Beyond(1.0)),
    ("n", At(1.0), At(MAX_COUNT)),
    ("new_tokens", At(1.0), At(MAX_COUNT)),
    ("num_generations", At(1.0), At(65_536.0)),
    ("num_iterations", At(1.0), At(1000.0)),
    ("steps_per_generation", At(1.0), At(1000.0)),
    ("num_presamples", At(1.0), At(65_536.0)),
    ("pef_threshold", At(0.0), At(1.0)),
    ("plan_rate", Beyond(0.0), At(1e12)),
    ("port", At(0.0), At(65_535.0)),
    ("prompt_len", At(1.0), At(MAX_COUNT)),
    ("prompts", At(1.0), At(MAX_COUNT)),
    ("prompts_per_step", At(1.0), At(MAX_COUNT)),
    ("rehearsal_batch_size", At(1.0), At(MAX_COUNT)),
    ("reps", At(1.0), At(1000.0)),
    ("retries", At(0.0), At(1000.0)),
    ("reward_weights", Beyond(0.0), At(1e6)),
    ("runs", At(1.0), At(1000.0)),
    ("save_steps", At(0.0), At(MAX_UNBOUNDED)),
    ("save_total_limit", At(0.0), At(MAX_UNBOUNDED)),
    ("seed", At(0.0), At(f64::MAX)),
    ("steps", At(1.0), At(MAX_COUNT)),
    ("step", At(0.0), At(MAX_UNBOUNDED)),
    ("target", Beyond(0.0), Beyond(1.0)),
    ("target_validity", Beyond(0.0), Beyond(1.0)),
    ("temperature", At(0.0), At(100.0)),
    ("top_k", At(0.0), At(16_777_216.0)),
    ("top_p", Beyond(0.0), At(1.0)),
    ("validity", Beyond(0.0), Beyond(1.0)),
    ("warmup_steps", At(0.0), At(1e12)),
    ("weight_decay", At(0.0), At(10.0)),
];

/// The kinds of numbers that options take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberKind {
    Whole,
    Real,
}

/// The kind of number that an option takes; none where its value is no number.
pub(super) fn number_kind(option: &Arg) -> Option<NumberKind> {
    let kind = option.get_value_parser().type_id();
    let whole: [ValueParser; 3] =
        [value_parser!(usize).into(), value_parser!(u64).into(), value_parser!(u16).into()];
    if whole.iter().any(|parser| parser.type_id() == kind) {
        return Some(NumberKind::Whole);
    }
    (ValueParser::from(value_parser!(f64)).type_id() == kind).then_some(NumberKind::Real)
}

/// The range of a numeric option whose value clap refuses, such as a negative count.
pub(super) fn explain(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (option, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let name = option.split(' ').next()?.trim_start_matches('-');
    let (_, least, most) = range(&name.replace('-', "_"))?;
    // A text that is no number at all, and a count beyond what a word holds, have clap's own message.
    value.parse::<f64>().ok().filter(|number| number.abs() < 1e19)?;
    Some(format!("{name} must be a whole number, {}, not {value}", spelled(*least, *most)))
}

/// Refuses numbers that mean nothing, or that no machine could do.
pub(super) fn check(options: &Table) -> Result<()> {
    for (name, value) in options {
        let each: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            one => vec![one],
        };
        for value in each {
            let number = match value {
                Value::Integer(number) => *number as f64,
                Value::Float(number) => *number,
                _ => continue,
            };
            let Some((_, least, most)) = range(name) else { continue };
            if !is_within(number, *least, *most) {
                bail!("{} must be {}, not {value}", name.replace('_', "-"), spelled(*least, *most));
            }
        }
    }
    Ok(())
}

/// Adds the bounds of a numeric option to its JSON schema.
pub(super) fn describe(name: &str, schema: &mut serde_json::Map<String, serde_json::Value>) {
    let Some((_, least, most)) = range(name) else { return };
    // Whole bounds are written as whole numbers.
    let number = |bound: f64| match bound.fract() == 0.0 && bound.abs() < 1e15 {
        true => json!(bound as i64),
        false => json!(bound),
    };
    let (key, bound) = match *least {
        At(bound) => ("minimum", bound),
        Beyond(bound) => ("exclusiveMinimum", bound),
    };
    schema.insert(key.into(), number(bound));
    let (key, bound) = match *most {
        At(f64::MAX) => return,
        At(bound) => ("maximum", bound),
        Beyond(bound) => ("exclusiveMaximum", bound),
    };
    schema.insert(key.into(), number(bound));
}

fn is_within(number: f64, least: Bound, most: Bound) -> bool {
    let is_above = match least {
        At(least) => number >= least,
        Beyond(least) => number > least,
    };
    let is_below = match most {
        At(most) => number <= most,
        Beyond(most) => number < most,
    };
    is_above && is_below && number.is_finite()
}

fn range(name: &str) -> Option<&'static (&'static str, Bound, Bound)> {
    RANGES.iter().find(|(known, ..)| *known == name)
}

fn spelled(least: Bound, most: Bound) -> String {
    let least = match least {
        At(least) => format!("at least {least}"),
        Beyond(least) => format!("above {least}"),
    };
    match most {
        At(f64::MAX) => least,
        At(most) => format!("{least} and at most {most}"),
        Beyond(most) => format!("{least} and below {most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands;

    /// Every option of every command that takes a number, with the flag that sets it.
    fn numeric() -> Vec<(String, String, String)> {
        let mut options = Vec::new();
        for command in commands::command().get_subcommands() {
            for argument in command.get_arguments() {
                let flag = match (argument.get_long(), argument.get_short()) {
                    (Some(long), _) => format!("--{long}="),
                    (None, Some(short)) => format!("-{short}="),
                    (None, None) => continue,
                };
                if number_kind(argument).is_some() {
                    let (command, name) =
                        (command.get_name().to_owned(), argument.get_id().to_string());
                    options.push((command, name, flag));
                }
            }
        }
        options
    }

    /// What a command line with an option must have besides: required positional arguments, and the option that this
    /// one belongs to.
    fn needed(command: &str, name: &str) -> Vec<String> {
        let commands = commands::command();
        let command = commands.find_subcommand(command).expect("a command");
        let required = command.get_positionals().filter(|argument| argument.is_required_set());
        let values = required.map(|_| "x".to_owned());
        let option = (name == "max_rounds").then(|| "--reject".to_owned());
        option.into_iter().chain(values).collect()
    }

    #[test]
    fn every_numeric_option_of_every_command_survives_every_number() {
        let numbers =
            ["nan", "inf", "-inf", "0", "-1", "1e308", "9007199254740992", "18446744073709551615"];
        for (command, name, flag) in numeric() {
            let (_, least, most) = range(&name).expect("every numeric option has a range");
            for value in numbers {
                let mut words =
                    vec!["tealight".to_owned(), command.clone(), format!("{flag}{value}")];
                words.extend(needed(&command, &name));
                let number: f64 = value.parse().expect("a number");
                match crate::cli::check(&words) {
                    Ok(()) => assert!(is_within(number, *least, *most), "{words:?} is taken"),
                    Err(error) => {
                        let message = format!("{error:#}");
                        let known = [flag.trim_end_matches('='), &name.replace('_', "-")];
                        assert!(
                            known.iter().any(|word| message.contains(word)),
                            "{words:?}: {message}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_negative_number_has_a_range_error_and_is_no_option() {
        for (option, value, message) in [
            ("--temperature", "-1", "temperature must be at least 0 and at most 100, not -1.0"),
            ("--learning-rate", "-0.5", "learning-rate must be above 0"),
            ("--max-steps", "-5", "max-steps must be a whole number, at least 1"),
            ("--max-steps", "2.5", "max-steps must be a whole number, at least 1"),
        ] {
            let words = ["tealight", "train", option, value].map(str::to_owned);
            let error = format!("{:#}", crate::cli::check(&words).expect_err(message));
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn every_numeric_option_has_a_range_and_every_range_an_option() {
        let numeric = numeric();
        assert!(numeric.len() > 60, "{numeric:?}");
        for (command, name, _) in &numeric {
            assert!(range(name).is_some(), "{command} --{name} has no range");
        }
        for (name, ..) in RANGES {
            assert!(numeric.iter().any(|(_, option, _)| option == name), "no option {name}");
        }
    }

    #[test]
    fn out_of_range_numbers_are_refused_by_name() {
        let check = |name: &str, value: f64| {
            let table =
                Table::from_iter([(name.to_owned(), Value::Array(vec![Value::Float(value)]))]);
            super::check(&table).map_err(|error| error.to_string())
        };
        for (name, least, most) in RANGES {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e308] {
                let message = check(name, value).expect_err(name);
                assert!(message.contains(&name.replace('_', "-")), "{message}");
            }
            assert_eq!(check(name, 1e308).is_ok(), matches!(most, At(f64::MAX)), "{name}");
            let is_zero_fine = matches!(least, At(0.0));
            assert_eq!(check(name, 0.0).is_ok(), is_zero_fine, "{name}");
        }
        assert!(
            check("learning_rate", 1e-6).is_ok() && check("seed", 9_007_199_254_740_993.0).is_ok()
        );
    }
}
