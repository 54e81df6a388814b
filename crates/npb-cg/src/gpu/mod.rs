//! The phases of the iteration on accelerators: `kernels/cg.cl`, the counterpart of [`super::kernels`].
//!
//! Kernels add to sums in the order in which thread groups finish, so the last digits of ζ may differ from run to
//! run.

use thalweg::kernel::{DeviceView, DeviceViewMut, Kernel, Launcher, Program, Read, Write};
use thalweg::prelude::DeviceError;

/// Threads per row of the matrix. Rows have from about ten to a few hundred entries.
const LANES: usize = 8;

#[allow(unsafe_code)]
// SAFETY: a kernel's thread touches only the elements of its row or index, which it compares with `rows` and `n`,
// and the elements that offsets and columns refer to, which it compares with `entries` and `width`. So all accesses
// are in bounds.
const CG: Program = unsafe { Program::new("cg.cl", include_str!("../../kernels/cg.cl")) }
    .header("csr.h", include_str!("../../../../kernels/csr.h"))
    .header("reduce.h", include_str!("../../../../kernels/reduce.h"))
    .define("LANES", LANES as i64);
#[allow(unsafe_code)]
// SAFETY: a kernel's thread compares its index with `n` and touches only the element at that index, so all accesses
// are in bounds.
const BLAS: Program = unsafe { Program::new("blas.cl", include_str!("../../../../kernels/blas.cl")) }
    .header("reduce.h", include_str!("../../../../kernels/reduce.h"));

/// A region that a task reads.
type Reads<'a> = &'a DeviceView<'a, f64>;
/// A region that a task writes.
type Writes<'a, 'b> = &'a mut DeviceViewMut<'b, f64>;
/// The result of enqueueing work.
pub type Enqueued = Result<(), DeviceError>;

/// Parameters of kernels.
type Rd = Read<f64>;
type Wr = Write<f64>;

/// Parameters: offsets, columns, values, p, q; sum; index of the first row; numbers of rows, of entries, and of the
/// matrix's columns.
type Multiply = (Read<u32>, Read<u32>, Rd, Rd, Wr, Wr, i32, i32, i32, i32);
/// Parameters: offsets, columns, values, x, z; three sums; index of the first row; numbers of rows, of entries, and
/// of the matrix's columns.
type Norms = (Read<u32>, Read<u32>, Rd, Rd, Rd, Wr, Wr, Wr, i32, i32, i32, i32);

static FILL: Kernel<(Wr, f64, i32)> = Kernel::new(&BLAS, "fill");
static BEGIN: Kernel<(Rd, Wr, Wr, Wr, Wr, i32)> = Kernel::new(&CG, "begin");
static MULTIPLY: Kernel<Multiply> = Kernel::new(&CG, "multiply");
static UPDATE_RESIDUAL: Kernel<(Rd, Rd, Rd, Wr, Wr, i32)> = Kernel::new(&CG, "update_residual");
static ADVANCE: Kernel<(Rd, Rd, Rd, Wr, Rd, Wr, i32)> = Kernel::new(&CG, "advance");
static PASS_ON: Kernel<(Rd, Wr, Wr)> = Kernel::new(&CG, "pass_on");
static NORMS: Kernel<Norms> = Kernel::new(&CG, "norms");
static ZETA: Kernel<(Rd, Rd, Wr, f64)> = Kernel::new(&CG, "zeta");
static NORMALISE: Kernel<(Rd, Rd, Wr, i32)> = Kernel::new(&CG, "normalise");

/// A block of rows of the matrix; see [`super::kernels::Rows`].
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// Index of the first entry of each row.
    pub offsets: &'a DeviceView<'a, u32>,
    /// Column of each entry of the block.
    pub columns: &'a DeviceView<'a, u32>,
    /// Value of each entry of the block.
    pub values: Reads<'a>,
    /// Index of the block's first row in the matrix.
    pub first: usize,
}

