//! Checks that a layer of the library uses only the layers above it in the table of ARCHITECTURE.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the layers in the table's order. A layer consists of all files below its folder in `src`.
fn layers() -> Vec<String> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = text.split("\n## Layers\n").nth(1).unwrap().split("\n```").next().unwrap();
    let mut layers = vec!["sealed".to_owned(), "tuples".to_owned()]; // not layers: everything may use them
    for row in table.lines().filter_map(|line| line.strip_prefix("| `")) {
        let layer = row.split(['/', '.', '`']).next().unwrap();
        if !layers.iter().any(|known| known == layer) {
            layers.push(layer.to_owned());
        }
    }
    layers
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Calls `look` with each file of the library and its text without comments and tests.
fn for_each_file(folder: &Path, look: &mut dyn FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            for_each_file(&path, look);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("lib.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            let is_of_tests = path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            look(&path, &if is_of_tests { String::new() } else { code.collect::<Vec<_>>().join("\n") });
        }
    }
}

#[test]
fn layer_uses_only_layers_above_it() {
    let (layers, mut seen, mut wrong) = (layers(), BTreeSet::new(), BTreeSet::new());
    let rank = |name: &str| layers.iter().position(|layer| layer == name);
    for_each_file(&root().join("src"), &mut |path, code| {
        let inside = path.strip_prefix(root().join("src")).unwrap();
        let layer = inside.iter().next().unwrap().to_string_lossy().replace(".rs", "");
        let own = rank(&layer).unwrap_or_else(|| panic!("the table in ARCHITECTURE.md lacks `{layer}`"));
        seen.insert(layer);
        for used in code.split("crate::").skip(1) {
            let names = used.strip_prefix('{').map_or(used, |list| list.split('}').next().unwrap());
            let until = if used.starts_with('{') {
                names.len()
            } else {
                names.find(|c: char| !is_word(c)).unwrap_or(names.len())
            };
            for name in names[..until].split(|c: char| !is_word(c)) {
                if rank(name).is_some_and(|rank| rank > own) {
                    wrong.insert(format!("{} uses {name}", inside.display()));
                }
            }
        }
    });
    assert!(wrong.is_empty(), "layers use layers below them:\n{wrong:#?}");
    assert!(seen.len() > 15 && layers.iter().all(|layer| seen.contains(layer)), "{layers:?} {seen:?}");
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
