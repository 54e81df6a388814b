//! A matrix product by cuBLAS, with an alternative body for CPU cores. The program chooses its own bindings of the
//! library; the runtime provides a stream and addresses. There is one cuBLAS handle per stream.
//!
//! Without CUDA or cuBLAS, the cores do the work.

#![allow(unsafe_code)] // calls foreign functions

use cudarc::cublas::{result, sys};
use ndarray::Array2;
use std::ffi::c_void;
use thalweg::prelude::*;

/// A cuBLAS handle, which enqueues on one stream.
struct Blas(sys::cublasHandle_t);

// SAFETY: cuBLAS allows a handle to move between threads, and the runtime lets only one thread use it at a time.
unsafe impl Send for Blas {}

impl Blas {
    fn new(stream: *mut c_void) -> Result<Self, result::CublasError> {
        let blas = Self(result::create_handle()?);
        // SAFETY: the handle was just created, so it is valid, and the runtime keeps the stream alive for longer than
        // the handle.
        unsafe { result::set_stream(blas.0, stream.cast()) }?;
        Ok(blas)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: this value owns the handle, so the handle is destroyed exactly once.
        let _ = unsafe { result::destroy_handle(self.0) };
    }
}

const N: usize = 96;
const TILE: usize = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: this only tries to load the library and calls none of its functions.
    let has_blas = unsafe { sys::is_culib_present() };
    let units = if has_blas { "1:CPU:1,1:CUDA:1" } else { "1:CPU:1" };
    let rt = match Runtime::builder().compute_units(units).build() {
        Ok(rt) => rt,
        Err(error) => {
            println!("{error}; using cores alone:");
            Runtime::builder().compute_units("1:CPU:1").build()?
        }
    };
    let a = rt.array(Array2::from_shape_fn((N, N), |(i, j)| ((i + 2 * j) % 7) as f64));
    let b = rt.array(Array2::from_shape_fn((N, N), |(i, j)| ((3 * i + j) % 5) as f64));
    let c = rt.array(Array2::zeros((N, N)));
    for rows in blocks(N, TILE) {
        for columns in blocks(N, TILE) {
            let (a, b) = (a.block((rows.clone(), ..)), b.block((.., columns.clone())));
            rt.task("product", (a.input(), b.input(), c.block((rows.clone(), columns)).inout()))
                .cpu(|_, (a, b, mut c)| ndarray::linalg::general_mat_mul(1.0, &a, &b, 1.0, &mut c))
                .cuda(|cx, (a, b, mut c)| {
                    // cuBLAS is column-major, so it sees all matrices transposed: the transposed product is B' A'.
                    let ([m, k, ..], [_, n, ..]) = (a.extents(), b.extents());
                    let leading = [b.strides(), a.strides(), c.strides()].map(|strides| strides[0] as i32);
                    let (a, b, c) = (cx.ptr(&a), cx.ptr(&b), cx.ptr_mut(&mut c));
                    let blas = cx.keep(Blas::new)?;
                    let (one, none) = (1.0, sys::cublasOperation_t::CUBLAS_OP_N);
                    // SAFETY: the extents and strides are those of the task's regions, so cuBLAS accesses only these
                    // regions.
                    unsafe {
                        result::dgemm(
                            blas.0, none, none, n as i32, m as i32, k as i32, &one, b, leading[0], a, leading[1], &one,
                            c, leading[2],
                        )
                    }
                })
                .submit()?;
        }
    }
    let expected = rt.read(&a)?.dot(&rt.read(&b)?);
    assert_eq!(rt.take(c)?, expected);
    print!("{}", rt.statistics());
    Ok(())
}
