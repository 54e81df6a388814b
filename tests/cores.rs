//! What the threads of units are given: cores to be bound to, from the environment or the program, and stacks.

mod common;

use common::{builder, watched};
use thalweg::Context;
use thalweg::prelude::*;

#[test]
fn bodies_have_the_stack_that_was_asked_for() {
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
fn stack_that_is_too_small_is_refused_and_the_smallest_one_works() {
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
fn places_come_from_the_environment() {
    const INSIDE: &str = "THALWEG_TEST_PLACES";
    if std::env::var_os(INSIDE).is_none() {
        // The environment is the process's: another one has another.
        for places in ["{1},{0}", "threads", "{0}", "{0;1}"] {
            let program = std::env::current_exe().unwrap();
            let mut child = std::process::Command::new(program);
            child.args(["--exact", "places_come_from_the_environment", "--nocapture"]);
            let output = child.env(INSIDE, places).env("OMP_PLACES", places).output().unwrap();
            assert!(output.status.success(), "{places}: {}", String::from_utf8_lossy(&output.stdout));
        }
        return;
    }
    let rt = builder("2:CPU:1", false).build().unwrap();
    let cores: Vec<_> = rt.machine().units().iter().map(|unit| unit.hosting_core()).collect();
    let warnings: Vec<_> = rt.warnings().iter().map(ToString::to_string).collect();
    let ignored =
        warnings.iter().any(|warning| warning.starts_with("the environment variable OMP_PLACES is ignored: "));
    match &*std::env::var(INSIDE).unwrap() {
        "{1},{0}" => assert!(cores == [1, 0] && !ignored, "{cores:?} {warnings:?}"),
        _ => assert!(ignored, "{warnings:?}"),
    }
    drop(rt);
    let rt = builder("1:CPU:1", false).places("{0}").build().unwrap();
    assert!(rt.machine().units()[0].cores == [0] && rt.warnings().is_empty(), "{:?}", rt.warnings());
    let rt = builder("1:CPU:1", false).pin(false).build().unwrap();
    assert!(rt.warnings().is_empty(), "{:?}", rt.warnings());
    // All cores but one are free, and the next runtime that pins gets one of those.
    let second = builder("1:CPU:1", false).build().unwrap();
    if thalweg::machine::Topology::detect().cores().len() > 1 && !std::env::var(INSIDE).unwrap().starts_with("{0}") {
        assert!(
            second.warnings().iter().all(|warning| !matches!(warning, thalweg::machine::Warning::CoresTaken { .. }))
        );
    }
}

#[test]
fn two_runtimes_that_share_cores_say_so() {
    watched("cores", || {
        let all = thalweg::machine::Topology::detect().cores().len();
        let first = builder(&format!("{all}:CPU:1"), false).build().unwrap();
        let second = builder("1:CPU:1", false).build().unwrap();
        let shared = |rt: &Runtime| {
            rt.warnings().iter().any(|warning| matches!(warning, thalweg::machine::Warning::CoresTaken { .. }))
        };
        assert!(shared(&second), "the first has all: {:?}", second.warnings());
        let unpinned = builder("1:CPU:1", false).pin(false).build().unwrap();
        assert!(!shared(&unpinned));
        drop(first);
    });
}
