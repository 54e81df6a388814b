//! Device memory: it is used up to the limit and never beyond.

use super::{kernels, runtime_of};
use thalweg::machine::UnitKind;
use thalweg::prelude::*;

/// A limit small enough for a test to reach.
const LIMIT_BYTES: u64 = 64 << 10;
const ELEMENTS: usize = 2048; // a quarter of the limit

pub(crate) fn full_device_memory_evicts_and_keeps_values(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 1, LIMIT_BYTES);
    assert_eq!(rt.machine().capacity_bytes(SpaceId(1)), LIMIT_BYTES);
    let data: Vec<_> = (0..16).map(|n| rt.data(vec![n; ELEMENTS])).collect();
    for round in 0..3 {
        for (n, y) in data.iter().enumerate() {
            kernels::mix(&rt, data[(n + 1) % 16].slice(0..ELEMENTS), y.all(), round);
        }
    }
    let mut expected: Vec<Vec<u64>> = (0..16).map(|n| vec![n; ELEMENTS]).collect();
    for round in 0..3 {
        for n in 0..16 {
            let x = expected[(n + 1) % 16].clone();
            kernels::mixed(&x, &mut expected[n], round);
        }
    }
    for (data, expected) in data.into_iter().zip(expected) {
        assert_eq!(rt.take(data).unwrap(), expected);
    }
    assert!(rt.statistics().evictions > 0);
}

pub(crate) fn working_set_larger_than_device_memory_is_refused(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 1, LIMIT_BYTES);
    let x = rt.data(vec![0u8; LIMIT_BYTES as usize + 1]);
    // The task has no body for cores, which could otherwise run in host memory.
    let refused = rt.task("large", (x.inout(),)).gpu(|_, _| ()).emulated(|_, _| ()).submit().unwrap_err();
    let (needed_bytes, capacity_bytes) = (LIMIT_BYTES + 1, LIMIT_BYTES);
    assert_eq!(refused, SubmitError::WorkingSet { task: "large".into(), needed_bytes, capacity_bytes });
}
