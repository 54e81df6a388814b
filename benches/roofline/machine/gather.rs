//! Gather rate: how many numbers per second are read from random places through sequentially read indices, as in the
//! product of a sparse matrix and a vector.

use std::hint::black_box;

use super::memory::Numbers;
use crate::crew::Crew;

/// Number of independent sums.
const SUMS: usize = 8;
/// Maximum number of indices, which also have to be read from memory at four bytes each.
const MOST: usize = 1 << 23;

/// Returns how many numbers per second all threads together gather. Each thread uses its own `bytes` bytes of memory,
/// including the indices.
pub(super) fn rate(crew: &Crew, bytes: usize, quick: bool) -> f64 {
    let len = (bytes / (size_of::<f64>() + size_of::<u32>())).max(64);
    let indices = len.min(MOST) / SUMS * SUMS;
    let at_once = if quick { 1 << 14 } else { 1 << 23 };
    let (times, passes) = (if quick { 2 } else { 7 }, (at_once / indices).max(1));
    let prepare = || (Numbers::new(len, 1.0), places(indices, len));
    let seconds = crew.time(times, prepare, |(numbers, places)| {
        for _ in 0..passes {
            black_box(sum(black_box(numbers.slice()), black_box(places.slice())));
        }
    });
    (passes * indices * crew.units()) as f64 / seconds
}

/// Returns random indices, from a linear congruence (Knuth, The Art of Computer Programming 2, section 3.3.4).
fn places(indices: usize, len: usize) -> Numbers<u32> {
    let mut state = 1u64;
    let mut places = Numbers::new(indices, 0);
    for place in places.slice_mut() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *place = ((u128::from(state) * len as u128) >> 64) as u32;
    }
    places
}

fn sum(numbers: &[f64], places: &[u32]) -> f64 {
    let mut sums = [0.0; SUMS];
    for places in places.as_chunks::<SUMS>().0 {
        for lane in 0..SUMS {
            sums[lane] += numbers[places[lane] as usize];
        }
    }
    sums.iter().sum()
}
