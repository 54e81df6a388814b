//! What is compiled when, on an interface that can do nothing but compile.

use super::super::Recipe;
use super::*;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what it compiles.
struct Compiler {
    recipe: Recipe,
    compiled: Arc<AtomicUsize>,
}

#[rustfmt::skip] // what is not called here, in a line each
impl Api for Compiler {
    const NAME: &'static str = "compiler";
    const MOST_GROUPS: [u32; 3] = [1; 3];
    const MOST_THREADS: u64 = 1;

    fn domain(&self) -> usize { 0 }
    fn bind(&self) -> Result<(), ApiError> { Ok(()) }
    fn describe(&self, _: i32) -> String { String::new() }
    fn free_bytes(&self) -> Result<u64, ApiError> { Ok(1 << 20) }

    fn allocate(&self, _: usize) -> Result<usize, ApiError> { unreachable!() }
    unsafe fn free(&self, _: usize) -> Result<(), ApiError> { unreachable!() }
    unsafe fn page_lock(&self, _: *mut u8, _: usize) -> Result<(), ApiError> { unreachable!() }
    unsafe fn page_unlock(&self, _: *mut u8) -> Result<(), ApiError> { unreachable!() }

    fn create_stream(&self) -> Result<Handle, ApiError> { unreachable!() }
    unsafe fn destroy_stream(&self, _: Handle) -> Result<(), ApiError> { unreachable!() }
    fn create_event(&self) -> Result<Handle, ApiError> { unreachable!() }
    unsafe fn destroy_event(&self, _: Handle) -> Result<(), ApiError> { unreachable!() }
    unsafe fn record(&self, _: Handle, _: Handle) -> Result<(), ApiError> { unreachable!() }
    unsafe fn wait(&self, _: Handle, _: Handle) -> Result<(), ApiError> { unreachable!() }
    unsafe fn query(&self, _: Handle) -> Result<(), ApiError> { unreachable!() }
    unsafe fn synchronize(&self, _: Handle) -> Result<(), ApiError> { unreachable!() }
    unsafe fn copy(&self, _: Handle, _: &Transfer) -> Result<(), ApiError> { unreachable!() }

    fn recipe(&self) -> &Recipe { &self.recipe }

    fn compile(&self, program: &Program) -> Result<Vec<u8>, DeviceError> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        Ok(program.name().as_bytes().to_vec())
    }

    fn load(&self, image: &[u8]) -> Result<Handle, ApiError> {
        assert_eq!(image, b"one.cl", "what was compiled is what is loaded");
        Ok(Handle(std::ptr::null_mut()))
    }

    unsafe fn unload(&self, _: Handle) -> Result<(), ApiError> { Ok(()) }
    unsafe fn function(&self, _: Handle, _: &CStr) -> Result<Handle, ApiError> { unreachable!() }

    unsafe fn launch(&self, _: Handle, _: Handle, _: [u32; 3], _: [u32; 3], _: &mut [*mut c_void]) -> Result<(), ApiError> {
        unreachable!()
    }
}

#[test]
fn a_program_is_compiled_once_in_two_runs_and_anew_for_another_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let compiled = Arc::new(AtomicUsize::new(0));
    let run = |compiler: &str| {
        let recipe = Recipe { compiler: compiler.to_owned(), options: Vec::new() };
        let device = Addressed::open(Compiler { recipe, compiled: compiled.clone() }, "one".to_owned()).unwrap();
        let device = Addressed { cache: Cache::named(Some(folder.path().into())), ..device };
        // SAFETY: the text has no kernel, and none is launched.
        let program = unsafe { Program::new("one.cl", "text") };
        device.module(&program).unwrap();
        compiled.load(Ordering::Relaxed)
    };
    assert_eq!((run("1.0"), run("1.0")), (1, 1));
    assert_eq!((run("1.1"), run("1.0")), (2, 2));
}
