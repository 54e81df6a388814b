//! Tasks submitted by bodies. Tasks submitted inside a task, directly or indirectly, are refused access to the regions
//! that this task holds; they may access all other data.

use crate::common::{MIXES, gate, watched, words};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, OnceLock, Weak};
use thalweg::Context;
use thalweg::prelude::*;

type View<'a> = (&'a mut [u64],);
type Submitted = Result<TaskId, SubmitError>;

fn on(units: &'static str, hosts: bool, test: impl FnOnce(Arc<Runtime>) + Send + 'static) {
    watched(&format!("{units} hosts={hosts}"), move || {
        let builder = Runtime::builder().compute_units(units).use_current_thread(hosts);
        test(Arc::new(builder.detect_conflicts(true).build().unwrap()));
    });
}

/// Runs `test` on every mix of units, with and without a unit hosted by the submitter.
fn on_each(test: impl FnOnce(Arc<Runtime>) + Clone + Send + 'static) {
    for units in MIXES {
        on(units, false, test.clone());
        on(units, true, test.clone());
    }
}

/// Submits a task with an empty body.
fn touch<A: thalweg::task::Accesses>(rt: &Runtime, name: &'static str, accesses: A) -> Submitted {
    rt.task(name, accesses).cpu(|_, _| ()).submit()
}

#[track_caller]
fn is_refused(submitted: &Submitted, inside: &str) {
    assert!(matches!(submitted, Err(SubmitError::Nested { ancestor, .. }) if ancestor == inside), "{submitted:?}");
}

/// Runs `act` in the body of a task that updates `x`, and waits. Returns the result of `act`.
fn inside<R: Send + 'static>(rt: &Arc<Runtime>, x: &Data<u64>, act: impl FnOnce(&Runtime) -> R + Send + 'static) -> R {
    let (said, hear) = channel();
    let inner = rt.clone();
    let body = move |_: &Context, _: View<'_>| said.send(act(&inner)).unwrap();
    rt.task("parent", (x.inout(),)).cpu(body).submit().unwrap();
    rt.wait().unwrap();
    hear.recv().unwrap()
}

#[test]
fn nested_task_on_a_region_its_ancestor_updates_is_refused() {
    on_each(|rt| {
        let x = rt.data(vec![1u64; 10]).named("x");
        let y = rt.data(vec![0u64; 10]).named("y");
        let (open, wait) = gate();
        let (told, heard) = channel();
        let (inner, child, other) = (rt.clone(), x.clone(), y.clone());
        let body = move |_: &Context, (x,): View<'_>| {
            wait();
            x[0] += 1;
            let add = |_: &Context, (x,): View<'_>| x.iter_mut().for_each(|x| *x += 10);
            let refused = inner.task("child", (child.slice(2..4).inout(),)).cpu(add).submit();
            inner.task("sibling", (other.inout(),)).cpu(add).submit().unwrap();
            told.send(refused).unwrap();
        };
        rt.task("parent", (x.slice(..6).inout(),)).cpu(body).submit().unwrap();
        // The reader is ordered after the parent and before the nested task, so it would see one update without the
        // other.
        let seen = rt.data(vec![0u64; 10]);
        let copy = |_: &Context, (seen, x): (&mut [u64], &[u64])| seen.copy_from_slice(x);
        rt.task("reader", (seen.output(), x.input())).cpu(copy).submit().unwrap();
        drop(open);
        rt.wait().unwrap();
        let error = heard.recv().unwrap().unwrap_err();
        let expected = SubmitError::Nested {
            task: "child".into(),
            ancestor: "parent".to_owned(),
            data: "data `x`".to_owned(),
            region: "[2..4] (inout)".to_owned(),
            held: "[0..6] (inout)".into(),
        };
        assert_eq!(error, expected);
        let said = "cannot access [2..4] (inout) of data `x` in `child` inside task `parent`: it conflicts with [0..6] \
                    (inout), which `parent` holds together with the tasks submitted inside it; try the view that the \
                    body has, other data, or a child (`cx.task`) of a task that declares the region as weak";
        assert_eq!(words(&error), said);
        assert_eq!(rt.take(seen).unwrap(), rt.read(&x.all()).unwrap());
        assert_eq!(rt.take(y).unwrap(), [10; 10], "the nested task may use other data");
        assert_eq!(rt.take(x).unwrap()[..3], [2, 1, 1]);
    });
}

