//! Misuse of the interface. Every refusal has a specific type, names the argument, the data and the ranges, suggests a
//! correction, and changes nothing. The runtime and the data remain usable.

use crate::common::{runtime, watched, words};
use ndarray::{Array2, Array3};
use std::sync::Arc;
use thalweg::Context;
use thalweg::error::{BuildError, RunError, SubmitError};
use thalweg::machine::ConfigError;
use thalweg::prelude::*;

const UNITS: [&str; 3] = ["2:CPU:1", "1:CPU:1,1:EMU:1", "1:EMU:1"];

/// Runs `test` on machines with and without CPU units and devices. Afterwards, checks that a task still works and that
/// nothing has failed.
fn on_each(test: impl Fn(&Runtime, &Data<f64>) + Clone + Send + 'static) {
    for units in UNITS {
        let test = test.clone();
        watched(units, move || {
            let rt = runtime(units);
            let x = rt.data(vec![1.0; 10]).named("x");
            test(&rt, &x);
            rt.task("works", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1.0)).submit().unwrap();
            rt.wait().unwrap();
            assert_eq!(rt.take(x).unwrap(), [2.0; 10]);
        });
    }
}

/// Returns the text of the refusal of a task with these accesses.
fn refusal(rt: &Runtime, accesses: impl thalweg::task::Accesses) -> String {
    words(&rt.task("t", accesses).host(|_, _| ()).submit().unwrap_err())
}

fn refused<T: std::fmt::Debug>(result: Result<T, impl Into<RunError>>) -> SubmitError {
    match result.map_err(Into::into) {
        Err(RunError::Refused(error)) => error,
        other => panic!("the request should be refused: {other:?}"),
    }
}

#[test]
fn region_out_of_bounds_is_refused_with_its_bounds() {
    on_each(|rt, x| {
        let a = rt.array(Array2::<u8>::zeros((4, 6))).named("grid");
        let c = rt.array(Array3::<u8>::zeros((2, 3, 4)));
        let of = |said: &str, request: &str| said.replace("`t`", &format!("`{request}`"));
        let one = "cannot access region [5..11] of data `x` in `t`: it is out of bounds; try a region inside [0..10]";
        assert_eq!(refusal(rt, (x.slice(5..11).input(),)), one);
        assert_eq!(refusal(rt, (x.slice(5..=10).output(),)), one);
        #[allow(clippy::reversed_empty_ranges)] // deliberately wrong
        let inverted = x.slice(7..3);
        assert_eq!(refusal(rt, (inverted.inout(),)), one.replace("5..11", "7..3"));
        assert_eq!(refusal(rt, (x.slice(12..).reduction(Sum),)), one.replace("5..11", "12..12"));
        assert_eq!(
            refusal(rt, (x.slice(11..11).concurrent(),)),
            one.replace("5..11", "11..11"),
            "an empty region out of bounds is refused as well"
        );
        let max = usize::MAX;
        assert_eq!(refusal(rt, (x.slice(..=max).input(),)), one.replace("5..11", &format!("0..{max}")));
        let two = "cannot access region [1..3, 2..7] of data `grid` in `t`: it is out of bounds; \
                   try a region inside [0..4, 0..6]";
        assert_eq!(refusal(rt, (a.block((1..3, 2..7)).commutative(),)), two);
        let three = "cannot access region [0..2, 0..4, 0..4] of data 2 in `t`: it is out of bounds; \
                     try a region inside [0..2, 0..3, 0..4]";
        assert_eq!(refusal(rt, (x.input(), c.block((0..2, 0..4, 0..4)).input())), three);
        // Requests return the same text in every address space.
        assert_eq!(words(&refused(rt.read(&x.slice(5..11)))), of(one, "read"));
        assert_eq!(words(&refused(rt.fetch(&a.block((1..3, 2..7)), SpaceId::HOST))), of(two, "fetch"));
        for space in rt.machine().spaces() {
            assert_eq!(words(&refused(rt.fetch(&x.slice(5..11), space))), of(one, "fetch"));
            assert_eq!(
                words(&rt.prefetch(&x.slice(..max), space).unwrap_err()),
                of(one, "prefetch").replace("5..11", &format!("0..{max}"))
            );
            assert!(matches!(rt.prefetch(&a.block((0..max, 0..max)), space), Err(SubmitError::OutOfBounds { .. })));
        }
        let error = rt.task("t", (x.slice(5..11).input(),)).cpu(|_, _| ()).submit().unwrap_err();
        let [data, region, shape] = ["data `x`", "[5..11]", "[0..10]"].map(str::to_owned);
        let expected = SubmitError::OutOfBounds { task: "t".into(), data, region, shape };
        assert_eq!(error, expected);
    });
}

