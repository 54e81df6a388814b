//! A tiled matrix product: each task multiplies two tiles and adds the product to a third. Updates of the same
//! result tile run one at a time, in any order; all others are independent.

use ndarray::Array2;
use ndarray::linalg::general_mat_mul;
use thalweg::prelude::*;

const N: usize = 256;
const TILE: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rt = Runtime::builder().build()?;
    let left = Array2::from_shape_fn((N, N), |(i, j)| (i + 2 * j) as f64 % 7.0);
    let right = Array2::from_shape_fn((N, N), |(i, j)| (3 * i + j) as f64 % 5.0);
    let expected = left.dot(&right);
    let (a, b, c) = (rt.array(left), rt.array(right), rt.array(Array2::zeros((N, N))));

    let [left, right, product] = [&a, &b, &c].map(|matrix| matrix.tiles([TILE, TILE]));
    for i in 0..N / TILE {
        for j in 0..N / TILE {
            for k in 0..N / TILE {
                let (a, b, c) = (left.part([i, k]), right.part([k, j]), product.part([i, j]));
                rt.task("multiply", (a.input(), b.input(), c.commutative()))
                    .cpu(|_, (a, b, mut c)| general_mat_mul(1.0, &a, &b, 1.0, &mut c))
                    .submit()?;
            }
        }
    }

    assert_eq!(rt.take(c)?, expected, "whole numbers are not rounded, in any order");
    println!("{N} x {N}, {} tasks", (N / TILE).pow(3));
    Ok(())
}
