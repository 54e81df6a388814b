//! Resources of the units' threads: the cores that the environment or the program binds them to, and their stacks.

mod common;

use common::{again, builder, watched};
use thalweg::Context;
use thalweg::machine::{Topology, Warning};
use thalweg::prelude::*;

#[test]
fn body_has_the_requested_stack_size() {
    for units in ["1:CPU:1", "1:CPU:2", "1:EMU:1"] {
        watched(units, move || {
            let deep = |bytes: Option<usize>| {
                let builder = builder(units, false);
                let rt = if let Some(bytes) = bytes { builder.stack_bytes(bytes) } else { builder }.build().unwrap();
                let body = move |_: &Context, ()| match bytes {
                    Some(_) => assert_eq!(std::hint::black_box(&[1u8; 24 << 20])[7], 1),
                    None => assert_eq!(std::hint::black_box(&[1u8; 3 << 20])[7], 1),
                };
                rt.task("deep", ()).cpu(body).submit().unwrap();
                rt.wait().unwrap();
            };
            deep(None);
            deep(Some(32 << 20));
        });
    }
}

#[test]
fn stack_below_64_kib_is_refused_and_64_kib_works() {
    for bytes in [0, 1, 4096, 16 << 10, (64 << 10) - 1] {
        let error = builder("1:CPU:1", false).stack_bytes(bytes).build().unwrap_err();
        assert!(error.to_string().starts_with("stack_bytes: ") && error.to_string().contains("64 KiB"), "{error}");
    }
    for (units, hosts) in [("1:CPU:1", false), ("1:CPU:1", true), ("1:CPU:2", false), ("1:CPU:1,1:EMU:1", true)] {
        watched(units, move || {
            let rt = builder(units, hosts).stack_bytes(64 << 10).build().unwrap();
            let x = rt.data(vec![0u64; 8]);
            for _ in 0..20 {
                let inner = x.clone();
                let parent = move |at: &Context, ((),): ((),)| {
                    at.task("child", (inner.inout(),)).host(|_, (x,)| x[0] += 1).submit()?;
                    at.wait()
                };
                rt.task("parent", (x.weak_inout(),)).host(parent).submit().unwrap();
            }
            rt.task("panics", ()).host(|_, ()| panic!("on purpose")).submit().unwrap();
            assert_eq!(rt.take(x).unwrap()[0], 20);
            rt.wait().unwrap_err();
        });
    }
}

#[test]
fn omp_places_binds_units_unless_the_program_sets_places() {
    const INSIDE: &str = "THALWEG_TEST_PLACES";
    if std::env::var_os(INSIDE).is_none() {
        // Environment variables are per process, so each setting is tested in its own process.
        for places in ["{1},{0}", "threads", "{0}", "{0;1}", "cores(0)", "threads(1)"] {
            again("omp_places_binds_units_unless_the_program_sets_places", &[(INSIDE, places), ("OMP_PLACES", places)]);
        }
        return;
    }
    let rt = builder("2:CPU:1", false).build().unwrap();
    let cores: Vec<_> = rt.machine().units().iter().map(|unit| unit.hosting_core()).collect();
    let warnings: Vec<_> = rt.machine().warnings().iter().map(ToString::to_string).collect();
    let ignored =
        warnings.iter().any(|warning| warning.starts_with("the environment variable OMP_PLACES is ignored: "));
    match &*std::env::var(INSIDE).unwrap() {
        "{1},{0}" => assert!(cores == [1, 0] && !ignored, "{cores:?} {warnings:?}"),
        "threads" => assert!(!ignored, "{warnings:?}"),
        "threads(1)" => {
            assert!(cores == [cores[0]; 2] && !ignored, "{cores:?} {warnings:?}");
            let asked = warnings.iter().any(|warning| warning.contains("asks for 2 cores, but this process may use 1"));
            assert!(asked, "{warnings:?}");
            let rt = Runtime::builder().build().unwrap();
            assert_eq!(rt.machine().num_units(), 1, "one unit per core that is left");
            let rt = Runtime::builder().pin_threads(false).build().unwrap();
            assert_eq!(rt.machine().num_units(), Topology::detect().cores().len());
        }
        _ => assert!(ignored, "{warnings:?}"),
    }
    drop(rt);
    // Other processes may already have claimed these cores.
    let is_shared = |warning: &&Warning| matches!(warning, Warning::CoresTaken { .. });
    let rt = builder("1:CPU:1", false).places("{0}").build().unwrap();
    assert!(
        rt.machine().units()[0].cores == [0] && rt.machine().warnings().iter().all(|it| is_shared(&it)),
        "{:?}",
        rt.machine().warnings()
    );
    let rt = builder("1:CPU:1", false).pin_threads(false).build().unwrap();
    assert!(rt.machine().warnings().is_empty(), "{:?}", rt.machine().warnings());
}

/// Returns the number of cores that a body may use on its own thread, on a thread that it starts, and on a rayon
/// thread.
fn seen_by_body(rt: &Runtime) -> [usize; 3] {
    let seen = rt.zeros::<u64, _>(3);
    let cores = || std::thread::available_parallelism().unwrap().get() as u64;
    rt.task("look", (seen.output(),))
        .cpu(move |_, (seen,)| {
            let started = std::thread::scope(|scope| scope.spawn(cores).join().unwrap());
            let all = rayon::broadcast(|_| cores());
            seen.copy_from_slice(&[cores(), started, all.into_iter().min().unwrap()]);
        })
        .submit()
        .unwrap();
    let seen = rt.take(seen).unwrap();
    [0, 1, 2].map(|n| seen[n] as usize)
}

