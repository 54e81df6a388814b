//! Tasks that bodies submit: what a task holds is refused to whatever is submitted inside it, near or far; the rest is
//! there for everybody.

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

/// Runs `test` on machines of all sorts, whoever hosts.
fn on_each(test: impl FnOnce(Arc<Runtime>) + Clone + Send + 'static) {
    for units in MIXES {
        on(units, false, test.clone());
        on(units, true, test.clone());
    }
}

/// A task with nothing to do.
fn touch<A: thalweg::task::Accesses>(rt: &Runtime, name: &'static str, accesses: A) -> Submitted {
    rt.task(name, accesses).cpu(|_, _| ()).submit()
}

#[track_caller]
fn is_refused(submitted: &Submitted, inside: &str) {
    assert!(matches!(submitted, Err(SubmitError::Nested { ancestor, .. }) if ancestor == inside), "{submitted:?}");
}

/// Runs `act` in the body of a task that updates `x`, and waits; what it says.
fn inside<R: Send + 'static>(rt: &Arc<Runtime>, x: &Data<u64>, act: impl FnOnce(&Runtime) -> R + Send + 'static) -> R {
    let (said, hear) = channel();
    let inner = rt.clone();
    let body = move |_: &Context, _: View<'_>| said.send(act(&inner)).unwrap();
    rt.task("parent", (x.inout(),)).cpu(body).submit().unwrap();
    rt.wait().unwrap();
    hear.recv().unwrap()
}

#[test]
fn a_child_that_updates_what_its_parent_updates_is_refused() {
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
        // It reads after the parent and before the child: it would have seen the one without the other.
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
                    (inout), which `parent` holds with all that is submitted inside it; try the view that the body has, \
                    other data, or a child (`cx.task`) of a task that declares the region as weak";
        assert_eq!(words(&error), said);
        assert_eq!(rt.take(seen).unwrap(), rt.read(&x.all()).unwrap());
        assert_eq!(rt.take(y).unwrap(), [10; 10], "other data are the child's to use");
        assert_eq!(rt.take(x).unwrap()[..3], [2, 1, 1]);
    });
}

#[test]
fn every_pair_of_modes_but_two_readers_is_a_conflict() {
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
                        // What only touches it, and what is empty, conflicts with nothing.
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
fn what_an_ancestor_holds_is_refused_though_it_has_finished() {
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
        // The task between holds nothing and counts all the same.
        let body = move |_: &Context, _: View<'_>| {
            wait(); // so that the child comes after the task behind this one
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
        // Outside, all is as before.
        touch(&rt, "outside", (x.inout(), y.inout(), z.inout())).unwrap();
        rt.wait().unwrap();
    });
}

#[test]
fn parts_of_a_body_on_other_threads_of_its_unit_are_the_bodys() {
    for hosts in [false, true] {
        on("1:CPU:2", hosts, |rt| {
            let (x, y) = (rt.data(vec![0u64; 4]), rt.data(vec![0u64; 4]));
            let (held, free) = (x.clone(), y.clone());
            let both = Barrier::new(2);
            let [a, b] = inside(&rt, &x, move |rt| {
                let half = || {
                    both.wait(); // so there are two threads
                    touch(rt, "free", (free.inout(),)).unwrap();
                    touch(rt, "half", (held.input(),))
                };
                let (a, b) = rayon::join(half, half);
                [a, b]
            });
            is_refused(&a, "parent");
            is_refused(&b, "parent");
            // The next task on the unit holds something else.
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
fn what_outlives_its_body_is_nobodys_part() {
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
fn tasks_of_two_runtimes_are_not_each_others_children() {
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
                // Here the innermost body is the other runtime's, though it may run on the thread of the first.
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

/// Submits when it is dropped.
struct Submitter(Arc<Runtime>, [Data<u64>; 2], Sender<Submitted>);

impl Drop for Submitter {
    fn drop(&mut self) {
        for x in &self.1 {
            self.2.send(touch(&self.0, "from a destructor", (x.inout(),))).unwrap();
        }
    }
}

#[test]
fn destructors_of_captures_are_part_of_the_task() {
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
fn the_operation_of_a_reduction_is_part_of_its_task() {
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
        assert_eq!(rt.read_scalar(&x).unwrap(), 7);
    });
}

#[test]
fn what_changes_no_value_is_not_refused() {
    on_each(|rt| {
        let x = rt.data(vec![1u64; 4]);
        let held = x.clone();
        inside(&rt, &x, move |rt| {
            for space in rt.machine().spaces() {
                rt.prefetch(&held.all(), space).unwrap();
            }
        });
        assert_eq!(rt.read(&x.all()).unwrap(), [1; 4]);
        // The last handle is dropped in a body that uses the data.
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
fn a_body_for_accelerators_holds_its_regions_too() {
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
fn a_task_that_submits_its_successor_for_ever() {
    // Nothing grows along such a line: each of them holds what the first one holds.
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
