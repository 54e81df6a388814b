//! The exchange between zones on accelerators: `kernels/pack.cl`, the counterpart of [`crate::mz::exchange`].

use thalweg::kernel::{Kernel, Launcher, Program};

use super::{Enqueued, Rd, Reads, Wr, Writes};

#[allow(unsafe_code)]
// SAFETY: the kernels compare every index with the box's extents, so they touch only elements of the box.
const PACK: Program = unsafe { Program::new("pack.cl", include_str!("../../../../../kernels/pack.cl")) };

type CopyBox = (Rd, Wr, i32, i32, i32, i32, i64, i64, i64, i64, i64, i64, i64, i64);
static COPY_BOX: Kernel<CopyBox> = Kernel::new(&PACK, "copy_box8");

/// Copies a face, which is a box with a single index along its normal axis. The strides of the arrays may differ.
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if the faces differ in their extents.
pub fn copy(k: &mut Launcher<'_>, from: &Reads<'_>, to: &mut Writes<'_>) -> Enqueued {
    assert_eq!(from.extents(), to.extents(), "extents of a face");
    let [a, b, c, d] = from.extents();
    let ([f0, f1, f2, f3], [t0, t1, t2, t3]) = (from.strides().map(|s| s as i64), to.strides().map(|s| s as i64));
    let [n0, n1, n2, n3] = from.extents().map(|n| n as i32);
    k.launch(&COPY_BOX, [c * d, b, a], (from, to, n0, n1, n2, n3, f0, f1, f2, f3, t0, t1, t2, t3))
}
