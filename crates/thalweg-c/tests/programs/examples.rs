//! The examples of each language, which compare their results with those of plain programs.

use crate::build::{CPP, run};

#[test]
fn hello_doubles_the_array() {
    assert_eq!(run(&CPP, "examples/cpp/hello.cpp"), "2\n");
}
