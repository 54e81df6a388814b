//! What the types catch does not compile: each program in `compile_fail/` has one mistake, and the compiler's words for it.

#[test]
fn mistakes_that_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
