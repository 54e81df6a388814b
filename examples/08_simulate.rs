//! A program on a simulated machine, to find out how long it would take on 64 cores and two GPUs and which scheduler
//! suits it best. Bodies do not run, and time is virtual: the machine file says how long tasks and copies take.

use std::path::Path;
use thalweg::prelude::*;

const N: usize = 1 << 24;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machines/epyc7742-2xmi50.toml");
    for scheduler in ["stealing", "priority", "eft", "dynamic"] {
        let machine = SimulatedMachine::from_file(&file)?;
        let rt = Runtime::builder().simulate(machine).scheduler(scheduler).build()?;
        let (x, y) = (rt.zeros::<f64, _>(N), rt.zeros::<f64, _>(N));
        for _ in 0..4 {
            rt.for_each("axpy", (x.blocks(N / 64).input(), y.blocks(N / 64).inout()))
                .cpu(|_, (x, y)| y.iter_mut().zip(x).for_each(|(y, x)| *y += 3.0 * x))
                .submit()?;
        }
        rt.wait()?;
        println!("{scheduler:>10}: {:?} on {}", rt.now(), rt.machine().configuration());
        assert!(!rt.now().is_zero());
    }
    Ok(())
}
