//! Values of any type as data. They are ordered like regions, stay in host memory on every machine, and are dropped
//! exactly once.

use crate::common::{MIXES, SCHEDULERS, failed, for_each_mix, gate, poison, runtime, watched, words};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use thalweg::prelude::*;

/// A list that counts its drops.
struct Counted(Vec<u64>, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

fn counted() -> (Counted, impl Fn() -> usize) {
    let drops = Arc::new(AtomicUsize::new(0));
    (Counted(vec![], drops.clone()), move || drops.load(Ordering::SeqCst))
}

#[test]
fn value_is_read_and_updated_in_order_on_every_machine() {
    for_each_mix(|rt| {
        let (list, drops) = counted();
        let list = rt.value(list);
        let sums = rt.data(vec![0; 20]);
        for n in 0..20 {
            rt.task("push", list.inout()).cpu(move |_, list| list.0.push(n)).submit().unwrap();
            rt.task("sum", (list.input(), sums.slice(n as usize).output()))
                .cpu(|_, (list, sum)| sum[0] = list.0.iter().sum::<u64>())
                .submit()
                .unwrap();
        }
        assert_eq!(rt.take(sums).unwrap(), (0..20).map(|n| n * (n + 1) / 2).collect::<Vec<u64>>());
        assert_eq!(rt.read_value(&list, |list| list.0.len()).unwrap(), 20);
        let list = rt.take(list).unwrap();
        assert_eq!((list.0.as_slice(), drops()), ((0..20).collect::<Vec<_>>().as_slice(), 0));
        drop(list);
        assert_eq!(drops(), 1);
    });
}

#[test]
fn regions_are_copied_home_for_a_task_with_a_value() {
    for_each_mix(|rt| {
        let (x, table) = (rt.data(vec![1u64; 100]), rt.value(vec![10u64, 20]));
        for part in blocks(100, 10) {
            // On devices, if there are any.
            rt.task("add", x.slice(part.clone()).inout())
                .cpu(|_, x| x.iter_mut().for_each(|x| *x += 1))
                .submit()
                .unwrap();
            rt.task("look up", (x.slice(part).inout(), table.input()))
                .cpu(|at, (x, table)| {
                    assert!(at.is_cpu());
                    x.iter_mut().for_each(|x| *x = table[*x as usize - 1]);
                })
                .submit()
                .unwrap();
        }
        assert_eq!(rt.take(x).unwrap(), [20; 100]);
        assert_eq!(rt.take(table).unwrap(), [10, 20]);
        let links = rt.statistics().links;
        assert!(links.iter().all(|link| link.bytes <= 2 * 100 * 8), "a value must never be copied: {links:?}");
    });
}

#[test]
fn commutative_tasks_update_a_value_one_at_a_time() {
    for_each_mix(|rt| {
        let (list, at_once) = (rt.value(vec![]), Arc::new(AtomicUsize::new(0)));
        for n in 0..50u64 {
            let at_once = at_once.clone();
            rt.task("push", list.commutative())
                .cpu(move |_, list| {
                    assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0);
                    list.push(n);
                    at_once.fetch_sub(1, Ordering::SeqCst);
                })
                .submit()
                .unwrap();
        }
        let mut list = rt.take(list).unwrap();
        list.sort_unstable();
        assert!(list.into_iter().eq(0..50));
    });
}

