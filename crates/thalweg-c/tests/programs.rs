//! Compiles the C and C++ programs in `tests/c` as a user would, and runs them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Builds the library as a user would, and returns its folder. Cargo does not build it for a test, which cannot link to
/// it.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let test = std::env::current_exe().expect("the test has a path");
        let target = test.ancestors().nth(3).expect("tests are in <target>/<profile>/deps");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "thalweg-c", "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.unwrap().success(), "the library cannot be built");
        target.join("debug")
    })
}

/// Compiles a program and runs it. Returns what it prints.
fn run(compiler: &[&str], source: &str) -> String {
    let (root, library) = (Path::new(env!("CARGO_MANIFEST_DIR")), library());
    let program = library.join(format!("thalweg-c-{}{}", compiler.join(""), source.replace(['.', '/'], "-")));
    let compiled = Command::new(compiler[0])
        .args(&compiler[1..])
        .args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(root.join("tests/c").join(source))
        .arg(format!("-I{}", root.join("include").display()))
        .arg(format!("-L{}", library.display()))
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .args(["-lthalweg", "-lm", "-pthread"])
        .output()
        .unwrap_or_else(|error| panic!("cannot run {}: {error}", compiler[0]));
    assert!(compiled.status.success(), "{source}:\n{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().expect("the program is executable");
    let (printed, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{source}: {}\n{printed}\n{errors}", ran.status);
    printed.into_owned()
}

#[test]
fn c_program_computes_in_place_and_reports_failures() {
    assert_eq!(run(&["cc", "-std=c99"], "tasks.c"), "ok\n");
}

#[test]
fn mistakes_in_c_are_refused() {
    assert_eq!(run(&["cc", "-std=c99"], "mistakes.c"), "ok\n");
}

#[test]
fn c_programs_have_no_memory_error() {
    for source in ["tasks.c", "mistakes.c"] {
        assert_eq!(run(&["cc", "-std=c99", "-fsanitize=address,undefined"], source), "ok\n");
    }
}

#[test]
fn program_of_the_guide_runs() {
    let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/src/c.md");
    let chapter = std::fs::read_to_string(chapter).unwrap();
    let program = chapter.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    let file = library().join("thalweg-c-guide.c");
    // Its body does not use all of its parameters, which the flags of `run` forbid.
    std::fs::write(&file, format!("#pragma GCC diagnostic ignored \"-Wunused-parameter\"\n{program}")).unwrap();
    assert_eq!(run(&["cc", "-std=c99"], file.to_str().unwrap()), "");
}
