//! Building and running of a program as a user would.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A language: its compiler with its flags, and the files that each program is compiled with.
pub(crate) struct Language {
    compiler: &'static [&'static str],
    /// Files that come before the program.
    with: &'static [&'static str],
}

pub(crate) const C: Language = Language { compiler: &["cc", "-std=c99", "-pedantic"], with: &[] };
pub(crate) const CPP: Language = Language { compiler: &["c++", "-std=c++17", "-Wpedantic"], with: &[] };
pub(crate) const FORTRAN: Language = Language {
    compiler: &[
        "gfortran",
        "-std=f2008",
        "-pedantic",
        "-Wno-compare-reals", // of results that are equal to the last bit
        "-Wno-function-elimination",
        "-Wno-maybe-uninitialized", // about descriptors of expressions, in gfortran 12
        "-frecursive",
        "-fcheck=all",
    ],
    with: &["fortran/thalweg.F90", "tests/fortran/check.f90"],
};

impl Language {
    /// Returns whether the compiler is installed. A missing gfortran is reported, and is a failure if the list
    /// `THALWEG_REQUIRE` has it.
    pub(crate) fn is_present(&self) -> bool {
        let compiler = self.compiler[0];
        let present = Command::new(compiler).arg("--version").output().is_ok();
        let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
        assert!(present || compiler != "gfortran" || !required.contains(compiler), "{compiler} is required");
        if !present {
            eprintln!("skipped: {compiler} is not installed");
        }
        present
    }
}

/// The features of this build, so that the library has the same.
pub(crate) const FEATURES: &str = if cfg!(all(feature = "cuda", feature = "hip", feature = "opencl")) {
    "cuda,hip,opencl"
} else if cfg!(feature = "opencl") {
    "opencl"
} else {
    ""
};

/// Builds the library as a user would, and returns its folder. Cargo does not build it for a test, which cannot link to
/// it.
pub(crate) fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let test = std::env::current_exe().expect("the test has a path");
        let target = test.ancestors().nth(3).expect("tests are in <target>/<profile>/deps");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "thalweg-c", "--features", FEATURES, "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.unwrap().success(), "the library cannot be built");
        target.join("debug")
    })
}

/// Compiles a program, whose path begins at this package, and runs it. Returns its output, which must be the same under
/// the access sanitizer.
pub(crate) fn run(language: &Language, source: &str) -> String {
    let [printed, sanitized] = run_differing(language, source);
    assert_eq!(printed, sanitized, "{source} under the access sanitizer");
    printed
}

/// Like [`run`], under the sanitizers of addresses and of undefined behaviour instead.
pub(crate) fn run_checked(language: &Language, source: &str) -> String {
    execute(&compile(language, source, &["-fsanitize=address,undefined"]), false)
}

/// Like [`run`]. Returns the program's outputs without and with the access sanitizer.
pub(crate) fn run_differing(language: &Language, source: &str) -> [String; 2] {
    let program = compile(language, source, &[]);
    [false, true].map(|sanitizes| execute(&program, sanitizes))
}

/// Checks that a program prints this, if its compiler is installed.
pub(crate) fn prints(language: &Language, source: &str, expected: &str) {
    if language.is_present() {
        assert_eq!(run(language, source), expected, "{source}");
    }
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"))
}

/// Returns the path of the compiled program.
fn compile(language: &Language, source: &str, flags: &[&str]) -> PathBuf {
    let (root, library) = (Path::new(env!("CARGO_MANIFEST_DIR")), library());
    let folder = library.join("thalweg-c").join(source.replace(['.', '/'], "-") + &flags.concat());
    std::fs::create_dir_all(&folder).expect("a folder for the program");
    let program = folder.join("program");
    let mut command = Command::new(language.compiler[0]);
    command.args(&language.compiler[1..]).args(flags).args(["-g", "-O1", "-Wall", "-Wextra", "-Werror"]);
    command.current_dir(&folder).arg(format!("-I{}", root.join("include").display()));
    command.args(language.with.iter().map(|file| root.join(file))).arg(root.join(source));
    command.arg(format!("-L{}", library.display())).arg(format!("-Wl,-rpath,{}", library.display()));
    let compiled = output(command.args(["-lthalweg", "-lm", "-pthread", "-o"]).arg(&program));
    assert!(compiled.status.success(), "{source}:\n{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

/// Runs a program, with or without the access sanitizer. Returns its output.
fn execute(program: &Path, sanitizes: bool) -> String {
    let ran = output(Command::new(program).env("THALWEG_SANITIZE", if sanitizes { "1" } else { "0" }));
    let (printed, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(
        ran.status.success(),
        "{} (sanitizes: {sanitizes}): {}\n{printed}\n{errors}",
        program.display(),
        ran.status
    );
    printed.into_owned()
}
