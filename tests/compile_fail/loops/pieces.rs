//! Loops that cannot run in pieces.

use thalweg::loops::target;

#[target(split = 0)]
fn no_piece(y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = 0.0;
    }
}

#[target(split)]
fn two_loops(y: &mut [f64], z: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = 0.0;
    }
    for i in 0..z.len() {
        z[i] = 0.0;
    }
}

#[target(split, shared(y))]
fn scattered(at: &[u32], y: &mut [f64]) {
    for i in 0..at.len() {
        y[at[i] as usize] = 1.0;
    }
}

#[target(split, teams(private(t: 8)))]
fn of_teams(t: &mut [f64], y: &mut [f64]) {
    #[distribute]
    for i in 0..y.len() {
        #[parallel_for]
        for j in 0..8usize {
            t[j] = 0.0;
        }
    }
}

fn main() {}
