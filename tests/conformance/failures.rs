//! Failures: a failed task poisons its outputs, and the device continues.

use super::{kernels, runtime_of};
use thalweg::error::FailureReason;
use thalweg::machine::UnitKind;
use thalweg::prelude::*;

fn check_poison(rt: &Runtime, x: &Data<u64>, words: &str) {
    let y = rt.data(vec![0u64; 10]);
    kernels::mix(rt, x.slice(0..10), y.all(), 0);
    match rt.wait().unwrap_err() {
        RunError::Failed(failures) => {
            assert_eq!((failures.len(), failures[0].skipped()), (1, 1));
            assert!(failures[0].to_string().contains(words), "{}", failures[0]);
        }
        other => panic!("{other}"),
    }
    assert!(matches!(rt.read(&y.all()), Err(RunError::Poisoned(_))));
    kernels::fill(rt, x.all(), 4);
    kernels::fill(rt, y.all(), 1);
    kernels::mix(rt, x.slice(0..10), y.all(), 0);
    assert_eq!(rt.take(y).unwrap(), [35; 10]);
}

pub(crate) fn failing_body_poisons_its_outputs(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 1, u64::MAX);
    let x = rt.data(vec![1u64; 20]);
    let task = rt.task("fails", (x.inout(),));
    task.gpu(|_, _| Err("no luck")).cpu(|_, _| Err("no luck")).submit().unwrap();
    check_poison(&rt, &x, "no luck");
}

fn out_of_luck() {
    panic!("out of luck");
}

pub(crate) fn panicking_body_poisons_its_outputs(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 1, u64::MAX);
    let x = rt.data(vec![1u64; 20]);
    let task = rt.task("panics", (x.inout(),));
    task.gpu(|_, _| out_of_luck()).cpu(|_, _| out_of_luck()).submit().unwrap();
    check_poison(&rt, &x, "panicked: out of luck");
}

pub(crate) fn oversized_scratch_memory_fails_the_task(kind: UnitKind) {
    if kind == UnitKind::Emulated {
        return; // has no scratch memory
    }
    let rt = runtime_of(kind, 0, 1, u64::MAX);
    let x = rt.data(vec![1u64; 20]);
    rt.task("greedy", (x.inout(),)).gpu(|k, _| k.scratch::<f64>(1 << 45).map(drop)).submit().unwrap();
    let RunError::Failed(failures) = rt.wait().unwrap_err() else { panic!("another error") };
    let FailureReason::Device(error) = failures[0].reason() else { panic!("another reason: {}", failures[0]) };
    assert!(matches!(error, DeviceError::OutOfMemory { needed_bytes, .. } if *needed_bytes >= 8 << 45), "{error}");
    kernels::fill(&rt, x.all(), 3);
    assert_eq!(rt.take(x).unwrap(), [3; 20]);
}
