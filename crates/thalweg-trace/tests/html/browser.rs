//! The page in Debian's `chromium`, without a window: what users do and what they then see.
//!
//! Each test appends a script to a report. The script acts like a user and writes its findings to the console, which the
//! browser prints. Without a browser, the tests say so and check nothing.

use crate::report;
use crate::synthetic::{NAMES, Shape, everything, run};
use base64::Engine as _;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use thalweg_trace::Trace;
use thalweg_trace::analysis::Analysis;

/// Waits for the page, then runs `act` and prints what it put into `found`.
const FRAME: &str = r#"<script>(async () => {
const found = { errors: [] }, root = document.documentElement;
addEventListener('error', (event) => found.errors.push(String(event.message)));
addEventListener('unhandledrejection', (event) => found.errors.push(String(event.reason)));
addEventListener('securitypolicyviolation', (event) => found.errors.push(event.violatedDirective));
const $ = (selector) => document.querySelector(selector), all = (selector) => [...document.querySelectorAll(selector)];
const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
const until = async (test) => { for (let tries = 0; tries < 400 && !test(); tries += 1) await new Promise((next) => setTimeout(next, 20)); };
const press = async (key, target = document.body) => {
  target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true })); await frame();
};
const mouse = (type, x, y, more = {}) => {
  const box = $('#surface').getBoundingClientRect();
  $('#surface').dispatchEvent(new (type === 'wheel' ? WheelEvent : type.startsWith('pointer') ? PointerEvent : MouseEvent)(type, {
    clientX: box.left + x, clientY: box.top + y, button: 0, pointerId: 1, bubbles: true, cancelable: true, ...more }));
};
const search = async (text) => {
  $('#search').value = text; $('#search').dispatchEvent(new Event('input')); await new Promise((next) => setTimeout(next, 50)); await frame();
};
const range = async () => {
  await new Promise((next) => setTimeout(next, 400));
  return new URLSearchParams(location.hash.slice(1)).get('t').split(',').map(Number);
};
try { await until(() => root.dataset.ready); ACT } catch (error) { found.errors.push(String(error.stack)); }
found.title = document.title;
const text = btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(found))));
console.log(`FOUND:${text}:`);
})()</script>"#;

