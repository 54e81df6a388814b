//! Reports of failures. Each failure is reported exactly once: by the first call that returns it, by a callback, or on
//! standard error when the runtime ends.

use crate::common::{again, failed, for_each_mix, runtime, watched, words};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::prelude::*;

#[test]
fn failure_returned_by_a_call_is_not_returned_by_wait() {
    for_each_mix(|rt| {
        let result = rt.task("result", ()).try_returns(|_, ()| Err::<u8, _>("no")).submit().unwrap();
        let task = rt.task("task", ()).cpu(|_, ()| Err("no")).submit_handle().unwrap();
        assert!(result.get().unwrap_err().to_string().contains("`result`"));
        assert!(task.wait().unwrap_err().to_string().contains("`task`"));
        rt.wait().unwrap();
    });
}

#[test]
fn callback_is_called_once_for_each_cause_and_not_for_skipped_tasks() {
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
        assert_eq!(failed(rt.wait()).len(), 10);
        assert_eq!(calls.load(Ordering::Relaxed), 10);
    });
}

/// Runs `program` in a child process, which runs this test again. Returns what the child wrote to standard error.
fn stderr_of(test: &str, program: impl FnOnce()) -> String {
    const IN_CHILD: &str = "THALWEG_TEST_REPORTS";
    if std::env::var_os(IN_CHILD).is_some() {
        program();
        std::process::exit(0);
    }
    again(&format!("reported_failures::{test}"), &[(IN_CHILD, "1")])
}

#[test]
fn unreported_failures_are_written_to_stderr_at_the_end() {
    let said = stderr_of("unreported_failures_are_written_to_stderr_at_the_end", || {
        let rt = runtime("1:CPU:1");
        (0..20).for_each(|_| _ = rt.task("fails", ()).cpu(|_, ()| Err("no")).submit().unwrap());
        let reported = rt.task("reported", ()).cpu(|_, ()| Err("no")).submit_handle().unwrap();
        reported.wait().unwrap_err();
    });
    assert_eq!(said.matches("`fails`").count(), 8, "{said}");
    assert!(said.contains("12 more tasks failed") && !said.contains("`reported`"), "{said}");
}

/// A call that returns a failure instead of the value of a region.
type Reads = fn(&Runtime, Data<u8>) -> Option<RunError>;

const READS: [Reads; 5] = [
    |rt, x| rt.read(&x).err(),
    |rt, x| rt.fetch(&x, SpaceId::HOST).err(),
    |rt, x| rt.fetch(&x, SpaceId::HOST).err(),
    |rt, x| rt.to_dlpack(x.input(), SpaceId::HOST).err(),
    |rt, x| rt.take(x).err().map(RunError::from),
];

#[test]
fn failure_returned_instead_of_a_value_is_still_returned_by_wait() {
    for_each_mix(|rt| {
        for read in READS {
            let x = rt.data(vec![0u8; 4]);
            rt.task("read", (x.output(),)).cpu(|_, _| Err("no")).submit().unwrap();
            assert!(matches!(read(rt, x), Some(RunError::Poisoned(failure)) if failure.name() == "read"));
            assert_eq!(failed(rt.wait()), ["read"]);
            rt.wait().unwrap();
        }
    });
}

#[test]
fn failure_returned_instead_of_a_value_is_not_written_to_stderr() {
    let said = stderr_of("failure_returned_instead_of_a_value_is_not_written_to_stderr", || {
        let rt = runtime("1:CPU:1");
        for read in READS {
            let x = rt.data(vec![0u8; 4]);
            rt.task("read", (x.output(),)).cpu(|_, _| Err("no")).submit().unwrap();
            assert!(matches!(read(&rt, x), Some(RunError::Poisoned(failure)) if failure.name() == "read"));
        }
        let parent = |cx: &Context, ()| {
            cx.task("child", ()).cpu(|_, ()| Err("no")).submit()?;
            assert_eq!(failed(cx.wait()), ["child"]);
            Ok::<_, SubmitError>(())
        };
        rt.task("parent", ()).cpu(parent).submit_handle().unwrap().wait().unwrap();
        rt.task("unread", ()).cpu(|_, ()| Err("no")).submit().unwrap();
    });
    assert_eq!(said.matches("no call waited").count(), 1, "{said}");
    assert!(said.contains("`unread`"), "{said}");
}

#[test]
fn panic_names_its_task_on_stderr() {
    let said = stderr_of("panic_names_its_task_on_stderr", || {
        let rt = runtime("1:CPU:1");
        rt.task("careless", ()).cpu(|_, ()| panic!("on purpose")).submit().unwrap();
        rt.wait().unwrap_err();
    });
    assert!(said.contains("`careless`, submitted at tests/failures/reported_failures.rs"), "{said}");
}

#[derive(Debug, PartialEq)]
struct Typed(u8);

impl std::fmt::Display for Typed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "typed {}", self.0)
    }
}

impl std::error::Error for Typed {}

/// Finds the body's own error among the sources of `error`.
fn typed<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Typed> {
    let chain = std::iter::successors(error.source(), |error| error.source());
    chain.into_iter().find_map(|error| error.downcast_ref())
}

#[test]
fn error_sources_include_the_failure_and_the_bodys_error() {
    for_each_mix(|rt| {
        let fail = || {
            let x = rt.data(vec![0u8; 4]);
            rt.task("fails", (x.output(),)).cpu(|_, _| Err(Typed(7))).submit().unwrap();
            x
        };
        let result = rt.task("fails", ()).try_returns(|_, ()| Err::<u8, _>(Typed(7))).submit().unwrap();
        let handle = rt.task("fails", ()).cpu(|_, ()| Err(Typed(7))).submit_handle().unwrap();
        let errors = [
            rt.read(&fail()).unwrap_err(),
            rt.take(fail()).map_err(RunError::from).unwrap_err(),
            result.get().unwrap_err(),
            handle.wait().unwrap_err(),
            [fail()].map(|_| rt.wait().unwrap_err()).into_iter().next().unwrap(),
        ];
        for error in &errors {
            assert_eq!(typed(error), Some(&Typed(7)), "{error}");
            let source = std::error::Error::source(error).unwrap();
            assert!(source.is::<thalweg::error::TaskFailure>(), "{error}");
        }
        assert_eq!(typed(&rt.take(fail()).unwrap_err()), Some(&Typed(7)));
    });
}

#[test]
fn debug_of_a_refusal_equals_its_display() {
    let rt = runtime("1:CPU:1");
    let x = rt.data(vec![0u8; 4]).named("x");
    let refused = rt.read(x.slice(2..9)).unwrap_err();
    let said = "cannot access region [2..9] of data `x` in `read`: it is out of bounds; try a region inside [0..4]";
    assert_eq!(words(&refused), said);
    assert_eq!(format!("{refused:?}"), format!("Refused({refused})"));
    let RunError::Refused(refused) = refused else { unreachable!() };
    assert_eq!(format!("{refused:?}"), refused.to_string());
}

#[test]
fn text_of_many_failures_describes_the_first_ones() {
    let rt = runtime("1:CPU:1");
    for count in [20, 1000] {
        (0..count).for_each(|_| _ = rt.task("fails", ()).cpu(|_, ()| Err("no")).submit().unwrap());
        let error = rt.wait().unwrap_err();
        let text = error.to_string();
        assert_eq!(failed(Err(error)).len(), count, "the value has all of them");
        assert_eq!(text.matches("`fails`").count(), 20, "{text}");
        assert_eq!(text.ends_with("; and 980 more"), count == 1000, "{text}");
    }
}
