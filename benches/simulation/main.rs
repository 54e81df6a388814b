//! Whether a simulation tells the time: one program really run, on two CPU units and two emulated devices of half the
//! speed, and simulated on a machine file that describes those.
//!
//! `cargo bench --bench simulation` prints both times of each repetition. The simulated machine's task times are calibrated
//! with those of the real run, which a busy machine makes longer than asked for; what has to agree is all the rest: who gets
//! what when, and the copies. With `--check` it fails if not even the best repetition agrees to 10 %.

#[path = "../../tests/common/emulated.rs"]
mod emulated;
#[path = "../harness/report.rs"]
#[allow(dead_code)] // this bench writes no JSON
mod report;

use clap::Parser;
use report::Table;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg::prelude::*;

const UNITS: &str = "2:CPU:1,2:EMU:1";
/// How far the simulated time may be from the real one, relatively.
const ALLOWED: f64 = 0.1;

/// A simulated run beside a real one
#[derive(Debug, Parser)]
struct Arguments {
    /// How often both are run
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Fail if no repetition agrees to 10 %
    #[arg(long)]
    check: bool,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Chains of tasks that sleep for a known time, over twelve data; how long it took by the clock on the wall, and how many
/// milliseconds the tasks on CPU units and on devices were to sleep together.
fn sleepers(rt: &Runtime) -> Result<(Duration, [u64; 2]), Box<dyn std::error::Error>> {
    let asked: Arc<[AtomicU64; 2]> = Arc::default();
    let data: Vec<Data<u8>> = (0..12).map(|_| rt.zeros(2_000_000)).collect();
    let start = Instant::now();
    for round in 0..12 {
        for (i, x) in data.iter().enumerate() {
            let (ms, asked) = (4 + ((i + round) % 4) as u64, asked.clone());
            let body = move |unit: &Context, _: (&mut [u8],)| {
                std::thread::sleep(Duration::from_millis(ms));
                asked[usize::from(!unit.is_cpu())].fetch_add(ms, Ordering::Relaxed);
            };
            rt.task("sleep", (x.inout(),)).cost(ms as f64).cpu(body).submit()?;
        }
    }
    rt.wait()?;
    Ok((start.elapsed(), [0, 1].map(|kind| asked[kind].load(Ordering::Relaxed))))
}

/// The real and the simulated time.
fn both() -> Result<[Duration; 2], Box<dyn std::error::Error>> {
    let device = EmulatedDevice::new().capacity_bytes(100_000_000).speed(0.5);
    let device = device.copy_delay(Duration::from_micros(500), 2e9);
    let builder = Runtime::builder().compute_units(UNITS).scheduler("dynamic");
    let rt = builder.emulated_devices(move |_| device.clone()).build()?;
    let (real, asked) = sleepers(&rt)?;
    let busy = rt.statistics().busy;
    let ratio = |units: &[(UnitId, Duration)], asked: u64| {
        units.iter().map(|(_, busy)| busy.as_secs_f64()).sum::<f64>() * 1e3 / asked as f64
    };
    let ms_in_ns = [ratio(&busy[..2], asked[0]), ratio(&busy[2..], asked[1])].map(|ms| ms * 1e6);
    let model = emulated::machine(4, 2, "sleep", ms_in_ns);
    let rt = Runtime::builder().compute_units(UNITS).scheduler("dynamic").simulate(model).build()?;
    sleepers(&rt)?;
    Ok([real, rt.now()])
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut table = Table::new("repetition", &["real, ms", "simulated, ms", "difference"]);
    let mut least = f64::INFINITY;
    for repetition in 1..=arguments.repetitions {
        let [real, simulated] = match both() {
            Ok(times) => times,
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        };
        let difference = simulated.as_secs_f64() / real.as_secs_f64() - 1.0;
        least = least.min(difference.abs());
        let ms = |time: Duration| Some(format!("{:.1}", time.as_secs_f64() * 1e3));
        table.row(&repetition.to_string(), [ms(real), ms(simulated), Some(format!("{:+.1} %", difference * 100.0))]);
    }
    table.print("Simulated and real");
    if arguments.check && least > ALLOWED {
        println!("no repetition agrees to {:.0} %", ALLOWED * 100.0);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
