//! Wrong kernels on accelerators: OpenCL here, and the other interfaces in `tests/standin`.

use super::findings;
use thalweg::error::Breach::*;
use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::prelude::*;

const TEXT: &str = "
    KERNEL(64, 1, 1) copy(IN(double, x, n), OUT(double, y, n), int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = x[i];
    }
    KERNEL(64, 1, 1) write_after(OUT(double, y, n), int n)
    {
        REGION(y);
        int i = GLOBAL_ID(0);
        if (i <= n) y[i] = 1.0;
    }
    KERNEL(64, 1, 1) write_before(INOUT(double, y, n), int n)
    {
        REGION(y);
        if (GLOBAL_ID(0) == 0) y[-2] = n;
    }
    KERNEL(64, 1, 1) change_input(IN(double, x, n), OUT(double, y, n), int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = x[i];
        if (i == 3) ((GLOBAL double *)x)[i] = 7.0;
    }
    KERNEL(64, 1, 1) forget_last(OUT(double, y, n), int n)
    {
        REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n - 1) y[i] = 1.0;
    }
    KERNEL(64, 1, 1) read_after(IN(double, x, n), OUT(double, y, n), int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = x[i] + x[i + 1];
    }
";
// SAFETY: all kernels but the first break this promise on purpose, by less than a guard zone.
const PROGRAM: Program = unsafe { Program::new("sanitizer.cl", TEXT) };
static COPY: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "copy");
static WRITE_AFTER: Kernel<(Write<f64>, i32)> = Kernel::new(&PROGRAM, "write_after");
static WRITE_BEFORE: Kernel<(Write<f64>, i32)> = Kernel::new(&PROGRAM, "write_before");
static CHANGE_INPUT: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "change_input");
static FORGET_LAST: Kernel<(Write<f64>, i32)> = Kernel::new(&PROGRAM, "forget_last");
static READ_AFTER: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "read_after");

fn accelerator() -> Option<Runtime> {
    Some(super::common::accelerated("1:OPENCL:1")?.sanitize(true).build().unwrap())
}

/// Submits a task that copies elements by a kernel.
fn copy(rt: &Runtime, kernel: &'static Kernel<(Read<f64>, Write<f64>, i32)>, name: &'static str) -> Data<f64> {
    let (x, y) = (rt.data((0..100).map(f64::from).collect::<Vec<_>>()), rt.data(vec![0.0; 100]));
    let accesses = (x.slice(10..20).input(), y.slice(30..40).output());
    rt.task(name, accesses).gpu(move |k, (x, mut y)| k.launch(kernel, 64, (&x, &mut y, 10))).submit().unwrap();
    y
}

/// Submits a task that changes elements by a kernel.
fn change(rt: &Runtime, kernel: &'static Kernel<(Write<f64>, i32)>, is_output: bool) {
    let y = rt.data(vec![0.0; 100]);
    let body = move |k: &mut thalweg::kernel::Launcher<'_>, mut y: thalweg::kernel::DeviceViewMut<'_, f64>| {
        k.launch(kernel, 64, (&mut y, 10))
    };
    match is_output {
        true => rt.task("wrong", y.slice(30..40).output()).gpu(body).submit().unwrap(),
        false => rt.task("wrong", y.slice(30..40).inout()).gpu(body).submit().unwrap(),
    };
}

#[test]
fn correct_kernels_run_as_ever() {
    let Some(rt) = accelerator() else { return };
    for _ in 0..20 {
        let y = copy(&rt, &COPY, "right");
        rt.task("next", y.inout()).cpu(|_, y| y.iter_mut().for_each(|y| *y += 1.0)).submit().unwrap();
        let found = rt.take(y).unwrap();
        assert!(found.iter().enumerate().all(|(n, y)| *y == if (30..40).contains(&n) { n as f64 - 19.0 } else { 1.0 }));
    }
}

#[test]
fn wrong_kernels_are_found() {
    let Some(rt) = accelerator() else { return };
    change(&rt, &WRITE_AFTER, true);
    assert_eq!(findings(&rt), [(0, WroteOutside, "0 bytes after its last element".to_owned(), 8)]);
    change(&rt, &WRITE_BEFORE, false);
    assert_eq!(findings(&rt), [(0, WroteOutside, "16 bytes before its first element".to_owned(), 8)]);
    change(&rt, &FORGET_LAST, true);
    assert_eq!(findings(&rt), [(0, LeftUnwritten, "[39]".to_owned(), 1)]);
    let _ = copy(&rt, &CHANGE_INPUT, "wrong");
    assert_eq!(findings(&rt), [(0, ChangedInput, "[13]".to_owned(), 1)]);
    let _ = copy(&rt, &READ_AFTER, "wrong");
    assert_eq!(findings(&rt), [(1, ReadOutside, "[39]".to_owned(), 1)]);
    let y = copy(&rt, &COPY, "right");
    assert_eq!(rt.read(&y.slice(30..32)).unwrap(), [10.0, 11.0]);
}
