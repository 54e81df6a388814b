//! The modules of the library, and the modules whose items each of them names.
//!
//! Names are followed through `use`, `super`, nested braces and re-exports, to the module that defines them. Tests are
//! left out: they may use everything.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path from the crate's root; the root itself is empty.
pub(crate) type Module = Vec<String>;

/// The library's modules, each with the names in its code.
pub(crate) struct Modules(BTreeMap<Module, Names>);

/// The paths that a module names.
struct Names {
    /// In `use` declarations.
    imported: Vec<Vec<String>>,
    /// Elsewhere, from the root or from a module around it.
    inline: Vec<Vec<String>>,
}

/// How many re-exports are followed.
const MOST_STEPS: usize = 8;

impl Modules {
    /// Reads all modules below a folder that has a `lib.rs`.
    pub(crate) fn below(src: &Path) -> Self {
        let mut files = Vec::new();
        collect(src, &mut files);
        let texts = files.into_iter().map(|path| {
            let inside = path.strip_prefix(src).unwrap().with_extension("");
            let mut module: Module = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            module.pop_if(|last| last == "mod" || last == "lib");
            (module, fs::read_to_string(path).unwrap())
        });
        Self::of(texts)
    }

    fn of(texts: impl IntoIterator<Item = (Module, String)>) -> Self {
        let declared = Regex::new(r"#\[cfg\((?:all\()?test\b[^\n]*\n(?:#\[[^\n]*\n)*(?:pub[^\n]*)?mod (\w+);").unwrap();
        let inline = Regex::new(r"(?m)^#\[cfg\((?:all\()?test\b[^\n]*\n(?:#\[[^\n]*\n)*mod \w+ \{").unwrap();
        let import = Regex::new(r"\buse\s+([^;]+);").unwrap();
        let path = Regex::new(r"\b(?:crate|super)(?:::\w+)+").unwrap();
        let (mut all, mut of_tests) = (BTreeMap::new(), Vec::new());
        for (module, text) in texts {
            for name in declared.captures_iter(&text) {
                of_tests.push([&module[..], &[name[1].to_owned()]].concat());
            }
            let text = inline.find(&text).map_or(&text[..], |tests| &text[..tests.start()]);
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let code = code.collect::<Vec<_>>().join("\n");
            let mut imported = Vec::new();
            import.captures_iter(&code).for_each(|tree| expand(&[], &tree[1], &mut imported));
            let inline = path.find_iter(&import.replace_all(&code, "")).map(|path| words(path.as_str())).collect();
            all.insert(module, Names { imported, inline });
        }
        all.retain(|module, _| !of_tests.iter().any(|tests| module.starts_with(tests)));
        Self(all)
    }

    /// Calls `see` with each pair of a module and a module whose item it names.
    pub(crate) fn for_each_use(&self, see: &mut dyn FnMut(&Module, &Module)) {
        for (module, names) in self.0.iter().filter(|(module, _)| !module.is_empty()) {
            let paths = names.imported.iter().chain(&names.inline);
            let targets: BTreeSet<Module> = paths.filter_map(|path| self.resolve(module, path, 0)).collect();
            targets.iter().for_each(|target| see(module, target));
        }
    }

    /// Returns the module that defines the item with this path, seen from `module`; `None` if it is of another crate.
    fn resolve(&self, module: &Module, path: &[String], steps: usize) -> Option<Module> {
        let mut at = module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Module::new(), &path[1..]),
            "super" | "self" => {}
            name if self.0.contains_key(&[&at[..], &[name.to_owned()]].concat()) => {}
            _ => return None,
        }
        while let Some(name @ ("super" | "self")) = rest.first().map(String::as_str) {
            at.pop_if(|_| name == "super");
            rest = &rest[1..];
        }
        while let Some(inner) = rest.first().map(|name| [&at[..], std::slice::from_ref(name)].concat())
            && self.0.contains_key(&inner)
        {
            (at, rest) = (inner, &rest[1..]);
        }
        let Some(name) = rest.first().filter(|_| steps < MOST_STEPS) else { return Some(at) };
        let source = self.0.get(&at)?.imported.iter().find(|export| export.last() == Some(name) && **export != path);
        match source {
            Some(source) => self.resolve(&at, source, steps + 1).or(Some(at)),
            // The name is in a module inside this file, whose `super` is this module.
            None if at.is_empty() && path[0] == "super" => self.resolve(module, &path[1..], steps + 1),
            None => Some(at),
        }
    }

    /// Returns whether there is a folder for this module.
    pub(crate) fn is_folder(&self, module: &[String]) -> bool {
        self.0.keys().any(|inner| inner.len() > module.len() && inner.starts_with(module))
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn words(path: &str) -> Vec<String> {
    path.split("::").map(|word| word.trim().to_owned()).collect()
}

/// Adds the paths of a tree such as `a::{b, c::{d, e}}`.
fn expand(before: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    let Some((head, inside)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap().trim();
        if !path.is_empty() {
            paths.push([before, &words(path)].concat());
        }
        return;
    };
    let head = head.trim().trim_end_matches("::");
    let before = if head.is_empty() { before.to_vec() } else { [before, &words(head)].concat() };
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in inside.char_indices() {
        match c {
            ',' | '}' if depth == 0 => {
                expand(&before, &inside[begin..at], paths);
                begin = at + 1;
                if c == '}' {
                    return;
                }
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
}

#[test]
fn names_are_followed_to_the_module_that_defines_them() {
    let texts = [
        ("", "pub use a::Made;\npub mod out { pub use crate::b::inner::Deep; }"),
        ("a", "use super::b::{inner::{self, Deep}, Shown};"),
        ("b", "mod inner;\npub use inner::Shown;\n#[cfg(test)]\nmod of_tests;"),
        ("b::inner", "fn f() { crate::Made::new(); }\n#[cfg(test)]\nmod tests {\n    use crate::c::Never;\n}"),
        ("b::of_tests", "use crate::c::Never;"),
        ("c", "// use crate::a::Comment;\nuse std::fmt;\nmod inside {\n    pub use super::d::Near;\n}"),
        ("c::d", "pub struct Near;"),
    ];
    let path = |name: &str| if name.is_empty() { Module::new() } else { words(name) };
    let modules = Modules::of(texts.map(|(name, text)| (path(name), text.to_owned())));
    let mut seen = BTreeSet::new();
    modules.for_each_use(&mut |from, to| _ = seen.insert((from.join("::"), to.join("::"))));
    let pairs = [("a", "b::inner"), ("b", "b::inner"), ("b::inner", "a"), ("c", "c::d")];
    assert_eq!(seen, BTreeSet::from(pairs.map(|(from, to)| (from.to_owned(), to.to_owned()))));
}