#[test]
fn concurrent_tasks_share_a_value_between_updates() {
    watched("two at once", || {
        let rt = runtime("2:CPU:1");
        let (count, both) = (rt.value(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
        rt.task("begin", count.inout()).cpu(|_, count| *count.get_mut() = 10).submit().unwrap();
        for _ in 0..2 {
            let both = both.clone();
            rt.task("add", count.concurrent())
                .cpu(move |_, count| {
                    both.wait(); // both tasks have to run at the same time
                    count.fetch_add(1, Ordering::Relaxed);
                })
                .submit()
                .unwrap();
        }
        rt.task("double", count.inout()).cpu(|_, count| *count.get_mut() *= 2).submit().unwrap();
        assert_eq!(rt.take(count).unwrap().into_inner(), 24);
    });
}

#[test]
fn released_value_is_dropped_once_after_its_tasks() {
    for_each_mix(|rt| {
        let (list, drops) = counted();
        let (open, closed) = gate();
        let list = rt.value(list);
        rt.task("hold", list.input()).cpu(move |_, _| closed()).submit().unwrap();
        let seen = Arc::new(AtomicUsize::new(9));
        let (other, was) = (list.clone(), seen.clone());
        drop(list);
        let before = Arc::new(drops);
        let now = before.clone();
        rt.task("last", other.input()).cpu(move |_, _| was.store(now(), Ordering::SeqCst)).submit().unwrap();
        drop(other);
        assert_eq!(before(), 0, "a task still uses the value");
        drop(open);
        rt.wait().unwrap();
        assert_eq!((seen.load(Ordering::SeqCst), before()), (0, 1));
    });
}

#[test]
fn value_is_dropped_once_after_a_failure_or_panic() {
    for_each_mix(|rt| {
        for panics in [false, true] {
            let (list, drops) = counted();
            let list = rt.value(list).named("list");
            let update = move |_: &Context, list: &mut Counted| {
                list.0.push(1);
                if panics { resume_unwind(Box::new("no")) } else { Err("no") }
            };
            rt.task("fails", list.inout()).cpu(update).submit().unwrap();
            rt.task("skipped", list.inout()).cpu(|_, list| list.0.push(2)).submit().unwrap();
            assert_eq!(poison(rt.read_value(&list, |list| list.0.len())).0, "fails");
            let refused = rt.take(list).map(|list| list.0.len());
            let list = refused.unwrap_err().into_data();
            assert_eq!(failed(rt.wait()), ["fails"]);
            assert_eq!(drops(), 0);
            if panics {
                drop(list);
            } else {
                // The accepted value can be taken.
                rt.task("accept", list.output()).cpu(|_, _| ()).submit().unwrap();
                assert_eq!(rt.take(list).map_err(RunError::from).unwrap().0, [1]);
            }
            rt.wait().unwrap();
            assert_eq!(drops(), 1);
        }
    });
}

#[test]
fn value_is_dropped_once_after_unwinding_or_after_its_runtime() {
    for units in MIXES {
        watched(units, move || {
            let (list, drops) = counted();
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                let rt = runtime(units);
                let list = rt.value(list);
                for _ in 0..20 {
                    let _ = rt.task("push", list.inout()).cpu(|_, list| list.0.push(1)).submit();
                }
                resume_unwind(Box::new("unwinds"));
            }));
            assert!(unwound.is_err());
            assert_eq!(drops(), 1);

            let (list, drops) = counted();
            let rt = runtime(units);
            let list = rt.value(list);
            rt.task("push", list.inout()).cpu(|_, list| list.0.push(1)).submit().unwrap();
            drop(rt);
            assert_eq!(drops(), 0, "a handle still exists");
            drop(list);
            assert_eq!(drops(), 1);

            let (list, drops) = counted();
            let rt = Arc::new(runtime(units));
            let list = rt.value((list, rt.clone())); // works even if the value itself keeps the runtime alive
            rt.shutdown().unwrap();
            drop(list);
            assert_eq!(drops(), 1);
        });
    }
}

#[test]
fn tasks_of_a_runtime_dropped_by_a_body_keep_their_values() {
    for units in MIXES {
        watched(units, move || {
            let (list, drops) = counted();
            let (rt, (open, closed)) = (Arc::new(runtime(units)), gate());
            let (tell, told) = channel();
            let list = rt.value(list);
            let (inner, value) = (rt.clone(), list.clone());
            let last = rt.task("last", ()).cpu(move |_, ()| {
                closed(); // this is now the only handle of the runtime
                let later = value.clone();
                inner
                    .task("later", later.inout())
                    .cpu(move |_, list| _ = tell.send((list.0.len(), list.1.load(Ordering::SeqCst))))
                    .submit()
                    .unwrap();
                drop(inner);
                drop((value, later));
            });
            last.submit().unwrap();
            drop((rt, list));
            drop(open);
            assert_eq!(told.recv().unwrap(), (0, 0), "the task must find the value alive");
            while drops() == 0 {
                std::thread::yield_now();
            }
        });
    }
}

