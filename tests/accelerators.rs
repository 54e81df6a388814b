//! Tests of accelerators through the public API. The same programs run on every available interface, including OpenCL
//! on the CPU.

#![allow(unsafe_code)] // each `Program::new` is a promise that the kernels respect their bounds

mod common;

use std::convert::Infallible;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::kernel::{
    CType, DeviceView, DeviceViewMut, Kernel, Module, ModuleKernel, OpenCl, OpenClRegion, Plain, Program, RawTask,
    Read, Write,
};
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
static AXPY: Kernel<(f64, Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "axpy");
static FILL: Kernel<(Write<f64>, f64, i32)> = Kernel::new(&PROGRAM, "fill");
static SUM: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "sum");
static ADD_BLOCK: Kernel<(Write<f64>, i32, i32, i32, f64)> = Kernel::new(&PROGRAM, "add_block");

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
    unsafe { Program::new("maxima.cl", MAXIMA) }.header("reduce.h", include_str!("../kernels/reduce.h"));
static LARGEST: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&LARGEST_PROGRAM, "largest");

fn runtime(units: &str) -> Option<Runtime> {
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
fn opencl(units: &str) -> Option<Runtime> {
    let is_opencl = std::env::var_os("THALWEG_TEST_UNITS").is_none_or(|kind| kind == "OPENCL");
    if is_opencl { runtime(units) } else { None }
}

/// Enqueues a copy by calling OpenCL directly. Returns OpenCL's error code if the call is rejected.
fn enqueue_copy(queue: *mut c_void, from: OpenClRegion, to: OpenClRegion, bytes: usize) -> Result<(), i32> {
    let (at, to_at) = (from.first_byte, to.first_byte);
    // SAFETY: both regions belong to the task and have at least `bytes` bytes, so the copy is in bounds; nothing else
    // uses the event.
    unsafe {
        let done = cl3::command_queue::enqueue_copy_buffer(
            queue,
            from.buffer,
            to.buffer,
            at,
            to_at,
            bytes,
            0,
            std::ptr::null(),
        )?;
        cl3::event::release_event(done)
    }
}

#[test]
fn opencl_bodies_are_ordered_with_kernels_of_the_dialect() {
    for units in ["1:OPENCL:1", "1:CPU:1,1:OPENCL:1"] {
        let Some(rt) = opencl(units) else { return };
        let dropped = Arc::new(AtomicUsize::new(0));
        struct Handle(usize, Arc<AtomicUsize>);
        impl Drop for Handle {
            fn drop(&mut self) {
                self.1.fetch_add(1, Ordering::SeqCst);
            }
        }
        let made = Arc::new(AtomicUsize::new(0));
        let (x, y) = (rt.data(vec![0.0; 1000]), rt.data(vec![-1.0; 1000]));
        for (n, part) in blocks(900, 100).enumerate() {
            let (value, to) = (n as f64, part.start + 50..part.end + 50);
            rt.task("fill", (x.slice(part.clone()).output(),))
                .gpu(move |k, (mut x,)| k.launch(&FILL, 100, (&mut x, value, 100)))
                .submit()
                .unwrap();
            let (made, dropped) = (made.clone(), dropped.clone());
            rt.task("copy", (x.slice(part).input(), y.slice(to.clone()).output()))
                .opencl(move |cx, (x, mut y)| {
                    let (from, to, queue) = (cx.region(&x), cx.region_mut(&mut y), cx.queue());
                    let handle = cx.keep(|queue| {
                        made.fetch_add(1, Ordering::SeqCst);
                        Ok::<_, Infallible>(Handle(queue.addr(), dropped))
                    });
                    assert_eq!(handle.unwrap().0, queue.addr());
                    let bytes = x.len() * 8;
                    enqueue_copy(queue, from, to, bytes).map_err(|code| format!("error {code}"))
                })
                .submit()
                .unwrap();
            rt.task("add", (y.slice(to).inout(),))
                .gpu(|k, (mut y,)| k.launch(&ADD_BLOCK, [100, 1], (&mut y, 1, 100, 100, 0.5)))
                .submit()
                .unwrap();
        }
        let mut expected = vec![-1.0; 1000];
        (50..950).for_each(|i| expected[i] = ((i - 50) / 100) as f64 + 0.5);
        assert_eq!(rt.take(y).unwrap(), expected);
        drop((x, rt));
        assert_eq!(dropped.load(Ordering::SeqCst), made.load(Ordering::SeqCst));
    }
}

#[test]
fn opencl_bodies_work_in_loops_and_recordings() {
    for units in ["1:OPENCL:1", "1:CPU:1,1:OPENCL:1"] {
        let Some(rt) = opencl(units) else { return };
        let copied = |cx: &mut RawTask<'_, OpenCl>, x: &DeviceView<'_, f64>, y: &mut DeviceViewMut<'_, f64>| {
            let (from, to, bytes) = (cx.region(x), cx.region_mut(y), x.len() * 8);
            enqueue_copy(cx.queue(), from, to, bytes).map_err(|code| format!("error {code}"))
        };
        let (x, y, z) = (rt.data(vec![1.0; 400]), rt.zeros(400), rt.zeros(400));
        let mut step = rt
            .record(|r| {
                r.for_each("add", (x.blocks(100).inout(),))
                    .gpu(|k, (mut x,)| k.launch(&ADD_BLOCK, [100, 1], (&mut x, 1, 100, 100, 0.5)))
                    .submit()?;
                let tasks = r
                    .for_each("copy parts", (x.blocks(100).input(), y.blocks(100).output()))
                    .opencl(move |cx, (x, mut y)| copied(cx, &x, &mut y))
                    .submit()?;
                assert_eq!(tasks, 4);
                r.task("copy", (y.input(), z.output())).opencl(move |cx, (y, mut z)| copied(cx, &y, &mut z)).submit()
            })
            .unwrap();
        (0..3).for_each(|_| step.replay().unwrap());
        rt.for_each("copy back", (z.blocks(50).input(), y.blocks(50).output()))
            .opencl(move |cx, (z, mut y)| copied(cx, &z, &mut y))
            .submit()
            .unwrap();
        assert_eq!((rt.take(x).unwrap(), rt.take(y).unwrap()), (vec![2.5; 400], vec![2.5; 400]), "{units}");
    }
}

