//! Chat templates beside transformers' rendering of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tealight_core::Message;

use super::template::ChatTemplate;

/// A template, a conversation, and what transformers makes of them; none where it refuses the conversation.
#[derive(Deserialize)]
struct Case {
    name: String,
    kind: String,
    /// The template, where that is not in a file of this name.
    source: Option<String>,
    tokens: BTreeMap<String, String>,
    date: String,
    messages: Vec<Message>,
    expected: Option<String>,
}

/// Checks all cases in a file; how many there are.
fn check(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).expect("cases of scripts/check-templates");
    let cases: Vec<Case> = serde_json::from_str(&text).expect("cases");
    let mut wrong = Vec::new();
    for case in &cases {
        let file = file.with_file_name(format!("{}.jinja", case.name));
        let read = || std::fs::read_to_string(&file).expect("a template");
        let source = case.source.clone().unwrap_or_else(read).as_str().into();
        let date = case.date.parse().expect("a date");
        let template = ChatTemplate { source, tokens: case.tokens.clone(), date };
        let rendered = template.prompt(&case.messages.clone().into());
        if rendered.as_ref().ok() != case.expected.as_ref() {
            let (name, kind, expected) = (&case.name, &case.kind, &case.expected);
            wrong.push(format!("{name}, {kind}: {rendered:?}, in transformers {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    cases.len()
}

#[test]
fn templates_with_the_traits_of_real_families_render_as_in_transformers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/templates");
    assert_eq!(check(&folder.join("expected.json")), 12 * 4);
}

#[test]
#[ignore = "needs $TEALIGHT_TEMPLATE_CASES, which scripts/check-templates makes"]
fn templates_from_outside_render_as_in_transformers() {
    let file = std::env::var_os("TEALIGHT_TEMPLATE_CASES").expect("a file of cases");
    let count = check(Path::new(&file));
    println!("{count} chats are rendered as in transformers");
}
