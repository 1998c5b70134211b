//! The document that the viewer shows: sentences, tables and charts in the order in which a reader meets them.

use serde::Serialize;

/// A report as the viewer shows it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Document {
    /// Title of the page, in the browser's tab as well.
    pub title: String,
    /// When and by which command it was made, under the title.
    pub made: String,
    /// How the numbers came about.
    pub lead: Vec<String>,
    /// The results, in plain sentences; shown first.
    pub verdict: Vec<String>,
    /// What the verdict rests on: intervals, tests and power, behind a click.
    pub statistics: Vec<String>,
    /// Reasons to distrust the numbers.
    pub warnings: Vec<String>,
    /// The models in the order of their colours, the base first.
    pub models: Vec<String>,
    /// The charts that are shown side by side under the verdict.
    pub top: Vec<Chart>,
    /// Everything else.
    pub sections: Vec<Section>,
    /// Commands that make the numbers again.
    pub reproduce: Vec<Recipe>,
    /// The last lines.
    pub footer: Vec<String>,
    /// Where the samples are, where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<Placement>,
    /// Training steps whose completions are there, in the order of their parts of the page.
    pub steps: Vec<Step>,
}

/// How the samples of a page are stored.
#[derive(Debug, Clone, Serialize)]
pub struct Placement {
    /// Problems in a chunk.
    pub size: usize,
    /// Whether chunks are scripts in `report-data` instead of parts of the page.
    pub is_beside: bool,
}

/// A command, and the settings that it reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Recipe {
    /// The command; may be empty.
    pub command: String,
    /// The name of the file of settings that the command reads.
    pub file: String,
    /// The contents of that file.
    pub settings: Option<String>,
    /// The program and revision that made the numbers; may be empty.
    pub version: String,
}

/// A training step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Label of the run that the step is of.
    pub run: String,
    /// Steps done.
    pub step: usize,
}

/// A part of a page under a heading.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Section {
    /// Heading, which the table of contents lists.
    pub heading: String,
    /// Whether it is shown folded at first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_folded: bool,
    /// Whether it is about the course of training, which has a view of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_training: bool,
    /// Its contents, in order.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Rows of cells under a header.
    Table(Table),
    /// Charts beside each other.
    Charts(Vec<Chart>),
}

/// Rows of cells under a header.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// Its title; may be empty.
    pub title: String,
    /// How to read it; may be empty.
    pub note: String,
    /// Rows of cells, the header first.
    pub rows: Vec<Vec<Cell>>,
    /// Whether it is shown folded at first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_folded: bool,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Text.
    Plain(String),
    /// Text, and what it says when a pointer rests on it.
    Hinted(String, String),
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Plain(text)
    }
}

/// Series of points over two axes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Title above the chart.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// Label of the horizontal axis.
    pub x: String,
    /// Label of the vertical axis.
    pub y: String,
    /// How it is drawn.
    pub kind: Kind,
    /// Whether x is logarithmic.
    pub is_log: bool,
    /// The lowest and highest y, or the data's own.
    pub y_range: Option<(f64, f64)>,
    /// Its lines; lines of one name have one colour and one entry in the legend.
    pub lines: Vec<Line>,
}

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Lines with their bands.
    #[default]
    Lines,
    /// Lines against training steps: several of one name are runs, shown as mean and range and smoothed on demand.
    Runs,
    /// Points, the means of one name larger.
    Points,
}

/// One line of a chart.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// The points, in order of x.
    pub points: Vec<(f64, f64)>,
    /// The interval around each point: x, low, high; empty for none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub band: Vec<(f64, f64, f64)>,
    /// A point to mark with a dot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<(f64, f64)>,
}

/// A value to six digits: a page of sixteen models holds many.
fn short(value: f64) -> f64 {
    let scale = 10_f64.powf(6.0 - value.abs().log10().ceil());
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

impl Line {
    /// A line without band and mark.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, ..Self::default() }
    }
}

impl Chart {
    /// A chart of `lines` over x, without those that have no point; values that are no numbers are left out, since the
    /// files that they come from may hold anything.
    pub fn new(title: &str, (x, y): (&str, &str), lines: Vec<Line>) -> Self {
        let is_number = |at: &(f64, f64)| at.0.is_finite() && at.1.is_finite();
        let clean = |mut line: Line| {
            line.points.retain(is_number);
            line.mark = line.mark.filter(is_number);
            line.band.retain(|at| at.0.is_finite() && at.1.is_finite() && at.2.is_finite());
            line.points.iter_mut().for_each(|at| at.1 = short(at.1));
            line.band.iter_mut().for_each(|at| (at.1, at.2) = (short(at.1), short(at.2)));
            line
        };
        Self {
            title: title.to_owned(),
            x: x.to_owned(),
            y: y.to_owned(),
            lines: lines.into_iter().map(clean).filter(|line| !line.points.is_empty()).collect(),
            ..Self::default()
        }
    }

