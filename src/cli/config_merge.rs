//! Defaults < `--config` files from left to right < flags, for any struct of options.
//!
//! The struct is both a clap `Args` and a serde type: an option is written once. Keys are flags' names with `-` or `_`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use anyhow::{Context, Result, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tealight_core::similar;
use toml::{Table, Value};

use super::places::{line_of, place};
use super::recipes;
use super::{ranges, trl_names};
use tealight_learn::train::Schedule;
use tealight_system::files::MAX_SETTINGS;

/// A flag of every command that a file may set too.
const QUIET: &str = "quiet";

/// The options of a command from its matches and the files its `--config` names.
pub(super) fn resolve<T>(matches: &ArgMatches) -> Result<T>
where
    T: Args + FromArgMatches + Serialize + DeserializeOwned,
{
    resolve_with(matches, None, &files(matches)?)
}

/// The same with the files of `--config` as [`files`] read them, and a recipe below them: its name and text.
pub(super) fn resolve_with<T>(
    matches: &ArgMatches,
    recipe: Option<(&str, &str)>,
    files: &[(&str, String)],
) -> Result<T>
where
    T: Args + FromArgMatches + Serialize + DeserializeOwned,
{
    let typed = T::from_arg_matches(matches)?;
    let known = known_ids::<T>();
    let mut table = Table::try_from(&typed).with_context(|| too_large(matches, &known))?;
    if let Some(key) = table.keys().find(|key| !known.contains_key(*key)) {
        unreachable!("option `{key}` has another name in settings files than on the command line");
    }
    // One value in place of a list of one.
    let lists: BTreeSet<String> =
        table.iter().filter(|(_, value)| value.is_array()).map(|(id, _)| id.clone()).collect();
    let command = options_of::<T>();
    let mut is_quiet = matches.get_flag("quiet");
    let is_typed = |id: &&String| matches.value_source(id) == Some(ValueSource::CommandLine);
    let mut given: BTreeSet<String> = known.values().filter(is_typed).cloned().collect();
    let layers = recipe.into_iter().chain(files.iter().map(|(file, text)| (*file, text.as_str())));
    for (file, text) in layers {
        let before = table.clone();
        for (id, value) in parsed(file, text, &known)? {
            if id == QUIET {
                is_quiet |=
                    value.as_bool().with_context(|| format!("{file}: `quiet` is true or false"))?;
            } else if matches.value_source(&id) != Some(ValueSource::CommandLine) {
                given.insert(id.clone());
                let is_single = lists.contains(&id) && !value.is_array();
                let value =
                    if is_single { Value::Array(split(&command, &id, value)) } else { value };
                table.insert(id, value);
            }
        }
        if let Err(error) = Value::Table(table.clone()).try_into::<T>() {
            let wrong = wrong_key::<T>(&before, &table, text);
            let at = wrong.as_ref().map_or(file.to_owned(), |(key, _)| place(file, text, key));
            let (what, error) = match wrong {
                Some((key, error)) => (format!("the value of `{key}`"), error),
                None => ("a value".into(), error),
            };
            let steps = Some("; give the number of steps between files, 0 for none");
            let hint = steps.filter(|_| what.contains("log_completions")).unwrap_or_default();
            bail!("{at}: {what} is of the wrong kind: {}{hint}", error.message().trim_end());
        }
    }
    set_adapter_rate(&mut table, &given);
    ranges::check(&table, &command)?;
    if is_quiet {
        tealight_system::telemetry::be_quiet();
    }
    Ok(Value::Table(table).try_into()?)
}

/// The learning rate of an adapter, where no flag and no file sets a rate.
fn set_adapter_rate(table: &mut Table, given: &BTreeSet<String>) {
    const RATE: &str = "learning_rate";
    let is_adapter = table.get("use_peft").and_then(Value::as_bool) == Some(true);
    if is_adapter && table.contains_key(RATE) && !given.contains(RATE) {
        table.insert(RATE.into(), Value::Float(Schedule::ADAPTER_RATE));
    }
}

