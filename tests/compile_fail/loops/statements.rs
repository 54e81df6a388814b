//! Statements that the body of a loop cannot contain.

use thalweg::loops::target;

#[target]
fn iterator(x: &[f64], y: &mut [f64]) {
    for (i, v) in x.iter().enumerate() {
        y[i] = *v;
    }
}

#[target]
fn matched(x: &[f64], y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = match i {
            0 => 1.0,
            _ => x[i],
        };
    }
}

#[target]
fn printed(y: &mut [f64]) {
    for i in 0..y.len() {
        println!("{i}");
        y[i] = 0.0;
    }
}

#[target]
fn summed(x: &[f64], y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = x.iter().sum();
    }
}

#[target]
fn endless(y: &mut [f64]) {
    for i in 0..y.len() {
        loop {
            y[i] += 1.0;
        }
    }
}

#[target]
fn ended(y: &mut [f64]) {
    for i in 0..y.len() {
        if y[i] > 0.0 {
            break;
        }
    }
}

#[target]
fn returned(y: &mut [f64]) {
    for i in 0..y.len() {
        return;
    }
}

#[target]
fn closed(y: &mut [f64]) {
    for i in 0..y.len() {
        let double = |v: f64| 2.0 * v;
        y[i] = double(1.0);
    }
}

#[target]
fn pair(y: &mut [f64]) {
    for i in 0..y.len() {
        let (a, b) = (1.0, 2.0);
        y[i] = a + b;
    }
}

#[target]
fn part(x: &[f64], y: &mut [f64]) {
    for i in 1..y.len() {
        let before = &x[i - 1..i];
        y[i] = before[0];
    }
}

#[target]
fn elsewhere(y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = scale;
    }
}

#[target]
fn outside(y: &mut [f64]) {
    y[0] = 1.0;
    for i in 1..y.len() {
        y[i] = 0.0;
    }
}

#[target]
fn stepped(y: &mut [f64]) {
    for i in (0..y.len()).step_by(2) {
        y[i] = 0.0;
    }
}

#[target]
fn labelled(y: &mut [f64]) {
    for i in 0..y.len() {
        'inner: for k in 0..4 {
            y[i] += 1.0;
            continue 'inner;
        }
    }
}

#[target]
fn fallible(x: &[f64], y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = x.get(i)?;
    }
}

fn main() {}
