//! Forms of accesses besides short tuples: single accesses, nested tuples and lists.

use crate::common::{for_each_mix, runtime};
use thalweg::prelude::*;
use thalweg::task::Accesses;

#[test]
fn single_access_needs_no_tuple() {
    for_each_mix(|rt| {
        let x = rt.data(vec![1u64; 10]);
        rt.task("add", x.slice(3..5).inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
        rt.task("reduce", x.slice(4).reduction(Sum)).cpu(|_, x| x[0] += 5).submit().unwrap();
        assert_eq!(rt.read(&x).unwrap(), [1, 1, 1, 2, 7, 1, 1, 1, 1, 1]);
    });
}

/// Sixteen accesses in all modes, in tuples of different nesting.
#[test]
fn nested_tuples_of_accesses_give_nested_views() {
    for_each_mix(|rt| {
        let x: Vec<_> = (0..16).map(|i| rt.data(vec![i as u64; 3])).collect();
        let inner = (x[0].input(), x[1].input(), (x[2].input(), ()), x[3].inout());
        let reductions = ((x[4].reduction(Sum), x[5].after()), x[6].reduction(Max), (x[7].commutative(),));
        let rest = (x[8].output(), x[9].output(), x[10].output(), x[11].output());
        rt.task(
            "nested",
            (inner, (reductions, rest), ((((x[12].input(),), x[13].inout()), x[14].input()), x[15].inout())),
        )
        .cpu(|_, ((a, b, (c, ()), d), (((e, ()), f, (g,)), rest), ((((h,), i), j), k))| {
            d[0] = a[0] + b[1] + c[2];
            e[0] = 100;
            f[1] = 200;
            g[2] = 300;
            let (p, q, r, s) = rest;
            for (n, out) in [p, q, r, s].into_iter().enumerate() {
                out.fill(n as u64);
            }
            i[0] += h[0];
            k[1] += j[0];
        })
        .submit()
        .unwrap();
        let value = |i: usize| rt.read(&x[i]).unwrap();
        assert_eq!(value(3), [3, 3, 3]);
        assert_eq!(value(4), [104, 4, 4]);
        assert_eq!(value(6), [6, 200, 6]);
        assert_eq!(value(7), [7, 7, 300]);
        assert_eq!([value(8), value(9), value(10), value(11)], [[0; 3], [1; 3], [2; 3], [3; 3]]);
        assert_eq!(value(13), [25, 13, 13]);
        assert_eq!(value(15), [15, 29, 15]);
    });
}

#[test]
fn lists_of_accesses_of_any_length_match_host() {
    for_each_mix(|rt| {
        let x = rt.data((0..200u64).collect());
        for len in [0, 1, 2, 12, 13, 50] {
            let size = 200 / len.max(1);
            let parts = || blocks(200, size).take(len);
            let others: Vec<_> = (0..len).map(|_| rt.scalar(0u64)).collect();
            let before = rt.read(&x).unwrap();
            let (inputs, outputs): (Vec<_>, Vec<_>) =
                (parts().map(|part| x.slice(part).input()).collect(), others.iter().map(Data::output).collect());
            rt.task("gather", (inputs, outputs))
                .cpu(move |_, (inputs, outputs)| {
                    assert_eq!((inputs.len(), outputs.len()), (len, len));
                    for (input, output) in inputs.iter().zip(outputs) {
                        output[0] = input.iter().sum();
                    }
                })
                .submit()
                .unwrap();
            for (part, other) in parts().zip(&others) {
                assert_eq!(rt.read(other).unwrap()[0], before[part].iter().sum::<u64>());
            }
            let inouts: Vec<_> = parts().map(|part| x.slice(part).inout()).collect();
            rt.task("scatter", &inouts[..])
                .cpu(|_, mut views| {
                    for (i, view) in views.iter_mut().enumerate() {
                        view[0] += i as u64;
                    }
                })
                .submit()
                .unwrap();
            let mut expected = before;
            parts().enumerate().for_each(|(i, part)| expected[part.start] += i as u64);
            assert_eq!(rt.read(&x).unwrap(), expected);
        }
    });
}

/// List members with several accesses each, and lists in lists of different lengths.
#[test]
fn lists_of_tuples_and_lists_of_lists_match_host() {
    for_each_mix(|rt| {
        let x: Vec<_> = (0..10).map(|i| rt.scalar(i as u64)).collect();
        let y: Vec<_> = (0..10).map(|_| rt.scalar(1u64)).collect();
        for _ in 0..3 {
            let pairs: Vec<_> = x.iter().zip(&y).map(|(x, y)| (x.input(), y.reduction(Sum))).collect();
            rt.task("pairs", pairs).cpu(|_, pairs| pairs.into_iter().for_each(|(x, y)| y[0] += x[0])).submit().unwrap();
        }
        let sums: Vec<_> = y.iter().map(|y| rt.read(y).unwrap()[0]).collect();
        assert_eq!(sums, (0..10).map(|i| 1 + 3 * i).collect::<Vec<u64>>());
        let triangle: Vec<Vec<_>> =
            (0..4).map(|n| x[n * (n + 1) / 2..][..n].iter().map(|x| x.reduction(Sum)).collect()).collect();
        rt.task("triangle", triangle)
            .cpu(|_, rows| {
                for (n, row) in rows.into_iter().enumerate() {
                    assert_eq!(row.len(), n);
                    row.into_iter().for_each(|x| x[0] += 10 * n as u64);
                }
            })
            .submit()
            .unwrap();
        let added: Vec<_> = x.iter().enumerate().map(|(i, x)| rt.read(x).unwrap()[0] - i as u64).collect();
        assert_eq!(added, [0, 10, 0, 20, 20, 0, 30, 30, 30, 0]);
    });
}

#[test]
fn overlapping_members_of_a_list_are_refused() {
    let rt = runtime("1:CPU:1");
    let (x, y) = (rt.data(vec![0u64; 1000]), rt.data(vec![0u64; 1000]));
    fn refusal(rt: &Runtime, accesses: impl Accesses) -> Option<String> {
        rt.task("t", accesses).cpu(|_, _| ()).submit().err().map(|refusal| refusal.to_string())
    }
    for len in [3, 12, 13, 500] {
        let parts = |size: usize| -> Vec<_> { (0..len).map(|i| x.slice(i..i + size).inout()).collect() };
        assert_eq!(refusal(&rt, parts(1)), None);
        let refused = refusal(&rt, parts(2)).unwrap();
        assert!(refused.contains("[0..2] (inout) and [1..3] (inout) of"), "{refused}");
        let refused = refusal(&rt, (y.input(), parts(1), x.slice(len - 1).input())).unwrap();
        let last = format!("[{}..{len}] (inout) and [{}..{len}] (in) of", len - 1, len - 1);
        assert!(refused.contains(&last), "{refused}");
        let twice: Vec<_> = (0..len).map(|_| x.input()).collect();
        assert_eq!(refusal(&rt, (twice, y.inout())), None, "readers may overlap");
        let mut outside = parts(1);
        outside.push(x.slice(1001..1002).inout());
        assert!(refusal(&rt, outside).unwrap().contains("out of bounds"));
    }
    let other = runtime("1:CPU:1");
    let foreign = other.scalar(0u64);
    let accesses = vec![y.slice(0).input(), foreign.input()];
    assert!(refusal(&rt, accesses).unwrap().contains("another runtime"));
    rt.wait().unwrap();
}

/// Dependences in both directions between tasks with long lists and tasks with a single access.
#[test]
fn tasks_with_lists_are_ordered_by_their_members() {
    for_each_mix(|rt| {
        let x: Vec<_> = (0..40).map(|_| rt.scalar(0u64)).collect();
        for round in 0..20u64 {
            for (i, x) in x.iter().enumerate().step_by(3) {
                rt.task("one", x.inout()).cpu(move |_, x| x[0] += i as u64).submit().unwrap();
            }
            let all: Vec<_> = x.iter().rev().map(Data::inout).collect();
            rt.task("all", all)
                .cpu(move |_, mut all| {
                    for x in &mut all {
                        x[0] = x[0].wrapping_mul(3).wrapping_add(round);
                    }
                    all[0][0] += all[39][0] % 2;
                })
                .submit()
                .unwrap();
        }
        let mut expected = vec![0u64; 40];
        for round in 0..20u64 {
            expected.iter_mut().enumerate().step_by(3).for_each(|(i, x)| *x += i as u64);
            expected.iter_mut().for_each(|x| *x = x.wrapping_mul(3).wrapping_add(round));
            expected[39] += expected[0] % 2; // the list is in reverse order
        }
        let values: Vec<_> = x.iter().map(|x| rt.read(x).unwrap()[0]).collect();
        assert_eq!(values, expected);
    });
}

#[test]
fn taken_data_object_is_refused_in_a_list() {
    let rt = runtime("1:CPU:1");
    let x: Vec<_> = (0..20).map(|_| rt.scalar(0u64)).collect();
    let taken = x[13].clone();
    rt.take(taken).unwrap();
    let refused = rt.task("t", x.iter().map(Data::inout).collect::<Vec<_>>()).cpu(|_, _| ()).submit();
    assert!(matches!(refused, Err(SubmitError::Taken { .. })), "{refused:?}");
    assert_eq!(rt.read(&x[12]).unwrap()[0], 0, "a refused task must not access anything");
}
