//! Test that no item is public by accident: every public item is listed in `tests/public_api.txt`, so each change to
//! the public API shows up in review.
//!
//! The items are extracted from the pages that `cargo doc` writes, without items from standard library traits and
//! automatic implementations. The test needs rustdoc and depends on the wording of its pages, which may change between
//! releases, so it runs only on request:
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

/// Item kinds. The file name of a page that describes an item begins with one of these.
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
        fs::remove_dir_all(&folder).unwrap(); // the folder may contain pages of items that were removed since
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
        // If an item in a private module is re-exported elsewhere, its page here is only a redirect.
        if KINDS.contains(&kind) && !page.contains("http-equiv=\"refresh\"") {
            let path = format!("{module}::{name}");
            items.insert(format!("{kind} {path}"));
            read_page(&page, &path, items);
        }
    }
}

/// Reads an item's declaration, which includes variants and fields, and the item's own methods, both required and
/// provided.
fn read_page(page: &str, path: &str, items: &mut BTreeSet<String>) {
    // These headings are followed by trait implementations and by methods of other types.
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

/// Returns a text without markup and with single spaces.
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
