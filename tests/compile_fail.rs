//! What the types catch does not compile: each program in `compile_fail/` has one mistake, and the compiler's words for it.

#[test]
#[ignore = "compiles some fifty programs; `cargo test -p thalweg --all-features --test compile_fail -- --ignored`"]
fn mistakes_that_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}

/// Loops that kernels cannot have: each function has one mistake, which is named at its place with what to write instead.
#[cfg(feature = "macros")]
#[test]
#[ignore = "compiles some thirty programs; see above"]
fn loops_that_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/loops/*.rs");
}
