//! Programs that run on a stand-in, with bodies that call the interface directly and with custom modules.

use super::programs::{kind, next, nexts, runtime, with_units};
use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::error::Error;
use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::bytemuck::{Pod, Zeroable};
use thalweg::devices::compile_for;
use thalweg::error::FailureReason;
use thalweg::kernel::{CType, DeviceViewMut, LaunchShape, Launcher, Module, ModuleKernel, Plain, Program, Read, Write};
use thalweg::prelude::*;

/// Returns a function of the interface's library, which is already loaded.
pub fn function(name: &str) -> *mut c_void {
    let library = if kind() == "CUDA" { c"libcuda.so.1" } else { c"libamdhip64.so.8" };
    let name = CString::new(name).unwrap();
    // SAFETY: both arguments are pointers to nul-terminated strings.
    let found = unsafe { libc::dlsym(libc::dlopen(library.as_ptr(), libc::RTLD_NOW), name.as_ptr()) };
    assert!(!found.is_null(), "{name:?}");
    found
}

/// Enqueues a copy on the device. Returns the interface's code.
///
/// # Safety `to` and `from` must point to device memory of at least this size.
pub unsafe fn enqueue_copy(to: *mut u64, from: *const u64, len: usize, stream: *mut c_void) -> i32 {
    type Cuda = extern "C" fn(u64, u64, usize, *mut c_void) -> i32;
    type Hip = extern "C" fn(*mut u64, *const u64, usize, u32, *mut c_void) -> i32;
    // SAFETY: the function types are those in the interfaces' manuals. The constant 3 selects a device-to-device copy.
    unsafe {
        match kind().as_str() {
            "CUDA" => {
                let copy: Cuda = std::mem::transmute(function("cuMemcpyDtoDAsync_v2"));
                copy(to as u64, from as u64, len * 8, stream)
            }
            _ => {
                let copy: Hip = std::mem::transmute(function("hipMemcpyAsync"));
                copy(to, from, len * 8, 3, stream)
            }
        }
    }
}

/// Returns whether the stream exists and a context is current.
fn is_usable(stream: usize) -> bool {
    let name = if kind() == "CUDA" { "cuStreamQuery" } else { "hipStreamQuery" };
    // SAFETY: the function type is that in the interface's manual. Any number is a valid argument, because the stand-in
    // looks the stream up among those that it has created.
    let query: extern "C" fn(usize) -> i32 = unsafe { std::mem::transmute(function(name)) };
    query(stream) == 0
}

/// Removes the thread's context, or binds the thread to another device.
fn unbind() {
    let name = if kind() == "CUDA" { "cuCtxSetCurrent" } else { "hipSetDevice" };
    // SAFETY: the function type is that in the interface's manual. Device 0 exists, and null is no context.
    let bind: extern "C" fn(usize) -> i32 = unsafe { std::mem::transmute(function(name)) };
    assert_eq!(bind(0), 0);
}

static MADE: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// A handle like those of vendor libraries: it belongs to a stream, and its destructor calls the interface.
struct Handle(usize);

impl Handle {
    fn on(stream: *mut c_void) -> Result<Self, Mine> {
        assert!(is_usable(stream.addr()), "no context at the beginning");
        MADE.fetch_add(1, Ordering::SeqCst);
        Ok(Self(stream.addr()))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        assert!(is_usable(self.0), "no context or stream at the end");
        DROPPED.fetch_add(1, Ordering::SeqCst);
        unbind();
    }
}

/// A kept value whose destructor panics.
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

/// An error like that of a library, with a cause.
#[derive(Debug)]
struct Mine(Option<Box<Mine>>);

impl fmt::Display for Mine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "status 7" } else { "not initialized" })
    }
}

impl Error for Mine {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.as_deref().map(|cause| cause as _)
    }
}

/// Body for both interfaces: `y ← x`, and then `$then`.
macro_rules! body {
    ($then:expr) => {{
        let then = $then;
        move |cx, (x, mut y)| {
            let (from, to, stream) = (cx.ptr(&x), cx.ptr_mut(&mut y), cx.stream());
            let handle = cx.keep(Handle::on)?;
            assert_eq!(handle.0, stream.addr());
            // SAFETY: the task reads `x` and writes `y`, and both have the same length, so the copy is in bounds.
            assert_eq!(unsafe { enqueue_copy(to, from, x.len(), stream) }, 0);
            unbind();
            then()
        }
    }};
}

