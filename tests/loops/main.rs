//! Tasks made from functions of loops: the function itself, its body for cores and its kernels all give the same bits.
//!
//! Without an accelerator the kernels are skipped with a message, unless `THALWEG_REQUIRE` (a list) names it.

mod affine;
mod combined;
#[path = "../common/mod.rs"]
mod common;
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

/// Returns numbers without a pattern, some of them negative.
fn numbers(count: usize, salt: u64) -> Vec<f64> {
    let number = |n: usize| ((n as u64 * 2_654_435_761 + salt * 40_503) % 10_007) as f64 / 997.0 - 5.0;
    (0..count).map(number).collect()
}

/// Returns the bits, which may differ even for numbers that compare equal.
fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}