/// What the script found in the report of a trace; nothing without a browser.
fn found(trace: &Trace, act: &str) -> Option<Value> {
    let browser = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    if Command::new(&browser).arg("--version").output().is_err() {
        eprintln!("skipped: there is no {browser}; try `apt-get install chromium`, or set CHROMIUM");
        return None;
    }
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path().join("report.html");
    let page = report(trace).replace("</body>", &format!("{}</body>", FRAME.replace("ACT", act)));
    std::fs::write(&path, page).expect("the file is writable");
    let mut child = Command::new(&browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", "--enable-logging=stderr"])
        // Without this, the browser ends when the page is loaded, before the script has acted.
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
            // The test may have ended.
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
    let Some(found) = found(
        &trace,
        "found.problem = $('#problem').textContent; found.names = all('#names tbody .link').map((node) => node.textContent).sort();
         found.images = all('img').length; found.failures = all('#failures li').length; found.charts = all('#decisions svg').length;
         found.verdict = $('#verdict-text').textContent + $('#remedy').textContent; found.scripts = all('script').length;
         found.use = all('#shares > .bar i').reduce((sum, node) => sum + node.getBoundingClientRect().width, 0)
           / $('#shares > .bar').getBoundingClientRect().width;",
    ) else {
        return;
    };
    assert_eq!(found["title"], "synthetic – trace");
    assert!(found["problem"].as_str().is_some_and(|text| text.contains("<i>the file ends")), "{}", found["problem"]);
    let mut names: Vec<_> = Analysis::of(&trace).names.into_iter().map(|name| name.name).collect();
    names.sort_by_key(|name| name.encode_utf16().collect::<Vec<_>>());
    assert_eq!(found["names"], json!(names));
    assert!(names.iter().any(|name| name == NAMES[6]), "the run has a name that is a script's end");
    assert_eq!(found["images"], 0);
    assert_eq!(found["failures"], 2, "one failed, one was poisoned");
    assert_eq!(found["charts"], 2, "pivot and times of the one iteration space");
    let sentence = Analysis::of(&trace).verdict.sentence;
    let remedy = sentence.rsplit("; ").next().expect("a part").replace('`', "");
    assert!(found["verdict"].as_str().is_some_and(|text| text.contains(&remedy)), "{sentence}: {}", found["verdict"]);
    assert!(
        found["use"].as_f64().is_some_and(|share| (share - 1.0).abs() < 0.005),
        "shares fill the bar: {}",
        found["use"]
    );
}

#[test]
fn selected_task_lists_its_predecessors_and_successors() {
    let trace = small();
    let tasks = [0, 17, 300, 599];
    let act = format!(
        "found.panels = []; for (const number of {tasks:?}) {{ await search('#' + number); await until(() => $('.edges.after')); await frame();
           const numbers = (side) => all(`.edges.${{side}} li .link`).map((node) => Number(node.textContent.split('#').pop())).sort((a, b) => a - b);
           found.panels.push([$('#detail h3').textContent, $('#detail .place').textContent, numbers('before'), numbers('after')]);
           $('#detail').replaceChildren(); }}"
    );
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
    let Some(found) = found(
        &small(),
        "found.whole = await range(); await press('+'); found.zoomed = await range(); await press('d'); found.moved = await range();
         await press('0'); found.back = await range(); mouse('wheel', 700, 60, { deltaY: -300 }); await frame(); found.wheel = await range();
         mouse('pointerdown', 700, 60); mouse('pointermove', 600, 60); mouse('pointerup', 600, 60); await frame(); found.dragged = await range();
         $('#surface').focus(); await press('ArrowDown', $('#surface')); found.arrow = await range();
         $('#zoom-all').click(); await frame(); mouse('pointerdown', 500, 60, { shiftKey: true }); mouse('pointermove', 600, 60); mouse('pointerup', 600, 60);
         await frame(); found.band = await range();",
    ) else {
        return;
    };
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
    let Some(found) = found(
        &trace,
        "const dark = () => { const { width, height } = $('#lanes'); const { data } = $('#lanes').getContext('2d').getImageData(0, 0, width, height);
           let sum = 0; for (let at = 0; at < data.length; at += 4) if (Math.max(data[at], data[at + 1], data[at + 2]) - Math.min(data[at], data[at + 1], data[at + 2]) > 60) sum += 1; return sum; };
         const before = dark(); await search('\"gemm\"'); found.exact = $('#matches').textContent; found.coloured = dark() / before;
         await press('n'); found.first = $('#detail h3').textContent; found.firstNumber = $('#detail .muted').textContent; await press('n'); found.second = $('#detail .muted').textContent;
         await press('N'); found.again = $('#detail .muted').textContent;
         await search('main>.rs:12'); found.place = $('#matches').textContent; await search('no such name'); found.none = $('#matches').textContent;
         found.dimmed = all('#names tbody tr').every((row) => row.classList.contains('dimmed')); await press('Escape'); found.cleared = $('#matches').textContent;
         all('#legend button').find((button) => button.textContent.startsWith('syrk')).click(); await frame(); found.legend = $('#matches').textContent;",
    ) else {
        return;
    };
    let count = |name: &str| (0..trace.tasks.len()).filter(|task| trace.name(*task) == name).count();
    let of = |name: &str| json!(format!("{} tasks", count(name)));
    assert_eq!((&found["exact"], &found["place"], &found["legend"]), (&of("gemm"), &of("trsm"), &of("syrk")));
    assert_eq!((&found["none"], &found["cleared"]), (&json!("0 tasks"), &json!("")));
    assert!(found["coloured"].as_f64().is_some_and(|share| share < 0.5), "others are dimmed: {}", found["coloured"]);
    let numbers: Vec<_> = (0..trace.tasks.len()).filter(|task| trace.name(*task) == "gemm").take(2).collect();
    assert_eq!(found["first"], "gemm");
    let number = |at: usize| json!(format!("#{}", numbers[at]));
    assert_eq!((&found["firstNumber"], &found["second"], &found["again"]), (&number(0), &number(1), &number(0)));
    assert_eq!(found["dimmed"], true);
}

