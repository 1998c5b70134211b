//! The command line: parse, resolve, run what `app` does, print. One file a command, a folder a family of them.

mod commands;
mod config_merge;
mod entries;
mod evaluation;
mod help;
mod places;
mod ranges;
mod recipes;
mod reference;
mod table;
mod theory;
mod tools;
mod training;
mod trl_names;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::{ArgMatches, Command};
use tealight_matmul::InstructionSet;

use self::help::Layout;
pub use self::reference::reference;
use crate::app::evaluate::Doubtful;
use tealight_core::ranks::{FirstFailed, Ranks};
use tealight_eval::number::counted;
use tealight_system::machine;
use tealight_system::process::{self, Launched, Process};
use tealight_system::stop::{Interrupted, Stop};
use tealight_system::telemetry::{self, Terminal};

/// Signals that ask a command to stop, and the exit code then.
#[cfg(unix)]
const SIGNALS: [(i32, i32); 3] = [
    (signal_hook::consts::SIGINT, 130),
    (signal_hook::consts::SIGTERM, 143),
    (signal_hook::consts::SIGUSR1, 138),
];
#[cfg(not(unix))]
const SIGNALS: [(i32, i32); 2] =
    [(signal_hook::consts::SIGINT, 130), (signal_hook::consts::SIGTERM, 143)];

/// Those of [`SIGNALS`], and the end of a terminal unless it is ignored, as `nohup` has it.
fn signals() -> impl Iterator<Item = (i32, i32)> {
    #[cfg(unix)]
    let hangup = (!is_hangup_ignored()).then_some((signal_hook::consts::SIGHUP, 129));
    #[cfg(not(unix))]
    let hangup = None;
    SIGNALS.into_iter().chain(hangup)
}

/// Whether whoever started this process had it ignore SIGHUP. Where the system does not say, it is left alone.
#[cfg(unix)]
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask & 1 << (signal_hook::consts::SIGHUP - 1) != 0)
}

/// Stack of the thread that trains: autograd recurses over the graph.
const STACK_BYTES: usize = 256 << 20;

/// Runs the command line and maps the result to an exit code: 0 ok, 1 error, 2 usage, 3 results of which too much
/// could not be judged, 130, 138 and 143 interrupted.
pub fn main() -> ExitCode {
    Terminal::install();
    crate::app::data_file::install_guard();
    if let Err(error) = check_environment() {
        tracing::error!("{error:#}");
        return ExitCode::from(2);
    }
    let arguments: Vec<_> = std::env::args_os().collect();
    let mut command = commands::command_as(Layout::of_arguments(&arguments));
    let arguments = trl_names::kebab_case(&command, arguments);
    let matches = match command.try_get_matches_from_mut(&arguments) {
        Ok(matches) => matches,
        Err(error) => {
            if let Some(hint) = hint(&error, &command, &arguments) {
                tracing::error!("{hint}\n\nFor more information, try '--help'.");
                return ExitCode::from(2);
            }
            error.exit();
        }
    };
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || run(&matches));
    let result = match worker {
        Ok(worker) => match worker.join() {
            Ok(result) => result,
            // The panic has been printed already.
            Err(_) => return ExitCode::from(101),
        },
        Err(error) => Err(error).context(format!(
            "no thread with a stack of {} MB can be started: allow more memory or processes (ulimit -v, ulimit -u)",
            STACK_BYTES >> 20
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(report(&error)),
    }
}

/// A better message than clap's for the command line `arguments`: for another tool's option and one with a dash too
/// many, where clap guesses from the letters, and for a number that is out of range.
fn hint(error: &clap::Error, program: &Command, arguments: &[OsString]) -> Option<String> {
    let command = arguments.get(1).and_then(|name| program.find_subcommand(name));
    trl_names::hint(error, arguments).or_else(|| ranges::explain(error, command?))
}

/// Refuses what the command line and the environment say that no command can work with.
fn check_environment() -> Result<()> {
    /// Most threads a core that may be asked for.
    const MOST_A_CORE: usize = 8;
    InstructionSet::from_environment().map_err(anyhow::Error::msg)?;
    if let Some(argument) = std::env::args_os().find(|argument| argument.to_str().is_none()) {
        bail!(
            "`{}` is not UTF-8: settings are saved as text, so rename the file",
            argument.display()
        );
    }
    if let Ok(threads) = std::env::var("RAYON_NUM_THREADS")
        && let cores = std::thread::available_parallelism().map_or(1, usize::from)
        && threads.parse::<usize>().is_ok_and(|threads| threads > MOST_A_CORE * cores)
    {
        bail!(
            "RAYON_NUM_THREADS={threads} is more than {MOST_A_CORE} for each of this machine's {cores} cores, the limit"
        );
    }
    // A file that outgrows `ulimit -f` is then an error that can be reported, not the end of the process.
    #[cfg(unix)]
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default())
        .context("the signal handler cannot be set up")?;
    Ok(())
}

