//! Building and running of a program as a user would.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A language: its compiler with its flags.
pub(crate) struct Language(pub(crate) &'static [&'static str]);

pub(crate) const C: Language = Language(&["cc", "-std=c99", "-pedantic"]);
pub(crate) const CPP: Language = Language(&["c++", "-std=c++17", "-Wpedantic"]);

/// Builds the library as a user would, and returns its folder. Cargo does not build it for a test, which cannot link to
/// it.
pub(crate) fn library() -> &'static Path {
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

/// Compiles a program, whose path begins at this package, and runs it. Returns what it prints.
pub(crate) fn run(language: &Language, source: &str) -> String {
    run_with(language, source, &[])
}

/// Like [`run`], under the sanitizers of addresses and of undefined behaviour.
pub(crate) fn run_checked(language: &Language, source: &str) -> String {
    run_with(language, source, &["-fsanitize=address,undefined"])
}

fn run_with(Language(compiler): &Language, source: &str, flags: &[&str]) -> String {
    let (root, library) = (Path::new(env!("CARGO_MANIFEST_DIR")), library());
    let program = library.join(format!("thalweg-c-{}{}", source.replace(['.', '/'], "-"), flags.concat()));
    let compiled = Command::new(compiler[0])
        .args(&compiler[1..])
        .args(flags)
        .args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(root.join(source))
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
