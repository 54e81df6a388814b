//! Failures are reported once: by the first call that returns them, by a callback, or on stderr when the runtime ends.

mod common;

use common::{for_each_mix, runtime, watched};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::prelude::*;

#[test]
fn failure_returned_by_a_call_is_not_returned_by_wait() {
    for_each_mix(|rt| {
        let result = rt.task("result", ()).try_returns(|_, ()| Err::<u8, _>("no")).submit().unwrap();
        let task = rt.task("task", ()).cpu(|_, ()| Err("no")).submit_handle().unwrap();
        assert!(result.get().unwrap_err().to_string().contains("`result`"));
        assert!(rt.wait_for(&task).unwrap_err().to_string().contains("`task`"));
        rt.wait().unwrap();
    });
}

#[test]
fn callback_is_called_once_for_each_task_that_failed_by_itself() {
    watched("callback", || {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let tell = move |failure: &thalweg::error::TaskFailure| {
            assert_eq!(failure.name(), "fails");
            counted.fetch_add(1, Ordering::Relaxed);
            panic!("a callback may panic");
        };
        let rt = Runtime::builder().compute_units("2:CPU:1").on_failure(tell).build().unwrap();
        let x = rt.scalar(0);
        for _ in 0..10 {
            rt.task("fails", (x.output(),)).cpu(|_, _| Err("no")).submit().unwrap();
            rt.task("skipped", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
        }
        assert_eq!(common::failed(rt.wait()).len(), 10);
        assert_eq!(calls.load(Ordering::Relaxed), 10);
    });
}

/// Runs the calling test in a child process; returns what that writes to stderr.
fn stderr_of(program: impl FnOnce()) -> String {
    const IN_CHILD: &str = "THALWEG_TEST_REPORTS";
    if std::env::var_os(IN_CHILD).is_some() {
        program();
        std::process::exit(0);
    }
    let name = std::thread::current().name().expect("tests run on threads with their names").to_owned();
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", &name, "--nocapture"]).env(IN_CHILD, "1").output().unwrap();
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn unreported_failures_are_written_to_stderr_at_the_end() {
    let said = stderr_of(|| {
        let rt = runtime("1:CPU:1");
        (0..20).for_each(|_| rt.task("fails", ()).cpu(|_, ()| Err("no")).submit().map(|_| ()).unwrap());
        let reported = rt.task("reported", ()).cpu(|_, ()| Err("no")).submit_handle().unwrap();
        rt.wait_for(&reported).unwrap_err();
    });
    assert_eq!(said.matches("`fails`").count(), 8, "{said}");
    assert!(said.contains("12 more tasks failed") && !said.contains("`reported`"), "{said}");
}
