//! The phases of the iteration on accelerators: `kernels/cg.cl`, the counterpart of [`super::kernels`].
//!
//! What is enqueued adds to sums in the order in which groups of threads end: ζ may differ in its last digits from run to
//! run.

use thalweg::DeviceError;
use thalweg::kernel::{DeviceView, DeviceViewMut, Kernel, Launcher, Program, Read, Write};

/// Threads per row of the matrix: rows have some ten to some hundred entries.
const LANES: usize = 8;

const CG: Program = Program::new("cg.cl", include_str!("../../kernels/cg.cl"))
    .header("csr.h", include_str!("../../kernels/csr.h"))
    .header("reduce.h", include_str!("../../kernels/reduce.h"))
    .define("LANES", LANES as i64);
const BLAS: Program = Program::new("blas.cl", include_str!("../../kernels/blas.cl"))
    .header("reduce.h", include_str!("../../kernels/reduce.h"));

type Rd = Read<f64>;
type Wr = Write<f64>;

static FILL: Kernel<(Wr, f64, i32)> = Kernel::new(&BLAS, "fill");
static BEGIN: Kernel<(Rd, Wr, Wr, Wr, Wr, i32)> = Kernel::new(&CG, "begin");
static MULTIPLY: Kernel<(Read<u32>, Read<u32>, Rd, Rd, Wr, Wr, i32, i32)> = Kernel::new(&CG, "multiply");
static UPDATE_RESIDUAL: Kernel<(Rd, Rd, Rd, Wr, Wr, i32)> = Kernel::new(&CG, "update_residual");
static ADVANCE: Kernel<(Rd, Rd, Rd, Wr, Wr, i32)> = Kernel::new(&CG, "advance");
static NORMS: Kernel<(Read<u32>, Read<u32>, Rd, Rd, Rd, Wr, Wr, Wr, i32, i32)> = Kernel::new(&CG, "norms");
static ZETA: Kernel<(Rd, Rd, Wr, f64)> = Kernel::new(&CG, "zeta");
static NORMALISE: Kernel<(Rd, Rd, Wr, i32)> = Kernel::new(&CG, "normalise");
