//! Compiles C, C++ and Fortran programs as a user would, and runs them.

mod build;
mod examples;
mod installed;

use build::{C, CPP, FORTRAN, run, run_checked, run_differing};
use std::path::Path;

#[test]
fn c_program_computes_in_place_and_reports_failures() {
    assert_eq!(run(&C, "tests/c/tasks.c"), "ok\n");
}

#[test]
fn mistakes_in_c_are_refused() {
    assert_eq!(run(&C, "tests/c/mistakes.c"), "ok\n");
}

#[test]
fn access_sanitizer_finds_mistakes_in_c() {
    let [plain, sanitized] = run_differing(&C, "tests/c/accesses.c");
    assert_eq!(plain, "ok\n".repeat(4));
    let found: Vec<_> = sanitized.lines().collect();
    let expected = [
        "(`out` [10..30] of data 0): the body wrote 8 bytes outside of the region",
        "(`in` [10..30] of data 0): the body changed 1 element of an input, first [13]",
        "(`out` [10..30] of data 0): the body left 1 element unwritten, or read them first, beginning at [29]",
        "(`inout` [10..30] of data 0): the body changed 1 element of the data object directly",
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
    assert_eq!(found.len(), expected.len(), "{sanitized}");
}

#[test]
fn c_programs_have_no_memory_error() {
    for source in ["tests/c/tasks.c", "tests/c/mistakes.c", "tests/c/late.c"] {
        assert_eq!(run_checked(&C, source), "ok\n");
    }
}

#[test]
#[cfg(feature = "opencl")]
fn kernels_from_text_run_on_devices() {
    let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
    if required.contains("opencl") {
        assert_eq!(run(&C, "tests/c/kernels.c"), "ok\n");
        assert_eq!(run(&CPP, "tests/cpp/kernels.cpp"), "ok\n");
        build::prints(&FORTRAN, "tests/fortran/kernels.f90", "ok\n");
    } else {
        eprintln!("skipped: an OpenCL device is not required");
    }
}

#[test]
fn cpp_program_computes_and_throws() {
    assert_eq!(run(&CPP, "tests/cpp/features.cpp"), "ok\n");
}

#[test]
fn cpp_program_has_no_memory_error() {
    assert_eq!(run_checked(&CPP, "tests/cpp/features.cpp"), "ok\n");
}

#[test]
fn fortran_program_computes_on_arrays_of_every_rank() {
    if FORTRAN.is_present() {
        assert_eq!(run(&FORTRAN, "tests/fortran/features.f90"), "ok\n");
    }
}

#[test]
fn fortran_program_has_no_memory_error() {
    if FORTRAN.is_present() {
        assert_eq!(run_checked(&FORTRAN, "tests/fortran/features.f90"), "ok\n");
    }
}

/// Returns the first program of this language in a chapter of the guide.
fn program(chapter: &str, language: &str) -> String {
    let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/src").join(chapter);
    let chapter = std::fs::read_to_string(chapter).unwrap();
    let fence = format!("```{language}\n");
    chapter.split(&fence).nth(1).and_then(|rest| rest.split("```").next()).expect("a program").to_owned()
}

#[test]
fn program_of_the_guide_runs() {
    // Its body does not use all of its parameters, which the flags of `run` forbid.
    let program = format!("#pragma GCC diagnostic ignored \"-Wunused-parameter\"\n{}", program("c.md", "c"));
    let file = build::library().join("thalweg-c-guide.c");
    std::fs::write(&file, program).unwrap();
    assert_eq!(run(&C, file.to_str().unwrap()), "");
}

#[test]
fn program_of_the_guide_is_the_example() {
    let example = |file| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    assert!(example("examples/cpp/hello.cpp").ends_with(&program("cpp.md", "cpp")));
    assert!(example("examples/fortran/hello.f90").ends_with(&program("fortran.md", "fortran")));
}
