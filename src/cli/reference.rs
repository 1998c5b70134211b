//! `docs/reference.md`: every option of every command. A test compares the file with the program's options, and writes
//! it with `TEALIGHT_BLESS=1`.

use std::collections::BTreeMap;

use clap::{Arg, Command};

use super::commands;

/// An option that so many commands have with the same text is described once.
const SHARED: usize = 2;

/// Every command with every option, its default and what it means; last the options that several commands share.
pub fn reference() -> String {
    let mut program = commands::command();
    program.build();
    let commands: Vec<&Command> =
        program.get_subcommands().filter(|command| command.get_name() != "help").collect();
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for option in commands.iter().flat_map(|command| shown(command)) {
        *uses.entry(line(option)).or_default() += 1;
    }
    let is_shared = |option: &&Arg| uses.get(&line(option)).is_some_and(|count| *count >= SHARED);
    let mut text = String::from(
        "# Every option\n\nKeys of `--config` files are the names below, with `-` or `_`. \
         Options that several commands share are described once, in [Shared options](#shared-options).\n",
    );
    let mut shared: Vec<String> = Vec::new();
    for command in commands {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!("\n## tealight {}\n\n{about}.\n\n", command.get_name()));
        let (common, own): (Vec<&Arg>, Vec<&Arg>) = shown(command).partition(is_shared);
        text.extend(own.into_iter().map(line));
        if !common.is_empty() {
            let names = common.iter().map(|option| format!("`{}`", name(option)));
            text.push_str(&format!("- Shared: {}\n", names.collect::<Vec<_>>().join(", ")));
        }
        for option in common.into_iter().map(line) {
            if !shared.contains(&option) {
                shared.push(option);
            }
        }
        if let Some(more) = command.get_after_long_help() {
            text.push_str(&format!("\n```text\n{}\n```\n", more.to_string().trim()));
        }
    }
    text.push_str(&format!("\n## Shared options\n\n{}", shared.concat()));
    text
}

/// The options of a command that its help shows.
fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|option| option.get_id() != "help" && !option.is_hide_set())
}

/// The flag of an option, the long one where it has both.
fn name(option: &Arg) -> String {
    match (option.get_long(), option.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => option.get_id().to_string(),
    }
}

/// An option as an item of a list.
fn line(option: &Arg) -> String {
    let mut names = Vec::new();
    names.extend(option.get_short().map(|short| format!("-{short}")));
    names.extend(option.get_long().map(|long| format!("--{long}")));
    for alias in option.get_all_aliases().unwrap_or_default() {
        names.push(format!("--{alias}"));
    }
    let takes = option.get_action().takes_values();
    let value = option.get_value_names().and_then(|names| names.first()).filter(|_| takes);
    let value = value.map_or(String::new(), |name| format!(" <{}>", name.as_str()));
    let name = match names.is_empty() {
        true => value.trim().to_owned(),
        false => format!("{}{value}", names.join(", ")),
    };
    let defaults: Vec<_> =
        option.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let default = match defaults.is_empty() || !takes {
        true => String::new(),
        false => format!(" Default: `{}`.", defaults.join(",")),
    };
    let choices = option.get_possible_values();
    let choices = choices.iter().filter(|value| takes && !value.is_hide_set());
    let choices: Vec<_> = choices.map(|value| format!("`{}`", value.get_name())).collect();
    let choices = match choices.is_empty() {
        true => String::new(),
        false => format!(" One of {}.", choices.join(", ")),
    };
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.trim().trim_end_matches('.');
    format!("- `{name}`: {help}.{choices}{default}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_describes_a_shared_option_once_and_names_it_at_every_command() {
        let text = reference();
        assert_eq!(text.matches("- `--config <FILE.toml>`: ").count(), 1);
        let (described, shared) = text.split_once("\n## Shared options\n").expect("a section");
        assert!(shared.contains("- `--config <FILE.toml>`: "), "{shared}");
        let sections: Vec<&str> = described.split("\n## tealight ").skip(1).collect();
        assert_eq!(sections.len(), commands::names().count());
        assert!(sections.iter().all(|section| section.contains("`--config`")), "{described}");
        assert!(described.contains("- `--objective <OBJECTIVE>`: "));
    }
}