#[test]
fn nested_access_conflicts_unless_both_read() {
    const MODES: [&str; 6] = ["in", "out", "inout", "commutative", "concurrent", "reduction"];
    fn submit(rt: &Runtime, mode: &str, x: Region<'_, u64>, act: impl FnOnce() + Send + 'static) -> Submitted {
        match mode {
            "in" => rt.task(mode.to_owned(), (x.input(),)).cpu(|_, _| act()).submit(),
            "out" => rt.task(mode.to_owned(), (x.output(),)).cpu(|_, _| act()).submit(),
            "inout" => rt.task(mode.to_owned(), (x.inout(),)).cpu(|_, _| act()).submit(),
            "commutative" => rt.task(mode.to_owned(), (x.commutative(),)).cpu(|_, _| act()).submit(),
            "concurrent" => rt.task(mode.to_owned(), (x.concurrent(),)).cpu(|_, _| act()).submit(),
            _ => rt.task(mode.to_owned(), (x.reduction(Sum),)).cpu(|_, _| act()).submit(),
        }
    }
    for units in ["2:CPU:1", "1:CPU:2", "1:CPU:1,1:EMU:1"] {
        on(units, true, |rt| {
            let x = rt.data(vec![0u64; 10]);
            for parent in MODES {
                let (told, heard) = channel();
                let (inner, child) = (rt.clone(), x.clone());
                let act = move || {
                    for mode in MODES {
                        told.send((mode, submit(&inner, mode, child.slice(4..8), || ()))).unwrap();
                        // Regions that only touch the held one, and empty regions, do not conflict.
                        submit(&inner, mode, child.slice(6..), || ()).unwrap();
                        submit(&inner, mode, child.slice(2..2), || ()).unwrap();
                    }
                };
                submit(&rt, parent, x.slice(..6), act).unwrap();
                rt.wait().unwrap();
                for (mode, submitted) in heard {
                    match (parent, mode) {
                        ("in", "in") => _ = submitted.unwrap(),
                        _ => is_refused(&submitted, parent),
                    }
                }
            }
        });
    }
}

#[test]
fn regions_of_a_finished_ancestor_are_refused() {
    on_each(|rt| {
        let [x, y, z] = [0, 1, 2].map(|_| rt.data(vec![0u64; 4]));
        let parent_ended = rt.scalar(0u64);
        let (open, wait) = gate();
        let (told, heard) = channel();
        let (parent, child, ended) = (rt.clone(), rt.clone(), parent_ended.clone());
        let (held, own, free) = (x.clone(), y.clone(), z.clone());
        let grandchildren = move |_: &Context, _: (&mut [u64], &[u64])| {
            told.send(touch(&child, "grandchild", (held.input(),))).unwrap();
            told.send(touch(&child, "grandchild", (own.input(),))).unwrap();
            touch(&child, "grandchild", (free.inout(),)).unwrap();
        };
        let own = y.clone();
        // The task in between holds no region but is still an ancestor.
        let body = move |_: &Context, _: View<'_>| {
            wait(); // so that `child` is submitted after `behind`
            let inner = parent.clone();
            let body = move |_: &Context, ()| {
                _ = inner.task("child", (own.inout(), ended.input())).cpu(grandchildren).submit().unwrap();
            };
            parent.task("between", ()).cpu(body).submit().unwrap();
        };
        rt.task("parent", (x.inout(),)).cpu(body).submit().unwrap();
        touch(&rt, "behind", (x.input(), parent_ended.output())).unwrap();
        drop(open);
        rt.wait().unwrap();
        is_refused(&heard.recv().unwrap(), "parent");
        is_refused(&heard.recv().unwrap(), "child");
        // Outside the bodies, all data may be accessed again.
        touch(&rt, "outside", (x.inout(), y.inout(), z.inout())).unwrap();
        rt.wait().unwrap();
    });
}

