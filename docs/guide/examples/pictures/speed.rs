//! Speed-ups of some programs under each scheduler, on one simulated machine.

use crate::Result;
use crate::mesh::{SIDE, areas, neighbours};
use crate::svg::Svg;
use thalweg::prelude::*;
use thalweg::sched::NAMES;

/// Eight cores, two of them hosting GPUs. A zone of mean size takes a core 1 ms and a GPU an eighth of that.
const MACHINE: &str = r#"
    name = "six cores beside two GPUs"
    [units.CPU]
    count = 8
    bytes_per_s = 10e9
    [units.GPU]
    count = 2
    memory_bytes = 8_000_000_000
    launch_ns = 5_000
    bytes_per_s = 400e9
    [[links]]
    between = ["host", "GPU"]
    latency_ns = 10_000
    bytes_per_s = 12e9
    [[tasks]]
    name = "zone"
    cost = 1
    time_ns = { CPU = { 1 = 1_000_000 }, GPU = { 1 = 125_000 } }
    [[tasks]]
    name = "potrf"
    time_ns = { CPU = { 1 = 1_000_000 }, GPU = { 1 = 900_000 } }
    [[tasks]]
    name = "trsm"
    time_ns = { CPU = { 1 = 2_000_000 }, GPU = { 1 = 400_000 } }
    [[tasks]]
    name = "syrk"
    time_ns = { CPU = { 1 = 2_000_000 }, GPU = { 1 = 250_000 } }
    [[tasks]]
    name = "gemm"
    time_ns = { CPU = { 1 = 4_000_000 }, GPU = { 1 = 300_000 } }
"#;

/// Warm-up steps, in which schedulers learn, and timed steps.
const STEPS: [usize; 2] = [20, 40];

pub(crate) fn draw() -> Result<String> {
    let online = ["stealing", "dynamic", "eft", "eft:bytes_per_s=1e13", "priority"];
    let programs: [(&str, &[&str], Program); 4] = [
        ("equal zones in time steps", NAMES, |scheduler| zones(scheduler, true)),
        ("zones of unequal size in time steps", NAMES, |scheduler| zones(scheduler, false)),
        ("Cholesky factorization, 8 x 8 tiles: few tasks side by side", &online, cholesky::<8>),
        ("Cholesky factorization, 24 x 24 tiles: many", &online, cholesky::<24>),
    ];
    let (left, unit, row) = (160.0, 18.0, 20.0);
    let rows: usize = programs.iter().map(|(_, schedulers, _)| schedulers.len() + 3).sum();
    let mut picture = Svg::new(left + 27.0 * unit + 60.0, rows as f64 * row + 20.0);
    let mut y = 24.0;
    for (title, schedulers, program) in programs {
        picture.text([10.0, y], 14.0, "start", title);
        y += row;
        for scheduler in schedulers {
            let speed_up = program(scheduler)?;
            println!("{title}: {scheduler} {speed_up:.1}");
            picture.text([left - 8.0, y], 12.0, "end", scheduler);
            picture.rectangle([left, y - 12.0, speed_up * unit, 15.0], "#4292c6");
            picture.text([left + speed_up * unit + 5.0, y], 12.0, "start", &format!("{speed_up:.1}"));
            y += row;
        }
        y += 2.0 * row;
    }
    picture.text([10.0, y - row], 11.0, "start", "speed-up over one core; six cores and two GPUs, simulated");
    Ok(picture.finish())
}

/// Returns a program's speed-up over one core under a scheduler.
type Program = fn(&str) -> Result<f64>;

/// A mesh in which each zone computes a step from its own state and its neighbours' faces.
fn zones(scheduler: &str, equal: bool) -> Result<f64> {
    let rt = runtime(scheduler)?;
    let (areas, beside) = (areas(equal), neighbours());
    let state: Vec<_> = areas.iter().map(|area| rt.zeros::<f64, _>((area * 131_072.0) as usize)).collect();
    let faces = || -> Vec<_> { areas.iter().map(|area| rt.zeros::<f64, _>((area.sqrt() * 4096.0) as usize)).collect() };
    let (mut old, mut new) = (faces(), faces());
    let space = IterationSpace::new("zones", areas.clone()).with_neighbours(beside.clone());
    let mut counted = [0.0; 2];
    for (steps, seconds) in STEPS.into_iter().zip(&mut counted) {
        let begin = rt.now();
        for _ in 0..steps {
            space.begin();
            for zone in 0..SIDE * SIDE {
                let around: Vec<_> = beside[zone].iter().map(|&other| old[other].input()).collect();
                rt.task("zone", (state[zone].inout(), around, new[zone].output()))
                    .cpu(|_, _| ())
                    .cost(areas[zone])
                    .at(&space, zone)
                    .submit()?;
            }
            std::mem::swap(&mut old, &mut new);
        }
        rt.wait()?;
        *seconds = (rt.now() - begin).as_secs_f64();
    }
    Ok(areas.iter().sum::<f64>() * 1e-3 * STEPS[1] as f64 / counted[1])
}

/// A factorization in tiles of 2 MB; the tasks on the critical path are urgent.
fn cholesky<const N: usize>(scheduler: &str) -> Result<f64> {
    let rt = runtime(scheduler)?;
    let tiles: Vec<Vec<_>> = (0..N).map(|_| (0..N).map(|_| rt.zeros::<f64, _>(1 << 18)).collect()).collect();
    let mut serial_ms = 0.0;
    for k in 0..N {
        let urgency = (N - k) as i32;
        rt.task("potrf", (tiles[k][k].inout(),)).cpu(|_, _| ()).priority(3 * urgency).submit()?;
        serial_ms += 1.0;
        for row in &tiles[k + 1..] {
            let accesses = (tiles[k][k].input(), row[k].inout());
            rt.task("trsm", accesses).cpu(|_, _| ()).priority(2 * urgency).submit()?;
            serial_ms += 2.0;
        }
        for i in k + 1..N {
            rt.task("syrk", (tiles[i][k].input(), tiles[i][i].inout())).cpu(|_, _| ()).priority(urgency).submit()?;
            serial_ms += 2.0;
            for j in k + 1..i {
                let accesses = (tiles[i][k].input(), tiles[j][k].input(), tiles[i][j].inout());
                rt.task("gemm", accesses).cpu(|_, _| ()).priority(urgency).submit()?;
                serial_ms += 4.0;
            }
        }
    }
    rt.wait()?;
    Ok(serial_ms * 1e-3 / rt.now().as_secs_f64())
}

fn runtime(scheduler: &str) -> Result<Runtime> {
    let builder = Runtime::builder().compute_units("6:CPU:1,2:GPU:1").simulate(MACHINE.parse()?);
    Ok(builder.scheduler(scheduler).build()?)
}
