//! Strassen's matrix product (1969), with 7 products of halves instead of 8, by nested tasks that create their
//! temporaries.
//!
//! The body of a product creates sums of quarters and seven products as new data objects (`at.zeros`), and submits
//! the tasks that fill and combine them as its children. It waits for none of them: the products are tasks that
//! hold their regions *weakly* and recurse in the same way. A temporary is dropped with the last task that uses it.
//! On devices, sums and products stay there.

mod common;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{Machine, Outcome, integer};
use ndarray::{Array1, Array2};
use thalweg::prelude::*;

/// Strassen's matrix product
#[derive(Parser)]
struct Options {
    /// Rows and columns
    #[arg(long, value_name = "N", default_value = "1024", value_parser = integer(1..=16384))]
    size: usize,
    /// Halve matrices that have more rows than this, and an even number of rows
    #[arg(long, value_name = "N", default_value = "128", value_parser = integer(8..=4096))]
    leaf: usize,
    /// Run a plain product instead, for comparison
    #[arg(long, conflicts_with_all = ["units", "scheduler", "simulate"])]
    serial: bool,
    #[command(flatten)]
    machine: Machine,
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| {
        let Options { size: n, leaf, .. } = options;
        // Small integers: the product is exact in any order of operations.
        let a = Array2::from_shape_fn((n, n), |(i, j)| ((i * 7 + j * 3) % 11) as f64 - 5.0);
        let b = Array2::from_shape_fn((n, n), |(i, j)| ((i * 5 + j * j) % 13) as f64 - 6.0);
        println!("{n} rows and columns, leaves of {leaf} or less");
        let start = (rt.now(), Instant::now());
        if options.serial {
            let product = a.dot(&b);
            return Ok(Outcome { elapsed: start.1.elapsed(), verified: Some(is_product(&a, &b, &product)) });
        }
        let product = rt.zeros([n, n]);
        let parts = [rt.array(a.clone()), rt.array(b.clone()), product.clone()].map(Part::of);
        let [x, y, z] = parts.clone();
        let accesses = (x.region().weak_input(), y.region().weak_input(), z.region().weak_inout());
        rt.task("multiply", accesses).host(move |at, _| multiply(at, parts.each_ref(), leaf)).submit()?;
        drop([x, y, z]);
        let product = rt.take(product)?;
        let elapsed = rt.now() - start.0;
        rt.wait()?;
        Ok(Outcome { elapsed, verified: Some(is_product(&a, &b, &product)) })
    })
}

/// A square block of a matrix.
#[derive(Clone)]
struct Part {
    data: Data<f64, Ix2>,
    first: [usize; 2],
    size: usize,
}

impl Part {
    /// Returns all of a square matrix.
    fn of(data: Data<f64, Ix2>) -> Self {
        let size = data.shape()[0];
        Self { data, first: [0, 0], size }
    }

    /// Returns a new matrix, for the children of the current task.
    fn temporary(at: &Context, size: usize) -> Self {
        Self::of(at.zeros([size, size]))
    }

    fn region(&self) -> Region<'_, f64, Ix2> {
        let [i, j] = self.first;
        self.data.block((i..i + self.size, j..j + self.size))
    }

    /// Returns the upper left, upper right, lower left and lower right quarter.
    fn quarters(&self) -> [Self; 4] {
        let (size, [i, j]) = (self.size / 2, self.first);
        [[i, j], [i, j + size], [i + size, j], [i + size, j + size]].map(|first| Self { first, size, ..self.clone() })
    }
}

/// Sets `z` to the product of `x` and `y`, by children of the current task.
fn multiply(at: &Context, [x, y, z]: [&Part; 3], leaf: usize) -> Result<(), SubmitError> {
    if z.size <= leaf || z.size % 2 == 1 {
        let accesses = (x.region().input(), y.region().input(), z.region().output());
        return at.task("leaf", accesses).cpu(|_, (x, y, mut z)| z.assign(&x.dot(&y))).submit().map(drop);
    }
    let ([x11, x12, x21, x22], [y11, y12, y21, y22]) = (x.quarters(), y.quarters());
    let sum = |terms: &[(f64, &Part)]| {
        let sum = Part::temporary(at, z.size / 2);
        add(at, &sum, terms).map(|()| sum)
    };
    let product = |x: &Part, y: &Part| {
        let z = Part::temporary(at, z.size / 2);
        let accesses = (x.region().weak_input(), y.region().weak_input(), z.region().weak_inout());
        let parts = [x.clone(), y.clone(), z.clone()];
        at.task("multiply", accesses).host(move |at, _| multiply(at, parts.each_ref(), leaf)).submit().map(|_| z)
    };
    let m1 = product(&sum(&[(1.0, &x11), (1.0, &x22)])?, &sum(&[(1.0, &y11), (1.0, &y22)])?)?;
    let m2 = product(&sum(&[(1.0, &x21), (1.0, &x22)])?, &y11)?;
    let m3 = product(&x11, &sum(&[(1.0, &y12), (-1.0, &y22)])?)?;
    let m4 = product(&x22, &sum(&[(1.0, &y21), (-1.0, &y11)])?)?;
    let m5 = product(&sum(&[(1.0, &x11), (1.0, &x12)])?, &y22)?;
    let m6 = product(&sum(&[(1.0, &x21), (-1.0, &x11)])?, &sum(&[(1.0, &y11), (1.0, &y12)])?)?;
    let m7 = product(&sum(&[(1.0, &x12), (-1.0, &x22)])?, &sum(&[(1.0, &y21), (1.0, &y22)])?)?;
    let [z11, z12, z21, z22] = z.quarters();
    add(at, &z11, &[(1.0, &m1), (1.0, &m4), (-1.0, &m5), (1.0, &m7)])?;
    add(at, &z12, &[(1.0, &m3), (1.0, &m5)])?;
    add(at, &z21, &[(1.0, &m2), (1.0, &m4)])?;
    add(at, &z22, &[(1.0, &m1), (-1.0, &m2), (1.0, &m3), (1.0, &m6)])
}

/// Sets `z` to a sum of parts, each multiplied by its factor.
fn add(at: &Context, z: &Part, terms: &[(f64, &Part)]) -> Result<(), SubmitError> {
    let factors: Vec<f64> = terms.iter().map(|(factor, _)| *factor).collect();
    let inputs: Vec<_> = terms.iter().map(|(_, part)| part.region().input()).collect();
    at.task("add", (inputs, z.region().output()))
        .cpu(move |_, (inputs, mut z)| {
            z.fill(0.0);
            inputs.iter().zip(&factors).for_each(|(x, &factor)| z.scaled_add(factor, x));
        })
        .submit()
        .map(drop)
}

/// Checks that `z` is the product, by applying both to vectors (Freivalds 1977).
fn is_product(x: &Array2<f64>, y: &Array2<f64>, z: &Array2<f64>) -> bool {
    (1..=8u64).all(|seed| {
        let bit = |i: usize| ((i as u64 + 1).wrapping_mul(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 63) as f64;
        let v = Array1::from_shape_fn(z.ncols(), bit);
        z.dot(&v) == x.dot(&y.dot(&v))
    })
}