#[test]
fn rayon_threads_of_a_body_count_as_its_body() {
    for hosts in [false, true] {
        on("1:CPU:2", hosts, |rt| {
            let (x, y) = (rt.data(vec![0u64; 4]), rt.data(vec![0u64; 4]));
            let (held, free) = (x.clone(), y.clone());
            let both = Barrier::new(2);
            let [a, b] = inside(&rt, &x, move |rt| {
                let half = || {
                    both.wait(); // forces the two halves to run on different threads
                    touch(rt, "free", (free.inout(),)).unwrap();
                    touch(rt, "half", (held.input(),))
                };
                let (a, b) = rayon::join(half, half);
                [a, b]
            });
            is_refused(&a, "parent");
            is_refused(&b, "parent");
            // The next task on the unit holds other data.
            let held = x.clone();
            let both = Barrier::new(2);
            inside(&rt, &y, move |rt| {
                let half = || {
                    both.wait();
                    touch(rt, "half", (held.inout(),)).unwrap();
                };
                rayon::join(half, half)
            });
        });
    }
}

#[test]
fn thread_that_outlives_its_body_is_not_part_of_it() {
    on("1:CPU:2", false, |rt| {
        let x = rt.data(vec![0u64; 4]);
        let (open, wait) = gate();
        let (told, heard) = channel();
        let (inner, held) = (rt.clone(), x.clone());
        let body = move |_: &Context, _: View<'_>| {
            rayon::spawn(move || {
                wait();
                told.send(touch(&inner, "late", (held.inout(),))).unwrap();
            });
        };
        rt.task("parent", (x.inout(),)).cpu(body).submit().unwrap();
        rt.wait().unwrap();
        drop(open);
        heard.recv().unwrap().unwrap();
        rt.wait().unwrap();
    });
}

#[test]
fn tasks_of_two_runtimes_are_not_each_others_ancestors() {
    on_each(|rt| {
        let other = Arc::new(Runtime::builder().compute_units("1:CPU:1").build().unwrap());
        let (x, y) = (rt.data(vec![0u64; 4]), other.data(vec![0u64; 4]));
        let (first, held, foreign) = (rt.clone(), x.clone(), y.clone());
        let (told, heard) = channel();
        let answers = inside(&rt, &x, move |rt| {
            let inner = other.clone();
            let again = foreign.clone();
            let back = held.clone();
            let body = move |_: &Context, _: View<'_>| {
                told.send(touch(&inner, "own child", (again.input(),))).unwrap();
                // The innermost body belongs to the other runtime, although it may run on a thread of the first
                // runtime.
                told.send(touch(&first, "stranger", (back.inout(),))).unwrap();
            };
            other.task("other", (foreign.inout(),)).cpu(body).submit().unwrap();
            other.wait().unwrap();
            [touch(rt, "child", (held.input(),)), touch(&other, "foreign", (foreign.inout(),))]
        });
        is_refused(&answers[0], "parent");
        answers[1].clone().unwrap();
        is_refused(&heard.recv().unwrap(), "other");
        heard.recv().unwrap().unwrap();
    });
}

/// Submits tasks when it is dropped.
struct Submitter(Arc<Runtime>, [Data<u64>; 2], Sender<Submitted>);

impl Drop for Submitter {
    fn drop(&mut self) {
        for x in &self.1 {
            self.2.send(touch(&self.0, "from a destructor", (x.inout(),))).unwrap();
        }
    }
}

#[test]
fn destructor_of_a_capture_counts_as_its_body() {
    on_each(|rt| {
        let [x, y] = [0, 1].map(|_| rt.data(vec![0u64; 4]));
        let (told, heard): (_, Receiver<Submitted>) = channel();
        let submitter = || Submitter(rt.clone(), [x.clone(), y.clone()], told.clone());
        let captured = submitter();
        rt.task("runs", (x.inout(),)).cpu(move |_, _| _ = &captured).submit().unwrap();
        rt.wait().unwrap();
        is_refused(&heard.recv().unwrap(), "runs");
        heard.recv().unwrap().unwrap();
        rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
        let captured = submitter();
        rt.task("skipped", (x.inout(),)).cpu(move |_, _| _ = &captured).submit().unwrap();
        assert_eq!(crate::common::failed(rt.wait()), ["fails"]);
        is_refused(&heard.recv().unwrap(), "skipped");
        heard.recv().unwrap().unwrap();
        let _ = rt.wait();
    });
}