#[test]
fn opencl_body_in_a_scoped_loop_may_borrow() {
    for units in ["1:OPENCL:1", "1:CPU:1,1:OPENCL:1"] {
        let Some(rt) = opencl(units) else { return };
        let (from, mut to, calls) = (vec![2.5; 400], vec![0.0; 400], AtomicUsize::new(0));
        rt.scope(|s| {
            let (x, y) = (s.borrow(&from), s.borrow_mut(&mut to));
            s.for_each("copy", (x.blocks(100).input(), y.blocks(100).output()))
                .opencl(|cx, (x, mut y)| {
                    calls.fetch_add(1, Ordering::SeqCst); // borrowed, not moved
                    let (from, to, bytes) = (cx.region(&x), cx.region_mut(&mut y), x.len() * 8);
                    enqueue_copy(cx.queue(), from, to, bytes).map_err(|code| format!("error {code}"))
                })
                .submit()
        })
        .unwrap()
        .unwrap();
        assert_eq!((calls.into_inner(), to), (4, from), "{units}");
    }
}

#[test]
fn opencl_body_that_fails_or_panics_fails_its_task_alone() {
    let Some(rt) = opencl("1:OPENCL:1") else { return };
    let y = rt.data(vec![0.0; 10]);
    for panics in [false, true] {
        rt.task("fails", (y.inout(),))
            .opencl(move |cx, (mut y,)| {
                let region = cx.region_mut(&mut y);
                let nowhere = OpenClRegion { first_byte: 1 << 40, ..region };
                let refused = enqueue_copy(cx.queue(), region, nowhere, 8).unwrap_err();
                assert!(!panics, "refused with {refused}");
                Err::<(), _>(format!("status {refused}"))
            })
            .submit()
            .unwrap();
        let error = rt.wait().unwrap_err().to_string();
        assert!(error.contains(if panics { "refused with" } else { "status" }), "{error}");
        rt.task("fill", (y.output(),)).gpu(|k, (mut y,)| k.launch(&FILL, 10, (&mut y, 4.0, 10))).submit().unwrap();
        assert_eq!(rt.read(&y).unwrap(), [4.0; 10]);
    }
}

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Line {
    slope: f32,
    offsets: [f32; 3],
}

impl CType for Line {
    const NAMES: &'static [&'static str] = &["line"];
}

/// A sixteen-bit element, the size of the interfaces' half-precision type. The tests only copy such elements.
#[derive(Clone, Copy, PartialEq, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
struct Half(u16);

impl CType for Half {
    const NAMES: &'static [&'static str] = &["half", "__half"];
}

const OWN: &str = "
    typedef struct { float slope, offsets[3]; } line;
    __kernel void lines(__global const float *x, const ulong x_first, __global line *y, ulong y_first, line of, int n)
    {
        int i = get_global_id(0);
        if (i >= n) return;
        line found = of;
        found.slope = of.slope * x[x_first + i] + of.offsets[2];
        y[y_first + i] = found;
    }
    __kernel void turn(__global float2 *z, ulong first, float2 by, int n)
    {
        int i = get_global_id(0);
        if (i < n) z[first + i] = (float2)(z[first + i].x * by.x - z[first + i].y * by.y, z[first + i].x * by.y + z[first + i].y * by.x);
    }
    __kernel void copy(__global const half *x, ulong x_first, __global half *y, ulong y_first, int n)
    {
        int i = get_global_id(0);
        if (i < n) vstore_half(vload_half(x_first + i, x), y_first + i, y);
    }";
