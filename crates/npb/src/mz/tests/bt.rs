//! BT stage by stage, whole, and on several threads.

use super::golden::Golden;
use crate::mz::bt;
use crate::mz::classes::{Benchmark, Class, Fuse};
use crate::mz::operator::scaled_residual;
use crate::mz::plain::Zones;
use crate::mz::serial::run;
use crate::mz::verify::Verdict;

#[test]
fn every_stage_has_the_known_sums() {
    let golden = Golden::of(Benchmark::Bt);
    let known = golden.zones();
    let mut zones = Zones::new(Benchmark::Bt, &Benchmark::Bt.problem(Class::S));
    for step in 1..=2 {
        zones.in_loop().exchange();
        for (number, zone) in zones.zones.iter_mut().enumerate() {
            let mesh = zone.mesh;
            let check = |stage: &str, array: &ndarray::Array4<f64>| {
                if known.contains(&number) {
                    golden.check(step, stage, number, &array.view());
                }
            };
            check("uexch", &zone.u);
            scaled_residual(&mesh, &zone.u.view(), &zone.forcing.view(), zone.r.view_mut(), 1);
            check("rhs", &zone.r);
            bt::x_sweep(&mesh, &zone.u.view(), zone.r.view_mut(), 1);
            check("xsolve", &zone.r);
            bt::y_sweep(&mesh, &zone.u.view(), zone.r.view_mut(), 1);
            check("ysolve", &zone.r);
            bt::z_sweep(&mesh, &zone.u.view(), zone.r.view_mut(), 1);
            check("zsolve", &zone.r);
            bt::add(zone.u.view_mut(), &zone.r.view(), 1);
            check("unew", &zone.u);
        }
    }
}

#[test]
fn class_s_is_verified() {
    let problem = Benchmark::Bt.problem(Class::S);
    let verdict = Verdict::new(&problem, &run(Benchmark::Bt, &problem, problem.steps, 1, Fuse::Step).norms);
    assert!(verdict.verified() && verdict.difference() < 1e-11, "{verdict}");
}

#[test]
fn threads_and_fusion_change_nothing() {
    let problem = Benchmark::Bt.problem(Class::S);
    let one = run(Benchmark::Bt, &problem, 3, 1, Fuse::Stages);
    for threads in [1, 2, 3, 5] {
        for fuse in [Fuse::Whole, Fuse::Step, Fuse::Stages] {
            let norms = run(Benchmark::Bt, &problem, 3, threads, fuse).norms;
            assert_eq!(norms, one.norms, "{threads} threads, {fuse:?}");
        }
    }
}
