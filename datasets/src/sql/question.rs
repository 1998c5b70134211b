//! Questions about a table: in words, as the gold query, and the rows that tell a question from others.

use super::Generator;

/// Rows of a table.
const ROWS: u32 = 24;
/// Names that rows may have.
const NAMES: [&str; 12] =
    ["ada", "bo", "cy", "di", "eli", "fay", "gus", "hal", "ida", "jo", "kim", "lou"];

/// A table: its name, its column of kinds with what they may be, and two columns of numbers 1 to 9.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) kinds: [&'static str; 4],
    pub(super) numbers: [&'static str; 2],
}

pub(super) const TABLES: [Table; 4] = [
    Table {
        name: "pets",
        kind: "kind",
        kinds: ["dog", "cat", "cow", "fox"],
        numbers: ["age", "cost"],
    },
    Table {
        name: "cars",
        kind: "color",
        kinds: ["red", "blue", "tan", "grey"],
        numbers: ["doors", "price"],
    },
    Table {
        name: "books",
        kind: "topic",
        kinds: ["art", "law", "math", "sea"],
        numbers: ["pages", "copies"],
    },
    Table {
        name: "towns",
        kind: "coast",
        kinds: ["north", "south", "east", "west"],
        numbers: ["parks", "schools"],
    },
];

/// A condition on a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Condition {
    Kind(usize),
    More(usize, u32),
    Less(usize, u32),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum QuestionKind {
    Names,
    Count,
    NameOfMost(usize),
}

/// A question: rows of a table under one or two conditions.
pub(super) struct Question {
    pub(super) table: usize,
    pub(super) kind: QuestionKind,
    pub(super) conditions: Vec<Condition>,
}

impl Question {
    pub(super) fn text(&self) -> String {
        let table = &TABLES[self.table];
        let conditions: Vec<String> = self
            .conditions
            .iter()
            .map(|condition| match condition {
                Condition::Kind(kind) => format!("{} {}", table.kind, table.kinds[*kind]),
                Condition::More(column, number) => {
                    format!("{} over {number}", table.numbers[*column])
                }
                Condition::Less(column, number) => {
                    format!("{} under {number}", table.numbers[*column])
                }
            })
            .collect();
        let (name, with) = (table.name, conditions.join(" and "));
        match self.kind {
            QuestionKind::Names => format!("Which {name} have {with}?"),
            QuestionKind::Count => format!("How many {name} have {with}?"),
            QuestionKind::NameOfMost(column) => {
                format!("Of the {name} with {with}, which has most {}?", table.numbers[column])
            }
        }
    }

    pub(super) fn gold(&self) -> String {
        let table = &TABLES[self.table];
        let filter: Vec<String> = self
            .conditions
            .iter()
            .map(|condition| match condition {
                Condition::Kind(kind) => format!("{} = '{}'", table.kind, table.kinds[*kind]),
                Condition::More(column, number) => format!("{} > {number}", table.numbers[*column]),
                Condition::Less(column, number) => format!("{} < {number}", table.numbers[*column]),
            })
            .collect();
        let (name, filter) = (table.name, filter.join(" AND "));
        match self.kind {
            QuestionKind::Names => format!("SELECT name FROM {name} WHERE {filter}"),
            QuestionKind::Count => format!("SELECT COUNT(*) FROM {name} WHERE {filter}"),
            QuestionKind::NameOfMost(column) => {
                let column = table.numbers[column];
                format!(
                    "SELECT name FROM {name} WHERE {filter} AND {column} = (SELECT MAX({column}) FROM {name} WHERE {filter})"
                )
            }
        }
    }

    /// The table's rows, drawn for this question until it has an answer that tells conditions apart: not
    /// empty, not all rows, and one row with most where that is asked. `None` if that does not happen.
    pub(super) fn script(&self, seed: u64) -> Option<String> {
        let mut generator = Generator::new(seed, 1);
        (0..64).find_map(|_| {
            let rows: Vec<(usize, usize, [u32; 2])> = (0..ROWS)
                .map(|_| {
                    let numbers = [1 + generator.below(9) as u32, 1 + generator.below(9) as u32];
                    (generator.below(NAMES.len()), generator.below(4), numbers)
                })
                .collect();
            self.tells_apart(&rows).then(|| self.statements(&rows))
        })
    }

    fn tells_apart(&self, rows: &[(usize, usize, [u32; 2])]) -> bool {
        let holds = |row: &(usize, usize, [u32; 2]), condition: &Condition| match condition {
            Condition::Kind(kind) => row.1 == *kind,
            Condition::More(column, number) => row.2[*column] > *number,
            Condition::Less(column, number) => row.2[*column] < *number,
        };
        let chosen: Vec<_> =
            rows.iter().filter(|row| self.conditions.iter().all(|c| holds(row, c))).collect();
        // Without any one of its conditions the question has more rows.
        let is_needed = |skipped: usize| {
            let count = rows.iter().filter(|row| {
                let mut others = self.conditions.iter().enumerate().filter(|(i, _)| *i != skipped);
                others.all(|(_, condition)| holds(row, condition))
            });
            count.count() > chosen.len()
        };
        let has_one_most = match self.kind {
            QuestionKind::NameOfMost(column) => {
                let most = chosen.iter().map(|row| row.2[column]).max();
                chosen.len() >= 2
                    && chosen.iter().filter(|row| Some(row.2[column]) == most).count() == 1
            }
            _ => true,
        };
        !chosen.is_empty() && (0..self.conditions.len()).all(is_needed) && has_one_most
    }

    fn statements(&self, rows: &[(usize, usize, [u32; 2])]) -> String {
        let table = &TABLES[self.table];
        let [first, second] = table.numbers;
        let (name, kind) = (table.name, table.kind);
        let values: Vec<String> = rows
            .iter()
            .map(|(who, kind, [a, b])| {
                format!("('{}','{}',{a},{b})", NAMES[*who], table.kinds[*kind])
            })
            .collect();
        format!(
            "CREATE TABLE {name}(name TEXT, {kind} TEXT, {first} INTEGER, {second} INTEGER);\n\
             INSERT INTO {name} VALUES {};",
            values.join(",")
        )
    }
}