/// Submits a task `y ← x` that calls the interface directly.
fn copy(rt: &Runtime, x: &Data<u64>, y: &Data<u64>, then: fn() -> Result<(), Mine>) {
    rt.task("copy", (x.slice(2..8).input(), y.slice(3..9).output()))
        .cuda(body!(then))
        .hip(body!(then))
        .submit()
        .unwrap();
}

/// Number of copies in a program with several chains.
pub const COPIES: usize = 40;

/// Bodies that call the interface directly, between tasks written in the dialect, on regions that do not begin at the
/// start of their arrays.
#[test]
#[ignore = "run on a stand-in by another test"]
fn copies() {
    let rt = runtime();
    copy_in_chains(&rt);
    drop(rt);
    let made = MADE.load(Ordering::SeqCst);
    assert!((1..=16).contains(&made), "{made} handles");
    assert_eq!(DROPPED.load(Ordering::SeqCst), made);
}

fn copy_in_chains(rt: &Runtime) {
    let pairs: Vec<_> = (0..10u64).map(|n| (rt.data(vec![n; 10]), rt.data(vec![100 + n; 10]))).collect();
    for round in 0..COPIES as u64 / 10 {
        for (x, y) in &pairs {
            next(rt, x, round);
            copy(rt, x, y, || Ok(()));
            next(rt, y, 7);
        }
    }
    for (n, (x, y)) in (0..).zip(pairs) {
        let x = rt.take(x).unwrap();
        assert_eq!(x, [nexts(n, 0..4); 10]);
        let mut expected = vec![100 + n; 10];
        for round in 1..=4 {
            expected[3..9].fill(nexts(n, 0..round));
            expected.iter_mut().for_each(|y| *y = nexts(*y, 7..8));
        }
        assert_eq!(rt.take(y).unwrap(), expected);
    }
}

const NEGATE: &str = "KERNEL(64, 1, 1) negate(INOUT(UINT64, y, n), int n)
    { REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] = ~y[i]; }";

/// Returns the code of a program with the kernel `negate`.
fn negate(architecture: &str) -> Vec<u8> {
    // SAFETY: the kernel touches only the first `n` elements, as its signature declares.
    const PROGRAM: Program = unsafe { Program::new("negate.cl", NEGATE) };
    compile_for(&PROGRAM, architecture).unwrap()
}

/// Copies and launches by cudarc, between tasks written in the dialect.
#[test]
#[ignore = "run on a stand-in by another test"]
fn cudarc_types() {
    let rt = runtime();
    let code = negate("sm_90");
    let pairs: Vec<_> = (0..10u64).map(|n| (rt.data(vec![n; 10]), rt.data(vec![100 + n; 10]))).collect();
    for round in 0..COPIES as u64 / 10 {
        for (x, y) in &pairs {
            next(&rt, x, round);
            let code = code.clone();
            let task =
                rt.task("negate", (x.slice(2..8).input(), y.slice(3..9).output())).cuda(move |cx, (x, mut y)| {
                    // SAFETY: the copy and the kernel are enqueued on the task's stream, and what retains it is kept.
                    let cuda = unsafe { cx.cudarc()? };
                    let stream = cuda.stream();
                    assert!(is_usable(stream.cu_stream().addr()) && stream.context().ordinal() == 0);
                    let mut y = cuda.view_mut(&mut y);
                    stream.memcpy_dtod(&cuda.view(&x), &mut y)?;
                    let negate =
                        cx.keep(|_| stream.context().load_module(Ptx::from_binary(code))?.load_function("negate"))?;
                    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (64, 1, 1), shared_mem_bytes: 0 };
                    // SAFETY: these are the kernel's parameters, and it compares its index with the length.
                    unsafe { stream.launch_builder(negate).arg(&mut y).arg(&6i32).launch(config) }.map(|_| ())
                });
            task.submit().unwrap();
            next(&rt, y, 7);
        }
    }
    for (n, (x, y)) in (0..).zip(pairs) {
        assert_eq!(rt.take(x).unwrap(), [nexts(n, 0..4); 10]);
        let mut expected = vec![100 + n; 10];
        for round in 1..=4 {
            expected[3..9].fill(!nexts(n, 0..round));
            expected.iter_mut().for_each(|y| *y = nexts(*y, 7..8));
        }
        assert_eq!(rt.take(y).unwrap(), expected);
    }
}

