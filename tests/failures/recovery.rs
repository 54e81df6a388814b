//! Recovery from failures: cleared, accepted or overwritten regions are valid again, `after` accesses are never
//! poisoned, and a failed `take` gives the data object back.

use crate::common::{MIXES, failed, for_each_mix, gate, poison, watched};
use ndarray::Array2;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::Context;
use thalweg::error::TakeError;
use thalweg::prelude::*;

const N: usize = 8;

/// Submits a task that adds `n` to a region. With `None`, the task fails after it has written half of the region.
fn add(rt: &Runtime, region: Region<'_, u64>, n: Option<u64>) {
    let body = move |_: &Context, (x,): (&mut [u64],)| match n {
        Some(n) => {
            x.iter_mut().for_each(|x| *x += n);
            Ok(())
        }
        None => {
            let half = x.len() / 2;
            x[..half].fill(100);
            Err("no number")
        }
    };
    rt.task("add", (region.inout(),)).cpu(body).submit().unwrap();
}

#[test]
fn cleared_region_can_be_updated_again() {
    for_each_mix(|rt| {
        let x = rt.data(vec![1u64; N]);
        let (open, wait) = gate();
        rt.task("gate", (x.inout(),)).cpu(move |_, _| wait()).submit().unwrap();
        add(rt, x.all(), None);
        add(rt, x.all(), Some(1)); // skipped
        rt.clear(x.slice(2..)).unwrap();
        add(rt, x.slice(2..), Some(5));
        add(rt, x.slice(..4), Some(7)); // half of it is still poisoned
        rt.clear(x.slice(..4)).unwrap();
        add(rt, x.all(), Some(20));
        drop(open);
        let Err(RunError::Failed(failures)) = rt.wait() else { panic!("the failure was not reported") };
        assert_eq!(
            (failures.len(), failures[0].skipped()),
            (1, 2),
            "a failure is reported even if its region was cleared"
        );
        rt.wait().expect("the failure is reported only once");
        assert_eq!(rt.take(x).unwrap(), [20, 20, 20, 20, 25, 25, 25, 25]);
    });
}

#[test]
fn accepted_region_has_the_value_the_failed_task_left() {
    for_each_mix(|rt| {
        let (x, y) = (rt.data(vec![1u64; N]), rt.data(vec![3u64; N]));
        add(rt, x.all(), Some(1));
        add(rt, x.all(), None);
        rt.accept(x.all()).unwrap();
        add(rt, x.all(), Some(10));
        // This region is not poisoned, and it may be valid in any memory.
        add(rt, y.all(), Some(1));
        rt.accept(y.slice(1..)).unwrap();
        add(rt, y.all(), Some(1));
        assert_eq!(failed(rt.wait()), ["add"]);
        assert_eq!(rt.read(&x.all()).unwrap(), [110, 110, 110, 110, 12, 12, 12, 12]);
        assert_eq!(rt.take(y).unwrap(), [5; N]);
        // A read is refused for as long as a part is poisoned.
        add(rt, x.all(), None);
        rt.accept(x.slice(1..)).unwrap();
        assert_eq!(poison(rt.read(&x.all())).0, "add");
        assert_eq!(rt.read(&x.slice(6..)).unwrap(), [12; 2]);
        rt.accept(x.slice(..1)).unwrap();
        assert_eq!(rt.read(&x.all()).unwrap(), [100, 100, 100, 100, 12, 12, 12, 12]);
        assert_eq!(failed(rt.wait()), ["add"]);
    });
}

