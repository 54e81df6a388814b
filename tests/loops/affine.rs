//! Random affine loops in one to three dimensions, with chunks, team memory, reductions, and with each optimization
//! switched off in turn. Every lowering must do exactly what the plain function does.
//!
//! Attributes are fixed when the test is compiled, so the tests have families of functions; all numbers are drawn at
//! random. Values are small integers, so sums are exact in any order. Invariant: every index is inside its array,
//! because the plain loop would panic otherwise. Arrays are as long as this requires, and sometimes longer.

use super::machines;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use thalweg::loops::target;
use thalweg::ndarray::{Array2, Array3, ArrayRef2, ArrayRef3};
use thalweg::prelude::*;

/// Returns pseudo-random small integers.
fn small(count: usize, salt: usize) -> Vec<f64> {
    (0..count).map(|n| ((n * 7919 + salt * 104_729) % 41) as f64 - 20.0).collect()
}

fn run<T: std::fmt::Debug>(
    cases: u32,
    strategy: impl Strategy<Value = T>,
    test: impl Fn(T) -> Result<(), TestCaseError>,
) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner.run(&strategy, test).unwrap();
}

macro_rules! lines {
    ($($name:ident $options:tt ($($attributes:tt)*);)*) => {
        $(
            #[target $options]
            #[allow(clippy::too_many_arguments)]
            fn $name(
                a: &[f64], c: &[f64], x: &[f64], b: &mut [f64], y: &mut [f64], sum: &mut f64, most: &mut f64,
                first: usize, n: usize, width: usize, stride: usize, offset: usize,
            ) {
                $($attributes)*
                for i in first..first + n {
                    let mut all = 0.0;
                    for k in 0..width {
                        y[i * width + k + offset] += x[i * stride + k] - a[(i + k) % a.len()];
                        all += x[i * stride + k];
                    }
                    b[i] = b[i] * a[i % a.len()] + c[i];
                    *sum += all;
                    *most = f64::max(*most, x[i * stride] - c[i]);
                }
            }
        )*
        const LINES: &[(&str, SubmitLine)] = &[$((stringify!($name), |rt, line, d| {
            let ([a, c, x, b, y], [sum, most]) = d;
            let Line { first, n, width, stride, offset, .. } = *line;
            $name::task(rt, a, c, x, b, y, sum, most, first, n, width, stride, offset).submit().map(|_| ())
        })),*];
    };
}

type SubmitLine = fn(&Runtime, &Line, &([Data<f64>; 5], [Data<f64>; 2])) -> Result<(), SubmitError>;

