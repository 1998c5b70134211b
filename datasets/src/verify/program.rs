//! `program:COMMAND`: a program of the user's judges. It reads one JSON object a line,
//! `{"request", "id", "prompt", "gold", "completion"}`, and answers each with one:
//! `{"request": ..., "verdict": "correct" | "wrong" | "no_answer", "class": ..., "why": ..., "features": [...]}`, the last
//! three optional. Features count of a correct completion alone.
//!
//! `request` is a number that the answer repeats: a line too many or too few is noticed, and never shifts the
//! verdicts behind it. A program that takes longer than the timeout, ends, or answers nonsense is started again, and
//! asked once more; what it then still does not judge is not judged at all, never wrong by default. As many copies
//! run as threads ask. Each is a process group of its own, which ends with us however we end.

use std::io::{BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use crate::lines::{BadLine, Line, Lines};
use crate::{Features, Problem, Verdict, Verifier};

/// Longest timeout: ten days.
const MAX_TIMEOUT: Duration = Duration::from_secs(864_000);

/// How long an answer may take unless said otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// Runs the command, `$2`, beside one that ends the whole group when this process, `$1`, is gone.
#[cfg(unix)]
const GROUP: &str = r#"(while kill -0 "$1" 2>&-; do sleep 1; done; kill -9 0) < /dev/null > /dev/null 2>&1 &
exec sh -c "$2""#;

/// Has a program judge.
pub struct Program {
    command: String,
    timeout: Duration,
    requests: AtomicU64,
    idle: Mutex<Vec<Worker>>,
    /// The first answer that was none.
    complaint: OnceLock<String>,
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
    verdict: String,
    class: Option<String>,
    why: Option<String>,
    #[serde(default)]
    features: Features,
}

impl Program {
    /// Reads `COMMAND` or `timeout=SECONDS:COMMAND`; the command is run by the shell.
    ///
    /// # Errors
    /// No command, or a timeout that is none.
    pub fn new(argument: &str) -> Result<Self, String> {
        let (timeout, command) = match argument.strip_prefix("timeout=") {
            None => (TIMEOUT, argument),
            Some(rest) => {
                let (seconds, command) = rest
                    .split_once(':')
                    .ok_or("a timeout is followed by a colon and the command")?;
                let seconds: f64 =
                    seconds.parse().map_err(|_| format!("`{seconds}` is no number of seconds"))?;
                let timeout = Duration::try_from_secs_f64(seconds)
                    .map_err(|error| format!("timeout {seconds}: {error}"))?;
                if timeout > MAX_TIMEOUT {
                    return Err(format!(
                        "timeout {seconds}: {} seconds are the most",
                        MAX_TIMEOUT.as_secs()
                    ));
                }
                (timeout, command)
            }
        };
        if command.trim().is_empty() {
            return Err("give the command that judges, as in program:./grade.py".into());
        }
        Ok(Self {
            command: command.into(),
            timeout,
            requests: AtomicU64::new(0),
            idle: Mutex::default(),
            complaint: OnceLock::new(),
        })
    }

    fn start(&self) -> Result<Worker, String> {
        let mut child = self
            .shell()
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
        Ok(Worker { child, questions, lines })
    }

    #[cfg(unix)]
    fn shell(&self) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new("sh");
        let own = std::process::id().to_string();
        command.args(["-c", GROUP, "tealight", &own, &self.command]).process_group(0);
        command
    }

    #[cfg(not(unix))]
    fn shell(&self) -> Command {
        let mut command = Command::new("cmd");
        command.args(["/C", &self.command]);
        command
    }

    /// One question to an idle copy, or a new one.
    fn ask(&self, problem: &Problem, completion: &str) -> Result<Reply, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let worker = match idle {
            Some(worker) => worker,
            None => self.start()?,
        };
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let question = json!({
            "request": request,
            "id": problem.id,
            "prompt": problem.prompt,
            "gold": problem.answer,
            "completion": completion,
        });
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
        let said = String::from_utf8_lossy(&line.bytes);
        let reply: Reply = serde_json::from_slice(&line.bytes).map_err(|error| {
            self.complain(format!("`{}` answered `{}`: {error}", self.command, super::short(&said)))
        })?;
        if reply.request != Some(request) {
            return Err(self.complain(format!(
                "`{}` answered `{}`, which repeats no `\"request\":{request}`: every answer is one line with the \
                 number of its request",
                self.command,
                super::short(&said)
            )));
        }
        // Only a copy that answers in order is asked again.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        Ok(reply)
    }

    /// Keeps the first complaint.
    fn complain(&self, what: String) -> String {
        self.complaint.get_or_init(|| what.clone());
        what
    }
}

