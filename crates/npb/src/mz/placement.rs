//! Placement of large arrays outside the runtime, at the same offsets as inside the runtime.
//!
//! A baseline that tasks are compared with must neither gain nor lose from its array layout. In the runtime, the
//! zones' arrays also share huge pages, which is impossible here. Therefore, the fairest baseline is the plain loop
//! over the runtime's own arrays, [`Program::in_loop`](super::Program::in_loop).

use ndarray::{Array1, Array4, s};

/// Returns zeros that begin at the same offset as array `number` of a [`Runtime`](thalweg::Runtime). Large arrays
/// are aligned to a cache line, and each begins at a different line of its page.
pub fn placed_zeros(shape: [usize; 4], number: usize) -> Array4<f64> {
    const LINE: usize = 64;
    const LINES: usize = 64;
    const LARGE_BYTES: usize = 16 * LINES * LINE;
    let len: usize = shape.iter().product();
    if len * size_of::<f64>() < LARGE_BYTES {
        return Array4::zeros(shape);
    }
    let per_line = LINE / size_of::<f64>();
    let memory = Array1::<f64>::zeros(len + LINES * per_line);
    let to_line = memory.as_ptr().addr().next_multiple_of(LINE) - memory.as_ptr().addr();
    let first = to_line / size_of::<f64>() + number * 17 % (LINES - 1) * per_line;
    let array = memory.slice_move(s![first..first + len]).into_shape_with_order(shape);
    array.expect("an interval of an array is contiguous")
}
