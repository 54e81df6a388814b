//! Compares steps of nested tasks with whole steps.

use ndarray::{Array4, ArrayView4, ArrayViewMut4, s};
use npb::mz::faces::Halo;
use npb::mz::nested::{WORTH, chunks};
use npb::mz::passes::{InPlanes, InRows};
use npb::mz::stages::described;
use npb::mz::{Benchmark, Class, Exchange, Fuse, Mesh, Program, Settings, Zone, Zones, bt, sp};
use thalweg::Runtime;

const ALL: [Benchmark; 3] = [Benchmark::Bt, Benchmark::Sp, Benchmark::Lu];

/// Returns the states of all zones after some steps.
fn states(units: &str, benchmark: Benchmark, class: Class, steps: usize, fuse: Fuse) -> Vec<Vec<f64>> {
    let rt = Runtime::builder().compute_units(units).build().unwrap();
    let program = Program::new(
        &rt,
        benchmark,
        &benchmark.problem(class),
        Settings { steps, fuse, periods: false, replay: false },
    );
    program.prepare().unwrap();
    for _ in 0..steps {
        program.step(Exchange::Together).unwrap();
    }
    program.zones.iter().map(|zone| rt.read(&zone.u).unwrap().into_iter().collect()).collect()
}

#[test]
fn children_match_whole_step_on_any_units() {
    for (class, steps, all_units) in [
        (Class::S, 2, &["1:CPU:1", "1:CPU:2", "1:CPU:1,2:EMU:1"][..]),
        // Class W is large enough that the planes and rows of each zone are divided.
        (Class::W, 1, &["2:CPU:1"]),
    ] {
        for benchmark in ALL {
            let whole = states("1:CPU:1", benchmark, class, steps, Fuse::Step);
            for units in all_units {
                let nested = states(units, benchmark, class, steps, Fuse::Planes);
                assert!(nested == whole, "{benchmark:?}, class {class:?}, {units}");
            }
        }
    }
}

/// A zone's step, which computes the new u from u and forcing.
type Whole = fn(&Mesh, ArrayViewMut4<'_, f64>, Option<Halo<'_>>, &ArrayView4<'_, f64>, usize);

/// Covers chunks of any size, in separate arrays or within a zone's arrays.
#[test]
fn chunks_of_any_size_match_whole_step() {
    for (benchmark, step, in_planes, in_rows) in [
        (Benchmark::Bt, bt::step as Whole, bt::in_planes as InPlanes, bt::in_rows as InRows),
        (Benchmark::Sp, sp::step, sp::in_planes, sp::in_rows),
    ] {
        let mut zones = Zones::new(benchmark, &benchmark.problem(Class::W));
        zones.in_loop().exchange();
        let zone = zones.zones.remove(5);
        let mesh = zone.mesh;
        let (interior, all_rows) = (1..mesh.shape.nz - 1, 1..mesh.shape.ny - 1);
        let mut whole = zone.u.clone();
        step(&mesh, whole.view_mut(), None, &zone.forcing.view(), 1);
        for size in [1, 2, 3, 5] {
            let Zone { u: mut state, forcing, mut r, .. } = zone.clone();
            for planes in interior.clone().step_by(size).map(|k| k..(k + size).min(interior.end)) {
                let forcing = forcing.slice(s![.., planes.clone(), .., ..]);
                let target = r.slice_mut(s![.., planes.clone(), .., ..]);
                in_planes(&mesh, planes, &(&state.view()).into(), &forcing, target, 1 + size % 2);
            }
            let r = r.slice(s![.., 1..-1, .., ..]);
            for rows in all_rows.clone().step_by(size).map(|j| j..(j + size).min(all_rows.end)) {
                let place = s![.., 1..-1, rows.clone(), ..];
                let mut own: Array4<f64> = state.slice(place).as_standard_layout().into_owned();
                in_rows(&mesh, rows.clone(), own.view_mut(), &r, 1);
                in_rows(&mesh, rows.clone(), state.slice_mut(place), &r, 1 + size % 2);
                assert!(state.slice(place) == own, "{benchmark:?}, rows {rows:?}");
            }
            assert!(state == whole, "{benchmark:?}, chunks of {size}");
        }
    }
}

#[test]
#[allow(clippy::single_range_in_vec_init)] // chunks are ranges
fn chunks_are_large_enough_and_bounded_in_number() {
    assert_eq!(chunks(1..5, 0.0), [1..5]);
    assert_eq!(chunks(1..5, -1.0), [1..5]);
    assert_eq!(chunks(1..8, 2.5 * WORTH), [1..5, 5..8]);
    assert_eq!(chunks(1..4, 1e9), [1..2, 2..3, 3..4]);
    assert_eq!(chunks(1..251, 1e9).len(), 16);
    for benchmark in ALL {
        let mesh = benchmark.problem(Class::A).meshes(benchmark)[15];
        let (_, operations) =
            described(benchmark, if benchmark == Benchmark::Lu { "residual" } else { "planes" }, &mesh);
        let interior = 1..mesh.shape.nz - 1;
        let cut = chunks(interior.clone(), operations);
        assert!(cut.len() > 1, "{benchmark:?}: {operations}");
        let least = cut.first().unwrap().len() as f64 / interior.len() as f64 * operations;
        assert!(least >= WORTH, "{benchmark:?}: {least}");
    }
}
