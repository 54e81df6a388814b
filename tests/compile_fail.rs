//! Programs that must not compile because of type errors. Each file in `compile_fail/` contains one mistake and has a
//! `.stderr` file with the expected compiler message.

#[test]
#[ignore = "compiles some fifty programs; `cargo test -p thalweg --all-features --test compile_fail -- --ignored`"]
fn programs_with_one_mistake_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}

/// Loops that cannot become kernels. Each function contains one mistake. The error must point at the mistake and say
/// what to write instead.
#[cfg(feature = "macros")]
#[test]
#[ignore = "compiles some thirty programs; see above"]
fn unsupported_loops_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/loops/*.rs");
}