/// A unit of kind `GPU` knows its interface once it is opened.
#[test]
#[ignore = "run on a stand-in by another test"]
fn on_any_gpu() {
    let rt = with_units("1:GPU:1");
    copy_in_chains(&rt);
    let y = rt.data(vec![0u64; 10]);
    let other = rt.task("other", (y.inout(),));
    let other = if kind() == "CUDA" { other.hip(|_, _| ()) } else { other.cuda(|_, _| ()) };
    let refused = other.submit().unwrap_err();
    assert!(matches!(refused, SubmitError::NoUnit { .. }), "{refused}");
    // The interface's own body takes precedence over the one for all accelerators.
    rt.task("own", (y.inout(),))
        .gpu(|_, _| panic!("the wrong body ran"))
        .cuda(|_, _| ())
        .hip(|_, _| ())
        .submit()
        .unwrap();
    rt.wait().unwrap();
}

/// Errors with a cause, panics, and a destructor that panics.
#[test]
#[ignore = "run on a stand-in by another test"]
fn failures() {
    let rt = runtime();
    let (x, y) = (rt.data(vec![1u64; 10]), rt.data(vec![2u64; 10]));
    for round in 0..5 {
        copy(&rt, &x, &y, || Err(Mine(Some(Box::new(Mine(None))))));
        next(&rt, &y, 1); // skipped
        let Err(RunError::Failed(failures)) = rt.wait() else { panic!("round {round}: the task has not failed") };
        let FailureReason::Returned(error) = failures[0].reason() else { panic!("{:?}", failures[0]) };
        assert_eq!((error.to_string(), failures[0].skipped()), ("status 7".to_owned(), 1));
        assert_eq!(error.source().unwrap().to_string(), "not initialized");
        copy(&rt, &x, &y, || panic!("a binding's own check"));
        let error = rt.wait().unwrap_err().to_string();
        assert!(error.contains("a binding's own check"), "{error}");
        rt.task("heal", (y.output(),)).cuda(|_, _| ()).hip(|_, _| ()).submit().unwrap();
        rt.task("fill", (y.output(),)).cpu(|_, (y,)| y.fill(3)).submit().unwrap();
        next(&rt, &y, 4);
        assert_eq!(rt.read(&y).unwrap(), [nexts(3, 4..5); 10]);
    }
    let task = rt.task("keeps", (x.inout(),));
    let keep = |stream: *mut c_void| Ok::<_, Mine>((Panics, stream.addr()));
    task.cuda(move |cx, _| cx.keep(keep).map(|_| ())).hip(move |cx, _| cx.keep(keep).map(|_| ())).submit().unwrap();
    rt.wait().unwrap();
    drop((x, y, rt));
    assert_eq!(
        DROPPED.load(Ordering::SeqCst),
        MADE.load(Ordering::SeqCst),
        "a handle was not dropped after another one had panicked"
    );
}

const OWN: &str = r#"
    struct pair { unsigned long long factor; float unused[3]; unsigned salt; };
    extern "C" __global__ void __launch_bounds__(32) step(
        const unsigned long long *x, unsigned long long *__restrict__ y, struct pair pair, const int n)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i] * pair.factor + pair.salt;
    }
    extern "C" __global__ void __launch_bounds__(1) wild(unsigned long long *y) { *(volatile int *)(y[0] - y[0] + 8) = 1; }
"#;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pair {
    factor: u64,
    unused: [f32; 3],
    salt: u32,
}

impl CType for Pair {
    const NAMES: &'static [&'static str] = &["pair"];
}