impl Rows<'_> {
    fn count(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// Sets every element of `x` to `value`.
pub fn fill(k: &mut Launcher<'_>, x: Writes<'_, '_>, value: f64) -> Enqueued {
    let n = x.len();
    k.launch(&FILL, n, (x, value, number(n)))
}

/// Sets `z = 0`, `r = p = x`; adds x · x to `rho`.
pub fn begin(k: &mut Launcher<'_>, x: Reads<'_>, [z, r, p]: [Writes<'_, '_>; 3], rho: Writes<'_, '_>) -> Enqueued {
    k.launch(&BEGIN, x.len(), (x, z, r, p, rho, number(x.len())))
}

/// Computes `q = A p` on a block of rows; adds the block's part of p · q to `p_dot_q`.
pub fn multiply(
    k: &mut Launcher<'_>,
    rows: Rows<'_>,
    p: Reads<'_>,
    q: Writes<'_, '_>,
    p_dot_q: Writes<'_, '_>,
) -> Enqueued {
    let Rows { offsets, columns, values, first } = rows;
    let [first, count, entries, width] = [first, rows.count(), values.len(), p.len()].map(number);
    let arguments = (offsets, columns, values, p, q, p_dot_q, first, count, entries, width);
    k.launch(&MULTIPLY, LANES * rows.count(), arguments)
}

/// Computes `r -= α q` with α = `rho` / `p_dot_q`; adds r · r to `next_rho`.
pub fn update_residual(
    k: &mut Launcher<'_>,
    [rho, p_dot_q]: [Reads<'_>; 2],
    q: Reads<'_>,
    r: Writes<'_, '_>,
    next_rho: Writes<'_, '_>,
) -> Enqueued {
    k.launch(&UPDATE_RESIDUAL, q.len(), (rho, p_dot_q, q, r, next_rho, number(q.len())))
}

/// Computes `z += α p` and `next = r + β p`, with α = `rho[0]` / `p_dot_q` and β = `rho[1]` / `rho[0]`.
pub fn advance(
    k: &mut Launcher<'_>,
    [rho, p_dot_q]: [Reads<'_>; 2],
    r: Reads<'_>,
    z: Writes<'_, '_>,
    p: Reads<'_>,
    next: Writes<'_, '_>,
) -> Enqueued {
    k.launch(&ADVANCE, r.len(), (rho, p_dot_q, r, z, p, next, number(r.len())))
}

/// Copies a scalar to two others.
pub fn pass_on(k: &mut Launcher<'_>, from: Reads<'_>, [first, second]: [Writes<'_, '_>; 2]) -> Enqueued {
    k.launch(&PASS_ON, 1, (from, first, second))
}

/// Adds the norms on a block of rows, [`super::kernels::Norms`], to `residual`, `x_dot_z` and `z_dot_z`.
pub fn norms(
    k: &mut Launcher<'_>,
    rows: Rows<'_>,
    [x, z]: [Reads<'_>; 2],
    [residual, x_dot_z, z_dot_z]: [Writes<'_, '_>; 3],
) -> Enqueued {
    let Rows { offsets, columns, values, first } = rows;
    let [first, count, entries, width] = [first, rows.count(), values.len(), z.len()].map(number);
    let arguments = (offsets, columns, values, x, z, residual, x_dot_z, z_dot_z, first, count, entries, width);
    k.launch(&NORMS, LANES * rows.count(), arguments)
}

/// Computes ζ and the norm of the residual.
pub fn zeta(
    k: &mut Launcher<'_>,
    [residual, x_dot_z]: [Reads<'_>; 2],
    outcome: Writes<'_, '_>,
    shift: f64,
) -> Enqueued {
    k.launch(&ZETA, 1, (residual, x_dot_z, outcome, shift))
}

/// Computes `x = z / ‖z‖`.
pub fn normalise(k: &mut Launcher<'_>, [z_dot_z, z]: [Reads<'_>; 2], x: Writes<'_, '_>) -> Enqueued {
    k.launch(&NORMALISE, z.len(), (z_dot_z, z, x, number(z.len())))
}

/// Converts an element count to the type that kernels take.
fn number(n: usize) -> i32 {
    i32::try_from(n).expect("rows that 32 bits can count")
}