impl Verifier for Program {
    fn name(&self) -> &'static str {
        "program"
    }

    // It is the user's own, and may judge how the model thinks.
    fn reads_thoughts(&self) -> bool {
        true
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        match self.ask(problem, completion).or_else(|_| self.ask(problem, completion)) {
            Err(why) => Verdict::unjudged(why),
            Ok(reply) => match reply.verdict.as_str() {
                "correct" => {
                    let class = reply.class.unwrap_or_else(|| super::fingerprint(completion));
                    Verdict::with_features(&class, &problem.answer, reply.features)
                }
                "wrong" => Verdict::Wrong { why: reply.why, answer: reply.class },
                "no_answer" => Verdict::NoAnswer,
                other => Verdict::unjudged(format!(
                    "`{}` said `{other}`, which is not one of correct, wrong, no_answer",
                    self.command
                )),
            },
        }
    }

    fn complaint(&self) -> Option<String> {
        self.complaint.get().cloned()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::Prompt;

    fn problem() -> Problem {
        Problem {
            id: "p".into(),
            prompt: Prompt::question("?"),
            answer: "7".into(),
            solution: None,
            context: None,
            total: None,
        }
    }

    const GRADER: &str = r#"while read -r line; do n=${line#*\"request\":}; n=${n%%,*}; case "$line" in
        *boom*) exit 3 ;;
        *sleep*) sleep 30 ;;
        *twice*) for i in 1 2; do echo "{\"request\":$n,\"verdict\":\"wrong\"}"; done ;;
        *mute*) echo '{"verdict":"correct"}' ;;
        *long*) head -c 2000000 /dev/zero; echo ;;
        *many*) f=$(printf '"x",%.0s' $(seq 70)); echo "{\"request\":$n,\"verdict\":\"correct\",\"features\":[${f%,}]}" ;;
        *made*) echo "{\"request\":$n,\"verdict\":\"correct\",\"class\":\"c\",\"features\":[\"tactic:simp\",\"tactic:ring\"]}" ;;
        *'"completion":"7"'*) echo "{\"request\":$n,\"verdict\":\"correct\",\"class\":\"seven\"}" ;;
        *) echo "{\"request\":$n,\"verdict\":\"wrong\",\"why\":\"not 7\"}" ;; esac; done"#;

    #[test]
    fn a_program_judges_and_its_failures_are_not_zeros() {
        let program = Program::new(&format!("timeout=1:{GRADER}")).unwrap();
        assert_eq!(program.verify(&problem(), "7"), Verdict::correct("seven", "7"));
        assert_eq!(program.verify(&problem(), "8"), Verdict::because("not 7".into()));
        assert_eq!(program.complaint(), None);
        for (completion, why) in [
            ("boom", "ended"),
            ("sleep", "longer than 1 s"),
            ("mute", "repeats no `\"request\":"),
            ("long", "more than"),
        ] {
            match program.verify(&problem(), completion) {
                Verdict::Unjudged { why: said, .. } => assert!(said.contains(why), "{said}"),
                other => panic!("{completion}: {other:?}"),
            }
        }
        assert!(program.verify(&problem(), "7").is_correct(), "it is started again");
    }

    #[test]
    fn a_program_lists_features_and_not_too_many() {
        let program = Program::new(GRADER).unwrap();
        let features = Features::new(vec!["tactic:ring".into(), "tactic:simp".into()]).unwrap();
        let made = Verdict::with_features("c", "7", features);
        assert_eq!(program.verify(&problem(), "made"), made);
        match program.verify(&problem(), "many") {
            Verdict::Unjudged { why, .. } => assert!(why.contains("at most 64"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert!(program.complaint().unwrap().contains("70 features"));
    }

    #[test]
    fn a_line_too_many_shifts_no_verdict_and_is_said() {
        let program = Program::new(GRADER).unwrap();
        for _ in 0..5 {
            assert!(!program.verify(&problem(), "twice").is_correct());
            assert!(program.verify(&problem(), "7").is_correct());
            assert!(!program.verify(&problem(), "8").is_correct());
        }
        assert!(program.complaint().unwrap().contains("repeats no"));
    }

    #[test]
    fn a_program_that_does_not_read_is_no_reason_to_wait_for_ever() {
        let program = Program::new("timeout=1:sleep 30").unwrap();
        let long = "x".repeat(1 << 20);
        assert!(matches!(program.verify(&problem(), &long), Verdict::Unjudged { .. }));
    }

    /// Whether a process with `mark` among its arguments runs.
    fn runs(mark: &str) -> bool {
        // Where there is /proc there need not be `ps`.
        let Ok(processes) = std::fs::read_dir("/proc") else {
            let list = Command::new("ps").args(["-A", "-o", "args"]).output().unwrap();
            return String::from_utf8_lossy(&list.stdout).contains(mark);
        };
        let lines =
            processes.flatten().flat_map(|entry| std::fs::read(entry.path().join("cmdline")));
        let words = |line: Vec<u8>| String::from_utf8_lossy(&line).replace('\0', " ");
        lines.map(words).any(|line| line.contains(mark))
    }

    #[test]
    fn a_program_that_timed_out_is_gone_with_its_children() {
        let mark = format!("{}", 86_000 + std::process::id() % 1000);
        // The command itself, a child of it in the background, and a busy one.
        let command = format!("timeout=0.2:sleep {mark}.5 & while :; do sleep {mark}.25; done");
        let program = Program::new(&command).unwrap();
        assert!(matches!(program.verify(&problem(), "7"), Verdict::Unjudged { .. }));
        drop(program);
        std::thread::sleep(Duration::from_millis(300));
        assert!(!runs(&format!("sleep {mark}")), "something goes on");
    }

    #[test]
    fn many_threads_get_their_own_answers() {
        let program = Program::new(GRADER).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let program = &program;
                scope.spawn(move || {
                    for round in 0..50 {
                        let right = (thread + round) % 2 == 0;
                        let answer = if right { "7" } else { "8" };
                        assert_eq!(program.verify(&problem(), answer).is_correct(), right);
                    }
                });
            }
        });
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Program::new("timeout=1e19:cat").is_err());
        assert!(Program::new(" ").is_err() && Program::new("timeout=x:cat").is_err());
        let cat = Program::new("cat").unwrap();
        assert!(matches!(cat.verify(&problem(), "7"), Verdict::Unjudged { .. }));
    }
}
