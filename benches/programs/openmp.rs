//! The factorization by OpenMP tasks, written in C: a library that this process loads, and that calls the same
//! kernels as all contenders. So contenders differ by their runtime, not by their compiler.

use std::error::Error;
use std::ffi::c_int;
use std::time::Duration;

use libloading::Library;

use crate::cholesky::{TILE, gemm, potrf, trsm};

/// Environment variable with the path of the library.
pub(crate) const LIBRARY: &str = "THALWEG_BENCH_LIBRARY";

/// The struct `Kernels` of the library's source.
#[repr(C)]
struct Kernels {
    potrf: unsafe extern "C" fn(*mut f64),
    trsm: unsafe extern "C" fn(*const f64, *mut f64),
    gemm: unsafe extern "C" fn(*const f64, *const f64, *mut f64),
}

type Factor = unsafe extern "C" fn(*const *mut f64, c_int, *const Kernels) -> f64;

/// The library. It is never unloaded, because OpenMP's threads continue to run its code.
pub(crate) struct OpenMp(&'static Library);

impl OpenMp {
    /// Loads the library.
    ///
    /// # Errors
    /// If there is no library, or it cannot be loaded.
    pub(crate) fn load() -> Result<Self, Box<dyn Error>> {
        let path = std::env::var_os(LIBRARY).ok_or_else(|| format!("cannot find the library: {LIBRARY} is not set"))?;
        // SAFETY: the bench has built this library; its initializers are OpenMP's.
        let library = unsafe { Library::new(path) }?;
        Ok(Self(Box::leak(Box::new(library))))
    }

    /// Factors a matrix in place, and returns the time.
    pub(crate) fn factor(&self, tiles: &mut [Vec<f64>], n: usize) -> Result<Duration, Box<dyn Error>> {
        assert!(tiles.len() == n * (n + 1) / 2 && tiles.iter().all(|tile| tile.len() == TILE * TILE));
        let tiles: Vec<*mut f64> = tiles.iter_mut().map(|tile| tile.as_mut_ptr()).collect();
        let kernels = Kernels { potrf: on_tile, trsm: on_two, gemm: on_three };
        // SAFETY: the function has this type; the tiles, of the size that the kernels take, stay valid until it
        // returns.
        let seconds = unsafe { self.0.get::<Factor>("factor")?(tiles.as_ptr(), n as c_int, &kernels) };
        Ok(Duration::from_secs_f64(seconds))
    }
}

/// # Safety
/// For all three functions: pointers must be to tiles; during the call, nothing else may write a tile that is read,
/// or read or write a tile that is written.
unsafe extern "C" fn on_tile(a: *mut f64) {
    // SAFETY: by the contract above, `a` is a tile that only this call accesses.
    potrf(unsafe { std::slice::from_raw_parts_mut(a, TILE * TILE) });
}

unsafe extern "C" fn on_two(l: *const f64, b: *mut f64) {
    // SAFETY: the same contract as for `on_tile`: `l` is a tile that nothing writes, `b` one that only this call
    // accesses.
    let (l, b) = unsafe { (read(l), std::slice::from_raw_parts_mut(b, TILE * TILE)) };
    trsm(l, b);
}

unsafe extern "C" fn on_three(a: *const f64, b: *const f64, c: *mut f64) {
    // SAFETY: the same contract as for `on_tile`: `a` and `b` are tiles that nothing writes, `c` one that only this
    // call accesses.
    let (a, b, c) = unsafe { (read(a), read(b), std::slice::from_raw_parts_mut(c, TILE * TILE)) };
    gemm(a, b, c);
}

unsafe fn read<'a>(tile: *const f64) -> &'a [f64] {
    // SAFETY: by the callers' contracts this is a tile, and nothing writes it during the call.
    unsafe { std::slice::from_raw_parts(tile, TILE * TILE) }
}