/// The options that flags or the files of `--config` set, by the flags' names with `_`.
pub(super) fn given<T: Args>(
    matches: &ArgMatches,
    files: &[(&str, String)],
) -> Result<BTreeSet<String>> {
    let known = known_ids::<T>();
    let is_typed = |id: &&String| matches.value_source(id) == Some(ValueSource::CommandLine);
    let mut ids: BTreeSet<String> = known.values().filter(is_typed).cloned().collect();
    for (file, text) in files {
        let keys = parsed(file, text, &known)?.into_iter().map(|(id, _)| id);
        ids.extend(keys.filter(|id| id != QUIET));
    }
    Ok(ids)
}

/// Whether a file of `--config` sets the option `id`, whatever spelling of its name the file has.
pub(super) fn sets<T: Args>(file: &str, text: &str, id: &str) -> Result<bool> {
    Ok(parsed(file, text, &known_ids::<T>())?.contains_key(id))
}

/// The files of `--config` with their texts, from left to right.
pub(super) fn files(matches: &ArgMatches) -> Result<Vec<(&str, String)>> {
    let names = matches.get_many::<String>("config").into_iter().flatten();
    let read = |file: &String| match recipes::named(file)? {
        Some(text) => Ok(text.to_owned()),
        None => read_text(file).with_context(|| format!("{file}: the config file cannot be read")),
    };
    names.map(|file| Ok((file.as_str(), read(file)?))).collect()
}

/// A file or a pipe (`--config <(...)`) of at most [`MAX_SETTINGS`] bytes.
fn read_text(file: &str) -> Result<String> {
    let mut text = String::new();
    std::fs::File::open(file)?.take(MAX_SETTINGS + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_SETTINGS {
        bail!("larger than {MAX_SETTINGS} bytes, the limit for such a file");
    }
    Ok(text)
}

/// The settings of a file by the names of options, whatever spelling of a name the file has: from here on there is one
/// key for an option.
fn parsed(file: &str, text: &str, known: &BTreeMap<String, String>) -> Result<Table> {
    let hint = match file.rsplit('.').next() {
        Some("yaml" | "yml" | "json") => {
            ": write each setting as `key = value` (TRL's names are known)"
        }
        _ => "",
    };
    let given: Table = text.parse().with_context(|| format!("{file}: not TOML{hint}"))?;
    let id_of = |key: &str| match key.replace('-', "_") {
        id if id == QUIET => Some(id),
        id => known.get(&id).cloned(),
    };
    let unknown: Vec<&String> = given.keys().filter(|key| id_of(key).is_none()).collect();
    if let Some((first, others)) = unknown.split_first() {
        let others = others.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let others = if others.is_empty() { others } else { format!("; unknown too: {others}") };
        bail!(
            "{}: unknown key `{first}`{}{others}",
            place(file, text, first),
            nearest(known, first)
        );
    }
    let mut settings = Table::new();
    for (key, value) in given {
        let id = id_of(&key).unwrap_or_default();
        if settings.insert(id, value).is_some() {
            bail!("{file}: `{key}` is given twice, by two names of one option: leave one out");
        }
    }
    Ok(settings)
}

/// One value in place of a list: a text is taken apart as on the command line.
fn split(command: &Command, id: &str, value: Value) -> Vec<Value> {
    let option = command.get_arguments().find(|option| option.get_id() == id);
    match (option.and_then(|option| option.get_value_delimiter()), &value) {
        (Some(delimiter), Value::String(text)) => {
            text.split(delimiter).map(|part| Value::String(part.trim().to_owned())).collect()
        }
        _ => vec![value],
    }
}

/// The first key in the file whose value in `table` cannot be read, where the values `before` could, and why. Errors of
/// values in flattened structs do not say their key.
fn wrong_key<T: DeserializeOwned>(
    before: &Table,
    table: &Table,
    text: &str,
) -> Option<(String, toml::de::Error)> {
    let why = |(key, value): (&String, &Value)| {
        let mut one = before.clone();
        one.insert(key.clone(), value.clone());
        let is_new = before.get(key) != Some(value);
        let error = is_new.then(|| Value::Table(one).try_into::<T>().err()).flatten()?;
        Some((key.clone(), error))
    };
    table.iter().filter_map(why).min_by_key(|(key, _)| line_of(text, key).unwrap_or(usize::MAX))
}

/// The names of all options of `T`, aliases included, and what each stands for. (Clap's matches know an unknown
/// name only in debug builds.)
fn known_ids<T: Args>() -> BTreeMap<String, String> {
    let command = options_of::<T>();
    let mut known = BTreeMap::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().to_string();
        for alias in argument.get_all_aliases().unwrap_or_default() {
            known.insert(alias.replace('-', "_"), id.clone());
        }
        known.insert(id.clone(), id);
    }
    known
}

