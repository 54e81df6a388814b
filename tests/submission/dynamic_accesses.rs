//! Tests of accesses whose types are known only at run time.

#![allow(clippy::single_range_in_vec_init)] // regions of one dimension

use crate::common::{MIXES, watched};
use crate::random::Random;
use ndarray::{Array2, array, s};
use thalweg::dlpack::Tensor;
use thalweg::dynamic::{AnyAccess, AnyData, AnyView, Dtype, Op};
use thalweg::error::SubmitError;
use thalweg::prelude::*;

const NUMBERS: [Dtype; 10] = [
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::I64,
    Dtype::U8,
    Dtype::U16,
    Dtype::U32,
    Dtype::U64,
    Dtype::F32,
    Dtype::F64,
];

fn runtime(units: &str) -> Runtime {
    Runtime::builder().compute_units(units).build().unwrap()
}

#[test]
fn random_programs_match_sequential_execution() {
    watched("random dynamic programs", || {
        for seed in 0..60 {
            let mut random = Random(seed);
            let rt = runtime(random.of(&MIXES));
            let (shape, mut expected) = ([7, 9], Array2::<i64>::zeros((7, 9)));
            let data = AnyData::zeros(&rt, Dtype::I64, &shape).unwrap();
            let typed: Data<i64, Ix2> = data.typed().unwrap();
            for n in 0..40 {
                let (rows, columns) = (random.range(7), random.range(9));
                let part = expected.slice_mut(s![rows.clone(), columns.clone()]);
                let region = data.block(&[rows.clone(), columns.clone()]);
                match random.below(4) {
                    0 => {
                        { part }.fill(n);
                        let body = move |_: &Context, mut views: Vec<AnyView<'_>>| {
                            views[0].typed_mut::<i64, Ix2>().unwrap().fill(n);
                        };
                        rt.task("fill", vec![region.output()]).cpu(body).submit().unwrap();
                    }
                    1 => {
                        let factor = 1 + 2 * random.below(2) as i64; // only sums may be in any order
                        { part }.mapv_inplace(|x| x.wrapping_mul(factor) + n);
                        let access = if factor == 1 { region.commutative() } else { region.inout() };
                        let body = move |_: &Context, mut views: Vec<AnyView<'_>>| {
                            let mut x = views[0].typed_mut::<i64, Ix2>().expect("int64, two dimensions");
                            x.mapv_inplace(|x| x.wrapping_mul(factor) + n);
                        };
                        rt.task("add", vec![access]).cpu(body).submit().unwrap();
                    }
                    2 => {
                        { part }.mapv_inplace(|x| x.wrapping_add(n));
                        rt.task("reduce", vec![region.reduction(Op::Sum)])
                            .cpu(move |_, mut views| views[0].typed_mut::<i64, Ix2>().unwrap().fill(n))
                            .submit()
                            .unwrap();
                    }
                    _ => {
                        // A typed task of the same data object, in between.
                        { part }.mapv_inplace(|x| x ^ n);
                        rt.task("typed", typed.block((rows, columns)).inout())
                            .cpu(move |_, mut x| x.mapv_inplace(|x| x ^ n))
                            .submit()
                            .unwrap();
                    }
                }
            }
            drop(data);
            assert_eq!(rt.take(typed).unwrap(), expected, "seed {seed}");
        }
    });
}

/// Reduces three contributions in each number of dimensions, and compares with the same reduction of a typed access.
fn reduce<T: thalweg::dlpack::DlElement + PartialEq + std::fmt::Debug>(rt: &Runtime, of: impl Fn(u8) -> T)
where
    Sum: thalweg::memory::Reducer<T>,
{
    for shape in [vec![6], vec![2, 3], vec![6, 1], vec![1, 2, 3], vec![2, 1, 3, 1]] {
        let (x, y) = (AnyData::zeros(rt, Dtype::of::<T>(), &shape).unwrap(), rt.zeros::<T, _>(6));
        for n in 1..4 {
            let value = of(n);
            let mut bytes = Vec::new();
            (0..6).for_each(|_| bytes.extend_from_slice(thalweg::bytemuck::bytes_of(&value)));
            rt.task("reduce", vec![x.all().reduction(Op::Sum)])
                .cpu(move |_, mut views| views[0].bytes_mut().unwrap().copy_from_slice(&bytes))
                .submit()
                .unwrap();
            rt.task("reduce", y.reduction(Sum)).cpu(move |_, y| y.fill(value)).submit().unwrap();
        }
        let expected = rt.read(&y).unwrap();
        assert_eq!(x.all().read(rt).unwrap(), thalweg::bytemuck::cast_slice::<T, u8>(&expected), "{shape:?}");
    }
}