#[test]
fn overlapping_accesses_of_one_task_are_refused() {
    on_each(|rt, x| {
        let a = rt.array(Array2::<u32>::zeros((4, 4))).named("grid");
        let text = |first, second| {
            format!(
                "cannot submit task `t`: its accesses to {first} and {second} of data `x` overlap, and one of them writes; \
                 try one access that covers both, or regions that do not overlap"
            )
        };
        let said = refusal(rt, (x.slice(0..6).input(), x.slice(5..10).output()));
        assert_eq!(said, text("[0..6] (in)", "[5..10] (out)"));
        let said = refusal(rt, (x.slice(0..6).reduction(Sum), x.slice(0..6).reduction(Sum)));
        assert_eq!(said, text("[0..6] (reduction)", "[0..6] (reduction)"));
        let said = refusal(rt, (x.slice(9..10).commutative(), x.slice(0..2).input(), x.concurrent()));
        assert_eq!(said, text("[9..10] (commutative)", "[0..10] (concurrent)"));
        let said = refusal(rt, (x.input(), a.block((0..2, 0..3)).inout(), a.block((1..4, 2..4)).input()));
        assert!(said.contains("[0..2, 0..3] (inout) and [1..4, 2..4] (in) of data `grid`"), "{said}");
        // Readers may overlap, writers may be adjacent, and empty regions overlap nothing.
        rt.task("fine", (x.input(), x.slice(2..4).input(), x.slice(4..4).output())).cpu(|_, _| ()).submit().unwrap();
        let touching = (a.block((0..2, 0..4)).inout(), a.block((2..4, 0..4)).inout());
        rt.task("fine", touching).cpu(|_, _| ()).submit().unwrap();
    });
}

#[test]
fn data_of_another_runtime_is_refused() {
    on_each(|rt, x| {
        let other = runtime("1:CPU:1");
        let said = "cannot access data `x` in `t`: it is registered with another runtime; try a call of that one";
        let of = |request: &str| said.replace("`t`", &format!("`{request}`"));
        assert_eq!(refusal(&other, (x.input(),)), said);
        assert_eq!(words(&refused(other.read(&x.all()))), of("read"));
        assert_eq!(words(&refused(other.fetch(&x.all(), SpaceId::HOST))), of("fetch"));
        assert_eq!(
            refused(other.take(x.clone())),
            SubmitError::ForeignData { task: "take".into(), data: "data `x`".to_owned() }
        );
        assert_eq!(words(&other.prefetch(&x.all(), SpaceId::HOST).unwrap_err()), of("prefetch"));
        let y = other.scalar(0);
        assert_eq!(refusal(rt, (x.input(), y.output())), said.replace("data `x`", "data 0"));
    });
}

#[test]
fn taken_data_is_refused() {
    on_each(|rt, x| {
        let y = rt.data(vec![3u8; 7]).named("y");
        let clone = y.clone();
        let region = clone.slice(0..3);
        assert_eq!(rt.take(y).unwrap(), [3; 7]);
        let said = "cannot access data `y` in `t`: it was taken back from the runtime; try registering it again";
        let of = |request: &str| said.replace("`t`", &format!("`{request}`"));
        assert_eq!(refusal(rt, (x.output(), clone.input())), said);
        assert_eq!(words(&refused(rt.read(&region))), of("read"));
        assert_eq!(
            refused(rt.fetch(&region, SpaceId::HOST)),
            SubmitError::Taken { task: "fetch".into(), data: "data `y`".to_owned() }
        );
        assert_eq!(words(&refused(rt.take(clone.clone()))), of("take"));
    });
}

