//! Accelerators by the public API: the same programs on every interface that is there. OpenCL on the CPU is one.

#![allow(unsafe_code)] // texts of kernels are vouched for

mod common;

use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::prelude::*;

const TEXT: &str = "
    KERNEL(64, 1, 1) axpy(double a, IN(double, x, n), INOUT(double, y, n), int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] += a * x[i];
    }
    KERNEL(64, 1, 1) fill(OUT(double, y, n), double value, int n)
    {
        REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = value;
    }
    KERNEL(64, 1, 1) sum(IN(double, x, n), INOUT(double, total, 1), int n)
    {
        REGION(x); REGION(total);
        int i = GLOBAL_ID(0);
        if (i < n) ATOMIC_ADD(total, x[i]);
    }
    KERNEL(8, 8, 1) add_block(INOUT(double, y, [rows : stride][columns]), int rows, int columns, int stride, double value)
    {
        REGION(y);
        int i = GLOBAL_ID(0), j = GLOBAL_ID(1);
        if (i < columns && j < rows) y[j * stride + i] += value;
    }
";
// SAFETY: indices are compared with the numbers that the heads name.
const PROGRAM: Program = unsafe { Program::new("accelerators.cl", TEXT) };
static AXPY: Kernel<(f64, Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "axpy");
static FILL: Kernel<(Write<f64>, f64, i32)> = Kernel::new(&PROGRAM, "fill");
static SUM: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "sum");
static ADD_BLOCK: Kernel<(Write<f64>, i32, i32, i32, f64)> = Kernel::new(&PROGRAM, "add_block");

fn runtime(units: &str) -> Option<Runtime> {
    Some(common::accelerated(units)?.scheduler("dynamic").build().unwrap())
}

#[test]
fn a_chain_on_parts_of_an_array() {
    let Some(rt) = runtime("1:OPENCL:1") else { return };
    let n = 1000;
    let (x, y) = (rt.data((0..n).map(f64::from).collect::<Vec<_>>()), rt.data(vec![1.0; n as usize]));
    for _ in 0..50 {
        for part in blocks(n as usize, 300) {
            rt.task("axpy", (x.slice(part.clone()).input(), y.slice(part).inout()))
                .gpu(|k, (x, mut y)| k.launch(&AXPY, x.len(), (0.5, &x, &mut y, x.len() as i32)))
                .submit()
                .unwrap();
        }
    }
    let total = rt.scalar(7.0);
    rt.task("sum", (y.input(), total.reduction(Sum)))
        .gpu(|k, (y, mut total)| k.launch(&SUM, y.len(), (&y, &mut total, y.len() as i32)))
        .submit()
        .unwrap();
    let expected: Vec<f64> = (0..n).map(|i| 1.0 + 25.0 * f64::from(i)).collect();
    assert_eq!(rt.read_scalar(&total).unwrap(), 7.0 + expected.iter().sum::<f64>());
    assert_eq!(rt.take(y).unwrap(), expected);
}

#[test]
fn cores_and_an_accelerator_by_turns() {
    let Some(rt) = runtime("1:CPU:1,1:OPENCL:1") else { return };
    let a = rt.array(ndarray::Array2::<f64>::zeros((40, 50)));
    let mut expected = ndarray::Array2::<f64>::zeros((40, 50));
    for step in 0..30usize {
        let (r, c) = (step % 7..20 + step % 13, step % 5..30 + step % 17);
        expected.slice_mut(ndarray::s![r.clone(), c.clone()]).mapv_inplace(|v| v + step as f64);
        let task = rt.task("add", (a.block((r, c)).inout(),));
        if step % 3 == 0 {
            task.cpu(move |_, (mut a,)| a.mapv_inplace(|v| v + step as f64)).submit().unwrap();
        } else {
            task.gpu(move |k, (mut a,)| {
                let ([rows, columns, ..], [stride, ..]) = (a.extents(), a.strides());
                let arguments = (rows as i32, columns as i32, stride as i32, step as f64);
                let (r, c, s, v) = arguments;
                k.launch(&ADD_BLOCK, [columns, rows], (&mut a, r, c, s, v))
            })
            .submit()
            .unwrap();
        }
    }
    assert_eq!(rt.take(a).unwrap(), expected);
}

#[test]
fn a_kernel_that_does_not_compile() {
    let Some(rt) = runtime("1:OPENCL:1") else { return };
    const TEXT: &str = "// one\nKERNEL(64, 1, 1) broken(OUT(double, y, 1))\n{ REGION(y); y[0] = nonsense; }";
    // SAFETY: it does not compile.
    const BROKEN: Program = unsafe { Program::new("broken.cl", TEXT) };
    static KERNEL: Kernel<(Write<f64>,)> = Kernel::new(&BROKEN, "broken");
    let (x, y) = (rt.data(vec![0.0; 10]), rt.data(vec![0.0; 10]));
    rt.task("broken", (x.output(),)).gpu(|k, (mut x,)| k.launch(&KERNEL, 1, (&mut x,))).submit().unwrap();
    rt.task("after", (x.input(), y.inout()))
        .gpu(|k, (x, mut y)| k.launch(&AXPY, 10, (1.0, &x, &mut y, 10)))
        .submit()
        .unwrap();
    let error = rt.wait().unwrap_err().to_string();
    // NVRTC has lines in brackets, the others behind a colon.
    let has_place = error.contains("broken.cl:3") || error.contains("broken.cl(3)");
    assert!(has_place && error.contains("nonsense"), "{error}");
    assert!(rt.read(&y.all()).is_err());
    rt.task("heal", (x.output(),)).gpu(|k, (mut x,)| k.launch(&FILL, 10, (&mut x, 2.0, 10))).submit().unwrap();
    assert_eq!(rt.take(x).unwrap(), [2.0; 10]);
}

