//! Runtimes for tests of kernels, and vector widths for tests of numerics.

use npb::mz::lanes::{MAX_LANES, dispatch};
use pulp::{Scalar, Scalar128b, Scalar256b, Scalar512b, WithSimd};
use thalweg::Runtime;

/// This machine's instruction sets (0, and 3 for four lanes), and every vector width that some machine has.
pub(crate) const WIDTHS: [usize; 6] = [0, 1, 2, 3, 4, 8];

/// Runs `work` at one of the [`WIDTHS`].
pub(crate) fn at_width(width: usize, work: impl WithSimd<Output = ()>) {
    match width {
        0 => dispatch(MAX_LANES, work),
        3 => dispatch(4, work), // the code for four lanes, on a machine that has eight
        1 => work.with_simd(Scalar),
        2 => work.with_simd(Scalar128b),
        4 => work.with_simd(Scalar256b),
        _ => work.with_simd(Scalar512b),
    }
}

/// Returns a runtime with the given units. If the required accelerators are missing, prints that the test is
/// skipped and returns `None`, unless the environment variable `THALWEG_REQUIRE` (a list such as `opencl,cuda`)
/// requires them, in which case the test fails.
pub(crate) fn accelerated(units: &str) -> Option<Runtime> {
    let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
    let kind = std::env::var("THALWEG_TEST_UNITS").unwrap_or_else(|_| "OPENCL".to_owned());
    match Runtime::builder().compute_units(units.replace("OPENCL", &kind)).build() {
        Err(error @ thalweg::prelude::BuildError::NoDevice { kind, .. })
            if !required.split(',').any(|name| name.eq_ignore_ascii_case(kind.keyword())) =>
        {
            println!("skipped: {error}");
            None
        }
        built => Some(built.expect("a runtime with these units")),
    }
}
