//! Code that is generic over the number of dimensions: how it uses the views of its tasks and the arrays it reads.

use crate::common::{MIXES, runtime};
use ndarray::{Array, ArrayView, ArrayViewMut, IntoDimension, Zip};
use thalweg::memory::Shape;
use thalweg::prelude::*;

/// Numbers the elements in row-major order.
fn number<D: Shape>(rt: &Runtime, data: &Data<f64, D>) -> Result<TaskId, SubmitError> {
    rt.task("number", (data.output(),))
        .cpu(|_, (view,)| {
            let mut view: ArrayViewMut<'_, f64, D> = view.into();
            view.iter_mut().enumerate().for_each(|(i, x)| *x = i as f64);
        })
        .submit()
}

/// Adds the sum of its indices to each element, and stores the shape that the body saw.
fn add_indices<D: Shape>(rt: &Runtime, data: &Data<f64, D>, shape: &Data<u64>) -> Result<TaskId, SubmitError> {
    rt.task("add", (data.inout(), shape.inout()))
        .cpu(|_, (view, shape)| {
            let mut view: ArrayViewMut<'_, f64, D> = view.into();
            for (to, extent) in shape.iter_mut().zip(view.shape()) {
                *to = *extent as u64;
            }
            let last = view.raw_dim();
            Zip::indexed(&mut view).for_each(|index, x| {
                *x += index.into_dimension().slice().iter().sum::<usize>() as f64;
            });
            let mut corner = D::zeros(last.ndim());
            view[corner] = -1.0;
            corner.slice_mut().copy_from_slice(last.slice());
            corner.slice_mut().iter_mut().for_each(|index| *index -= 1);
            view[corner] = -2.0;
        })
        .submit()
}

/// Returns the sum, computed by a body that captures the view in rayon closures.
fn sum<D: Shape>(rt: &Runtime, data: &Data<f64, D>) -> f64 {
    let result = rt.scalar(0.0);
    rt.task("sum", (data.input(), result.output()))
        .cpu(|_, (view, result)| {
            let view: ArrayView<'_, f64, D> = view.into();
            let (whole, again) = rayon::join(|| view.sum(), || view.iter().sum::<f64>());
            assert_eq!(whole, again);
            result[0] = whole;
        })
        .submit()
        .unwrap();
    rt.read(&result).unwrap()[0]
}

fn all_of_it<D: Shape>(rt: &Runtime, shape: D) {
    let data: Data<f64, D> = rt.zeros(shape);
    let seen = rt.data(vec![1u64; 4]);
    number(rt, &data).unwrap();
    add_indices(rt, &data, &seen).unwrap();
    let mut expected = Array::from_shape_fn(shape, |index| index.into_dimension().slice().iter().sum::<usize>() as f64);
    expected.iter_mut().enumerate().for_each(|(i, x)| *x += i as f64);
    *expected.first_mut().unwrap() = -1.0;
    *expected.last_mut().unwrap() = -2.0;
    let array: Array<f64, D> = rt.read(&data).unwrap().into();
    assert_eq!(array, expected);
    assert_eq!(sum(rt, &data), expected.sum());
    let seen = rt.take(seen).unwrap();
    assert_eq!(seen[..shape.ndim()].iter().map(|extent| *extent as usize).collect::<Vec<_>>(), shape.slice());
    let taken: Array<f64, D> = rt.take(data).unwrap().into();
    assert_eq!(taken, expected);
}

#[test]
fn generic_function_works_for_one_to_four_dimensions() {
    for units in MIXES {
        let rt = runtime(units);
        all_of_it(&rt, Ix1(24));
        all_of_it(&rt, Ix2(4, 6));
        all_of_it(&rt, Ix3(2, 3, 4));
        all_of_it(&rt, Ix4(2, 3, 2, 2));
    }
}