const MODULE: Module = Module::new("own").cuda(OWN).hip(OWN);
static STEP: ModuleKernel<(Read<u64>, Write<u64>, Plain<Pair>, i32)> = ModuleKernel::new(&MODULE, "step", [32, 1, 1]);
static WILD: ModuleKernel<(Write<u64>,)> = ModuleKernel::new(&MODULE, "wild", [1, 1, 1]);

/// Modules in the interface's own language, with a struct as a parameter, and as compiled code.
#[test]
#[ignore = "run on a stand-in by another test"]
fn modules() {
    let rt = runtime();
    let (x, y) = (rt.data((0..100).collect::<Vec<u64>>()), rt.data(vec![5u64; 100]));
    let pair = Pair { factor: 3, unused: [0.5; 3], salt: 11 };
    rt.task("step", (x.slice(10..).input(), y.slice(..90).output()))
        .gpu(move |k, (x, mut y)| {
            // SAFETY: both regions have 90 elements, and the kernel compares its index with 90.
            unsafe { k.launch_module(&STEP, 90, (&x, &mut y, Plain(pair), 90)) }
        })
        .submit()
        .unwrap();
    let expected: Vec<u64> = (10..100).map(|x| 3 * x + 11).chain([5; 10]).collect();
    assert_eq!(rt.read(&y).unwrap(), expected);

    let code: &'static [u8] = negate(if kind() == "CUDA" { "sm_90" } else { "gfx90a" }).leak();
    let module = Module::new("negate").cubin(code).hsaco(code);
    let negate: &'static _ =
        Box::leak(Box::new(ModuleKernel::<(Write<u64>, i32)>::checked(&module, "negate", [64, 1, 1]).unwrap()));
    rt.task("negate", (y.inout(),))
        // SAFETY: the kernel compares its index with 100, and the region has 100 elements.
        .gpu(move |k, (mut y,)| unsafe { k.launch_module(negate, 100, (&mut y, 100)) })
        .submit()
        .unwrap();
    assert_eq!(rt.take(y).unwrap(), expected.iter().map(|y| !y).collect::<Vec<_>>());
}

/// Modules with code for another interface, and with bytes that are not code.
#[test]
#[ignore = "run on a stand-in by another test"]
fn refused_code() {
    let rt = runtime();
    let nonsense = b"nothing that anybody would run";
    let modules = [
        (Module::new("other").opencl("__kernel void f(__global int *x, ulong x0) {}"), "no code for"),
        (Module::new("nonsense").cubin(nonsense).hsaco(nonsense), "refuses the module's code"),
        (Module::new("text").ptx(".entry f(.param .u64 x) { ret; }").hsaco(nonsense), "refuses the module's code"),
        (Module::new("lacks").cuda(OWN).hip(OWN), "ModuleGetFunction"),
        (Module::new("empty").cubin(&[]).hsaco(&[]), "no code for"),
        (Module::new("broken").cuda("nonsense").hip("nonsense"), "broken"),
    ];
    let x = rt.data(vec![1i32; 10]);
    for (module, expected) in modules {
        let kernel: &'static _ = Box::leak(Box::new(ModuleKernel::<(Write<i32>,)>::unchecked(&module, "f", [1, 1, 1])));
        rt.task("refused", (x.output(),))
            // SAFETY: there is no such kernel, so nothing is launched.
            .gpu(move |k, (mut x,)| unsafe { k.launch_module(kernel, 1, (&mut x,)) })
            .submit()
            .unwrap();
        let error = rt.wait().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(module.name()) || expected.starts_with("Module"), "{error}");
    }
    rt.task("fill", (x.output(),)).cpu(|_, (x,)| x.fill(3)).submit().unwrap();
    assert_eq!(rt.take(x).unwrap(), [3; 10]);
}