#[test]
fn reductions_of_all_types_match_typed_reductions() {
    for units in MIXES {
        let rt = runtime(units);
        reduce::<i8>(&rt, |n| 100 + n as i8);
        reduce::<u16>(&rt, u16::from);
        reduce::<i32>(&rt, i32::from);
        reduce::<u64>(&rt, u64::from);
        reduce::<f32>(&rt, |n| f32::from(n) / 3.0);
        reduce::<f64>(&rt, |n| f64::from(n) / 3.0);
        reduce::<thalweg::memory::Complex<f64>>(&rt, |n| thalweg::memory::Complex::new(f64::from(n), -1.0));
    }
    for dtype in NUMBERS {
        let rt = runtime("1:CPU:1");
        let x = AnyData::zeros(&rt, dtype, &[1]).unwrap();
        for op in [Op::Min, Op::Max, Op::Sum] {
            rt.task("reduce", vec![x.all().reduction(op)]).cpu(|_, _| ()).submit().unwrap();
        }
        assert_eq!(x.all().read(&rt).unwrap(), vec![0; dtype.size()], "{dtype}: identities change nothing");
    }
}

/// Regression test: rows of arrays whose last extent is 1 are found by the strides, not by the number of dimensions.
#[test]
fn reduction_of_borrowed_column_adds_to_that_column_only() {
    let rt = runtime("2:CPU:1");
    let mut matrix = Array2::<f64>::zeros((4, 3));
    rt.scope(|scope| {
        let column = scope.borrow_array_mut(matrix.slice_mut(s![.., 1..2])).unwrap();
        for n in 0..3 {
            let task = scope.task("reduce", column.reduction(Sum));
            task.cpu(move |_, mut x| x.fill(f64::from(n))).submit().unwrap();
        }
    })
    .unwrap();
    assert_eq!(matrix, array![[0., 3., 0.], [0., 3., 0.], [0., 3., 0.], [0., 3., 0.]]);
}

#[test]
fn elements_of_any_size_keep_their_bytes_and_alignment() {
    let rt = runtime("1:CPU:1,1:EMU:1");
    for (bytes, align) in [(1, 1), (3, 1), (12, 4), (24, 8), (40, 8), (48, 16)] {
        let dtype = Dtype::Bytes(bytes);
        let x = AnyData::zeros(&rt, dtype, &[5, 2]).unwrap();
        assert_eq!((dtype.align(), x.dtype()), (align, dtype));
        let content: Vec<u8> = (0..10 * bytes).map(|n| n as u8).collect();
        x.all().write(&rt, content.clone()).unwrap();
        for row in 0..5 {
            rt.task("invert", vec![x.block(&[row..row + 1]).inout()])
                .cpu(move |_, mut views| {
                    assert_eq!(views[0].as_ptr().addr() % align, 0);
                    views[0].bytes_mut().unwrap().iter_mut().for_each(|byte| *byte = !*byte);
                })
                .submit()
                .unwrap();
        }
        let inverted: Vec<u8> = content.iter().map(|byte| !byte).collect();
        assert_eq!(x.all().read(&rt).unwrap(), inverted);
        let refused = rt.task("sum", vec![x.all().reduction(Op::Sum)]).cpu(|_, _| ()).submit().unwrap_err();
        assert!(matches!(refused, SubmitError::NoOperation { .. }), "{refused}");
        assert!(refused.to_string().contains("`sum`") && refused.to_string().contains("no sum"), "{refused}");
    }
}

