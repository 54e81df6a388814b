//! Where large arrays begin: outside the runtime as in it.
//!
//! What tasks are measured against must not lose, or win, by how its arrays lie. Zones' arrays in the runtime share huge pages, too,
//! which these cannot: so the fairest plain loop is the one on the runtime's own arrays, [`Program::in_loop`](super::Program::in_loop).

use ndarray::{Array1, Array4, s};

/// Zeros that begin where the `number`-th array of a [`Runtime`](thalweg::Runtime) does: large ones at a cache line, each at
/// another line of its page.
pub(crate) fn placed_zeros(shape: [usize; 4], number: usize) -> Array4<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg::prelude::*;

    /// Where arrays begin in a page is a matter of the allocator too; that they begin at lines, and spread, is ours.
    #[test]
    fn the_plain_loops_arrays_lie_as_those_of_tasks() {
        const SHAPE: [usize; 4] = [5, 13, 17, 19];
        const PAGE: usize = 4096;
        let rt = Runtime::builder().compute_units("1:CPU:1").use_current_thread(true).build().unwrap();
        let [mut of_tasks, mut of_loop] = [(); 2].map(|()| std::collections::BTreeSet::new());
        for number in 0..70 {
            let x: Data<f64, Ix4> = rt.zeros(SHAPE);
            let (tell, place) = std::sync::mpsc::channel();
            let body = move |_: &Context, (x,): (ndarray::ArrayView4<'_, f64>,)| {
                tell.send(x.as_ptr().addr() % PAGE).unwrap();
            };
            rt.task("where", (x.input(),)).cpu(body).submit().unwrap();
            rt.wait().unwrap();
            let own = placed_zeros(SHAPE, number);
            assert_eq!((own.shape(), own.sum()), (&SHAPE[..], 0.0));
            let (theirs, ours) = (place.recv().unwrap(), own.as_ptr().addr() % PAGE);
            assert!(theirs.is_multiple_of(64) && ours.is_multiple_of(64), "array {number}: {theirs} and {ours}");
            of_tasks.insert(theirs);
            of_loop.insert(ours);
        }
        assert!(of_tasks.len() > 16 && of_loop.len() > 16, "{} and {} lines", of_tasks.len(), of_loop.len());
    }
}
