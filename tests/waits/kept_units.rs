//! Runtimes that wait for each other in code that keeps its unit, until no unit is left. One of these waits is refused,
//! but none is refused as long as a unit is free or progress is possible without a unit.

use crate::common::{builder, gate, watched};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use thalweg::Context;
use thalweg::ids::TaskId;
use thalweg::prelude::*;

/// How a body waits for a runtime: for a task, for the data that the task writes, or for everything.
type Way = fn(&Runtime, &Data<u64>, &TaskHandle) -> Result<(), RunError>;

const READ: Way = |rt, x, _| rt.read(x).map(drop);

const WAYS: [Way; 6] = [
    READ,
    |rt, x, _| rt.fetch(x, SpaceId::HOST),
    |_, _, task| task.wait(),
    |rt, _, _| rt.wait(),
    |rt, x, _| rt.fetch(x, SpaceId::HOST),
    |rt, x, _| {
        let group = rt.group();
        group.task("behind", (x.after(),)).cpu(|_, _| ()).submit()?;
        group.wait()
    },
];

/// State of a body or destructor that reports that it runs and then waits for the object it is given.
struct Waits {
    begin: Sender<()>,
    given: Receiver<(Arc<Runtime>, Data<u64>, TaskHandle)>,
    way: Way,
    say: Sender<Result<(), RunError>>,
}

impl Waits {
    fn wait(&self) {
        self.begin.send(()).unwrap();
        let (rt, x, task) = self.given.recv().unwrap();
        let said = (self.way)(&rt, &x, &task);
        drop((rt, x, task)); // this drop is not the one that ends the runtime
        self.say.send(said).unwrap();
    }
}

/// Waits when it is dropped.
struct WaitsAtLast(Waits);