/// A body that enqueues a kernel that crashes the device, and then fails with a different error.
#[test]
#[ignore = "run on a stand-in by another test"]
fn breaks_the_device() {
    let rt = with_units(&format!("1:CPU:1,1:{}:1", kind()));
    let (x, y) = (rt.data(vec![1u64; 10]), rt.data(vec![2u64; 10]));
    rt.task("breaks", (x.inout(),))
        .cuda(|cx, (mut x,)| {
            // SAFETY: this test breaks the promise on purpose. The stand-in detects this.
            unsafe { cx.launcher().launch_module(&WILD, 1, (&mut x,)) }?;
            Err::<(), Box<dyn Error + Send + Sync>>(Box::new(Mine(None)))
        })
        .submit()
        .unwrap();
    let Err(RunError::Failed(failures)) = rt.wait() else { panic!("the task has not failed") };
    assert!(matches!(failures[0].reason(), FailureReason::Returned(error) if error.is::<Mine>()), "{failures:?}");
    // The runtime knows that the device is lost, so other units run its tasks, and no further task has to fail to
    // discover the loss.
    for _ in 0..5 {
        rt.task("anywhere", (y.inout(),)).cpu(|_, (y,)| y[0] += 1).gpu(|_, _| ()).submit().unwrap();
    }
    rt.wait().unwrap();
    assert_eq!(rt.take(y).unwrap()[..2], [7, 2]);
}

const MORE: &str = r#"
    extern "C" __global__ void __launch_bounds__(32) more(unsigned long long *y, int n)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] += ONE;
    }
"#;
const MORE_MODULE: Module =
    Module::new("more").cuda(MORE).cuda_options(&["-DONE=1"]).hip(MORE).hip_options(&["-DONE=1"]);
static ADD_ONE: ModuleKernel<(Write<u64>, i32)> = ModuleKernel::new(&MORE_MODULE, "more", [32, 1, 1]);

/// Submits `y ← y + 1` with this shape.
fn add_one(rt: &Runtime, y: &Data<u64>, shape: LaunchShape) {
    rt.task("more", (y.inout(),))
        // SAFETY: the kernel compares its index with 100, and the region has 100 elements.
        .gpu(move |k, (mut y,)| unsafe { k.launch_module(&ADD_ONE, shape, (&mut y, 100)) })
        .submit()
        .unwrap();
}

/// Shapes that the device supports, submitted and replayed, and shapes that it lacks.
#[test]
#[ignore = "run on a stand-in by another test"]
fn launch_shapes() {
    let rt = runtime();
    let (plain, has_clusters) = (LaunchShape::new(100), kind() == "CUDA" && std::env::var_os("STANDIN_ARCH").is_none());
    let (clusters, large) = (plain.cluster([3, 1, 1]), plain.shared_bytes(100_000));
    let mut shapes = vec![plain, plain.shared_bytes(1000), plain.cooperative()];
    let mut refused = vec![(plain.shared_bytes(300_000), "300000 bytes of dynamic shared memory per group")];
    match has_clusters {
        true => shapes.extend([clusters, clusters.cooperative().shared_bytes(2000)]),
        false => refused.push((clusters, "clusters")),
    }
    match kind() == "CUDA" {
        true => shapes.extend([large, large]),
        false => refused.push((large, "at most 65536")),
    }
    let y = rt.data(vec![0u64; 100]);
    shapes.iter().for_each(|shape| add_one(&rt, &y, *shape));
    let recording = rt.record(|r| {
        for shape in [plain, plain.cooperative()] {
            // SAFETY: as in `add_one`.
            let body = move |k: &mut Launcher<'_>, (mut y,): (DeviceViewMut<'_, u64>,)| unsafe {
                k.launch_module(&ADD_ONE, shape, (&mut y, 100))
            };
            r.task("more", (y.inout(),)).gpu(body).submit()?;
        }
        Ok::<(), SubmitError>(())
    });
    let mut recording = recording.unwrap();
    (0..4).for_each(|_| recording.replay().unwrap());
    assert_eq!(rt.read(&y).unwrap(), [shapes.len() as u64 + 8; 100]);
    for (shape, expected) in refused {
        let x = rt.data(vec![0u64; 100]);
        add_one(&rt, &x, shape);
        let error = rt.wait().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("cannot launch kernel `more` on"), "{error}");
    }
    add_one(&rt, &y, plain); // the device continues
    assert_eq!(rt.take(y).unwrap(), [shapes.len() as u64 + 9; 100]);
}
