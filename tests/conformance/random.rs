//! Ten thousand tasks with random regions, compared with a sequential run on the host.

#[path = "../common/random.rs"]
mod numbers;

use super::{kernels, runtime_of};
use ndarray::{Array3, s};
use numbers::Random;
use thalweg::machine::UnitKind;

const TASKS: usize = 10_000;
const ARRAYS: usize = 5;
const N: usize = 400;
const SIDES: [usize; 3] = [9, 10, 11];

pub(crate) fn random_tasks(kind: UnitKind, cpu_units: usize, devices: usize) {
    // The arrays do not all fit at once, so replicas are evicted and copied again.
    let rt = runtime_of(kind, cpu_units, devices, 12_000);
    let mut random = Random(cpu_units as u64 * 100 + devices as u64);
    let mut arrays: Vec<Vec<u64>> = (0..ARRAYS as u64).map(|n| vec![n; N]).collect();
    let data: Vec<_> = arrays.iter().map(|array| rt.data(array.clone())).collect();
    let mut cube = Array3::<u64>::zeros(SIDES);
    let cube_data = rt.array(cube.clone());
    for task in 0..TASKS as u64 {
        let (x, y) = (random.below(ARRAYS), random.below(ARRAYS));
        let (from, to) = (random.range(N), random.range(N));
        match random.below(8) {
            0 => {
                kernels::fill(&rt, data[y].slice(to.clone()), task);
                arrays[y][to].fill(task);
            }
            1 => {
                let [i, j, k] = SIDES.map(|side| random.range(side));
                rt.task("add", (cube_data.block((i.clone(), j.clone(), k.clone())).inout(),))
                    .gpu(move |k, (y,)| kernels::add(k, y, task))
                    .cpu(move |_, (mut y,)| y.mapv_inplace(|y| y.wrapping_mul(7).wrapping_add(task)))
                    .submit()
                    .unwrap();
                cube.slice_mut(s![i, j, k]).mapv_inplace(|y| y.wrapping_mul(7).wrapping_add(task));
            }
            2 => {
                kernels::slow(&rt, data[y].slice(to.clone()), 50);
                kernels::slowed(&mut arrays[y][to], 50);
            }
            _ if x != y => {
                let len = from.len().min(to.len());
                let (from, to) = (from.start..from.start + len, to.start..to.start + len);
                kernels::mix(&rt, data[x].slice(from.clone()), data[y].slice(to.clone()), task);
                let values = arrays[x][from].to_vec();
                kernels::mixed(&values, &mut arrays[y][to], task);
            }
            _ => {}
        }
        if random.below(500) == 0 {
            assert_eq!(rt.read(&data[y].slice(3..9)).unwrap(), arrays[y][3..9]);
        }
    }
    assert_eq!(rt.take(cube_data).unwrap(), cube);
    for (n, (data, expected)) in data.into_iter().zip(arrays).enumerate() {
        assert_eq!(rt.take(data).unwrap(), expected, "array {n}");
    }
}
