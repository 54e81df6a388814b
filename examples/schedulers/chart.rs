//! Charts in the layout of the article's figures.

use std::path::Path;

use plotters::prelude::*;

use crate::common::Result;
use crate::configurations::{CHARTED, Configuration, SCHEDULERS};
use crate::evaluation::{Period, Row};
use npb::mz::Benchmark;

/// Width of a configuration's group of bars on the axis: a round number, so that labels can be in the middle.
const GROUP: f64 = 10.0;

/// Draws the chart of a benchmark, with a panel per number of GPUs. Each configuration is a group of bars, one per
/// scheduler, which stack the times of both periods; the speed-up of the computation period is above the bar.
pub(crate) fn draw(benchmark: Benchmark, rows: &[Row], path: &Path) -> Result<()> {
    let root = SVGBackend::new(path, (1500, 620)).into_drawing_area();
    root.fill(&WHITE)?;
    let name = format!("{benchmark:?}").to_uppercase();
    let title = format!("{name}-MZ: time per step (bars), speed-up of the computation over one CPU (circles)");
    let root = root.titled(&title, ("sans-serif", 22))?;
    let groups = |gpus: usize| -> Vec<Configuration> {
        let mut all = Configuration::all(benchmark);
        all.retain(|configuration| configuration.gpus == gpus && configuration.cores > 1);
        all
    };
    for (gpus, panel) in root.split_evenly((1, 3)).iter().enumerate() {
        panel_of(panel, &groups(gpus), rows, gpus)?;
    }
    root.present()?;
    Ok(())
}

fn panel_of(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    groups: &[Configuration],
    rows: &[Row],
    gpus: usize,
) -> Result<()> {
    let row = |configuration: Configuration, scheduler: &str| {
        rows.iter().find(|row| row.configuration == configuration && row.scheduler == scheduler)
    };
    let mine = || rows.iter().filter(|row| groups.contains(&row.configuration));
    let longest = mine().map(|row| row.measured.step()).fold(0.0, f64::max) * 1e3;
    let fastest = mine().map(|row| row.speed_up(Period::Computation)).fold(1.0, f64::max);
    let across = 0.0..groups.len() as f64 * GROUP;
    let headroom = if gpus == 0 { 1.5 } else { 1.1 }; // for the legend
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{gpus} GPU"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(52)
        .right_y_label_area_size(40)
        .build_cartesian_2d(across.clone(), 0.0..longest.max(1e-9) * headroom)?
        .set_secondary_coord(across, 0.0..fastest * headroom);
    let is_middle = |x: f64| (x % GROUP - GROUP / 2.0).abs() < 0.5;
    let name = |x: &f64| match groups.get((*x / GROUP) as usize) {
        Some(group) if is_middle(*x) => group.to_string(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(groups.len() * 2 + 1)
        .x_label_formatter(&name)
        .y_desc("ms per step (pale: communication)")
        .y_label_formatter(&|ms| format!("{ms:.0}"))
        .draw()?;
    chart.configure_secondary_axes().y_desc("speed-up").y_label_formatter(&|ratio| format!("{ratio:.0}")).draw()?;
    for (s, &scheduler) in SCHEDULERS[..CHARTED].iter().enumerate() {
        let colour = Palette99::pick(s).to_rgba();
        let place = |g: usize| g as f64 * GROUP + (GROUP - CHARTED as f64) / 2.0 + s as f64;
        let bars: Vec<(f64, f64, f64, f64)> = (groups.iter().enumerate())
            .filter_map(|(g, &configuration)| row(configuration, scheduler).map(|row| (g, row)))
            .map(|(g, row)| {
                let computation = 1e3 * row.measured.computation;
                (place(g), computation, 1e3 * row.measured.step(), row.speed_up(Period::Computation))
            })
            .collect();
        chart
            .draw_series(bars.iter().flat_map(|&(x, computation, overall, _)| {
                [
                    Rectangle::new([(x, 0.0), (x + 0.9, computation)], colour.filled()),
                    Rectangle::new([(x, computation), (x + 0.9, overall)], colour.mix(0.35).filled()),
                ]
            }))?
            .label(scheduler)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
        chart.draw_secondary_series(
            bars.iter().map(|&(x, _, _, speed_up)| Circle::new((x + 0.45, speed_up), 3, BLACK)),
        )?;
    }
    if gpus == 0 {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()?;
    }
    Ok(())
}
