//! Correct programs: the sanitizer finds nothing in them and does not change their results.

use super::sanitizing;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis};
use thalweg::Context;
use thalweg::prelude::*;

const MACHINES: [&str; 4] = ["2:CPU:1", "1:CPU:2", "1:CPU:1,2:EMU:1", "1:EMU:1"];

#[test]
fn all_modes_of_access_give_the_usual_results() {
    for units in MACHINES {
        let rt = sanitizing(units);
        let (x, sum) = (rt.data((0..100).map(f64::from).collect::<Vec<_>>()), rt.scalar(0.0));
        let (total, last, counter) = (rt.scalar(0.0), rt.zeros::<f64, _>(1), rt.zeros::<u64, _>(1));
        for part in blocks(100, 7) {
            rt.task("double", x.slice(part.clone()).inout())
                .cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2.0))
                .submit()
                .unwrap();
            let add = |_: &Context, (x, sum): (&[f64], &mut [f64])| sum[0] += x.iter().sum::<f64>();
            rt.task("reduce", (x.slice(part.clone()).input(), sum.reduction(Sum))).cpu(add).submit().unwrap();
            rt.task("commute", (x.slice(part.clone()).input(), total.commutative())).cpu(add).submit().unwrap();
            rt.task("accumulate", (x.slice(part).input(), last.accumulate(Sum))).cpu(add).submit().unwrap();
            rt.task("count", counter.concurrent()).cpu(|_, counter| counter.update(0, |n| n + 1)).submit().unwrap();
        }
        let x_is = |_: &Context, x: Result<&[f64], &thalweg::error::TaskFailure>| assert_eq!(x.unwrap()[99], 198.0);
        rt.task("look", x.outcome()).cpu(x_is).submit().unwrap();
        for one in [sum, total, last] {
            assert_eq!(rt.take(one).unwrap(), [9900.0], "{units}");
        }
        assert_eq!(rt.take(counter).unwrap(), [15]);
    }
}

#[test]
fn blocks_of_matrices_are_copied_there_and_back() {
    for units in MACHINES {
        let rt = sanitizing(units);
        let elements = |(i, j): (usize, usize)| (10 * i + j) as f64;
        let (x, y) = (rt.array(Array2::from_shape_fn((20, 30), elements)), rt.array(Array2::<f64>::zeros((30, 20))));
        for (i, j) in (0..4).flat_map(|i| (0..3).map(move |j| (i, j))) {
            let (rows, columns) = (5 * i..5 * i + 5, 10 * j..10 * j + 10);
            let accesses = (x.block((rows.clone(), columns.clone())).input(), y.block((columns, rows)).output());
            let body = |_: &Context, (x, mut y): (ArrayView2<'_, f64>, ArrayViewMut2<'_, f64>)| y.assign(&x.t());
            rt.task("transpose", accesses).cpu(body).submit().unwrap();
        }
        let column = |_: &Context, mut y: ArrayViewMut2<'_, f64>| y.map_inplace(|y| *y += 0.5);
        rt.task("column", y.block((.., 3)).inout()).cpu(column).submit().unwrap();
        let mut expected = Array2::from_shape_fn((30, 20), |(i, j)| elements((j, i)));
        expected.index_axis_mut(Axis(1), 3).map_inplace(|y| *y += 0.5);
        assert_eq!(rt.take(y).unwrap(), expected, "{units}");
    }
}

#[test]
fn values_futures_lent_regions_and_empty_regions_work_as_ever() {
    let rt = sanitizing("2:CPU:1");
    let (text, x) = (rt.value(String::from("a")), rt.data(vec![1u64; 10]));
    rt.task("append", text.inout()).cpu(|_, text| text.push('b')).submit().unwrap();
    rt.task("late", x.slice(2..5).inout()).host_async(|_, mut x| async move { x.fill(3) }).submit().unwrap();
    rt.task("empty", (x.slice(5..5).output(), x.slice(..2).inout())).cpu(|_, (_, x)| x[0] = 2).submit().unwrap();
    let sum = rt.task("sum", x.input()).returns(|_, x| x.iter().sum::<u64>()).submit().unwrap();
    assert_eq!((sum.get().unwrap(), rt.take(text).unwrap()), (2 + 1 + 9 + 5, "ab".to_owned()));
}

#[test]
fn variable_turns_the_sanitizer_on_and_refuses_other_words() {
    let inner = std::env::var("THALWEG_SANITIZE").unwrap_or_default();
    let name = "correct::variable_turns_the_sanitizer_on_and_refuses_other_words";
    match &*inner {
        "" => ["1", "0", "yes"].iter().for_each(|value| _ = super::common::again(name, &[("THALWEG_SANITIZE", value)])),
        "yes" => {
            let error = Runtime::builder().compute_units("1:CPU:1").build().unwrap_err().to_string();
            assert_eq!(error, "THALWEG_SANITIZE: `yes` is not a choice; try 1 or 0");
        }
        value => {
            let build = |builder: thalweg::Builder| builder.compute_units("1:CPU:1").build().unwrap();
            let finds = |rt: Runtime| {
                let x = rt.data(vec![1.0; 4]);
                rt.task("lazy", x.output()).cpu(|_, _| ()).submit().unwrap();
                rt.wait().is_err()
            };
            assert_eq!(finds(build(Runtime::builder())), value == "1");
            assert!(!finds(build(Runtime::builder().sanitize(false))), "the program's word counts more");
        }
    }
}
