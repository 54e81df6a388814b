//! Loops that are distributed over teams and threads at the same time.

use super::{bits, machines, numbers};
use thalweg::loops::{Out, target};
use thalweg::ndarray::{Array2, ArrayRef2};

#[target]
fn vecadd(a: &[f64], b: &[f64], c: Out<'_, [f64]>) {
    for i in 0..c.len() {
        c[i] = a[i] + b[i];
    }
}

#[target(teams(num = 3, thread_limit = 64))]
fn axpy(a: f64, x: &[f64], y: &mut [f64]) {
    #[distribute]
    #[parallel_for]
    for i in 0..y.len() {
        y[i] += a * x[i];
    }
}

#[target]
fn relax(old: &ArrayRef2<f64>, new: &mut ArrayRef2<f64>) {
    #[distribute]
    for i in 1..old.nrows() - 1 {
        #[parallel_for]
        for j in 1..old.ncols() - 1 {
            new[[i, j]] = 0.25 * ((old[[i - 1, j]] + old[[i + 1, j]]) + (old[[i, j - 1]] + old[[i, j + 1]]));
        }
    }
}

#[target]
fn dot(x: &[f64], y: &[f64], sum: &mut f64) {
    for i in 0..x.len() {
        *sum += x[i] * y[i];
    }
}

#[target]
fn largest(x: &[f64], most: &mut f64) {
    #[distribute]
    #[parallel_for(reduction(max: most))]
    for i in 0..x.len() {
        *most = f64::max(*most, x[i].abs());
    }
}

#[test]
fn vector_loops_match_plain_loop() {
    for n in [0, 1, 31, 256, 1000, 4099] {
        let (a, b) = (numbers(n, 1), numbers(n, 2));
        let (mut sum, mut scaled) = (vec![0.0; n], b.clone());
        vecadd(&a, &b, &mut sum);
        axpy(0.3, &a, &mut scaled);
        for rt in machines() {
            let (da, db, dc, dy) = (rt.data(a.clone()), rt.data(b.clone()), rt.zeros(n), rt.data(b.clone()));
            vecadd::task(&rt, &da, &db, &dc).submit().unwrap();
            axpy::task(&rt, 0.3, &da, &dy).submit().unwrap();
            assert_eq!(bits(&rt.take(dc).unwrap()), bits(&sum), "{n} {}", rt.machine().configuration());
            assert_eq!(bits(&rt.take(dy).unwrap()), bits(&scaled), "{n} {}", rt.machine().configuration());
        }
    }
}

#[test]
fn two_dimensional_stencil_matches_plain_loop() {
    for (rows, columns) in [(3, 3), (5, 40), (70, 33)] {
        let old = Array2::from_shape_vec((rows, columns), numbers(rows * columns, 3)).unwrap();
        let mut new = old.clone();
        relax(&old, &mut new);
        for rt in machines() {
            let (from, to) = (rt.array(old.clone()), rt.array(old.clone()));
            relax::task(&rt, &from, &to).submit().unwrap();
            assert_eq!(rt.take(to).unwrap(), new, "{rows} {columns} {}", rt.machine().configuration());
        }
    }
}

/// Regions may begin and end anywhere, and their rows are as far apart as those of the whole array.
#[test]
fn loops_over_regions_match_plain_loop() {
    let (n, part) = (500, 37..460);
    let (a, b) = (numbers(n, 1), numbers(n, 2));
    let old = Array2::from_shape_vec((40, 30), numbers(1200, 3)).unwrap();
    let mut new = old.clone();
    relax(&old.slice(ndarray::s![4..21, 7..29]), &mut new.slice_mut(ndarray::s![4..21, 7..29]));
    for rt in machines() {
        let (da, db, dc) = (rt.data(a.clone()), rt.data(b.clone()), rt.zeros(n));
        vecadd::task(&rt, da.slice(part.clone()), db.slice(part.clone()), dc.slice(part.clone())).submit().unwrap();
        let sum = rt.take(dc).unwrap();
        for i in 0..n {
            assert_eq!(sum[i], if part.contains(&i) { a[i] + b[i] } else { 0.0 });
        }
        let (from, to) = (rt.array(old.clone()), rt.array(old.clone()));
        relax::task(&rt, from.block((4..21, 7..29)), to.block((4..21, 7..29))).submit().unwrap();
        assert_eq!(rt.take(to).unwrap(), new);
    }
}

/// The order of summation is the same on every machine but differs from the order in the plain function.
#[test]
fn reductions_give_the_same_bits_on_every_machine() {
    for n in [0, 1, 300, 4096, 20_000] {
        let (x, y) = (numbers(n, 4), numbers(n, 5));
        let (mut plain, mut most) = (0.5, 1.0);
        dot(&x, &y, &mut plain);
        largest(&x, &mut most);
        let mut found = Vec::new();
        for rt in machines() {
            let (dx, dy, sum, maximum) = (rt.data(x.clone()), rt.data(y.clone()), rt.scalar(0.5), rt.scalar(1.0));
            dot::task(&rt, &dx, &dy, &sum).submit().unwrap();
            largest::task(&rt, &dx, &maximum).submit().unwrap();
            let sum = rt.read(&sum).unwrap()[0];
            assert!((sum - plain).abs() <= 1e-12 * (1.0 + n as f64 * 25.0), "{sum} {plain}");
            found.push(sum.to_bits());
            assert_eq!(rt.read(&maximum).unwrap()[0], most);
        }
        assert!(found.iter().all(|sum| *sum == found[0]), "{n} {found:?}");
    }
}

/// Parameters and variables may have names that the generated code also uses.
#[target]
fn names(range: &[f64], out: &mut [f64], nest: usize, cores: f64, parts: &mut f64) {
    let launcher = nest + 1;
    for shape in 0..launcher - 1 {
        let half = cores * 0.5;
        out[shape] = range[shape] * half;
        *parts += range[shape];
    }
}

#[test]
fn names_used_by_generated_code_do_not_clash() {
    let x = numbers(40, 6);
    let (mut plain, mut sum) = (vec![0.0; 40], 0.0);
    names(&x, &mut plain, 40, 3.0, &mut sum);
    for rt in machines() {
        let (dx, dy, ds) = (rt.data(x.clone()), rt.zeros(40), rt.scalar(0.0));
        names::task(&rt, &dx, &dy, 40, 3.0, &ds).submit().unwrap();
        assert_eq!(rt.take(dy).unwrap(), plain);
        assert!((rt.read(&ds).unwrap()[0] - sum).abs() < 1e-9);
    }
}
