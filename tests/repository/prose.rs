//! The prose of the project: comments and documents avoid patterns of other languages, and their lines are not too
//! long.
//!
//! The rules are those of CONTRIBUTING.md. A pattern is a hint and not a proof, so a folder may keep a few sentences
//! that match one: fewer than one in fifty.

use regex::Regex;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Patterns that native engineers rarely write, with what they write instead.
const PATTERNS: [(&str, &str); 8] = [
    (r"\b([Ww]ho|[Ww]hoever)\s+[a-z]+", "name the actor: thread, task, caller"),
    (
        r"^What |\b[Ww]hat (is|are|was|has|have|it|they|no|others|users|tasks|comes|came|goes|can|could|must|else|one|who|lies|stands)\b",
        "use a noun instead of a clause",
    ),
    (r"^Where .*,", "use `if` or `when` for a condition"),
    (r"\b(fewer|most|more|that|those|part|because) of wh(ich|om)\b|, of wh(ich|om)\b", "split the sentence"),
    (r"\b([Nn]obody|[Ss]omebody)\b", "name the actor, or use the passive"),
    (r"\bof (one's|its|their) own\b", "write `its own x`, or `a custom x`"),
    (
        r"\bin (the )?place of\b|\bby turns\b|\bso (many|much)\b|\bgoes on\b|\bis told\b|\bstands\b",
        "use the field's word",
    ),
    (r"\b(behind|beside)\b", "write `after`, `next to` or `compared with`"),
];
/// In each folder, at most one sentence in this many may match a pattern.
const ONE_IN: usize = 50;
/// Maximum width of a line of prose, in characters, including indentation.
const WIDTH: usize = 120;
const SKIPPED: [&str; 4] = ["target", ".git", "node_modules", "proptest-regressions"];

#[test]
fn sentences_avoid_patterns_of_other_languages() {
    let patterns = PATTERNS.map(|(pattern, advice)| (Regex::new(&format!("(?m){pattern}")).unwrap(), advice));
    let mut folders: BTreeMap<PathBuf, (usize, Vec<String>)> = BTreeMap::new();
    for path in files() {
        let folder = folder_of(&path);
        let (sentences, hits) = folders.entry(folder).or_default();
        for sentence in sentences_of(&prose(&path)) {
            *sentences += 1;
            if let Some((_, advice)) = patterns.iter().find(|(pattern, _)| pattern.is_match(&sentence)) {
                hits.push(format!("{}: {sentence}\n      {advice}", path.display()));
            }
        }
    }
    assert!(folders.values().map(|(sentences, _)| sentences).sum::<usize>() > 10_000, "the files were not found");
    for (folder, (sentences, hits)) in folders {
        let allowed = (sentences / ONE_IN).max(2);
        assert!(
            hits.len() <= allowed,
            "{} of {sentences} sentences of {} match a pattern, {allowed} may:\n  {}",
            hits.len(),
            folder.display(),
            hits.join("\n  ")
        );
    }
}

#[test]
fn lines_of_prose_fit_the_width() {
    let mut long = Vec::new();
    for path in files() {
        let text = fs::read_to_string(&path).unwrap();
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        let mut in_code = false;
        for (number, line) in text.lines().enumerate() {
            let words = line.trim_start();
            let comment = words.strip_prefix("///").or(words.strip_prefix("//!"));
            if comment.unwrap_or(words).trim_start().starts_with("```") {
                in_code = !in_code;
            }
            // Tables, code, links and generated lines cannot be broken.
            let is_prose = if is_rust { words.starts_with("//") } else { true };
            let text = words.trim_start_matches(['/', '!', ' ', '>', '-', '*']);
            let is_bound =
                in_code || text.starts_with(['|', '[', '<', '!']) || !text.contains(' ') || text.contains("](");
            if is_prose && !is_bound && line.chars().count() > WIDTH {
                long.push(format!("{}:{}: {} columns", path.display(), number + 1, line.chars().count()));
            }
        }
    }
    assert!(long.is_empty(), "lines of prose over {WIDTH} columns:\n{}", long.join("\n"));
}

/// Returns the folder that a file counts towards, at most two levels below the root.
fn folder_of(path: &Path) -> PathBuf {
    let relative = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
    relative.parent().unwrap().components().take(2).collect()
}

/// Returns all files that contain prose.
fn files() -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::from(env!("CARGO_MANIFEST_DIR"))]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") || name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.retain(|path| !path.ends_with("tests/repository/prose.rs"));
    found.sort();
    found
}

/// Returns the prose of a file, without its code.
fn prose(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let mut in_code = false;
    let mut prose = String::new();
    for line in text.lines() {
        let words = line.trim_start();
        let words = match is_rust {
            true => words.strip_prefix("//").map(|rest| rest.strip_prefix(['/', '!']).unwrap_or(rest)),
            false => Some(line).filter(|line| !line.starts_with('|')),
        };
        let words = words.map(|words| words.strip_prefix(' ').unwrap_or(words));
        match words {
            Some(fence) if fence.trim_start().starts_with("```") => in_code = !in_code,
            Some(words) if !in_code => prose.push_str(words),
            _ => {}
        }
        prose.push('\n');
    }
    prose
}

/// Returns the sentences of a text that have more than four words, each as a single line.
fn sentences_of(prose: &str) -> Vec<String> {
    let paragraphs = prose.split("\n\n");
    let lines = paragraphs.map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut sentences = Vec::new();
    for line in lines {
        let mut from = 0;
        let ends = line.match_indices([' ']).filter(|(at, _)| line[..*at].ends_with(['.', ':', ';', '!', '?']));
        for at in ends.map(|(at, _)| at).chain([line.len()]).collect::<Vec<_>>() {
            sentences.push(line[from..at].trim().to_owned());
            from = at;
        }
    }
    sentences.retain(|sentence| sentence.split(' ').count() > 4);
    sentences
}
