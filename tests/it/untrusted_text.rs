//! Untrusted text: shown escaped, read exactly, never a path.

use crate::support::binary::{Folder, command, has, ok, refusal, refused, succeeded, tealight};
use crate::support::embedded::roomy_model;
use crate::support::server::serve;
use serde_json::{Value, json};

/// Bytes that a terminal would act on.
fn is_raw(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
}

#[test]
fn untrusted_text_is_escaped_on_the_terminal() {
    let folder = Folder::new();
    let evil = "\u{1b}]0;owned\u{7}\u{9b}31m\0\u{202e}";
    let row = json!({"question": format!("1+1 {evil}?"), "answer": "2", "id": format!("p{evil}")});
    let data = folder.write("q.jsonl", format!("{row}\n"));
    let shown =
        tealight(&["train", "--model", &roomy_model(&folder), "--dataset", &data, "--dry-run"]);
    // The embedded tokenizer does not know these characters: whatever is said of them is escaped too.
    assert!(!is_raw(&shown.stdout) && !is_raw(&shown.stderr));
    // Completions, verdicts and names.
    let line = json!({"id": format!("p{evil}"), "completion": format!("\\boxed{{3}} {evil}"), "gold": "2"});
    let completions = folder.write("c.jsonl", format!("{line}\n{line}\n"));
    let (a, b) = (folder.path(&format!("run{}", "\u{1b}[2J")), folder.path("b"));
    for output in [&a, &b] {
        let graded = tealight(&["grade", &completions, "--output", output]);
        assert!(graded.status.success() && !is_raw(&graded.stdout) && !is_raw(&graded.stderr));
    }
    let compared = succeeded(&["compare", &a, &b]);
    assert!(!is_raw(&compared.stdout) && !is_raw(&compared.stderr));
    let compared = tealight(&["compare", &a, &b, "--json"]);
    assert!(!is_raw(&compared.stdout));
    assert!(serde_json::from_slice::<Value>(&compared.stdout).is_ok());
    // A server's text.
    let rude =
        serve(|_| (400, String::new(), "{\"error\":{\"message\":\"\u{1b}[31mno\u{9b}\"}}".into()));
    let output = folder.path("o");
    let done =
        tealight(command!("eval --engine {rude} --model m --max-samples 1 --output {output}"));
    assert!(
        !done.status.success() && !is_raw(&done.stderr),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(String::from_utf8_lossy(&done.stderr).contains("\\u001b[31mno"));
}

#[test]
fn completions_that_training_logged_are_shown_escaped() {
    let folder = Folder::new();
    let output = folder.path("run");
    ok(command!(
        "train --output {output} --max-steps 1 --log-completions 1 --save-steps 0 \
         --prompts-per-step 2"
    ));
    let shown = tealight(&["show", &output]);
    assert!(shown.status.success() && !is_raw(&shown.stdout));
    refused!("show {}", folder.path("NOWHERE") => "no such directory or file");
}

#[test]
fn data_files_with_marks_and_long_numbers_are_read_exactly() {
    let folder = Folder::new();
    let answer = "123456789012345678901234567890";
    let data =
        folder.write("q.jsonl", format!("\u{feff}{{\"question\":\"?\",\"answer\":{answer}}}\n"));
    let shown =
        tealight(&["train", "--model", &roomy_model(&folder), "--dataset", &data, "--dry-run"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    has(&text, &[&format!("answer `{answer}`")]);
}

#[test]
fn a_db_id_stays_in_its_folder() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("data/database")).expect("a folder");
    for id in ["../x", "/etc/passwd", "a/b", "..", "c:x"] {
        let row = json!([{"db_id": id, "question": "?", "query": "SELECT 1"}]);
        let data = folder.write("data/dev.json", row.to_string());
        refused!("train --dataset {data} --dry-run" => "dev.json:1", "name");
    }
}

#[test]
fn invalid_dates_are_refused_by_every_command() {
    use std::sync::Arc;

    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    let folder = Folder::new();
    let path = folder.path("dates.parquet");
    let schema = "message rows { required int64 at (TIMESTAMP(MILLIS,true)); \
                  required binary question (UTF8); required binary answer (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let file = std::fs::File::create(&path).expect("a file");
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).expect("a writer");
    let mut group = writer.next_row_group().expect("a row group");
    let mut index = 0;
    while let Some(mut column) = group.next_column().expect("a column") {
        match index {
            0 => column.typed::<Int64Type>().write_batch(&[i64::MAX], None, None),
            _ => column.typed::<ByteArrayType>().write_batch(&[ByteArray::from("1")], None, None),
        }
        .expect("written");
        column.close().expect("closed");
        index += 1;
    }
    group.close().expect("closed");
    writer.close().expect("closed");
    let output = folder.path("out");
    for command in [&["show", &path][..], &["eval", "--dataset", &path, "--output", &output]] {
        let error = refusal(command);
        assert!(error.contains("dates.parquet"), "{error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}

#[test]
fn names_are_neither_markup_nor_formulas_in_results() {
    let folder = Folder::new();
    let (name, output) = ("=1+1<img src=x>|\u{1b}[31m", folder.path("graded"));
    let line = serde_json::json!({"id": "-1+a", "completion": "\u{202e}\u{1b}[2J 7", "gold": "7"});
    let file = folder.write("c.jsonl", format!("{line}\n"));
    let model = "@SUM(A1)<script>";
    ok(&["grade", &file, "--name", name, "--model", model, "--output", &output]);
    let read = |name: &str| std::fs::read_to_string(format!("{output}/{name}")).expect("readable");
    let csv = read("results.csv");
    assert!(csv.lines().skip(1).all(|line| line.starts_with("'@SUM(A1)<script>,'=1+1")), "{csv}");
    let markdown = read("results.md");
    assert!(!markdown.contains("<img") && !markdown.contains("<script"), "{markdown}");
    assert!(markdown.contains("=1+1&lt;img src=x>\\|\\u001b[31m"), "{markdown}");
    let is_active = |c: char| matches!(c, '\u{1b}' | '\u{202e}');
    assert!(!read("report.html").contains(is_active));
    assert!(read("results.json").contains("\"=1+1<img src=x>"), "it has the names as they are");
}