#[test]
fn destructor_of_a_value_may_panic_submit_and_hold_handles() {
    struct Testament(Option<Box<dyn FnOnce() + Send + Sync>>);
    impl Drop for Testament {
        fn drop(&mut self) {
            self.0.take().unwrap()();
        }
    }
    for units in MIXES {
        watched(units, move || {
            let rt = Arc::new(runtime(units));
            let ran = rt.value(0);
            for n in 0..20 {
                let (inner, ran) = (Arc::downgrade(&rt), ran.clone());
                let (held, drops) = (rt.value(vec![n]), ran.clone());
                let last = move || {
                    let _held = held;
                    let rt = inner.upgrade().expect("the runtime's owner is waiting");
                    assert!(matches!(rt.wait(), Err(RunError::Refused(SubmitError::InsideTask { .. }))));
                    rt.task("last words", ran.commutative()).cpu(|_, ran| *ran += 1).submit().unwrap();
                    if n % 2 == 0 {
                        resume_unwind(Box::new("as the program says"));
                    }
                };
                drop(drops);
                let value = rt.value(Testament(Some(Box::new(last))));
                rt.task("use", value.input()).cpu(|_, _| ()).submit().unwrap();
            }
            rt.wait().unwrap();
            rt.wait().unwrap(); // for tasks submitted by the last destructors
            assert_eq!(rt.read_value(&ran, |ran| *ran).unwrap(), 20);
        });
    }
}

#[test]
fn misuse_of_a_value_is_refused_with_a_reason() {
    let (rt, other) = (runtime("1:CPU:1,1:EMU:1"), runtime("1:CPU:1"));
    let mesh = rt.value(vec![1]).named("mesh");
    let text = |error: SubmitError| words(&error);

    let foreign = other.task("t", mesh.input()).cpu(|_, _| ()).submit().unwrap_err();
    assert!(matches!(&foreign, SubmitError::ForeignData { task, .. } if task == "t"));
    assert!(text(foreign).contains("value `mesh` in `t`: it is registered with another runtime"));
    assert!(matches!(other.read_value(&mesh, Vec::len), Err(RunError::Refused(SubmitError::ForeignData { .. }))));
    assert!(matches!(
        other.take(mesh.clone()).unwrap_err().error(),
        RunError::Refused(SubmitError::ForeignData { .. })
    ));

    let twice = rt.task("t", (mesh.input(), mesh.inout())).cpu(|_, _| ()).submit().unwrap_err();
    assert!(matches!(twice, SubmitError::OverlappingAccesses { .. }));
    assert!(text(twice).contains("all (in) and all (inout) of value `mesh`"));
    rt.task("t", (mesh.input(), mesh.input())).cpu(|_, (a, b)| assert!(std::ptr::eq(a, b))).submit().unwrap();
    rt.wait().unwrap();

    let on_device = rt.task("t", mesh.input()).emulated(|_, _| ()).submit().unwrap_err();
    assert_eq!(
        text(on_device),
        "cannot submit task `t`: it accesses value `mesh`, which is in host memory, but has no body for CPU units; try \
         .cpu(..) or .host(..), or an array for the data that devices use"
    );
    let on_device = other.task("t", other.value(1).input()).gpu(|_, _| Ok::<(), DeviceError>(())).submit().unwrap_err();
    assert!(matches!(on_device, SubmitError::ValueOnDevice { .. }));
    // A task with only an `after` access gets no view, so it may run anywhere.
    rt.task("t", mesh.after()).emulated(|_, ()| ()).submit().unwrap();

    let copy = mesh.clone();
    assert_eq!(rt.take(mesh).unwrap(), [1]);
    let taken = rt.task("t", copy.input()).cpu(|_, _| ()).submit().unwrap_err();
    assert!(text(taken).contains("value `mesh` in `t`: it was taken back"));
    assert!(matches!(rt.take(copy).unwrap_err().error(), RunError::Refused(SubmitError::Taken { .. })));

    let unnamed = rt.value(());
    assert!(format!("{unnamed:?}").starts_with("value "));
    assert_eq!(format!("{:?}", rt.token().named("log").inout()), "token `log` (inout)");
}