#[test]
fn task_without_a_body_for_any_unit_is_refused() {
    for units in UNITS {
        watched(units, move || {
            let rt = runtime(units);
            let x = rt.data(vec![1.0; 10]);
            let said = rt.task("bare", (x.input(),)).submit().unwrap_err();
            assert_eq!(said, SubmitError::NoBody { task: "bare".into() });
            assert_eq!(
                words(&said),
                "cannot submit task `bare`: it has no body; try .cpu(..), .host(..), .emulated(..) or .gpu(..)"
            );
            let no_unit = |bodies: &str| {
                format!(
                    "cannot submit task `t`: it has only bodies for {bodies}, but the machine's units are {units}; try \
                     a body for one of these"
                )
            };
            let emulated = rt.task("t", (x.inout(),)).emulated(|_, _| ()).submit().map_err(|e| words(&e));
            let host = rt.task("t", (x.inout(),)).host(|_, _| ()).submit().map_err(|e| words(&e));
            let concurrent = rt.task("t", (x.concurrent(),)).cpu(|_, _| ()).submit().map_err(|e| words(&e));
            if units.contains("EMU") {
                emulated.unwrap();
            } else {
                assert_eq!(emulated, Err(no_unit("EMU")))
            }
            // Without a CPU unit, the threads that host devices run the bodies for cores.
            host.unwrap();
            concurrent.unwrap();
            let gpu = rt.task("t", (x.inout(),)).gpu(|_, _| ()).submit().map_err(|e| words(&e));
            assert_eq!(gpu, Err(no_unit("CUDA and HIP and OPENCL and FPGA and GPU")));
            rt.wait().unwrap();
            assert_eq!(rt.take(x).unwrap(), [1.0; 10]);
        });
    }
}

#[test]
fn concurrent_access_to_a_region_with_gaps_is_refused() {
    on_each(|rt, _| {
        let a = rt.array(Array2::<u32>::zeros((4, 6))).named("grid");
        let said = "cannot submit task `t`: region [0..2, 1..3] of data `grid` is not contiguous in memory, which a \
                    concurrent access needs; try whole rows";
        assert_eq!(refusal(rt, (a.block((0..2, 1..3)).concurrent(),)), said);
        for whole in [a.block((1..3, 0..6)), a.block((2..3, 1..4))] {
            let result = rt.task("t", (whole.concurrent(),)).cpu(|_, _| ()).submit();
            assert!(!matches!(result, Err(SubmitError::NotContiguous { .. })));
        }
    });
}

#[test]
fn index_outside_its_iteration_space_is_refused() {
    on_each(|rt, x| {
        let zones = IterationSpace::new("zones", vec![1.0; 3]);
        let error = rt.task("t", (x.input(),)).at(&zones, 3).cpu(|_, _| ()).submit().unwrap_err();
        assert_eq!(
            words(&error),
            "cannot submit task `t`: index 3 is outside iteration space `zones`; try one below 3"
        );
        rt.task("t", (x.input(),)).at(&zones, 2).cost(1.0).cpu(|_, _| ()).submit().unwrap();
    });
}

#[test]
fn address_space_that_does_not_exist_is_refused() {
    on_each(|rt, x| {
        let count = rt.machine().num_spaces();
        let said = format!(
            "cannot copy to space 7: the machine has {count} address spaces; try one that `Machine::spaces` lists"
        );
        assert_eq!(rt.prefetch(&x.all(), SpaceId(7)).unwrap_err().to_string(), said);
        assert_eq!(
            refused(rt.fetch(&x.all(), SpaceId(7))),
            SubmitError::NoSuchSpace { space: "space 7".to_owned(), count }
        );
    });
}