impl Drop for WaitsAtLast {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// How to run code that waits and keeps its unit.
type Keeps = fn(&Runtime, Waits) -> TaskId;

const BODY: Keeps = |rt, waits| rt.task("waits", ()).cpu(move |_, ()| waits.wait()).submit().unwrap();

/// Waits in the destructor of a value that a skipped body has captured.
const DESTRUCTOR: Keeps = |rt, waits| {
    let (z, at_last) = (rt.data(vec![0u64]), WaitsAtLast(waits));
    let (open, wait) = gate();
    let fails = move |_: &Context, _: (&mut [u64],)| {
        wait();
        Err("no")
    };
    rt.task("fails", (z.output(),)).cpu(fails).submit().unwrap();
    let skipped = rt.task("waits", (z.input(),)).cpu(move |_, _| _ = &at_last).submit().unwrap();
    drop(open);
    skipped
};

/// Machines whose units are all kept while a body waits for another runtime.
const KEEPING: [(&str, bool); 2] = [("1:EMU:1", false), ("1:CPU:2", true)];

fn build((units, hosts): (&str, bool)) -> Arc<Runtime> {
    Arc::new(builder(units, hosts).build().unwrap())
}

/// Our ends of the channels to the waiting code.
struct Begun {
    give: Sender<(Arc<Runtime>, Data<u64>, TaskHandle)>,
    says: Receiver<Result<(), RunError>>,
}

/// Submits code that waits and returns when this code has begun. Until then, `hosts` runs tasks.
fn begin(rt: &Runtime, keeps: Keeps, way: Way, hosts: impl FnOnce()) -> Begun {
    let ((begin, begins), (give, given), (say, says)) = (channel(), channel(), channel());
    keeps(rt, Waits { begin, given, way, say });
    hosts();
    begins.recv().unwrap();
    Begun { give, says }
}

/// Submits a task that any unit can run and that others are going to wait for.
fn needed(rt: &Arc<Runtime>) -> (Arc<Runtime>, Data<u64>, TaskHandle) {
    let x = rt.data(vec![0u64]);
    let task = rt.task("needed", (x.inout(),)).cpu(|_, (x,)| x[0] = 7).submit_handle().unwrap();
    (rt.clone(), x, task)
}

/// Makes code in each runtime wait for a task of the next runtime. This task comes after the waiting code of its own
/// runtime. Returns the result of each wait.
fn ring(runtimes: &[Arc<Runtime>], keeps: Keeps, way: Way) -> Vec<Result<(), RunError>> {
    std::thread::scope(|scope| {
        let host = |rt| _ = scope.spawn(move || Runtime::wait(rt));
        let begun: Vec<_> = runtimes.iter().map(|rt| begin(rt, keeps, way, || host(rt))).collect();
        let needed: Vec<_> = runtimes.iter().map(needed).collect();
        let next = needed.iter().cycle().skip(1);
        begun.iter().zip(next).for_each(|(begun, needed)| begun.give.send(needed.clone()).unwrap());
        begun.iter().map(|begun| begun.says.recv().unwrap()).collect()
    })
}

/// Checks that one wait is refused with the waiting tasks named, and that all other waits succeed.
#[track_caller]
fn one_is_refused(said: Vec<Result<(), RunError>>) {
    let all = said.len();
    let refused: Vec<_> = said.into_iter().filter_map(Result::err).collect();
    match &refused[..] {
        [RunError::Refused(error @ SubmitError::Circular { task, way, .. })] => {
            assert_eq!(task, "waits", "{error}");
            assert_eq!(way.matches("`waits`, submitted at tests/waits/kept_units.rs:").count(), all, "{error}");
        }
        _ => panic!("{refused:?}"),
    }
}

#[test]
fn mutual_wait_of_two_runtimes_is_refused_for_one() {
    for (first, second) in KEEPING.into_iter().flat_map(|first| KEEPING.map(|second| (first, second))) {
        for (n, way) in WAYS.into_iter().enumerate() {
            watched(&format!("{first:?} {second:?} way {n}"), move || {
                one_is_refused(ring(&[first, second].map(build), BODY, way));
            });
        }
    }
}

#[test]
fn circular_wait_of_three_runtimes_is_refused_for_one() {
    for units in KEEPING {
        watched(&format!("{units:?}"), move || {
            one_is_refused(ring(&[units, KEEPING[0], units].map(build), BODY, READ));
        });
    }
}

#[test]
fn mutual_wait_of_two_destructors_is_refused_for_one() {
    for units in ["1:CPU:1", "1:EMU:1"] {
        watched(units, move || {
            let runtimes = [(units, false); 2].map(build);
            one_is_refused(ring(&runtimes, DESTRUCTOR, READ));
        });
    }
}

#[test]
fn circular_wait_on_one_thread_that_hosts_both_runtimes_is_refused() {
    watched("one thread", || {
        let [own, other] = [("1:CPU:2", true); 2].map(build);
        let (x, y) = (own.data(vec![0u64]), other.data(vec![0u64]));
        let (say, said) = channel();
        let (back, needed, also) = (own.clone(), x.clone(), say.clone());
        let inner = move |_: &Context, _: (&mut [u64],)| also.send(back.read(&needed).map(drop)).unwrap();
        let (again, there) = (own.clone(), other.clone());
        let body = move |_: &Context, ()| {
            again.task("needed", (x.inout(),)).cpu(|_, (x,)| x[0] = 7).submit().unwrap();
            // No other thread can run this task, because this thread is a guest in the other runtime while it waits.
            there.task("waits", (y.inout(),)).cpu(inner).submit().unwrap();
            say.send(there.read(&y).map(drop)).unwrap();
        };
        own.task("waits", ()).cpu(body).submit().unwrap();
        own.wait().unwrap();
        one_is_refused(vec![said.recv().unwrap(), said.recv().unwrap()]);
        other.wait().unwrap();
    });
}

/// The first body waits for `x` of the other runtime. The second, a body of that runtime, waits for a task that comes
/// after the first body. Neither wait may be refused, although `x` is written only when `write` is called.
fn both_end(
    own: &Arc<Runtime>,
    first: &Begun,
    x: (Arc<Runtime>, Data<u64>, TaskHandle),
    second: &Begun,
    write: impl FnOnce(),
) {
    first.give.send(x).unwrap();
    second.give.send(needed(own)).unwrap();
    std::thread::sleep(Duration::from_millis(20)); // by now, both usually wait
    write();
    [first, second].iter().for_each(|begun| begun.says.recv().unwrap().unwrap());
}

#[test]
fn no_wait_is_refused_while_a_unit_is_free() {
    for units in ["1:EMU:1,1:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let [own, other] = ["1:EMU:1", units].map(|units| build((units, false)));
            let keeps: Keeps = |rt, waits| rt.task("waits", ()).emulated(move |_, ()| waits.wait()).submit().unwrap();
            let (first, second) = (begin(&own, BODY, READ, || ()), begin(&other, keeps, READ, || ()));
            let (x, (open, wait)) = (other.data(vec![0u64]), gate());
            let write = move |_: &Context, _: (&mut [u64],)| wait();
            let task = other.task("free", (x.inout(),)).host(write).submit_handle().unwrap();
            both_end(&own, &first, (other.clone(), x, task), &second, || drop(open));
        });
    }
}

