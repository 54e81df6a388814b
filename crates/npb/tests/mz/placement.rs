//! Compares the addresses of the plain loop's arrays with those of tasks.

use ndarray::Ix4;
use npb::mz::placement::placed_zeros;
use thalweg::prelude::*;

/// The allocator partly determines where arrays begin in a page. Therefore, the test asserts only that they begin
/// at cache lines, and are spread over several lines.
#[test]
fn plain_arrays_are_placed_like_runtime_arrays() {
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