#[test]
fn boxes_of_several_dimensions_can_be_cleared_and_accepted() {
    for_each_mix(|rt| {
        let x = rt.array(Array2::<u64>::ones((4, 6)));
        let fail = |region: Region<'_, u64, Ix2>| {
            rt.task("fail", (region.inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
        };
        let inner = x.block((1..3, 2..5));
        fail(x.block((0..4, 2..5)));
        rt.clear(inner).unwrap();
        rt.accept(x.block((0..1, 0..6))).unwrap();
        assert_eq!(poison(rt.read(&x.all())).0, "fail");
        rt.accept(x.block((3..4, 2..5))).unwrap();
        let expected = Array2::from_shape_fn((4, 6), |(i, j)| u64::from(!((1..3).contains(&i) && (2..5).contains(&j))));
        assert_eq!(rt.read(&x.all()).unwrap(), expected);
        // The same must hold for a history that is long enough to be kept by parts.
        for i in 0..40 {
            rt.task("touch", (x.block((i % 4..i % 4 + 1, 0..6)).commutative(),)).cpu(|_, _| ()).submit().unwrap();
        }
        fail(x.all());
        rt.clear(x.block((0..2, 0..6))).unwrap();
        rt.accept(x.block((2..4, 0..6))).unwrap();
        assert_eq!(rt.take(x).unwrap().sum(), 4 + 4 + 1 - 1 + 1);
        assert_eq!(failed(rt.wait()), ["fail", "fail"]);
    });
}

#[test]
fn clear_and_accept_are_ordered_after_earlier_tasks() {
    for_each_mix(|rt| {
        let x = rt.data(vec![1u64; N]);
        let (open, wait) = gate();
        let seen = rt.data(vec![0u64; N]);
        let body = move |_: &Context, (x, seen): (&[u64], &mut [u64])| {
            wait();
            seen.copy_from_slice(x);
        };
        rt.task("reader", (x.input(), seen.output())).cpu(body).submit().unwrap();
        rt.clear(x.all()).unwrap();
        rt.accept(x.all()).unwrap();
        add(rt, x.all(), Some(1));
        drop(open);
        assert_eq!(rt.take(seen).unwrap(), [1; N]);
        assert_eq!(rt.take(x).unwrap(), [1; N]);
        // Empty data can be cleared and accepted, too.
        let none = rt.data(Vec::<u64>::new());
        rt.clear(none.all()).unwrap();
        rt.accept(none.all()).unwrap();
        rt.wait().unwrap();
    });
}

#[test]
fn data_lost_with_a_device_can_be_cleared_and_accepted() {
    for mend in ["clear", "accept"] {
        watched(mend, move || {
            let device = EmulatedDevice::new().lost_after_tasks(2);
            let builder = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").scheduler("dynamic");
            let rt = builder.emulated_devices(move |_| device.clone()).build().unwrap();
            let x = rt.data(vec![1u64; N]);
            for _ in 0..4 {
                let body = |_: &Context, (x,): (&mut [u64],)| x.iter_mut().for_each(|x| *x += 1);
                rt.task("device", (x.inout(),)).emulated(body).submit().unwrap();
            }
            assert_eq!(failed(rt.wait()), ["device"]);
            assert_eq!(poison(rt.read(&x.slice(3..4))).0, "device");
            // The device's data is lost, but the host still has the data from which the device's replica was filled.
            let base = match mend {
                "clear" => {
                    rt.clear(x.all()).unwrap();
                    0
                }
                _ => {
                    rt.accept(x.all()).unwrap();
                    1
                }
            };
            rt.task("core", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 10)).submit().unwrap();
            rt.wait().unwrap();
            assert_eq!(rt.take(x).unwrap(), [base + 10; N]);
        });
    }
}

#[test]
fn clear_and_accept_are_refused_like_tasks() {
    for units in MIXES {
        watched(units, move || {
            let rt = Arc::new(crate::common::runtime(units));
            let other = crate::common::runtime("1:CPU:1");
            let x = rt.data(vec![1u64; N]).named("x");
            for said in [rt.clear(x.slice(4..12)), rt.accept(x.slice(4..12))] {
                assert!(matches!(said, Err(SubmitError::OutOfBounds { .. })), "{said:?}");
            }
            for said in [other.clear(x.all()), other.accept(x.all())] {
                assert!(matches!(said, Err(SubmitError::ForeignData { .. })), "{said:?}");
            }
            let (inner, held) = (rt.clone(), x.clone());
            let body = move |_: &Context, _: (&mut [u64],)| {
                for (name, said) in [("clear", inner.clear(held.all())), ("accept", inner.accept(held.slice(3..)))] {
                    assert!(matches!(said, Err(SubmitError::Nested { task, .. }) if task == name));
                }
            };
            rt.task("holder", (x.slice(..4).inout(),)).cpu(body).submit().unwrap();
            rt.wait().unwrap();
            assert_eq!(rt.take(x).unwrap(), [1; N]);
        });
    }
}

#[test]
fn task_with_an_after_access_runs_after_a_failure() {
    for_each_mix(|rt| {
        let (x, y) = (rt.data(vec![1u64; N]), rt.data(vec![0u64; 1]));
        let (open, wait) = gate();
        let steps = Arc::new(AtomicUsize::new(0));
        let [first, second, third] = [0, 1, 2].map(|expected| {
            let steps = steps.clone();
            move || assert_eq!(steps.fetch_add(1, Ordering::SeqCst), expected, "out of order")
        });
        let body = move |_: &Context, _: (&mut [u64],)| {
            wait();
            first();
            Err("no")
        };
        rt.task("fails", (x.inout(),)).cpu(body).submit().unwrap();
        let body = move |_: &Context, (y, ()): (&mut [u64], ())| {
            second();
            y[0] = 1;
        };
        rt.task("later", (y.output(), x.slice(2..3).after())).cpu(body).submit().unwrap();
        // The task that overwrites the region is ordered after the `after` access.
        let body = move |_: &Context, (x,): (&mut [u64],)| {
            third();
            x.fill(3);
        };
        rt.task("overwrites", (x.output(),)).cpu(body).submit().unwrap();
        drop(open);
        assert_eq!(failed(rt.wait()), ["fails"]);
        assert_eq!((rt.take(y).unwrap(), rt.take(x).unwrap()), (vec![1], vec![3; N]));
    });
}

