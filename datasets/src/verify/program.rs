//! `program:COMMAND`: a program of the user's judges. It reads one JSON object a line,
//! `{"request", "id", "prompt", "messages", "gold", "completion", "columns"}`, and answers each with one:
//! `{"request": ..., "verdict": "correct" | "wrong" | "no_answer" | "unjudged", "class": ..., "why": ...}`, the last two
//! optional.
//!
//! `prompt` is the prompt as plain text and `messages` the same prompt as a conversation; `gold` is the gold answer
//! alone, without the worked solution that it may stand in; `columns` is the row of the dataset.
//!
//! A program that grades answers with `"reward"`, a number between 0 and 1, in place of the verdict, which the
//! threshold then decides, or beside it.
//!
//! `request` is a number that the answer repeats: a line too many or too few is noticed, and never shifts the
//! verdicts behind it. A program that takes longer than the timeout, ends, or answers nonsense is started again, and
//! asked once more; what it then still does not judge is not judged at all, never wrong by default. As many copies
//! run as threads ask. Each is a process group of its own, which ends with us however we end.

mod functions;
mod trial;

use std::io::{BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{CompletionText, Grade, Grading, Problem, Verdict, Verifier};
use tealight_core::lines::{BadLine, Line, Lines};
use tealight_core::{Message, Prompt};

/// Longest timeout: ten days.
const MAX_TIMEOUT: Duration = Duration::from_secs(864_000);
/// How long an answer may take unless said otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// Begins a script: a process beside its command that ends the whole group when this process, `$1`, is gone.
#[cfg(unix)]
const GROUP: &str = r#"(while kill -0 "$1" 2>&-; do sleep 1; done; kill -9 0) < /dev/null > /dev/null 2>&1 &
"#;

/// A verifier that runs a program or a Python function.
pub struct Program {
    name: &'static str,
    /// The program's name in messages.
    command: String,
    launch: Launch,
    timeout: Duration,
    /// The least reward of a correct completion, where it is not 1.
    threshold: Option<f64>,
    /// The file that judges, with its hash, or nothing: a run that is resumed has the rewards that it began with.
    source: String,
    requests: AtomicU64,
    idle: Mutex<Vec<Worker>>,
    /// What a function of a group reads.
    reads: OnceLock<Vec<String>>,
    /// The first answer that was none.
    complaint: OnceLock<String>,
}

/// How a copy is started.
enum Launch {
    Shell,
    /// As an interpreter with arguments, which says with its first line whether the function could be loaded, for as
    /// long as it may take.
    Interpreter(Vec<String>, Duration),
}

/// A running copy of the program. A thread writes to it and one reads from it, since a pipe has no timeout; both
/// end with it.
struct Worker {
    child: Child,
    questions: Sender<String>,
    lines: Receiver<Result<Line, BadLine>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself; its children may not have. Either way nobody is left to tell.
        #[cfg(unix)]
        let _ = rustix::process::kill_process_group(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::KILL,
        );
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    request: Option<u64>,
    verdict: Option<String>,
    reward: Option<f64>,
    class: Option<String>,
    why: Option<String>,
    /// Whether `why` is an exception, or a result that is none: a fault of the function, not of a completion.
    #[serde(default)]
    raised: bool,
    /// The names that a function of a group reads: of the first line.
    reads: Option<Vec<String>>,
    advantages: Option<Vec<f64>>,
}

impl Program {
    /// Reads `COMMAND` or `timeout=SECONDS:COMMAND`; the command is run by the shell.
    ///
    /// # Errors
    /// No command, or a timeout that is none.
    pub fn new(argument: &str) -> Result<Self, String> {
        let (timeout, command) = limited(argument)?;
        if command.trim().is_empty() {
            return Err("give the command that judges, as in program:./grade.py".into());
        }
        Ok(Self::with_launch("program", command.into(), Launch::Shell, timeout))
    }

    /// An interpreter with `arguments` that loads what judges within `loading`; `shown` is what messages call it.
    pub(super) fn interpreter(
        name: &'static str,
        shown: &str,
        arguments: Vec<String>,
        (timeout, loading): (Duration, Duration),
        source: String,
    ) -> Result<Self, String> {
        let launch = Launch::Interpreter(arguments, loading);
        let program = Self::with_launch(name, shown.into(), launch, timeout);
        let program = Self { source, ..program };
        let first = program.start()?;
        program.idle.lock().unwrap_or_else(PoisonError::into_inner).push(first);
        Ok(program)
    }

    fn with_launch(name: &'static str, command: String, launch: Launch, timeout: Duration) -> Self {
        let (threshold, source, requests, idle, reads, complaint) = Default::default();
        Self { name, command, launch, timeout, threshold, source, requests, idle, reads, complaint }
    }

    /// The same with the least reward of a correct completion.
    #[must_use]
    pub fn from_reward(self, threshold: Option<f64>) -> Self {
        Self { threshold, ..self }
    }

    fn start(&self) -> Result<Worker, String> {
        let mut child = self
            .process()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("`{}` does not start: {error}", self.command))?;
        let mut stdin = child.stdin.take().ok_or("its standard input is not open")?;
        let stdout = child.stdout.take().ok_or("its standard output is not open")?;
        let (questions, asked) = channel::<String>();
        std::thread::spawn(move || {
            for question in asked {
                if writeln!(stdin, "{question}").and_then(|()| stdin.flush()).is_err() {
                    break;
                }
            }
        });
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in Lines::limited(BufReader::new(stdout), MAX_ANSWER) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let worker = Worker { child, questions, lines };
        let Launch::Interpreter(_, loading) = &self.launch else { return Ok(worker) };
        let loaded = worker.lines.recv_timeout(*loading).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                format!("`{}` did not load within {} s", self.command, loading.as_secs())
            }
            RecvTimeoutError::Disconnected => format!("`{}` ended while it loaded", self.command),
        })?;
        let loaded = loaded.map_err(|error| format!("`{}`: {}", self.command, error.why))?;
        match serde_json::from_slice::<Reply>(&loaded.bytes) {
            Ok(reply) if reply.verdict.as_deref() == Some("correct") => {
                self.reads.get_or_init(|| reply.reads.unwrap_or_default());
                Ok(worker)
            }
            Ok(reply) => Err(format!("`{}`: {}", self.command, reply.why.unwrap_or_default())),
            Err(error) => Err(format!("`{}` began with no answer: {error}", self.command)),
        }
    }

    #[cfg(unix)]
    fn process(&self) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new("sh");
        let pid = std::process::id().to_string();
        match &self.launch {
            Launch::Shell => command.args([
                "-c",
                &format!("{GROUP}exec sh -c \"$2\""),
                "tealight",
                &pid,
                &self.command,
            ]),
            Launch::Interpreter(arguments, _) => {
                let run = format!("{GROUP}shift; exec \"$@\"");
                tealight_core::interpreter::guard(&mut command);
                command.args(["-c", &run, "tealight", &pid]).args(arguments)
            }
        };
        command.process_group(0);
        command
    }

    #[cfg(not(unix))]
    fn process(&self) -> Command {
        if let Launch::Interpreter(arguments, _) = &self.launch {
            let mut command = Command::new(&arguments[0]);
            command.args(&arguments[1..]);
            tealight_core::interpreter::guard(&mut command);
            return command;
        }
        let mut command = Command::new("cmd");
        command.args(["/C", &self.command]);
        command
    }

    /// The question about a completion, to an idle copy or a new one.
    fn ask(&self, problem: &Problem, completion: &str) -> Result<Reply, String> {
        self.answer(json!({
            "request": null,
            "id": problem.id,
            "prompt": problem.prompt.plain().trim_end(),
            "messages": messages(&problem.prompt),
            "gold": super::math::gold(&problem.answer),
            "completion": completion,
            "columns": problem.columns.as_deref(),
        }))
    }

    /// The answer to a question, whose `request` gets a number.
    fn answer(&self, mut question: Value) -> Result<Reply, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let worker = match idle {
            Some(worker) => worker,
            None => self.start()?,
        };
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        question["request"] = request.into();
        let ended = || format!("`{}` ended without an answer", self.command);
        worker.questions.send(question.to_string()).map_err(|_| ended())?;
        let deadline = Instant::now() + self.timeout;
        let line = match worker.lines.recv_timeout(deadline - Instant::now()) {
            Ok(line) => line.map_err(|error| format!("`{}`: {}", self.command, error.why))?,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = self.timeout.as_secs_f64();
                return Err(format!("`{}` took longer than {seconds} s", self.command));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(ended()),
        };
        let text = String::from_utf8_lossy(&line.bytes);
        let reply: Reply = serde_json::from_slice(&line.bytes).map_err(|error| {
            self.complain(format!("`{}` answered `{}`: {error}", self.command, super::short(&text)))
        })?;
        if reply.request != Some(request) {
            return Err(self.complain(format!(
                "`{}` answered `{}`, which repeats no `\"request\":{request}`: every answer is one line with the \
                 number of its request",
                self.command,
                super::short(&text)
            )));
        }
        if reply.raised {
            // The same words as of the completion that stays unjudged, which is named with its problem.
            self.complain(format!(
                "`{}`: {}",
                self.command,
                reply.why.as_deref().unwrap_or_default()
            ));
        }
        // Only a copy that answers in order is asked again.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        Ok(reply)
    }

    /// The grade of a completion by the program's reply.
    fn granted(&self, problem: &Problem, completion: &str, reply: Reply) -> Grade {
        let unjudged = |what: String| {
            Grade::from_verdict(Verdict::unjudged(format!("`{}` {what}", self.command)))
        };
        // Nothing that is not between 0 and 1 is trained on, infinities and NaN among it.
        if let Some(reward) = reply.reward.filter(|reward| !(0.0..=1.0).contains(reward)) {
            return unjudged(format!("gave the reward {reward}, which is not between 0 and 1"));
        }
        let verdict = match (reply.verdict.as_deref(), reply.reward) {
            (Some(verdict), _) => verdict,
            (None, Some(reward)) if is_reached(reward, self.threshold) => "correct",
            (None, Some(_)) => "wrong",
            (None, None) => return unjudged("gave neither a verdict nor a reward".into()),
        };
        let verdict = match verdict {
            "correct" => {
                let class = reply.class.unwrap_or_else(|| super::text_class(completion));
                Verdict::correct(&class, &problem.answer)
            }
            "wrong" => Verdict::Wrong { why: reply.why, answer: reply.class },
            "no_answer" => Verdict::NoAnswer,
            "unjudged" => {
                let why = reply.why.unwrap_or_else(|| "it does not say why".into());
                let why = format!("`{}`: {why}", self.command);
                return Grade::from_verdict(Verdict::unjudged(why));
            }
            other => {
                return unjudged(format!(
                    "said `{}`, which is not one of correct, wrong, no_answer, unjudged",
                    super::short(other)
                ));
            }
        };
        let grade = Grade::from_verdict(verdict);
        Grade { reward: reply.reward.unwrap_or(grade.reward), ..grade }
    }

    /// Keeps the first complaint.
    fn complain(&self, what: String) -> String {
        self.complaint.get_or_init(|| what.clone());
        what
    }
}

