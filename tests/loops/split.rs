//! Split loops: tasks for pieces of the arrays must have the same results as the plain loop, wherever the scheduler
//! places them.

use super::common::words;
use super::{bits, common, numbers};
use thalweg::loops::{Out, target};
use thalweg::ndarray::{Array2, ArrayRef2};
use thalweg::prelude::*;

/// Returns runtimes with several units, over which pieces are distributed.
fn units() -> Vec<Runtime> {
    let mut all: Vec<Runtime> = ["2:CPU:1", "1:CPU:2", "1:CPU:1,2:EMU:1", "2:EMU:1"].map(common::runtime).into();
    for units in ["1:CPU:1,1:OPENCL:1", "2:OPENCL:1"] {
        all.extend(common::accelerated(units).map(|builder| builder.build().unwrap()));
    }
    all
}

#[target(split = 5)]
fn vecadd(a: &[f64], b: &[f64], c: Out<'_, [f64]>) {
    for i in 0..c.len() {
        c[i] = a[i] + b[i];
    }
}

#[test]
fn split_vector_loop_matches_plain_loop() {
    for n in [0, 1, 3, 1000] {
        let (a, b) = (numbers(n, 1), numbers(n, 2));
        let mut plain = vec![0.0; n];
        vecadd(&a, &b, &mut plain);
        for rt in units() {
            let (da, db, dc, whole) = (rt.data(a.clone()), rt.data(b.clone()), rt.zeros(n), rt.zeros(n));
            assert_eq!(vecadd::split(&rt, &da, &db, &dc).unwrap(), n.min(5));
            vecadd::task(&rt, &da, &db, &whole).submit().unwrap();
            assert_eq!(bits(&rt.take(dc).unwrap()), bits(&plain), "{n} {}", rt.machine().configuration());
            assert_eq!(bits(&rt.take(whole).unwrap()), bits(&plain), "{n} {}", rt.machine().configuration());
        }
    }
}

/// Rows with a halo on both sides, in regions of larger arrays.
#[target(split = 4, teams(thread_limit = 32))]
fn relax(old: &ArrayRef2<f64>, new: &mut ArrayRef2<f64>) {
    #[distribute]
    for i in 1..old.nrows() - 1 {
        #[parallel_for]
        for j in 1..old.ncols() - 1 {
            new[[i, j]] = 0.25 * ((old[[i - 1, j]] + old[[i + 1, j]]) + (old[[i, j - 1]] + old[[i, j + 1]]));
        }
    }
}

#[test]
fn split_stencil_sweeps_match_plain_loop() {
    for (rows, columns, sweeps) in [(3, 3, 1), (17, 9, 6), (40, 33, 3)] {
        let begin = Array2::from_shape_vec((rows + 2, columns + 5), numbers((rows + 2) * (columns + 5), 3)).unwrap();
        let part = ndarray::s![1..=rows, 3..3 + columns];
        let (mut a, mut b) = (begin.clone(), begin.clone());
        for _ in 0..sweeps {
            relax(&a.slice(part), &mut b.slice_mut(part));
            std::mem::swap(&mut a, &mut b);
        }
        for rt in units() {
            let (mut from, mut to) = (rt.array(begin.clone()), rt.array(begin.clone()));
            for _ in 0..sweeps {
                let of = (1..=rows, 3..3 + columns);
                assert_eq!(relax::split(&rt, from.block(of.clone()), to.block(of)).unwrap(), (rows - 2).min(4));
                std::mem::swap(&mut from, &mut to);
            }
            assert_eq!(rt.take(from).unwrap(), a, "{rows} {columns} {}", rt.machine().configuration());
        }
    }
}

/// An array that is read at arbitrary indices is a whole input; an iteration has several elements; columns may be
/// split.
#[target(split)]
fn gather(at: &[u32], x: &[f64], scale: f64, y: &mut [f64], m: &mut ArrayRef2<f64>, width: usize) {
    let most = x.len() - 1;
    for i in 2..at.len() {
        let u = x[at[i] as usize] * scale;
        for k in 0..width {
            y[(i - 2) * width + k] -= u + x[most];
        }
        for j in 0..m.nrows() {
            m[[j, i]] = u + j as f64;
        }
    }
}

#[test]
fn split_loop_with_whole_inputs_and_columns_matches_plain_loop() {
    let (n, width) = (53, 3);
    let at: Vec<u32> = (0..n as u32).map(|i| i * 7 % 40).collect();
    let (x, y) = (numbers(40, 1), numbers(n * width, 2));
    let m = Array2::from_shape_vec((6, n), numbers(6 * n, 3)).unwrap();
    let (mut plain, mut plain_m) = (y.clone(), m.clone());
    gather(&at, &x, 0.5, &mut plain, &mut plain_m, width);
    for rt in units() {
        let (da, dx, dy, dm) = (rt.data(at.clone()), rt.data(x.clone()), rt.data(y.clone()), rt.array(m.clone()));
        let tasks = gather::split(&rt, &da, &dx, 0.5, &dy, &dm, width).unwrap();
        assert_eq!(tasks, 2 * rt.machine().num_units());
        assert_eq!(bits(&rt.take(dy).unwrap()), bits(&plain), "{}", rt.machine().configuration());
        assert_eq!(rt.take(dm).unwrap(), plain_m, "{}", rt.machine().configuration());
    }
}