#[test]
fn nested_task_on_a_value_its_parent_holds_is_refused() {
    let rt = Arc::new(runtime("1:CPU:1"));
    let list = rt.value(vec![1]).named("list");
    let (inner, held) = (rt.clone(), list.clone());
    rt.task("parent", list.inout())
        .cpu(move |_, _| {
            let refused = inner.task("child", held.input()).cpu(|_, _| ()).submit().unwrap_err();
            let text = words(&refused);
            assert!(text.contains("all (in) of value `list` in `child` inside"), "{text}");
            assert!(text.contains("it conflicts with all (inout)"), "{text}");
        })
        .submit()
        .unwrap();
    rt.wait().unwrap();
}

#[test]
fn values_may_have_any_size_and_alignment() {
    #[repr(align(256))]
    struct Aligned(u8);
    for_each_mix(|rt| {
        let (nothing, aligned, large) = (rt.value(()), rt.value(Aligned(1)), rt.value(Box::new([0u8; 1 << 16])));
        let list: Vec<_> = (0..30).map(|n| rt.value(n.to_string())).collect();
        rt.task("all", (nothing.inout(), aligned.inout(), large.inout()))
            .cpu(|_, ((), aligned, large)| {
                assert!(std::ptr::from_ref(aligned).addr().is_multiple_of(256));
                (aligned.0, large[9]) = (2, 3);
            })
            .submit()
            .unwrap();
        let texts: Vec<_> = list.iter().map(Value::input).collect();
        rt.task("concatenate", (texts, large.inout()))
            .cpu(|_, (texts, large)| large[1] = texts.into_iter().map(String::len).sum::<usize>() as u8)
            .submit()
            .unwrap();
        let (aligned, large) = (rt.take(aligned).unwrap(), rt.take(large).unwrap());
        assert_eq!((aligned.0, large[9], large[1]), (2, 3, 50));
        rt.take(nothing).unwrap();
    });
}

#[test]
fn closure_of_read_value_may_panic() {
    let rt = runtime("2:CPU:1");
    let list = rt.value(vec![1]);
    let looked = catch_unwind(AssertUnwindSafe(|| rt.read_value(&list, |_| -> usize { resume_unwind(Box::new(7u8)) })));
    assert_eq!(*looked.unwrap_err().downcast::<u8>().unwrap(), 7);
    assert_eq!(rt.read_value(&list, Vec::len).unwrap(), 1);
    rt.wait().unwrap();
}

#[test]
fn token_orders_tasks_on_all_units() {
    for_each_mix(|rt| {
        let (token, log) = (rt.token(), Arc::new(std::sync::Mutex::new(vec![])));
        for n in 0..30 {
            let log = log.clone();
            let task = rt.task("log", token.inout()).cpu(move |_, ()| log.lock().unwrap().push(n));
            task.submit().unwrap();
        }
        let count = log.clone();
        for _ in 0..4 {
            let count = count.clone();
            let read = move |_: &Context, ()| assert_eq!(count.lock().unwrap().len(), 30);
            rt.task("read", token.input()).cpu(read.clone()).submit().unwrap();
            rt.task("add", token.concurrent()).cpu(read.clone()).submit().unwrap();
            rt.task("one by one", token.commutative()).cpu(read).submit().unwrap();
        }
        rt.wait().unwrap();
        assert!(log.lock().unwrap().iter().copied().eq(0..30));
    });
}

