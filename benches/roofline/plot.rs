//! Picture of the rooflines: a panel for each number of units, the roofs of memory and of every cache, and a mark
//! for each stage in each class.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::machine::Machine;
use crate::report::Report;
use crate::roof::Row;

const PANEL: (u32, u32) = (820, 720);
/// Range of the horizontal axis, in operations per byte.
const ACROSS: [f64; 2] = [0.03, 40.0];
/// The programs' colours.
const COLOURS: [(&str, RGBColor); 5] = [
    ("BT-MZ", RGBColor(31, 119, 180)),
    ("SP-MZ", RGBColor(214, 39, 40)),
    ("LU-MZ", RGBColor(44, 160, 44)),
    ("CG", RGBColor(148, 103, 189)),
    ("Jacobi", RGBColor(255, 127, 14)),
];
/// Stages whose intensities differ by less than this factor share a line and a label.
const ALIKE: f64 = 1.06;
/// Roofs that differ from the next one by less than this factor share a label.
const NEAR: f64 = 1.5;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Panel<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<LogCoord<f64>, LogCoord<f64>>>;

/// Draws all panels in a row.
pub(crate) fn draw(report: &Report, path: &Path) -> Result<(), Box<dyn Error>> {
    let (width, height) = PANEL;
    let root = SVGBackend::new(path, (width * report.machines.len() as u32, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let top = report.machines.iter().map(|machine| machine.peak * 1e-9).fold(1.0, f64::max) * 2.0;
    let rates = report.rows.iter().map(|row| row.operations_per_s * 1e-9).filter(|rate| *rate > 0.0);
    let bottom = rates.fold(top, f64::min) / 8.0;
    for (panel, machine) in root.split_evenly((1, report.machines.len())).iter().zip(&report.machines) {
        let of_units = |row: &&Row| row.measured.units == machine.units && row.operations_per_s > 0.0;
        let rows: Vec<&Row> = report.rows.iter().filter(of_units).collect();
        draw_panel(panel, machine, &rows, bottom..top)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(
    area: &Area<'_>,
    machine: &Machine,
    rows: &[&Row],
    down: std::ops::Range<f64>,
) -> Result<(), Box<dyn Error>> {
    let [left, right] = ACROSS;
    let (bottom, top) = (down.start, down.end);
    let units = machine.units;
    let mut chart: Panel<'_, '_> = ChartBuilder::on(area)
        .caption(format!("{units} unit{}", if units == 1 { "" } else { "s" }), ("sans-serif", 20))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d((left..right).log_scale(), (bottom..top).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("operations per byte (least bytes)")
        .y_desc("Gflop/s")
        .draw()?;

    let peak = machine.peak * 1e-9;
    for level in &machine.levels {
        let slope = level.triad * 1e-9;
        let ridge = peak / slope;
        let begin = left.max(bottom / slope);
        let line = [(begin, begin * slope), (ridge, peak), (right, peak)];
        chart.draw_series(LineSeries::new(line, BLACK.stroke_width(1)))?;
    }
    for near in machine.levels.chunk_by(|nearer, farther| nearer.triad < farther.triad * NEAR) {
        let [fastest, slowest] = [&near[0], &near[near.len() - 1]];
        let [from, to] = [fastest, slowest].map(|level| level.triad * 1e-9);
        let name = match near.len() {
            1 => format!("{} {from:.0} GB/s", fastest.name),
            _ => format!("{} to {}: {from:.0} to {to:.0} GB/s", fastest.name, slowest.name),
        };
        let across = left.max(bottom / to) * 1.3;
        let style = ("sans-serif", 12).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Top));
        chart.draw_series([Text::new(name, (across, across * to), style)])?;
    }
    let style = ("sans-serif", 12).into_font().color(&BLACK).pos(Pos::new(HPos::Right, VPos::Bottom));
    chart.draw_series([Text::new(format!("peak {peak:.0} Gflop/s"), (right / 1.1, peak * 1.05), style)])?;

    draw_names(&mut chart, rows, bottom)?;
    for (program, colour) in COLOURS {
        let of_program: Vec<&&Row> = rows.iter().filter(|row| row.measured.program == program).collect();
        if of_program.is_empty() {
            continue;
        }
        let marks = of_program.iter().map(|row| mark(row, colour));
        chart
            .draw_series(marks)?
            .label(program)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
    }
    for class in ['S', 'W', 'A', 'B', 'C'] {
        if rows.iter().any(|row| row.measured.class == class) {
            let size = size_of_class(class);
            chart
                .draw_series(std::iter::empty::<Circle<(f64, f64), i32>>())?
                .label(format!("class {class}"))
                .legend(move |(x, y)| Circle::new((x + 5, y), size, BLACK.stroke_width(1)));
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}

/// Returns the size of the circles for a class, which grows with the problem size.
fn size_of_class(class: char) -> i32 {
    match class {
        'S' => 2,
        'W' => 3,
        'A' => 5,
        'B' => 7,
        _ => 9,
    }
}

fn mark(row: &Row, colour: RGBColor) -> Circle<(f64, f64), i32> {
    let at = (row.intensity, row.operations_per_s * 1e-9);
    Circle::new(at, size_of_class(row.measured.class), colour.stroke_width(2))
}

/// Draws a thin line for each intensity and labels it with the stages of this intensity. The intensities are taken from
/// the last class, because they differ a little from class to class due to the zones' boundaries.
fn draw_names(chart: &mut Panel<'_, '_>, rows: &[&Row], bottom: f64) -> Result<(), Box<dyn Error>> {
    let Some(last) = rows.last().map(|row| row.measured.class) else { return Ok(()) };
    let mut sorted: Vec<&Row> = rows.iter().copied().filter(|row| row.measured.class == last).collect();
    sorted.sort_by(|a, b| a.intensity.total_cmp(&b.intensity));
    for alike in sorted.chunk_by(|a, b| b.intensity < a.intensity * ALIKE) {
        let mut names: Vec<String> = Vec::new();
        let mut highest = bottom;
        for row in alike {
            highest = highest.max(row.operations_per_s * 1e-9);
            let name = format!("{} {}", row.measured.program, row.measured.stage);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let across = alike[alike.len() / 2].intensity;
        chart.draw_series(LineSeries::new([(across, bottom), (across, highest)], BLACK.mix(0.2)))?;
        let style = ("sans-serif", 11).into_font().transform(FontTransform::Rotate270).color(&BLACK);
        let style = style.pos(Pos::new(HPos::Left, VPos::Bottom));
        chart.draw_series([Text::new(names.join(", "), (across, bottom * 1.05), style)])?;
    }
    Ok(())
}
