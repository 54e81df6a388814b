//! Teams: loops over their threads in up to three dimensions, team memory, and reductions within and across teams.

use super::{bits, machines, numbers};
use thalweg::loops::{Out, device, target};

/// The nest of MACC's slides: 48 x 64 x 32.
macro_rules! nests {
    ($($name:ident $options:tt)*) => {$(
        #[target $options]
        fn $name(x: &[f64], y: &mut [f64], planes: usize, rows: usize, columns: usize) {
            #[distribute]
            for i in 0..planes {
                let scale = x[i];
                #[parallel_for]
                for j in 0..rows {
                    let row = (i * rows + j) * columns;
                    #[parallel_for]
                    for k in 0..columns {
                        y[row + k] += scale * x[k] + j as f64;
                    }
                }
            }
        }
    )*};
}

nests! {
    nest(teams(thread_limit = 1024))
    nest_in_few_teams(teams(num = 5, thread_limit = 64))
    nest_of_loops(off(once))
    nest_the_other_way(off(innermost_first))
}

#[test]
fn nest_of_the_macc_slides_matches_plain_loop() {
    for (planes, rows, columns) in [(48, 64, 32), (3, 1, 70), (1, 5, 3)] {
        let (x, y) = (numbers(planes.max(columns), 1), numbers(planes * rows * columns, 2));
        let mut plain = y.clone();
        nest(&x, &mut plain, planes, rows, columns);
        for rt in machines() {
            let dx = rt.data(x.clone());
            let results = [(); 4].map(|()| rt.data(y.clone()));
            nest::task(&rt, &dx, &results[0], planes, rows, columns).submit().unwrap();
            nest_in_few_teams::task(&rt, &dx, &results[1], planes, rows, columns).submit().unwrap();
            nest_of_loops::task(&rt, &dx, &results[2], planes, rows, columns).submit().unwrap();
            nest_the_other_way::task(&rt, &dx, &results[3], planes, rows, columns).submit().unwrap();
            for result in results {
                assert_eq!(bits(&rt.take(result).unwrap()), bits(&plain), "{planes} {}", rt.machine().configuration());
            }
        }
    }
}

#[target(teams(thread_limit = 64))]
fn cube(y: &mut [i32], n: usize) {
    #[distribute]
    for p in 0..n {
        #[parallel_for]
        for i in 0..3usize {
            #[parallel_for]
            for j in 0..n {
                #[parallel_for]
                for k in 0..5usize {
                    y[((p * 3 + i) * n + j) * 5 + k] = (p * 1000 + i * 100 + j * 10 + k) as i32;
                }
            }
        }
    }
}

#[test]
fn three_dimensional_teams_match_plain_loop() {
    let n = 7;
    let mut plain = vec![0; n * 3 * n * 5];
    cube(&mut plain, n);
    for rt in machines() {
        let y = rt.zeros(plain.len());
        cube::task(&rt, &y, n).submit().unwrap();
        assert_eq!(rt.take(y).unwrap(), plain);
    }
}

const SMALL: usize = 64;
const CHUNK: usize = 128;

/// The program of MACC's slides: a small array in each team's memory, and chunks of large ones.
macro_rules! team_memory {
    ($($name:ident $options:tt)*) => {$(
        #[target $options]
        fn $name(a: &[f64], c: &[f64], b: &mut [f64], d: Out<'_, [f64]>) {
            #[distribute(dist_firstprivate([CHUNK] c, [CHUNK] b), dist_lastprivate([CHUNK] b))]
            #[parallel_for]
            for i in 0..b.len() {
                b[i] = b[i] * a[i % SMALL] + c[i];
                d[i] = b[i] - a[3];
            }
        }
    )*};
}

team_memory! {
    held(teams(num = 32, firstprivate(a: SMALL)))
    not_held(teams(num = 32, firstprivate(a: SMALL)), off(team_memory))
}

#[test]
fn arrays_in_team_memory_match_plain_loop() {
    for n in [1, 127, 128, 1000, 5000] {
        let (a, c, b) = (numbers(SMALL, 1), numbers(n, 2), numbers(n, 3));
        let (mut plain, mut behind) = (b.clone(), vec![0.0; n]);
        held(&a, &c, &mut plain, &mut behind);
        for rt in machines() {
            let (da, dc) = (rt.data(a.clone()), rt.data(c.clone()));
            for is_held in [true, false] {
                let (db, dd) = (rt.data(b.clone()), rt.zeros(n));
                if is_held {
                    held::task(&rt, &da, &dc, &db, &dd).submit().unwrap();
                } else {
                    not_held::task(&rt, &da, &dc, &db, &dd).submit().unwrap();
                }
                assert_eq!(bits(&rt.take(db).unwrap()), bits(&plain), "{n} {}", rt.machine().configuration());
                assert_eq!(bits(&rt.take(dd).unwrap()), bits(&behind), "{n} {}", rt.machine().configuration());
            }
        }
    }
}

/// Each team has scratch memory that is not part of the task's accesses. A private chunk is not shared with other
/// teams.
#[target(teams(private(t: 32), thread_limit = 32))]
fn scratch(x: &[f64], t: &mut [f64], p: &mut [f64], y: &mut [f64]) {
    #[distribute(dist_private([32] p))]
    for i in 0..y.len() {
        #[parallel_for]
        for j in 0..32usize {
            t[j] = x[(i + j) % x.len()] * 2.0;
        }
        p[i] = x[i] + 1.0;
        let mut turned = [0.0; 32];
        #[parallel_for]
        for j in 0..32usize {
            turned[j] = t[31 - j];
        }
        #[parallel_for]
        for j in 0..1usize {
            y[i + j] = turned[0] - turned[31] + t[5] + p[i];
        }
    }
}

