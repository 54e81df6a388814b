//! The steps of `clustered-guided`: the busy time of a CPU unit and of a GPU in each time step until the search has
//! ended, as in figures 11 and 13 of the article.

use std::fmt::Write as _;
use std::path::Path;

use npb::mz::{Benchmark, Class, Exchange, Program};
use plotters::prelude::*;
use thalweg::machine::UnitKind;
use thalweg::{Runtime, SimulatedMachine};

use crate::common::Result;
use crate::configurations::Configuration;
use crate::evaluation::{Place, Task, runtime, settings};

/// The configurations of figures 11 and 13.
const FIGURES: [Configuration; 2] = [
    Configuration { benchmark: Benchmark::Bt, cores: 32, gpus: 2 },
    Configuration { benchmark: Benchmark::Lu, cores: 64, gpus: 1 },
];
const SCHEDULER: &str = "clustered-guided";
/// Number of steps, which is above the bound 4 log2(1024) on those of a search.
const STEPS: usize = 50;

/// Mean busy seconds of a unit in a time step, exchanges included.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    cpu: f64,
    gpu: f64,
}

/// Runs the configurations, and writes `evolution.csv` and a chart for each.
///
/// # Errors
/// If a run fails, or a file cannot be written.
pub(crate) fn write(machine: &SimulatedMachine, folder: &Path) -> Result<()> {
    let mut text = "benchmark,configuration,step,cpu_s,gpu_s\n".to_owned();
    for configuration in FIGURES {
        let steps = run(machine, configuration)?;
        for (n, Step { cpu, gpu }) in steps.iter().enumerate() {
            let _ = writeln!(text, "{:?},{configuration},{},{cpu:.9},{gpu:.9}", configuration.benchmark, n + 1);
        }
        let name = format!("evolution_{:?}.svg", configuration.benchmark).to_lowercase();
        draw(configuration, &steps, &folder.join(name))?;
    }
    Ok(std::fs::write(folder.join("evolution.csv"), text)?)
}

fn run(machine: &SimulatedMachine, configuration: Configuration) -> Result<Vec<Step>> {
    let (benchmark, class, units) = (configuration.benchmark, Class::D, configuration.units());
    let task = Task { benchmark, class, units: &units, scheduler: SCHEDULER, steps: STEPS };
    let rt = runtime(&Place::Simulated(machine.clone()), task)?;
    let program = Program::new(&rt, benchmark, &benchmark.problem(class), settings(STEPS));
    program.prepare()?;
    let mut before = busy(&rt);
    (0..STEPS)
        .map(|_| {
            program.step(Exchange::Together)?;
            let now = busy(&rt);
            let step = Step { cpu: now.cpu - before.cpu, gpu: now.gpu - before.gpu };
            before = now;
            Ok(step)
        })
        .collect()
}

/// Returns the mean busy time of the units of each kind so far.
fn busy(rt: &Runtime) -> Step {
    let times = rt.statistics().busy;
    let mean = |of_cpu: bool| {
        let mine = times.iter().filter(|(unit, _)| (rt.machine().unit(*unit).kind == UnitKind::Cpu) == of_cpu);
        let seconds: Vec<f64> = mine.map(|(_, time)| time.as_secs_f64()).collect();
        seconds.iter().sum::<f64>() / seconds.len().max(1) as f64
    };
    Step { cpu: mean(true), gpu: mean(false) }
}

fn draw(configuration: Configuration, steps: &[Step], path: &Path) -> Result<()> {
    let root = SVGBackend::new(path, (760, 380)).into_drawing_area();
    root.fill(&WHITE)?;
    let name = format!("{:?}", configuration.benchmark).to_uppercase();
    let most = steps.iter().map(|step| step.cpu.max(step.gpu)).fold(0.0, f64::max) * 1e3;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{name}-MZ, {configuration}, {SCHEDULER}"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(52)
        .build_cartesian_2d(1..steps.len(), 0.0..most * 1.05)?;
    chart
        .configure_mesh()
        .x_desc("time step")
        .y_desc("busy ms of a unit")
        .y_label_formatter(&|ms| format!("{ms:.0}"))
        .draw()?;
    let lines: [(&str, fn(&Step) -> f64); 2] = [("CPU units", |step| step.cpu), ("GPUs", |step| step.gpu)];
    for (n, (label, time)) in lines.into_iter().enumerate() {
        let colour = Palette99::pick(n).to_rgba();
        let points = steps.iter().enumerate().map(|(step, times)| (step + 1, 1e3 * time(times)));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(2))?
            .label(label)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
    }
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 13: after a few steps both kinds are busy for the same time.
    #[test]
    fn lu_on_63_cores_and_a_gpu_balances_within_its_search() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/epyc7742-2xmi50.toml");
        let machine = SimulatedMachine::from_file(file).unwrap().with_noise(0, 0.0);
        let steps = run(&machine, FIGURES[1]).unwrap();
        let longest = |step: &Step| step.cpu.max(step.gpu);
        let (first, last) = (longest(&steps[0]), longest(&steps[STEPS - 1]));
        assert!(last < first, "{first} s become {last} s");
        let settled = &steps[STEPS - 10..];
        assert!(settled.iter().all(|step| (step.cpu / step.gpu - 1.0).abs() < 0.1), "{settled:?}");
    }
}
