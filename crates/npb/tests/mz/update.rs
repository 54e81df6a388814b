//! Tests of adding a change to the state.

use ndarray::{Array4, s};
use npb::mz::COMPONENTS;
use npb::mz::update::add;

#[test]
fn add_changes_only_interior() {
    for shape in [[COMPONENTS, 3, 3, 3], [COMPONENTS, 5, 4, 23], [COMPONENTS, 4, 9, 18]] {
        let interior = s![.., 1..-1, 1..-1, 1..-1];
        let u = Array4::from_shape_fn(shape, |(m, k, j, i)| (m * 7 + k * 5 + j * 3 + i) as f64 * 0.1);
        let mut change = Array4::zeros(shape);
        change.slice_mut(interior).assign(&u.slice(interior).mapv(f64::sin));
        let mut expected = u.clone();
        expected.slice_mut(interior).zip_mut_with(&change.slice(interior), |u, change| *u += 0.5 * change);
        // Boundary planes of the change must not be read.
        change.slice_mut(s![.., ..1, .., ..]).fill(f64::NAN);
        change.slice_mut(s![.., -1.., .., ..]).fill(f64::NAN);
        for threads in [1, 3] {
            let mut updated = u.clone();
            add(0.5, &change.view(), updated.view_mut(), threads);
            assert_eq!(updated, expected, "{shape:?} on {threads} threads");
        }
    }
}
