//! Tests of the report: the page's structure and safety, the embedded data, the palette, and the page in a browser.

mod browser;
mod embedded;
mod page;
mod palette;
mod synthetic;

use std::path::PathBuf;
use thalweg_trace_tools::{Trace, html};

/// Returns the report of a trace as text.
fn report(trace: &Trace) -> String {
    let mut out = Vec::new();
    html::write_to(trace, &mut out).expect("a vector takes everything");
    String::from_utf8(out).expect("the report is text")
}

/// Returns the texts of the style sheets and scripts, with their file names.
fn assets() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/html/assets");
    let entries = std::fs::read_dir(folder).expect("the assets are in the crate");
    let paths = entries.map(|entry| entry.expect("the folder is readable").path());
    let texts = paths.map(|path| {
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).expect("an asset is text"))
    });
    texts.collect()
}
