//! Line charts as SVG text.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

/// Width and height of a chart.
const SIZE: (u32, u32) = (560, 340);

/// One line of a chart.
pub(super) struct Line {
    /// What the legend calls it.
    pub(super) name: String,
    /// Which colour of the palette; lines of one objective share it.
    pub(super) colour: usize,
    /// Drawn thick, for the base.
    pub(super) is_bold: bool,
    /// The points, in order of x.
    pub(super) points: Vec<(f64, f64)>,
    /// A point to mark with a dot.
    pub(super) mark: Option<(f64, f64)>,
}

/// What is on the axes.
pub(super) struct Axes<'a> {
    /// Below the horizontal axis.
    pub(super) x: &'a str,
    /// Beside the vertical axis.
    pub(super) y: &'a str,
    /// Whether x is logarithmic, base 2.
    pub(super) is_log: bool,
    /// The lowest and highest y, or the data's own.
    pub(super) y_range: Option<(f64, f64)>,
}

/// Colours that people with any colour vision tell apart (Okabe and Ito), black for the base.
const PALETTE: [RGBColor; 7] = [
    RGBColor(20, 20, 20),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Draws the lines.
pub(super) fn draw(axes: &Axes<'_>, lines: &[Line]) -> Result<String> {
    let mut svg = String::new();
    plot(&mut svg, axes, lines).map_err(|error| anyhow!("a chart cannot be drawn: {error}"))?;
    // A chart scales with the page; its size in pixels is only its shape.
    let fixed = format!("width=\"{}\" height=\"{}\" ", SIZE.0, SIZE.1);
    Ok(svg.replacen(&fixed, "", 1))
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
            if axes.is_log { format!("{:.0}", x.exp2()) } else { format!("{x:.0}") }
        })
        .y_label_formatter(&|y| if high > 10.0 { format!("{y:.0}") } else { format!("{y:.1}") })
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.08))
        .axis_style(BLACK.mix(0.4))
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    for line in lines {
        let colour = PALETTE[line.colour % PALETTE.len()];
        let style = colour.stroke_width(if line.is_bold { 3 } else { 2 });
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
