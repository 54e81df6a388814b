//! Where large arrays begin: outside the runtime as in it.
//!
//! What tasks are measured against must not lose, or win, by how its arrays lie. Zones' arrays in the runtime share huge pages, too,
//! which these cannot: so the fairest plain loop is the one on the runtime's own arrays, [`Program::in_loop`](super::Program::in_loop).

use ndarray::{Array1, Array4, s};

/// Zeros that begin where the `number`-th array of a [`Runtime`](thalweg::Runtime) does: large ones at a cache line, each at
/// another line of its page.
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
    array.expect("an interval of an array has its elements side by side")
}
