//! Jacobi iteration on a square: strips of rows, whose neighbours need only their border rows. The steps are recorded,
//! so their messages are planned once.
//!
//! `mpirun -np 4 target/release/examples/mpi_jacobi [SIZE] [STRIP] [STEPS]`

use std::error::Error;
use thalweg::Runtime;
use thalweg::ndarray::{Array2, ArrayView2, ArrayViewMut2, Ix2};
use thalweg_mpi::{Cluster, ClusterData, ClusterError, Recorder, owners};

/// Row `row` of the next iterate, from the rows above, at and below it.
fn relax(above: &[f64], row: &[f64], below: &[f64], next: &mut [f64]) {
    let last = row.len() - 1;
    (next[0], next[last]) = (row[0], row[last]);
    for j in 1..last {
        next[j] = 0.25 * (above[j] + below[j] + row[j - 1] + row[j + 1]);
    }
}

/// The next iterate of a strip. Rows without a neighbour are the border of the square, and keep their values.
fn strip(above: Option<&[f64]>, x: ArrayView2<'_, f64>, below: Option<&[f64]>, mut next: ArrayViewMut2<'_, f64>) {
    let rows = x.nrows();
    let row = |i: usize| x.row(i).to_slice().expect("rows are contiguous");
    for i in 0..rows {
        let up = if i > 0 { Some(row(i - 1)) } else { above };
        let down = if i + 1 < rows { Some(row(i + 1)) } else { below };
        let mut to = next.row_mut(i);
        let to = to.as_slice_mut().expect("rows are contiguous");
        match (up, down) {
            (Some(up), Some(down)) => relax(up, row(i), down, to),
            _ => to.copy_from_slice(row(i)),
        }
    }
}

/// Records a step from `x` to `next`, in strips of `rows` rows.
fn sweep<'d>(
    r: &Recorder<'_, 'd>,
    x: &'d ClusterData<f64, Ix2>,
    next: &'d ClusterData<f64, Ix2>,
    rows: usize,
) -> Result<(), ClusterError> {
    for tile in x.tiles() {
        let at = tile.number();
        let above = at.checked_sub(1).map(|above| x.nth(above).block((rows - 1, ..)).input());
        let below = (at + 1 < x.num_tiles()).then(|| x.nth(at + 1).block((0, ..)).input());
        let has_above = above.is_some();
        let halos: Vec<_> = above.into_iter().chain(below).collect();
        let task = r.task("relax", (tile.input(), halos, next.nth(at).output()));
        task.cpu(move |_, (x, halos, next)| {
            let mut halos = halos.iter().map(|halo| halo.to_slice().expect("a row is contiguous"));
            let above = if has_above { halos.next() } else { None };
            strip(above, x, halos.next(), next);
        })
        .submit()?;
    }
    Ok(())
}

fn begin(i: usize, j: usize, size: usize) -> f64 {
    if i == 0 || j == 0 || i + 1 == size || j + 1 == size { ((i * 31 + j * 17) % 11) as f64 } else { 0.0 }
}

fn sequential(size: usize, steps: usize) -> Array2<f64> {
    let mut x = Array2::from_shape_fn((size, size), |(i, j)| begin(i, j, size));
    let mut next = x.clone();
    for _ in 0..steps {
        strip(None, x.view(), None, next.view_mut());
        std::mem::swap(&mut x, &mut next);
    }
    x
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (size, rows, steps) = (number(0, 256).max(3), number(1, 32).max(1), number(2, 50));
    let cluster = Cluster::init(Runtime::builder().compute_units("1:CPU:1").pin_threads(false))?;
    let make = || -> ClusterData<f64, Ix2> { cluster.distributed([size, size], [rows, size], owners::block) };
    let (x, next) = (make(), make());
    for tile in x.tiles() {
        let first = tile.number() * rows;
        let fill = cluster.task("fill", tile.output());
        fill.cpu(move |_, mut x| x.indexed_iter_mut().for_each(|((i, j), x)| *x = begin(first + i, j, size)))
            .submit()?;
    }
    // Two steps, so that the result is in `x` again.
    let mut two_steps = cluster.record(|r| {
        sweep(r, &x, &next, rows)?;
        sweep(r, &next, &x, rows)
    })?;
    (0..steps / 2).try_for_each(|_| two_steps.replay())?;
    let mut last = cluster.record(|r| sweep(r, &x, &next, rows))?;
    (0..steps % 2).try_for_each(|_| last.replay())?;
    let result = if steps % 2 == 0 { &x } else { &next };
    cluster.wait()?;
    let traffic = cluster.traffic();
    println!(
        "rank {} of {}: {} messages, {} of them planned once, {} bytes",
        cluster.rank(),
        cluster.ranks(),
        traffic.messages,
        traffic.repeated,
        traffic.bytes
    );
    let same = cluster.gather(result)? == sequential(size, steps);
    println!("{}", if same { "VERIFIED" } else { "FAILED" });
    assert!(x.shape() == [size, size] && same, "the result differs from that of one loop");
    Ok(())
}
