//! Running sums in three loops: sums of chunks, what stands before each chunk, and the chunks themselves.

use super::{bits, common, machines, numbers};
use thalweg::loops::{Out, target};

const CHUNK: usize = 64;

#[target(split = 3)]
fn chunk_sums(x: &[f64], sums: Out<'_, [f64]>) {
    for chunk in 0..sums.len() {
        let mut sum = 0.0;
        for k in 0..CHUNK {
            if chunk * CHUNK + k < x.len() {
                sum += x[chunk * CHUNK + k];
            }
        }
        sums[chunk] = sum;
    }
}

/// A loop of one iteration: there are few chunks.
#[target]
fn offsets(sums: &mut [f64]) {
    for one in 0..1usize {
        let mut before = 0.0;
        for chunk in 0..sums.len() {
            let sum = sums[one + chunk];
            sums[one + chunk] = before;
            before += sum;
        }
    }
}

#[target(split = 3)]
fn running(x: &[f64], offsets: &[f64], y: &mut [f64]) {
    for chunk in 0..offsets.len() {
        let mut sum = offsets[chunk];
        for k in 0..CHUNK {
            if chunk * CHUNK + k < x.len() {
                sum += x[chunk * CHUNK + k];
                y[chunk * CHUNK + k] = sum;
            }
        }
    }
}

#[test]
fn running_sums() {
    for n in [0, 1, 64, 65, 1000, 10_000] {
        // Small integers: their sums are the same in any order.
        let x: Vec<f64> = numbers(n, 1).iter().map(|x| x.round()).collect();
        let plain: Vec<f64> = x
            .iter()
            .scan(0.0, |sum, x| {
                *sum += x;
                Some(*sum)
            })
            .collect();
        let mut runtimes = machines();
        runtimes.push(common::runtime("1:CPU:1,2:EMU:1"));
        for rt in runtimes {
            let (dx, sums, y) = (rt.data(x.clone()), rt.zeros(n.div_ceil(CHUNK)), rt.zeros(n));
            chunk_sums::task(&rt, &dx, &sums).submit().unwrap();
            offsets::task(&rt, &sums).submit().unwrap();
            running::task(&rt, &dx, &sums, &y).submit().unwrap();
            let in_pieces = rt.zeros(n);
            chunk_sums::split(&rt, &dx, &sums).unwrap();
            offsets::task(&rt, &sums).submit().unwrap();
            running::split(&rt, &dx, &sums, &in_pieces).unwrap();
            assert_eq!(bits(&rt.take(y).unwrap()), bits(&plain), "{n} {}", rt.configuration());
            assert_eq!(bits(&rt.take(in_pieces).unwrap()), bits(&plain), "{n} {}", rt.configuration());
        }
    }
}
