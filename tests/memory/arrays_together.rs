//! Arrays of zeros that share one allocation: operations on one never affect the others.

use ndarray::ArrayViewMut2;
use thalweg::prelude::*;

#[test]
fn arrays_made_together_are_independent() {
    let rt = Runtime::builder().compute_units("2:CPU:1,1:EMU:1").build().unwrap();
    let shapes = [[3, 0], [64, 64], [1, 1], [1400, 512], [5, 7]];
    let arrays: Vec<Data<u32, Ix2>> = rt.zeros_together(shapes);
    for (array, shape) in arrays.iter().zip(shapes) {
        assert_eq!(array.shape(), shape);
    }
    for round in 0..3 {
        for (number, array) in arrays.iter().enumerate() {
            let add = move |mut x: ArrayViewMut2<'_, u32>| x.iter_mut().for_each(|x| *x += number as u32 + round);
            rt.task("add", array.inout()).cpu(move |_, x| add(x)).submit().unwrap();
        }
    }
    // One array is taken and others are dropped, while tasks that use them may be pending.
    let mut arrays = arrays.into_iter();
    let [empty, second, _, large, last] = [(); 5].map(|()| arrays.next().unwrap());
    drop(last);
    let taken = rt.take(large).unwrap();
    assert_eq!((taken.shape(), taken.iter().all(|x| *x == 3 * 3 + 3)), (&[1400, 512][..], true));
    assert!(rt.take(empty).unwrap().is_empty());
    let kept = rt.read(&second).unwrap();
    drop((second, rt));
    assert!(kept.iter().all(|x| *x == 3 + 3));
}

#[test]
#[should_panic(expected = "try smaller arrays")]
fn arrays_larger_than_the_address_space_panic() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let _: Vec<Data<u8>> = rt.zeros_together([[1usize << 62], [1 << 62], [1 << 62]]);
}
