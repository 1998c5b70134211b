//! Folders of strangers to reports: nothing outside of them is shown, and no file in them takes all memory.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::support::binary::{Folder, command, ok, refused};

const ROWS: &str = "{\"step\":1,\"reward\":0.123456789}\n{\"step\":2,\"reward\":0.987654321}\n";

fn page(folder: &str) -> String {
    std::fs::read_to_string(Path::new(folder).join("report.html")).expect("a page")
}

#[cfg(unix)]
#[test]
fn settings_outside_of_a_reported_folder_are_not_shown() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("run")).expect("made");
    let run = folder.path("run");
    folder.write("run/metrics.jsonl", ROWS);
    let settings = folder.write("run/config.toml", "token = \"its own\"\n");
    ok(command!("report {run}"));
    assert!(page(&run).contains("its own"), "its own settings are shown");
    std::fs::remove_file(&settings).expect("removed");
    let token = folder.write("token", "token = \"hf_of_the_user\"\n");
    std::os::unix::fs::symlink(token, &settings).expect("a link");
    ok(command!("report {run}"));
    assert!(!page(&run).contains("hf_of_the_user"));
}

/// Rows that all refer to one text, which a small file holds once.
fn bomb(path: &str, bytes: usize, rows: usize) {
    let schema = "message row { required binary completion (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let settings = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_dictionary_page_size_limit(1 << 30)
        .build();
    let file = std::fs::File::create(path).expect("made");
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(settings)).expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    let mut column = group.next_column().expect("a column").expect("one");
    let texts = vec![ByteArray::from("x".repeat(bytes).into_bytes()); rows];
    column.typed::<ByteArrayType>().write_batch(&texts, None, None).expect("written");
    column.close().expect("closed");
    group.close().expect("closed");
    writer.close().expect("closed");
}

#[test]
fn parquet_files_that_panic_or_unpack_to_gigabytes_are_refused() {
    let folder = Folder::new();
    let panics = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/panics.parquet");
    refused!("grade {panics} --verifier math" => "does not survive");
    std::fs::create_dir_all(folder.path("run/completions")).expect("made");
    folder.write("run/metrics.jsonl", ROWS);
    let run = folder.path("run");
    let place = folder.path("run/completions/completions_00001.parquet");
    let is_shown = || page(&run).contains("id=\"step-0\"");
    std::fs::copy(panics, &place).expect("copied");
    ok(command!("report {run}"));
    assert!(!is_shown());
    bomb(&place, 100, 200);
    ok(command!("report {run}"));
    assert!(is_shown(), "a file without tricks");
    bomb(&place, 48 << 20, 100);
    assert!(std::fs::metadata(&place).expect("a file").len() < 8 << 20, "a small file");
    ok(command!("report {run}"));
    assert!(!is_shown(), "five gigabytes");
}