/// A command with the options of `T` alone.
fn options_of<T: Args>() -> Command {
    T::augment_args(Command::new("options"))
}

/// Which option has a number that no settings file can hold.
fn too_large(matches: &ArgMatches, known: &BTreeMap<String, String>) -> String {
    let is_too_large = |id: &str| {
        let given = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
        let mut numbers = given.filter_map(|value| value.to_str()?.parse::<u64>().ok());
        numbers.any(|number| i64::try_from(number).is_err())
    };
    let options: Vec<String> = known
        .iter()
        .filter(|(name, id)| name == id && is_too_large(id))
        .map(|(name, _)| format!("--{}", name.replace('_', "-")))
        .collect();
    format!("{}: a number is too large; 2^63 - 1 is the most", options.join(", "))
}

/// `; did you mean ...?` with the key of ours for another tool's, or else the most similar one.
fn nearest(known: &BTreeMap<String, String>, key: &str) -> String {
    let id = &*key.replace('-', "_");
    if matches!(id, "resume" | "resume_from_checkpoint") && known.contains_key("save_steps") {
        return "; give --resume RUN on the command line".into();
    }
    if let Some(ours) = trl_names::short(id).filter(|ours| known.contains_key(*ours)) {
        return format!("; did you mean `{ours}`?");
    }
    let has = |option: &str| known.contains_key(&option.replace('-', "_"));
    if let Some(fix) = trl_names::fix(&id.replace('_', "-"), has) {
        return format!("; {fix}");
    }
    match similar::nearest(id, known.keys().map(String::as_str)) {
        Some(known) => format!("; did you mean `{known}`?"),
        None => "; see --help for the keys there are".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction};
    use serde::Deserialize;
    use std::io::Write;

    #[derive(Debug, Args, Serialize, Deserialize)]
    struct Options {
        #[arg(long, default_value_t = 8)]
        num_generations: usize,
        #[arg(long, default_value_t = 1e-6, alias = "rate")]
        learning_rate: f64,
        #[arg(long)]
        epsilon_high: Option<f64>,
        #[arg(long)]
        objective: Option<String>,
        #[arg(long)]
        #[serde(default)]
        use_peft: bool,
        #[command(flatten)]
        #[serde(flatten)]
        lists: Lists,
    }

    #[derive(Debug, Args, Serialize, Deserialize)]
    struct Lists {
        #[arg(long)]
        #[serde(default, with = "tealight_system::one_or_many")]
        names: Vec<String>,
        #[arg(long, value_delimiter = ',')]
        #[serde(default)]
        counts: Vec<usize>,
    }

    fn run(flags: &[&str], files: &[&str]) -> Result<Options> {
        let mut temp_files = Vec::new();
        let mut arguments = vec!["test".to_owned()];
        for text in files {
            let mut file = tempfile::NamedTempFile::new()?;
            file.write_all(text.as_bytes())?;
            arguments.extend(["--config".into(), file.path().display().to_string()]);
            temp_files.push(file);
        }
        arguments.extend(flags.iter().map(ToString::to_string));
        let config = Arg::new("config").long("config").action(ArgAction::Append);
        let quiet = Arg::new("quiet").long("quiet").action(ArgAction::SetTrue);
        let command = Options::augment_args(Command::new("test")).arg(config).arg(quiet);
        resolve(&command.try_get_matches_from(arguments)?)
    }

    #[test]
    fn flags_beat_files_and_later_files_beat_earlier_ones() {
        let first = "num-generations = 2\nrate = 1\nepsilon_high = 0.5";
        let options = run(&["--num-generations", "4"], &[first, "learning-rate = 2.0"]).unwrap();
        assert_eq!(options.num_generations, 4);
        assert_eq!(options.learning_rate, 2.0);
        assert_eq!(options.epsilon_high, Some(0.5));
        let defaults = run(&[], &[]).unwrap();
        assert_eq!((defaults.num_generations, defaults.epsilon_high), (8, None));
    }

    #[test]
    fn an_adapter_has_a_learning_rate_of_its_own_unless_one_is_given() {
        let rate = |flags: &[&str], files: &[&str]| run(flags, files).unwrap().learning_rate;
        assert_eq!(rate(&[], &[]), 1e-6);
        assert_eq!(rate(&["--use-peft"], &[]), Schedule::ADAPTER_RATE);
        assert_eq!(rate(&[], &["use_peft = true"]), Schedule::ADAPTER_RATE);
        assert_eq!(rate(&["--use-peft", "--learning-rate", "1e-6"], &[]), 1e-6);
        assert_eq!(rate(&["--use-peft"], &["learning-rate = 3e-4"]), 3e-4);
        assert_eq!(rate(&["--use-peft"], &["rate = 3e-4"]), 3e-4);
    }

    #[test]
    fn unknown_keys_and_wrong_kinds_are_refused() {
        for text in ["rate = 1.0\nlearning_rate = 2.0", "num-generations = 2\nnum_generations = 3"]
        {
            let message = run(&[], &[text]).unwrap_err().to_string();
            assert!(message.contains("is given twice"), "{message}");
        }
        let message = run(&[], &["num_generation = 2"]).unwrap_err().to_string();
        assert!(message.contains("did you mean `num_generations`"), "{message}");
        let message = run(&[], &["lr = 0.1"]).unwrap_err().to_string();
        assert!(message.contains("did you mean `learning_rate`"), "{message}");
        let message = run(&[], &["scale_rewards = true"]).unwrap_err().to_string();
        assert!(message.contains(":baseline=group-std"), "{message}");
        for (text, key, kind) in [
            ("num_generations = \"two\"", "num_generations", "two"),
            ("epsilon-high = []\nnum_generations = 4", "epsilon_high", "f64"),
            ("names = 3", "names", "a list of values"),
            ("names = [3]", "names", "a list of values"),
            ("counts = \"1,2\"", "counts", "usize"),
            ("counts = [1, \"two\"]", "counts", "two"),
            ("counts = [-1]", "counts", "-1"),
            ("num_generations = \"two\"\nepsilon_high = \"x\"", "num_generations", "two"),
        ] {
            let message = format!("{:#}", run(&[], &["rate = 2.0", text]).unwrap_err());
            let names_key = message.contains(&format!("the value of `{key}` is of the wrong kind"));
            assert!(names_key && message.contains(kind), "{message}");
            assert!(message.contains(":1: ") && !message.contains('\n'), "{message}");
        }
        let parts = |id| split(&options_of::<Options>(), id, "a, b".into());
        assert_eq!((parts("counts"), parts("names").len()), (vec!["a".into(), "b".into()], 1));
    }

    #[test]
    fn a_config_file_is_read_up_to_a_limit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = || read_text(&file.path().display().to_string());
        file.as_file().set_len(2).unwrap();
        assert_eq!(read().unwrap(), "\0\0");
        file.as_file().set_len(MAX_SETTINGS + 1).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("larger than"), "{error}");
    }
}
