//! Bodies that call OpenCL themselves, and modules with kernels in OpenCL's language.

use crate::{ADD_BLOCK, FILL, opencl};
use std::convert::Infallible;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::kernel::{
    CType, DeviceView, DeviceViewMut, Module, ModuleKernel, OpenCl, OpenClRegion, Plain, RawTask, Read, Write,
};
use thalweg::prelude::*;

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