#[test]
fn no_wait_is_refused_while_a_task_is_detached() {
    watched("detached", || {
        let [own, other] = [KEEPING[0]; 2].map(build);
        let ((send, lent), x) = (channel(), other.data(vec![0u64]));
        let lend = other.task("lend", (x.inout(),)).host_detached_until_event(move |_, (x,)| send.send(x).unwrap());
        let task = lend.submit_handle().unwrap();
        let lent = lent.recv().unwrap();
        let (first, second) = (begin(&own, BODY, READ, || ()), begin(&other, BODY, READ, || ()));
        both_end(&own, &first, (other.clone(), x, task), &second, || lent.finish());
    });
}

#[test]
fn no_wait_is_refused_while_a_copy_is_in_flight() {
    watched("copy", || {
        let slow = EmulatedDevice::new().copy_delay(Duration::from_millis(50), f64::INFINITY);
        let emulated = builder("1:EMU:1", false).emulated_devices(move |_| slow.clone());
        let (own, other) = (build(KEEPING[0]), Arc::new(emulated.build().unwrap()));
        let (_, x, task) = needed(&other);
        other.wait().unwrap();
        let (first, second) = (begin(&own, BODY, READ, || ()), begin(&other, BODY, READ, || ()));
        both_end(&own, &first, (other.clone(), x, task), &second, || ());
    });
}

#[test]
fn no_wait_is_refused_because_of_one_with_a_timeout() {
    watched("limit", || {
        let [own, other] = [KEEPING[0]; 2].map(build);
        let limited: Way = |rt, _, _| rt.wait_timeout(Duration::from_millis(40)).map(drop);
        let (first, second) = (begin(&own, BODY, limited, || ()), begin(&other, BODY, READ, || ()));
        let x = needed(&other);
        both_end(&own, &first, x, &second, || ());
    });
}

#[test]
fn no_wait_is_refused_because_of_one_that_has_ended() {
    watched("over", || {
        let [own, other] = [KEEPING[0]; 2].map(build);
        for _ in 0..500 {
            // The unit that ends the first body's wait begins the second body immediately.
            let (open, wait) = gate();
            let x = other.data(vec![0u64]);
            let task = other.task("ends", (x.inout(),)).cpu(move |_, _| wait()).submit_handle().unwrap();
            let first = begin(&own, BODY, |_, _, task| task.wait(), || ());
            let (y, (say, said)) = (own.data(vec![0u64]), channel());
            let (there, read) = (own.clone(), y.clone());
            other.task("waits", ()).cpu(move |_, ()| say.send(there.read(&read)).unwrap()).submit().unwrap();
            first.give.send((other.clone(), x, task)).unwrap();
            own.task("needed", (y.inout(),)).cpu(|_, (y,)| y[0] = 7).submit().unwrap();
            drop(open);
            assert_eq!(said.recv().unwrap().unwrap(), [7]);
            first.says.recv().unwrap().unwrap();
        }
    });
}

#[test]
fn body_that_keeps_its_unit_may_use_its_own_runtime() {
    for (outer, inner) in KEEPING.into_iter().flat_map(|outer| KEEPING.map(|inner| (outer, inner))) {
        watched(&format!("{outer:?} {inner:?}"), move || {
            let rt = build(outer);
            let body = move |_: &Context, ()| {
                let own = build(inner);
                let (_, x, task) = needed(&own);
                WAYS.into_iter().try_for_each(|way| way(&own, &x, &task))
            };
            rt.task("uses", ()).cpu(body).submit().unwrap();
            rt.wait().unwrap();
        });
    }
}
