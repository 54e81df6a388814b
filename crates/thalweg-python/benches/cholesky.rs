//! Tiled Cholesky factorization: the Python example against the same tasks in Rust, with the same BLAS.
//!
//! `cargo bench -p thalweg-python -- [SIZE] [TILE] [UNITS] [ROUNDS]` runs both alternately and prints the best rate of
//! each, with the ratio. The Python of `THALWEG_PYTHON` has the package, built in the profile `bench` or `shipped`.
//! Both programs call the OpenBLAS that SciPy contains, one thread per call. Python calls it through SciPy's functions,
//! Rust directly.

#![allow(unsafe_code)] // BLAS

use libloading::Library;
use std::ffi::{c_char, c_int};
use std::process::Command;
use std::time::Instant;
use thalweg::prelude::*;

type Gemm = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const c_int,
    *const c_int,
    *const c_int,
    *const f64,
    *const f64,
    *const c_int,
    *const f64,
    *const c_int,
    *const f64,
    *mut f64,
    *const c_int,
);
type Syrk = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const c_int,
    *const c_int,
    *const f64,
    *const f64,
    *const c_int,
    *const f64,
    *mut f64,
    *const c_int,
);
type Trsm = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const c_char,
    *const c_char,
    *const c_int,
    *const c_int,
    *const f64,
    *const f64,
    *const c_int,
    *mut f64,
    *const c_int,
);
type Potrf = unsafe extern "C" fn(*const c_char, *const c_int, *mut f64, *const c_int, *mut c_int);

/// The functions of BLAS and LAPACK that the factorization calls.
#[derive(Clone, Copy)]
struct Blas {
    gemm: Gemm,
    syrk: Syrk,
    trsm: Trsm,
    potrf: Potrf,
}

const LEFT: *const c_char = c"L".as_ptr();
const UPPER: *const c_char = c"U".as_ptr();
const NO: *const c_char = c"N".as_ptr();
const TRANSPOSED: *const c_char = c"T".as_ptr();

impl Blas {
    fn open(path: &str) -> Self {
        // SAFETY: OpenBLAS may be loaded at any time. These are its functions, with the types of BLAS's manual. The
        // library stays loaded.
        unsafe {
            let library = Box::leak(Box::new(Library::new(path).expect("SciPy's OpenBLAS")));
            Self {
                gemm: *library.get(b"scipy_dgemm_").expect("dgemm"),
                syrk: *library.get(b"scipy_dsyrk_").expect("dsyrk"),
                trsm: *library.get(b"scipy_dtrsm_").expect("dtrsm"),
                potrf: *library.get(b"scipy_dpotrf_").expect("dpotrf"),
            }
        }
    }
}

/// Submits the factorization of these tiles, as the example in Python does. A tile in row-major order is the transpose
/// of a matrix in BLAS's order.
fn factor(rt: &Runtime, blas: Blas, tiles: &[Vec<Data<f64>>], n: c_int) -> Result<(), SubmitError> {
    // SAFETY: each tile has n × n elements, and the task may write those of the last one.
    let potrf = move |a: &mut [f64]| unsafe {
        let mut info = 0;
        (blas.potrf)(UPPER, &n, a.as_mut_ptr(), &n, &mut info);
        if info == 0 { Ok(()) } else { Err("the tile is not positive definite") }
    };
    // SAFETY: as above.
    let trsm = move |a: &[f64], b: &mut [f64]| unsafe {
        (blas.trsm)(LEFT, UPPER, TRANSPOSED, NO, &n, &n, &1.0, a.as_ptr(), &n, b.as_mut_ptr(), &n);
    };
    // SAFETY: as above.
    let syrk = move |a: &[f64], c: &mut [f64]| unsafe {
        (blas.syrk)(UPPER, TRANSPOSED, &n, &n, &-1.0, a.as_ptr(), &n, &1.0, c.as_mut_ptr(), &n);
    };
    // SAFETY: as above.
    let gemm = move |a: &[f64], b: &[f64], c: &mut [f64]| unsafe {
        let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
        (blas.gemm)(TRANSPOSED, NO, &n, &n, &n, &-1.0, b, &n, a, &n, &1.0, c, &n);
    };
    for k in 0..tiles.len() {
        let pivot = &tiles[k][k];
        rt.task("potrf", (pivot.inout(),)).cpu(move |_, (a,)| potrf(a)).priority(3).submit()?;
        for row in &tiles[k + 1..] {
            let accesses = (pivot.input(), row[k].inout());
            rt.task("trsm", accesses).cpu(move |_, (a, b)| trsm(a, b)).priority(2).submit()?;
        }
        for i in k + 1..tiles.len() {
            let accesses = (tiles[i][k].input(), tiles[i][i].inout());
            rt.task("syrk", accesses).cpu(move |_, (a, c)| syrk(a, c)).priority(1).submit()?;
            for j in k + 1..i {
                let accesses = (tiles[i][k].input(), tiles[j][k].input(), tiles[i][j].inout());
                rt.task("gemm", accesses).cpu(move |_, (a, b, c)| gemm(a, b, c)).submit()?;
            }
        }
    }
    Ok(())
}

