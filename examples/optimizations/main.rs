//! Effect of MACC's three optimizations on the kernel of a discontinuous Galerkin method. Each optimization is switched
//! off in turn, and the results are compared with the hand-written kernel. Prints a table; `--out` also writes a CSV
//! file and a chart.
//!
//! ```text
//! cargo run --release --example optimizations -- --units 1:OPENCL:1 --out docs/evaluation
//! ```
//!
//! Contenders are interleaved. The reported figure is the median ratio to the kernel with all optimizations, taken
//! within each round.

mod chart;
mod gradient;

use clap::Parser;
use gradient::{BY_HAND, NX, POINTS, advance, without_all, without_innermost_first, without_once, without_team_memory};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;
use thalweg::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Measures the optimizations of annotated loops
#[derive(Parser)]
struct Options {
    /// Unit that runs the kernels
    #[arg(long, value_name = "UNITS", default_value = "1:OPENCL:1")]
    units: String,
    /// Elements of the mesh
    #[arg(long, value_name = "N", default_value = "16384")]
    size: usize,
    /// Rounds of all contenders
    #[arg(long, value_name = "N", default_value = "21")]
    rounds: usize,
    /// Tasks timed together
    #[arg(long, value_name = "N", default_value = "10")]
    tasks: usize,
    /// Folder for optimizations.csv and optimizations.svg
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A contender: its name, and the time of its tasks in each round.
struct Row {
    name: &'static str,
    seconds: Vec<f64>,
    /// Ratios to the first contender in the same round.
    ratios: Vec<f64>,
}

/// Returns the quantile of `values` at the fraction `part`.
fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

fn measure(options: &Options) -> Result<Vec<Row>> {
    let rt = Runtime::builder().compute_units(&options.units).build()?;
    let constants = [POINTS, POINTS, NX].map(|n| (0..n).map(|i| (i % 5) as f64 * 0.1).collect::<Vec<_>>());
    let [der, delta, weights] = constants.map(|values| rt.data(values));
    let begin = |salt: usize| (0..options.size * POINTS).map(|i| ((i * salt) % 17) as f64 / 8.0).collect::<Vec<_>>();
    let fresh = || (rt.data(begin(3)), rt.data(begin(5)));
    type Submit<'a> = &'a dyn Fn(&Data<f64>, &Data<f64>) -> std::result::Result<TaskId, SubmitError>;
    let dt = 1e-9;
    macro_rules! made {
        ($name:ident) => {
            &|x, y| $name::task(&rt, &der, &delta, &weights, dt, x, y).submit()
        };
    }
    let by_hand: Submit<'_> = &|x, y| {
        let task = rt.task("by hand", (der.input(), delta.input(), weights.input(), x.inout(), y.inout()));
        task.gpu(move |k, (der, delta, weights, mut x, mut y)| {
            let elements = x.len() / POINTS;
            k.launch(&BY_HAND, elements * POINTS, (&der, &delta, &weights, dt, &mut x, &mut y, elements as i32))
        })
        .submit()
    };
    let contenders: [(&'static str, Submit<'_>); 6] = [
        ("all optimizations", made!(advance)),
        ("by hand", by_hand),
        ("without team memory", made!(without_team_memory)),
        ("without once", made!(without_once)),
        ("without innermost first", made!(without_innermost_first)),
        ("without all three", made!(without_all)),
    ];
    // All contenders must compute the same results, which are bit-identical if the compiler fuses no operations. This
    // run also compiles the kernels.
    let mut results = Vec::new();
    for (_, submit) in &contenders {
        let (x, y) = fresh();
        submit(&x, &y)?;
        results.push((rt.take(x)?, rt.take(y)?));
    }
    let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-12 * a.abs().max(1.0));
    if !results.iter().all(|(x, y)| near(x, &results[0].0) && near(y, &results[0].1)) {
        return Err("the contenders have different results".into());
    }
    let (x, y) = fresh();
    let mut rows: Vec<Row> =
        contenders.iter().map(|(name, _)| Row { name, seconds: Vec::new(), ratios: Vec::new() }).collect();
    for _ in 0..options.rounds {
        for ((_, submit), row) in contenders.iter().zip(&mut rows) {
            let start = Instant::now();
            for _ in 0..options.tasks {
                submit(&x, &y)?;
            }
            rt.wait()?;
            row.seconds.push(start.elapsed().as_secs_f64() / options.tasks as f64);
        }
        let first = rows[0].seconds.last().copied().unwrap_or(f64::NAN);
        rows.iter_mut().for_each(|row| row.ratios.push(row.seconds.last().map_or(f64::NAN, |time| time / first)));
    }
    Ok(rows)
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.rounds == 0 || options.tasks == 0 || options.size == 0 {
        return Err("cannot measure without work: `--rounds`, `--tasks` and `--size` must be at least 1".into());
    }
    let rows = measure(&options)?;
    let mut table = "contender,microseconds,ratio,ratio_low,ratio_high\n".to_owned();
    println!("{:<26} {:>12} {:>8} {:>16}", "contender", "median", "ratio", "quarter to 3/4");
    for Row { name, seconds, ratios } in &rows {
        let [ratio, low, high] = [0.5, 0.25, 0.75].map(|part| quantile(ratios, part));
        let time = quantile(seconds, 0.5) * 1e6;
        println!("{name:<26} {time:>9.1} µs {ratio:>8.3} {low:>8.3} {high:>7.3}");
        writeln!(table, "{name},{time:.2},{ratio:.4},{low:.4},{high:.4}")?;
    }
    if let Some(folder) = &options.out {
        std::fs::write(folder.join("optimizations.csv"), table)?;
        chart::draw(&rows, &options.units, &folder.join("optimizations.svg"))?;
    }
    Ok(())
}
