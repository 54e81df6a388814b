//! Tests of accelerators through the public API. The same programs run on every available interface, including OpenCL
//! on the CPU.

#![allow(unsafe_code)] // each `Program::new` is a promise that the kernels respect their bounds

mod abandoned;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "dynamic")]
mod dynamic_kernels;
mod own_kernels;
mod traces;

use thalweg::kernel::{Kernel, Module, ModuleKernel, Program, Read, Write};
use thalweg::memory::Reducer;
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
// SAFETY: each kernel compares its indices with the sizes that its signature declares, so it stays in bounds.
const PROGRAM: Program = unsafe { Program::new("accelerators.cl", TEXT) };
pub(crate) static AXPY: Kernel<(f64, Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "axpy");
pub(crate) static FILL: Kernel<(Write<f64>, f64, i32)> = Kernel::new(&PROGRAM, "fill");
pub(crate) static SUM: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "sum");
pub(crate) static ADD_BLOCK: Kernel<(Write<f64>, i32, i32, i32, f64)> = Kernel::new(&PROGRAM, "add_block");

const MAXIMA: &str = "
    KERNEL(16, 1, 1) largest(IN(double, x, n), INOUT(double, most, 1), int n)
    {
        REGION(x); REGION(most);
        LOCAL(double, numbers, 16);
        int i = GLOBAL_ID(0);
        double of_group = largest_of_threads(numbers, LOCAL_ID(0), 16, i < n ? x[i] : -1.0 / 0.0);
        if (LOCAL_ID(0) == 0) ATOMIC_MAX(most, of_group);
    }
";
// SAFETY: each kernel compares its indices with the sizes that its signature declares, so it stays in bounds.
const LARGEST_PROGRAM: Program =
    unsafe { Program::new("maxima.cl", MAXIMA) }.header("reduce.h", include_str!("../../kernels/reduce.h"));
static LARGEST: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&LARGEST_PROGRAM, "largest");

pub(crate) fn runtime(units: &str) -> Option<Runtime> {
    Some(common::accelerated(units)?.scheduler("dynamic").build().unwrap())
}

#[test]
fn axpy_chain_on_parts_and_its_sum_match_host() {
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
    assert_eq!(rt.read(&total).unwrap()[0], 7.0 + expected.iter().sum::<f64>());
    assert_eq!(rt.take(y).unwrap(), expected);
}

