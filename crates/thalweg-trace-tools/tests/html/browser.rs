//! Tests of the page in Debian's headless `chromium`: user actions and their effects.
//!
//! Each test appends a script to a report. The script acts like a user and writes its findings to the console,
//! which the browser prints. Without a browser, the tests print a note and check nothing.

use crate::report;
use crate::synthetic::{NAMES, Shape, everything, run};
use base64::Engine as _;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use thalweg_trace_tools::Trace;
use thalweg_trace_tools::analysis::Analysis;

/// The script that surrounds a test's actions.
const FRAME: &str = include_str!("acts/frame.js");

/// Runs a script in the report of a trace and returns its findings; `None` without a browser.
fn found(trace: &Trace, act: &str) -> Option<Value> {
    let browser = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    if Command::new(&browser).arg("--version").output().is_err() {
        eprintln!("skipped: there is no {browser}; try `apt-get install chromium`, or set CHROMIUM");
        return None;
    }
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path().join("report.html");
    let script = FRAME.replace("ACT;", act);
    let page = report(trace).replace("</body>", &format!("<script>{script}</script></body>"));
    std::fs::write(&path, page).expect("the file is writable");
    let mut child = Command::new(&browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", "--enable-logging=stderr"])
        // Without this option, the browser exits as soon as the page is loaded, before the script has acted.
        .arg("--remote-debugging-port=0")
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the browser starts");
    let messages = child.stderr.take().expect("its messages are piped");
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(messages).lines().map_while(Result::ok) {
            // Sending fails if the test has already ended.
            let _ = sender.send(line);
        }
    });
    let (mut text, mut said) = (None, String::new());
    let deadline = Instant::now() + Duration::from_secs(120);
    while text.is_none() {
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => match line.split_once("FOUND:").and_then(|(_, rest)| rest.split_once(':')) {
                Some((found, _)) => text = Some(found.to_owned()),
                None => said = said + &line + "\n",
            },
            Err(_) => break,
        }
    }
    child.kill().expect("the browser can be ended");
    child.wait().expect("the browser has ended");
    reader.join().expect("the reader does not panic");
    let text = text.unwrap_or_else(|| panic!("the script did not end: {said}"));
    let bytes = base64::prelude::BASE64_STANDARD.decode(text).expect("the findings are base64");
    let found: Value = serde_json::from_slice(&bytes).expect("the findings are JSON");
    assert_eq!(found["errors"], json!([]), "the page has no errors, and loads and runs nothing else");
    Some(found)
}

fn small() -> Trace {
    run(&Shape { tasks: 600, cpus: 3, predecessors: 4, seed: 77 })
}

#[test]
fn page_of_everything_shows_names_as_text() {
    let trace = everything();
    let Some(found) = found(&trace, include_str!("acts/everything.js")) else { return };
    let text = |name: &str| found[name].as_str().expect("a text").to_owned();
    assert_eq!(text("title"), "synthetic – trace");
    assert!(text("problem").contains("<i>the file ends"), "{}", text("problem"));
    let names: Vec<_> = Analysis::of(&trace).names.into_iter().map(|name| name.name).collect();
    assert_eq!(found["names"], json!(names), "names are in the order of their totals");
    assert!(names.iter().any(|name| name == NAMES[6]), "the run has a name that ends a script");
    assert_eq!(found["accesses"], json!(["updates tile 3 [0..10] 300 B", "reads a region"]));
    assert_eq!(found["images"], 0);
    assert_eq!(found["failures"], 2, "one failed, one was poisoned");
    // The pivot has one line and the times have one line per unit. Each chart has three grid lines and five labels.
    assert_eq!(found["charts"], json!([1 + 8, 3 + 8]));
    let sentence = Analysis::of(&trace).verdict.sentence;
    let remedy = sentence.rsplit("; ").next().expect("a part").replace('`', "");
    assert!(text("verdict").contains(&remedy), "{sentence}: {}", text("verdict"));
    let share = found["share"].as_f64().expect("a number");
    assert!((share - 1.0).abs() < 0.005, "shares fill {share} of the bar");
}

#[test]
fn selected_task_lists_its_predecessors_and_successors() {
    let trace = small();
    let tasks = [0, 17, 300, 599];
    let act = include_str!("acts/select.js").replace("TASKS", &format!("{tasks:?}"));
    let Some(found) = found(&trace, &act) else { return };
    for (at, task) in tasks.into_iter().enumerate() {
        let site = &trace.sites[trace.tasks[task].site];
        let edges = || trace.dependences.iter();
        let mut before: Vec<_> = edges().filter(|edge| edge.to == task).map(|edge| edge.from).collect();
        let mut after: Vec<_> = edges().filter(|edge| edge.from == task).map(|edge| edge.to).collect();
        before.sort_unstable();
        after.sort_unstable();
        let place = format!("{}:{}:{}", site.file, site.line, site.column);
        assert_eq!(found["panels"][at], json!([site.name, place, before, after]), "task {task}");
    }
}