#[target(split = 3, teams(thread_limit = 16))]
fn sums(x: &[f64], first: i64, end: i64, sum: &mut f64, most: &mut f64, product: &mut f64) {
    #[distribute]
    #[parallel_for(reduction(+: sum), reduction(max: most), reduction(*: product))]
    for i in first..=end {
        let v = x[(i - first) as usize];
        *sum += v;
        *most = f64::max(*most, v);
        *product *= if i % 3 == 0 { -1.0 } else { 1.0 };
    }
}

/// Each piece adds to its own copy, and the copies are combined in the order of the pieces. The results are the same on
/// all machines and, if the order does not matter, the same as those of the unsplit loop.
#[test]
fn reductions_of_split_loops_are_the_same_on_every_machine() {
    for n in [1i64, 2, 700, 3000] {
        let x = numbers(n as usize, 4);
        let (mut sum, mut most, mut product) = (0.25, -100.0, 3.0);
        sums(&x, -20, n - 21, &mut sum, &mut most, &mut product);
        let mut found = Vec::new();
        for rt in units() {
            let (dx, ds, dm, dp) = (rt.data(x.clone()), rt.scalar(0.25), rt.scalar(-100.0), rt.scalar(3.0));
            sums::split(&rt, &dx, -20, n - 21, &ds, &dm, &dp).unwrap();
            let total = rt.read(&ds).unwrap()[0];
            assert!((total - sum).abs() < 1e-9 * n as f64, "{total} {sum} {}", rt.machine().configuration());
            assert_eq!(rt.read(&dm).unwrap()[0], most);
            assert_eq!(rt.read(&dp).unwrap()[0], product);
            found.push(total.to_bits());
        }
        assert!(found.iter().all(|sum| *sum == found[0]), "{n} {found:?}");
    }
}

/// Chunks in the memory of teams, next to a small array that is copied to each team.
#[target(split = 3, teams(num = 2, thread_limit = 8, firstprivate(a: 9)))]
fn held(a: &[f64], c: &[f64], b: &mut [f64], d: Out<'_, [f64]>) {
    #[distribute(dist_firstprivate([16] c, [16] b), dist_lastprivate([16] b))]
    #[parallel_for]
    for i in 0..b.len() {
        if i % 3 > 0 {
            b[i] = b[i] * a[i % a.len()] + c[i];
        }
        d[i] = b[i] - a[0];
    }
}

#[test]
fn split_loop_with_team_memory_matches_plain_loop() {
    for n in [1, 50, 1000] {
        let (a, c, b) = (numbers(9, 1), numbers(n, 2), numbers(n, 3));
        let (mut plain, mut behind) = (b.clone(), vec![0.0; n]);
        held(&a, &c, &mut plain, &mut behind);
        for rt in units() {
            let (da, dc, db, dd) = (rt.data(a.clone()), rt.data(c.clone()), rt.data(b.clone()), rt.zeros(n));
            held::split(&rt, &da, &dc, &db, &dd).unwrap();
            assert_eq!(bits(&rt.take(db).unwrap()), bits(&plain), "{n} {}", rt.machine().configuration());
            assert_eq!(bits(&rt.take(dd).unwrap()), bits(&behind), "{n} {}", rt.machine().configuration());
        }
    }
}

/// A device receives exactly the rows that its pieces touch.
#[test]
fn device_receives_only_the_parts_of_its_pieces() {
    let rt = Runtime::builder().compute_units("4:EMU:1").scheduler("static").build().unwrap();
    let n = 4000;
    let space = [numbers(n, 1), numbers(n, 2)];
    let (a, b, c) = (rt.data(space[0].clone()), rt.data(space[1].clone()), rt.zeros(n));
    vecadd::split(&rt, &a, &b, &c).unwrap();
    rt.wait().unwrap();
    let to_devices: u64 =
        rt.statistics().links.iter().filter(|link| link.from == SpaceId::HOST).map(|link| link.bytes).sum();
    assert_eq!(to_devices, 2 * 8 * n as u64, "each element of both inputs must be copied to one device");
}

#[target(split = 3)]
fn transposed(x: &[f64], y: &mut [f64], n: usize) {
    for i in 0..n {
        for j in 0..n {
            y[j * n + i] = x[i * n + j];
        }
    }
}

#[test]
fn loop_with_overlapping_pieces_is_refused() {
    for rt in units() {
        let (x, y) = (rt.data(numbers(36, 1)), rt.zeros(36));
        let error = transposed::split(&rt, &x, &y, 6).unwrap_err();
        let said = "cannot split loop `transposed`: two of its pieces write [0..32] and [2..34] of `y`, which overlap";
        assert!(words(&error).starts_with(said), "{error}");
        assert_eq!(rt.take(y).unwrap(), [0.0; 36], "a refused loop must not submit anything");
        let y = rt.zeros(36);
        transposed::task(&rt, &x, &y, 6).submit().unwrap();
        let mut plain = vec![0.0; 36];
        transposed(&numbers(36, 1), &mut plain, 6);
        assert_eq!(rt.take(y).unwrap(), plain);
    }
}
