//! Checks that no source file is too long to read in one go.

use std::fs;
use std::path::Path;

/// Maximum number of lines of a file.
const MOST_LINES: usize = 500;
/// Folders without sources of the project.
const SKIPPED: [&str; 3] = ["target", ".git", "shared"];
/// Files that were longer when the rule was made, with the number of lines that they may still have.
const LONG: [(&str, usize); 4] = [
    ("src/device/cuda/api.rs", 520),
    ("src/error/submit.rs", 530),
    ("tests/standin.rs", 710),
    ("tests/standin/memory.rs", 580),
];

/// Calls `see` with the path of each source file, from the root, and its number of lines.
fn for_each_file(folder: &Path, see: &mut dyn FnMut(&str, usize)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !SKIPPED.contains(&name.as_str()) {
            for_each_file(&path, see);
        } else if name.ends_with(".rs") {
            let inside = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
            see(&inside.to_string_lossy(), fs::read_to_string(&path).unwrap().lines().count());
        }
    }
}

#[test]
fn source_files_have_at_most_500_lines() {
    let (mut long, mut files) = (Vec::new(), 0);
    for_each_file(Path::new(env!("CARGO_MANIFEST_DIR")), &mut |file, lines| {
        files += 1;
        let most = LONG.iter().find(|(known, _)| *known == file).map_or(MOST_LINES, |(_, most)| *most);
        if lines > most {
            long.push(format!("{file} has {lines} lines, at most {most} are allowed"));
        }
    });
    assert!(long.is_empty(), "files are too long; try splitting them at a seam:\n{}", long.join("\n"));
    assert!(files > 500, "only {files} files were found");
}