#[test]
fn wait_for_everything_inside_a_body_is_refused() {
    for units in UNITS {
        watched(units, move || {
            let rt = Arc::new(runtime(units));
            let (x, inner) = (rt.scalar(1.0), rt.clone());
            let body = move |_: &Context, _: (&mut [f64],)| inner.wait().map_err(|error| error.to_string());
            rt.task("t", (x.inout(),)).cpu(body).submit().unwrap();
            let said = rt.wait().unwrap_err().to_string();
            let why = "cannot `wait` inside a task's body: it would wait for the very task that calls it; try calling it \
                       outside, or submitting a task that uses the value";
            assert!(said.contains(why), "{said}");
        });
    }
}

#[test]
fn working_set_larger_than_any_memory_is_refused() {
    watched("working set", || {
        let sizes = |device| EmulatedDevice::new().capacity_bytes([80, 96][device]);
        let rt = Runtime::builder().compute_units("2:EMU:1").emulated_devices(sizes).build().unwrap();
        let (x, y) = (rt.data(vec![1.0f64; 10]), rt.data(vec![1.0f64; 3]));
        // A core could run this task in host memory. Here, the hosting thread of a device runs it instead.
        rt.task("at home", (x.input(), y.inout())).cpu(|_, (x, y)| y[0] *= x[0]).submit().unwrap();
        let error = rt.task("t", (x.input(), y.output())).emulated(|_, _| ()).submit().unwrap_err();
        assert_eq!(error, SubmitError::WorkingSet { task: "t".into(), needed_bytes: 104, capacity_bytes: 96 });
        let said = "cannot make room for the data of `t`: it needs 104 bytes at once, and the largest memory it \
                    could use has 96; try smaller regions, or units with more memory";
        assert_eq!(words(&error), said);
        let error = rt.prefetch(&rt.data(vec![0u8; 81]).all(), SpaceId(1)).unwrap_err();
        let expected = SubmitError::WorkingSet { task: "prefetch".into(), needed_bytes: 81, capacity_bytes: 80 };
        assert_eq!(error, expected);
        for i in 0..8 {
            rt.task("fits", (x.inout(), y.slice(i % 2..i % 2 + 2).input()))
                .cpu(|_, (x, y)| x[0] += y[0])
                .submit()
                .unwrap();
        }
        assert_eq!(rt.take(x).unwrap()[0], 9.0);
    });
}

#[test]
fn invalid_machine_configuration_is_refused_by_build() {
    let said = |builder: thalweg::Builder| builder.build().unwrap_err().to_string();
    let units = |units: &str| Runtime::builder().compute_units(units);
    for (text, words) in [
        ("", "empty unit configuration; write for instance"),
        ("4:CPU", "term 1 (`4:CPU`) has no size"),
        ("2:CPU:1,,1:EMU:1", "term 2 is empty"),
        ("x:CPU:1", "the count `x` is not a whole number"),
        ("1:CPU:0", "the size is zero; write 1 or more"),
        ("1:TPU:1", "unknown kind of unit `TPU`; the kinds are CPU, EMU"),
        ("2000:CPU:1", "the count is too large; it can be at most 1024"),
        ("1000:OPENCL:1", "1000 OPENCL devices are needed; "),
        ("1000:GPU:1", "Units that need no accelerator are EMU"),
    ] {
        let message = said(units(text));
        assert!(message.starts_with("compute units: ") && message.contains(words), "{text}: {message}");
    }
    assert!(matches!(units("").build(), Err(BuildError::Units(ConfigError::Empty))));
    for (text, words) in [
        ("{0;1}", "places: OMP_PLACES, column 3: found `;`"),
        ("cores(0)", "places: OMP_PLACES, column 1: the abstract name `cores` is not a list; list places"),
        ("{0}", "compute units: OMP_PLACES lists 1 places for 2 compute units; list at least 2"),
        ("{0,1},{1}", "compute units: place 0 of OMP_PLACES has 2 cores, but CPU unit 0 is configured with 1"),
    ] {
        let message = said(units("2:CPU:1").places(text));
        assert!(message.starts_with(words), "{text}: {message}");
    }
    let unknown = units("1:CPU:1").scheduler("fast").build().unwrap_err();
    assert!(unknown.to_string().starts_with("cannot find scheduler `fast`; try one of stealing, dynamic, "));
    assert!(
        matches!(unknown, BuildError::UnknownScheduler { name, known } if name == "fast" && known == thalweg::sched::NAMES)
    );
    assert_eq!(
        said(units("1:CPU:1").max_pending_tasks(0)),
        "max_pending_tasks: a window of 0 tasks allows no submission; try at least 1"
    );
    let new = EmulatedDevice::new;
    for (device, words) in [
        (new().speed(0.0), "a speed of 0 cannot be emulated; try one from 0.000001 to 1"),
        (new().speed(-1.0), "a speed of -1 cannot"),
        (new().speed(1.5), "a speed of 1.5 cannot"),
        (new().speed(f64::NAN), "a speed of NaN cannot"),
        (new().capacity_bytes(0), "a memory of 0 bytes holds no data"),
        (new().copy_delay(Default::default(), 0.0), "0 bytes a second cannot be emulated; try 1 or more"),
        (new().copy_delay(Default::default(), f64::NAN), "NaN bytes a second cannot be emulated"),
    ] {
        let message = said(units("1:CPU:1,2:EMU:1").emulated_devices(move |_| device.clone()));
        assert!(message.starts_with(&format!("emulated_devices: {words}")), "{message}");
    }
}