impl Verifier for Program {
    fn name(&self) -> &'static str {
        self.name
    }

    // It is the user's own, and may judge how the model thinks.
    fn reads_thoughts(&self) -> bool {
        true
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        self.grade(problem, CompletionText { full: completion, answer: Some(completion) }).verdict
    }

    fn grade(&self, problem: &Problem, completion: CompletionText<'_>) -> Grade {
        match self.ask(problem, completion.full).or_else(|_| self.ask(problem, completion.full)) {
            Err(why) => Grade::from_verdict(Verdict::unjudged(why)),
            Ok(reply) => self.granted(problem, completion.full, reply),
        }
    }

    fn grading(&self) -> Grading {
        let threshold = self.threshold.map_or_else(String::new, |threshold| threshold.to_string());
        Grading {
            is_graded: true,
            threshold: self.threshold,
            identity: format!("{threshold} {}", self.source).trim().to_owned(),
            ..Grading::default()
        }
    }

    fn complaint(&self) -> Option<String> {
        self.complaint.get().cloned()
    }

    fn probe(&self, problem: &Problem) -> Result<Option<String>, String> {
        self.trial(problem)
    }
}

/// A prompt as messages; a text is one of the user's.
fn messages(prompt: &Prompt) -> Vec<Message> {
    match prompt {
        Prompt::Text(text) => vec![Message::user(text.trim_end())],
        Prompt::Chat(chat) => chat.messages.clone(),
    }
}

/// Whether a reward is that of a correct completion: at least the threshold, or 1, up to the rounding of a sum.
pub(crate) fn is_reached(reward: f64, threshold: Option<f64>) -> bool {
    const ROUNDING: f64 = 1e-9;
    reward >= threshold.unwrap_or(1.0) - ROUNDING
}

/// Reads `timeout=SECONDS:REST`, or the rest alone.
pub(super) fn limited(argument: &str) -> Result<(Duration, &str), String> {
    let Some(rest) = argument.strip_prefix("timeout=") else { return Ok((TIMEOUT, argument)) };
    let (seconds, rest) =
        rest.split_once(':').ok_or("a timeout is followed by a colon and the command")?;
    let seconds: f64 =
        seconds.parse().map_err(|_| format!("`{seconds}` is no number of seconds"))?;
    let timeout = Duration::try_from_secs_f64(seconds)
        .map_err(|error| format!("timeout {seconds}: {error}"))?;
    if timeout > MAX_TIMEOUT {
        return Err(format!("timeout {seconds}: {} seconds are the most", MAX_TIMEOUT.as_secs()));
    }
    Ok((timeout, rest))
}