/// Returns an element of the matrix, which is symmetric and positive definite.
fn element(size: usize, i: usize, j: usize) -> f64 {
    let (low, high) = (i.min(j) as f64, i.max(j) as f64);
    (low * 0.37 + high * 1.71).sin() + if i == j { 2.0 * size as f64 } else { 0.0 }
}

/// Factors a matrix and prints the rate. Compares the product of the factor with itself in one row.
fn rust(size: usize, tile: usize, units: &str, library: &str) {
    let rt = Runtime::builder().compute_units(units).build().expect("units");
    let (blas, count) = (Blas::open(library), size / tile);
    let elements = |i: usize, j: usize| {
        (0..tile * tile).map(move |at| element(size, i * tile + at / tile, j * tile + at % tile)).collect::<Vec<_>>()
    };
    let tiles: Vec<Vec<_>> = (0..count).map(|i| (0..=i).map(|j| rt.data(elements(i, j))).collect()).collect();
    let began = Instant::now();
    factor(&rt, blas, &tiles, tile as c_int).expect("tasks");
    rt.wait().expect("no failure");
    let seconds = began.elapsed().as_secs_f64();
    let last = tiles.last().expect("a row of tiles");
    let row: Vec<f64> = (last.iter()).flat_map(|tile| rt.read(tile.all()).expect("a value")).collect();
    let of = |column: usize| row[column / tile * tile * tile + (tile - 1) * tile + column % tile];
    let found: f64 = (0..size).map(|column| of(column) * of(column)).sum();
    assert!((found / element(size, size - 1, size - 1) - 1.0).abs() < 1e-9, "the factor is wrong: {found}");
    println!("{} GFLOP/s", (size as f64).powi(3) / 3.0 / seconds / 1e9);
}

/// Runs a program and returns the rate that it prints.
fn rate(command: &mut Command) -> f64 {
    let output = command.env("OPENBLAS_NUM_THREADS", "1").output().expect("the program is executable");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.lines().find_map(|line| line.strip_suffix(" GFLOP/s")?.parse().ok()).expect("a rate")
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |i: usize, default: usize| arguments.get(i).map_or(default, |text| text.parse().expect("a number"));
    let (size, tile, rounds) = (number(0, 4096), number(1, 256), number(3, 5));
    let units = arguments.get(2).map_or("1:CPU:1", String::as_str);
    if let Some(library) = arguments.get(4) {
        return rust(size, tile, units, library);
    }
    let python = std::env::var("THALWEG_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let find =
        "import glob, os, scipy; print(glob.glob(os.path.dirname(scipy.__file__) + '.libs/libscipy_openblas*')[0])";
    let library = Command::new(&python).args(["-c", find]).output().expect("Python").stdout;
    let library = String::from_utf8_lossy(&library).trim().to_owned();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/cholesky.py");
    let (size, tile, rounds_text) = (size.to_string(), tile.to_string(), rounds.to_string());
    let this = std::env::current_exe().expect("the bench has a path");
    let mut best = [0.0f64; 2];
    for _ in 0..rounds {
        best[0] = best[0].max(rate(Command::new(&this).args([&size, &tile, units, &rounds_text, &library])));
        best[1] = best[1].max(rate(Command::new(&python).args([example, &size, &tile, units])));
    }
    println!("| program | GFLOP/s |\n| --- | ---: |\n| Rust | {:.2} |\n| Python | {:.2} |", best[0], best[1]);
    println!("Python reaches {:.3} of Rust's rate ({size} in tiles of {tile}, {units}).", best[1] / best[0]);
}
