//! The factorization by OpenMP's tasks, which is written in C: a library that this process loads, and that calls the kernels
//! which all contenders call. So what differs is the runtime, not the compiler.

use std::error::Error;
use std::ffi::c_int;
use std::time::Duration;

use libloading::Library;

use crate::cholesky::{TILE, gemm, potrf, trsm};

/// The environment variable that says where the library is.
pub(crate) const LIBRARY: &str = "THALWEG_BENCH_LIBRARY";

/// As the library's head has it.
#[repr(C)]
struct Kernels {
    potrf: unsafe extern "C" fn(*mut f64),
    trsm: unsafe extern "C" fn(*const f64, *mut f64),
    gemm: unsafe extern "C" fn(*const f64, *const f64, *mut f64),
}

type Factor = unsafe extern "C" fn(*const *mut f64, c_int, *const Kernels) -> f64;

/// The library. It stays: OpenMP's threads do, which run its code.
pub(crate) struct OpenMp(&'static Library);

impl OpenMp {
    /// # Errors
    /// If there is no library, or it cannot be loaded.
    pub(crate) fn load() -> Result<Self, Box<dyn Error>> {
        let path = std::env::var_os(LIBRARY).ok_or_else(|| format!("{LIBRARY} does not say where the library is"))?;
        // SAFETY: it is what the bench has built; its initializers are OpenMP's.
        let library = unsafe { Library::new(path) }?;
        Ok(Self(Box::leak(Box::new(library))))
    }

    /// Factors a matrix in place; how long that took.
    pub(crate) fn factor(&self, tiles: &mut [Vec<f64>], n: usize) -> Result<Duration, Box<dyn Error>> {
        assert!(tiles.len() == n * (n + 1) / 2 && tiles.iter().all(|tile| tile.len() == TILE * TILE));
        let tiles: Vec<*mut f64> = tiles.iter_mut().map(|tile| tile.as_mut_ptr()).collect();
        let kernels = Kernels { potrf: on_tile, trsm: on_two, gemm: on_three };
        // SAFETY: the function has this type; the tiles are there, of the size that the kernels take, until it returns.
        let seconds = unsafe { self.0.get::<Factor>("factor")?(tiles.as_ptr(), n as c_int, &kernels) };
        Ok(Duration::from_secs_f64(seconds))
    }
}

/// # Safety
/// For all three: pointers are to tiles; nobody writes what is read, or reads what is written, meanwhile.
unsafe extern "C" fn on_tile(a: *mut f64) {
    // SAFETY: the caller's promise.
    potrf(unsafe { std::slice::from_raw_parts_mut(a, TILE * TILE) });
}

unsafe extern "C" fn on_two(l: *const f64, b: *mut f64) {
    // SAFETY: as above.
    let (l, b) = unsafe { (read(l), std::slice::from_raw_parts_mut(b, TILE * TILE)) };
    trsm(l, b);
}

unsafe extern "C" fn on_three(a: *const f64, b: *const f64, c: *mut f64) {
    // SAFETY: as above.
    let (a, b, c) = unsafe { (read(a), read(b), std::slice::from_raw_parts_mut(c, TILE * TILE)) };
    gemm(a, b, c);
}

unsafe fn read<'a>(tile: *const f64) -> &'a [f64] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(tile, TILE * TILE) }
}
