//! Chart of the comparison, with times on the left, energies on the right, and a group of bars for each size.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::Row;
use crate::common::Result;

pub(crate) fn draw(name: &str, rows: &[Row], path: &Path) -> Result<()> {
    let root = SVGBackend::new(path, (1200, 460)).into_drawing_area();
    root.fill(&WHITE)?;
    let root = root.titled(&format!("{name}: one step, by size"), ("sans-serif", 20))?;
    let (left, right) = root.split_horizontally(600);
    panel(&left, rows, "seconds", &|row| Some(row.seconds), true)?;
    panel(&right, rows, "joules of dynamic energy", &|row| row.joules, false)?;
    root.present()?;
    Ok(())
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    rows: &[Row],
    what: &str,
    value: &dyn Fn(&Row) -> Option<f64>,
    legend: bool,
) -> Result<()> {
    let mut sizes: Vec<usize> = rows.iter().map(|row| row.size).collect();
    sizes.dedup();
    let kinds: Vec<&str> = rows.iter().filter(|row| row.size == sizes[0]).map(|row| row.who).collect();
    // Each group is two units wide, so that its middle is at an integer, where the ticks are.
    let bar = 2.0 / (kinds.len() as f64 + 2.0);
    let highest = rows.iter().filter_map(value).fold(0.0, f64::max).max(1e-12);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..2.0 * sizes.len() as f64, 0.0..highest * 1.1)?;
    let label = |x: &f64| match sizes.get((*x / 2.0) as usize) {
        Some(size) if (*x % 2.0 - 1.0).abs() < 0.25 => size.to_string(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(sizes.len() * 2 + 1)
        .x_label_formatter(&label)
        .y_desc(what)
        .draw()?;
    for (k, kind) in kinds.iter().enumerate() {
        let colour = Palette99::pick(k).to_rgba();
        let drawn = |row: &Row| {
            let x = sizes.iter().position(|size| *size == row.size)? as f64 * 2.0 + (1.0 + k as f64) * bar;
            Some(Rectangle::new([(x, 0.0), (x + 0.9 * bar, value(row)?)], colour.filled()))
        };
        chart
            .draw_series(rows.iter().filter(|row| row.who == *kind).filter_map(drawn))?
            .label(*kind)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
    }
    if legend {
        let labels = &mut chart.configure_series_labels();
        labels.position(SeriesLabelPosition::UpperLeft).background_style(WHITE).border_style(BLACK).draw()?;
    }
    Ok(())
}
