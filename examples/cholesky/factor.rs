//! The matrix and the tasks of the factorization. The example `eviction` shares this file.

use super::kernels::{gemm, potrf, trsm};
use thalweg::prelude::*;

/// Submits the factorization of a matrix of this many tiles along each side, given each tile.
pub(crate) fn factor<'a>(
    rt: &Runtime,
    tiles: usize,
    a: impl Fn(usize, usize) -> Region<'a, f64, Ix2>,
) -> Result<(), SubmitError> {
    for k in 0..tiles {
        rt.task("potrf", (a(k, k).inout(),)).cpu(|_, (a,)| potrf(a)).submit()?;
        for i in k + 1..tiles {
            let accesses = (a(k, k).input(), a(i, k).inout());
            rt.task("trsm", accesses).cpu(|_, (l, a)| trsm(l, a)).submit()?;
        }
        for i in k + 1..tiles {
            for j in k + 1..i {
                let accesses = (a(i, k).input(), a(j, k).input(), a(i, j).inout());
                rt.task("gemm", accesses).cpu(|_, (left, right, mut a)| gemm(left, right, &mut a)).submit()?;
            }
            let accesses = (a(i, k).input(), a(i, i).inout());
            rt.task("syrk", accesses).cpu(|_, (left, mut a)| gemm(left, left, &mut a)).submit()?;
        }
    }
    Ok(())
}

/// Returns an element of a symmetric matrix that is positive definite because it is diagonally dominant.
pub(crate) fn element(n: usize, i: usize, j: usize) -> f64 {
    if i == j { n as f64 } else { 1.0 / (1 + i.abs_diff(j)) as f64 }
}
