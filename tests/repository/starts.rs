//! Checks that the library starts threads in one place only, which keeps forks away from them.

use regex::Regex;
use std::fs;
use std::path::Path;

/// The file that starts all threads.
const PLACE: &str = "sync/start.rs";

/// Calls `see` with each file below a folder.
fn for_each_file(folder: &Path, see: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { for_each_file(&path, see) } else { see(&path) }
    }
}

#[test]
fn threads_start_in_one_file() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let spawn = Regex::new(r"\bthread::spawn\(|\.spawn(_scoped)?\(").unwrap();
    let tests = Regex::new(r"(?m)^#\[cfg\((?:all\()?test\b[^\n]*\n(?:#\[[^\n]*\n)*mod \w+ \{").unwrap();
    let (mut elsewhere, mut here) = (Vec::new(), 0);
    for_each_file(&src, &mut |path| {
        let text = fs::read_to_string(path).unwrap();
        let text = tests.find(&text).map_or(&text[..], |tests| &text[..tests.start()]);
        let name = path.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
        let starts = text.lines().filter(|line| !line.trim_start().starts_with("//") && spawn.is_match(line)).count();
        match name == PLACE {
            true => here = starts,
            false if name.ends_with("tests.rs") => {}
            false => elsewhere.extend((starts > 0).then_some(name)),
        }
    });
    assert!(elsewhere.is_empty(), "{elsewhere:?} start threads; try `crate::sync::start`");
    assert!(here > 0, "{PLACE} starts no thread any more");
}
