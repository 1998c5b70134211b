//! How verifiers are named.

use tealight_datasets::verify::{Reads, VERIFIERS, help, open, reads};

#[test]
fn every_form_begins_with_its_name_and_opens_where_it_needs_no_argument() {
    for row in &VERIFIERS {
        for (form, _) in row.forms {
            assert_eq!(form.split(':').next(), Some(row.name));
            assert!(help().contains(&format!("\n  {form} ")) || *form == "math", "{form}");
            if !form.contains(char::is_uppercase) {
                assert!(open(form).is_ok(), "{form}");
                assert!(open(&format!("{form}:nothing")).is_err() || row.reads == Reads::Files);
            }
        }
    }
    assert_eq!((reads("colouring"), reads("PROGRAM:x")), (Some(Reads::Nothing), None));
    let error = open("nothing").err().unwrap().to_string();
    assert!(error.contains("choose math, exact, regex:PATTERN, numeric, sql:FOLDER"), "{error}");
}

#[test]
fn page_of_verifiers_has_a_row_for_every_verifier() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/verifier.md");
    // A package of this crate alone is without the book.
    let Ok(page) = std::fs::read_to_string(page) else { return };
    let rows: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("| `")).collect();
    for row in &VERIFIERS {
        let names = |line: &&str| {
            let cell = line.split(" | ").next().unwrap_or_default();
            cell.split('`').any(|word| word.split([':', '[']).next() == Some(row.name))
        };
        assert!(rows.iter().any(names), "docs/verifier.md lacks a row for {}", row.name);
    }
}