/// The reported line of a call is the line where its expression begins, regardless of how a task or a request is
/// refused.
#[test]
fn refusal_names_the_refused_call() {
    fn is_named(refused: SubmitError, line: u32) {
        let place = format!(" at {}:{line}:", file!());
        assert!(refused.to_string().contains(&place), "{refused} does not name line {line}");
        assert_eq!(format!("{refused:?}"), refused.to_string());
    }
    for units in UNITS {
        watched(units, move || {
            let rt = runtime(units);
            let x = rt.data(vec![1.0; 10]).named("x");
            let odd = x.slice(5..11);
            let taken = rt.data(vec![1.0; 10]);
            let (gone, twice) = (taken.clone(), taken.clone());
            let mut step = rt.record(|r| r.task("t", gone.inout()).cpu(|_, _| ()).submit()).unwrap();
            rt.take(taken).unwrap();
            let line = line!();
            is_named(rt.task("t", odd.input()).cpu(|_, _| ()).submit().unwrap_err(), line + 1);
            is_named(rt.task("t", odd.input()).cpu(|_, _| ()).submit_handle().map(drop).unwrap_err(), line + 2);
            is_named(rt.task("t", odd.input()).returns(|_, x| x[0]).submit().map(drop).unwrap_err(), line + 3);
            is_named(rt.for_each("t", (0..3, odd.input())).cpu(|_, _| ()).submit().unwrap_err(), line + 4);
            is_named(rt.for_each("t", (0..3, gone.input())).cpu(|_, _| ()).submit().unwrap_err(), line + 5);
            is_named(rt.scope(|s| s.task("t", odd.input()).cpu(|_, _| ()).submit()).unwrap().unwrap_err(), line + 6);
            is_named(rt.scope(|s| s.for_each("t", (0..3, odd.input())).submit()).unwrap().unwrap_err(), line + 7);
            is_named(rt.record(|r| r.task("t", odd.input()).submit()).map(drop).unwrap_err(), line + 8);
            is_named(rt.clear(odd).unwrap_err(), line + 9);
            is_named(refused(rt.read(&odd)), line + 10);
            is_named(refused(rt.fetch(&odd, SpaceId::HOST)), line + 11);
            is_named(rt.prefetch(&odd, SpaceId::HOST).unwrap_err(), line + 12);
            let line = line!() + 1;
            let refused = rt.take(twice).map(drop).map_err(|error| RunError::from(error).to_string()).unwrap_err();
            assert!(refused.contains(&format!(" at {}:{line}:", file!())), "{refused}");
            // A refused replay names the source location where the task was recorded.
            assert!(step.replay().unwrap_err().to_string().contains(&format!(" at {}:", file!())));
        });
    }
}
