//! Numbers against the ranges that their options declare: on the command line and in settings files, and in messages.

use anyhow::{Result, bail};
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, value_parser};
use toml::{Table, Value};

use tealight_system::range::Range;

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

/// The range of a numeric option of `command` whose value clap refuses, such as a negative count.
pub(super) fn explain(error: &clap::Error, command: &Command) -> Option<String> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (option, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let name = option.split(' ').next()?.trim_start_matches('-');
    let id = name.replace('-', "_");
    let range = range(command, &id)?;
    // TRL has a switch where this is a number.
    if ["true", "false"].contains(&value.to_lowercase().as_str()) {
        let argument = command.get_arguments().find(|argument| *argument.get_id() == id)?;
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        return Some(format!("{name} is a number, {range}, and not {value}: {help}"));
    }
    // A text that is no number at all, and a count beyond what a word holds, have clap's own message.
    value.parse::<f64>().ok().filter(|number| number.abs() < 1e19)?;
    Some(format!("{name} must be a whole number, {range}, not {value}"))
}

/// Refuses numbers that mean nothing, or that no machine could do, in settings of `command`.
pub(super) fn check(settings: &Table, command: &Command) -> Result<()> {
    for (name, value) in settings {
        let Some(range) = range(command, name) else { continue };
        let each = match value {
            Value::Array(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in each {
            let number = match value {
                Value::Integer(number) => *number as f64,
                Value::Float(number) => *number,
                _ => continue,
            };
            if !range.contains(number) {
                bail!("{} must be {range}, not {value}", name.replace('_', "-"));
            }
        }
    }
    Ok(())
}

/// The range that an option declares.
fn range<'a>(command: &'a Command, id: &str) -> Option<&'a Range> {
    command.get_arguments().find(|option| option.get_id() == id)?.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands;

    /// Every option of every command that takes a number, with the flag that sets it and its range.
    fn numeric() -> Vec<(String, String, String, Range)> {
        let mut options = Vec::new();
        for command in commands::command().get_subcommands() {
            for argument in command.get_arguments() {
                let (command, name) = (command.get_name(), argument.get_id().as_str());
                let range = argument.get::<Range>().copied();
                assert_eq!(
                    range.is_some(),
                    number_kind(argument).is_some(),
                    "{command}, {name}: a number has a range, such as `add = at_least(0.0)`; nothing else has one"
                );
                let flag = match (argument.get_long(), argument.get_short()) {
                    (Some(long), _) => format!("--{long}="),
                    (None, Some(short)) => format!("-{short}="),
                    (None, None) => continue,
                };
                options
                    .extend(range.map(|range| (command.to_owned(), name.to_owned(), flag, range)));
            }
        }
        options
    }

    /// What a command line with an option must have besides: required positional arguments.
    fn needed(command: &str) -> Vec<String> {
        let commands = commands::command();
        let command = commands.find_subcommand(command).expect("a command");
        let required = command.get_positionals().filter(|argument| argument.is_required_set());
        required.map(|_| "x".to_owned()).collect()
    }

    #[test]
    fn every_numeric_option_of_every_command_has_a_range_and_survives_every_number() {
        let numbers =
            ["nan", "inf", "-inf", "0", "-1", "1e308", "9007199254740992", "18446744073709551615"];
        let numeric = numeric();
        assert!(numeric.len() > 60, "{numeric:?}");
        for (command, name, flag, range) in numeric {
            for value in numbers {
                let mut words =
                    vec!["tealight".to_owned(), command.clone(), format!("{flag}{value}")];
                words.extend(needed(&command));
                let number: f64 = value.parse().expect("a number");
                match crate::cli::check(&words) {
                    Ok(()) => assert!(range.contains(number), "{words:?} is taken"),
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
}
