//! Charts as SVG text: lines, points, bars.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

/// Width and height of a chart.
const SIZE: (u32, u32) = (560, 340);

/// One line of a chart.
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// Which colour of the palette; lines of one objective share it.
    pub colour: usize,
    /// Drawn thick, for the base.
    pub is_bold: bool,
    /// The points, in order of x.
    pub points: Vec<(f64, f64)>,
    /// A point to mark with a dot.
    pub mark: Option<(f64, f64)>,
    /// The interval around each point: x, low, high; empty for none.
    pub band: Vec<(f64, f64, f64)>,
}

/// What is on the axes.
pub struct Axes<'a> {
    /// Below the horizontal axis.
    pub x: &'a str,
    /// Beside the vertical axis.
    pub y: &'a str,
    /// Whether x is logarithmic, base 2.
    pub is_log: bool,
    /// The lowest and highest y, or the data's own.
    pub y_range: Option<(f64, f64)>,
}

/// Colours that people with any colour vision tell apart (Okabe and Ito), black for the base.
pub(super) const PALETTE: [RGBColor; 10] = [
    RGBColor(20, 20, 20),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(136, 84, 36),
    RGBColor(120, 120, 120),
    RGBColor(170, 170, 0),
];

/// Draws the lines.
///
/// # Errors
/// Ranges that cannot be drawn.
pub fn draw(axes: &Axes<'_>, lines: &[Line]) -> Result<String> {
    let mut svg = String::new();
    plot(&mut svg, axes, lines).map_err(|error| anyhow!("a chart cannot be drawn: {error}"))?;
    Ok(scalable(svg))
}

/// One named point of a scatter plot; points of one colour belong together.
pub struct Dot {
    /// Written beside it; empty for none.
    pub name: String,
    /// Which colour of the palette.
    pub colour: usize,
    /// Where.
    pub at: (f64, f64),
    /// Large for a mean, small for one run.
    pub is_large: bool,
}

/// Draws points with their names.
///
/// # Errors
/// Ranges that cannot be drawn.
pub fn scatter(x: &str, y: &str, dots: &[Dot]) -> Result<String> {
    let mut svg = String::new();
    let range = |pick: fn(&Dot) -> f64| {
        let low = dots.iter().map(pick).fold(f64::INFINITY, f64::min);
        let high = dots.iter().map(pick).fold(f64::NEG_INFINITY, f64::max);
        let room = (high - low).max(1e-3) * 0.12;
        (low - room, high + room)
    };
    let ((left, right), (low, high)) = (range(|dot| dot.at.0), range(|dot| dot.at.1));
    let mut drawn = || -> std::result::Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .x_label_area_size(38)
            .y_label_area_size(52)
            // Names are written to the right of their points.
            .build_cartesian_2d(left..right + (right - left) * 0.2, low..high)?;
        chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(y)
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.08))
            .axis_style(BLACK.mix(0.4))
            .label_style(label_font())
            .draw()?;
        for dot in dots {
            let colour = PALETTE[dot.colour % PALETTE.len()];
            let size = if dot.is_large { 6 } else { 3 };
            let paint = if dot.is_large { colour.filled() } else { colour.mix(0.5).filled() };
            chart.draw_series([Circle::new(dot.at, size, paint)])?;
            let down = lowered(dot, dots, (right - left, high - low));
            let label =
                EmptyElement::at(dot.at) + Text::new(dot.name.clone(), (9, down - 7), label_font());
            chart.draw_series([label])?;
        }
        root.present()?;
        Ok(())
    };
    drawn().map_err(|error| anyhow!("a chart cannot be drawn: {error}"))?;
    Ok(scalable(svg))
}

/// How far down a dot's name goes, in pixels, so as not to lie on that of an earlier dot near it.
fn lowered(dot: &Dot, dots: &[Dot], span: (f64, f64)) -> i32 {
    let near = |other: &&Dot| {
        let (x, y) = ((other.at.0 - dot.at.0) / span.0, (other.at.1 - dot.at.1) / span.1);
        !other.name.is_empty() && x.abs() < 0.2 && y.abs() < 0.045
    };
    let earlier = dots.iter().take_while(|other| !std::ptr::eq(*other, dot));
    12 * earlier.filter(near).count() as i32
}

