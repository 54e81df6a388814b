//! Tasks made from functions with loops. The function itself, its body for cores and its kernels must all produce
//! bit-identical results.
//!
//! Without an accelerator, the kernels are skipped with a message unless the list `THALWEG_REQUIRE` names one.

mod affine;
mod combined;
#[path = "../common/mod.rs"]
mod common;
mod devices;
mod fused;
mod generated;
mod refused;
mod scan;
mod split;
mod strides;
mod teams;

use thalweg::prelude::*;

/// Returns machines for the tests: two configurations of cores, and an accelerator if there is one.
fn machines() -> Vec<Runtime> {
    let mut machines: Vec<Runtime> =
        ["1:CPU:1", "1:CPU:2"].map(|units| Runtime::builder().compute_units(units).build().unwrap()).into();
    machines.extend(common::accelerated("1:OPENCL:1").map(|builder| builder.build().unwrap()));
    machines
}

/// Returns pseudo-random numbers, some of which are negative.
fn numbers(count: usize, salt: u64) -> Vec<f64> {
    let number = |n: usize| ((n as u64 * 2_654_435_761 + salt * 40_503) % 10_007) as f64 / 997.0 - 5.0;
    (0..count).map(number).collect()
}

/// Returns the bits of the numbers, which can differ even if the numbers compare equal.
fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}
