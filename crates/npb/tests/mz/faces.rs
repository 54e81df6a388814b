//! Compares face arrays with faces that are exchanged in place.

use ndarray::{Array4, s};
use npb::mz::exchange::{Side, inner_face, outer_face};
use npb::mz::faces::{Halo, State, receive, send, shapes};
use npb::mz::initial::exact_state;
use npb::mz::operator::residual_of;
use npb::mz::{Benchmark, Mesh, Shape};

/// Returns a zone that is its own neighbour on all sides, and the faces that it sends.
fn zone([nx, ny, nz]: [usize; 3]) -> (Mesh, Array4<f64>, [Array4<f64>; 4]) {
    let shape = Shape { nx, ny, nz };
    let mesh = Mesh::new(Benchmark::Sp, shape, [2 * nx + 1, 3 * ny, nz], [2, 2], 0.01);
    let mut u = exact_state(&mesh);
    // Make all numbers different.
    u.iter_mut().enumerate().for_each(|(number, value)| *value *= 1.0 + 1e-6 * number as f64);
    let mut faces = shapes(shape).map(Array4::zeros);
    send(&u.view(), faces.each_mut().map(|face| face.view_mut()));
    (mesh, u, faces)
}

fn halo(shape: Shape, faces: &[Array4<f64>; 4]) -> Halo<'_> {
    Halo::new(shape, faces.each_ref().map(|face| face.view()))
}

/// Returns the zone with its faces exchanged in place.
fn exchanged(shape: Shape, u: &Array4<f64>) -> Array4<f64> {
    let mut exchanged = u.clone();
    for side in Side::ALL {
        let ((m, z, y, x), (fm, fz, fy, fx)) = (outer_face(shape, side), inner_face(shape, side));
        exchanged.slice_mut(s![m, z, y, x]).assign(&u.slice(s![fm, fz, fy, fx]));
    }
    exchanged
}

const SHAPES: [[usize; 3]; 6] = [[6, 6, 6], [7, 9, 8], [8, 6, 6], [9, 7, 6], [16, 17, 7], [13, 21, 16]];

#[test]
fn sent_and_received_faces_match_exchange() {
    for points in SHAPES {
        let (mesh, mut u, faces) = zone(points);
        let expected = exchanged(mesh.shape, &u);
        receive(u.view_mut(), halo(mesh.shape, &faces));
        assert_eq!(u, expected, "{points:?}");
        assert_ne!(u, exact_state(&mesh));
    }
}

/// In this test, the zone's own outer faces hold arbitrary finite numbers.
#[test]
fn operator_reads_halo_instead_of_outer_faces() {
    for points in SHAPES {
        let (mesh, mut u, faces) = zone(points);
        let none = Array4::zeros(u.raw_dim());
        let of = |state: &State<'_>, threads| {
            let mut r = none.clone();
            residual_of(&mesh, state, &none.view(), r.view_mut(), threads);
            r
        };
        let expected = of(&State::from(&exchanged(mesh.shape, &u).view()), 1);
        for side in Side::ALL {
            let (m, z, y, x) = outer_face(mesh.shape, side);
            u.slice_mut(s![m, z, y, x]).fill(1e9);
        }
        for threads in [1, 3] {
            assert_eq!(of(&State::new(u.view(), Some(halo(mesh.shape, &faces))), threads), expected, "{points:?}");
        }
    }
}
