//! The examples of each language, which compare their results with those of plain programs.

use crate::build::{C, CPP, FORTRAN, prints};

#[test]
fn hello_doubles_the_array() {
    prints(&C, "examples/c/hello.c", "2\n");
    prints(&CPP, "examples/cpp/hello.cpp", "2\n");
    prints(&FORTRAN, "examples/fortran/hello.f90", "2.0\n");
}

#[test]
fn c_examples_agree_with_plain_programs() {
    for name in ["reduction", "cholesky", "jacobi", "pipeline"] {
        prints(&C, &format!("examples/c/{name}.c"), "VERIFIED\n");
    }
}

#[test]
fn cpp_examples_agree_with_plain_programs() {
    for name in ["reduction", "cholesky", "jacobi", "pipeline"] {
        prints(&CPP, &format!("examples/cpp/{name}.cpp"), "VERIFIED\n");
    }
}

#[test]
fn fortran_examples_agree_with_plain_programs() {
    for name in ["reduction", "cholesky", "jacobi", "pipeline", "zones"] {
        prints(&FORTRAN, &format!("examples/fortran/{name}.f90"), "VERIFIED\n");
    }
}