#[test]
fn click_selects_the_body_under_the_pointer() {
    let trace = run(&Shape { tasks: 3, cpus: 1, predecessors: 1, seed: 4 });
    let task = &trace.tasks[1];
    let middle = (task.start.expect("it ran") + task.end.expect("it ended")) / 2;
    let row = task.unit.expect("it has a unit");
    let act = format!(
        "const [from, to] = await range(), width = $('#surface').clientWidth - 140, x = 132 + ({middle} - from) / (to - from) * width;
         mouse('pointermove', x, 70 + {row} * 40); found.tip = $('#tip b').textContent; mouse('pointerdown', x, 70 + {row} * 40); mouse('pointerup', x, 70 + {row} * 40);
         await frame(); found.name = $('#detail h3').textContent; found.number = $('#detail .muted').textContent;
         await press('.'); await press(','); await press(']'); found.other = $('#detail .muted').textContent; await press('Escape'); found.closed = $('#detail').children.length;"
    );
    let Some(found) = found(&trace, &act) else { return };
    assert_eq!((&found["tip"], &found["name"]), (&json!(trace.name(1)), &json!(trace.name(1))));
    assert_eq!((&found["number"], &found["closed"]), (&json!("#1"), &json!(0)));
}

#[test]
fn schemes_paths_and_sorting_follow_their_controls() {
    let trace = small();
    let Some(found) = found(
        &trace,
        "const choose = async (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event('change')); await frame(); };
         const ground = () => getComputedStyle(document.body).backgroundColor;
         const red = () => { const { width, height } = $('#overlay'); const { data } = $('#overlay').getContext('2d').getImageData(0, 0, width, height);
           let sum = 0; for (let at = 0; at < data.length; at += 4) if (data[at] === 0xb0 && data[at + 1] === 0 && data[at + 2] === 0x3a) sum += 1; return sum; };
         await choose('#scheme', 'light'); found.light = ground(); found.plain = red(); await choose('#path', 'critical'); found.path = red();
         await choose('#path', ''); await press('p'); found.key = $('#path').value; await choose('#scheme', 'dark'); found.dark = ground();
         await choose('#gaps', 'causes'); found.causes = !$('#causes-legend').hidden && $('#states-legend').hidden;
         const counts = () => all('#names tbody tr').map((row) => Number(row.children[1].textContent.replace(/\\D/g, '')));
         $('[data-sort=count]').click(); found.falling = counts(); $('[data-sort=count]').click(); found.rising = counts(); found.sorted = $('[aria-sort=ascending]').textContent;",
    ) else {
        return;
    };
    assert_ne!(found["light"], found["dark"]);
    assert_eq!(found["plain"], 0);
    assert!(found["path"].as_u64().is_some_and(|pixels| pixels > 100), "the path is drawn: {} pixels", found["path"]);
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
    let Some(found) = found(
        &Trace::default(),
        "found.tasks = $('#tiles').textContent; found.verdict = $('#verdict-text').textContent;",
    ) else {
        return;
    };
    assert!(found["tasks"].as_str().is_some_and(|text| text.contains("Tasks0")), "{}", found["tasks"]);
    assert!(found["verdict"].as_str().is_some_and(|text| !text.is_empty()));
}

/// Measures a run of a million tasks; for a release build.
#[test]
#[ignore = "takes long in a debug build"]
fn million_tasks_show_their_first_frame_in_two_seconds() {
    let trace = run(&Shape { tasks: 1_000_000, cpus: 8, predecessors: 4, seed: 5 });
    let Some(found) =
        found(&trace, "found.frame = Number(root.dataset.firstFrame); found.count = $('#tiles').textContent;")
    else {
        return;
    };
    println!("first frame after {} ms", found["frame"]);
    assert!(found["count"].as_str().is_some_and(|text| text.contains("1\u{202f}000\u{202f}000")));
    assert!(found["frame"].as_f64().is_some_and(|frame| frame < 2000.0), "{} ms", found["frame"]);
}
