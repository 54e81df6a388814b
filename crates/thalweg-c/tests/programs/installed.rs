//! Programs that find the installed library by pkg-config.

use crate::build::{FEATURES, FORTRAN, library};
use std::path::Path;
use std::process::Command;

/// Runs a command of the shell in the folder of this package. Returns what it prints.
fn shell(command: &str) -> String {
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", command]).current_dir(env!("CARGO_MANIFEST_DIR"));
    // The library was built already; then Cargo waits for nothing.
    let output = shell.env("CARGO_TARGET_DIR", library().parent().unwrap()).output().unwrap();
    assert!(output.status.success(), "{command}:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn programs_find_the_installed_library() {
    let prefix = library().join("thalweg-c/installed");
    _ = std::fs::remove_dir_all(&prefix);
    let prefix = prefix.to_str().unwrap();
    let said = shell(&format!("../../scripts/install-c {prefix} --profile dev --features '{FEATURES}'"));
    assert!(said.contains("pkg-config --cflags --libs thalweg"), "{said}");
    let run = |program: &str| shell(&format!("export PKG_CONFIG_PATH={prefix}/lib/pkgconfig; cd {prefix}; {program}"));
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let examples = examples.display();
    let shared = "$(pkg-config --cflags --libs thalweg) -Wl,-rpath,$(pkg-config --variable=libdir thalweg)";
    assert_eq!(run(&format!("c++ -std=c++17 {examples}/cpp/hello.cpp {shared} -o a && ./a")), "2\n");
    let library = "$(pkg-config --variable=libdir thalweg)/libthalweg.a";
    let others = "$(pkg-config --static --libs-only-l thalweg | sed s/-lthalweg//)";
    let archive = format!("$(pkg-config --cflags thalweg) {library} {others}");
    assert_eq!(
        run(&format!("c++ -std=c++17 {examples}/cpp/hello.cpp {archive} -o b && ./b && ! ldd b | grep thalweg")),
        "2\n"
    );
    if FORTRAN.is_present() {
        let module = "$(pkg-config --variable=fortrandir thalweg)/thalweg.F90";
        assert_eq!(
            run(&format!("gfortran -frecursive {module} {examples}/fortran/hello.f90 {shared} -o c && ./c")),
            "2.0\n"
        );
    }
    assert_eq!(run("pkg-config --modversion thalweg"), concat!(env!("CARGO_PKG_VERSION"), "\n"));
}
