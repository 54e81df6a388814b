//! Panics of public methods, which must name the caller's line in the program and not a line in the library.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once};
use thalweg::kernel::Program;
use thalweg::machine::{Machine, Topology};
use thalweg::prelude::*;
use thalweg::region::Block;

thread_local! {
    /// The file that the last panic on this thread named.
    static FILE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Discards the result of a call that should have panicked before.
fn made<T>(_: T) {}

/// Returns calls that each panic, with their names.
fn calls() -> Vec<(&'static str, Box<dyn Fn()>)> {
    let rt = || Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let machine = || Machine::plan(&"1:CPU:1".parse().unwrap(), None, &Topology::with_cores(1)).unwrap();
    const TOO_MANY: usize = usize::MAX / 2;
    let weights = |odd: f64| move || made(IterationSpace::new("z", vec![1.0, odd]));
    vec![
        ("task::blocks", Box::new(|| made(thalweg::task::blocks(4, 0)))),
        ("Data::blocks", Box::new(move || made(rt().zeros::<f64, _>(4).blocks(0)))),
        ("Data::rows", Box::new(move || made(rt().zeros::<f64, _>([4, 4]).rows(0)))),
        ("Data::tiles", Box::new(move || made(rt().zeros::<f64, _>([4, 4]).tiles([2, 0])))),
        ("Region::blocks", Box::new(move || made(rt().zeros::<f64, _>(4).slice(1..3).blocks(0)))),
        ("Region::rows", Box::new(move || made(rt().zeros::<f64, _>([4, 4]).block((0..2, 0..2)).rows(0)))),
        ("Region::tiles", Box::new(move || made(rt().zeros::<f64, _>([4, 4]).block((0..2, 0..2)).tiles([0, 1])))),
        ("Partition::part", Box::new(move || made(rt().zeros::<f64, _>(4).blocks(2).part(2)))),
        ("Region::border", Box::new(move || made(rt().zeros::<f64, _>(4).slice(..).border(Face::low(1), 1)))),
        ("Region::halo", Box::new(move || made(rt().zeros::<f64, _>(4).slice(..).halo(Face::high(1), 1)))),
        ("Runtime::zeros", Box::new(move || made(rt().zeros::<f64, _>([TOO_MANY, 4])))),
        ("Runtime::zeros_together", Box::new(move || made(rt().zeros_together::<f64, _>([[TOO_MANY, 4]])))),
        ("Runtime::zeros_in", Box::new(move || made(rt().zeros_in::<f64, _>(MemoryKind::DeviceOnly, [TOO_MANY, 4])))),
        ("Runtime::zeros_in", Box::new(move || made(rt().zeros_in::<f64, _>(MemoryKind::Unified, [TOO_MANY, 4])))),
        ("Runtime::data_with", Box::new(move || made(rt().data_with([TOO_MANY, 4], |_| 0.0)))),
        ("IterationSpace::new", Box::new(weights(-1.0))),
        ("IterationSpace::new", Box::new(weights(f64::NAN))),
        (
            "with_neighbours",
            Box::new(move || {
                let _ = IterationSpace::new("z", vec![1.0]).with_neighbours(vec![vec![1]]);
            }),
        ),
        (
            "with_exchange",
            Box::new(move || {
                let _ = IterationSpace::new("z", vec![1.0]).with_exchange(vec![]);
            }),
        ),
        ("Machine::unit", Box::new(move || made(machine().unit(UnitId(1)).clone()))),
        (
            "Machine::space_of",
            Box::new(move || {
                machine().space_of(UnitId(1));
            }),
        ),
        (
            "Machine::spaces_of",
            Box::new(move || {
                machine().spaces_of(UnitId(1)).count();
            }),
        ),
        (
            "Machine::unit_of_device",
            Box::new(move || {
                machine().unit_of_device(DeviceId(0));
            }),
        ),
        (
            "DeviceId::space",
            Box::new(|| {
                DeviceId(u16::MAX).space();
            }),
        ),
        (
            "Block::new",
            Box::new(|| {
                Block::new(&[0..1, 0..1, 0..1, 0..1, 0..1]);
            }),
        ),
        (
            "Program::define",
            Box::new(|| {
                #[allow(unsafe_code)]
                // SAFETY: the text has no kernel, so nothing can run.
                let empty = unsafe { Program::new("empty.cl", "") };
                let _ = (0..33).fold(empty, |program, _| program.define("N", 1));
            }),
        ),
        (
            "Program::header",
            Box::new(|| {
                #[allow(unsafe_code)]
                // SAFETY: the text has no kernel, so nothing can run.
                let empty = unsafe { Program::new("empty.cl", "") };
                let _ = (0..12).fold(empty, |program, _| program.header("h", ""));
            }),
        ),
        #[cfg(feature = "sim")]
        (
            "SimulatedMachine::with_noise",
            Box::new(|| {
                let machine: SimulatedMachine =
                    "name = \"m\"\n[units.CPU]\ncount = 2\nbytes_per_s = 1e9\n".parse().unwrap();
                let _ = machine.with_noise(1, f64::NAN);
            }),
        ),
    ]
}

/// Installs a panic hook, once, that records the file of each panic for the panicking thread.
fn keep_files() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            FILE.set(info.location().map_or_else(String::new, |place| place.file().to_owned()));
            before(info);
        }));
    });
}

/// Returns the file that the panic of a call names, or `None` if the call does not panic.
fn file_of(call: impl FnOnce()) -> Option<String> {
    catch_unwind(AssertUnwindSafe(call)).is_err().then(|| FILE.take())
}

#[test]
fn panic_of_a_public_method_names_the_callers_file() {
    keep_files();
    let files: Vec<_> = calls().into_iter().map(|(name, call)| (name, file_of(call))).collect();
    let elsewhere: Vec<_> = files.iter().filter(|(_, file)| file.as_deref() != Some(file!())).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
}

#[test]
fn panic_of_a_method_called_in_a_body_names_the_bodys_file() {
    keep_files();
    let rt = crate::common::runtime("1:CPU:1");
    let body = |cx: &thalweg::Context, (sums,): (thalweg::memory::Shared<'_, f64>,)| {
        let here = Some(file!().to_owned());
        assert_eq!(file_of(|| made(cx.zeros::<f64, _>([usize::MAX / 2, 4]))), here);
        assert_eq!(file_of(|| sums.store(4, 1.0)), here);
        assert_eq!(file_of(|| made(sums.load(4))), here);
        assert_eq!(file_of(|| sums.update(4, |sum| sum + 1.0)), here);
        let left = cx.clone();
        LEFT.lock().unwrap().push(left);
    };
    let sums = rt.zeros::<f64, _>(4);
    rt.task("panics", (sums.concurrent(),)).cpu(body).submit().unwrap();
    rt.wait().unwrap();
    drop((sums, rt));
    let left = LEFT.lock().unwrap().pop().unwrap();
    assert_eq!(file_of(|| made(left.data(vec![0.0]))).as_deref(), Some(file!()));
    assert_eq!(file_of(|| made(left.token())).as_deref(), Some(file!()));
}

/// Contexts that outlive their bodies.
static LEFT: Mutex<Vec<thalweg::Context>> = Mutex::new(Vec::new());
