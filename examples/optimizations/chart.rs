//! Chart of the ratios: a bar for each contender, with the middle half of all rounds.

use super::{Result, Row, quantile};
use plotters::prelude::*;
use std::path::Path;

pub(crate) fn draw(rows: &[Row], units: &str, path: &Path) -> Result<()> {
    let root = SVGBackend::new(path, (760, 320)).into_drawing_area();
    root.fill(&WHITE)?;
    let highest = rows.iter().map(|row| quantile(&row.ratios, 0.75)).fold(1.0, f64::max) * 1.12;
    let count = rows.len() as f64;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("Gradient of a discontinuous Galerkin method on {units}"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(190)
        .build_cartesian_2d(0.0..highest, 0.0..count)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .x_desc("time, by that of the generated kernel with all optimizations; lines: the middle half of all rounds")
        .draw()?;
    for (n, row) in rows.iter().enumerate() {
        let bottom = count - 1.0 - n as f64;
        let [ratio, low, high] = [0.5, 0.25, 0.75].map(|part| quantile(&row.ratios, part));
        let colour = Palette99::pick(if row.name == "by hand" { 1 } else { 0 }).mix(0.8);
        chart.draw_series([Rectangle::new([(0.0, bottom + 0.18), (ratio, bottom + 0.82)], colour.filled())])?;
        chart.draw_series([PathElement::new([(low, bottom + 0.5), (high, bottom + 0.5)], BLACK.stroke_width(2))])?;
        let (x, y) = chart.backend_coord(&(0.0, bottom + 0.5));
        let style = ("sans-serif", 14).into_text_style(&root);
        root.draw_text(row.name, &style, (x - 180, y - 8))?;
        let (x, y) = chart.backend_coord(&(high.max(ratio), bottom + 0.5));
        root.draw_text(&format!("{ratio:.2}"), &style, (x + 6, y - 8))?;
    }
    root.present()?;
    Ok(())
}
