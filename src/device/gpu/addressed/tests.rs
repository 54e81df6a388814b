//! When programs are compiled, and the fate of the result, on an interface that can only compile.

use super::*;
use crate::kernel::{Groups, Program, Source};
use crate::machine::UnitKind;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::ptr;
use std::sync::OnceLock;

/// A compiler whose code is the name of the program, and which counts its units.
struct Echo;

thread_local! {
    /// The number of programs compiled on this thread.
    static COMPILED: Cell<usize> = const { Cell::new(0) };
    /// The number of units in the compiler.
    static UNITS: Cell<isize> = const { Cell::new(0) };
    static NAME: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

const LOG: &[u8] = b"line 1: no\n\0";

impl fmt::Display for Echo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("echo")
    }
}

/// Writes a text into a buffer.
fn put(text: &[u8], place: *mut c_char) -> c_int {
    // SAFETY: the buffer has the size that was returned for this text just before.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), text.len()) };
    0
}

impl Compiler for Echo {
    const NAME: &'static str = "echo";

    fn load() -> Result<&'static Self, &'static str> {
        Ok(&Self)
    }

    fn options(&self, architecture: &str, is_there: bool) -> Result<Vec<Vec<String>>, String> {
        if is_there { Ok(vec![vec![architecture.to_owned()]]) } else { Err("it is not there".to_owned()) }
    }

    unsafe fn create(&self, unit: &mut RawUnit, _: *const c_char, name: *const c_char) -> c_int {
        UNITS.set(UNITS.get() + 1);
        // SAFETY: the name ends with a zero.
        NAME.replace(unsafe { CStr::from_ptr(name) }.to_bytes().to_vec());
        *unit = ptr::dangling_mut();
        0
    }

    unsafe fn destroy(&self, _: &mut RawUnit) -> c_int {
        UNITS.set(UNITS.get() - 1);
        0
    }

    unsafe fn compile(&self, _: RawUnit, _: c_int, _: *const *const c_char) -> c_int {
        COMPILED.set(COMPILED.get() + 1);
        c_int::from(NAME.with_borrow(|name| name == b"bad.cl"))
    }

    unsafe fn log_bytes(&self, _: RawUnit, bytes: &mut usize) -> c_int {
        *bytes = LOG.len();
        0
    }

    unsafe fn log(&self, _: RawUnit, place: *mut c_char) -> c_int {
        put(LOG, place)
    }

    unsafe fn code_bytes(&self, _: RawUnit, _: &Recipe, bytes: &mut usize) -> c_int {
        *bytes = NAME.with_borrow(Vec::len);
        0
    }

    unsafe fn code(&self, _: RawUnit, _: &Recipe, place: *mut c_char) -> c_int {
        NAME.with_borrow(|name| put(name, place))
    }
}

/// The interface with this compiler.
struct Compiling;

#[rustfmt::skip] // one line for each method that is not called here
impl Platform for Compiling {
    const NAME: &'static str = "compiling";
    const LAYER: &'static str = "the test";
    const KIND: UnitKind = UnitKind::Gpu;
    const ARCHITECTURES: &'static str = "c";
    const QUEUES: (&'static str, usize) = ("ECHO_QUEUES", 1);

    type Compiler = Echo;

    fn load() -> Result<(), &'static str> { Ok(()) }
    fn version() -> String { String::new() }
    fn found() -> &'static OnceLock<Result<Vec<Found>, String>> { unreachable!() }
    fn describe(_: i32) -> String { String::new() }
    fn count() -> Result<c_int, ApiError> { unreachable!() }
    fn name_of(_: c_int, _: &mut [c_char]) -> Result<(), ApiError> { unreachable!() }
    fn architecture_of(_: c_int) -> Result<String, ApiError> { unreachable!() }
    fn bytes_of(_: c_int) -> Result<usize, ApiError> { unreachable!() }
    fn processors_of(_: c_int) -> Result<c_int, ApiError> { unreachable!() }
    fn pci_of(_: c_int, _: &mut [c_char]) -> Result<(), ApiError> { unreachable!() }
    fn reaches(_: c_int, _: c_int) -> Result<bool, ApiError> { unreachable!() }
}

#[rustfmt::skip] // one line for each method that is not called here
impl Api for Compiling {
    const MOST_GROUPS: [u32; 3] = [1; 3];
    const MOST_THREADS: u64 = 1;
    const DLPACK: i32 = 0;