const MODULE: Module = Module::new("own.cl").opencl(OWN);
type Complex = num_complex::Complex<f32>;
static LINES: ModuleKernel<(Read<f32>, Write<Line>, Plain<Line>, i32)> =
    ModuleKernel::new(&MODULE, "lines", [16, 1, 1]);
static TURN: ModuleKernel<(Write<Complex>, Plain<Complex>, i32)> = ModuleKernel::new(&MODULE, "turn", [16, 1, 1]);
static COPY: ModuleKernel<(Read<Half>, Write<Half>, i32)> = ModuleKernel::new(&MODULE, "copy", [16, 1, 1]);

#[test]
fn opencl_modules_take_structures_complex_numbers_and_halves() {
    let Some(rt) = opencl("1:OPENCL:1") else { return };
    let x = rt.data((0..100).map(|i| i as f32).collect::<Vec<_>>());
    let line = Line { slope: 2.0, offsets: [7.0, 8.0, 0.5] };
    let y = rt.data(vec![line; 100]);
    rt.task("lines", (x.slice(20..).input(), y.slice(10..90).output()))
        .gpu(move |k, (x, mut y)| {
            // SAFETY: the kernel compares its index with 80, and both regions have 80 elements.
            unsafe { k.launch_module(&LINES, 80, (&x, &mut y, Plain(line), 80)) }
        })
        .submit()
        .unwrap();
    let y = rt.take(y).unwrap();
    for (i, y) in y.iter().enumerate() {
        let slope = if (10..90).contains(&i) { 2.0 * (i + 10) as f32 + 0.5 } else { 2.0 };
        assert_eq!((y.slope, y.offsets), (slope, line.offsets), "{i}");
    }
    let z = rt.data(vec![Complex::new(1.0, 2.0); 50]);
    rt.task("turn", (z.slice(5..).inout(),))
        // SAFETY: the kernel compares its index with 45, and the region has 45 elements.
        .gpu(|k, (mut z,)| unsafe { k.launch_module(&TURN, 45, (&mut z, Plain(Complex::i()), 45)) })
        .submit()
        .unwrap();
    let expected = |i| if i < 5 { Complex::new(1.0, 2.0) } else { Complex::new(-2.0, 1.0) };
    assert_eq!(rt.take(z).unwrap(), (0..50).map(expected).collect::<Vec<_>>());
    let (half, copied) = (rt.data(vec![Half(0x3c00); 33]), rt.data(vec![Half(0); 33]));
    rt.task("copy", (half.input(), copied.output()))
        // SAFETY: the kernel compares its index with 33, and both regions have 33 elements.
        .gpu(|k, (x, mut y)| unsafe { k.launch_module(&COPY, 33, (&x, &mut y, 33)) })
        .submit()
        .unwrap();
    assert_eq!(rt.take(copied).unwrap(), [Half(0x3c00); 33]);
}

/// Mistakes that cannot be seen in the text are detected by the device and fail only the task.
#[test]
fn module_that_the_device_refuses_fails_its_task_alone() {
    let Some(rt) = opencl("1:OPENCL:1") else { return };
    let y = rt.data(vec![1.0f32; 10]);
    let text = "#define HEAD void f(__global float *y, ulong first, float x)
        __kernel HEAD { y[first] = x; }";
    let modules = [
        (Module::new("macros").opencl(text), "clSetKernelArg"),
        (Module::new("broken").opencl("__kernel void f(__global float *y, ulong first) { nonsense; }"), "nonsense"),
        (Module::new("spirv").spirv(&[3, 2, 35, 7]), "does not support this SPIR-V"),
        (Module::new("other").cuda("extern \"C\" __global__ void f(float *y) {}"), "no code for OpenCL"),
    ];
    for (module, expected) in modules {
        let kernel: &'static _ =
            Box::leak(Box::new(ModuleKernel::<(Write<f32>, f64)>::unchecked(&module, "f", [1, 1, 1])));
        rt.task("refused", (y.output(),))
            // SAFETY: the device refuses the module, so the kernel never runs.
            .gpu(move |k, (mut y,)| unsafe { k.launch_module(kernel, 1, (&mut y, 1.0)) })
            .submit()
            .unwrap();
        let error = rt.wait().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    rt.task("fill", (y.output(),)).cpu(|_, (y,)| y.fill(3.0)).submit().unwrap();
    assert_eq!(rt.take(y).unwrap(), [3.0; 10]);
}

/// OpenCL devices may lack 64-bit atomics. Kernels that do not use them must still run there.
#[test]
fn missing_64_bit_atomics_matter_only_to_kernels_that_use_them() {
    const DIALECT: &str = concat!("#undef cl_khr_int64_base_atomics\n", include_str!("../kernels/dialect.h"));
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