#[test]
fn overlapping_blocks_alternating_between_cores_and_device_match_host() {
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
fn kernel_that_does_not_compile_fails_its_task_with_the_place_of_the_error() {
    let Some(rt) = runtime("1:OPENCL:1") else { return };
    const TEXT: &str = "// one\nKERNEL(64, 1, 1) broken(OUT(double, y, 1))\n{ REGION(y); y[0] = nonsense; }";
    // SAFETY: the text does not compile, so none of its kernels can run.
    const BROKEN: Program = unsafe { Program::new("broken.cl", TEXT) };
    static KERNEL: Kernel<(Write<f64>,)> = Kernel::new(&BROKEN, "broken");
    let (x, y) = (rt.data(vec![0.0; 10]), rt.data(vec![0.0; 10]));
    rt.task("broken", (x.output(),)).gpu(|k, (mut x,)| k.launch(&KERNEL, 1, (&mut x,))).submit().unwrap();
    rt.task("after", (x.input(), y.inout()))
        .gpu(|k, (x, mut y)| k.launch(&AXPY, 10, (1.0, &x, &mut y, 10)))
        .submit()
        .unwrap();
    let error = rt.wait().unwrap_err().to_string();
    // NVRTC puts the line number in parentheses; the other compilers put it after a colon.
    let has_place = error.contains("broken.cl:3") || error.contains("broken.cl(3)");
    assert!(has_place && error.contains("nonsense"), "{error}");
    assert!(rt.read(&y.all()).is_err());
    rt.task("heal", (x.output(),)).gpu(|k, (mut x,)| k.launch(&FILL, 10, (&mut x, 2.0, 10))).submit().unwrap();
    assert_eq!(rt.take(x).unwrap(), [2.0; 10]);
}

#[test]
fn cpu_task_without_a_cpu_unit_runs_on_a_hosting_thread() {
    let Some(rt) = runtime("1:OPENCL:1") else { return };
    let x = rt.data(vec![1.0; 10]);
    rt.task("core", (x.inout(),)).cpu(|_, (x,)| x[3] = 5.0).submit().unwrap();
    rt.task("device", (x.inout(),)).gpu(|k, (mut x,)| k.launch(&FILL, 2, (&mut x, 9.0, 2))).submit().unwrap();
    rt.task("core", (x.inout(),)).cpu(|_, (x,)| x[0] += x[3]).submit().unwrap();
    assert_eq!(rt.take(x).unwrap()[..4], [14.0, 9.0, 1.0, 5.0]);
}

/// A program may decide at run time whether to add a body for accelerators, because the builder keeps its type.
#[test]
fn body_for_accelerators_can_be_added_at_run_time() {
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
fn device_body_takes_lists_of_regions() {
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
    assert_eq!(rt.read(&total).unwrap()[0], 3.0 * 4950.0);
}

/// Regression test: kernels on a CPU write to this process's memory, so a write outside a buffer used to corrupt the
/// heap.
#[cfg(debug_assertions)]
#[test]
fn kernel_that_writes_outside_of_its_buffer_fails_its_task() {
    const TEXT: &str = "
        KERNEL(16, 1, 1) shifted(INOUT(double, y, n), int n, int by)
        {
            REGION(y);
            int i = GLOBAL_ID(0);
            if (i < n) y[i + by] = i;
        }
    ";
    // SAFETY: this test breaks the promise on purpose. The elements that the kernel writes next to the buffer are in
    // the buffer's guard zones, so no other memory is touched.
    const PROGRAM: Program = unsafe { Program::new("shifted.cl", TEXT) };
    static SHIFTED: Kernel<(Write<f64>, i32, i32)> = Kernel::new(&PROGRAM, "shifted");
    let interfaces = thalweg::devices::interfaces();
    let mut devices = interfaces.iter().filter(|one| one.name == "OpenCL").flat_map(|one| &one.devices);
    if !devices.all(|device| device.name.ends_with("(CPU)")) {
        return; // any other device would write to its own memory
    }
    for units in ["1:OPENCL:1", "1:CPU:1,1:OPENCL:1"] {
        let Some(rt) = opencl(units) else { return };
        let x = rt.data(vec![0.0; 100]).named("x");
        for (by, what) in [(1, "8 bytes after"), (-1, "8 bytes before"), (3, "24 bytes after"), (0, "")] {
            let task = rt.task("shifts", x.inout()).gpu(move |k, mut x| k.launch(&SHIFTED, 100, (&mut x, 100, by)));
            task.submit().unwrap();
            if by == 0 {
                rt.wait().unwrap();
                continue;
            }
            let Err(RunError::Failed(failures)) = rt.wait() else { panic!("`shifts` by {by} has not failed") };
            let said = failures[0].to_string();
            assert_eq!(failures[0].name(), "shifts");
            assert!(said.contains("`x`") && said.contains(what), "{said}");
            assert!(rt.read(&x).is_err(), "the output of a failed task must not be readable");
            rt.clear(&x).unwrap();
        }
        assert_eq!(rt.take(x).unwrap(), (0..100).map(f64::from).collect::<Vec<_>>(), "{units}");
    }
}

/// A task on a device releases its successors as soon as it is issued, but a wait for the task returns only after it
/// has ended.
#[test]
fn wait_for_a_device_task_returns_after_its_end() {
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
        tasks[2].wait().unwrap();
        assert!(tasks[..3].iter().all(TaskHandle::is_finished));
        tasks[4].wait().unwrap();
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
    assert!(skipped.wait().unwrap_err().to_string().contains("`fails`"));
    assert!(fails.wait().is_err());
}

/// Returns a runtime on OpenCL. These tests cover only OpenCL; `tests/standin/raw.rs` covers the other interfaces.
pub(crate) fn opencl(units: &str) -> Option<Runtime> {
    let is_opencl = std::env::var_os("THALWEG_TEST_UNITS").is_none_or(|kind| kind == "OPENCL");
    if is_opencl { runtime(units) } else { None }
}

/// OpenCL devices may lack 64-bit atomics. Kernels that do not use them must still run there.
#[test]
fn missing_64_bit_atomics_matter_only_to_kernels_that_use_them() {
    const DIALECT: &str = concat!("#undef cl_khr_int64_base_atomics\n", include_str!("../../kernels/dialect.h"));
    let Some(rt) = opencl("1:OPENCL:1") else { return };
    let y = rt.data(vec![1.0; 10]);
    for (value, expected) in [("y[0] = 7;", None), ("ATOMIC_ADD(y, 7);", Some("cl_khr_int64_base_atomics"))] {
        let text = format!("{DIALECT} KERNEL(1, 1, 1) f(INOUT(double, y, 1)) {{ REGION(y); {value} }}");
        let module = Module::new("atomics").opencl(text.leak());
        let kernel: &'static _ = Box::leak(Box::new(ModuleKernel::<(Write<f64>,)>::unchecked(&module, "f", [1, 1, 1])));
        rt.task("f", (y.inout(),))
            // SAFETY: the kernel only touches the first element, which exists.
            .gpu(move |k, (mut y,)| unsafe { k.launch_module(kernel, 1, (&mut y,)) })
            .submit()
            .unwrap();
        match expected {
            None => rt.wait().unwrap(),
            Some(words) => assert!(rt.wait().unwrap_err().to_string().contains(words)),
        }
    }
}

#[test]
fn kernel_maximum_ranks_nan_and_signed_zeros_as_cores_do() {
    let Some(rt) = runtime("1:CPU:1,1:OPENCL:1") else { return };
    let with =
        |at: usize, value: f64| (0..100).map(|i| if i == at { value } else { -f64::from(i as u8) - 1.0 }).collect();
    let zeros = |sign_of: fn(usize) -> f64| (0..100).map(sign_of).collect();
    let cases: [(Vec<f64>, f64); 6] = [
        (with(3, f64::NAN), f64::NEG_INFINITY),
        (with(99, f64::NAN), f64::INFINITY),
        (with(40, 7.0), f64::NAN),
        (with(40, 7.0), -8.0),
        (zeros(|i| if i == 50 { 0.0 } else { -0.0 }), -0.0),
        (zeros(|_| -0.0), 0.0),
    ];
    for (values, begin) in cases {
        let n = values.len() as i32;
        let maximum = |on_device: bool| {
            let (x, most) = (rt.data(values.clone()), rt.scalar(begin));
            match on_device {
                true => rt
                    .task("largest", (x.input(), most.inout()))
                    .gpu(move |k, (x, mut most)| k.launch(&LARGEST, n as usize, (&x, &mut most, n)))
                    .submit(),
                false => rt
                    .task("largest", (x.input(), most.reduction(Max)))
                    .host(|_, (x, most)| x.iter().for_each(|x| Max.combine(&mut most[0], *x)))
                    .submit(),
            }
            .unwrap();
            rt.read(&most).unwrap()[0]
        };
        let (kernels, cores) = (maximum(true), maximum(false));
        let is_equal = kernels.to_bits() == cores.to_bits() || kernels.is_nan() && cores.is_nan();
        assert!(is_equal, "{kernels} in the kernel, {cores} on cores, from {begin} and {values:?}");
    }
}