#[test]
fn keys_wheel_and_drag_move_the_view() {
    let Some(found) = found(&small(), include_str!("acts/move.js")) else { return };
    let range = |name: &str| [0, 1].map(|at| found[name][at].as_f64().expect("a time"));
    let span = |name: &str| range(name)[1] - range(name)[0];
    assert!(span("zoomed") < 0.7 * span("whole"));
    assert!(range("moved")[0] > range("zoomed")[0] && (span("moved") - span("zoomed")).abs() < 3.0);
    assert_eq!(range("back"), range("whole"));
    assert!(span("wheel") < 0.8 * span("whole"));
    assert!(range("dragged")[0] > range("wheel")[0] && (span("dragged") - span("wheel")).abs() < 3.0);
    assert!(span("arrow") > 1.2 * span("dragged"));
    assert!(span("band") < 0.15 * span("whole") && range("band")[0] > range("whole")[0]);
}

#[test]
fn search_counts_highlights_and_steps_through_matches() {
    let trace = small();
    let Some(found) = found(&trace, include_str!("acts/search.js")) else { return };
    let tasks = |name: &str| (0..trace.tasks.len()).filter(|task| trace.name(*task) == name).collect::<Vec<_>>();
    let count = |name: &str| format!("{} tasks", tasks(name).len());
    assert_eq!(found["exact"], count("gemm"));
    assert_eq!(found["place"], count("trsm"), "the site at line 12");
    assert_eq!(found["legend"], json!([count("syrk"), "true"]));
    assert_eq!((&found["none"], &found["cleared"]), (&json!("0 tasks"), &json!("")));
    let share = found["coloured"].as_f64().expect("a number");
    assert!(share < 0.5, "{share} of the coloured pixels keep their colour");
    let number = |at: usize| format!("#{}", tasks("gemm")[at]);
    assert_eq!(found["first"], json!(["gemm", number(0)]));
    assert_eq!((&found["second"], &found["again"]), (&json!(number(1)), &json!(number(0))));
    assert_eq!(found["dimmed"], true);
}

#[test]
fn click_selects_the_body_under_the_pointer() {
    let trace = run(&Shape { tasks: 3, cpus: 1, predecessors: 1, seed: 4 });
    let task = &trace.tasks[1];
    let middle = (task.start.expect("it ran") + task.end.expect("it ended")) / 2;
    let row = task.unit.expect("it has a unit").to_string();
    let act = include_str!("acts/click.js").replace("TIME", &middle.to_string()).replace("ROW", &row);
    let Some(found) = found(&trace, &act) else { return };
    assert_eq!(found["tip"], trace.name(1));
    assert_eq!(found["selected"], json!([trace.name(1), "#1"]));
    assert_eq!((&found["isOpen"], &found["isClosed"]), (&json!(true), &json!(true)));
}

#[test]
fn schemes_paths_and_sorting_follow_their_controls() {
    let trace = small();
    let Some(found) = found(&trace, include_str!("acts/controls.js")) else { return };
    assert_ne!(found["light"], found["dark"]);
    assert_eq!(found["noPath"], 0);
    let pixels = found["path"].as_u64().expect("a number");
    assert!(pixels > 100, "the path has {pixels} pixels");
    assert_eq!(
        (&found["key"], &found["causes"], &found["sorted"]),
        (&json!("critical"), &json!(true), &json!("Count"))
    );
    let mut counts: Vec<_> = Analysis::of(&trace).names.iter().map(|name| name.count).collect();
    counts.sort_unstable();
    assert_eq!(found["rising"], json!(counts));
    counts.reverse();
    assert_eq!(found["falling"], json!(counts));
}

#[test]
fn empty_trace_has_a_page() {
    let Some(found) = found(&Trace::default(), include_str!("acts/figures.js")) else { return };
    assert!(found["tiles"].as_str().is_some_and(|text| text.contains("Tasks0")), "{}", found["tiles"]);
    assert!(found["verdict"].as_str().is_some_and(|text| !text.is_empty()));
}

/// Measures a run of a million tasks. Meant for release builds.
#[test]
#[ignore = "takes long in a debug build"]
fn million_tasks_show_their_first_frame_in_two_seconds() {
    let trace = run(&Shape { tasks: 1_000_000, cpus: 8, predecessors: 4, seed: 5 });
    let Some(found) = found(&trace, include_str!("acts/figures.js")) else { return };
    println!("first frame after {} ms", found["frame"]);
    assert!(found["tiles"].as_str().is_some_and(|text| text.contains("1\u{202f}000\u{202f}000")));
    assert!(found["frame"].as_f64().is_some_and(|frame| frame < 2000.0), "{} ms", found["frame"]);
}
