//! Tasks across the devices of a unit: one body enqueues kernels on both devices, which read each other's memory in
//! place or through copies.

use super::kernels;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::error::FailureReason;
use thalweg::machine::UnitKind;
use thalweg::prelude::*;

/// Five parts of different sizes for two devices; one part is empty.
const PARTS: [std::ops::Range<usize>; 5] = [0..300, 300..300, 300..650, 650..1000, 1000..1001];
const STEPS: u64 = 20;

/// Adds the beginning of the next part of `x`, which may be on the other device, to each part of `y`.
fn mixed(x: &[u64], y: &mut [u64], salt: u64) {
    for (part, here) in PARTS.into_iter().enumerate() {
        let next = &x[PARTS[(part + 1) % PARTS.len()].clone()];
        kernels::mixed(next, &mut y[here], salt);
    }
}

/// Does the same as [`mixed`] with a task that either reads the next parts in place or uses copies of them.
fn mix(rt: &Runtime, x: &Data<u64>, y: &Data<u64>, salt: u64, in_place: bool) {
    let parts = PARTS.into_iter().enumerate().map(|(part, here)| {
        let seen = if in_place { here.clone() } else { PARTS[(part + 1) % PARTS.len()].clone() };
        (x.slice(seen).input(), y.slice(here).inout())
    });
    let next = move |part: usize| if in_place { (part + 1) % PARTS.len() } else { part };
    rt.task("mix", parts.collect::<Vec<_>>())
        .cpu(move |_, parts| {
            let (x, y): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            y.into_iter().enumerate().for_each(|(part, y)| kernels::mixed(x[next(part)], y, salt));
        })
        .gpu(move |k, parts| {
            let (x, y): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            for (part, mut y) in y.into_iter().enumerate() {
                kernels::mix_some(k.on_part(part)?, &x[next(part)], &mut y, salt)?;
            }
            Ok::<(), DeviceError>(())
        })
        .across_devices()
        .submit()
        .unwrap();
}

/// Returns whether kernels on each device can read the memory of the other device.
fn are_peers(rt: &Runtime, x: &Data<u64>) -> bool {
    let (known, found) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (reached, called) = (known.clone(), found.clone());
    rt.task("ask", x.blocks(500).iter().map(|x| x.input()).collect::<Vec<_>>())
        .emulated(|_, _| ())
        .gpu(move |k, parts| {
            called.store(1, Ordering::SeqCst);
            let both = k.on_part(0)?.reaches(&parts[1]) && k.on_part(1)?.reaches(&parts[0]);
            reached.store(both.into(), Ordering::SeqCst);
            Ok::<(), DeviceError>(())
        })
        .across_devices()
        .submit()
        .unwrap();
    rt.wait().unwrap();
    found.load(Ordering::SeqCst) == 0 || known.load(Ordering::SeqCst) == 1
}

pub(crate) fn task_across_the_devices_of_a_unit_matches_host(kind: UnitKind) {
    for cores in ["", "1:CPU:1,"] {
        let rt = Runtime::builder().compute_units(format!("{cores}1:{kind}:2")).build().unwrap();
        let mut expected: [Vec<u64>; 2] = [(0..1001).collect(), (0..1001).rev().collect()];
        let mut data = expected.clone().map(|x| rt.data(x));
        let peers = are_peers(&rt, &data[0]);
        for salt in 0..STEPS {
            mix(&rt, &data[0], &data[1], salt, peers && salt % 2 == 0);
            let [x, y] = &mut expected;
            mixed(x, y, salt);
            // Interleave tasks on one device, and tasks on parts of other sizes.
            kernels::mix(&rt, data[1].slice(..100), data[0].slice(600..700), salt);
            kernels::mixed(&y[..100], &mut x[600..700], salt);
            data.reverse();
            expected.reverse();
        }
        rt.wait().unwrap();
        data.into_iter().zip(expected).for_each(|(x, expected)| assert_eq!(rt.take(x).unwrap(), expected));
    }
}

/// A refused launch, an error and a panic each fail the whole task, and both devices keep working.
pub(crate) fn failing_task_across_devices_fails_as_a_whole(kind: UnitKind) {
    if kind == UnitKind::Emulated {
        return; // enqueues nothing
    }
    let rt = Runtime::builder().compute_units(format!("1:{kind}:2")).build().unwrap();
    let x = rt.data(vec![1u64; 1000]);
    for (way, expected) in [
        "the task writes there; try launching it with `Launcher::on_part` on the part that owns the region",
        "cannot enqueue on the device of part 2: the task has 2 parts",
        "no luck",
        "panicked: out of luck",
    ]
    .into_iter()
    .enumerate()
    {
        rt.task("fails", x.blocks(500).iter().map(|x| x.inout()).collect::<Vec<_>>())
            .gpu(move |k, mut parts| {
                for (part, x) in parts.iter_mut().enumerate() {
                    kernels::fill_some(k.on_part(part)?, x, 5)?;
                }
                match way {
                    0 => kernels::fill_some(k.on_part(0)?, &mut parts[1], 5)?,
                    1 => _ = k.on_part(2)?,
                    2 => return Err("no luck".into()),
                    _ => panic!("out of luck"),
                }
                Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
            })
            .across_devices()
            .submit()
            .unwrap();
        let RunError::Failed(failures) = rt.wait().unwrap_err() else { panic!("another error") };
        assert!(failures.len() == 1 && failures[0].to_string().contains(expected), "{failures:?}");
        assert!(way > 1 || matches!(failures[0].reason(), FailureReason::Device(_) | FailureReason::Returned(_)));
        assert!(matches!(rt.read(&x.slice(..1)), Err(RunError::Poisoned(_))));
        rt.clear(x.all()).unwrap();
        kernels::fill(&rt, x.all(), 1);
        mix(&rt, &rt.data(vec![3; 1001]), &rt.data(vec![2; 1001]), 0, false);
        rt.wait().unwrap();
        assert_eq!(rt.read(&x.all()).unwrap(), [1; 1000]);
    }
}
