//! Arrays that tasks fill from a function of the index: every element has the value for its index, whatever the shape,
//! the parts and the machine; and failures of the function.

use crate::common::{for_each_mix, runtime};
use ndarray::{Array, Dimension, IntoDimension};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::memory::Shape;
use thalweg::prelude::*;

/// Encodes an index as a number that no other index has.
fn code<P: IntoDimension>(index: P) -> u64 {
    index.into_dimension().slice().iter().fold(1, |code, i| 1000 * code + *i as u64)
}

/// Fills an array of this shape by tasks, and compares it with ndarray's.
fn check<D: Shape>(rt: &Runtime, shape: D)
where
    D::Pattern: IntoDimension<Dim = D>,
{
    let data = rt.data_with(shape, code::<D::Pattern>).unwrap();
    assert_eq!(data.shape(), shape.slice());
    let found: Array<u64, D> = rt.take(data).unwrap().into();
    assert_eq!(found, Array::from_shape_fn(shape, code::<D::Pattern>));
}

#[test]
fn element_is_the_function_of_its_index() {
    for_each_mix(|rt| {
        for n in [0, 1, 2, 63, 64, 1000] {
            check(rt, ndarray::Ix1(n));
        }
        for shape in [(1, 1), (1, 500), (500, 1), (7, 13), (0, 4), (4, 0)] {
            check(rt, shape.into_dimension());
        }
        check(rt, ndarray::Ix3(3, 1, 200));
        check(rt, ndarray::Ix3(1, 0, 2));
        check(rt, ndarray::Ix4(2, 3, 4, 5));
        check(rt, ndarray::Ix4(1, 1, 1, 300));
    });
}

#[test]
fn elements_may_be_of_any_type_and_zero_sized() {
    let rt = runtime("2:CPU:1");
    let pairs = rt.data_with(300, |i| [i as f32, -1.0]).unwrap();
    assert_eq!(rt.read(&pairs.slice(298..)).unwrap(), [[298.0, -1.0], [299.0, -1.0]]);
    let nothing = rt.data_with([10, 10], |_| ()).unwrap();
    assert_eq!(rt.take(nothing).unwrap().len(), 100);
}

#[test]
fn function_is_called_once_per_index_and_dropped() {
    let rt = runtime("2:CPU:1");
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let data = rt.data_with([30, 40], move |_| counted.fetch_add(1, Ordering::Relaxed) as u64).unwrap();
    rt.wait().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1200);
    let mut numbers = rt.take(data).unwrap().into_raw_vec_and_offset().0;
    numbers.sort_unstable();
    assert_eq!(numbers, (0..1200).collect::<Vec<_>>());
    rt.wait().unwrap();
    assert_eq!(Arc::strong_count(&calls), 1);
}

#[test]
fn panicking_function_poisons_only_its_part() {
    for_each_mix(|rt| {
        let units = rt.machine().num_units();
        let fill = |i| if i == 100 { panic!("no element at {i}") } else { code(i) };
        let data: Data<u64> = rt.data_with(256, fill).unwrap();
        let Err(RunError::Failed(failures)) = rt.wait() else { panic!("the failure was not reported") };
        assert_eq!(failures[0].reason().to_string(), "panicked: no element at 100");
        assert!(rt.read(&data.slice(100)).is_err());
        let last = rt.read(&data.slice(254..));
        assert_eq!(last.ok(), (units > 1).then(|| vec![code(254), code(255)]));
    });
}

#[test]
fn ended_runtime_refuses_to_fill() {
    let rt = runtime("1:CPU:1");
    rt.shutdown().unwrap();
    assert_eq!(rt.data_with(10, code).unwrap_err(), SubmitError::ShutDown);
}

#[test]
#[should_panic = "the size overflows `isize`"]
fn array_larger_than_the_address_space_panics() {
    let _ = runtime("1:CPU:1").data_with([usize::MAX, 2], code);
}
