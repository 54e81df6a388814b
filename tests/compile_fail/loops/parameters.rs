//! Signatures that a function of loops cannot have.

use thalweg::loops::{device, target};

#[target]
fn owned(x: Vec<f64>, y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = x[i];
    }
}

#[target]
fn of_text(x: &[String], y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = 0.0;
    }
}

#[target]
fn general<T: Copy>(x: &[T], y: &mut [T]) {
    for i in 0..y.len() {
        y[i] = x[i];
    }
}

#[target]
fn returning(x: &[f64]) -> f64 {
    for i in 0..x.len() {
        x[i];
    }
}

#[target]
fn four(x: &thalweg::ndarray::Array4<f64>, y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = 0.0;
    }
}

#[target]
async fn later(y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = 0.0;
    }
}

#[device]
fn whole(x: &[f64]) -> f64 {
    x[0]
}

#[device]
fn nothing(x: f64) {
    let _y = x;
}

fn main() {}