/// Says what went wrong, where that is to be said, and gives the exit code.
fn report(error: &anyhow::Error) -> u8 {
    if let Some(Interrupted(code)) = error.downcast_ref::<Interrupted>() {
        return *code as u8;
    }
    // Whoever read our output has seen enough, as `head` does.
    let is_unread = error.chain().any(|cause| {
        let cause = cause.downcast_ref::<std::io::Error>();
        cause.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    });
    if is_unread {
        return 0;
    }
    tracing::error!("{}", chain(error));
    error.downcast_ref::<Doubtful>().map_or(1, |_| Doubtful::STATUS)
}

/// Checks a command line without running it: its options, its configuration files, the numbers in them.
pub fn check(arguments: &[String]) -> Result<()> {
    let mut program = commands::command();
    let arguments = arguments.iter().map(Into::into).collect();
    let arguments = trl_names::kebab_case(&program, arguments);
    let matches = program.try_get_matches_from_mut(&arguments).map_err(|error| {
        if let Some(hint) = hint(&error, &program, &arguments) {
            return anyhow!("{hint}");
        }
        let text = error.to_string();
        // Help is no error, and errors get their prefix where they are shown.
        let first = text.lines().next().and_then(|line| line.strip_prefix("error: "));
        anyhow!("{}", first.unwrap_or(&text))
    })?;
    let (name, matches) = matches.subcommand().context("no command")?;
    (commands::entry(name).context("no such command")?.open)(matches).map(drop)
}

/// The error and its causes, without repeating what a cause says already. What a library says in several lines (a TOML
/// parser, an exception of Python) stays whole.
fn chain(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        // Candle appends a backtrace where RUST_BACKTRACE is set.
        let text = cause.to_string();
        let text = text.split("\n   0: ").next().unwrap_or_default().trim_end();
        if !parts.iter().any(|part| part.contains(text)) {
            parts.push(text.to_owned());
        }
    }
    parts.join(": ")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let (name, matches) = matches.subcommand().context("no command")?;
    let entry = commands::entry(name).context("no such command")?;
    let launched = if entry.is_shared() {
        process::launch()?
    } else {
        process::refuse_several(&format!("`{name}` runs in one: start it without a launcher"))?;
        Launched::default()
    };
    let ranks = launched.ranks.clone();
    if ranks.size() > 1 {
        share_machine(&ranks);
    }
    let ended = Arc::<AtomicUsize>::default();
    let stop = if ranks.is_first() { handle_signals()? } else { ignore_signals(&ended)? };
    let process = Process { stop, ranks };
    let result = (entry.open)(matches).and_then(|run| run(&process));
    let ranks = &process.ranks;
    if let (Err(error), true) = (&result, ranks.size() > 1) {
        if !ranks.is_first() {
            leave_it_to_the_first(error, &ended);
            telemetry::be_silent(false);
            tracing::error!("rank {} of {}:", ranks.rank(), ranks.size());
        }
        ranks.abort(report(error));
    }
    launched.finish();
    result
}

