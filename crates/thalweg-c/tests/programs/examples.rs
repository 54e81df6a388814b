//! The examples of each language, which compare their results with those of plain programs.

use crate::build::{CPP, FORTRAN, prints};

#[test]
fn hello_doubles_the_array() {
    prints(&CPP, "examples/cpp/hello.cpp", "2\n");
    prints(&FORTRAN, "examples/fortran/hello.f90", "2.0\n");
}

#[test]
fn fortran_examples_agree_with_plain_loops() {
    for name in ["jacobi", "zones"] {
        prints(&FORTRAN, &format!("examples/fortran/{name}.f90"), "VERIFIED\n");
    }
}
