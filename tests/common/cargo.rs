//! Builds the programs that a test runs, using cargo and the test's own profile.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Runs cargo with `arguments`, which begin with `test --no-run` or `build`. Returns the paths of the built programs by
/// name.
pub(crate) fn programs(arguments: &[&str]) -> BTreeMap<String, PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).args(["--quiet", "--message-format=json"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).unwrap();
    let messages = messages.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let program = |message: serde_json::Value| {
        let path = message["executable"].as_str()?.into();
        Some((message["target"]["name"].as_str()?.to_owned(), path))
    };
    messages.filter_map(program).collect()
}
