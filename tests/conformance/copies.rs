//! Copies, flat and strided: to a device, back, and from one device to another.

use super::{kernels, runtime_of};
use ndarray::{Array2, Array3, Array4, s};
use thalweg::machine::UnitKind;
use thalweg::prelude::*;

pub(crate) fn whole_arrays_survive_copies_to_a_device_and_back(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 1, u64::MAX);
    for n in [1, 7, 64, 1000, 300_000] {
        let x: Vec<u64> = (0..n).collect();
        let data = rt.data(x.clone());
        kernels::mix(&rt, data.all(), rt.data(vec![0; n as usize]).all(), 0);
        let y = rt.data(vec![5; n as usize]);
        kernels::mix(&rt, data.all(), y.all(), 9);
        assert_eq!(rt.take(y).unwrap(), x.iter().map(|x| 5 * 31 + x + 9).collect::<Vec<_>>());
        assert_eq!(rt.take(data).unwrap(), x);
    }
}

pub(crate) fn boxes_of_two_to_four_dimensions_match_host(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 1, u64::MAX);
    let mut n = 0;
    let mut next = move || {
        n += 1;
        n
    };
    let mut plane = Array2::from_shape_simple_fn((9, 11), &mut next);
    let a = rt.array(plane.clone());
    for (r, c) in [(0..9, 0..11), (2..5, 3..4), (8..9, 0..11), (1..9, 10..11), (3..4, 4..5)] {
        rt.task("add", (a.block((r.clone(), c.clone())).inout(),))
            .gpu(|k, (y,)| kernels::add(k, y, 3))
            .cpu(|_, (mut y,)| y.mapv_inplace(|y| y * 7 + 3))
            .submit()
            .unwrap();
        plane.slice_mut(s![r, c]).mapv_inplace(|y| y * 7 + 3);
    }
    assert_eq!(rt.take(a).unwrap(), plane);

    let mut cube = Array3::from_shape_simple_fn((5, 6, 7), &mut next);
    let a = rt.array(cube.clone());
    for (i, j, k) in [(0..5, 0..6, 6..7), (0..5, 2..3, 0..7), (4..5, 0..6, 0..7), (1..4, 1..5, 1..6)] {
        rt.task("add", (a.block((i.clone(), j.clone(), k.clone())).inout(),))
            .gpu(|k, (y,)| kernels::add(k, y, 5))
            .cpu(|_, (mut y,)| y.mapv_inplace(|y| y * 7 + 5))
            .submit()
            .unwrap();
        cube.slice_mut(s![i, j, k]).mapv_inplace(|y| y * 7 + 5);
    }
    assert_eq!(rt.take(a).unwrap(), cube);

    let mut four = Array4::from_shape_simple_fn((3, 5, 6, 7), &mut next);
    let a = rt.array(four.clone());
    for (j, k, l) in [(1..4, 1..5, 0..1), (1..4, 5..6, 1..6), (4..5, 0..6, 0..7), (0..5, 0..6, 0..7)] {
        rt.task("add", (a.block((0..3, j.clone(), k.clone(), l.clone())).inout(),))
            .gpu(|k, (y,)| kernels::add(k, y, 1))
            .cpu(|_, (mut y,)| y.mapv_inplace(|y| y * 7 + 1))
            .submit()
            .unwrap();
        four.slice_mut(s![.., j, k, l]).mapv_inplace(|y| y * 7 + 1);
    }
    assert_eq!(rt.take(a).unwrap(), four);
}

pub(crate) fn arrays_are_copied_from_device_to_device(kind: UnitKind) {
    let rt = runtime_of(kind, 0, 2, u64::MAX);
    let (first, second) = (SpaceId(1), SpaceId(2));
    let mut cube = Array3::from_shape_fn((8, 9, 10), |(i, j, k)| (i * 100 + j * 10 + k) as u64);
    let x = rt.array(cube.clone());
    for step in 0..6u64 {
        let to = if step % 2 == 0 { first } else { second };
        rt.fetch(&x.block((1..7, 2..8, 3..9)), to).unwrap();
        assert!(x.block((1..7, 2..8, 3..9)).valid_in().contains(&to));
        let task = rt.task("add", (x.block((1..7, 2..8, 3..9)).inout(),));
        task.gpu(move |k, (y,)| kernels::add(k, y, step))
            .cpu(move |_, (mut y,)| y.mapv_inplace(|y| y * 7 + step))
            .submit()
            .unwrap();
        cube.slice_mut(s![1..7, 2..8, 3..9]).mapv_inplace(|y| y * 7 + step);
        rt.wait().unwrap();
    }
    assert_eq!(rt.take(x).unwrap(), cube);
    let links = rt.statistics().links;
    let between = links.iter().filter(|link| !link.from.is_host() && !link.to.is_host());
    assert!(between.count() > 0, "no copy went from device to device: {links:?}");
}

/// Stencil sweeps on one unit with two devices: parts stay on their devices, and only halos are copied between them.
pub(crate) fn loop_spread_over_devices_copies_halos_only(kind: UnitKind) {
    const N: usize = 10_001;
    const STEPS: u64 = 20;
    let rt = Runtime::builder().compute_units(format!("1:{kind}:2")).build().unwrap();
    let devices = &rt.machine().unit(UnitId(0)).devices;
    let mut expected: Vec<u64> = (0..N as u64).collect();
    let (mut x, mut y) = (rt.data(expected.clone()), rt.zeros(N));
    let size = N.div_ceil(devices.len());
    for _ in 0..STEPS {
        kernels::step(&rt, &x, &y, size, devices);
        std::mem::swap(&mut x, &mut y);
        let before = expected.clone();
        kernels::stepped(&before, &mut expected, 0);
    }
    rt.wait().unwrap();
    let spaces: Vec<_> = [&x.slice(..size), &x.slice(size..)].map(|part| part.valid_in()).into();
    assert_eq!(spaces, devices.iter().map(|device| [device.space()]).collect::<Vec<_>>());
    let links = rt.statistics().links;
    let bytes = |from_home: bool| {
        let between = links.iter().filter(|link| link.from != link.to && link.from.is_host() == from_home);
        between.map(|link| link.bytes).sum::<u64>()
    };
    // In each step, the halo between the two parts is copied once in each direction. In the first step, it may come
    // from the host.
    assert_eq!(bytes(true) + bytes(false), 8 * (N as u64 + 2 * STEPS));
    assert!(bytes(false) >= 8 * 2 * (STEPS - 1));
    assert_eq!(rt.take(x).unwrap(), expected);
}
