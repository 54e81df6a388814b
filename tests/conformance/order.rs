//! Order of enqueued kernels: on one stream and across streams; independent kernels are not ordered.

use super::{kernels, runtime_of};
use thalweg::machine::UnitKind;

const N: usize = 500;

pub(crate) fn readers_between_writers_are_ordered(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 1, u64::MAX);
    let x = rt.data(vec![1u64; N]);
    let readers: Vec<_> = (0..12).map(|_| rt.data(vec![0u64; N])).collect();
    let (mut seen, mut expected) = (vec![1u64; N], vec![vec![0u64; N]; 12]);
    for round in 0..20 {
        kernels::slow(&rt, x.all(), 300); // the readers' streams wait for this task
        kernels::slowed(&mut seen, 300);
        for (reader, expected) in readers.iter().zip(&mut expected) {
            kernels::mix(&rt, x.all(), reader.all(), round);
            kernels::mixed(&seen, expected, round);
        }
        kernels::fill(&rt, x.slice(0..N / 2), round); // this task waits for all readers
        seen[..N / 2].fill(round);
    }
    for (reader, expected) in readers.into_iter().zip(expected) {
        assert_eq!(rt.take(reader).unwrap(), expected);
    }
}

/// Device memory is reused for the next data object of the same size, but only after the kernels that use it have
/// ended.
pub(crate) fn released_memory_is_reused_only_after_its_kernels(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 1, u64::MAX);
    for round in 0..40 {
        let (x, released) = (rt.data(vec![round; N]), rt.data(vec![0u64; N]));
        kernels::slow(&rt, released.all(), 2000);
        kernels::mix(&rt, x.all(), released.all(), 0);
        drop(released);
        let next = rt.data(vec![5u64; N]);
        kernels::mix(&rt, x.all(), next.all(), 9);
        assert_eq!(rt.take(next).unwrap(), [5 * 31 + round + 9; N]);
        assert_eq!(rt.take(x).unwrap(), [round; N]);
    }
}

pub(crate) fn independent_kernels_compute_correct_values(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 1, u64::MAX);
    let data: Vec<_> = (0..8u64).map(|n| rt.data(vec![n; N])).collect();
    for x in &data {
        kernels::slow(&rt, x.all(), 2000);
    }
    for (n, x) in (0..8).zip(data) {
        let mut expected = vec![n; N];
        kernels::slowed(&mut expected, 2000);
        assert_eq!(rt.take(x).unwrap(), expected);
    }
}

pub(crate) fn reductions_and_accumulations_match_host(kind: UnitKind) {
    let rt = runtime_of(kind, 1, 1, u64::MAX);
    let x = rt.data((0..N).map(|n| n as f64).collect::<Vec<_>>());
    let total = rt.scalar(0.5);
    for _ in 0..10 {
        for part in thalweg::task::blocks(N, 70) {
            kernels::sum(&rt, x.slice(part), &total);
        }
    }
    assert_eq!(rt.read(&total).unwrap()[0], 0.5 + 10.0 * (N * (N - 1) / 2) as f64);
    for part in thalweg::task::blocks(N, 7) {
        kernels::accumulate(&rt, x.slice(part), &total);
    }
    assert_eq!(rt.read(&total).unwrap()[0], 0.5 + 11.0 * (N * (N - 1) / 2) as f64);
}
