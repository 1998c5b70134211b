//! How problems are put to a model: an instruction, a system prompt, a template over the row, worked examples.
//!
//! Readers give the bare question; [`Prompting::apply`] makes of it what the model is asked.

use std::sync::Arc;

use minijinja::{Environment, UndefinedBehavior};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Map, Value};

use crate::{DataError, Problem, Result};
use tealight_core::{Chat, Message, Prompt};

/// The instruction to box the answer: the math verifier's, unless another is named.
pub const BOXED: &str = "Please reason step by step, and put your final answer within \\boxed{}.";
/// The same where the answer is one of several choices.
pub const BOXED_CHOICE: &str =
    "Please reason step by step, and put the letter of your choice within \\boxed{}.";
/// Steps of a template for one row.
const FUEL: u64 = 1_000_000;

/// How problems are put to a model; the default is the bare question.
#[derive(Debug, Clone, Default)]
pub struct Prompting {
    /// The text after the question; `None` leaves it to the verifier, an empty text is none.
    pub instruction: Option<String>,
    /// A system message before everything else.
    pub system_prompt: Option<String>,
    /// Writes the question from a row's columns.
    pub template: Option<Template>,
    /// Worked examples, before every problem: as turns of a chat, or as text before a text.
    pub examples: Vec<Problem>,
    /// The example in place of one that is the problem itself.
    pub spare: Option<Problem>,
}

/// A template of minijinja's over the columns of a row.
#[derive(Clone)]
pub struct Template(Arc<Environment<'static>>);

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Template")
    }
}

impl Template {
    /// Reads a template; `name` is what messages call it.
    pub fn new(name: &str, text: &str) -> Result<Self> {
        let mut environment = Environment::new();
        // A column that a row has not is a mistake, not nothing.
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        environment.add_template_owned("prompt", text.to_owned()).map_err(|error| {
            DataError::File { path: name.into(), what: format!("not a template: {error}") }
        })?;
        Ok(Self(Arc::new(environment)))
    }

    /// The text for a row.
    ///
    /// # Errors
    /// A column that is not there, anything else that the template cannot do.
    pub fn render(&self, columns: &Map<String, Value>) -> std::result::Result<String, String> {
        let template = self.0.get_template("prompt").map_err(|error| error.to_string())?;
        template.render(minijinja::value::Serde(columns)).map_err(|error| {
            let there: Vec<&str> = columns.keys().map(String::as_str).collect();
            format!("the prompt template failed: {error}; the columns are {}", there.join(", "))
        })
    }
}

impl Prompting {
    /// The prompt of a bare question; `usual` is the instruction where none was chosen.
    pub fn apply(&self, problem: &Problem, usual: Option<&str>) -> Prompt {
        let question = self.question(&problem.prompt, usual);
        let examples: Vec<(Prompt, Message)> = self
            .examples
            .iter()
            .chain(&self.spare)
            .filter(|example| example.prompt != problem.prompt)
            .take(self.examples.len())
            .filter_map(|example| {
                let solution = Message::new("assistant", example.solution.as_deref()?);
                let reply = example.reply.clone().unwrap_or(solution);
                Some((self.question(&example.prompt, usual), reply))
            })
            .collect();
        if let (Prompt::Text(text), None) = (&question, &self.system_prompt) {
            let before = examples
                .iter()
                .map(|(prompt, reply)| format!("{}{}\n", prompt.plain(), reply.content));
            return Prompt::Text(before.collect::<String>() + text);
        }
        let system = self.system_prompt.iter().map(|text| Message::new("system", text.as_str()));
        let mut messages: Vec<Message> = system.collect();
        let turns = |prompt: Prompt| match prompt {
            Prompt::Text(text) => vec![Message::user(text)],
            Prompt::Chat(chat) => chat.messages,
        };
        let variables = match &question {
            Prompt::Chat(chat) => chat.variables.clone(),
            Prompt::Text(_) => Map::new(),
        };
        for (prompt, answer) in examples {
            messages.extend(turns(prompt));
            messages.push(answer);
        }
        messages.extend(turns(question));
        Prompt::Chat(Chat { messages, variables })
    }

    fn question(&self, prompt: &Prompt, usual: Option<&str>) -> Prompt {
        let instruction = self.instruction.as_deref().or(usual).unwrap_or_default();
        let mut prompt = prompt.clone();
        if instruction.is_empty() {
            return prompt;
        }
        match &mut prompt {
            Prompt::Text(text) => *text = format!("{text}\n{instruction}"),
            Prompt::Chat(messages) => {
                if let Some(last) = messages.iter_mut().rfind(|message| message.role == "user") {
                    last.content = format!("{}\n{instruction}", last.content);
                }
            }
        }
        prompt
    }

