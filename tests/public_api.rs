//! What is public is meant to be: all of it stands in `tests/public_api.txt`, so a change of it is seen in review.
//!
//! The list is read from the pages that `cargo doc` writes, without what traits of the standard library and automatic
//! implementations add. It takes rustdoc, and the wording of its pages may change with it, so this test runs on request:
//!
//! ```text
//! cargo test --test public_api -- --ignored
//! ```
//!
//! With `THALWEG_BLESS=1` it writes the list anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The pages that describe an item start with its kind.
const KINDS: [&str; 7] = ["struct", "enum", "trait", "fn", "type", "constant", "macro"];

#[test]
#[ignore = "runs rustdoc; `cargo test --test public_api -- --ignored`"]
fn nothing_is_public_unawares() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut items = BTreeSet::new();
    read_folder(&documented(root), "thalweg", &mut items);
    assert!(items.contains("struct thalweg::Runtime"), "no page was understood");
    assert!(
        items.iter().any(|item| item.starts_with("thalweg::Runtime: pub fn wait(&self)")),
        "no method was understood"
    );
    let found = items.into_iter().collect::<Vec<_>>().join("\n") + "\n";
    let file = root.join("tests/public_api.txt");
    if std::env::var_os("THALWEG_BLESS").is_some() {
        fs::write(&file, &found).unwrap();
    }
    let listed = fs::read_to_string(&file).unwrap();
    let differ = |one: &str, other: &str, sign: char| -> Vec<String> {
        let other: BTreeSet<&str> = other.lines().collect();
        one.lines().filter(|line| !other.contains(line)).map(|line| format!("{sign} {line}")).collect()
    };
    let changes = [differ(&listed, &found, '-'), differ(&found, &listed, '+')].concat();
    assert!(changes.is_empty(), "the public API has changed:\n{}\ntry THALWEG_BLESS=1", changes.join("\n"));
}

/// The folder with the library's pages, written now, with all features.
fn documented(root: &Path) -> PathBuf {
    let test = std::env::current_exe().expect("tests have a path");
    let target = test.ancestors().nth(3).expect("tests lie in <target>/<profile>/deps");
    let folder = target.join("doc/thalweg");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap(); // it may have pages of items that are gone
    }
    let status = Command::new(env!("CARGO"))
        .args(["doc", "--package", "thalweg", "--lib", "--all-features", "--no-deps", "--quiet", "--target-dir"])
        .arg(target)
        .current_dir(root)
        .status();
    assert!(status.unwrap().success(), "the documentation cannot be built");
    folder
}

/// Reads the pages of a module and of those below it.
fn read_folder(folder: &Path, module: &str, items: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            read_folder(&entry.path(), &format!("{module}::{name}"), items);
        }
        let Some((kind, name)) = name.strip_suffix(".html").and_then(|page| page.split_once('.')) else { continue };
        let page = fs::read_to_string(entry.path()).unwrap();
        // What a private module has that is public elsewhere is a page that leads there.
        if KINDS.contains(&kind) && !page.contains("http-equiv=\"refresh\"") {
            let path = format!("{module}::{name}");
            items.insert(format!("{kind} {path}"));
            read_page(&page, &path, items);
        }
    }
}

/// Reads what an item has of its own: methods, required and provided; variants and fields are part of its declaration.
fn read_page(page: &str, path: &str, items: &mut BTreeSet<String>) {
    // Behind these come implementations of traits, and of methods that are another type's.
    let ends = [
        "id=\"trait-implementations\"",
        "id=\"deref-methods",
        "id=\"synthetic-implementations\"",
        "id=\"implementors\"",
    ];
    let own = &page[..ends.iter().filter_map(|end| page.find(end)).min().unwrap_or(page.len())];
    for (start, end) in [("<pre class=\"rust item-decl\">", "</pre>"), ("<h4 class=\"code-header\">", "</h4>")] {
        for part in own.split(start).skip(1) {
            let text = plain(part.split(end).next().unwrap_or_default());
            items.insert(format!("{path}: {text}"));
        }
    }
}

/// A text without markup, and with single spaces.
fn plain(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
    }
    for (entity, sign) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")]
    {
        text = text.replace(entity, sign);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