/// Draws groups of bars side by side: one value of each series at every place.
///
/// # Errors
/// Ranges that cannot be drawn.
pub fn bars(x: &str, y: &str, series: &[(String, Vec<f64>)]) -> Result<String> {
    let mut svg = String::new();
    let places = series.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let high = series.iter().flat_map(|(_, values)| values).copied().fold(1e-9, f64::max);
    let mut drawn = || -> std::result::Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .x_label_area_size(38)
            .y_label_area_size(52)
            .build_cartesian_2d(0.0..places as f64, 0.0..high * 1.05)?;
        chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(y)
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.08))
            .axis_style(BLACK.mix(0.4))
            .label_style(label_font())
            .draw()?;
        let width = 0.9 / series.len() as f64;
        for (index, (name, values)) in series.iter().enumerate() {
            let colour = PALETTE[index % PALETTE.len()];
            let bar = |(place, value): (usize, &f64)| {
                let left = place as f64 + 0.05 + index as f64 * width;
                Rectangle::new([(left, 0.0), (left + width, *value)], colour.filled())
            };
            chart.draw_series(values.iter().enumerate().map(bar))?.label(name.clone()).legend(
                move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()),
            );
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.2))
            .label_font(label_font())
            .position(SeriesLabelPosition::UpperRight)
            .draw()?;
        root.present()?;
        Ok(())
    };
    drawn().map_err(|error| anyhow!("a chart cannot be drawn: {error}"))?;
    Ok(scalable(svg))
}

/// A chart scales with the page; its size in pixels is only its shape.
fn scalable(svg: String) -> String {
    let fixed = format!("width=\"{}\" height=\"{}\" ", SIZE.0, SIZE.1);
    svg.replacen(&fixed, "", 1)
}

pub(super) fn label_font() -> FontDesc<'static> {
    ("sans-serif", 13).into_font()
}

/// A tick of an axis over `span`: as many decimals as tell one tick from the next.
fn tick(value: f64, span: f64) -> String {
    if span > 10.0 {
        return format!("{value:.0}");
    }
    let decimals = (1.0 - span.max(1e-12).log10().floor()).clamp(1.0, 12.0) as usize;
    match decimals {
        0..=4 => format!("{value:.decimals$}"),
        _ => format!("{value:.1e}"),
    }
}

fn plot(
    svg: &mut String,
    axes: &Axes<'_>,
    lines: &[Line],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let range = |pick: fn(&(f64, f64)) -> f64| {
        let low = points().map(pick).fold(f64::INFINITY, f64::min);
        let high = points().map(pick).fold(f64::NEG_INFINITY, f64::max);
        (low, if high > low { high } else { low + 1.0 })
    };
    let (left, right) = range(|point| point.0);
    let (low, high) = axes.y_range.unwrap_or_else(|| {
        let (low, high) = range(|point| point.1);
        (low.min(0.0), high * 1.05)
    });
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let place = |x: f64| if axes.is_log { x.log2() } else { x };
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(52)
        .build_cartesian_2d(place(left)..place(right), low..high)?;
    let ticks = if axes.is_log { (right / left).log2().round() as usize + 1 } else { 6 };
    chart
        .configure_mesh()
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_labels(ticks)
        .x_label_formatter(&|x| {
            let x = if axes.is_log { x.exp2() } else { *x };
            if right > 10.0 { format!("{x:.0}") } else { format!("{x:.2}") }
        })
        .y_label_formatter(&|y| tick(*y, high - low))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.08))
        .axis_style(BLACK.mix(0.4))
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    for line in lines {
        let colour = PALETTE[line.colour % PALETTE.len()];
        let style = colour.stroke_width(if line.is_bold { 3 } else { 2 });
        if !line.band.is_empty() {
            let above = line.band.iter().map(|(x, _, high)| (place(*x), *high));
            let below = line.band.iter().rev().map(|(x, low, _)| (place(*x), *low));
            let outline: Vec<(f64, f64)> = above.chain(below).collect();
            chart.draw_series([Polygon::new(outline, colour.mix(0.12))])?;
        }
        let points = line.points.iter().map(|(x, y)| (place(*x), *y));
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(line.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        if let Some((x, y)) = line.mark {
            chart.draw_series([Circle::new((place(x), y), 5, colour.filled())])?;
        }
    }
    // Where curves of each kind leave room.
    let legend = match (axes.is_log, axes.y_range) {
        (true, None) => SeriesLabelPosition::UpperLeft,
        _ => SeriesLabelPosition::LowerRight,
    };
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .label_font(("sans-serif", 13))
        .position(legend)
        .draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::tick;

    #[test]
    fn ticks_differ_whatever_the_range() {
        for span in [1e-9, 3e-6, 2e-3, 0.04, 0.7, 1.0, 5.0, 40.0, 1e5] {
            let ticks: Vec<String> =
                (0..6).map(|i| tick(f64::from(i) * span / 5.0, span)).collect();
            let distinct: std::collections::HashSet<_> = ticks.iter().collect();
            assert_eq!(distinct.len(), 6, "{span}: {ticks:?}");
        }
    }
}
