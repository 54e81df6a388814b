//! Performance profile (Dolan & Moré 2002): for each scheduler, the share of the cases in which the ratio of its warm
//! time to the best scheduler's is at most the value on the horizontal axis.

use std::path::Path;

use plotters::prelude::*;

use super::{Took, statistics};
use crate::common::Result;

/// The largest ratio of the chart.
const MOST: f64 = 2.0;

/// Draws the profile.
pub(super) fn draw(rows: &[Took], path: &Path) -> Result<()> {
    let means = statistics::means(rows, |row| row.warm);
    let root = SVGBackend::new(path, (800, 480)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("Part of the cases within a ratio to the best scheduler", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(48)
        .build_cartesian_2d(1.0..MOST, 0.0..1.0)?;
    chart.configure_mesh().x_desc("time over that of the best").y_desc("part of the cases").draw()?;
    for (at, scheduler) in statistics::schedulers().enumerate() {
        let colour = Palette99::pick(at).to_rgba();
        let ratio = |(_, of_case): &(String, std::collections::BTreeMap<&str, crate::interval::Mean>)| {
            of_case[scheduler].0 / of_case.values().map(|(mean, _)| *mean).fold(f64::INFINITY, f64::min)
        };
        let mut ratios: Vec<f64> = means.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let part = |ratio: f64| ratios.partition_point(|other| *other <= ratio) as f64 / ratios.len() as f64;
        let points = (0..=400).map(|step| 1.0 + (MOST - 1.0) * f64::from(step) / 400.0);
        chart
            .draw_series(LineSeries::new(points.map(|x| (x, part(x * (1.0 + 1e-9)))), colour.stroke_width(2)))?
            .label(scheduler)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}
