//! A matrix product in tiles: each task multiplies two tiles and adds the product to a third. Products for one tile of the
//! result follow each other, in any order; all others are independent.

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

    let tiles = || blocks(N, TILE);
    for i in tiles() {
        for j in tiles() {
            for k in tiles() {
                let a = a.block((i.clone(), k.clone())).input();
                let b = b.block((k, j.clone())).input();
                let c = c.block((i.clone(), j.clone())).commutative();
                rt.task("multiply", (a, b, c))
                    .cpu(|_, (a, b, mut c)| general_mat_mul(1.0, &a, &b, 1.0, &mut c))
                    .submit()?;
            }
        }
    }

    assert_eq!(rt.take(c)?, expected, "whole numbers: no rounding, whatever the order");
    println!("{N} x {N}, {} tasks", (N / TILE).pow(3));
    Ok(())
}
