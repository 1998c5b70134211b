//! Text to SQL: questions about a small table, each with many right queries.
//!
//! The prompt shows a table's columns and asks for some rows, a count or the row with most of
//! something. The answer is a query; any query with the same result on the problem's generated table is
//! right. The three splits share no question: `sft` (eight tenths), `train` and `test`.

mod question;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::verify::sql::Sql;
use crate::{
    DataError, Database, Dataset, Message, Problem, Prompt, Result, Source, distinct, fnv,
};
use question::{Condition, Question, QuestionKind, TABLES};

/// The row of [`crate::SOURCES`].
pub const SOURCE: Source = Source {
    name: "sql",
    about: "questions about small tables, many correct queries; splits train, test, sft",
    load,
    examples,
};

/// Problems in a split when no limit is given.
const DEFAULT_PROBLEMS: usize = 96;

fn load(split: &str, limit: Option<usize>) -> Result<Dataset> {
    let (split, name) = match split {
        "" | "train" => (0, "sql/train"),
        "test" => (1, "sql/test"),
        "sft" => (2, "sql/sft"),
        other => {
            return Err(DataError::Split {
                name: "sql",
                split: other.into(),
                known: "train, test, sft",
            });
        }
    };
    let wanted = limit.unwrap_or(DEFAULT_PROBLEMS);
    let mut generator = Generator::new(0, 0);
    // A split has some hundred questions.
    let problems = distinct(wanted, 20_000, || Some(generator.problem(split)));
    Ok(Dataset::generated(name.into(), problems, Sql::from_scripts()))
}

fn examples(seed: u64, step: u64, count: usize) -> Vec<Problem> {
    let mut generator = Generator::new(seed, step);
    (0..count).map(|_| generator.problem(2)).collect()
}

/// Makes problems from random numbers.
struct Generator {
    rng: ChaCha8Rng,
}

/// Which of the splits 0, 1 and 2 a question belongs to, by its text.
fn split_of(question: &str) -> u64 {
    let hash = fnv(question.bytes());
    ((hash >> 16) % 10).min(2)
}

