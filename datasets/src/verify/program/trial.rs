//! The trial call: a gold answer as the completion, before anything is sampled -> whether the program can judge, and
//! what to look at where the gold answer is incorrect to it.

use std::process::Command;

use super::{Launch, Program};
use crate::verify::{math, short};
use crate::{Problem, Verdict};

impl Program {
    /// Has the gold answer judged as a completion, which a function must be able to judge in some way; a warning where
    /// it is incorrect.
    pub(super) fn trial(&self, problem: &Problem) -> Result<Option<String>, String> {
        let gold = math::gold(&problem.answer);
        let reply = match (self.ask(problem, &gold), &self.launch) {
            (Ok(reply), _) => reply,
            (Err(_), Launch::Shell) => return self.lacking().map_or(Ok(None), Err),
            (Err(_), Launch::Interpreter(..)) => self.ask(problem, &gold).map_err(|why| {
                let mend = match why.contains("took longer") {
                    true => format!("; {}:timeout=SECONDS:... gives it more time", self.name),
                    false => String::new(),
                };
                let id = short(&problem.id);
                format!("problem `{id}`, with its gold answer as the completion: {why}{mend}")
            })?,
        };
        let (id, shown) = (short(&problem.id), short(&gold));
        if reply.raised {
            let why = reply.why.unwrap_or_default();
            let advice = match why.contains("the function needs `") {
                true => "",
                false => "; a function returns None for what it cannot judge",
            };
            return Err(format!(
                "`{}` cannot judge the problem `{id}` with its gold answer `{shown}` as the completion: {why}{advice}",
                self.command
            ));
        }
        let grade = self.granted(problem, &gold, reply);
        let verdict = match grade.verdict {
            // A reward below the threshold is a judgement all the same.
            _ if grade.reward > 0.0 => return Ok(None),
            Verdict::Wrong { why: Some(why), .. } => format!("incorrect ({})", short(&why)),
            Verdict::Wrong { .. } => "incorrect".to_owned(),
            Verdict::NoAnswer => "no answer".to_owned(),
            _ => return Ok(None),
        };
        Ok(Some(format!(
            "`{}` judges the gold answer `{shown}` of the problem `{id}`, as the completion, {verdict}: check it, unless \
             completions must hold more than the answer, such as a box",
            self.command
        )))
    }

    /// Why a command of the shell cannot start, where its first word names no program.
    fn lacking(&self) -> Option<String> {
        let word = self.command.split_whitespace().next()?;
        let is_plain = !word.contains([
            '=', '"', '\'', '$', '(', '\\', '{', '~', ';', '|', '&', '<', '>', '`', '*', '?', '[',
            '#',
        ]);
        let find = Command::new("sh").args(["-c", "command -v -- \"$1\"", "sh", word]).output();
        let is_lacking = is_plain && find.is_ok_and(|output| !output.status.success());
        is_lacking.then(|| format!("`{}`: the shell finds no program `{word}`", self.command))
    }
}
