//! Charts of efficiency over the number of nodes.

use std::path::Path;

use plotters::prelude::*;

use crate::{Result, Row};

/// Draws the efficiencies of all programs on one machine.
pub(crate) fn draw(machine: &str, rows: &[Row], path: &Path) -> Result<()> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.machine == machine).collect();
    let programs: Vec<&[&Row]> = rows.chunk_by(|one, other| one.program == other.program).collect();
    let most = rows.iter().map(|row| row.nodes).max().unwrap_or(1) as f64;
    let root = SVGBackend::new(path, (900, 480)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("Efficiency against one node ({machine}.toml)"), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(48)
        .build_cartesian_2d((1.0..most * 1.1).log_scale().base(2.0), 0.0..1.05)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).x_desc("nodes").x_label_formatter(&|nodes| format!("{nodes:.0}")).draw()?;
    for (number, program) in programs.iter().enumerate() {
        let colour = Palette99::pick(number).to_rgba();
        let [first, ..] = program else { continue };
        let one = first.seconds * first.nodes as f64;
        let point = |row: &&Row| (row.nodes as f64, one / (row.nodes as f64 * row.seconds));
        chart
            .draw_series(LineSeries::new(program.iter().map(point), colour.stroke_width(2)).point_size(3))?
            .label(&first.program)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}
