//! Checks that a layer of the library uses only the layers above it in the table of ARCHITECTURE.md, that the
//! folders inside a layer use each other in one direction only, and so do the files of `runtime/`.

use super::imports::{Module, Modules};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Folders that use each other. A task's block carries its gate in a replay, and a replay consists of such blocks.
const CIRCLES: [&str; 1] = ["depend: node, replay"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

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

#[test]
fn layer_uses_only_layers_above_it() {
    let (layers, mut seen, mut wrong) = (layers(), BTreeSet::new(), BTreeSet::new());
    let rank = |module: &Module| {
        let rank = layers.iter().position(|layer| *layer == module[0]);
        rank.unwrap_or_else(|| panic!("the table in ARCHITECTURE.md lacks `{}`", module[0]))
    };
    Modules::below(&root().join("src")).for_each_use(&mut |from, to| {
        seen.insert(from[0].clone());
        if to.is_empty() || rank(to) > rank(from) {
            wrong.insert(format!("{} uses {}", from.join("/"), if to.is_empty() { "lib.rs" } else { &to[0] }));
        }
    });
    assert!(wrong.is_empty(), "layers use layers below them:\n{wrong:#?}");
    assert!(seen.len() > 15 && seen.iter().all(|layer| layers.contains(layer)), "{layers:?} {seen:?}");
}

#[test]
fn folders_of_a_layer_form_no_circle() {
    let modules = Modules::below(&root().join("src"));
    // For each folder, which of its folders use which.
    let mut uses: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    modules.for_each_use(&mut |from, to| {
        let common = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        if let (Some(user), Some(used)) = (from.get(common), to.get(common))
            && modules.is_folder(&from[..=common])
            && modules.is_folder(&to[..=common])
        {
            let inside = uses.entry(from[..common].to_vec()).or_default();
            inside.entry(user.clone()).or_default().insert(used.clone());
        }
    });
    let mut circles = Vec::new();
    for (folder, inside) in uses {
        let names = in_circles(inside);
        if !names.is_empty() {
            circles.push(format!("{}: {}", folder.join("/"), names.join(", ")));
        }
    }
    assert_eq!(circles, CIRCLES, "folders use each other; try moving what both need to a third one");
}

/// Returns those that are in a circle, or between two circles.
fn in_circles(mut uses: BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    loop {
        let before = uses.len();
        let used: BTreeSet<String> = uses.values().flatten().cloned().collect();
        uses.retain(|user, _| used.contains(user));
        let users: BTreeSet<String> = uses.keys().cloned().collect();
        uses.values_mut().for_each(|used| used.retain(|name| users.contains(name)));
        uses.retain(|_, used| !used.is_empty());
        if uses.len() == before {
            return uses.into_keys().collect();
        }
    }
}

#[test]
fn imports_between_files_of_runtime_go_one_way() {
    let modules = Modules::below(&root().join("src"));
    let mut uses = BTreeMap::<String, BTreeSet<String>>::new();
    modules.for_each_use(&mut |from, to| {
        if let ([layer, user, ..], [other, used, ..]) = (&from[..], &to[..])
            && layer == "runtime"
            && other == "runtime"
            && user != used
        {
            uses.entry(user.clone()).or_default().insert(used.clone());
        }
    });
    assert!(uses.len() > 30 && uses["submit"].contains("door"), "{uses:?}");
    let circle = in_circles(uses);
    assert!(circle.is_empty(), "these files import each other: {circle:?}");
}
