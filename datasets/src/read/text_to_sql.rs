//! Spider's and BIRD's layout: rows with `db_id`, `question` and `query` (or `SQL`, `evidence`), and a
//! folder of databases beside the file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::known_columns::list;
use super::{Columns, Row};
use crate::verify::sql::{self, Sql, schema_of};
use crate::{DataError, Database, Dataset, Problem, Result};
use tealight_core::{Message, Prompt};

/// Folders that the databases of a file may lie in, beside it.
const FOLDERS: [&str; 6] =
    list("database|databases|dev_databases|test_database|train_databases|test_databases");

pub(super) fn is_layout(rows: &[Row], columns: &Columns) -> bool {
    let is_such = |row: &Row| row.values.contains_key("db_id") && query_column(row).is_some();
    columns.answer.is_none() && rows.first().is_some_and(is_such)
}

fn query_column(row: &Row) -> Option<&'static str> {
    ["query", "SQL", "sql_query"].into_iter().find(|name| row.values.contains_key(*name))
}

/// The problems of the files, their databases in the folder that a verifier names or beside the first file.
pub(super) fn dataset(files: &[PathBuf], rows: &[Row], columns: &Columns) -> Result<Dataset> {
    let asked = columns.rewards.verifiers.iter().find_map(|spec| sql::named(spec));
    let (compare, folder) = asked.unwrap_or_default();
    let first = &files[0];
    let folder = folder.map_or_else(|| database_folder(first), Ok)?;
    let mut schemas: HashMap<String, String> = HashMap::new();
    let mut problems = Vec::with_capacity(rows.len());
    for row in rows {
        let malformed = |what| row.malformed(files, what);
        let text = |name: &str| match row.values.get(name).and_then(|value| value.as_str()) {
            Some(text) => Ok(text.trim()),
            None => Err(malformed(format!("no text in column `{name}`"))),
        };
        let (database, question) = (text("db_id")?, text("question")?);
        let column = query_column(row)
            .ok_or_else(|| malformed("no query in column `query` or `SQL`".into()))?;
        if !schemas.contains_key(database) {
            let schema = schema_of(&folder, database).map_err(malformed)?;
            schemas.insert(database.into(), schema);
        }
        // BIRD explains its terms.
        let evidence = text("evidence").ok().filter(|evidence| !evidence.is_empty());
        let evidence = evidence.map(|text| format!("\n{text}")).unwrap_or_default();
        let schema = &schemas[database];
        let asked = format!("{schema}\n\n{question}{evidence}\nAnswer with one SQLite query.");
        problems.push(Problem {
            solution: Some(text(column)?.into()),
            context: Some(Database::File(database.into())),
            ..Problem::new(
                format!("{database}/{}", row.place()),
                Prompt::chat([Message::user(asked)]),
                text(column)?.trim_end_matches(';'),
            )
        });
    }
    let notes = vec![format!("{} databases in {}", schemas.len(), folder.display())];
    let verifier = Sql::in_folder(folder).comparing(compare);
    Ok(Dataset { notes, ..Dataset::plain(first.display().to_string(), problems, verifier) })
}

fn database_folder(path: &Path) -> Result<PathBuf> {
    let parent = path.parent().unwrap_or(Path::new("."));
    FOLDERS.iter().map(|name| parent.join(name)).find(|folder| folder.is_dir()).ok_or_else(|| {
        DataError::File {
            path: path.into(),
            what:
                "text-to-SQL rows need their databases: put them in database/ID/ID.sqlite beside \
                   this file, or name their folder with --verifier sql:FOLDER"
                    .into(),
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::Rewards;
    use crate::read::Columns;

    #[test]
    fn spider_and_bird_layouts_are_read_with_their_databases() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let rows = r#"[{"db_id":"zoo","question":"How many?","query":"SELECT count(*) FROM pets;"},
            {"db_id":"zoo","question":"Oldest?","SQL":"SELECT name FROM pets ORDER BY age DESC LIMIT 1","evidence":"oldest means most age"}]"#;
        std::fs::write(at("dev.json"), rows).unwrap();
        let open =
            |limit| crate::open(at("dev.json").to_str().unwrap(), &Columns::default(), limit);
        let message = open(None).err().unwrap().to_string();
        assert!(message.contains("--verifier sql:FOLDER"), "{message}");

        std::fs::create_dir_all(at("database/zoo")).unwrap();
        let message = open(None).err().unwrap().to_string();
        assert!(message.contains("dev.json:1") && message.contains("zoo.sqlite"), "{message}");

        let file = rusqlite::Connection::open(at("database/zoo/zoo.sqlite")).unwrap();
        file.execute_batch(
            "CREATE TABLE pets(name TEXT, age INT); INSERT INTO pets VALUES ('a', 1), ('b', 2);",
        )
        .unwrap();
        drop(file);
        let before = std::fs::read(at("database/zoo/zoo.sqlite")).unwrap();
        let set = open(None).unwrap();
        assert_eq!(set.verifier.name(), "sql");
        let shown = set.problems[1].prompt.plain();
        assert!(shown.contains("CREATE TABLE pets") && shown.contains("most age"), "{shown}");
        let is_right =
            |i: usize, query: &str| set.verifier.verify(&set.problems[i], query).is_correct();
        assert!(is_right(0, "SELECT COUNT(name) FROM pets") && is_right(0, "SELECT 2"));
        assert!(is_right(1, "SELECT name FROM pets WHERE age = 2"));
        assert!(!is_right(1, "DELETE FROM pets") && !is_right(0, "SELECT 3"));
        assert_eq!(std::fs::read(at("database/zoo/zoo.sqlite")).unwrap(), before);
        assert!(std::fs::read_dir(at("database/zoo")).unwrap().count() == 1, "no journal is left");

        // From elsewhere, by name.
        let columns = Columns {
            rewards: Rewards::by(Some(format!("sql:{}", at("database").display()))),
            ..Columns::default()
        };
        std::fs::create_dir(at("other")).unwrap();
        std::fs::copy(at("dev.json"), at("other/dev.json")).unwrap();
        let set = crate::open(at("other/dev.json").to_str().unwrap(), &columns, Some(1)).unwrap();
        assert!(set.verifier.verify(&set.problems[0], "SELECT 2").is_correct());
    }
}
