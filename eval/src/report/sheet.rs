//! A page of tables and figures as one HTML file that needs no network.

use maud::{PreEscaped, html};

use super::page::document;

/// One part of a page.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// What it shows, in a sentence or two.
    pub text: String,
    /// A table, its header first; empty for none.
    pub table: Vec<Vec<String>>,
    /// Charts as SVG, with captions.
    pub figures: Vec<(String, String)>,
}

/// The page.
pub fn html(title: &str, lead: &str, sections: &[Section]) -> String {
    let body = html! {
        h1 { (title) }
        p.lead { (lead) }
        @for section in sections {
            h2 { (section.heading) }
            @if !section.text.is_empty() { p { (section.text) } }
            @if let Some((header, rows)) = section.table.split_first() {
                table {
                    thead { tr { @for cell in header { th { (cell) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
                }
            }
            div.charts {
                @for (svg, caption) in &section.figures {
                    figure { (PreEscaped(svg)) figcaption { (caption) } }
                }
            }
        }
    };
    document(title, &body)
}