    /// Pass@k against k.
    pub(super) fn of_pass(set: &str, lines: Vec<Line>, caption: &str) -> Self {
        let chart = Self::new(&format!("Pass@k, {set}"), ("k", "pass@k"), lines);
        chart.caption(caption).log().of_shares()
    }

    /// Distinct correct answers against k.
    pub(super) fn of_distinct(title: &str, lines: Vec<Line>, caption: impl Into<String>) -> Self {
        Self::new(title, ("k", "distinct correct"), lines).caption(caption).log()
    }

    /// Pass@k against Pass@1.
    pub(super) fn of_tradeoff(most: usize, lines: Vec<Line>, caption: &str) -> Self {
        let axes = ("pass@1", &*format!("pass@{most}"));
        Self::new("Accuracy against coverage", axes, lines).caption(caption).kind(Kind::Points)
    }

    /// Without the name of the set in its title.
    pub(super) fn untitled(mut self, set: &str) -> Self {
        let title = self.title.strip_suffix(&format!(", {set}")).map(str::to_owned);
        self.title = title.unwrap_or(self.title);
        self
    }

    /// With a sentence on how to read it.
    #[must_use]
    pub fn caption(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }

    /// With a logarithmic x.
    #[must_use]
    pub fn log(self) -> Self {
        Self { is_log: true, ..self }
    }

    /// With y from 0 to 1.
    #[must_use]
    pub fn of_shares(self) -> Self {
        Self { y_range: Some((0.0, 1.0)), ..self }
    }

    /// Drawn otherwise.
    #[must_use]
    pub fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }
}

impl Table {
    /// A table without a title from rows of text, the header first.
    pub fn new(rows: Vec<Vec<String>>) -> Self {
        let plain = |row: Vec<String>| row.into_iter().map(Cell::Plain).collect();
        Self { rows: rows.into_iter().map(plain).collect(), ..Self::default() }
    }

    /// A table without a title from rows under their header.
    pub(super) fn of<const N: usize, C: Into<Cell>>(
        header: [&str; N],
        rows: impl IntoIterator<Item = [C; N]>,
    ) -> Self {
        let header = header.map(|title| Cell::Plain(title.to_owned())).to_vec();
        let rows = rows.into_iter().map(|row| row.map(Into::into).to_vec());
        Self { rows: std::iter::once(header).chain(rows).collect(), ..Self::default() }
    }

    /// With a title and a note.
    #[must_use]
    pub fn titled(self, title: impl Into<String>, note: impl Into<String>) -> Self {
        Self { title: title.into(), note: note.into(), ..self }
    }

    /// Folded at first.
    #[must_use]
    pub fn folded(self) -> Self {
        Self { is_folded: true, ..self }
    }
}

impl Section {
    /// A section without contents.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// A section on the course of training.
    pub fn of_training() -> Self {
        Self { is_training: true, ..Self::new("Training") }
    }

    /// With one more paragraph, unless that is empty.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.blocks.push(Block::Text(text));
        }
        self
    }

    /// With one more table, unless that has no row under its header.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        if table.rows.len() > 1 {
            self.blocks.push(Block::Table(table));
        }
        self
    }

    /// With charts beside each other, without those that have nothing to draw.
    #[must_use]
    pub fn charts(mut self, charts: Vec<Chart>) -> Self {
        let nonempty: Vec<Chart> = charts.into_iter().filter(|c| !c.lines.is_empty()).collect();
        if !nonempty.is_empty() {
            self.blocks.push(Block::Charts(nonempty));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_hold_numbers_alone_to_six_digits() {
        let points = vec![(1.0, 2.0 / 3.0), (2.0, f64::NAN), (f64::INFINITY, 1.0), (3.0, 0.0)];
        let points = [points, vec![(4.0, 1e-320), (5.0, -12_345_678.9)]].concat();
        let band = vec![(1.0, 0.1, f64::NAN), (3.0, 1.0 / 3.0, 1.0)];
        let lines = vec![Line { band, ..Line::new("a", points) }, Line::new("empty", vec![])];
        let chart = Chart::new("t", ("x", "y"), lines);
        assert_eq!(chart.lines.len(), 1);
        let expected = [(1.0, 0.666667), (3.0, 0.0), (4.0, 1e-320), (5.0, -12_345_700.0)];
        assert_eq!(chart.lines[0].points, expected);
        assert_eq!(chart.lines[0].band, [(3.0, 0.333333, 1.0)]);
    }
}
