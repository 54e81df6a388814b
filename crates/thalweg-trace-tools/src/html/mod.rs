//! The report: a self-contained HTML file with a timeline, figures and the verdict. It needs neither a network nor
//! any other file.
//!
//! The file contains the page (`assets/page.html`), its style sheets and scripts, summary figures as JSON, and the
//! trace's tables as compressed columns. The browser unpacks the columns and draws. Shares, figures by name,
//! copies, paths and verdict come from the [analysis](crate::analysis), so the report agrees with the summary.
//!
//! Names in a trace are untrusted. They are embedded as JSON without any `<` and escaped wherever the page shows
//! them before its script runs; the script never assigns HTML. The page's content security policy forbids loading
//! anything.

mod columns;
mod encode;
mod facts;
mod gaps;
mod items;

use crate::Trace;
use crate::analysis::{Analysis, timeline};
use columns::Columns;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const PAGE: &str = include_str!("assets/page.html");
const STYLE: &str = concat!(
    include_str!("assets/style.css"),
    include_str!("assets/controls.css"),
    include_str!("assets/timeline.css"),
    include_str!("assets/detail.css"),
    include_str!("assets/tables.css"),
    include_str!("assets/print.css"),
);
/// The scripts, ordered so that each comes after the scripts it depends on.
const SCRIPTS: [&str; 21] = [
    include_str!("assets/format.js"),
    include_str!("assets/data.js"),
    include_str!("assets/theme.js"),
    include_str!("assets/track.js"),
    include_str!("assets/brush.js"),
    include_str!("assets/steps.js"),
    include_str!("assets/rows.js"),
    include_str!("assets/timeline.js"),
    include_str!("assets/paths.js"),
    include_str!("assets/overlay.js"),
    include_str!("assets/overview.js"),
    include_str!("assets/hover.js"),
    include_str!("assets/input.js"),
    include_str!("assets/detail.js"),
    include_str!("assets/search.js"),
    include_str!("assets/summary.js"),
    include_str!("assets/tables.js"),
    include_str!("assets/transfers.js"),
    include_str!("assets/decisions.js"),
    include_str!("assets/app.js"),
    include_str!("assets/main.js"),
];

/// Writes the report of a run.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write(trace: &Trace, path: &Path) -> io::Result<()> {
    let report = || {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        write_to(trace, &mut out)?;
        out.flush()
    };
    report().map_err(|problem| {
        let hint = "try a file in a folder that exists and is writable";
        io::Error::new(problem.kind(), format!("cannot write {}: {problem}; {hint}", path.display()))
    })
}

/// Writes the report of a run to a stream.
///
/// # Errors
/// Returns an error if writing to the stream fails.
pub fn write_to(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let (analysis, [head, columns, dependences]) = embed(trace)?;
    let script = SCRIPTS.concat();
    let title = escape(&title(trace));
    let verdict = escape(&analysis.verdict.sentence);
    for (at, part) in PAGE.split("{{").enumerate() {
        let Some((name, rest)) = part.split_once("}}").filter(|_| at > 0) else {
            out.write_all(part.as_bytes())?;
            continue;
        };
        let value = match name {
            "title" => &title,
            "verdict" => &verdict,
            "style" => STYLE,
            "head" => &head,
            "columns" => &columns,
            "dependences" => &dependences,
            "script" => &script,
            name => unreachable!("the page has no place for {name}"),
        };
        out.write_all(value.as_bytes())?;
        out.write_all(rest.as_bytes())?;
    }
    Ok(())
}

/// Returns the figures as JSON that is safe inside a script element, and the two blocks of columns.
fn embed(trace: &Trace) -> io::Result<(Analysis, [String; 3])> {
    let (numbers, places) = encode::data(trace);
    let dependences = || {
        let mut columns = Columns::default();
        encode::dependences(&mut columns, trace, &places);
        encode::accesses(&mut columns, trace, &places);
        columns.finish()
    };
    std::thread::scope(|scope| {
        let dependences = scope.spawn(dependences);
        let analysis = Analysis::of(trace);
        let mut head = facts::of(trace, &analysis);
        let mut columns = Columns::default();
        columns.deltas("data.number", numbers);
        let block = embed_timeline(columns, trace, &analysis, &places, &mut head)?;
        let (directory, dependences) = dependences.join().expect("encoding does not panic")?;
        head["dependences"] = directory;
        // In JSON, `<` occurs only within strings. Once it is escaped, no string can close the script element.
        let head = serde_json::to_string(&head)?.replace('<', "\\u003c");
        Ok((analysis, [head, block, dependences]))
    })
}

/// Encodes the timeline's columns as a block, and adds their description to `head`.
fn embed_timeline(
    mut columns: Columns,
    trace: &Trace,
    analysis: &Analysis,
    places: &HashMap<u64, usize>,
    head: &mut Value,
) -> io::Result<String> {
    let (tasks, copies, states) = (items::of_tasks(trace), items::of_copies(trace), items::of_states(trace));
    let (mut used, mut gaps) = (facts::Use::new(analysis), gaps::Gaps::new(analysis));
    timeline(trace, |stretch| {
        used.add(stretch);
        gaps.add(stretch);
    });
    encode::tasks(&mut columns, trace, &trace.ready());
    encode::rows(&mut columns, "task", &tasks);
    encode::rows(&mut columns, "copy", &copies);
    encode::rows(&mut columns, "state", &states);
    encode::others(&mut columns, trace, places);
    encode::path(&mut columns, "critical", &analysis.critical);
    encode::path(&mut columns, "chain", &analysis.chain);
    gaps.encode(&mut columns);
    let (directory, block) = columns.finish()?;
    head["use"] = used.finish();
    head["rows"] =
        json!({ "tasks": facts::heads(&tasks), "copies": facts::heads(&copies), "states": facts::heads(&states) });
    head["columns"] = directory;
    Ok(block)
}

/// Returns the page title, which is the program's name without its folder.
fn title(trace: &Trace) -> String {
    let program = trace.facts.get("program").map_or("", |program| program.as_str());
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    if name.is_empty() { "A run".to_owned() } else { name.to_owned() }
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    escaped
}
