use super::*;

/// Combines the contributions in this order, starting from the identity.
fn reduce<T: Copy, R: Reducer<T>>(reducer: R, contributions: &[T]) -> T {
    let mut accumulator = reducer.identity();
    contributions.iter().for_each(|c| reducer.combine(&mut accumulator, *c));
    accumulator
}

#[test]
fn sum_min_and_max_are_the_same_in_every_order() {
    for values in [[3, -7, 5], [-7, 5, 3], [5, 3, -7], [5, -7, 3]] {
        assert_eq!((reduce(Sum, &values), reduce(Min, &values), reduce(Max, &values)), (1, -7, 5));
        let values = values.map(f64::from);
        assert_eq!((reduce(Sum, &values), reduce(Min, &values), reduce(Max, &values)), (1.0, -7.0, 5.0));
    }
    assert_eq!((reduce::<u32, _>(Min, &[]), reduce::<u32, _>(Max, &[])), (u32::MAX, u32::MIN));
    assert_eq!((reduce::<f32, _>(Min, &[]), reduce::<f32, _>(Max, &[])), (f32::INFINITY, f32::NEG_INFINITY));
}

#[test]
fn min_and_max_with_nan_give_nan_in_every_order() {
    let (one, other) = (f64::NAN, f64::from_bits(f64::NAN.to_bits() | 1).copysign(-1.0));
    for values in [[one, 2.0, other], [2.0, other, one], [other, one, 2.0], [one, other, 2.0]] {
        assert_eq!(reduce(Min, &values).to_bits(), other.to_bits());
        assert_eq!(reduce(Max, &values).to_bits(), one.to_bits());
    }
    for values in [[f32::NAN, f32::NEG_INFINITY], [f32::INFINITY, f32::NAN]] {
        assert!(reduce(Min, &values).is_nan() && reduce(Max, &values).is_nan());
    }
}

#[test]
fn sums_of_integers_wrap_and_are_the_same_in_every_order() {
    for values in [[100i8, 100, -100], [100, -100, 100], [-100, 100, 100]] {
        assert_eq!(reduce(Sum, &values), 100);
    }
    assert_eq!(reduce(Sum, &[u128::MAX, 3]), 2);
    assert_eq!((reduce::<u8, _>(Min, &[]), reduce::<i16, _>(Max, &[])), (u8::MAX, i16::MIN));
    assert_eq!((reduce(Min, &[isize::MAX, -5, 7]), reduce(Max, &[3u128, 9, 1])), (-5, 9));
}

#[test]
fn complex_numbers_are_added_by_their_parts() {
    let values = [Complex { re: 1.0, im: -2.0 }, Complex { re: 0.5, im: 4.0 }];
    assert_eq!(reduce(Sum, &values), Complex { re: 1.5, im: 2.0 });
    assert_eq!(reduce(Sum, &[Complex { re: 200u8, im: 1 }, Complex { re: 57, im: 1 }]), Complex { re: 1, im: 2 });
    assert!(!Reducer::<Complex<f64>>::in_any_order(&Sum), "their sums are rounded");
    assert!(Reducer::<Complex<i32>>::in_any_order(&Sum));
}

#[test]
fn arrays_are_reduced_element_by_element() {
    let values = [[1, 9, -4], [2, -8, -4], [3, 0, 7]];
    assert_eq!(reduce(Elementwise(Sum), &values), [6, 1, -1]);
    assert_eq!(reduce(Elementwise(Min), &values), [1, -8, -4]);
    assert_eq!(reduce(Elementwise(Max), &values), [3, 9, 7]);
    assert_eq!(reduce::<[u64; 2], _>(Elementwise(Min), &[]), [u64::MAX; 2]);
    let ids = [Reducer::<[i32; 3]>::id(&Elementwise(Sum)), Reducer::<[i32; 3]>::id(&Elementwise(Max))];
    assert_ne!(ids[0], ids[1], "different operations do not share a group");
}

#[test]
fn type_ids_are_stable_and_unique_ids_differ() {
    struct One;
    struct Other;
    assert_eq!(OpId::of::<One>(), OpId::of::<One>());
    let unique = OpId::unique();
    let ids = [SUM, MIN, MAX, OpId::of::<One>(), OpId::of::<Other>(), unique, OpId::unique()];
    let different: std::collections::BTreeSet<u32> = ids.iter().map(|id| id.0).collect();
    assert_eq!(different.len(), ids.len(), "{ids:?}");
}

#[test]
fn custom_operations_differ_by_id_not_by_name() {
    let (one, other) = (Reduction::new("add", 0, |a: &mut i32, b| *a += b), Reduction::new("add", 0, |_, _| ()));
    assert_eq!(one.id(), one.clone().id());
    assert_ne!(one.id(), other.id());
    assert_eq!((reduce(one, &[1, 2, 3]), reduce(other, &[1, 2, 3])), (6, 0));
}