#[test]
fn after_access_neither_clears_nor_causes_poison() {
    for_each_mix(|rt| {
        let x = rt.data(vec![1u64; N]);
        add(rt, x.all(), None);
        rt.task("later", (x.after(),)).cpu(|_, _| Err("neither")).submit().unwrap();
        rt.task("between", (x.slice(..2).after(), x.slice(1..).after())).cpu(|_, _| ()).submit().unwrap();
        assert_eq!(poison(rt.read(&x.all())).0, "add", "the region is still poisoned by the first failure");
        rt.clear(x.all()).unwrap();
        rt.task("later", (x.after(),)).cpu(|_, _| Err("neither")).submit().unwrap();
        add(rt, x.all(), Some(1));
        assert_eq!(
            rt.take(x).unwrap(),
            [1; N],
            "the failure of a task with an `after` access must not poison the region"
        );
        let mut causes = failed(rt.wait());
        causes.sort();
        assert_eq!(causes, ["add", "later", "later"]);
    });
}

#[test]
fn after_access_copies_nothing() {
    watched("moves nothing", || {
        // The device is too small even for the region of the `after` access.
        let device = EmulatedDevice::new().capacity_bytes(64);
        let builder = Runtime::builder().compute_units("1:EMU:1").emulated_devices(move |_| device.clone());
        let rt = builder.build().unwrap();
        let (x, y) = (rt.data(vec![1u64; 100]), rt.data(vec![1u64; 8]));
        rt.task("later", (x.after(), y.output())).emulated(|_, ((), y)| y.fill(2)).submit().unwrap();
        rt.wait().unwrap();
        assert_eq!(x.all().valid_in(), [SpaceId::HOST]);
        assert_eq!(rt.take(y).unwrap(), [2; 8]);
        assert!(rt.statistics().links.iter().all(|link| link.bytes == 64));
    });
}

#[test]
fn failed_take_returns_the_data_object() {
    for_each_mix(|rt| {
        let x = rt.data(vec![1u64; N]).named("x");
        add(rt, x.all(), None);
        let error: TakeError<Data<u64>> = rt.take(x).unwrap_err();
        assert!(matches!(error.error(), RunError::Poisoned(cause) if cause.name() == "add"));
        assert_eq!(error.to_string(), error.error().to_string());
        let x = error.into_data();
        rt.clear(x.all()).unwrap();
        assert_eq!(rt.take(x).unwrap(), [0; N]);
        assert_eq!(failed(rt.wait()), ["add"]);
        let other = crate::common::runtime("1:CPU:1");
        let y = rt.data(vec![2u64; N]);
        let (y, error) = other.take(y).unwrap_err().into_parts();
        assert!(matches!(error, RunError::Refused(SubmitError::ForeignData { .. })), "{error}");
        assert_eq!(rt.take(y).unwrap(), [2; N]);
    });
}

#[test]
fn take_error_converts_to_boxed_and_run_errors() {
    fn boxed(rt: &Runtime, x: Data<u64>) -> Result<Vec<u64>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(rt.take(x)?)
    }
    fn plain(rt: &Runtime, x: Data<u64>) -> Result<Vec<u64>, RunError> {
        Ok(rt.take(x)?)
    }
    watched("take", || {
        let rt = crate::common::runtime("1:CPU:1");
        let [x, y] = [0, 1].map(|n| rt.data(vec![n; N]));
        [&x, &y].into_iter().for_each(|x| add(&rt, x.all(), None));
        let error = boxed(&rt, x).unwrap_err();
        let said = error.downcast::<TakeError<Data<u64>>>().unwrap();
        assert_eq!(poison(Err::<(), _>(*said)).0, "add");
        assert!(matches!(plain(&rt, y), Err(RunError::Poisoned(_))));
        assert_eq!(failed(rt.wait()).len(), 2);
    });
}

#[test]
fn accepted_region_of_a_skipped_update_keeps_its_old_value() {
    watched("skipped", || {
        let device = |_| EmulatedDevice::new().failing_copy(0);
        let rt = Runtime::builder().compute_units("1:EMU:1").emulated_devices(device).build().unwrap();
        let x = rt.data(vec![5u64; N]);
        add(&rt, x.all(), Some(1)); // does not run, because its copy to the device fails
        assert!(rt.wait().is_err());
        rt.accept(x.all()).unwrap();
        assert_eq!(rt.read(&x.all()).unwrap(), [5; N]);
        add(&rt, x.all(), Some(1));
        assert_eq!(rt.take(x).unwrap(), [6; N]);
    });
}