/// Waits for the first rank to say what went wrong here too, and to end all; returns where it does not.
fn leave_it_to_the_first(error: &anyhow::Error, ended: &AtomicUsize) {
    /// How long it is given; and how long where it alone can say what went wrong.
    const FIRST_WORD: Duration = Duration::from_secs(3);
    const LAST_WORD: Duration = Duration::from_secs(60);
    let patience = if error.is::<FirstFailed>() { LAST_WORD } else { FIRST_WORD };
    let failed = Instant::now();
    while failed.elapsed() < patience {
        if let code @ 1.. = ended.load(Ordering::SeqCst) {
            signal_hook::low_level::exit(code as i32);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One rank talks to the user; those of one machine take as many of its processors each, unless the launcher or
/// `RAYON_NUM_THREADS` says otherwise.
fn share_machine(ranks: &Ranks) {
    telemetry::be_silent(!ranks.is_first());
    let (_, here) = ranks.local();
    if here > 1 && !machine::is_bound() && std::env::var_os("RAYON_NUM_THREADS").is_none() {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        // It can be set once; a test may have been first.
        let _ = rayon::ThreadPoolBuilder::new().num_threads((all / here).max(1)).build_global();
    }
    let threads = rayon::current_num_threads();
    let threads = counted(threads, "thread");
    tracing::info!("{} ranks, {here} on this machine, {threads} each", ranks.size());
}

/// Of ranks that work together the first is asked to stop, and the others go by what it says: they only note in
/// `ended` that they were signalled.
fn ignore_signals(ended: &Arc<AtomicUsize>) -> Result<Stop> {
    for (signal, code) in signals() {
        signal_hook::flag::register_usize(signal, ended.clone(), code as usize)
            .context("the signal handler cannot be set up")?;
    }
    Ok(Stop::default())
}

/// The message of a run that was asked to stop, before what a second signal loses.
const FINISHING: &str = "stopping after the current step, whose results are saved. Press Ctrl-C again to stop at once and lose";

/// The first SIGINT, SIGTERM or SIGUSR1 (which schedulers can send ahead of their limit) ends a command that has
/// nothing to save, and asks others for a stop after the step; the second ends those too.
#[cfg(unix)]
fn handle_signals() -> Result<Stop> {
    let stop = Stop::default();
    let at_once = stop.ends_at_once();
    at_once.store(true, Ordering::SeqCst);
    let signals: Vec<(i32, i32)> = signals().collect();
    let fail = "the signal handler cannot be set up";
    for (signal, code) in signals.iter().copied() {
        signal_hook::flag::register_conditional_shutdown(signal, code, at_once.clone())
            .context(fail)?;
        signal_hook::flag::register(signal, at_once.clone()).context(fail)?;
        signal_hook::flag::register_usize(signal, stop.cell(), code as usize).context(fail)?;
    }
    let numbers = signals.iter().map(|(signal, _)| *signal);
    let mut seen = signal_hook::iterator::Signals::new(numbers).context(fail)?;
    let cleaner = stop.clone();
    std::thread::spawn(move || {
        let mut seen = seen.forever();
        if seen.next().is_some() {
            // The second signal then ends the process here and not in its handler, which can neither remove a folder
            // nor say what is lost.
            at_once.store(false, Ordering::SeqCst);
            tracing::info!("{FINISHING} {}", cleaner.at_risk());
        }
        // Two that come together run in two threads, and each handler may take its own for the first.
        let second = seen.next();
        if let Some((_, code)) = signals.into_iter().find(|(signal, _)| second == Some(*signal)) {
            cleaner.remove_temporary();
            tracing::warn!("stopped at once; lost: {}", cleaner.at_risk());
            signal_hook::low_level::exit(code);
        }
    });
    Ok(stop)
}

/// The same for Ctrl-C and Ctrl-Break, which are no signals on Windows.
#[cfg(windows)]
fn handle_signals() -> Result<Stop> {
    let stop = Stop::default();
    let (at_once, code, cleaner) = (stop.ends_at_once(), stop.cell(), stop.clone());
    at_once.store(true, Ordering::SeqCst);
    ctrlc::set_handler(move || {
        if at_once.swap(true, Ordering::SeqCst) {
            cleaner.remove_temporary();
            tracing::warn!("stopped at once; lost: {}", cleaner.at_risk());
            std::process::exit(130);
        }
        code.store(130, Ordering::SeqCst);
        tracing::info!("{FINISHING} {}", cleaner.at_risk());
    })
    .context("Ctrl-C cannot be waited for")?;
    Ok(stop)
}
