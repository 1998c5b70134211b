//! The layout of a command's `-h` and `--help`: which options `-h` shows, their groups, the groups of commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, Command, value_parser};

use super::ranges::{self, NumberKind};

/// What is asked for: clap lays out `-h` and `--help` alike but for hidden options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// `-h`: the options of [`COMMON`], a sentence each, on one screen.
    Short,
    /// `--help`: all options, in groups.
    Full,
}

impl Layout {
    /// The layout that a command line asks for. Its options mean the same in both.
    pub(super) fn of_arguments(arguments: &[OsString]) -> Self {
        if arguments.iter().any(|argument| argument == "-h") { Self::Short } else { Self::Full }
    }
}

/// The options that `-h` shows, in this order, of commands that have too many to show all.
const COMMON: [(&str, &str); 11] = [
    (
        "train",
        "model dataset verifier objective beta use_peft learning_rate max_steps num_generations \
         prompts_per_step max_completion_length output resume config",
    ),
    ("study", "task model dataset objectives seeds max_steps n output plan config"),
    (
        "eval",
        "model dataset suite verifier n k temperature max_completion_length max_samples engine \
         output json",
    ),
    ("grade", "file dataset verifier answer_column name k truncated failed output json"),
    (
        "audit",
        "files names second_draw dataset verifier gold_key against verdict_key truncated intersect output json",
    ),
    (
        "generate",
        "prompt file model system_prompt raw n temperature max_completion_length seed json",
    ),
    (
        "sft",
        "model dataset from_scratch use_peft learning_rate max_steps batch_size max_samples seed \
         save_steps output resume config",
    ),
    ("export", "model adapter merge average gguf save_dtype output overwrite"),
    ("bench", "model device dtype prompts group prompt_len new_tokens reps rollout_only json"),
    ("gap", "run model beta projection_steps ascent_steps ascent_from output json"),
    ("lab", "world class beta alpha divergence paper seed output prove claim num_generations json"),
];

/// The groups of options in `--help`, in their order; an option names its own (`help_heading`).
const HEADINGS: [&str; 12] = [
    "Model",
    "LoRA",
    "Data",
    "Prompts",
    "Objective",
    "Rollout",
    "Decoding",
    "Engine",
    "Optimizer",
    "Evaluation",
    "Checkpoints",
    "Output",
];

/// The groups of commands in `tealight --help`.
const COMMANDS: [(&str, &str); 5] = [
    ("Commands", "eval train compare grade audit report"),
    ("Objectives", "study objectives tasks gap lab"),
    ("Models and samples", "generate sft export"),
    ("Verifiers", "verify"),
    ("This machine", "doctor bench"),
];

/// Whether `-h` of a command shows an option.
fn is_common(command: &str, id: &str) -> bool {
    common(command).is_none_or(|ids| ids.split(' ').any(|common| common == id))
}

/// The row of a command in [`COMMON`].
fn common(command: &str) -> Option<&'static str> {
    COMMON.iter().find(|(name, _)| *name == command).map(|(_, ids)| *ids)
}

/// The template of `tealight --help`, with the commands in their groups and what each is about.
pub(super) fn template(about: impl Fn(&str) -> &'static str) -> String {
    let group = |(title, names): &(&str, &str)| {
        let line = |name: &str| format!("  {name:12} {}\n", about(name));
        format!("{title}:\n{}", names.split(' ').map(line).collect::<String>())
    };
    let groups: Vec<String> = COMMANDS.iter().map(group).collect();
    format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}\nOptions:\n{{options}}{{after-help}}",
        groups.join("\n")
    )
}

/// A command as `layout` shows it.
pub(super) fn laid_out(name: &'static str, command: Command, layout: Layout) -> Command {
    // Headings stand in the order of the first option that has them.
    let mut options: Vec<Arg> = command.get_arguments().cloned().collect();
    options.sort_by_key(|option| {
        let heading = HEADINGS.iter().position(|known| option.get_help_heading() == Some(*known));
        heading.unwrap_or(HEADINGS.len())
    });
    let lay_out = |option: Arg| {
        let id = option.get_id().to_string();
        let option = with_value_name(option).hide_short_help(!is_common(name, &id));
        match layout {
            Layout::Full => option,
            Layout::Short => short(name, &id, option),
        }
    };
    Command::new(name).args(options.into_iter().map(lay_out))
}

/// An option as `-h` shows it.
fn short(command: &str, id: &str, option: Arg) -> Arg {
    let place = common(command).and_then(|ids| ids.split(' ').position(|common| common == id));
    let help = option.get_help().map(|help| summary(&help.to_string()));
    let option = option.help_heading(None::<&str>);
    let option = match place {
        Some(place) => option.display_order(place),
        None => option,
    };
    match help {
        Some(help) => option.help(help),
        None => option,
    }
}

