//! Lines to grade and tables of datasets whose texts reach SQL: none of them writes a file.

use std::path::Path;

use serde_json::json;
use tealight_core::Prompt;
use tealight_datasets::verify::sql::Sql;
use tealight_datasets::{Database, Problem, Verifier};
use tealight_eval::grade::{GradeJob, Source};

/// The word in whose place the path of the file to be spared is put.
const VICTIM: &str = "VICTIM";

/// Three lines: what a line to grade calls its database or a dataset its tables, the gold query, the completion.
pub(super) fn try_lines(data: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let victim = folder.path().join("victim.sqlite");
    // An empty file is a database to SQLite.
    std::fs::write(&victim, b"").expect("written");
    let text = String::from_utf8_lossy(data).replace(VICTIM, &victim.display().to_string());
    let mut parts = text.splitn(3, '\n').map(str::to_owned);
    let [context, gold, completion] = [(); 3].map(|()| parts.next().unwrap_or_default());
    for sql in [Sql::from_scripts(), Sql::in_folder(folder.path().into())] {
        let line = json!({"id": "a", "context": context, "gold": gold, "completion": completion});
        let line = line.to_string();
        let mut source = Source::new(line.as_bytes(), "a").expect("a line");
        drop(GradeJob::new(&sql).run(&mut source, &mut |_| Ok(())));
        let problem = Problem {
            context: Some(Database::Script(context.clone())),
            ..Problem::new("a", Prompt::Text(String::new()), gold.clone())
        };
        drop(sql.verify(&problem, &completion));
    }
    assert_eq!(contents(folder.path()), [("victim.sqlite".to_owned(), 0)], "a file was written");
}

/// Names and sizes.
fn contents(folder: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let name_and_size = |entry: std::fs::DirEntry| {
        let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
        (entry.file_name().to_string_lossy().into_owned(), bytes)
    };
    entries.map(name_and_size).collect()
}
