//! Checks of the guide as a whole: every chapter is tested, and every link resolves.

use std::fs;
use std::path::{Path, PathBuf};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Returns the chapters listed in the summary, in its order, without their extension.
fn summary() -> Vec<String> {
    let text = fs::read_to_string(source().join("SUMMARY.md")).expect("the summary can be read");
    targets(&text).into_iter().filter_map(|target| target.strip_suffix(".md").map(str::to_owned)).collect()
}

/// Returns the targets of the links and pictures in a text, except those in code blocks.
fn targets(text: &str) -> Vec<&str> {
    let mut code = false;
    let prose = text.lines().filter(|line| {
        code ^= line.trim_start().starts_with("```");
        !code
    });
    prose.flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next())).collect()
}

#[test]
fn summary_and_tests_contain_every_chapter() {
    let library = include_str!("../lib.rs");
    let list =
        library.split("chapters! {").nth(1).and_then(|rest| rest.split('}').next()).expect("the list of chapters");
    let mut tested: Vec<_> =
        list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    let mut files: Vec<_> = fs::read_dir(source())
        .expect("the chapters' folder can be read")
        .map(|entry| entry.expect("an entry can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| path.file_stem().expect("files have names").to_string_lossy().into_owned())
        .filter(|name| name != "SUMMARY")
        .collect();
    let mut named = summary();
    for list in [&mut tested, &mut files, &mut named] {
        list.sort();
    }
    assert_eq!(named, files, "the summary and the files");
    assert_eq!(tested, files, "the list in lib.rs and the files");
}

/// Adds all Markdown files of a folder and its subfolders to `found`.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn links_resolve() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files: Vec<_> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name)).into();
    documents(&root.join("docs"), &mut files);
    assert!(files.len() > 20, "the guide, the decisions and more: {files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("a document can be read");
        let folder = file.parent().expect("files are in folders");
        for target in targets(&text) {
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = ["https:", "http:"].iter().any(|scheme| target.starts_with(scheme));
            assert!(elsewhere || folder.join(path).exists(), "{}: {target}", file.display());
        }
    }
}

#[test]
fn chapters_link_only_within_the_book() {
    for chapter in summary() {
        let text = fs::read_to_string(source().join(&chapter).with_extension("md")).expect("a chapter can be read");
        for target in targets(&text) {
            assert!(!target.starts_with("../"), "{chapter}: {target} is outside of the book");
        }
    }
}