/// The first sentence of a help text, and those that name a default.
fn summary(help: &str) -> String {
    let mut sentences = vec![String::new()];
    for word in help.split_whitespace() {
        let is_begin = word.starts_with(|c: char| c.is_uppercase() || c == '`' || c == '-');
        let last = sentences.last_mut().expect("one sentence at least");
        let is_end = last.ends_with('.') && !last.ends_with("...");
        if is_end && is_begin {
            sentences.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    let is_default = |text: &String| text.starts_with("Default:");
    let first = sentences.first().cloned().unwrap_or_default();
    let rest = sentences.into_iter().skip(1).filter(is_default);
    let brief: Vec<String> = std::iter::once(first).chain(rest).collect();
    brief.join(" ").trim_end_matches('.').to_owned()
}

/// The first example of the text below a command's options.
pub(super) fn first_example(more: &str) -> Option<String> {
    let (_, examples) = more.split_once("Examples:\n").or_else(|| more.split_once("Example:\n"))?;
    let mut shown = String::from("Example:\n");
    for line in examples.lines() {
        shown.push_str(line);
        if !line.ends_with('\\') {
            break;
        }
        shown.push('\n');
    }
    Some(shown)
}

/// An option whose value is called by its kind where its name says no more than the option's: `--max-steps <N>`.
fn with_value_name(option: Arg) -> Arg {
    let id = option.get_id().as_str().to_uppercase();
    let names = option.get_value_names().unwrap_or_default();
    if id.len() == 1 || names.len() != 1 || names[0].as_str() != id {
        return option;
    }
    let is_path = option.get_value_parser().type_id() == value_parser!(PathBuf).type_id();
    match (ranges::number_kind(&option), is_path) {
        (Some(NumberKind::Whole), _) => option.value_name("N"),
        (Some(NumberKind::Real), _) => option.value_name("FLOAT"),
        (None, true) => option.value_name("PATH"),
        (None, false) => option,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::cli::commands;

    #[test]
    fn every_option_of_training_has_a_heading_and_headings_are_known() {
        for name in commands::names() {
            let plain = commands::entry(name).expect("a command").plain();
            let is_training = ["train", "study"].contains(&name);
            for option in plain.get_arguments() {
                let id = option.get_id().as_str();
                let is_general = ["config", "quiet"].contains(&id);
                match option.get_help_heading() {
                    Some(heading) => assert!(HEADINGS.contains(&heading), "{id}: {heading}"),
                    None => assert!(!is_training || is_general, "{name}: {id} has no help_heading"),
                }
            }
            let laid_out = laid_out(name, plain.clone(), Layout::Full);
            assert_eq!(plain.get_arguments().count(), laid_out.get_arguments().count());
        }
    }

    #[test]
    fn the_short_help_of_every_command_fits_one_screen() {
        for (name, ids) in COMMON {
            let ids: Vec<&str> = ids.split(' ').collect();
            let plain = commands::entry(name).expect("a command").plain();
            assert!((8..=14).contains(&ids.len()), "{name} -h shows {} options", ids.len());
            for id in ids {
                let has = plain.get_arguments().any(|option| option.get_id() == id);
                assert!(has, "{name} has no option {id}");
            }
        }
        let mut program = commands::command_as(Layout::Short).term_width(100);
        program.build();
        let full = commands::command();
        for name in commands::names() {
            let command = program.find_subcommand_mut(name).expect("a command");
            let text = command.render_help().to_string();
            assert!(text.lines().count() <= 40, "{name}: {} lines\n{text}", text.lines().count());
            let full = full.find_subcommand(name).expect("a command");
            let count = |command: &Command| command.get_arguments().count();
            assert_eq!(count(full), count(&commands::entry(name).expect("one").plain()));
        }
    }

    #[test]
    fn the_five_first_commands_lead_and_every_command_has_a_group() {
        let text = commands::command().term_width(100).render_help().to_string();
        let at = |word: &str| {
            text.find(&format!("\n  {word} ")).unwrap_or_else(|| panic!("no {word}: {text}"))
        };
        let first: Vec<usize> =
            ["eval", "train", "compare", "grade", "report", "study"].map(at).into();
        assert!(first.is_sorted(), "{text}");
        let listed: Vec<&str> = COMMANDS.iter().flat_map(|(_, names)| names.split(' ')).collect();
        assert_eq!(listed.len(), listed.iter().collect::<HashSet<_>>().len(), "twice");
        assert_eq!(commands::names().collect::<HashSet<_>>(), listed.into_iter().collect());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.lines().count() <= 52, "{text}");
    }

    #[test]
    fn a_summary_is_the_first_sentence_and_the_default() {
        let text = "Number of problems to use, such as 8. More are slower. Default: all";
        assert_eq!(summary(text), "Number of problems to use, such as 8. Default: all");
        assert_eq!(summary("One of a, b, ... Default: a"), "One of a, b, ... Default: a");
        assert_eq!(
            first_example("Words.\n\nExamples:\n  a \\\n      b\n  c").as_deref(),
            Some("Example:\n  a \\\n      b")
        );
    }
}
