//! Fused loops: two loops become one kernel, with the same results and less memory traffic.

use super::{bits, machines, numbers};
use thalweg::loops::{Out, target};
use thalweg::ndarray::{Array2, ArrayRef2};

/// Two loops of CG: the first one steps along the direction, the second one sums the squares of the residual.
macro_rules! steps {
    ($($name:ident $options:tt)*) => {$(
        #[target $options]
        fn $name(a: f64, p: &[f64], q: &[f64], x: &mut [f64], r: &mut [f64], squares: Out<'_, [f64]>) {
            for i in 0..x.len() {
                x[i] += a * p[i];
                r[i] -= a * q[i];
            }
            let half = a / 2.0;
            for k in 0..x.len() {
                squares[k] = r[k] * r[k] + half * x[k];
            }
        }
    )*};
}

steps! {
    step(fuse)
    step_in_pieces(fuse, split = 3)
    step_in_turns()
}

#[test]
fn fused_vector_loops_match_plain_loops_and_save_traffic() {
    assert_eq!(step::KERNELS.matches("KERNEL(").count(), 1);
    assert_eq!(step_in_turns::KERNELS.matches("KERNEL(").count(), 2);
    for n in [0, 1, 500, 3000] {
        let [p, q, x, r] = [1, 2, 3, 4].map(|salt| numbers(n, salt));
        let (mut plain_x, mut plain_r, mut squares) = (x.clone(), r.clone(), vec![0.0; n]);
        step(0.3, &p, &q, &mut plain_x, &mut plain_r, &mut squares);
        for rt in machines() {
            let (dp, dq) = (rt.data(p.clone()), rt.data(q.clone()));
            for kind in 0..3 {
                let before = rt.statistics().spared_bytes;
                let (dx, dr, ds) = (rt.data(x.clone()), rt.data(r.clone()), rt.zeros(n));
                match kind {
                    0 => _ = step::task(&rt, 0.3, &dp, &dq, &dx, &dr, &ds).submit().unwrap(),
                    1 => _ = step_in_pieces::split(&rt, 0.3, &dp, &dq, &dx, &dr, &ds).unwrap(),
                    _ => _ = step_in_turns::task(&rt, 0.3, &dp, &dq, &dx, &dr, &ds).submit().unwrap(),
                }
                let spared = if kind < 2 { 2 * 8 * n as u64 } else { 0 };
                assert_eq!(rt.statistics().spared_bytes - before, spared, "x and r must not be read again");
                assert_eq!(bits(&rt.take(dx).unwrap()), bits(&plain_x), "{n} {kind} {}", rt.machine().configuration());
                assert_eq!(bits(&rt.take(dr).unwrap()), bits(&plain_r), "{n} {kind} {}", rt.machine().configuration());
                assert_eq!(bits(&rt.take(ds).unwrap()), bits(&squares), "{n} {kind} {}", rt.machine().configuration());
            }
        }
    }
}

/// Threads of a team read a row that other threads of the same team have written.
#[target(fuse, teams(thread_limit = 8))]
fn rows(x: &ArrayRef2<f64>, y: &mut ArrayRef2<f64>, z: &mut ArrayRef2<f64>, sum: &mut f64) {
    #[distribute]
    for i in 0..x.nrows() {
        #[parallel_for]
        for j in 0..x.ncols() {
            y[[i, j]] = 2.0 * x[[i, j]];
        }
    }
    #[distribute]
    for i in 0..x.nrows() {
        #[parallel_for(reduction(+: sum))]
        for j in 0..x.ncols() {
            z[[i, j]] = y[[i, x.ncols() - 1 - j]] + 1.0;
            *sum += y[[i, j]];
        }
    }
}

#[test]
fn fused_loops_over_rows_of_a_team_match_plain_loops() {
    let integers = |salt| Array2::from_shape_fn((13, 29), |(i, j)| ((i * 31 + j * 7 + salt) % 19) as f64);
    let (x, y) = (integers(1), integers(2));
    let (mut plain_y, mut plain_z, mut sum) = (y.clone(), y.clone(), 1.0);
    rows(&x, &mut plain_y, &mut plain_z, &mut sum);
    for rt in machines() {
        let (dx, dy, dz, ds) = (rt.array(x.clone()), rt.array(y.clone()), rt.array(y.clone()), rt.scalar(1.0));
        rows::task(&rt, &dx, &dy, &dz, &ds).submit().unwrap();
        assert_eq!(rt.take(dy).unwrap(), plain_y);
        assert_eq!(rt.take(dz).unwrap(), plain_z, "{}", rt.machine().configuration());
        assert_eq!(rt.read(&ds).unwrap()[0], sum);
    }
}