#[test]
fn view_has_only_what_its_access_allows() {
    let rt = runtime("1:CPU:1");
    let x = AnyData::zeros(&rt, Dtype::F64, &[4, 3]).unwrap();
    let accesses: Vec<AnyAccess> = vec![
        x.block(&[0..1]).input(),
        x.block(&[1..3, 1..2]).inout(),
        x.block(&[3..4, 0..1]).after(),
        x.block(&[3..4, 1..2]).output(),
    ];
    rt.task("views", accesses)
        .cpu(|_, mut views| {
            assert!(views[0].bytes_mut().is_none() && views[0].as_mut_ptr().is_null());
            assert!(views[0].typed_mut::<f64, Ix2>().is_none() && views[0].typed::<f64, Ix2>().is_some());
            assert!(views[0].typed::<f32, Ix2>().is_none() && views[0].typed::<f64, Ix1>().is_none());
            assert_eq!((views[0].bytes().unwrap().len(), views[0].to_bytes().len()), (24, 24));
            assert_eq!((views[1].shape(), views[1].strides()), (&[2, 1][..], &[3, 1][..]));
            assert!(!views[1].is_contiguous() && views[1].bytes().is_none() && views[1].is_writable());
            assert_eq!(views[1].to_bytes().len(), 16);
            assert!(views[2].as_ptr().is_null() && views[2].bytes().is_none() && views[2].to_bytes().is_empty());
            assert!(!views[3].as_mut_ptr().is_null());
        })
        .submit()
        .unwrap();
    rt.wait().unwrap();
}

#[test]
fn mistakes_are_refused_and_change_nothing() {
    let (rt, other) = (runtime("1:CPU:1"), runtime("1:CPU:1"));
    let x = AnyData::zeros(&rt, Dtype::I32, &[4]).unwrap().named("x");
    let submit = |rt: &Runtime, accesses: Vec<AnyAccess>| rt.task("t", accesses).cpu(|_, _| ()).submit();
    let refusals = [
        submit(&rt, vec![x.block(&[2..5]).input()]).unwrap_err(),
        submit(&other, vec![x.all().input()]).unwrap_err(),
        submit(&rt, vec![x.block(&[0..3]).output(), x.block(&[2..4]).input()]).unwrap_err(),
        AnyData::zeros(&rt, Dtype::F64, &[]).unwrap_err(),
        AnyData::zeros(&rt, Dtype::F64, &[1; 5]).unwrap_err(),
        AnyData::zeros(&rt, Dtype::F64, &[usize::MAX, 2]).unwrap_err(),
        AnyData::zeros(&rt, Dtype::F64, &[0, usize::MAX]).unwrap_err(),
        AnyData::zeros(&rt, Dtype::Bytes(0), &[1]).unwrap_err(),
        x.all().write(&rt, vec![0; 15]).unwrap_err(),
    ];
    for refusal in refusals {
        let text = refusal.to_string();
        assert!(text.starts_with("cannot ") && text.contains("; try "), "{text}");
    }
    assert!("float65".parse::<Dtype>().unwrap_err().contains("complex128"));
    assert_eq!(x.all().read(&rt).unwrap(), [0; 16]);
}

#[test]
fn failure_poisons_typed_and_untyped_readers() {
    let rt = runtime("2:CPU:1");
    let x = AnyData::zeros(&rt, Dtype::F64, &[4]).unwrap();
    rt.task("fails", vec![x.all().inout()]).cpu(|_, _| Err("no")).submit().unwrap();
    let error = x.all().read(&rt).unwrap_err();
    assert!(error.to_string().contains("`fails`") && error.to_string().contains("no"), "{error}");
    assert!(rt.read(&x.typed::<f64, Ix1>().unwrap()).is_err());
}

#[test]
fn adopted_tensors_of_any_type_are_used_in_place() {
    let rt = runtime("1:CPU:1,1:EMU:1");
    let x = AnyData::from_dlpack(&rt, Tensor::of(array![[1.0f32, 2.0], [3.0, 4.0]])).unwrap();
    assert_eq!((x.dtype(), x.shape()), (Dtype::F32, vec![2, 2]));
    rt.task("double", vec![x.all().inout()])
        .cpu(|_, mut views| views[0].typed_mut::<f32, Ix2>().unwrap().mapv_inplace(|x| 2.0 * x))
        .submit()
        .unwrap();
    assert_eq!(rt.take(x.typed::<f32, Ix2>().unwrap()).unwrap(), array![[2.0, 4.0], [6.0, 8.0]]);
}

