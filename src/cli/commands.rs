//! The whole command line, of the commands in `entries`.

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::entries::ENTRIES;
use super::help::{self, Layout};
use super::ranges;
use tealight_system::process::Process;

/// A command whose options are read.
pub(super) type Work<'m> = Box<dyn FnOnce(&Process) -> Result<()> + 'm>;

/// A command.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) options: fn(Command) -> Command,
    pub(super) about: &'static str,
    /// The text below the options.
    pub(super) more: &'static str,
    /// Reads its options, and no more.
    pub(super) open: fn(&ArgMatches) -> Result<Work<'_>>,
}

/// Commands that several processes can do together.
const SHARED: [&str; 3] = ["study", "train", "eval"];

impl Entry {
    /// Whether several processes can do it together.
    pub(super) fn is_shared(&self) -> bool {
        SHARED.contains(&self.name)
    }

    /// Its options, in the order in which they are declared.
    pub(super) fn plain(&self) -> Command {
        let config = Arg::new("config").long("config").value_name("FILE.toml").action(ArgAction::Append).help(
            "TOML file with options as keys, or recipe:NAME (recipe: without a name lists all); flags take precedence over files, later \
             files over earlier ones",
        );
        let quiet = Arg::new("quiet")
            .long("quiet")
            .action(ArgAction::SetTrue)
            .help("Show nothing but the result, warnings and errors");
        let command = (self.options)(Command::new(self.name)).arg(config).arg(quiet);
        let command = command.mut_args(|option| {
            let is_number = ranges::number_kind(&option).is_some();
            option.allow_negative_numbers(is_number)
        });
        refused(self.name).iter().fold(command, |command, id| match has(&command, id) {
            true => command.mut_arg(id, |option| option.hide(true)),
            false => command,
        })
    }
}

/// The names of all commands.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.name)
}

/// The entry of the command called `name`.
pub(super) fn entry(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// Whether a command has an option.
fn has(command: &Command, id: &str) -> bool {
    command.get_arguments().any(|option| option.get_id() == id)
}

/// The whole command line.
pub(super) fn command() -> Command {
    command_as(Layout::Full)
}

/// The whole command line, with its help as `layout` says.
pub(super) fn command_as(layout: Layout) -> Command {
    let all = ENTRIES.iter().map(|entry| {
        let command = help::laid_out(entry.name, entry.plain(), layout);
        let example = help::first_example(entry.more).unwrap_or_else(|| entry.more.to_owned());
        // The derived options would put their own doc comment in place of the description.
        let command = command.about(entry.about).long_about(entry.about);
        command.after_help(example).after_long_help(entry.more)
    });
    let about = |name: &str| entry(name).map_or("", |entry| entry.about);
    Command::new("tealight")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .help_template(help::template(about))
        .after_help(
            "Begin with `tealight study`: it needs no model, no data and no network. `tealight COMMAND -h` shows the \
             options that most people use, --help all options.",
        )
        .subcommands(all)
}

/// Options that a command would refuse: its help does not show them.
fn refused(command: &str) -> &'static [&'static str] {
    match command {
        "eval" | "generate" => &[],
        "train" => &["adapter", "quantized"],
        "bench" => &["quantized"],
        "study" => &["adapter", "quantized", "rollout_dtype", "initial_policy"],
        "sft" => &["adapter", "quantized", "rollout_dtype"],
        _ => &["quantized", "rollout_dtype"],
    }
}
