//! Test that nothing is public by accident: every public item is listed in `tests/public_api.txt`, so review sees each
//! change.
//!
//! The list is read from the pages that `cargo doc` writes, without the items that traits of the standard library and
//! automatic implementations add. It needs rustdoc, and the wording of its pages may change with it, so this test runs
//! on request:
//!
//! ```text
//! cargo test --test public_api -- --ignored
//! ```
//!
//! With `THALWEG_BLESS=1` it rewrites the list.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kinds with which the names of pages that describe an item begin.
const KINDS: [&str; 7] = ["struct", "enum", "trait", "fn", "type", "constant", "macro"];

#[test]
#[ignore = "runs rustdoc; `cargo test --test public_api -- --ignored`"]
fn public_items_match_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut items = BTreeSet::new();
    read_folder(&documented(root), "thalweg", &mut items);
    assert!(items.contains("struct thalweg::Runtime"), "no page could be read");
    assert!(
        items.iter().any(|item| item.starts_with("thalweg::Runtime: pub fn wait(&self)")),
        "no method could be read"
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

/// Documents the library with all features. Returns the folder with its pages.
fn documented(root: &Path) -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let target = test.ancestors().nth(3).expect("tests are in <target>/<profile>/deps");
    let folder = target.join("doc/thalweg");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap(); // it may have pages of removed items
    }
    let status = Command::new(env!("CARGO"))
        .args(["doc", "--package", "thalweg", "--lib", "--all-features", "--no-deps", "--quiet", "--target-dir"])
        .arg(target)
        .current_dir(root)
        .status();
    assert!(status.unwrap().success(), "the documentation cannot be built");
    folder
}

/// Reads the pages of a module and of the modules below it.
fn read_folder(folder: &Path, module: &str, items: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            read_folder(&entry.path(), &format!("{module}::{name}"), items);
        }
        let Some((kind, name)) = name.strip_suffix(".html").and_then(|page| page.split_once('.')) else { continue };
        let page = fs::read_to_string(entry.path()).unwrap();
        // If an item of a private module is public elsewhere, its page here is a redirection.
        if KINDS.contains(&kind) && !page.contains("http-equiv=\"refresh\"") {
            let path = format!("{module}::{name}");
            items.insert(format!("{kind} {path}"));
            read_page(&page, &path, items);
        }
    }
}

/// Reads the item's declaration, which includes variants and fields, and its own methods, required and provided.
fn read_page(page: &str, path: &str, items: &mut BTreeSet<String>) {
    // After these come implementations of traits, and methods of other types.
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

/// Returns a text without markup, with single spaces.
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
