//! Several devices in one unit: loops that give each device its part, a task across all devices, and a task on a chosen
//! device.
//!
//! Heat spreads along a rod. Each device keeps its part of the rod, and gets from its neighbours only the cells at its
//! ends. Every few steps, a task across the devices computes the total change from the parts of all devices, and gives
//! the result to each of them. At the end, one device collects the whole rod. In between, the host reads one number
//! per check.
//!
//! The devices are emulated, so the program runs on any machine.

use thalweg::prelude::*;

const CELLS: usize = 1 << 10;
const STEPS: usize = 400;
const STEPS_PER_CHECK: usize = 50;

/// Computes the next state of `new.len()` cells from their old state. `old` has one more cell on each side that has a
/// neighbour.
fn relax(old: &[f64], is_first: bool, new: &mut [f64]) {
    let first = usize::from(!is_first);
    for (i, new) in new.iter_mut().enumerate() {
        let here = first + i;
        let left = if here > 0 { old[here - 1] } else { 1.0 }; // the heated end
        let right = old.get(here + 1).copied().unwrap_or(0.0); // the cooled end
        *new = old[here] + (left - 2.0 * old[here] + right) / 4.0;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rt = Runtime::builder().compute_units("1:EMU:4").build()?; // one unit of four devices
    let devices = &rt.machine().unit(UnitId(0)).devices;
    let part = CELLS / devices.len();
    let (mut old, mut new) = (rt.zeros::<f64, _>(CELLS), rt.zeros::<f64, _>(CELLS));
    let change = rt.zeros::<f64, _>(devices.len());
    for step in 1..=STEPS {
        rt.for_each("relax", (0.., old.blocks(part).grow(1).input(), new.blocks(part).output()))
            .cpu(|_, (part, old, new)| relax(old, part == 0, new))
            .spread(devices)
            .submit()?;
        if step % STEPS_PER_CHECK == 0 {
            let (before, after, changes) = (old.blocks(part), new.blocks(part), change.blocks(1));
            let all = before.iter().zip(&after).zip(&changes);
            let parts: Vec<_> = all.map(|((old, new), change)| (old.input(), new.input(), change.output())).collect();
            rt.task("total change", parts)
                .cpu(|_, parts| {
                    let cells = parts.iter().flat_map(|(old, new, _)| old.iter().zip(*new));
                    let total: f64 = cells.map(|(old, new)| (new - old).abs()).sum();
                    parts.into_iter().for_each(|(_, _, change)| change[0] = total);
                })
                .across_devices()
                .submit()?;
            println!("after {step} steps, a step changes {:.4} in total", rt.read(change.slice(0))?[0]);
        }
        std::mem::swap(&mut old, &mut new);
    }
    let heat = rt.scalar(0.0);
    rt.task("collect", (old.input(), heat.output()))
        .cpu(|_, (rod, heat)| heat[0] = rod.iter().sum())
        .on_device(devices[0])
        .submit()?;
    let heat = rt.read(&heat)?[0];

    let (mut expected, mut next) = (vec![0.0; CELLS], vec![0.0; CELLS]);
    for _ in 0..STEPS {
        relax(&expected, true, &mut next);
        std::mem::swap(&mut expected, &mut next);
    }
    assert_eq!(heat, expected.iter().sum::<f64>());
    assert_eq!(rt.take(old)?, expected);
    println!("the rod has taken up {heat:.4}; the same on one core");
    Ok(())
}