    fn open(_: c_int) -> Result<Self, ApiError> { Ok(Self) }
    fn domain(&self) -> usize { 0 }
    fn bind(&self) -> Result<(), ApiError> { Ok(()) }
    fn current() -> Result<usize, ApiError> { Ok(0) }
    unsafe fn restore(_: usize) -> Result<(), ApiError> { Ok(()) }
    fn free_bytes(&self) -> Result<u64, ApiError> { Ok(1 << 20) }

    fn allocate(&self, _: usize) -> Result<usize, ApiError> { unreachable!() }
    unsafe fn free(&self, _: usize) -> Result<(), ApiError> { unreachable!() }
    fn open_pool(&self, _: &[super::PoolAccess]) -> Result<Option<Handle>, ApiError> { unreachable!() }
    unsafe fn allocate_pooled(&self, _: Handle, _: usize) -> Result<usize, ApiError> { unreachable!() }
    unsafe fn free_pooled(&self, _: Handle, _: usize) -> Result<(), ApiError> { unreachable!() }
    fn allocate_host(&self, _: usize) -> Result<usize, ApiError> { unreachable!() }
    unsafe fn free_host(&self, _: usize) -> Result<(), ApiError> { unreachable!() }
    fn reaches_unified(&self) -> Result<bool, ApiError> { Ok(false) }
    fn allocate_unified(&self, _: usize) -> Result<usize, ApiError> { unreachable!() }
    unsafe fn prefetch(&self, _: Handle, _: usize, _: usize, _: bool) -> Result<(), ApiError> { unreachable!() }
    unsafe fn pin_memory(&self, _: *mut u8, _: usize) -> Result<(), ApiError> { unreachable!() }
    fn locked_range(&self, _: usize) -> Result<(usize, usize), ApiError> { unreachable!() }
    unsafe fn page_unlock(&self, _: *mut u8) -> Result<(), ApiError> { unreachable!() }

    fn create_stream(&self) -> Result<Handle, ApiError> { unreachable!() }
    unsafe fn destroy_stream(&self, _: Handle) -> Result<(), ApiError> { unreachable!() }
    fn create_event(&self, _: bool) -> Result<Handle, ApiError> { unreachable!() }
    unsafe fn elapsed_ms(&self, _: Handle, _: Handle) -> Result<f32, ApiError> { unreachable!() }
    unsafe fn destroy_event(&self, _: Handle) -> Result<(), ApiError> { unreachable!() }
    unsafe fn record(&self, _: Handle, _: Handle) -> Result<(), ApiError> { unreachable!() }
    unsafe fn wait(&self, _: Handle, _: Handle) -> Result<(), ApiError> { unreachable!() }
    unsafe fn query(&self, _: Handle) -> Result<(), ApiError> { unreachable!() }
    unsafe fn synchronize(&self, _: Handle) -> Result<(), ApiError> { unreachable!() }

    fn number(&self) -> c_int { unreachable!() }
    fn context(&self) -> usize { unreachable!() }
    fn id(&self) -> usize { 0 }
    unsafe fn owner(&self, _: usize) -> Result<usize, ApiError> { unreachable!() }
    unsafe fn device_of(&self, _: usize) -> Result<c_int, ApiError> { unreachable!() }
    fn synchronize_default(&self) -> Result<(), ApiError> { unreachable!() }
    unsafe fn enable_peer(&self, _: usize) -> Result<(), ApiError> { unreachable!() }
    unsafe fn copy(&self, _: Handle, _: &Transfer, _: usize) -> Result<(), ApiError> { unreachable!() }

