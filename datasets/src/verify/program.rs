//! `program:COMMAND`: a program of the user's judges. It reads one JSON object a line,
//! `{"id", "prompt", "gold", "completion"}`, and answers each with one, in order:
//! `{"verdict": "correct" | "wrong" | "no_answer", "class": ..., "why": ...}`, the last two optional.
//!
//! A program that takes longer than the timeout, ends, or answers nonsense is started again, and asked
//! once more; what it then still does not judge is not judged at all, never wrong by default. As many
//! copies run as threads ask.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::{Problem, Verdict, Verifier};

/// How long an answer may take unless said otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Has a program judge.
pub struct Program {
    command: String,
    timeout: Duration,
    idle: Mutex<Vec<Worker>>,
}

/// A running copy of the program.
struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<std::io::Result<String>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself; either way nobody is left to tell.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    verdict: String,
    class: Option<String>,
    why: Option<String>,
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
                (timeout, command)
            }
        };
        if command.trim().is_empty() {
            return Err("give the command that judges, as in program:./grade.py".into());
        }
        Ok(Self { command: command.into(), timeout, idle: Mutex::new(Vec::new()) })
    }

    fn start(&self) -> Result<Worker, String> {
        let shell = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
        let mut child = Command::new(shell.0)
            .args([shell.1, &self.command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("`{}` does not start: {error}", self.command))?;
        let stdin = child.stdin.take().ok_or("its standard input is not open")?;
        let stdout = child.stdout.take().ok_or("its standard output is not open")?;
        let (send, lines) = channel();
        // A thread of its own, since a pipe cannot be read with a timeout; it ends with the pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Worker { child, stdin, lines })
    }

    /// One question to an idle copy, or a new one.
    fn ask(&self, question: &str) -> Result<Reply, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => self.start()?,
        };
        let sent = writeln!(worker.stdin, "{question}").and_then(|()| worker.stdin.flush());
        sent.map_err(|error| format!("`{}` does not read: {error}", self.command))?;
        let line = match worker.lines.recv_timeout(self.timeout) {
            Ok(line) => line.map_err(|error| format!("`{}`: {error}", self.command))?,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = self.timeout.as_secs_f64();
                return Err(format!("`{}` took longer than {seconds} s", self.command));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(format!("`{}` ended without an answer", self.command));
            }
        };
        let reply = serde_json::from_str(&line).map_err(|error| {
            format!("`{}` answered `{}`: {error}", self.command, super::short(&line))
        })?;
        // Only a copy that answers in order is asked again.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        Ok(reply)
    }
}

impl Verifier for Program {
    fn name(&self) -> &'static str {
        "program"
    }

    fn verify(&self, problem: &Problem, completion: &str) -> Verdict {
        let question = json!({
            "id": problem.id,
            "prompt": problem.prompt,
            "gold": problem.answer,
            "completion": completion,
        });
        let question = question.to_string();
        match self.ask(&question).or_else(|_| self.ask(&question)) {
            Err(why) => Verdict::Unjudged { why },
            Ok(reply) => match reply.verdict.as_str() {
                "correct" => {
                    let class = reply.class.unwrap_or_else(|| super::fingerprint(completion));
                    Verdict::correct(&class, &problem.answer)
                }
                "wrong" => Verdict::Wrong { why: reply.why, answer: reply.class },
                "no_answer" => Verdict::NoAnswer,
                other => Verdict::Unjudged {
                    why: format!(
                        "`{}` said `{other}`, which is not one of correct, wrong, no_answer",
                        self.command
                    ),
                },
            },
        }
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

    const GRADER: &str = r#"while read -r line; do case "$line" in
        *boom*) exit 3 ;;
        *sleep*) sleep 30 ;;
        *'"completion":"7"'*) echo '{"verdict":"correct","class":"seven"}' ;;
        *) echo '{"verdict":"wrong","why":"not 7"}' ;; esac; done"#;

    #[test]
    fn a_program_judges_and_its_failures_are_not_zeros() {
        let program = Program::new(&format!("timeout=1:{GRADER}")).unwrap();
        assert_eq!(program.verify(&problem(), "7"), Verdict::correct("seven", "7"));
        assert_eq!(program.verify(&problem(), "8"), Verdict::because("not 7".into()));
        for (completion, why) in [("boom", "ended"), ("sleep", "longer than 1 s")] {
            match program.verify(&problem(), completion) {
                Verdict::Unjudged { why: said } => assert!(said.contains(why), "{said}"),
                other => panic!("{completion}: {other:?}"),
            }
        }
        assert!(program.verify(&problem(), "7").is_correct(), "it is started again");
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
        assert!(Program::new(" ").is_err() && Program::new("timeout=x:cat").is_err());
        let cat = Program::new("cat").unwrap();
        assert!(matches!(cat.verify(&problem(), "7"), Verdict::Unjudged { .. }));
    }
}