impl Generator {
    fn new(seed: u64, number: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x0005_71ab);
        rng.set_stream(number);
        Self { rng }
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.rng.next_u64() % bound as u64) as usize
    }

    fn problem(&mut self, split: u64) -> Problem {
        loop {
            let question = self.question();
            let text = question.text();
            if split_of(&text) != split {
                continue;
            }
            let Some(script) = question.script(fnv(text.bytes())) else { continue };
            let table = &TABLES[question.table];
            let [first, second] = table.numbers;
            let schema = format!("{}(name, {}, {first}, {second})", table.name, table.kind);
            let solution = self.query(&question);
            let prompt = format!("{schema}\n{text} Answer with one SQLite query.");
            return Problem {
                solution: Some(solution),
                context: Some(Database::Script(script)),
                ..Problem::new(text, Prompt::Chat(vec![Message::user(prompt)]), question.gold())
            };
        }
    }

    fn question(&mut self) -> Question {
        let table = self.below(TABLES.len());
        let column = self.below(2);
        let number = 2 + self.below(7) as u32;
        let kind = Condition::Kind(self.below(4));
        let size = if self.below(2) == 0 {
            Condition::More(column, number)
        } else {
            Condition::Less(column, number)
        };
        let conditions = match self.below(3) {
            0 => vec![kind],
            1 => vec![size],
            _ => vec![kind, size],
        };
        let question_kind = match self.below(3) {
            0 => QuestionKind::Names,
            1 => QuestionKind::Count,
            _ => QuestionKind::NameOfMost(self.below(2)),
        };
        Question { table, kind: question_kind, conditions }
    }

    /// One of the many queries that answer a question.
    fn query(&mut self, question: &Question) -> String {
        let table = &TABLES[question.table];
        let mut conditions: Vec<String> = Vec::new();
        for condition in &question.conditions {
            let text = match condition {
                Condition::Kind(kind) => {
                    let (column, kind) = (table.kind, table.kinds[*kind]);
                    match self.below(4) {
                        0 | 1 => format!("{column} = '{kind}'"),
                        2 => format!("{column} IN ('{kind}')"),
                        _ => format!("'{kind}' = {column}"),
                    }
                }
                Condition::More(column, number) => {
                    let (column, least) = (table.numbers[*column], number + 1);
                    match self.below(5) {
                        0 => format!("{column} > {number}"),
                        1 => format!("{column} >= {least}"),
                        2 => format!("{number} < {column}"),
                        3 => format!("NOT {column} <= {number}"),
                        _ => format!("{column} BETWEEN {least} AND 9"),
                    }
                }
                Condition::Less(column, number) => {
                    let (column, most) = (table.numbers[*column], number - 1);
                    match self.below(5) {
                        0 => format!("{column} < {number}"),
                        1 => format!("{column} <= {most}"),
                        2 => format!("{number} > {column}"),
                        3 => format!("NOT {column} >= {number}"),
                        _ => format!("{column} BETWEEN 1 AND {most}"),
                    }
                }
            };
            conditions.push(text);
        }
        if self.below(2) == 0 {
            conditions.reverse();
        }
        let (name, filter) = (table.name, conditions.join(" AND "));
        match question.kind {
            QuestionKind::Names => format!("SELECT name FROM {name} WHERE {filter}"),
            QuestionKind::Count => {
                let count = ["COUNT(*)", "COUNT(name)", "COUNT(1)", "SUM(1)"][self.below(4)];
                format!("SELECT {count} FROM {name} WHERE {filter}")
            }
            QuestionKind::NameOfMost(column) => {
                let column = table.numbers[column];
                match self.below(2) {
                    0 => format!(
                        "SELECT name FROM {name} WHERE {filter} ORDER BY {column} DESC LIMIT 1"
                    ),
                    _ => format!(
                        "SELECT name FROM {name} WHERE {filter} AND {column} = (SELECT MAX({column}) FROM {name} WHERE {filter})"
                    ),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_solution_is_right_and_many_are_different() {
        let set = load("train", Some(40)).unwrap();
        assert_eq!(set.problems.len(), 40);
        let mut forms = HashSet::new();
        for problem in &set.problems {
            let solution = problem.solution.as_deref().unwrap();
            let verdict = set.verifier.verify(problem, solution);
            assert!(verdict.is_correct(), "{} {solution}: {verdict:?}", problem.id);
        }
        // Solutions of one question, as `examples` draws them.
        for step in 0..400 {
            for problem in examples(3, step, 2) {
                if problem.id.starts_with("How many pets have kind dog") {
                    let solution = problem.solution.as_deref().unwrap();
                    assert!(set.verifier.verify(&problem, solution).is_correct(), "{solution}");
                    forms.insert(crate::verify::sql::canonical(solution));
                }
            }
        }
        assert!(forms.len() > 5, "{forms:?}");
    }

    #[test]
    fn other_questions_queries_are_wrong() {
        let set = load("test", Some(60)).unwrap();
        let mut accepted = 0;
        for (a, b) in set.problems.iter().zip(set.problems.iter().skip(1)) {
            accepted += usize::from(set.verifier.verify(a, &b.answer).is_correct());
        }
        // Counts of two questions may agree by chance.
        assert!(accepted <= 4, "{accepted}");
    }

    #[test]
    fn splits_share_no_question() {
        let ids = |split| -> HashSet<String> {
            load(split, Some(80)).unwrap().problems.into_iter().map(|p| p.id).collect()
        };
        let (train, test, sft) = (ids("train"), ids("test"), ids("sft"));
        assert!(train.is_disjoint(&test) && train.is_disjoint(&sft) && test.is_disjoint(&sft));
        assert!(load("dev", None).is_err());
    }
}
