//! A document as one HTML file that needs no network: the viewer, made from `web/`, and its data.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use serde_json::json;
use tealight_core::{display, guard, regular};

use super::samples::SampleChunks;
use super::steps::{MAX_REFUSED, StepFile, rows, some};
use super::view::{Block, Cell, Document, Recipe, Step};

const SCRIPT: &str = include_str!("assets/viewer.js");
const STYLE: &str = include_str!("assets/viewer.css");
const MATHEMATICS_SCRIPT: &str = include_str!("assets/mathematics.js");
const MATHEMATICS_STYLE: &str = include_str!("assets/mathematics.css");

/// The page of a document that has no samples.
pub fn document_page(document: &Document) -> Result<String> {
    html(document, &SampleChunks::default())
}

/// The page of a document, with the samples that stand in it.
///
/// Only the viewer's own text runs: the policy names the hashes of its scripts and styles. Whatever
/// a model wrote stands in elements that hold data, without a `<` in JSON and in base64 elsewhere; the viewer shows
/// it as
/// text nodes.
pub(super) fn html(document: &Document, placed: &SampleChunks) -> Result<String> {
    let (mut scripts, mut styles) = (vec![SCRIPT], vec![STYLE]);
    if placed.has_mathematics {
        // Before the viewer, which asks whether it is there.
        scripts.insert(0, MATHEMATICS_SCRIPT);
        styles.push(MATHEMATICS_STYLE);
    }
    let policy = format!(
        "default-src 'none'; script-src {} 'strict-dynamic'; style-src {}; img-src data: blob:; font-src data:; \
         base-uri 'none'; form-action 'none'",
        hashes(&scripts),
        hashes(&styles)
    );
    let title = escaped(&document.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n"
    );
    for style in &styles {
        writeln!(page, "<style>{style}</style>")?;
    }
    writeln!(page, "</head>\n<body>\n<main id=\"page\">\n<h1>{title}</h1>")?;
    let said = [&document.verdict, &document.statistics, &document.warnings, &document.lead];
    for sentence in said.into_iter().flatten() {
        writeln!(page, "<p>{}</p>", escaped(sentence))?;
    }
    writeln!(
        page,
        "<noscript>{}<p>This page draws its other tables, charts and samples with the script inside it. Switch scripts on \
         to see them; nothing is loaded from a network.</p></noscript>\n</main>",
        first_table(document)
    )?;
    let data = display::json(document)?.replace('<', "\\u003c");
    writeln!(page, "<script type=\"application/json\" id=\"document\">{data}</script>")?;
    for (name, text) in placed.embedded() {
        // Base64 has no markup in it.
        writeln!(page, "<script type=\"text/plain\" id=\"{name}\">{text}</script>")?;
    }
    for script in &scripts {
        writeln!(page, "<script>{script}</script>")?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

/// The first table of a document, for a reader without scripts.
fn first_table(document: &Document) -> String {
    /// Most rows that are shown so.
    const ROWS: usize = 100;
    let mut tables = document.sections.iter().flat_map(|section| {
        section.blocks.iter().filter_map(move |block| match block {
            Block::Table(table) if table.rows.len() > 1 => Some((&section.heading, table)),
            _ => None,
        })
    });
    let Some((heading, table)) = tables.next() else { return String::new() };
    let row = |(number, cells): (usize, &Vec<Cell>)| {
        let tag = if number == 0 { "th" } else { "td" };
        let cell = |cell: &Cell| match cell {
            Cell::Plain(text) => format!("<{tag}>{}</{tag}>", escaped(text)),
            Cell::Hinted(text, hint) => {
                format!("<{tag} title=\"{}\">{}</{tag}>", escaped(hint), escaped(text))
            }
        };
        format!("<tr>{}</tr>\n", cells.iter().map(cell).collect::<String>())
    };
    let rows: String = table.rows.iter().take(ROWS).enumerate().map(row).collect();
    let (heading, note) = (escaped(heading), escaped(&table.note));
    format!("<h2>{heading}</h2>\n<table>\n{rows}</table>\n<p>{note}</p>\n")
}

/// Embeds completions by training step, as many as a page holds, and lists them.
pub(super) fn embed_steps(placed: &mut SampleChunks, stored: Vec<StepFile>) -> Result<Vec<Step>> {
    let (mut steps, mut refused) = (Vec::new(), 0);
    for one in some(stored) {
        let problems = match rows(&one) {
            Ok(problems) => problems,
            // What a refused file took of memory stays taken.
            Err(error) if error.is::<guard::Refused>() => {
                refused += 1;
                if refused == MAX_REFUSED { break } else { continue }
            }
            // Half-written files of a run are skipped.
            Err(_) => continue,
        };
        placed.with(&format!("step-{}", steps.len()), &json!(problems))?;
        steps.push(Step { run: one.run, step: one.step });
    }
    Ok(steps)
}

impl Recipe {
    /// Most bytes of settings that a page shows.
    const MAX_SETTINGS: u64 = 1 << 16;

    /// How `tealight COMMAND` made what is in a folder, by the settings that it left there.
    pub(super) fn of_folder(command: &str, folder: &Path) -> Self {
        let bytes = regular::read_own(folder, &folder.join("config.toml"), Self::MAX_SETTINGS);
        let settings = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let file = "config.toml".to_owned();
        let command = match settings {
            Some(_) => format!("tealight {command} --config {file} --output again"),
            None => String::new(),
        };
        Self { command, file, settings, version: String::new() }
    }
}

/// A path as a shell takes it for one argument.
pub fn shell_argument(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// The sources of a policy that allow these texts and no other.
fn hashes(texts: &[&str]) -> String {
    let one = |text: &&str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    texts.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Text as the contents of an element.
fn escaped(text: &str) -> String {
    let text = display::escaped(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::view::{Section, Table};

    #[test]
    fn untrusted_text_never_becomes_markup() {
        let hostile = "</script><!--<script><img src=x onerror=alert(1)>";
        let table = Table::new(vec![vec!["a".into()], vec![hostile.into()]]);
        let document = Document {
            title: hostile.to_owned(),
            lead: vec![hostile.to_owned()],
            sections: vec![Section::new(hostile).text(hostile).table(table)],
            ..Document::default()
        };
        let page = document_page(&document).unwrap();
        assert!(!page.contains("<img"), "{page}");
        assert_eq!(page.matches("<!--").count(), 0);
        // Without scripts the first table is there, as text.
        let without = page.split("<noscript>").nth(1).unwrap().split("</noscript>").next().unwrap();
        assert!(without.contains("<tr><th>a</th></tr>\n<tr><td>&lt;/script"), "{without}");
        let policy = page.split("Content-Security-Policy\" content=\"").nth(1).unwrap();
        let policy = policy.split('"').next().unwrap();
        assert!(!policy.contains("unsafe") && policy.contains("default-src 'none'"), "{policy}");
        // One script runs, and its hash is the one that is allowed.
        assert_eq!(page.matches("<script>").count(), 1);
        let script = page.split("<script>").nth(1).unwrap().split("</script>").next().unwrap();
        assert_eq!(script, SCRIPT);
        assert!(policy.contains(&hashes(&[script])));
    }

    #[test]
    fn assets_end_where_their_element_ends() {
        for script in [SCRIPT, MATHEMATICS_SCRIPT] {
            let small = script.to_ascii_lowercase();
            assert!(!small.contains("</script") && !small.contains("<!--"));
        }
        for style in [STYLE, MATHEMATICS_STYLE] {
            assert!(!style.to_ascii_lowercase().contains("</style"));
        }
        assert!(!SCRIPT.contains("unsafe-eval") && !STYLE.contains("http"));
    }
}