#[test]
fn private_arrays_are_not_written_back() {
    let (x, n) = (numbers(77, 1), 50);
    let mut plain = vec![0.0; n];
    scratch(&x, &mut [0.0; 32], &mut [0.0; 50], &mut plain);
    for rt in machines() {
        let (dx, dp, dy) = (rt.data(x.clone()), rt.data(vec![1.0; n]), rt.zeros(n));
        scratch::task(&rt, &dx, &dp, &dy).submit().unwrap();
        assert_eq!(bits(&rt.take(dy).unwrap()), bits(&plain), "{}", rt.machine().configuration());
        assert_eq!(rt.take(dp).unwrap(), vec![1.0; n], "a private array must not be written back");
    }
}

/// Each team adds up its row, and all teams together compute the norm.
#[target(teams(thread_limit = 32))]
fn product(m: &[f64], x: &[f64], y: Out<'_, [f64]>, norm: &mut f64, least: &mut f64) {
    #[distribute]
    for i in 0..y.len() {
        let mut sum = 1.0;
        #[parallel_for(reduction(+: sum))]
        for j in 0..x.len() {
            sum += m[i * x.len() + j] * x[j];
        }
        #[parallel_for(reduction(+: norm), reduction(min: least))]
        for j in 0..x.len() {
            *norm += x[j] * m[i * x.len() + j];
            *least = f64::min(*least, m[i * x.len() + j]);
        }
        y[i] = sum;
    }
}

#[test]
fn reductions_within_and_across_teams_match_plain_loop() {
    for (rows, columns) in [(1, 1), (20, 33), (40, 500)] {
        let (m, x) = (numbers(rows * columns, 1), numbers(columns, 2));
        let (mut plain, mut norm, mut least) = (vec![0.0; rows], 0.25, 9.0);
        product(&m, &x, &mut plain, &mut norm, &mut least);
        let mut found = Vec::new();
        for rt in machines() {
            let (dm, dx, dy, dn, dl) =
                (rt.data(m.clone()), rt.data(x.clone()), rt.zeros(rows), rt.scalar(0.25), rt.scalar(9.0));
            product::task(&rt, &dm, &dx, &dy, &dn, &dl).submit().unwrap();
            let (y, sum) = (rt.take(dy).unwrap(), rt.read(&dn).unwrap()[0]);
            assert!(
                y.iter().zip(&plain).all(|(y, plain)| (y - plain).abs() < 1e-9),
                "{rows} {}",
                rt.machine().configuration()
            );
            assert!((sum - norm).abs() < 1e-8);
            assert_eq!(rt.read(&dl).unwrap()[0], least);
            found.push((bits(&y), sum.to_bits()));
        }
        assert!(found.iter().all(|one| *one == found[0]), "{rows} {columns}");
    }
}

/// Returns six times `a` plus a fifth of `b` if `a` is the larger one, and `b` plus a fifth of `a` otherwise.
#[device]
fn blend(a: f64, b: f64) -> f64 {
    let mut sum = 0.0;
    for k in 1..4 {
        sum += a * k as f64;
    }
    if a > b { sum + 0.2 * b } else { b + 0.2 * a }
}

const OFFSET: i64 = -3;
const HALF: f64 = 0.5;

#[target]
fn all_sorts(x: &[f64], at: &[u32], n: i32, y: &mut [f64], z: &mut [i64], flag: bool) {
    let half_n = n / 2;
    let by = 3i64;
    for i in 0..n {
        let u = x[at[i as usize] as usize];
        let mut v = blend(u, x[i as usize]).abs().sqrt();
        let mut steps = 0i64;
        while v > 0.75 && steps < 9 {
            v *= HALF;
            steps += 1;
            if steps == 7 {
                continue;
            }
        }
        let mut window = [0.0f64; 4];
        for k in 0..4usize {
            window[(k + 1) % 4] = v + k as f64;
        }
        y[i as usize] = if flag && i < half_n { window[0] } else { -window[3] };
        z[i as usize] = (u * 10.0) as i64 / by + OFFSET % (steps + 1) + (steps << 2) + i as i64;
    }
}

#[test]
fn every_construct_of_the_subset_matches_plain_loop() {
    let n = 300;
    let (x, at) = (numbers(n, 1), (0..n).map(|i| (i * 7 % n) as u32).collect::<Vec<_>>());
    let (mut y, mut z) = (vec![0.0; n], vec![0; n]);
    all_sorts(&x, &at, n as i32, &mut y, &mut z, true);
    for rt in machines() {
        let (dx, da, dy, dz) = (rt.data(x.clone()), rt.data(at.clone()), rt.zeros(n), rt.zeros(n));
        all_sorts::task(&rt, &dx, &da, n as i32, &dy, &dz, true).submit().unwrap();
        assert_eq!(bits(&rt.take(dy).unwrap()), bits(&y), "{}", rt.machine().configuration());
        assert_eq!(rt.take(dz).unwrap(), z, "{}", rt.machine().configuration());
    }
}