/// Regression test: a body of a unit of several cores could only start threads on one core, because its own thread was
/// bound to this core.
#[test]
fn body_and_its_threads_may_use_all_cores_of_the_unit() {
    let allowed = Topology::detect().cores().len();
    for hosts in [false, true] {
        watched("cores of a unit", move || {
            let bound = |units: &str| builder(units, hosts).pin_threads(true).build().unwrap();
            if !hosts {
                assert_eq!(seen_by_body(&bound("1:CPU:1")), [1, 1, 1]);
            }
            if allowed > 1 {
                assert_eq!(seen_by_body(&bound("1:CPU:2")), [2, 2, 2], "hosts={hosts}");
            }
            let unbound = builder("1:CPU:1", hosts).pin_threads(false).build().unwrap();
            assert_eq!(seen_by_body(&unbound)[0], allowed);
        });
    }
}

/// Runs a test of this file in a separate process with these environment variables. Returns the process's standard
/// error output.
fn in_process(test: &str, variables: &[(&str, &str)]) -> String {
    again(test, &[&[(ALONE, "1")], variables].concat())
}

/// Environment variable that is set in a process that a test starts.
const ALONE: &str = "THALWEG_TEST_ALONE";

#[test]
fn threads_are_bound_if_units_fill_the_cores_or_on_request() {
    let allowed = Topology::detect().cores().len();
    if std::env::var_os(ALONE).is_none() {
        let this = "threads_are_bound_if_units_fill_the_cores_or_on_request";
        for (expected, variables) in [
            ("default", &[][..]),
            ("bound", &[("OMP_PROC_BIND", "close,master")]),
            ("bound", &[("OMP_PLACES", "threads")]),
            ("unbound", &[("OMP_PROC_BIND", "false"), ("OMP_PLACES", "threads")]),
            ("wide", &[("OMP_PLACES", "sockets")]),
            ("refused", &[("OMP_PROC_BIND", "maybe")]),
        ] {
            in_process(this, &[variables, &[("EXPECTED", expected)]].concat());
        }
        return;
    }
    let expected = std::env::var("EXPECTED").unwrap();
    let seen = |builder: thalweg::Builder| seen_by_body(&builder.build().unwrap())[0];
    let unit = || builder("1:CPU:1", false);
    if allowed == 1 {
        return; // with one core, binding makes no difference
    }
    assert_eq!(seen(unit().pin_threads(false)), allowed, "the program overrides the environment");
    assert_eq!(seen(unit().pin_threads(false).places("{0}")), allowed);
    assert_eq!(seen(unit().places("{0}")), 1, "setting places binds threads");
    let refused = |rt: &Runtime| {
        rt.machine().warnings().iter().any(|it| it.to_string().contains("OMP_PROC_BIND is ignored: `maybe`"))
    };
    match &*expected {
        "bound" => assert_eq!(seen(unit()), 1),
        "wide" => {
            let topology = Topology::detect();
            let socket = topology.cores()[0].socket;
            let width = topology.cores().iter().filter(|core| core.socket == socket).count();
            assert_eq!(seen(unit()), if socket.is_some() { width } else { 1 });
        }
        expected => {
            assert_eq!(seen(unit()), allowed, "a unit that leaves cores to others is not bound");
            let all = builder(&format!("{allowed}:CPU:1"), false).build().unwrap();
            let shared =
                all.machine().warnings().iter().any(|it| matches!(it, Warning::CoresTaken { bound: false, .. }));
            let bound = expected != "unbound" && !shared;
            assert_eq!(seen_by_body(&all)[0], if bound { 1 } else { allowed }, "{expected}");
            assert_eq!(refused(&all), expected == "refused", "{:?}", all.machine().warnings());
        }
    }
}

/// Regression test: the runtimes of two processes could be bound to the same cores without either of them warning about
/// it.
#[cfg(target_os = "linux")]
#[test]
fn processes_bound_to_the_same_cores_warn() {
    let allowed = Topology::detect().cores().len();
    let all = || builder(&format!("{allowed}:CPU:1"), false);
    let shared = |rt: &Runtime| {
        let of = |warning: &Warning| match warning {
            Warning::CoresTaken { cores, bound } => Some((cores.len(), *bound)),
            _ => None,
        };
        rt.machine().warnings().iter().find_map(of)
    };
    if std::env::var_os(ALONE).is_some() {
        let second = all().build().unwrap();
        assert_eq!(shared(&second), Some((allowed, false)));
        assert_eq!(seen_by_body(&second)[0], allowed, "the second runtime is not bound");
        assert_eq!(shared(&all().pin_threads(true).build().unwrap()), Some((allowed, true)));
        return;
    }
    let first = all().pin_threads(true).build().unwrap();
    if shared(&first).is_some() {
        println!("skipped: another process has bound its threads to this machine's cores");
        return;
    }
    let said = in_process("processes_bound_to_the_same_cores_warn", &[]);
    let told = said.matches("thalweg: another runtime has bound its threads to cores").count();
    assert_eq!(told, 1, "only the first runtime of the process warns on standard error without a subscriber: {said}");
}

#[test]
fn two_runtimes_bound_to_the_same_cores_warn() {
    watched("cores", || {
        let all = Topology::detect().cores().len();
        let first = builder(&format!("{all}:CPU:1"), false).pin_threads(true).build().unwrap();
        let second = builder("1:CPU:1", false).pin_threads(true).build().unwrap();
        let shared =
            |rt: &Runtime| rt.machine().warnings().iter().any(|warning| matches!(warning, Warning::CoresTaken { .. }));
        assert!(shared(&second), "the first runtime has claimed all cores: {:?}", second.machine().warnings());
        let unpinned = builder("1:CPU:1", false).pin_threads(false).build().unwrap();
        assert!(!shared(&unpinned));
        drop(first);
    });
}