#[test]
fn token_passes_failures_on_until_it_is_overwritten() {
    let rt = runtime("1:CPU:1,1:EMU:1");
    let (token, ran) = (rt.token(), rt.value(vec![]));
    let note = |name: &'static str| move |_: &Context, (ran, ()): (&mut Vec<&'static str>, ())| ran.push(name);
    rt.task("fails", token.inout()).emulated(|_, ()| Err("no")).submit().unwrap();
    rt.task("skipped", (ran.inout(), token.input())).cpu(|_, (_, ())| ()).submit().unwrap();
    rt.task("clears", ran.output()).cpu(|_, ran| ran.clear()).submit().unwrap();
    rt.task("after", (ran.inout(), token.after())).cpu(note("after")).submit().unwrap();
    rt.task("out", (ran.inout(), token.output())).cpu(note("out")).submit().unwrap();
    rt.task("in", (ran.inout(), token.input())).cpu(note("in")).submit().unwrap();
    assert_eq!(failed(rt.wait()), ["fails"]);
    assert_eq!(rt.take(ran).unwrap(), ["after", "out", "in"]);
}

#[test]
fn values_work_with_hints_under_every_scheduler() {
    for scheduler in SCHEDULERS {
        watched(scheduler, move || {
            let rt = Runtime::builder().compute_units("2:CPU:1,1:EMU:1").scheduler(scheduler).build().unwrap();
            let sums: Vec<_> = (0..4).map(|_| rt.value(0u64)).collect();
            let space = IterationSpace::new("sums", vec![1.0; 4]);
            for step in 0..5 {
                space.begin();
                for (n, sum) in sums.iter().enumerate() {
                    let task = rt.task("add", sum.inout()).cpu(move |_, sum| *sum += step).at(&space, n);
                    task.cost(1.0).priority(n as i32).submit().unwrap();
                }
            }
            for sum in sums {
                assert_eq!(rt.take(sum).unwrap(), 10);
            }
        });
    }
}

#[test]
fn simulation_does_not_change_values() {
    let rt = Runtime::builder().simulate(SimulatedMachine::from_file("machines/laptop.toml").unwrap()).build().unwrap();
    let (list, drops) = counted();
    let (list, x) = (rt.value(list), rt.zeros(1000));
    rt.task("push", (list.inout(), x.inout())).cpu(|_, (list, _)| list.0.push(1)).submit().unwrap();
    assert_eq!(rt.read_value(&list, |list| list.0.len()).unwrap(), 0, "a simulation must not run bodies");
    let _: Vec<f64> = rt.take(x).unwrap();
    let (other, others_drops) = counted();
    drop(rt.value(other));
    rt.wait().unwrap();
    assert_eq!(others_drops(), 1);
    drop(rt.take(list).unwrap());
    assert_eq!(drops(), 1);
}

#[test]
fn handles_of_values_are_sync_whatever_the_value() {
    fn is_shared<T: Send + Sync + Clone + 'static>() {}
    is_shared::<Value<Rc<Cell<u8>>>>();
    is_shared::<Value<String>>();
    is_shared::<Token>();
}

/// Array elements may have any plain type; user-defined types derive `Pod`.
#[test]
fn arrays_work_for_all_plain_types() {
    use bytemuck::{Pod, Zeroable};
    use thalweg::memory::Complex;

    #[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
    #[repr(C)]
    struct Particle {
        place: [f64; 3],
        charge: f32,
        alive: u32,
    }

    fn doubled<T: Element + PartialEq + std::fmt::Debug>(rt: &Runtime, element: T, double: fn(T) -> T) {
        let x = rt.data(vec![element; 100]);
        for part in blocks(100, 30) {
            let body = move |_: &Context, x: &mut [T]| x.iter_mut().for_each(|x| *x = double(*x));
            rt.task("double", x.slice(part).inout()).cpu(body).submit().unwrap();
        }
        assert_eq!(rt.take(x).unwrap(), [double(element); 100]);
    }

    for_each_mix(|rt| {
        doubled(rt, Complex::new(1.0f32, 2.0), |z| z + z);
        doubled(rt, [1u16, 2, 3], |x| x.map(|x| 2 * x));
        doubled(rt, half::f16::from_f32(1.5), |x| x + x);
        doubled(rt, half::bf16::from_f32(1.5), |x| x + x);
        doubled(rt, 1u8, |flag| flag ^ 1);
        let particle = Particle { place: [1.0; 3], charge: -1.0, alive: 1 };
        doubled(rt, particle, |p| Particle { charge: 2.0 * p.charge, ..p });
    });
}
