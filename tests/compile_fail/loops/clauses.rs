//! Clauses that are misspelled, incomplete, or do not fit the loop.

use thalweg::loops::target;

#[target(team(num = 4))]
fn misspelled(y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = 0.0;
    }
}

#[target(teams(thread_limit = 4096))]
fn too_many_threads(y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = 0.0;
    }
}

#[target(teams(firstprivate(a)))]
fn without_length(a: &[f64], y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = a[0];
    }
}

#[target(off(everything))]
fn off_what(y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = 0.0;
    }
}

#[target]
fn without_chunk(c: &[f64], y: &mut [f64]) {
    #[distribute(dist_firstprivate(c))]
    #[parallel_for]
    for i in 0..y.len() {
        y[i] = c[i];
    }
}

#[target]
fn too_much_memory(c: &[f64], y: &mut [f64]) {
    #[distribute(dist_firstprivate([8192] c))]
    #[parallel_for]
    for i in 0..y.len() {
        y[i] = c[i];
    }
}

#[target]
fn beside_the_chunk(c: &[f64], y: &mut [f64]) {
    #[distribute(dist_firstprivate([128] c))]
    #[parallel_for]
    for i in 1..y.len() {
        y[i] = c[i - 1];
    }
}

#[target]
fn written_back(c: &[f64], y: &mut [f64]) {
    #[distribute(dist_lastprivate([128] c))]
    #[parallel_for]
    for i in 0..y.len() {
        y[i] = c[i];
    }
}

#[target]
fn by_threads_alone(y: &mut [f64]) {
    #[parallel_for]
    for i in 0..y.len() {
        y[i] = 0.0;
    }
}

#[target]
fn teams_in_teams(y: &mut [f64]) {
    #[distribute]
    for i in 0..4usize {
        #[distribute]
        for j in 0..4usize {
            y[i * 4 + j] = 0.0;
        }
    }
}

#[target]
fn unknown_operation(x: &[f64], sum: &mut f64) {
    #[distribute]
    #[parallel_for(reduction(mean: sum))]
    for i in 0..x.len() {
        *sum += x[i];
    }
}

#[target]
fn other_attribute(y: &mut [f64]) {
    #[simd]
    for i in 0..y.len() {
        y[i] = 0.0;
    }
}

fn main() {}
