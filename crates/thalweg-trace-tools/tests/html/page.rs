//! Tests of the page's structure: a single file, no network access, and no text from the trace interpreted as HTML.

use crate::synthetic::{NAMES, everything};
use crate::{assets, report};
use thalweg_trace_tools::{Trace, html};

/// Counts the occurrences of `pattern`, ignoring case.
fn count(text: &str, pattern: &str) -> usize {
    text.to_lowercase().matches(&pattern.to_lowercase()).count()
}

#[test]
fn report_refers_to_no_other_file() {
    let page = report(&everything());
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for reference in ["http:", "https:", "//cdn", " src=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("] {
        let from_names = NAMES.iter().filter(|name| name.contains(reference)).count();
        // The trace's names are in the JSON, and the site's name also occurs in the figures.
        assert!(count(&page, reference) <= 3 * from_names, "{reference}");
    }
    assert!(page.contains("default-src 'none'"), "the browser is told to load nothing");
}

#[test]
fn names_are_never_html() {
    let mut trace = everything();
    trace.facts.insert("program".to_owned(), "/bin/<script>alert(1)</script>\"&'".to_owned());
    trace.facts.insert("</script><b>key".to_owned(), "<!--<script>".to_owned());
    trace.threads[0] = "</ScRiPt >".to_owned();
    trace.spaces[0] = "</script\n>".to_owned();
    trace.units[0].kind = "<svg onload=alert(1)>".to_owned();
    let page = report(&trace);
    assert_eq!(count(&page, "<script"), 4, "figures, two blocks of columns, and the program");
    assert_eq!(count(&page, "</script"), 4);
    assert_eq!(count(&page, "<!--") + count(&page, "<img") + count(&page, "<svg") + count(&page, "<b>"), 0);
    assert!(page.contains("<title>script&gt;&quot;&amp;&#39; – trace</title>"), "the name follows the last slash");
    assert!(page.contains("<h1 id=\"program\">script&gt;&quot;&amp;&#39;</h1>"));
}

#[test]
fn scripts_never_assign_html_nor_evaluate_text() {
    for (name, text) in assets().iter().filter(|(name, _)| name.ends_with(".js")) {
        for way in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "</script"] {
            assert_eq!(count(text, way), 0, "{way} in {name}");
        }
    }
}

#[test]
fn assets_are_short_and_say_what_they_contain() {
    let assets = assets();
    assert!(assets.len() > 15);
    for (name, text) in &assets {
        assert!(text.lines().count() <= 300, "{name} has {} lines", text.lines().count());
        let is_described = text.starts_with("// ") || text.starts_with("/* ") || name == "page.html";
        assert!(is_described, "{name} begins without a description");
    }
}

#[test]
fn every_script_is_in_the_report() {
    let page = report(&Trace::default());
    for (name, text) in assets().iter().filter(|(name, _)| name != "page.html") {
        assert!(page.contains(text.as_str()), "{name} is missing");
    }
    assert!(!page.contains("{{"), "each place of the page is filled");
}

#[test]
fn page_says_verdict_and_problem_without_its_script() {
    let page = report(&everything());
    let verdict = thalweg_trace_tools::analysis::Analysis::of(&everything()).verdict.sentence;
    let escaped = verdict.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;");
    assert!(page.contains(&format!("<p id=\"verdict-text\">{escaped}</p>")), "{verdict}");
    assert!(page.contains("byte 4711: \\u003ci>the file ends"), "the problem is among the figures");
}

#[test]
fn unwritable_path_is_named_with_a_hint() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path().join("missing").join("run.html");
    let error = html::write(&Trace::default(), &path).expect_err("the folder does not exist").to_string();
    assert!(error.starts_with("cannot write ") && error.contains("run.html"), "{error}");
    assert!(error.contains("; try "), "{error}");
}
