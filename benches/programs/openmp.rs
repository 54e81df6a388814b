//! The factorization with OpenMP tasks, written in C. This process loads it as a library, which calls the same kernels
//! as all other contenders. The contenders therefore differ in their runtime and not in their compiler.

use std::error::Error;
use std::ffi::c_int;
use std::time::Duration;

use libloading::Library;

use crate::cholesky::{TILE, gemm, potrf, trsm};

/// Environment variable with the path of the library.
pub(crate) const LIBRARY: &str = "THALWEG_BENCH_LIBRARY";

/// The counterpart of the struct `Kernels` in the library's source.
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
    /// If there is no library or the library cannot be loaded.
    pub(crate) fn load() -> Result<Self, Box<dyn Error>> {
        let path = std::env::var_os(LIBRARY).ok_or_else(|| format!("cannot find the library: {LIBRARY} is not set"))?;
        // SAFETY: the bench has built this library itself, so the only initializers that run are those of OpenMP.
        let library = unsafe { Library::new(path) }?;
        Ok(Self(Box::leak(Box::new(library))))
    }

    /// Factors a matrix in place and returns the elapsed time.
    pub(crate) fn factor(&self, tiles: &mut [Vec<f64>], n: usize) -> Result<Duration, Box<dyn Error>> {
        assert!(tiles.len() == n * (n + 1) / 2 && tiles.iter().all(|tile| tile.len() == TILE * TILE));
        let tiles: Vec<*mut f64> = tiles.iter_mut().map(|tile| tile.as_mut_ptr()).collect();
        let kernels = Kernels { potrf: on_tile, trsm: on_two, gemm: on_three };
        // SAFETY: the library's `factor` has the type `Factor`. The tiles have the size that the kernels expect and
        // stay valid until `factor` returns.
        let seconds = unsafe { self.0.get::<Factor>("factor")?(tiles.as_ptr(), n as c_int, &kernels) };
        Ok(Duration::from_secs_f64(seconds))
    }
}

/// # Safety
/// For all three functions: every pointer must point to a tile. During the call, nothing else may write a tile that the
/// function reads, and nothing else may read or write a tile that the function writes.
unsafe extern "C" fn on_tile(a: *mut f64) {
    // SAFETY: by the contract above, `a` points to a tile that only this call accesses, so a unique slice is sound.
    potrf(unsafe { std::slice::from_raw_parts_mut(a, TILE * TILE) });
}

unsafe extern "C" fn on_two(l: *const f64, b: *mut f64) {
    // SAFETY: by the contract of `on_tile`, `l` points to a tile that nothing writes during the call, and `b` to a tile
    // that only this call accesses.
    let (l, b) = unsafe { (read(l), std::slice::from_raw_parts_mut(b, TILE * TILE)) };
    trsm(l, b);
}

unsafe extern "C" fn on_three(a: *const f64, b: *const f64, c: *mut f64) {
    // SAFETY: by the contract of `on_tile`, `a` and `b` point to tiles that nothing writes during the call, and `c` to
    // a tile that only this call accesses.
    let (a, b, c) = unsafe { (read(a), read(b), std::slice::from_raw_parts_mut(c, TILE * TILE)) };
    gemm(a, b, c);
}

unsafe fn read<'a>(tile: *const f64) -> &'a [f64] {
    // SAFETY: by the contracts of the callers, `tile` points to a tile that nothing writes during the call, so a shared
    // slice is sound.
    unsafe { std::slice::from_raw_parts(tile, TILE * TILE) }
}