    /// The text beside the question, in a line for the user; `None` where there is none.
    pub fn described(&self, usual: Option<&str>) -> Option<String> {
        let mut parts = Vec::new();
        if self.template.is_some() {
            parts.push("a template of your own".to_owned());
        }
        if let Some(text) = self.instruction.as_deref().or(usual).filter(|text| !text.is_empty()) {
            parts.push(format!("instruction `{text}`"));
        }
        if let Some(text) = &self.system_prompt {
            parts.push(format!("system prompt `{text}`"));
        }
        if !self.examples.is_empty() {
            let ids: Vec<&str> = self.examples.iter().map(|example| &*example.id).collect();
            let noun = if ids.len() == 1 { "example" } else { "examples" };
            parts.push(format!("{} worked {noun} ({})", ids.len(), ids.join(", ")));
        }
        (!parts.is_empty()).then(|| format!("prompts: {}", parts.join("; ")))
    }
}

/// `count` solved problems, a random choice that is the same in every call, and one more where there is one.
///
/// # Errors
/// There are not so many with a solution.
pub fn choose(problems: &[Problem], count: usize) -> std::result::Result<Vec<Problem>, String> {
    let mut solved: Vec<&Problem> =
        problems.iter().filter(|problem| problem.solution.is_some()).collect();
    if solved.len() < count {
        return Err(format!(
            "--few-shot {count} needs as many problems with a solution; there are {}",
            solved.len()
        ));
    }
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let most = solved.len().min(count + 1);
    for i in 0..most {
        let left = (solved.len() - i) as u64;
        solved.swap(i, i + (rng.next_u64() % left) as usize);
    }
    Ok(solved.into_iter().take(most).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(prompt: Prompt, solution: &str) -> Problem {
        let solution = Some(solution.to_owned());
        let (id, answer) = (prompt.plain(), String::new());
        Problem { solution, ..Problem::new(id, prompt, answer) }
    }

    fn contents(prompt: &Prompt) -> Vec<(&str, &str)> {
        match prompt {
            Prompt::Chat(messages) => messages.iter().map(|m| (&*m.role, &*m.content)).collect(),
            Prompt::Text(text) => vec![("", text)],
        }
    }

    #[test]
    fn prompt_parts_are_in_order() {
        let question = problem(Prompt::question("2+2?"), "4");
        let bare = Prompting::default();
        assert_eq!(contents(&bare.apply(&question, None)), [("user", "2+2?")]);
        assert_eq!(contents(&bare.apply(&question, Some("Box it."))), [("user", "2+2?\nBox it.")]);
        let none = Prompting { instruction: Some(String::new()), ..Prompting::default() };
        assert_eq!(contents(&none.apply(&question, Some("Box it."))), [("user", "2+2?")]);
        let full = Prompting {
            instruction: Some("Say it.".into()),
            system_prompt: Some("Be brief.".into()),
            template: None,
            examples: vec![problem(Prompt::question("1+1?"), "2"), question.clone()],
            spare: Some(problem(Prompt::question("3+3?"), "6")),
        };
        let expected = [
            ("system", "Be brief."),
            ("user", "1+1?\nSay it."),
            ("assistant", "2"),
            ("user", "3+3?\nSay it."),
            ("assistant", "6"),
            ("user", "2+2?\nSay it."),
        ];
        assert_eq!(
            contents(&full.apply(&question, None)),
            expected,
            "no example is the problem itself"
        );
        let text = problem(Prompt::Text("2=".into()), "1+1");
        let shown = Prompting {
            examples: vec![problem(Prompt::Text("3=".into()), "2+1")],
            ..Prompting::default()
        };
        assert_eq!(contents(&shown.apply(&text, None)), [("", "3=2+1\n2=")]);
    }

    #[test]
    fn a_template_sees_the_row_and_names_what_it_misses() {
        let row = serde_json::json!({"q": "1+1", "n": 2});
        let row = row.as_object().unwrap();
        let render = |text: &str| Template::new("t.j2", text).unwrap().render(row);
        assert_eq!(render("Q: {{ q }} ({{ n }})").unwrap(), "Q: 1+1 (2)");
        assert!(render("{{ question }}").unwrap_err().contains("q, n"));
        assert!(
            render(
                "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}"
            )
            .is_err()
        );
        assert!(Template::new("t.j2", "{{").unwrap_err().to_string().contains("t.j2"));
    }

    #[test]
    fn examples_are_a_fixed_choice() {
        let problems: Vec<Problem> =
            (0..20).map(|i| problem(Prompt::question(&i.to_string()), "x")).collect();
        let ids = || choose(&problems, 4).unwrap().into_iter().map(|p| p.id).collect::<Vec<_>>();
        assert_eq!((ids(), ids().len()), (ids(), 5));
        assert!(choose(&problems, 21).is_err());
    }
}
