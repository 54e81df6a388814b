//! Chart of the suite: a group of bars for each case.

use std::path::Path;

use plotters::prelude::*;

use super::{SCHEDULERS, Took};
use crate::common::Result;

/// Number of schedulers that the chart has room for.
const CHARTED: usize = 8;
/// Longer bars are cut here.
const MOST: f64 = 4.0;

/// Draws the times over the bound.
pub(super) fn draw(rows: &[Took], path: &Path) -> Result<()> {
    let root = SVGBackend::new(path, (1500, 520)).into_drawing_area();
    root.fill(&WHITE)?;
    let cases: Vec<&[Took]> =
        rows.chunk_by(|one, other| (&one.program, &one.machine) == (&other.program, &other.machine)).collect();
    let group = (CHARTED + 2) as f64;
    let across = 0.0..cases.len() as f64 * group;
    let mut chart = ChartBuilder::on(&root)
        .caption("Time over a lower bound (cut at 4)", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(60)
        .y_label_area_size(40)
        .build_cartesian_2d(across, 1.0..MOST)?;
    let name = |x: &f64| {
        let middle = (x % group - group / 2.0).abs() < 0.5;
        cases.get((x / group) as usize).filter(|_| middle).map_or_else(String::new, |case| {
            let program = case[0].program.split(',').next().unwrap_or_default();
            format!("{program} {}", case[0].machine.split('-').next().unwrap_or_default())
        })
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(cases.len() * 2 + 1)
        .x_label_formatter(&name)
        .x_label_style(("sans-serif", 10))
        .draw()?;
    for (s, scheduler) in SCHEDULERS[..CHARTED].iter().enumerate() {
        let colour = Palette99::pick(s).to_rgba();
        let bars = cases.iter().enumerate().filter_map(|(at, case)| {
            let row = case.iter().find(|row| row.scheduler == *scheduler)?;
            let x = at as f64 * group + 1.0 + s as f64;
            Some(Rectangle::new([(x, 1.0), (x + 0.9, row.ratio().clamp(1.0, MOST))], colour.filled()))
        });
        chart
            .draw_series(bars)?
            .label(*scheduler)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}
