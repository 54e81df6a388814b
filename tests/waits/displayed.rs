//! Progress display when standard error is not a terminal: it consists of lines of text. The tests run in a child
//! process.
//!
//! The unit tests of the bars draw on a terminal that keeps its contents.

#![cfg(feature = "progress")]

use crate::common::{again, builder, watched};
use std::time::Duration;
use thalweg::prelude::*;

/// Environment variable that is set in the child process.
const INSIDE: &str = "THALWEG_TEST_DISPLAYED";

fn other(test: &str) -> Option<String> {
    let is_inside = std::env::var_os(INSIDE).is_some();
    (!is_inside).then(|| again(&format!("displayed::{test}"), &[(INSIDE, "1")]))
}

#[test]
fn long_program_writes_lines_with_its_progress_and_a_last_one() {
    let Some(text) = other("long_program_writes_lines_with_its_progress_and_a_last_one") else {
        let rt = builder("1:CPU:1,1:EMU:1", true).name("job").progress(true).build().unwrap();
        let x = rt.data(vec![0.0f64; 1000]);
        // The display writes a line after three seconds, so some tasks have ended and some have not.
        for _ in 0..8 {
            let pause = |_: &thalweg::Context, _: &mut [f64]| std::thread::sleep(Duration::from_millis(450));
            rt.task("on the device", x.inout()).emulated(pause).submit().unwrap();
        }
        rt.wait().unwrap();
        rt.without_progress(|| eprintln!("between"));
        return drop(rt);
    };
    watched("long", move || {
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("thalweg: job: ")).collect();
        assert_eq!(lines.len(), 2, "{text}");
        let done: u64 = lines[0]["thalweg: job: ".len()..].split(' ').next().unwrap().parse().unwrap();
        assert!((4..8).contains(&done), "{text}");
        assert!(lines[0].contains(&format!("{done} of 8 tasks done, ")) && lines[0].contains(" s left; "), "{text}");
        assert!(
            lines[0].contains("; busy: unit 0 0 %, unit 1 ") && lines[0].contains("; copies: host to space 1 "),
            "{text}"
        );
        let busy: u64 = lines[0].split("unit 1 ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(busy >= 80, "the device is busy all the time: {text}");
        assert!(lines[1].starts_with("thalweg: job: 8 of 8 tasks done in ") && lines[1].ends_with(" s"), "{text}");
        assert!(text.contains("\nbetween\n"), "{text}");
    });
}

#[test]
fn short_program_writes_nothing() {
    let Some(text) = other("short_program_writes_nothing") else {
        for hosts in [false, true] {
            let rt = builder("2:CPU:1", hosts).progress(true).build().unwrap();
            let x = rt.scalar(0);
            (0..1000).for_each(|_| _ = rt.task("add", x.inout()).cpu(|_, x| x[0] += 1).submit().unwrap());
            assert_eq!(rt.read(&x).unwrap()[0], 1000);
            rt.shutdown().unwrap();
        }
        // A runtime that ends in one of its bodies, and one that is dropped while its display is drawn.
        let rt = builder("1:CPU:1", false).progress(true).build().unwrap();
        let (send, own) = std::sync::mpsc::channel::<Runtime>();
        rt.task("drops", ()).host(move |_, ()| drop(own.recv().unwrap())).submit().unwrap();
        send.send(rt).unwrap();
        return drop(builder("1:CPU:1", true).progress(true).build().unwrap());
    };
    assert!(!text.contains(" tasks") && !text.contains(" left"), "{text}");
}
