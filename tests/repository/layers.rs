//! Checks that a layer of the library uses only the layers above it in the table of ARCHITECTURE.md, and that imports
//! inside `runtime/` go one way.

use std::collections::{BTreeMap, BTreeSet};
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

/// Returns the names that follow each occurrence of `prefix`, which may be a list in braces.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let first_word = |text: &str| text.trim_start().split(|c: char| !is_word(c)).next().unwrap().to_owned();
    let mut names = Vec::new();
    for used in code.split(prefix).skip(1) {
        match used.strip_prefix('{') {
            Some(list) => names.extend(list.split('}').next().unwrap().split(',').map(first_word)),
            None => names.push(first_word(used)),
        }
    }
    names.retain(|name| !name.is_empty() && name != "super");
    names
}

#[test]
fn imports_between_files_of_runtime_go_one_way() {
    let folder = root().join("src/runtime");
    let mut uses = BTreeMap::<String, BTreeSet<String>>::new();
    for_each_file(&folder, &mut |path, code| {
        let inside = path.strip_prefix(&folder).unwrap();
        let own = inside.iter().next().unwrap().to_string_lossy().replace(".rs", "");
        if own == "mod" {
            return; // it declares the others
        }
        let is_direct =
            inside.components().count() == 1 || inside.components().count() == 2 && path.ends_with("mod.rs");
        let up = if is_direct { "super::" } else { "super::super::" };
        let mut names = [names_after(code, up), names_after(code, "crate::runtime::")].concat();
        if is_direct && inside.components().count() == 2 {
            names.retain(|name| folder.join(name).is_dir() || folder.join(format!("{name}.rs")).exists());
        }
        names.retain(|name| *name != own);
        uses.entry(own).or_default().extend(names);
    });
    assert!(uses.len() > 30 && uses["submit"].contains("door"), "{uses:?}");
    let files: BTreeSet<String> = uses.keys().cloned().collect();
    let unknown: Vec<_> = uses.iter().filter(|(_, names)| !names.is_subset(&files)).collect();
    assert!(unknown.is_empty(), "these do not import from the file that defines a name:\n{unknown:#?}");
    while let Some(last) = uses.keys().find(|own| uses[*own].is_empty()).cloned() {
        uses.remove(&last);
        uses.values_mut().for_each(|names| _ = names.remove(&last));
    }
    while let Some(first) = uses.keys().find(|own| !uses.values().any(|names| names.contains(*own))).cloned() {
        uses.remove(&first); // it only uses files of a circle
    }
    assert!(uses.is_empty(), "these files import each other:\n{uses:#?}");
}