#[test]
fn reduction_operation_counts_as_its_tasks_body() {
    on_each(|rt| {
        let [x, y] = [0, 1].map(|_| rt.scalar(0u64));
        let (told, heard) = channel();
        let told = std::sync::Mutex::new(told);
        let inner: Arc<OnceLock<Weak<Runtime>>> = Arc::default();
        let (set, data) = (inner.clone(), [x.clone(), y.clone()]);
        let busy = Reduction::new("busy", 0u64, move |a: &mut u64, b| {
            *a += b;
            let rt = inner.get().unwrap().upgrade().unwrap();
            let told = told.lock().unwrap();
            told.send(data.each_ref().map(|x| touch(&rt, "from an operation", (x.inout(),)))).unwrap();
            assert!(matches!(rt.wait(), Err(RunError::Refused(SubmitError::InsideTask { call: "wait" }))));
        });
        set.set(Arc::downgrade(&rt)).unwrap();
        rt.task("adds", (x.reduction(busy),)).cpu(|_, (x,)| x[0] = 7).submit().unwrap();
        rt.wait().unwrap();
        let [held, free] = heard.recv().unwrap();
        is_refused(&held, "adds");
        free.unwrap();
        assert_eq!(rt.read(&x).unwrap()[0], 7);
    });
}

#[test]
fn prefetch_and_drop_of_held_data_are_allowed_in_a_body() {
    on_each(|rt| {
        let x = rt.data(vec![1u64; 4]);
        let held = x.clone();
        inside(&rt, &x, move |rt| {
            for space in rt.machine().spaces() {
                rt.prefetch(&held.all(), space).unwrap();
            }
        });
        assert_eq!(rt.read(&x.all()).unwrap(), [1; 4]);
        // A body that uses the data drops the last handle to it.
        let (open, wait) = gate();
        let (seen, see) = channel();
        let captured = Arc::new(OnceLock::new());
        let last = captured.clone();
        let body = move |_: &Context, (x,): View<'_>| {
            wait();
            drop(last);
            x.fill(2);
            seen.send(x.iter().sum::<u64>()).unwrap();
        };
        rt.task("drops", (x.inout(),)).cpu(body).submit().unwrap();
        assert!(captured.set(x).is_ok());
        drop(captured);
        drop(open);
        rt.wait().unwrap();
        assert_eq!(see.recv().unwrap(), 8);
    });
}

#[test]
fn accelerator_body_holds_its_regions() {
    watched("accelerator", || {
        let Some(builder) = crate::common::accelerated("1:CPU:1,1:OPENCL:1") else { return };
        let rt = Arc::new(builder.build().unwrap());
        let (x, y) = (rt.data(vec![0u64; 4]), rt.data(vec![0u64; 4]));
        let (told, heard) = channel();
        let (inner, held, free) = (rt.clone(), x.clone(), y.clone());
        let body = move |_: &mut thalweg::kernel::Launcher<'_>, _: (thalweg::kernel::DeviceViewMut<'_, u64>,)| {
            told.send(touch(&inner, "child", (held.input(),))).unwrap();
            touch(&inner, "child", (free.inout(),)).unwrap();
        };
        rt.task("issued", (x.inout(),)).gpu(body).submit().unwrap();
        rt.wait().unwrap();
        is_refused(&heard.recv().unwrap(), "issued");
    });
}

#[test]
fn long_line_of_tasks_that_submit_the_next_does_not_grow() {
    // Nothing may grow along such a chain of descendants, because each task holds the same regions as the first.
    const STEPS: u64 = 20_000;
    fn step(rt: &Arc<Runtime>, n: u64, x: Data<u64>, done: Sender<u64>) {
        let (inner, next) = (rt.clone(), x.clone());
        let body = move |_: &Context, (x,): (&[u64],)| match n {
            STEPS => done.send(x[0]).unwrap(),
            _ => step(&inner, n + 1, next, done),
        };
        rt.task("step", (x.input(),)).cpu(body).submit().unwrap();
    }
    for units in ["2:CPU:1", "1:CPU:1,1:EMU:1"] {
        on(units, true, |rt| {
            let (done, end) = channel();
            step(&rt, 0, rt.data(vec![5u64]), done);
            rt.wait().unwrap();
            assert_eq!(end.recv().unwrap(), 5);
        });
    }
}
