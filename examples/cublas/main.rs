//! A matrix product by cuBLAS, with an alternative body for CPU cores. The runtime provides a stream and views of the
//! regions as cudarc's types. There is one cuBLAS handle per stream.
//!
//! Without CUDA or cuBLAS, the cores do the work.

#![allow(unsafe_code)] // calls foreign functions

use cudarc::cublas::sys::cublasOperation_t::CUBLAS_OP_N;
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig, sys};
use ndarray::Array2;
use std::error::Error;
use thalweg::prelude::*;

const N: usize = 96;
const TILE: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
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
                    let ([n, k, ..], [_, m, ..]) = (a.extents().map(|n| n as i32), b.extents().map(|n| n as i32));
                    let [lda, ldb, ldc] = [b.strides(), a.strides(), c.strides()].map(|strides| strides[0] as i32);
                    let (transa, transb, alpha, beta) = (CUBLAS_OP_N, CUBLAS_OP_N, 1.0, 1.0);
                    let config = GemmConfig { transa, transb, m, n, k, alpha, lda, ldb, beta, ldc };
                    // SAFETY: cuBLAS enqueues on the task's stream, its handle is kept with the stream, and extents
                    // and strides are those of the task's regions.
                    unsafe {
                        let cuda = cx.cudarc()?;
                        let blas = cx.keep(|_| CudaBlas::new(cuda.stream().clone()))?;
                        blas.gemm(config, &cuda.view(&b), &cuda.view(&a), &mut cuda.view_mut(&mut c))?;
                    }
                    Ok::<(), Box<dyn Error + Send + Sync>>(())
                })
                .submit()?;
        }
    }
    let expected = rt.read(&a)?.dot(&rt.read(&b)?);
    assert_eq!(rt.take(c)?, expected);
    print!("{}", rt.statistics());
    Ok(())
}