#[test]
fn regions_are_exported_in_place_and_held() {
    let rt = runtime("2:CPU:1");
    let x: AnyData = rt.array(array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]).into();
    let right = x.block(&[0..2, 1..3]);
    let lent = rt.to_dlpack(right.clone().inout(), SpaceId::HOST).unwrap();
    assert_eq!((lent.shape(), lent.strides(), lent.is_read_only()), (&[2, 2][..], Some(&[3, 1][..]), false));
    let waiting = rt.task("wait", vec![right.clone().inout()]).cpu(|_, _| ()).submit_handle().unwrap();
    let left = rt.task("left", vec![x.block(&[0..2, 0..1]).inout()]).cpu(|_, _| ()).submit_handle().unwrap();
    left.wait().unwrap();
    assert!(!waiting.is_finished());

    let other = runtime("1:CPU:1");
    let y = AnyData::from_dlpack(&other, lent).unwrap();
    let double = |_: &Context, mut views: Vec<AnyView<'_>>| {
        views[0].typed_mut::<f32, Ix2>().unwrap().mapv_inplace(|x| 2.0 * x);
    };
    other.task("double", vec![y.all().inout()]).cpu(double).submit().unwrap();
    drop(y); // it is given back when the task has ended
    waiting.wait().unwrap();
    assert_eq!(rt.take(x.typed::<f32, Ix2>().unwrap()).unwrap(), array![[1.0, 4.0, 6.0], [4.0, 10.0, 12.0]]);
}

#[test]
fn only_inputs_and_inouts_of_numbers_are_exported() {
    let rt = runtime("1:CPU:1");
    let (x, odd) =
        (AnyData::zeros(&rt, Dtype::F64, &[4]).unwrap(), AnyData::zeros(&rt, Dtype::Bytes(3), &[4]).unwrap());
    assert!(rt.to_dlpack(x.all().input(), SpaceId::HOST).unwrap().is_read_only());
    for access in [x.all().output(), x.all().commutative(), x.all().reduction(Op::Sum), odd.all().input()] {
        let refused = rt.to_dlpack(access, SpaceId::HOST).unwrap_err().to_string();
        assert!(refused.contains("only `input` and `inout` of numbers can be exported; try"), "{refused}");
    }
}

#[test]
fn simulation_runs_no_body_and_reads_zeros() {
    let machine = thalweg::SimulatedMachine::from_file("machines/laptop.toml").unwrap();
    let rt = Runtime::builder().simulate(machine).build().unwrap();
    let x = AnyData::zeros(&rt, Dtype::F64, &[1 << 40]).unwrap();
    rt.task("t", vec![x.all().inout()]).cpu(|_, _| unreachable!("bodies do not run")).submit().unwrap();
    rt.wait().unwrap();
    assert_eq!(x.block(&[0..2]).read(&rt).unwrap(), [0; 16]);
}

#[test]
fn recordings_replay_dynamic_accesses() {
    let rt = runtime("2:CPU:1");
    let (x, sum) = (AnyData::zeros(&rt, Dtype::I64, &[8]).unwrap(), AnyData::zeros(&rt, Dtype::I64, &[1]).unwrap());
    let (inner, total) = (x.clone(), sum.clone());
    let recording = rt.record(|recorder| {
        recorder
            .task("step", vec![inner.all().inout()])
            .cpu(|_, mut views| views[0].typed_mut::<i64, Ix1>().unwrap().iter_mut().for_each(|x| *x += 1))
            .submit()?;
        recorder
            .task("sum", vec![inner.all().input(), total.all().reduction(Op::Sum)])
            .cpu(|_, mut views| {
                let sum: i64 = views[0].typed::<i64, Ix1>().unwrap().iter().sum();
                views[1].typed_mut::<i64, Ix1>().unwrap()[0] = sum;
            })
            .submit()?;
        Ok(())
    });
    let mut recording = recording.unwrap();
    for _ in 0..5 {
        recording.replay().unwrap();
    }
    assert_eq!(sum.all().read(&rt).unwrap(), (8 * (1 + 2 + 3 + 4 + 5i64)).to_ne_bytes());
}
