//! Programs that must not compile, because their types are wrong: each file in `compile_fail/` has one mistake, and a
//! `.stderr` file with the compiler's message.

#[test]
#[ignore = "compiles some fifty programs; `cargo test -p thalweg --all-features --test compile_fail -- --ignored`"]
fn programs_with_one_mistake_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}

/// Loops that cannot become kernels. Each function has one mistake; the error points at it and says what to write
/// instead.
#[cfg(feature = "macros")]
#[test]
#[ignore = "compiles some thirty programs; see above"]
fn unsupported_loops_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/loops/*.rs");
}