lines! {
    line(teams(thread_limit = 8)) (#[distribute] #[parallel_for(reduction(+: sum), reduction(max: most))]);
    line_of_few_teams(teams(num = 2, thread_limit = 3)) (#[distribute] #[parallel_for(reduction(+: sum), reduction(max: most))]);
    line_with_small(teams(thread_limit = 8, firstprivate(a: 9)))
        (#[distribute] #[parallel_for(reduction(+: sum), reduction(max: most))]);
    line_in_chunks(teams(thread_limit = 4, firstprivate(a: 9)))
        (#[distribute(dist_firstprivate([5] c, [5] b), dist_lastprivate([5] b))] #[parallel_for(reduction(+: sum), reduction(max: most))]);
    line_in_large_chunks(teams(num = 1, thread_limit = 16))
        (#[distribute(dist_firstprivate([40] c), dist_lastprivate([40] b))] #[parallel_for(reduction(+: sum), reduction(max: most))]);
    line_without_memory(teams(thread_limit = 8, firstprivate(a: 9)), off(team_memory))
        (#[distribute(dist_firstprivate([5] c, [5] b), dist_lastprivate([5] b))] #[parallel_for(reduction(+: sum), reduction(max: most))]);
    line_of_teams(teams(thread_limit = 1), off(once)) (#[distribute] #[parallel_for(reduction(+: sum), reduction(max: most))]);
}

#[derive(Debug, Clone, Copy)]
struct Line {
    first: usize,
    n: usize,
    /// Number of elements per iteration, which is also the distance between the first elements that iterations write.
    width: usize,
    stride: usize,
    offset: usize,
    small: usize,
    more: usize,
}

#[test]
fn one_dimensional_lowerings_match_plain_loop() {
    let machines = machines();
    let n = prop_oneof![0usize..4, 4usize..20, 20usize..90];
    let drawn = (0usize..4, n, 0usize..4, 0usize..5, 0usize..6, 1usize..10, prop_oneof![Just(0usize), 1usize..9]);
    let strategy = drawn.prop_map(|(first, n, width, stride, offset, small, more)| Line {
        first,
        n,
        width,
        stride,
        offset,
        small,
        more,
    });
    run(16, strategy, |line| {
        let end = line.first + line.n;
        let [a, c] = [small(line.small, 1), small(end + line.more, 2)];
        let x = small(end * line.stride + line.width + 1 + line.more, 3);
        let (b, y) = (small(end + line.more, 4), small(end * line.width + line.width + line.offset + line.more, 5));
        let (mut plain_b, mut plain_y, mut sum, mut most) = (b.clone(), y.clone(), 0.5, -3.0);
        let Line { first, n, width, stride, offset, .. } = line;
        self::line(&a, &c, &x, &mut plain_b, &mut plain_y, &mut sum, &mut most, first, n, width, stride, offset);
        for rt in &machines {
            for (name, submit) in LINES {
                let arrays = [&a, &c, &x, &b, &y].map(|values| rt.data(values.clone()));
                let data = (arrays, [rt.data(vec![0.5]), rt.data(vec![-3.0])]);
                submit(rt, &line, &data).unwrap();
                let ([.., b, y], [found_sum, found_most]) = data;
                let found = (
                    rt.take(b).unwrap(),
                    rt.take(y).unwrap(),
                    rt.take(found_sum).unwrap()[0],
                    rt.take(found_most).unwrap()[0],
                );
                prop_assert_eq!(
                    &found,
                    &(plain_b.clone(), plain_y.clone(), sum, most),
                    "{} {}",
                    name,
                    rt.machine().configuration()
                );
            }
        }
        Ok(())
    });
}

macro_rules! planes {
    ($($name:ident $options:tt;)*) => {
        $(
            #[target $options]
            #[allow(clippy::too_many_arguments)]
            fn $name(
                x: &ArrayRef2<f64>, y: &mut ArrayRef2<f64>, sum: &mut f64, n0: usize, n1: usize, slope: usize, w0: usize,
                w1: usize, o0: usize, o1: usize, r0: usize, r1: usize,
            ) {
                #[distribute]
                for i in 0..n0 {
                    let mut held = [1.0; 24];
                    #[parallel_for]
                    for j in 0..n1 + slope * i {
                        held[j] = x[[i * r0, j * r1 + 1]] - x[[i * r0 + 1, j * r1]];
                    }
                    #[parallel_for(reduction(+: sum))]
                    for j in 0..n1 + slope * i {
                        y[[i * w0 + o0, j * w1 + o1]] += held[23 - j] + held[j];
                        *sum += held[j] * x[[i, j]];
                    }
                }
            }
        )*
        const PLANES: &[(&str, SubmitPlane)] = &[$((stringify!($name), |rt, p, (x, y, sum)| {
            $name::task(rt, x, y, sum, p.n[0], p.n[1], p.slope, p.w[0], p.w[1], p.o[0], p.o[1], p.r[0], p.r[1]).submit().map(|_| ())
        })),*];
    };
}

type Plane2 = (Data<f64, ndarray::Ix2>, Data<f64, ndarray::Ix2>, Data<f64>);
type SubmitPlane = fn(&Runtime, &Plane, &Plane2) -> Result<(), SubmitError>;

planes! {
    plane(teams(thread_limit = 8));
    plane_of_few_teams(teams(num = 2, thread_limit = 32));
    plane_without_once(teams(thread_limit = 16), off(once));
    plane_without_memory(teams(thread_limit = 4), off(team_memory));
    plane_of_teams(teams(thread_limit = 1));
}

#[derive(Debug, Clone, Copy)]
struct Plane {
    n: [usize; 2],
    /// Number of elements by which each row is longer than the previous row.
    slope: usize,
    w: [usize; 2],
    o: [usize; 2],
    r: [usize; 2],
}

#[test]
fn two_dimensional_lowerings_match_plain_loop() {
    let machines = machines();
    let two = |range: std::ops::Range<usize>| proptest::array::uniform2(range);
    let drawn = ((0usize..7, 0usize..13), 0usize..3, two(1..4), two(0..3), two(0..4));
    let strategy = drawn.prop_map(|((n0, n1), slope, w, o, r)| Plane { n: [n0, n1], slope, w, o, r });
    run(12, strategy, |p| {
        let columns = p.n[1] + p.slope * p.n[0];
        prop_assume!(columns <= 24);
        let x = [(p.r[0] + 1) * p.n[0] + 2, (p.r[1] + 1) * columns + 2];
        let y = [p.w[0] * p.n[0] + p.o[0] + 1, p.w[1] * columns + p.o[1] + 1];
        let x = Array2::from_shape_vec(x, small(x[0] * x[1], 1)).unwrap();
        let y = Array2::from_shape_vec(y, small(y[0] * y[1], 2)).unwrap();
        let (mut plain_y, mut sum) = (y.clone(), 2.0);
        plane(&x, &mut plain_y, &mut sum, p.n[0], p.n[1], p.slope, p.w[0], p.w[1], p.o[0], p.o[1], p.r[0], p.r[1]);
        for rt in &machines {
            for (name, submit) in PLANES {
                let data = (rt.array(x.clone()), rt.array(y.clone()), rt.data(vec![2.0]));
                submit(rt, &p, &data).unwrap();
                prop_assert_eq!(rt.take(data.1).unwrap(), plain_y.clone(), "{} {}", name, rt.machine().configuration());
                prop_assert_eq!(rt.take(data.2).unwrap()[0], sum, "{} {}", name, rt.machine().configuration());
            }
        }
        Ok(())
    });
}

macro_rules! cubes {
    ($($name:ident $options:tt ($($middle:tt)*) ($($innermost:tt)*);)*) => {
        $(
            #[target $options]
            #[allow(clippy::too_many_arguments)]
            fn $name(
                a: &[f64], x: &ArrayRef3<f64>, y: &mut ArrayRef3<f64>, n0: usize, n1: usize, n2: usize, f0: usize,
                f1: usize, w: usize, r: usize,
            ) {
                #[distribute]
                for i in f0..f0 + n0 {
                    let last = n2 + i % 2;
                    $($middle)*
                    for j in f1..n1 {
                        $($innermost)*
                        for k in 0..last {
                            let before = x[[i, j * r, k]] + x[[i + 1, j, k * r]];
                            y[[k, i * w, j]] = before * a[(i + j + k) % a.len()] - y[[k, i * w, j]];
                        }
                    }
                }
            }
        )*
        const CUBES: &[(&str, SubmitCube)] = &[$((stringify!($name), |rt, c, (a, x, y)| {
            $name::task(rt, a, x, y, c.n[0], c.n[1], c.n[2], c.f[0], c.f[1], c.w, c.r).submit().map(|_| ())
        })),*];
    };
}

type Cube3 = (Data<f64>, Data<f64, ndarray::Ix3>, Data<f64, ndarray::Ix3>);
type SubmitCube = fn(&Runtime, &Cube, &Cube3) -> Result<(), SubmitError>;

cubes! {
    cube(teams(thread_limit = 16)) (#[parallel_for]) (#[parallel_for]);
    cube_with_small(teams(num = 3, thread_limit = 8, firstprivate(a: 8))) (#[parallel_for]) (#[parallel_for]);
    cube_without_memory(teams(thread_limit = 8, firstprivate(a: 8)), off(team_memory)) (#[parallel_for]) (#[parallel_for]);
    cube_without_once(teams(thread_limit = 8), off(once)) (#[parallel_for]) (#[parallel_for]);
    cube_outermost_first(teams(thread_limit = 8), off(innermost_first)) (#[parallel_for]) (#[parallel_for]);
    cube_without_all(teams(thread_limit = 8, firstprivate(a: 8)), off(team_memory, once, innermost_first)) (#[parallel_for]) (#[parallel_for]);
    cube_of_one_dimension(teams(thread_limit = 4)) () (#[parallel_for]);
    cube_of_the_other(teams(thread_limit = 4)) (#[parallel_for]) ();
}

#[derive(Debug, Clone, Copy)]
struct Cube {
    n: [usize; 3],
    f: [usize; 2],
    w: usize,
    r: usize,
    small: usize,
}

#[test]
fn three_dimensional_lowerings_match_plain_loop() {
    let machines = machines();
    let drawn =
        (proptest::array::uniform3(0usize..6), proptest::array::uniform2(0usize..3), 1usize..3, 0usize..3, 1usize..9);
    let strategy = drawn.prop_map(|(n, f, w, r, small)| Cube { n, f, w, r, small });
    run(12, strategy, |c| {
        let (last, end) = (c.n[2] + 1, c.f[0] + c.n[0]);
        let x = [end + 1, (c.r + 1) * (c.n[1] + 1), (c.r + 1) * (last + 1)];
        let y = [last, end * c.w + 1, c.n[1] + 1];
        let a = small(c.small, 3);
        let x = Array3::from_shape_vec(x, small(x.iter().product(), 1)).unwrap();
        let y = Array3::from_shape_vec(y, small(y.iter().product(), 2)).unwrap();
        let mut plain = y.clone();
        cube(&a, &x, &mut plain, c.n[0], c.n[1], c.n[2], c.f[0], c.f[1], c.w, c.r);
        for rt in &machines {
            for (name, submit) in CUBES {
                let data = (rt.data(a.clone()), rt.array(x.clone()), rt.array(y.clone()));
                submit(rt, &c, &data).unwrap();
                prop_assert_eq!(rt.take(data.2).unwrap(), plain.clone(), "{} {}", name, rt.machine().configuration());
            }
        }
        Ok(())
    });
}