    fn load_module(&self, image: &[u8]) -> Result<Handle, ApiError> {
        assert_eq!(image, b"one.cl", "the compiled code is loaded");
        Ok(Handle(std::ptr::null_mut()))
    }

    unsafe fn unload_module(&self, _: Handle) -> Result<(), ApiError> { Ok(()) }
    unsafe fn function(&self, _: Handle, _: &CStr) -> Result<Handle, ApiError> { unreachable!() }

    fn lacks(&self, _: &Groups) -> Result<Option<&'static str>, ApiError> { unreachable!() }
    fn most_shared_bytes(&self) -> Result<c_int, ApiError> { unreachable!() }
    unsafe fn allow_shared(&self, _: Handle, _: u32) -> Result<(), ApiError> { unreachable!() }
    unsafe fn launch(&self, _: Handle, _: KernelCall<'_>) -> Result<(), ApiError> { unreachable!() }

    fn has_graphs(&self) -> bool { false }
    fn create_graph(&self) -> Result<Handle, ApiError> { unreachable!() }
    unsafe fn add_kernel(&self, _: Handle, _: &[Handle], _: KernelCall<'_>) -> Result<Handle, ApiError> { unreachable!() }
    unsafe fn instantiate(&self, _: Handle) -> Result<Handle, ApiError> { unreachable!() }
    unsafe fn set_kernel(&self, _: Handle, _: Handle, _: KernelCall<'_>) -> Result<(), ApiError> { unreachable!() }
    unsafe fn launch_graph(&self, _: Handle, _: Handle) -> Result<(), ApiError> { unreachable!() }
    unsafe fn destroy_instance(&self, _: Handle) -> Result<(), ApiError> { unreachable!() }
    unsafe fn destroy_graph(&self, _: Handle) -> Result<(), ApiError> { unreachable!() }
}

fn recipe(compiler: &str) -> Recipe {
    Recipe { target: "c1".to_owned(), compiler: compiler.to_owned(), options: Vec::new() }
}

fn program(name: &'static str) -> Program {
    // SAFETY: the text has no kernel, and none is launched.
    unsafe { Program::new(name, "text") }
}

#[test]
fn program_is_compiled_once_per_compiler_across_runs() {
    let folder = tempfile::tempdir().unwrap();
    let run = |compiler: &str| {
        let device = Addressed::open(Compiling, "one".to_owned(), 1, "c1", Ok(vec![recipe(compiler)])).unwrap();
        let device = Addressed { cache: Cache::named(Some(folder.path().into())), ..device };
        device.module(&program("one.cl")).unwrap();
        COMPILED.get()
    };
    assert_eq!((run("1.0"), run("1.0")), (1, 1));
    assert_eq!((run("1.1"), run("1.0")), (2, 2));
    assert_eq!(UNITS.get(), 0, "each unit is destroyed");
}

#[test]
fn compilation_error_contains_compiler_messages() {
    let error = compile::compile::<Compiling>("bad.cl", "text", &recipe("1.0"), "one").unwrap_err();
    let DeviceError::Compilation { program, device, log } = error else { panic!("{error}") };
    assert_eq!((program.as_str(), device.as_str(), log.as_str()), ("bad.cl", "one", "line 1: no"));
    assert_eq!(UNITS.get(), 0, "the unit is destroyed despite the error");
}

#[test]
fn recipe_has_compiler_options_and_ours() {
    let recipes = compile::recipes::<Compiling>("c1", true, "kernels", "one").unwrap();
    let [recipe] = &recipes[..] else { panic!("{recipes:?}") };
    assert_eq!(
        (recipe.compiler.as_str(), &recipe.options[..]),
        ("echo", &["c1".to_owned(), "-DTHALWEG_FMA".to_owned()][..])
    );
    let error = compile_for::<Compiling>(&Source::Program(program("one.cl")), "c1").unwrap_err();
    assert!(matches!(error, DeviceError::NoCompiler { why, .. } if why == "it is not there"));
}
