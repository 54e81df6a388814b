//! Random affine nests: all lowerings of a nest with random bounds, strides and offsets either match the plain loop or
//! report that iterations conflict.

use super::{machines, numbers};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use thalweg::loops::target;

/// A random nest: the first index and the bounds of three loops, and the strides and offsets of the writes and the
/// reads.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    first: usize,
    n: [usize; 3],
    write: [usize; 4],
    read: [usize; 4],
}

macro_rules! drawn {
    ($($name:ident $options:tt ($($outer:tt)*) ($($middle:tt)*) ($($innermost:tt)*);)*) => {$(
        #[target $options]
        #[allow(clippy::too_many_arguments)]
        fn $name(
            x: &[f64], y: &mut [f64], first: usize, n0: usize, n1: usize, n2: usize, w0: usize, w1: usize, w2: usize,
            w3: usize, r0: usize, r1: usize, r2: usize, r3: usize,
        ) {
            $($outer)*
            for i in first..first + n0 {
                $($middle)*
                for j in 0..n1 {
                    let row = i * w0 + w3;
                    $($innermost)*
                    for k in 0..n2 {
                        y[row + j * w1 + k * w2] += x[i * r0 + j * r1 + k * r2 + r3];
                    }
                }
            }
        }
    )*};
}

drawn! {
    over_threads(teams(thread_limit = 8)) () () ();
    over_teams(teams(thread_limit = 8)) (#[distribute]) (#[parallel_for]) (#[parallel_for]);
    over_one_dimension(teams(num = 2, thread_limit = 4), off(once)) (#[distribute]) (#[parallel_for]) ();
    over_teams_alone(teams(thread_limit = 1)) (#[distribute]) () ();
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let strides = || {
        proptest::array::uniform4(prop_oneof![Just(0usize), Just(1), Just(2), Just(5), Just(12), Just(36), Just(40)])
    };
    // Usually the strides are those of a three-dimensional array, possibly with the dimensions permuted.
    let regular = (0usize..3, 0usize..4).prop_map(|(order, offset)| match order {
        0 => [36, 6, 1, offset],
        1 => [1, 6, 36, offset],
        _ => [6, 36, 1, offset],
    });
    let write = prop_oneof![3 => regular, 1 => strides()];
    (0usize..3, proptest::array::uniform3(0usize..6), write, strides()).prop_map(|(first, n, write, read)| Drawn {
        first,
        n,
        write,
        read,
    })
}

/// Returns whether two iterations touch the same element of `y`.
fn meet(drawn: &Drawn) -> bool {
    let mut seen = std::collections::HashSet::new();
    let Drawn { first, n, write, .. } = drawn;
    let iterations = (0..n[0]).flat_map(|i| (0..n[1]).flat_map(move |j| (0..n[2]).map(move |k| [i + first, j, k])));
    iterations.into_iter().any(|[i, j, k]| !seen.insert(i * write[0] + j * write[1] + k * write[2]))
}

#[test]
fn lowerings_of_random_nests_match_plain_loop_or_are_refused() {
    let machines = machines();
    let mut runner = TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
    runner
        .run(&drawn(), |drawn| {
            let Drawn { first, n: [n0, n1, n2], write: [w0, w1, w2, w3], read: [r0, r1, r2, r3] } = drawn;
            let (x, y) = (numbers(800, 1), numbers(800, 2));
            let mut plain = y.clone();
            over_threads(&x, &mut plain, first, n0, n1, n2, w0, w1, w2, w3, r0, r1, r2, r3);
            for rt in &machines {
                let dx = rt.data(x.clone());
                let results = [(); 4].map(|()| rt.data(y.clone()));
                let [a, b, c, d] = &results;
                over_threads::task(rt, &dx, a, first, n0, n1, n2, w0, w1, w2, w3, r0, r1, r2, r3).submit().unwrap();
                over_teams::task(rt, &dx, b, first, n0, n1, n2, w0, w1, w2, w3, r0, r1, r2, r3).submit().unwrap();
                over_one_dimension::task(rt, &dx, c, first, n0, n1, n2, w0, w1, w2, w3, r0, r1, r2, r3)
                    .submit()
                    .unwrap();
                over_teams_alone::task(rt, &dx, d, first, n0, n1, n2, w0, w1, w2, w3, r0, r1, r2, r3).submit().unwrap();
                for result in &results {
                    match rt.read(result) {
                        Ok(found) => prop_assert_eq!(found, plain.clone(), "{}", rt.machine().configuration()),
                        Err(error) => {
                            prop_assert!(error.to_string().contains("same element of `y`"), "{}", error);
                            let is_regular = matches!(drawn.write, [36, 6, 1, _] | [1, 6, 36, _] | [6, 36, 1, _]);
                            prop_assert!(
                                meet(&drawn) || !is_regular,
                                "iterations never conflict in an array of three dimensions"
                            );
                        }
                    }
                }
                let _ = rt.wait();
            }
            Ok(())
        })
        .unwrap();
}

/// A stride of zero makes several threads access the same element. This is refused if the threads run concurrently; if
/// they take turns, they run in order.
#[test]
fn zero_stride_is_refused_if_threads_run_concurrently() {
    let (x, y) = (numbers(800, 1), numbers(800, 2));
    let mut plain = y.clone();
    over_threads(&x, &mut plain, 0, 1, 2, 5, 0, 2, 0, 2, 0, 36, 0, 0);
    for rt in machines() {
        let (x, [a, b, c]) = (rt.data(x.clone()), [(); 3].map(|()| rt.data(y.clone())));
        over_threads::task(&rt, &x, &a, 0, 1, 2, 5, 0, 2, 0, 2, 0, 36, 0, 0).submit().unwrap();
        over_one_dimension::task(&rt, &x, &b, 0, 1, 2, 5, 0, 2, 0, 2, 0, 36, 0, 0).submit().unwrap();
        over_teams::task(&rt, &x, &c, 0, 1, 2, 5, 0, 2, 0, 2, 0, 36, 0, 0).submit().unwrap();
        assert_eq!([rt.read(&a).unwrap().to_vec(), rt.read(&b).unwrap().to_vec()], [plain.clone(), plain.clone()]);
        match rt.read(&c) {
            Ok(found) => assert!(found == plain && !rt.machine().configuration().contains("OPENCL")),
            Err(error) => assert!(error.to_string().contains("same element of `y`"), "{error}"),
        }
        let _ = rt.wait();
    }
}