#[test]
fn a_task_for_cores_runs_on_a_hosting_thread_if_there_is_no_other() {
    let Some(rt) = runtime("1:OPENCL:1") else { return };
    let x = rt.data(vec![1.0; 10]);
    rt.task("core", (x.inout(),)).cpu(|_, (x,)| x[3] = 5.0).submit().unwrap();
    rt.task("device", (x.inout(),)).gpu(|k, (mut x,)| k.launch(&FILL, 2, (&mut x, 9.0, 2))).submit().unwrap();
    rt.task("core", (x.inout(),)).cpu(|_, (x,)| x[0] += x[3]).submit().unwrap();
    assert_eq!(rt.take(x).unwrap()[..4], [14.0, 9.0, 1.0, 5.0]);
}

/// Whether there is a body for accelerators may be decided as the program runs: the variable's type stays.
#[test]
fn a_body_for_accelerators_can_be_added_or_not() {
    let Some(rt) = runtime("1:OPENCL:1") else { return };
    let x = rt.data(vec![1.0; 100]);
    for (on_device, expected) in [(true, 2.0), (false, 7.0), (true, 2.0)] {
        let mut task = rt.task("fill or add", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 5.0));
        if on_device {
            task = task.gpu(|k, (mut x,)| {
                let n = x.len();
                k.launch(&FILL, n, (&mut x, 2.0, n as i32))
            });
        }
        task.submit().unwrap();
        assert_eq!(rt.read(&x).unwrap(), [expected; 100]);
    }
}

#[test]
fn lists_of_regions_on_a_device() {
    let Some(rt) = runtime("1:OPENCL:1") else { return };
    let x = rt.data((0..100).map(f64::from).collect::<Vec<_>>());
    let y: Vec<_> = (0..20).map(|i| rt.data(vec![f64::from(i); 5])).collect();
    let total = rt.scalar(0.0);
    for _ in 0..3 {
        let parts: Vec<_> = blocks(100, 5).map(|part| x.slice(part).input()).collect();
        let outputs: Vec<_> = y.iter().map(|y| y.inout()).collect();
        rt.task("axpys", ((parts, outputs), total.reduction(Sum), Vec::<thalweg::task::Input<'_, f64>>::new()))
            .gpu(|k, ((parts, outputs), mut total, none)| {
                assert_eq!((parts.len(), none.len()), (20, 0));
                for (x, mut y) in parts.iter().zip(outputs) {
                    k.launch(&AXPY, 5, (2.0, x, &mut y, 5))?;
                    k.launch(&SUM, 5, (x, &mut total, 5))?;
                }
                Ok::<(), DeviceError>(())
            })
            .submit()
            .unwrap();
    }
    for (i, y) in y.iter().enumerate() {
        let expected: Vec<_> = (0..5).map(|k| i as f64 + 6.0 * (5 * i + k) as f64).collect();
        assert_eq!(rt.read(y).unwrap(), expected);
    }
    assert_eq!(rt.read_scalar(&total).unwrap(), 3.0 * 4950.0);
}

/// Tasks on a device let go of their successors when they are issued; who waits for one waits for its end all the same.
#[test]
fn a_task_on_a_device_has_ended_when_it_is_waited_for() {
    let Some(rt) = runtime("1:CPU:1,1:OPENCL:1") else { return };
    let x = rt.data(vec![0.0; 1000]);
    let add = || {
        rt.task("add", (x.inout(),))
            .gpu(|k, (mut x,)| k.launch(&ADD_BLOCK, [1000, 1], (&mut x, 1, 1000, 1000, 1.0)))
            .submit_handle()
            .unwrap()
    };
    for _ in 0..20 {
        let tasks: Vec<_> = (0..5).map(|_| add()).collect();
        rt.wait_for(&tasks[2]).unwrap();
        assert!(tasks[..3].iter().all(TaskHandle::is_finished));
        rt.wait_for(&tasks[4]).unwrap();
    }
    assert_eq!(rt.take(x).unwrap(), [100.0; 1000]);
    let y = rt.data(vec![0.0; 10]);
    let fails = rt
        .task("fails", (y.inout(),))
        .gpu(|k, (mut y,)| {
            k.launch(&FILL, 10, (&mut y, 2.0, 10))?;
            Err::<(), Box<dyn std::error::Error + Send + Sync>>("no".into())
        })
        .submit_handle()
        .unwrap();
    let skipped = rt.task("skipped", (y.inout(),)).cpu(|_, _| ()).submit_handle().unwrap();
    assert!(rt.wait_for(&skipped).unwrap_err().to_string().contains("`fails`"));
    assert!(rt.wait_for(&fails).is_err());
}
