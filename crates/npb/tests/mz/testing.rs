//! Runtimes for tests of kernels.

use thalweg::Runtime;

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
