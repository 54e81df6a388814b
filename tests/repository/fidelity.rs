//! Checks that docs/fidelity.md tells, for each row, where the item is or why it is not there, and that the files and
//! items that it links to exist.

use std::fs;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// Returns the links in a line, as text and target.
fn links(line: &str) -> Vec<(&str, &str)> {
    let link = |(at, _): (usize, &str)| {
        let text = line[..at].rsplit_once('[')?.1;
        let target = line[at + 2..].split_once(')')?.0;
        Some((text, target))
    };
    line.match_indices("](").filter_map(link).collect()
}

/// Returns the item that a link's text names, if it is code: the last word of `Machine::plan`, `eft` or `balance()`.
fn item(text: &str) -> Option<&str> {
    let code = text.strip_prefix('`')?.strip_suffix('`')?;
    let name = code.split(['(', '<', ' ']).next()?;
    name.rsplit("::").next()
}

/// Returns the complaint about a link, if there is one.
fn problem(text: &str, target: &str) -> Option<String> {
    let file = docs().join(target.split('#').next().unwrap_or_default());
    if !file.exists() {
        return Some(format!("there is no {target}"));
    }
    let item = item(text)?;
    let is_named = file.is_file() && fs::read_to_string(&file).unwrap().contains(item);
    (!is_named).then(|| format!("{target} does not contain `{item}`"))
}

#[test]
fn table_of_sources_links_existing_files_and_items() {
    let text = fs::read_to_string(docs().join("fidelity.md")).unwrap();
    let (mut problems, mut rows) = (Vec::new(), 0);
    for (number, line) in text.lines().enumerate() {
        problems.extend(links(line).into_iter().filter_map(|(text, target)| {
            problem(text, target).map(|problem| format!("line {}: {problem}", number + 1))
        }));
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if !line.starts_with('|') || line.starts_with("| ---") || cells[1] == "Thalweg" {
            continue;
        }
        rows += 1;
        let answer = cells[1];
        let is_answered =
            !links(answer).is_empty() || answer.starts_with("not built: ") || answer.starts_with("deviates: ");
        if cells.len() != 2 || !is_answered {
            problems
                .push(format!("line {}: neither a link nor `deviates: ` nor `not built: ` is in `{line}`", number + 1));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(rows > 150, "only {rows} rows were found");
}

#[test]
fn links_are_found_and_checked() {
    let line = "| a | [`Machine::plan(..)`](../src/machine/mod.rs), [page](limits.md#devices) |";
    assert_eq!(links(line), [("`Machine::plan(..)`", "../src/machine/mod.rs"), ("page", "limits.md#devices")]);
    assert_eq!((item("`Machine::plan(..)`"), item("page")), (Some("plan"), None));
    assert_eq!(problem("page", "limits.md#devices"), None);
    assert!(problem("`no_such_item`", "limits.md").is_some() && problem("x", "none.md").is_some());
}
